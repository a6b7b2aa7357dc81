//! The bystander probe: what others feel while one loop serves everybody.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use unstall_bench_harness::block::{BlockPlace, MeasuredBlock, Service, measure};
use unstall_bench_harness::engine::{
    BlockMeasurement, BlockSpec, Ended, ProbeSpec, Progress, Stop, Target,
};
use unstall_results::record::{ErrorKind, ProbeSamples};
use unstall_testbed::{Behaviour, FaultyServer};

use crate::support::{self, cold, get, parse, run};

/// How long `/hold` keeps the loop.
const HOLD: Duration = Duration::from_millis(20);
/// See where it is used.
const TRIES: u32 = 5;

/// A service with a single loop, as uvicorn or a `current_thread` runtime has one. It answers
/// `/hold` after having slept *on* the loop, everything else at once. Dropped, it ends.
struct OneLoop {
    port: u16,
    _running: tokio::sync::oneshot::Sender<()>,
}

impl OneLoop {
    fn start() -> Self {
        let (listening, port) = mpsc::channel();
        let (running, over) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime starts");
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                let port = listener.local_addr()?.port();
                listening.send(port).expect("the test waits for it");
                tokio::select! {
                    failed = accept(&listener) => failed,
                    _ = over => Ok(()),
                }
            })
        });
        Self {
            port: port.recv().expect("it listens"),
            _running: running,
        }
    }

    fn url(&self) -> String {
        Target::loopback(self.port).to_string()
    }
}

async fn accept(listener: &TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        // A client that hangs up ends its task; there is nothing to tell anybody.
        tokio::spawn(async { drop(answer(stream).await) });
    }
}

/// Requests without a body, one after the other.
async fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = Vec::new();
    loop {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        if head.starts_with(b"GET /hold ") {
            std::thread::sleep(HOLD);
        }
        head.clear();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await?;
    }
}

fn probed(path: &str, rate_per_second: f64, spec: BlockSpec) -> BlockSpec {
    BlockSpec {
        probe: Some(ProbeSpec {
            path: path.to_owned(),
            rate_per_second,
            is_proven: false,
        }),
        ..spec
    }
}

/// One user, as many requests as fit into the time.
fn lasting(time: Duration) -> BlockSpec {
    support::lasting(1, time)
}

fn samples(block: &BlockMeasurement) -> &ProbeSamples {
    let probe = block.probe.as_ref().expect("a probe was asked for");
    assert_eq!(probe.refusal, None);
    let samples = &probe.samples;
    let ended = samples.completed
        + samples.errors.values().sum::<u64>()
        + samples.local_faults.values().sum::<u64>()
        + samples.in_flight.count();
    assert_eq!(
        samples.offered, ended,
        "each request is accounted for: {samples:?}"
    );
    assert_eq!(samples.generator_lag.count(), samples.offered);
    samples
}

#[test]
fn a_route_that_holds_the_loop_is_felt_by_others_and_a_harmless_one_is_not() {
    let service = OneLoop::start();
    let p99_us = |path: &str| {
        // Answer and pause together make 20 calls per second.
        let scenario = parse(&format!(
            "name = \"t\"\ndescribe = \"t\"\n[[request]]\nname = \"it\"\nmethod = \"GET\"\n\
             path = \"{path}\"\nthink = \"30ms\"\n"
        ));
        let spec = probed("/health", 50.0, lasting(Duration::from_secs(4)));
        let block = run(&scenario, &service.url(), &spec);
        let samples = samples(&block);
        assert!(samples.offered >= 200, "50 per second for 4 s: {samples:?}");
        assert_eq!(samples.errors, [].into());
        assert_eq!(
            block.offered, block.completed,
            "the probe is in no count of the load"
        );
        assert!(
            block.offered <= 4 * 1_000 / 30 + 1,
            "nor can it be: {}",
            block.offered
        );
        samples.response.quantile_us(0.99).expect("it was answered")
    };
    // What else runs on this machine can only hide the difference, and not each time.
    for attempt in 1..=TRIES {
        let (with, without) = (p99_us("/hold"), p99_us("/harmless"));
        assert!(
            with >= 15_000,
            "a request that comes while the loop is held waits for the rest of 20 ms: {with} µs"
        );
        if without * 2 < with {
            return;
        }
        assert!(attempt < TRIES, "{without} µs against {with} µs");
    }
}

