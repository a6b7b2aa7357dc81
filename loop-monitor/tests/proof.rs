//! Planted calls under the proof: every one that can block is caught with its line, also when it
//! returns at once, and what leaves the loop to others isn't.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::disallowed_methods,
    reason = "the blocking calls are the canaries"
)]

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use http::{Request, Response};
use tokio::runtime::Runtime;
use tower::{Layer, Service, service_fn};
use unstall_loop_monitor::Monitor;
use unstall_loop_monitor::cause::CauseClass;
use unstall_loop_monitor::certificate::{ProofMethod, RouteProof, RouteVerdict};
use unstall_loop_monitor::prove::{self, Proof};

const REQUESTS: u64 = 400;

fn monitor() -> Monitor {
    let monitor = Monitor::builder().prove(Proof::SystemCalls).build();
    let method = monitor.proof_method();
    assert_eq!(
        *method,
        ProofMethod::SyscallUserDispatch,
        "these tests need a kernel that can catch calls"
    );
    monitor
}

fn runtimes() -> [(&'static str, Runtime); 2] {
    let mut one = tokio::runtime::Builder::new_current_thread();
    let mut two = tokio::runtime::Builder::new_multi_thread();
    [
        ("one loop", one.enable_all().build().expect("a runtime")),
        (
            "two loops",
            two.worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime"),
        ),
    ]
}

/// Sends requests to `handler`, each in a task of its own, and returns what was proven of it.
fn exercise<F, H>(runtime: &Runtime, requests: u64, handler: H) -> RouteProof
where
    H: Fn() -> F + Clone + Send + 'static,
    F: Future<Output: Send> + Send + 'static,
{
    let monitor = monitor();
    let layer = monitor.layer_by(|_: &Request<()>| "/canary".to_owned());
    let mut service = layer.layer(service_fn(move |_: Request<()>| {
        let handled = handler();
        async move {
            handled.await;
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    }));
    runtime.block_on(async {
        for _ in 0..requests {
            let task = tokio::spawn(service.call(Request::new(())));
            let answer = task.await.expect("no panic");
            assert!(answer.is_ok());
        }
    });
    let mut certificate = monitor.certificate();
    let proof = certificate.routes.remove("GET /canary").expect("exercised");
    assert_eq!(proof.requests, requests);
    assert!(proof.polls >= requests, "{proof:?}");
    proof
}

/// Wants each of the requests to have been caught, in this file, from `line` on.
#[track_caller]
fn caught(case: &str, proof: &RouteProof, class: CauseClass, calls: &[&str], line: u32) {
    let of_call = |call: &str| -> u64 {
        let here = proof.findings.iter().filter(|finding| {
            let cause = &finding.cause;
            let blamed = cause.blamed().expect("a line");
            cause.class == class
                && cause.syscall.as_deref() == Some(call)
                && blamed
                    .file
                    .as_deref()
                    .is_some_and(|file| file.ends_with("tests/proof.rs"))
                && blamed.line.is_some_and(|at| (line..line + 8).contains(&at))
        });
        here.map(|finding| finding.count).sum()
    };
    let most = calls.iter().map(|call| of_call(call)).max();
    assert!(
        most.is_some_and(|most| most >= REQUESTS),
        "{case}: {most:?} of {REQUESTS} in {calls:?} at line {line}: {:#?}",
        proof.findings
    );
}

#[track_caller]
fn clean(case: &str, proof: &RouteProof) {
    assert!(proof.findings.is_empty(), "{case}: {:#?}", proof.findings);
}

/// Answers at once, so that the caller's read finds the answer there.
fn instant_peer() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            thread::spawn(move || {
                let mut question = [0; 1];
                while stream.read_exact(&mut question).is_ok() {
                    stream.write_all(b"!").expect("the asker waits");
                }
            });
        }
    });
    address
}

