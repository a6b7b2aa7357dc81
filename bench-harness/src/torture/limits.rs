//! Limits of this machine: whose fault it is must not depend on who looks.

use std::fs;
use std::io::Read;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use unstall_results::histogram::LatencyHistogram;
use unstall_testbed::{Behaviour, FaultyServer};

use super::alone;
use super::case::{Case, Check, Group, Trial, Tried, Trouble};
use super::exchange::counted_once;
use super::load::{cold, measure, scenario};
use super::{memory, namespaces};

const GROUP: Group = Group::Limits;
/// Enough for `unstall run` itself, and not for its users.
const DESCRIPTORS: u64 = 64;
const USERS: u64 = 100;
/// Long enough for all of them to be under way at once.
const SLOW: &str = "/slow/300";
/// For a program of ours that measures for a moment.
pub(super) const PROGRAM_MAX: Duration = Duration::from_secs(50);
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub(super) fn cases() -> Vec<Case> {
    let own = |name, stands_for, trial: fn() -> Tried| Case {
        name,
        group: GROUP,
        stands_for,
        trial: Trial::Own(trial),
    };
    vec![
        own("ipv6", "hatoo/oha#100", ipv6),
        own("descriptors", "hatoo/oha#834", descriptors),
        own(
            namespaces::PORTS,
            "grafana/k6#826, artilleryio/artillery#1038",
            || alone::run(namespaces::PORTS),
        ),
        own(namespaces::RESOLVER, "hatoo/oha#100", || {
            alone::run(namespaces::RESOLVER)
        }),
        own("an-hour", "HdrHistogram/HdrHistogram_rust#135", an_hour),
        own("three-digits", "locustio/locust#1363", three_digits),
        own("large-body-memory", "hatoo/oha#475", memory::large_body),
        own(
            "requests-memory",
            "grafana/k6#763, locustio/locust#1790",
            memory::many_requests,
        ),
    ]
}

fn ipv6() -> Tried {
    let server = FaultyServer::start_at(Ipv6Addr::LOCALHOST.into())
        .map_err(|error| Trouble::NotRun(format!("there is no [::1] here: {error}")))?;
    let spec = cold(4, 20);
    let block = measure(&scenario("GET", "/ok", ""), &server.url(), &spec)?;
    let mut checks = vec![
        Check::same("completed", 20, block.completed),
        Check::same("requests at the server", 20, server.requests()),
        Check::same("connections", 4, server.connections()),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// `unstall run` with too few descriptors for its users: what it can't open is its own fault, in
/// the record, for people and for programs.
fn descriptors() -> Tried {
    let folder = tempfile::tempdir().map_err(|error| broken("a folder", &error))?;
    let file = folder.path().join("torture.toml");
    let text = scenario("GET", SLOW, "timeout = \"30s\"");
    fs::write(&file, text).map_err(|error| broken("the scenario", &error))?;
    let mut checks = vec![];
    let mut codes = vec![];
    for mode in ["text", "json"] {
        let server = FaultyServer::start(Behaviour::Paths)
            .map_err(|error| Trouble::NotRun(format!("no server could be started: {error}")))?;
        let record = folder.path().join(format!("{mode}.json"));
        let output = run_with_few_descriptors(&server, &file, &record, mode == "json")?;
        // People read both streams, programs the document.
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        if mode == "text" {
            said.push_str(&String::from_utf8_lossy(&output.stderr));
        }
        checks.push(Check::holds(
            &format!("named, as {mode}"),
            said.contains("descriptor"),
            "not named",
        ));
        codes.push(output.status.code());
        checks.extend(blamed_on_us(&record, &server, mode)?);
    }
    let codes: Vec<String> = codes.iter().map(|code| format!("{code:?}")).collect();
    checks.push(Check::same(
        "exit codes, as text and as JSON",
        "Some(3), Some(3)".to_owned(),
        codes.join(", "),
    ));
    Ok(checks)
}

fn run_with_few_descriptors(
    server: &FaultyServer,
    scenario: &Path,
    record: &Path,
    json: bool,
) -> Result<Output, Trouble> {
    let program = std::env::current_exe().map_err(|error| broken("this program", &error))?;
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            &format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\""),
        ])
        .arg(program)
        .arg("run")
        .arg(scenario)
        .args(["--target", &server.url(), "--warmup", "0"])
        .args(["-c", &USERS.to_string(), "--requests", &USERS.to_string()])
        .arg("--out")
        .arg(record);
    if json {
        command.arg("--json");
    }
    finish(command, PROGRAM_MAX)
}

