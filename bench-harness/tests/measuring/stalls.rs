//! Whom a service's stalls kept waiting, with a service of one loop, which tells its own holds.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use unstall_bench_harness::block::{BlockPlace, MeasuredBlock, Service, measure};
use unstall_bench_harness::engine::{BlockSpec, Progress, Stop, Target};
use unstall_loop_monitor::wire::{self, HoldPart, SNAPSHOT_PATH, STALLS_AFTER, Stall, Stalls};
use unstall_results::record;

use crate::support::{cold, plan};

const HOLD: Duration = Duration::from_millis(5);
const HOLD_US: u64 = 5_000;
const USERS: u32 = 4;
const REQUESTS: u64 = 24;

/// How the service's monitor differs from a good one on this machine.
#[derive(Debug, Clone, Copy)]
struct Quirks {
    /// Of its clock against this machine's.
    clock_ahead_ns: u64,
    /// Holds that it keeps.
    kept_max: usize,
    /// Part of the request that holds the loop.
    part: HoldPart,
    /// Its start changes with each this many snapshots; 0: never.
    restarts_after: u64,
    /// It tells stalls at all.
    tells: bool,
    loops: u64,
}

const GOOD: Quirks = Quirks {
    clock_ahead_ns: 0,
    kept_max: 1_000,
    part: HoldPart::Handler,
    restarts_after: 0,
    tells: true,
    loops: 1,
};

/// What the service's connections share: one loop, which serves one request after the other.
struct Loop {
    quirks: Quirks,
    /// Taken by whoever holds the loop.
    held: Mutex<()>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: u64,
    snapshots: u64,
    stalls: Vec<Stall>,
}

impl Loop {
    fn now_ns(&self) -> u64 {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has it");
        let now_ns = u64::try_from(Duration::from(now).as_nanos()).expect("not for centuries");
        now_ns + self.quirks.clock_ahead_ns
    }

    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut writer = stream;
        let mut path = String::new();
        for line in BufReader::new(stream).lines() {
            let line = line?;
            if path.is_empty() {
                let word = line.split(' ').nth(1).unwrap_or_default();
                word.clone_into(&mut path);
            }
            if !line.is_empty() {
                continue;
            }
            let asked = std::mem::take(&mut path);
            // A loop writes its answer before it serves anybody else, too.
            let _held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let body = if asked.starts_with(SNAPSHOT_PATH) {
                self.snapshot(&asked)
            } else {
                self.hold();
                "{}".to_owned()
            };
            let length = body.len();
            write!(
                writer,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"
            )?;
        }
        Ok(())
    }

    /// A request's poll: it sleeps on the loop.
    fn hold(&self) {
        let began_ns = self.now_ns();
        std::thread::sleep(HOLD);
        let ended_ns = self.now_ns();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.requests += 1;
        let number = seen.stalls.len() as u64 + 1;
        seen.stalls.push(Stall {
            number,
            began_ns,
            ended_ns,
            endpoint: "GET /items/{id}".to_owned(),
            part: self.quirks.part,
            blocked_ns: Some(ended_ns - began_ns),
            line: Some("load at src/items.rs:17".to_owned()),
        });
    }

    fn snapshot(&self, path: &str) -> String {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.snapshots += 1;
        let start = match self.quirks.restarts_after {
            0 => 0,
            after => (seen.snapshots - 1) / after,
        };
        let after = path.split_once(&format!("{STALLS_AFTER}="));
        let after: u64 = after.map_or(0, |(_, number)| number.parse().expect("a number"));
        let oldest = seen.stalls.len().saturating_sub(self.quirks.kept_max);
        let kept = seen.stalls[oldest..].iter();
        let stalls = Stalls {
            threshold_ns: 1_000_000,
            seen: seen.stalls.len() as u64,
            kept_max: self.quirks.kept_max as u64,
            told: kept.filter(|one| one.number > after).cloned().collect(),
        };
        let counters = wire::Endpoint {
            requests: seen.requests,
            ..wire::Endpoint::default()
        };
        let snapshot = wire::Snapshot {
            schema: wire::Schema {
                name: wire::SCHEMA_NAME.to_owned(),
                major: wire::SCHEMA_MAJOR,
                minor: wire::SCHEMA_MINOR,
            },
            start_id: format!("start {start}"),
            mono_ns: self.now_ns(),
            runtime: "tokio".to_owned(),
            mode: wire::Mode::FullSplit,
            loops: self.quirks.loops,
            endpoints: BTreeMap::from([("GET /items/{id}".to_owned(), counters)]),
            tasks: BTreeMap::new(),
            unattributed: wire::Blocked::default(),
            loop_lag: None,
            workers: Vec::new(),
            pool: None,
            counters: None,
            causes: None,
            stalls: self.quirks.tells.then_some(stalls),
            threads: wire::Threads::default(),
            runtime_metrics: wire::RuntimeMetrics::default(),
            not_covered: Vec::new(),
        };
        serde_json::to_string(&snapshot).expect("a snapshot can be written")
    }
}

fn start(quirks: Quirks) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let one_loop = Arc::new(Loop {
        quirks,
        held: Mutex::default(),
        seen: Mutex::default(),
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let one_loop = Arc::clone(&one_loop);
            // A client that hangs up ends its thread; there is nothing to tell anybody.
            std::thread::spawn(move || drop(one_loop.serve(&stream)));
        }
    });
    Target::loopback(port)
}

