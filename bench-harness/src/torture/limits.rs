//! Limits of this machine: whose fault it is must not depend on who looks.

use std::fs::{self, File};
use std::io::Read;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;
use tempfile::TempDir;
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::{ErrorKind, LocalFault};
use unstall_testbed::{Behaviour, FaultyServer};

use super::alone;
use super::case::{Case, Check, Group, Tried, Trouble};
use super::exchange::counted_once;
use super::load::{broken, cold, kinds, measure, prepare, scenario, start};
use super::{memory, namespaces};

const GROUP: Group = Group::Limits;
pub(super) const DESCRIPTORS_USED_UP: &str = "descriptors-used-up";
/// Enough for `unstall run` itself, and not for its users.
const DESCRIPTORS: u64 = 64;
const USERS: u64 = 100;
/// Long enough for all of them to be under way at once.
const SLOW: &str = "/slow/300";
/// For a program of ours that measures for a moment.
pub(super) const PROGRAM_MAX: Duration = Duration::from_secs(50);
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub(super) fn cases() -> Vec<Case> {
    let own = |name, stands_for, trial| Case::own(GROUP, name, stands_for, trial);
    vec![
        own("ipv6", "hatoo/oha#100", ipv6),
        own("descriptors-hard", "hatoo/oha#834", too_few_descriptors),
        own(
            "descriptors-soft",
            "hatoo/oha#834",
            descriptors_to_be_raised,
        ),
        own(DESCRIPTORS_USED_UP, "hatoo/oha#834", || {
            alone::run(DESCRIPTORS_USED_UP)
        }),
        own(
            namespaces::PORTS,
            "grafana/k6#826, artilleryio/artillery#1038",
            || alone::run(namespaces::PORTS),
        ),
        own(namespaces::PORTS_FORESEEN, "grafana/k6#826", || {
            alone::run(namespaces::PORTS_FORESEEN)
        }),
        own(namespaces::SLOW_RESOLVER, "hatoo/oha#100", || {
            alone::run(namespaces::SLOW_RESOLVER)
        }),
        own(namespaces::SILENT_RESOLVER, "hatoo/oha#100", || {
            alone::run(namespaces::SILENT_RESOLVER)
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

/// `unstall run` for more users than this process may have descriptors: refused before the first
/// request, with the limit's name, for people and for programs.
fn too_few_descriptors() -> Tried {
    let mut checks = vec![];
    for mode in [Mode::Text, Mode::Json] {
        let limited = Limited::run("-n", mode)?;
        let name = mode.name();
        let said = match mode {
            Mode::Text => &limited.output.stderr,
            Mode::Json => &limited.output.stdout,
        };
        checks.extend([
            Check::holds(
                &format!("named, as {name}"),
                String::from_utf8_lossy(said).contains("descriptors"),
                "not named",
            ),
            Check::same(
                &format!("exit code, as {name}"),
                "2".to_owned(),
                limited.exit_code(),
            ),
            Check::same(
                &format!("requests at the server, as {name}"),
                0,
                limited.server.requests(),
            ),
        ]);
    }
    Ok(checks)
}

/// The same where only the soft limit is too low: it is raised, and nobody notices. (That a busy
/// machine spoils a block, which is then measured once more, is another matter.)
fn descriptors_to_be_raised() -> Tried {
    let limited = Limited::run("-S -n", Mode::Json)?;
    let blocks = limited.blocks()?;
    let all_of = |key: &str| {
        let own = blocks.iter().map(|block| block[key].to_string());
        let mut own: Vec<String> = own.collect();
        own.dedup();
        own.join(", ")
    };
    let requests = USERS * blocks.len() as u64;
    Ok(vec![
        Check::same("completed", USERS.to_string(), all_of("completed")),
        Check::same("errors", "{}".to_owned(), all_of("errors")),
        Check::same("local faults", "{}".to_owned(), all_of("local_faults")),
        Check::same(
            "requests at the server",
            requests,
            limited.server.counts(SLOW).requests,
        ),
    ])
}

/// What a program prints.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Text,
    Json,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "JSON",
        }
    }
}

/// An `unstall run` that had too few descriptors at its start.
struct Limited {
    server: FaultyServer,
    output: Output,
    record: PathBuf,
    /// Holds the record.
    _folder: TempDir,
}

impl Limited {
    /// `limit` are the options of the shell's `ulimit`.
    fn run(limit: &str, mode: Mode) -> Result<Self, Trouble> {
        let folder = tempfile::tempdir().map_err(|error| broken("a folder", &error))?;
        let server = start(Behaviour::Paths)?;
        let (file, record) = (
            folder.path().join("torture.toml"),
            folder.path().join("r.json"),
        );
        fs::write(&file, scenario("GET", SLOW, "timeout = \"30s\""))
            .map_err(|error| broken("the scenario", &error))?;
        let program = std::env::current_exe().map_err(|error| broken("this program", &error))?;
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                &format!("ulimit {limit} {DESCRIPTORS} && exec \"$0\" \"$@\""),
            ])
            .arg(program)
            .arg("run")
            .arg(file)
            .args(["--target", &server.url(), "--warmup", "0"])
            .args(["-c", &USERS.to_string(), "--requests", &USERS.to_string()])
            .arg("--out")
            .arg(&record);
        if let Mode::Json = mode {
            command.arg("--json");
        }
        let output = finish(command, PROGRAM_MAX)?;
        Ok(Self {
            server,
            output,
            record,
            _folder: folder,
        })
    }

    fn exit_code(&self) -> String {
        let code = self.output.status.code();
        code.map_or_else(|| self.output.status.to_string(), |code| code.to_string())
    }

    /// The blocks of its record.
    fn blocks(&self) -> Result<Vec<Value>, Trouble> {
        let said = String::from_utf8_lossy(&self.output.stderr);
        let text = fs::read_to_string(&self.record)
            .map_err(|error| broken("the record", &format!("{error}; it said: {said}")))?;
        let record: Value =
            serde_json::from_str(&text).map_err(|error| broken("the record", &error))?;
        let blocks = record["blocks"].as_array();
        blocks
            .filter(|blocks| !blocks.is_empty())
            .cloned()
            .ok_or_else(|| broken("the record", &format!("no block; it said: {said}")))
    }
}

