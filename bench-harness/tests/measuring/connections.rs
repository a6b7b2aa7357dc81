//! When a connection is used again, what a new one costs, and who pays for it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{Backlog, listen};
use unstall_bench_harness::engine::{Access, Progress, Stop, Target, TargetOptions, run_block};
use unstall_results::record::{EndpointSamples, ErrorKind};
use unstall_testbed::{Behaviour, FaultyServer};

use crate::support::{cold, plan, run};

const CLOSING: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const OK: &str = "timeout = \"5s\"\nexpect = { status = 200 }";

fn opened(samples: &EndpointSamples) -> u64 {
    samples.tcp.as_ref().map_or(0, |tcp| tcp.count())
}

/// A server that sends these bytes for each request; what it counts are its connections.
fn sending(bytes: &'static [u8]) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let connections = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&connections);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            // The client hangs up: that's how each of them ends.
            thread::spawn(move || drop(answer(stream, bytes)));
        }
    });
    (Target::loopback(port).to_string(), connections)
}

fn answer(mut stream: TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 4_096];
    loop {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            length => request.extend_from_slice(&part[..length]),
        }
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            stream.write_all(bytes)?;
        }
    }
}

/// A full queue means that the service is busy, whatever kind of socket it listens at.
#[test]
fn a_full_queue_of_a_unix_socket_is_a_wait_and_no_error() {
    const USERS: u32 = 30;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sock");
    let listener = UnixListener::bind(&path).expect("a free path");
    // Shorter than the users are many.
    listen(&listener, Backlog::new(2).expect("a length")).expect("it listens again");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Users are faster than this.
            thread::sleep(Duration::from_millis(3));
            // Whoever has gone needs no answer.
            let read = stream.read(&mut [0; 4_096]);
            let _ = read.and_then(|_| stream.write_all(CLOSING));
        }
    });
    let url = format!("unix:{}", path.display());
    let users = u64::from(USERS);
    let block = run(&plan(&[("it", "GET", "/")], OK), &url, &cold(USERS, users));
    assert_eq!(block.errors, BTreeMap::new(), "{:?}", block.examples);
    assert_eq!((block.sent, block.completed), (users, users));
    // Who waits pays: the last of them waited for nearly all others.
    let tcp = block.endpoints["it"]
        .tcp
        .as_ref()
        .expect("all of them opened one");
    assert_eq!(tcp.count(), users);
    assert!(tcp.max_us() >= Some(50_000), "{:?}", tcp.max_us());
}

/// What a service closes while nobody waits is replaced, and no failure.
#[test]
fn case_4_a_connection_that_was_closed_while_idle_is_replaced() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let think = format!("{OK}\nthink = \"100ms\"");
    let plan = plan(&[("it", "GET", "/close-after")], &think);
    let block = run(&plan, &server.url(), &cold(2, 10));
    assert_eq!(block.errors, BTreeMap::new(), "{:?}", block.examples);
    assert_eq!((block.sent, block.completed), (10, 10));
    assert_eq!(server.counts("/close-after").requests, 10, "none twice");
    assert_eq!(server.connections(), 10);
    assert_eq!(opened(&block.endpoints["it"]), 10);
}

#[test]
fn what_comes_behind_an_answer_costs_the_connection_and_is_no_answer() {
    let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 500 Never Asked\r\n\r\n";
    let (url, connections) = sending(bytes);
    let block = run(&plan(&[("it", "GET", "/")], OK), &url, &cold(2, 10));
    assert_eq!(block.errors, BTreeMap::new(), "{:?}", block.examples);
    assert_eq!(block.completed, 10);
    assert_eq!(connections.load(Ordering::SeqCst), 10);
}

#[test]
fn the_request_that_opens_a_connection_pays_for_it() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let requests = plan(&[("first", "GET", "/ok"), ("next", "GET", "/ok")], OK);
    let block = run(&requests, &server.url(), &cold(3, 30));
    assert_eq!((block.completed, server.connections()), (60, 3));
    let [first, next] = ["first", "next"].map(|name| &block.endpoints[name]);
    assert_eq!((opened(first), opened(next)), (3, 0));
    assert!(
        first.dns.is_none() && first.tls.is_none(),
        "an address, without TLS"
    );
    assert!(next.tcp.is_none());

    let named = format!("http://localhost:{}", server.addr().port());
    let block = run(&requests, &named, &cold(3, 30));
    let first = &block.endpoints["first"];
    assert_eq!(first.dns.as_ref().map(|dns| dns.count()), Some(3));
    assert_eq!(opened(first), 3);
}

/// Who waited for a name or a handshake in vain has paid for it, too: a histogram of those alone
/// that came through would look fine.
#[test]
fn what_failed_or_was_cut_off_is_in_the_times_of_its_phase() {
    let silent = FaultyServer::start(Behaviour::Silent).expect("a server starts");
    let access = Access::resolve(&TargetOptions {
        insecure: true,
        ..TargetOptions::default()
    });
    let url = format!("https://127.0.0.1:{}", silent.addr().port());
    let target = Target::reached_by(&url, &access.expect("no file is read")).expect("a URL");
    let (stop, progress) = (Stop::new(), Arc::new(Progress::new()));
    let it = plan(&[("it", "GET", "/")], "timeout = \"300ms\"");
    let block = run_block(&it, &target, &cold(2, 4), &stop, &progress).expect("a block");
    assert_eq!(block.errors, BTreeMap::from([(ErrorKind::Timeout, 4)]));
    let samples = &block.endpoints["it"];
    let tls = samples.tls.as_ref().expect("handshakes were begun");
    assert_eq!((tls.count(), opened(samples)), (4, 4));
    // Of 300 ms that began a little before.
    assert!(tls.max_us() >= Some(100_000), "{:?}", tls.max_us());

    let block = run(&it, "http://no-such-host.invalid", &cold(2, 4));
    let samples = &block.endpoints["it"];
    assert_eq!(samples.dns.as_ref().map(|dns| dns.count()), Some(4));
    assert_eq!((block.completed, opened(samples)), (0, 0));
}

#[test]
fn what_speaks_no_http_is_told_with_what_to_do() {
    // An alert of TLS 1.2.
    let (url, _) = sending(b"\x15\x03\x03\x00\x02\x02\x46");
    let block = run(&plan(&[("it", "GET", "/")], OK), &url, &cold(1, 3));
    assert_eq!(block.errors, BTreeMap::from([(ErrorKind::Protocol, 3)]));
    let message = &block.examples[0].message;
    assert!(message.contains("https://"), "{message}");
}