#[test]
fn a_slow_answer_delays_no_later_request() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let spec = probed("/slow/300", 50.0, lasting(Duration::from_millis(1_000)));
    let block = run(&get("/ok"), &server.url(), &spec);
    let samples = samples(&block);
    // One after the other they would be three.
    assert!(samples.offered >= 50, "{samples:?}");
    assert!(samples.completed >= 10, "{samples:?}");
    assert!(
        samples
            .response
            .quantile_us(0.0)
            .is_some_and(|us| us >= 300_000)
    );
    // Those sent within the last 300 ms.
    assert!(samples.in_flight.count() >= 1, "{samples:?}");
}

#[test]
fn a_route_that_stalls_holds_back_more_requests_and_hides_no_delay() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    // The first answer is for the look at the route, before the load.
    let spec = probed("/after/1/hang", 100.0, lasting(Duration::from_secs(2)));
    let block = run(&get("/ok"), &server.url(), &spec);
    assert!(block.completed > 0);
    let samples = samples(&block);
    assert_eq!((samples.completed, samples.errors.len()), (0, 0));
    assert!(
        samples.in_flight.count() >= 200,
        "all that was due: {samples:?}"
    );
    let seen = server.counts("/after/1/hang").requests;
    assert_eq!(seen, 1 + 64, "no more are out at once");
    let oldest_us = samples.in_flight.max_us().expect("they wait");
    assert!(oldest_us >= 1_900_000, "{oldest_us} µs");
}

#[test]
fn a_dead_route_is_told_and_costs_the_load_nothing() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    for (path, reason) in [("/404", "404"), ("/close", "connection lost")] {
        let block = run(
            &get("/ok"),
            &server.url(),
            &probed(path, 50.0, cold(2, 100)),
        );
        assert_eq!((block.offered, block.completed), (100, 100));
        assert_eq!(block.local_faults, [].into());
        let probe = block.probe.expect("a probe was asked for");
        assert!(
            probe
                .refusal
                .as_ref()
                .is_some_and(|text| text.contains(reason)),
            "{probe:?}"
        );
        assert_eq!(probe.samples, ProbeSamples::default(), "{path}");
        assert_eq!(server.counts(path).requests, 1, "{path}: it was let alone");
    }
}

#[test]
fn a_route_that_has_answered_before_is_asked_on() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let mut spec = probed("/404", 50.0, lasting(Duration::from_millis(300)));
    if let Some(probe) = &mut spec.probe {
        probe.is_proven = true;
    }
    let block = run(&get("/ok"), &server.url(), &spec);
    let probe = block.probe.expect("a probe was asked for");
    assert!(probe.refusal.is_some());
    assert!(probe.samples.offered >= 15, "50 per second: {probe:?}");
    assert!(probe.samples.errors[&ErrorKind::Status] >= 1, "{probe:?}");
}

#[test]
fn a_service_that_dies_is_felt_by_others_too() {
    let server = FaultyServer::start(Behaviour::DiesAfter(200)).expect("a server starts");
    let spec = BlockSpec {
        patience: Duration::from_millis(300),
        ..cold(2, 1_000_000)
    };
    let block = run(&get("/ok"), &server.url(), &probed("/ok", 200.0, spec));
    assert_eq!(block.ended, Ended::ServiceGone);
    let samples = samples(&block);
    let lost = samples.errors.keys();
    assert!(
        lost.clone()
            .all(|kind| matches!(kind, ErrorKind::Connect | ErrorKind::Reset)),
        "{samples:?}"
    );
    assert!(samples.errors.values().sum::<u64>() >= 1, "{samples:?}");
}

/// A block as a command measures it.
fn measured(url: &str, spec: &BlockSpec) -> MeasuredBlock {
    let target = Target::parse(url).expect("test servers have good URLs");
    let place = BlockPlace {
        arm: "before".to_owned(),
        pair: 0,
        position: 0,
    };
    measure(
        &get("/ok"),
        Service::Running(&target),
        &place,
        spec,
        &Stop::new(),
        &std::sync::Arc::new(Progress::new()),
    )
    .expect("the block can be measured")
}

#[test]
fn a_block_has_what_the_probe_saw_and_the_command_its_refusal() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let of = |path| measured(&server.url(), &probed(path, 50.0, cold(1, 50)));
    let good = of("/health");
    assert_eq!(good.probe_refusal, None);
    let samples = good.block.probe.as_ref().expect("it was probed");
    assert!(samples.offered >= 1, "the first is due at the barrier");
    let text = serde_json::to_string(&good.block).expect("a block can be written");
    let again: unstall_results::record::Block = serde_json::from_str(&text).expect("and read");
    assert_eq!(again, good.block);
    let dead = of("/404");
    assert!(
        dead.probe_refusal
            .is_some_and(|text| text.contains("it answers 404"))
    );
    assert!(dead.block.validity.ok);
}