/// What the record says of its blocks, of which an invalid one is followed by a second.
fn blamed_on_us(record: &Path, server: &FaultyServer, mode: &str) -> Result<Vec<Check>, Trouble> {
    let text = fs::read_to_string(record).map_err(|error| broken("the record", &error))?;
    let record: Value = serde_json::from_str(&text).map_err(|error| broken("it", &error))?;
    let blocks = record["blocks"].as_array().map_or(&[][..], Vec::as_slice);
    let sum = |of: fn(&Value) -> u64| blocks.iter().map(of).sum::<u64>();
    let completed = sum(|block| block["completed"].as_u64().unwrap_or(0));
    let local = sum(|block| {
        block["local_faults"]["no_descriptors"]
            .as_u64()
            .unwrap_or(0)
    });
    let errors = sum(|block| {
        let errors = block["errors"].as_object();
        errors.map_or(0, |errors| errors.values().filter_map(Value::as_u64).sum())
    });
    let offered = sum(|block| block["offered"].as_u64().unwrap_or(0));
    Ok(vec![
        Check::same(
            &format!("completed or for want of a descriptor, as {mode}"),
            offered,
            completed + local,
        ),
        Check::at_least(&format!("for want of a descriptor, as {mode}"), 1, local),
        Check::same(&format!("blamed on the service, as {mode}"), 0, errors),
        Check::same(
            &format!("requests at the server, as {mode}"),
            completed,
            server.counts(SLOW).requests,
        ),
    ])
}

/// Runs a program to its end, which comes in time or is made.
pub(super) fn finish(mut command: Command, within: Duration) -> Result<Output, Trouble> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| broken("a program of ours", &error))?;
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let begun = Instant::now();
    let status = loop {
        let ended = child.try_wait();
        match ended.map_err(|error| broken("a program of ours", &error))? {
            Some(status) => break status,
            None if begun.elapsed() < within => thread::sleep(LOOK_EVERY),
            None => {
                // It may end in this very moment by itself.
                let _ = child.kill();
                let _ = child.wait();
                return Err(Trouble::Broken(format!(
                    "a program of ours has not ended within {} s",
                    within.as_secs()
                )));
            }
        }
    };
    // What a reader that panicked would have brought is missed by whoever looks at it.
    let read = |reader: Option<JoinHandle<Vec<u8>>>| {
        reader.map_or_else(Vec::new, |reader| reader.join().unwrap_or_default())
    };
    Ok(Output {
        status,
        stdout: read(stdout),
        stderr: read(stderr),
    })
}

/// Reads all that a program says, so that it never waits for a reader.
fn drain(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut said = vec![];
        // What came before an error is what there is.
        let _ = stream.read_to_end(&mut said);
        said
    })
}

fn broken(what: &str, error: &dyn std::fmt::Display) -> Trouble {
    Trouble::Broken(format!("{what} can't be used: {error}"))
}

/// Values far outside of what anybody expects, recorded and merged.
fn an_hour() -> Tried {
    let hour = Duration::from_secs(3_600);
    let hour_us = 3_600_000_000;
    let mut one = LatencyHistogram::new();
    one.record(hour);
    let mut other = LatencyHistogram::new();
    other.record(Duration::from_micros(7));
    other.merge(&one);
    other.record(hour * 24);
    let longest_us = other.max_us().unwrap_or(0);
    Ok(vec![
        Check::same("values", 3, other.count()),
        Check::at_least("an hour, µs", hour_us, one.max_us().unwrap_or(0)),
        Check::at_most(
            "an hour and 0.1 %, µs",
            hour_us + hour_us / 1_000,
            one.max_us().unwrap_or(0),
        ),
        Check::at_least("a day, µs", 24 * hour_us, longest_us),
    ])
}

/// Each power of ten with three digits, told apart and told by at most 0.1 % too high.
fn three_digits() -> Tried {
    let mut checks = vec![];
    for power in 0..7 {
        let unit = 10_u64.pow(power);
        let off = (100..1_000)
            .map(|digits| digits * unit)
            .filter(|us| {
                let mut one = LatencyHistogram::new();
                one.record_us(*us);
                let told = one.quantile_us(0.5).unwrap_or(0);
                told < *us || told - us > us.div_ceil(1_000)
            })
            .count();
        checks.push(Check::same(
            &format!("values of 100 to 999 × {unit} µs told wrongly"),
            0,
            off,
        ));
    }
    Ok(checks)
}