fn measured_with(quirks: Quirks, spec: &BlockSpec) -> MeasuredBlock {
    let place = BlockPlace {
        arm: "before".to_owned(),
        pair: 0,
        position: 0,
    };
    measure(
        &plan(&[("GET item", "GET", "/items/7")], ""),
        Service::Running(&start(quirks)),
        &place,
        spec,
        &Stop::new(),
        &Arc::new(Progress::new()),
    )
    .expect("the block can be measured")
}

fn stalls(quirks: Quirks) -> record::Stalls {
    let measured = measured_with(quirks, &cold(USERS, REQUESTS));
    measured.block.stalls.expect("its monitor tells stalls")
}

/// Who waits is every user but the one that is served, as long as all have something to send.
fn overlapped_us_most(stalls: &record::Stalls) -> u64 {
    let held_us: u64 = stalls.by_second_us.iter().sum();
    held_us * u64::from(USERS) + stalls.placed
}

#[test]
fn the_holds_of_one_request_are_waits_of_the_others() {
    let stalls = stalls(GOOD);
    assert_eq!((stalls.placed, stalls.unplaced), (REQUESTS, 0));
    assert_eq!((stalls.loops, stalls.threshold_us), (1, 1_000));
    let held_us: u64 = stalls.by_second_us.iter().sum();
    assert!(held_us >= REQUESTS * HOLD_US, "{stalls:#?}");
    let victim = &stalls.victims["GET item"];
    assert_eq!(victim.requests, REQUESTS);
    assert!(victim.under_way_us >= held_us, "{stalls:#?}");
    let [blame] = &stalls.blame[..] else {
        panic!("one pair: {stalls:#?}");
    };
    assert_eq!((&*blame.culprit, &*blame.victim), ("GET item", "GET item"));
    assert_eq!(blame.line.as_deref(), Some("load at src/items.rs:17"));
    assert!(blame.requests <= REQUESTS);
    // While it serves the first of four, three wait, and so on: at least one waits for most holds.
    assert!(blame.overlapped_us >= held_us / 2, "{stalls:#?}");
    // Nobody waits for itself.
    assert!(
        blame.overlapped_us <= victim.under_way_us.saturating_sub(held_us / 2),
        "{stalls:#?}"
    );
    assert_eq!((stalls.blame_others_us, stalls.requests_untold), (0, 0));
}

#[test]
fn one_user_alone_waits_for_nobody() {
    let measured = measured_with(GOOD, &cold(1, 10));
    let stalls = measured.block.stalls.expect("its monitor tells stalls");
    assert_eq!((stalls.placed, stalls.unplaced), (10, 0));
    assert_eq!(stalls.blame, []);
    // What comes after a response keeps even its own client's next request waiting.
    let after = Quirks {
        part: HoldPart::After,
        ..GOOD
    };
    let measured = measured_with(after, &cold(1, 10));
    let stalls = measured.block.stalls.expect("its monitor tells stalls");
    assert_eq!(stalls.blame[0].requests, 10);
}

#[test]
fn what_the_ring_lost_is_counted() {
    let forgetful = Quirks {
        kept_max: 7,
        ..GOOD
    };
    let stalls = stalls(forgetful);
    assert_eq!((stalls.placed, stalls.unplaced), (7, REQUESTS - 7));
    let blamed: u64 = stalls.blame.iter().map(|blame| blame.overlapped_us).sum();
    assert!(blamed <= overlapped_us_most(&stalls), "{stalls:#?}");
}

#[test]
fn another_clock_is_told_and_nobody_is_blamed() {
    for clock_ahead_ns in [3_600_000_000_000, 20_000_000_000] {
        let elsewhere = Quirks {
            clock_ahead_ns,
            ..GOOD
        };
        let measured = measured_with(elsewhere, &cold(USERS, REQUESTS));
        let stalls = measured.block.stalls.expect("its monitor tells stalls");
        assert_eq!((stalls.placed, stalls.unplaced), (0, REQUESTS));
        assert_eq!((stalls.blame, stalls.victims.len()), (vec![], 0));
        let told = measured.warnings.iter();
        let mut told = told.filter(|warning| warning.contains("another monotonic clock"));
        assert!(told.next().is_some(), "{:?}", measured.warnings);
        assert!(measured.block.validity.ok, "the load itself is good");
        let monitor = measured.block.monitor.expect("its counters are good");
        assert_eq!(monitor.endpoints["GET item"].requests, REQUESTS);
    }
}

#[test]
fn a_restart_and_several_workers_have_no_stalls() {
    // Three looks before, two after: another start in the middle of the block, or in turn.
    for restarts_after in [3, 1] {
        let unsteady = Quirks {
            restarts_after,
            ..GOOD
        };
        let measured = measured_with(unsteady, &cold(USERS, REQUESTS));
        assert_eq!(measured.block.stalls, None, "{restarts_after}");
        assert_eq!(measured.block.monitor, None, "{restarts_after}");
    }
}

#[test]
fn a_monitor_that_tells_none_and_one_of_several_loops() {
    let silent = Quirks {
        tells: false,
        ..GOOD
    };
    let measured = measured_with(silent, &cold(USERS, REQUESTS));
    assert_eq!(measured.block.stalls, None);
    assert!(measured.block.monitor.is_some());
    let several = Quirks { loops: 2, ..GOOD };
    assert_eq!(stalls(several).loops, 2);
}

#[test]
fn a_block_with_stalls_is_written_and_read() {
    let measured = measured_with(GOOD, &cold(USERS, REQUESTS));
    let json = serde_json::to_string(&measured.block).expect("a block can be written");
    let again: record::Block = serde_json::from_str(&json).expect("and read");
    assert_eq!(again, measured.block);
}