/// Descriptors that are used up while a block runs, in a process of its own: what can't be opened
/// is our own fault, one for each request.
pub(super) fn descriptors_used_up() -> Tried {
    const FREE: usize = 15;
    const USERS: u32 = 40;
    let not_run = |error: nix::errno::Errno| {
        Trouble::NotRun(format!(
            "the limit of descriptors can't be changed: {error}"
        ))
    };
    let server = start(Behaviour::Full)?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(not_run)?;
    setrlimit(Resource::RLIMIT_NOFILE, 2 * DESCRIPTORS, hard).map_err(not_run)?;
    let spec = cold(USERS, USERS.into());
    let scenario = scenario("GET", "/ok", "timeout = \"500ms\"");
    let warm = prepare(&scenario, &server.url(), &spec)?;
    // All that are left but some.
    let mut held: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    held.truncate(held.len().saturating_sub(FREE));
    let block = warm.measure().map_err(|error| broken("the block", &error));
    drop(held);
    let block = block?;
    let expected = FREE as u64;
    let local = block.local_faults.get(&LocalFault::NoDescriptors).copied();
    let mut checks = vec![
        Check::same(
            "for want of a descriptor",
            u64::from(USERS) - expected,
            local.unwrap_or(0),
        ),
        Check::same(
            "errors",
            kinds([(&ErrorKind::Timeout, &expected)]),
            kinds(&block.errors),
        ),
        Check::same("offered", u64::from(USERS), block.offered),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
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