#[test]
fn a_cached_read_is_caught_every_time() {
    for (case, runtime) in runtimes() {
        let line = line!() + 1;
        let proof = exercise(&runtime, REQUESTS, || async {
            std::fs::read("/etc/hostname").map_or(0, |bytes| bytes.len())
        });
        caught(case, &proof, CauseClass::Io, &["openat"], line);
        caught(case, &proof, CauseClass::Io, &["read"], line);
        let paths = proof.findings.iter().filter_map(|finding| {
            let target = finding.cause.target.as_ref()?;
            Some(target.what.as_str())
        });
        assert!(
            paths.clone().all(|path| path == "/etc/hostname"),
            "{:?}",
            paths.collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_sleep_is_caught_every_time() {
    for (case, runtime) in runtimes() {
        let line = line!() + 1;
        let proof = exercise(&runtime, REQUESTS, || async {
            thread::sleep(Duration::from_micros(1));
        });
        let calls = ["clock_nanosleep", "nanosleep"];
        caught(case, &proof, CauseClass::Sleep, &calls, line);
    }
}

#[test]
fn an_instant_answer_of_a_peer_is_caught_every_time_with_its_address() {
    let peer = instant_peer();
    for (case, runtime) in runtimes() {
        let line = line!() + 1;
        let proof = exercise(&runtime, REQUESTS, move || async move {
            let mut stream = TcpStream::connect(peer).expect("the peer listens");
            stream.write_all(b"?").expect("sent");
            let mut answer = [0; 1];
            stream.read_exact(&mut answer).expect("an answer");
        });
        for call in ["connect", "recvfrom"] {
            caught(case, &proof, CauseClass::Io, &[call], line);
        }
        for finding in &proof.findings {
            let target = finding.cause.target.as_ref().expect("a peer");
            assert_eq!(target.what, peer.to_string(), "{case}: {finding:?}");
        }
    }
}

#[test]
fn a_name_lookup_is_caught_every_time() {
    for (case, runtime) in runtimes() {
        let line = line!() + 1;
        let proof = exercise(&runtime, REQUESTS, || async {
            ("localhost", 80)
                .to_socket_addrs()
                .map_or(0, Iterator::count)
        });
        // The file /etc/hosts, or a question to a server of names: what this machine is set up for.
        let calls = [
            "openat",
            "newfstatat",
            "connect",
            "poll",
            "sendto",
            "recvfrom",
        ];
        caught(case, &proof, CauseClass::Io, &calls, line);
    }
}

/// Holds a lock until the thread that asked sleeps in its own `lock`.
struct Holder {
    lock: Arc<Mutex<u64>>,
    /// Set by the asker, which from then on sleeps nowhere but in `lock`.
    is_next: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Holder {
    fn start(lock: &Arc<Mutex<u64>>) -> Self {
        let is_next = Arc::new(AtomicBool::new(false));
        let asker = nix::unistd::gettid();
        let (taken, is_taken) = std::sync::mpsc::channel();
        let (theirs, next) = (Arc::clone(lock), Arc::clone(&is_next));
        let thread = thread::spawn(move || {
            let mut held = theirs.lock().expect("no panic");
            taken.send(()).expect("the asker waits");
            let sleeps = || {
                let stat = std::fs::read_to_string(format!("/proc/self/task/{asker}/stat"));
                stat.expect("it lives").contains(") S ")
            };
            while !next.load(SeqCst) || !sleeps() {
                thread::yield_now();
            }
            *held += 1;
        });
        is_taken.recv().expect("the holder sends");
        Self {
            lock: Arc::clone(lock),
            is_next,
            thread,
        }
    }
}

#[test]
fn a_contended_lock_is_caught_every_time() {
    let helper = "the canary's own helper";
    for (case, runtime) in runtimes() {
        let lock = Arc::new(Mutex::new(0));
        let line = line!() + 6;
        let proof = exercise(&runtime, REQUESTS, move || {
            let lock = Arc::clone(&lock);
            async move {
                let holder = prove::exempt(helper, || Holder::start(&lock));
                holder.is_next.store(true, SeqCst);
                *holder.lock.lock().expect("no panic") += 1;
                prove::exempt(helper, || holder.thread.join().expect("ends"));
            }
        });
        caught(case, &proof, CauseClass::Lock, &["futex"], line);
        // In that line and nowhere else.
        assert_eq!(proof.findings.len(), 1, "{case}: {:#?}", proof.findings);
        let exempt = proof
            .exemptions
            .iter()
            .find(|exempt| exempt.reason == helper);
        assert!(exempt.is_some_and(|exempt| exempt.count > 0), "{proof:?}");
    }
}

#[test]
fn a_child_process_is_caught_every_time_and_works() {
    for (case, runtime) in runtimes() {
        let line = line!() + 1;
        let proof = exercise(&runtime, REQUESTS, || async {
            let mut child = std::process::Command::new("/bin/true")
                .spawn()
                .expect("started");
            assert!(child.wait().expect("waited for").success());
        });
        let calls = ["clone", "clone3", "vfork", "fork"];
        caught(case, &proof, CauseClass::Spawn, &calls, line);
        caught(case, &proof, CauseClass::Spawn, &["wait4", "waitid"], line);
    }
}

#[test]
fn a_sync_to_disk_is_caught_every_time() {
    for (case, runtime) in runtimes() {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let line = line!() + 1;
        let proof = exercise(&runtime, REQUESTS, move || {
            let file = Arc::clone(&file);
            async move { file.sync_all().expect("synced") }
        });
        caught(case, &proof, CauseClass::Io, &["fsync"], line);
    }
}

#[test]
fn what_leaves_the_loop_to_others_is_clean() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let peer = instant_peer();
    for (case, runtime) in runtimes() {
        let spin = exercise(&runtime, REQUESTS, || async {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(50) {
                std::hint::spin_loop();
            }
        });
        clean(case, &spin);
        let allocation = exercise(&runtime, REQUESTS, || async {
            let numbers: Vec<String> = (0..2_000u32).map(|number| number.to_string()).collect();
            let large = vec![1u8; 4 << 20];
            numbers.join(",").len() + large.len()
        });
        clean(case, &allocation);
        let sleep = exercise(&runtime, REQUESTS, || {
            tokio::time::sleep(Duration::from_micros(100))
        });
        clean(case, &sleep);
        let rpc = exercise(&runtime, REQUESTS, move || async move {
            let mut stream = tokio::net::TcpStream::connect(peer).await.expect("listens");
            stream.write_all(b"?").await.expect("sent");
            let mut answer = [0; 1];
            stream.read_exact(&mut answer).await.expect("an answer");
        });
        clean(case, &rpc);
        let lookup = exercise(&runtime, REQUESTS, || async {
            tokio::net::lookup_host("localhost:80")
                .await
                .map_or(0, Iterator::count)
        });
        clean(case, &lookup);
        let file = exercise(&runtime, REQUESTS, || async {
            tokio::fs::read("/etc/hostname")
                .await
                .map_or(0, |bytes| bytes.len())
        });
        clean(case, &file);
        let pool = exercise(&runtime, REQUESTS, || async {
            let pause = || thread::sleep(Duration::from_micros(100));
            tokio::task::spawn_blocking(pause).await.expect("no panic");
        });
        clean(case, &pool);
    }
}

#[test]
fn block_in_place_and_exemptions_are_listed_and_no_findings() {
    let [_, (_, runtime)] = runtimes();
    let proof = exercise(&runtime, 50, || async {
        tokio::task::block_in_place(|| thread::sleep(Duration::from_micros(1)));
    });
    clean("block_in_place", &proof);
    let exempt = proof
        .exemptions
        .iter()
        .find(|exempt| exempt.reason == "block_in_place");
    assert!(exempt.is_some_and(|exempt| exempt.count >= 50), "{proof:?}");

    let proof = exercise(&runtime, 50, || async {
        prove::exempt("a file in memory", || std::fs::read("/proc/version"))
    });
    clean("exempt", &proof);
    assert_eq!(proof.exemptions.len(), 1);
    assert_eq!(proof.exemptions[0].reason, "a file in memory");
    assert!(proof.exemptions[0].count >= 100, "open and read: {proof:?}");
}

/// Calls itself, as deep as a synchronous client is below its caller, and reads a file.
#[inline(never)]
fn read_far_below(frames: u32) -> usize {
    match frames {
        0 => std::fs::read("/etc/hostname").map_or(0, |bytes| bytes.len()),
        _ => std::hint::black_box(read_far_below(frames - 1)) + 1,
    }
}

/// Both ways are the same for the forty innermost frames.
#[test]
fn an_exemption_excuses_no_other_call_of_the_same_helper() {
    let [_, (_, runtime)] = runtimes();
    for frames in [0, 40, 100] {
        let proof = exercise(&runtime, 20, move || async move {
            tokio::task::block_in_place(|| read_far_below(frames)) + read_far_below(frames)
        });
        let opened: u64 = proof
            .findings
            .iter()
            .filter(|finding| finding.cause.syscall.as_deref() == Some("openat"))
            .map(|finding| finding.count)
            .sum();
        assert_eq!(opened, 20, "{frames} frames: {proof:#?}");
        let exempt = proof
            .exemptions
            .iter()
            .find(|exempt| exempt.reason == "block_in_place");
        assert!(
            exempt.is_some_and(|exempt| exempt.count >= 40),
            "{frames} frames: {proof:#?}"
        );
    }
}

#[test]
fn writes_to_standard_error_are_logs_and_no_findings() {
    let [(_, runtime), _] = runtimes();
    let proof = exercise(&runtime, 3, || async {
        // A capture by the test harness would keep `eprintln!` from the descriptor.
        std::io::stderr().write_all(b".").expect("written");
    });
    clean("log", &proof);
    assert_eq!(proof.log_writes, 3);
}

#[test]
fn routes_that_nobody_asked_for_are_unproven() {
    let monitor = monitor();
    monitor.declare_route(&http::Method::POST, "/rare");
    let certificate = monitor.certificate();
    assert_eq!(certificate.routes["POST /rare"], RouteProof::default());
    assert_eq!(certificate.verdict("POST /rare"), RouteVerdict::Unproven);
}

#[test]
fn a_monitor_that_doesn_t_prove_says_how_it_would() {
    let certificate = Monitor::builder().build().certificate();
    let ProofMethod::Unsupported { reason } = certificate.method else {
        panic!("nothing was asked for: {:?}", certificate.method);
    };
    assert!(reason.contains("UNSTALL_PROVE=1"), "{reason}");
}
