//! Bodies that never end and never pause: a timeout holds although there is always more to read.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use unstall_bench_harness::engine::{BlockMeasurement, BlockSpec, ProbeSpec, Target};
use unstall_results::record::ErrorKind;
use unstall_scenarios::Plan;

use crate::support::{cold, parse, run};

const REQUESTS: u64 = 4;
/// Tells what ended from what hangs, on the slowest machine.
const HUNG: Duration = Duration::from_secs(60);

/// A service that answers `/ok` at once, and everything else with small chunks as fast as they
/// are taken, until the client hangs up.
fn endless() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client hangs up in the middle: that's how each of them ends.
            thread::spawn(move || drop(answer(stream)));
        }
    });
    Target::loopback(port).to_string()
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let chunks = b"2\r\n{}\r\n".repeat(16 * 1024);
    let mut head = Vec::new();
    let mut part = [0; 4_096];
    loop {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&part[..length]),
        }
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        if head.starts_with(b"GET /ok ") {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
            head.clear();
            continue;
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
        loop {
            stream.write_all(&chunks)?;
        }
    }
}

/// A block against such a service; a panic if it hangs.
fn ended(plan: Arc<Plan>, spec: BlockSpec) -> BlockMeasurement {
    let (sender, block) = mpsc::channel();
    thread::spawn(move || {
        let block = run(&plan, &endless(), &spec);
        sender.send(Box::new(block)).expect("the test waits for it");
    });
    *block
        .recv_timeout(HUNG)
        .expect("the block comes to its end")
}

fn plan(path: &str, more: &str) -> Arc<Plan> {
    parse(&format!(
        "name = \"test\"\n[[request]]\nname = \"it\"\nmethod = \"GET\"\npath = \"{path}\"\n\
         timeout = \"200ms\"\n{more}\n"
    ))
}

#[test]
fn a_body_without_end_times_out() {
    for more in [
        "",
        "stream = { decoder = \"json-objects\", idle_timeout = \"100ms\" }",
    ] {
        let block = ended(plan("/endless", more), cold(2, REQUESTS));
        let expected = [(ErrorKind::Timeout, REQUESTS)].into();
        assert_eq!(block.errors, expected, "{more}: {:?}", block.examples);
        assert_eq!((block.offered, block.completed), (REQUESTS, 0), "{more}");
        let fastest_us = block.endpoints["it"].failed.quantile_us(0.0);
        assert!(fastest_us.is_some_and(|us| us >= 200_000), "{fastest_us:?}");
    }
}

#[test]
fn a_route_without_end_is_none_to_probe() {
    let spec = BlockSpec {
        probe: Some(ProbeSpec {
            path: "/endless".to_owned(),
            rate_per_second: 50.0,
            is_proven: false,
        }),
        ..cold(1, REQUESTS)
    };
    let block = ended(plan("/ok", ""), spec);
    assert_eq!(block.completed, REQUESTS, "{:?}", block.examples);
    let refusal = block.probe.and_then(|probe| probe.refusal);
    assert!(
        refusal.as_ref().is_some_and(|text| text.contains("within")),
        "{refusal:?}"
    );
}
