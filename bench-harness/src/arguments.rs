//! The command line in its raw form: what clap reads, before anything is resolved.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::console::{print_document, to_stderr};
use crate::document::Document;
use crate::exit::ExitStatus;

mod calibrate;

pub(crate) use calibrate::CalibrateArguments;

mod capacity;

pub(crate) use capacity::{CapacityArguments, RATE_MIN};

mod design;

pub(crate) use design::DesignArguments;

mod load;

pub(crate) use load::{OpenArguments, Spread};

mod policy;
mod prove;

pub(crate) use prove::ProveArguments;

mod block_start;

pub(crate) use block_start::BlockStartArguments;

mod replay;

pub(crate) use replay::ReplayArguments;

mod report;

pub(crate) use report::{ReportArguments, ReportFormat};

mod results;

pub(crate) use results::{
    BaselineCommand, ExportArguments, ExportForm, ImportArguments, MergeArguments, ResultsCommand,
    ResultsFrom, ValueUnit,
};

mod scenarios;

pub(crate) use policy::PolicyArguments;
pub(crate) use scenarios::{ImportFrom, ScenariosCommand, SchemaOf};

mod selftest;

pub(crate) use selftest::{
    GateTestArguments, HttpArguments, KNOWN_CHANGE_ROLE, KnownChangeService, MonitorArguments,
    SelftestCommand,
};

mod target;

pub(crate) use target::AccessArguments;

const ABOUT: &str = "Measure every step of an async migration of a web service";
const EXIT_CODES: &str = "Exit codes: 0 pass, 1 regression, 2 usage or input, \
                          3 invalid measurement, 4 inconclusive.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "unstall", version, about = ABOUT, after_help = EXIT_CODES)]
#[command(arg_required_else_help = true, infer_subcommands = false)]
pub(crate) struct Arguments {
    /// Print one JSON document on stdout; everything for people goes to stderr.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Replay migration steps on private servers, compare, judge, write the HTML report
    Demo(DemoArguments),
    /// Replay a whole migration: each step against the one before it and against the start, the
    /// ledger, and what the last state can take and is proven of
    Replay(ReplayArguments),
    /// Measure one version of a running service
    Run(RunArguments),
    /// Measure two versions in interleaved blocks, and judge the second against the first
    Ab(AbArguments),
    /// Measure one version against itself: this machine's false alarms, and what it can't see
    Calibrate(CalibrateArguments),
    /// Find the highest rate at which an objective holds, of one version or of two
    Capacity(CapacityArguments),
    /// Send a few requests, and prove per route that the event loop makes no call that can block
    Prove(ProveArguments),
    /// Judge records and print the comparison for people
    Compare(CompareArguments),
    /// Judge records for a pipeline: policy, JUnit, Markdown, GitHub annotations
    Gate(GateArguments),
    /// Write the report of records: HTML, Markdown, JSON or CSV
    Report(ReportArguments),
    /// Check on this machine that the loop monitor, the load engine and the gate tell the truth
    #[command(subcommand)]
    Selftest(SelftestCommand),
    /// Name the calls that hold another process's event loop, with no change to it
    Watch(WatchArguments),
    /// List, show, check and import scenarios
    #[command(subcommand)]
    Scenarios(ScenariosCommand),
    /// List, show, merge, import and export records; keep baselines
    #[command(subcommand)]
    Results(ResultsCommand),
}

impl Arguments {
    /// Whether stdout gets one JSON document and nothing else.
    pub(crate) fn prints_document(&self) -> bool {
        let of_report = |command: &Command| match command {
            Command::Report(arguments) => arguments.prints_document(),
            _ => false,
        };
        self.json || of_report(&self.command)
    }
}

impl Command {
    /// The name that the JSON document carries.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Demo(_) => "demo",
            Self::Replay(_) => "replay",
            Self::Run(_) => "run",
            Self::Ab(_) => "ab",
            Self::Calibrate(_) => "calibrate",
            Self::Capacity(_) => "capacity",
            Self::Prove(_) => "prove",
            Self::Compare(_) => "compare",
            Self::Gate(_) => "gate",
            Self::Report(_) => "report",
            Self::Selftest(command) => command.name(),
            Self::Watch(_) => "watch",
            Self::Scenarios(ScenariosCommand::List) => "scenarios list",
            Self::Scenarios(ScenariosCommand::Show { .. }) => "scenarios show",
            Self::Scenarios(ScenariosCommand::Check { .. }) => "scenarios check",
            Self::Scenarios(ScenariosCommand::Schema { .. }) => "scenarios schema",
            Self::Scenarios(ScenariosCommand::Import { .. }) => "scenarios import",
            Self::Results(command) => command.name(),
        }
    }
}

/// `unstall demo`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall demo\n  unstall demo --quick --out /tmp/demo\n  \
                        unstall demo --quick --aa      the same version twice: must not fire"
)]
pub(crate) struct DemoArguments {
    /// A minute instead of ten: two steps, fewer pairs, a short warm-up; says what it can't see
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder for report.html, the records and the ledger; earlier results there are kept aside
    #[arg(long, value_name = "DIR", default_value = "unstall-demo")]
    pub(crate) out: PathBuf,
    /// Steps of the shipped migration plan to replay, each with its first scenario
    /// [default: 1,2a,2c,2d,3; with --quick 2a,3]
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    steps: Option<Vec<String>>,
    /// Measure the version before each step against itself: any regression is a false alarm
    #[arg(long)]
    pub(crate) aa: bool,
    /// Seed of the block order and of random values; another one each time by default
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

impl DemoArguments {
    /// The steps to replay: those asked for, or one for each group of scenarios.
    pub(crate) fn steps(&self) -> Vec<String> {
        const ALL: [&str; 5] = ["1", "2a", "2c", "2d", "3"];
        const QUICK: [&str; 2] = ["2a", "3"];
        let default = if self.quick { &QUICK[..] } else { &ALL };
        self.steps
            .clone()
            .unwrap_or_else(|| default.iter().map(ToString::to_string).collect())
    }
}

/// What to send, for `run` and `ab`.
#[derive(Debug, Args)]
pub(crate) struct ScenarioArguments {
    /// Scenarios of the catalogue (`unstall scenarios list`) or paths of scenario files
    #[arg(required = true, value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    /// Sets a variable of the scenario, over its environment variable and default
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) variables: Vec<(String, String)>,
    /// Warm-up rounds per user, at least 1 s in all; 0 for none
    #[arg(long, value_name = "N")]
    pub(crate) warmup: Option<u32>,
    /// Watch the service's event loops from outside meanwhile: which calls kept them, from which line
    #[arg(long)]
    pub(crate) watch: bool,
    /// What the record calls itself
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// The record; a folder when there are several scenarios [default: in unstall-results/]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write what was measured in the form that the suffix says: .csv or .jsonl (each second of
    /// each endpoint), .hlog (HdrHistogram), .prom (Prometheus); may be given several times
    #[arg(long = "export", value_name = "FILE")]
    pub(crate) exports: Vec<PathBuf>,
    /// Replace the files of --out and --export if they exist
    #[arg(long)]
    pub(crate) force: bool,
}

/// `unstall run`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall run tunnel-github --target http://127.0.0.1:8001 -c 10,20,50 \
                        --out before.json\n  unstall run tunnel-github --target http://127.0.0.1:8001 \
                        --rate 50,100 --duration 30s\n\nExits 0 when it measured, 3 when the numbers \
                        can't be used. Judging takes `unstall ab`."
)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArguments,
    /// The running service: http://…, https://… or unix:/run/app.sock
    #[arg(long, value_name = "URL")]
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
    /// Users at once, one level after the other [default: the scenario's]
    #[arg(short = 'c', long, value_name = "N,…", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: Vec<u32>,
    /// Requests per endpoint and level [default: the scenario's, or 400 and at least 3 per user]
    #[arg(long, value_name = "N", conflicts_with = "rounds")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) requests: Option<u64>,
    /// The same as times that each user goes through the scenario
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    #[arg(conflicts_with_all = ["rate", "open"])]
    pub(crate) rounds: Option<u64>,
    #[command(flatten)]
    pub(crate) open: OpenArguments,
    /// Instead of a number of requests: as many as fit into this time per level, like 30s. Of an
    /// open load: how long arrivals come [default: 400 of them, at least 10s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    #[arg(conflicts_with_all = ["requests", "rounds"])]
    pub(crate) duration: Option<Duration>,
}

/// `unstall ab`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall ab tunnel-github --before 'old-server --port {port}' \
                        --after 'new-server --port {port}' --out ab.json\n  \
                        unstall ab my.toml --before http://127.0.0.1:8001 \
                        --after http://127.0.0.1:8002\n\n\
                        A command gets {port} replaced and UNSTALL_PORT set, and is started \
                        afresh for each block."
)]
pub(crate) struct AbArguments {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArguments,
    /// The old version: a URL, or a command that starts it
    #[arg(long, value_name = "X")]
    pub(crate) before: String,
    /// The new version: a URL, or a command that starts it
    #[arg(long, value_name = "Y")]
    pub(crate) after: String,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
    #[command(flatten)]
    pub(crate) design: DesignArguments,
    #[command(flatten)]
    pub(crate) start: BlockStartArguments,
    /// Judge with what `unstall calibrate` found here
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
}

/// `unstall compare`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  unstall compare ab.json\n  \
                        unstall compare before.json after.json      two sessions: advisory")]
pub(crate) struct CompareArguments {
    /// Records of `ab`; or two records of `run`, before and after
    #[arg(required = true, value_name = "RECORD")]
    pub(crate) records: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
}

/// `unstall gate`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall gate ab.json --policy policy.toml --junit gate.xml \
                        --markdown gate.md --github\n  \
                        unstall gate run.json --baseline unstall-baselines --branch main"
)]
pub(crate) struct GateArguments {
    /// Records of `ab`; or two records of `run`, before and after; with --baseline, of `run`
    #[arg(required = true, value_name = "RECORD")]
    pub(crate) records: Vec<PathBuf>,
    /// Compare each record with the baseline of its scenario and machine class in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) baseline: Option<PathBuf>,
    /// The branch whose baseline it is
    #[arg(
        long,
        value_name = "NAME",
        default_value = "main",
        requires = "baseline"
    )]
    pub(crate) branch: String,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
    /// Judge with what `unstall calibrate` found on this machine: limits that can't be seen are told
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
    /// Write JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write Markdown that is short enough for a comment
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// What the hidden first line of the Markdown names, by which a bot finds its comment again
    /// [default: the scenarios]
    #[arg(long, value_name = "TEXT")]
    pub(crate) marker: Option<String>,
    /// Print GitHub annotations; append Markdown to `$GITHUB_STEP_SUMMARY`, and verdict and headline
    /// to `$GITHUB_OUTPUT`, where they are set
    #[arg(long)]
    pub(crate) github: bool,
}

/// `unstall watch`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall watch --pid 4242 --duration 10s\n  \
                        unstall watch --pid $(pgrep -nf 'uvicorn app:app') \
                        --name 10.0.0.7:6380=sessions\n\n\
                        For event loops of Tokio, asyncio, uvloop and Node. Nothing in the \
                        process is stopped or changed. Exits 0 whatever it sees, 2 when it could \
                        not watch."
)]
pub(crate) struct WatchArguments {
    /// The process: the worker that serves requests, and not its supervisor
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: u32,
    /// How long, like 10s [default: until Ctrl-C or the end of the process]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Who answers at an address, where that can't be found out
    #[arg(long = "name", value_name = "ADDR=NAME", value_parser = named_address)]
    pub(crate) names: Vec<(SocketAddr, String)>,
}

/// A command line that was refused, or one that only asked for help.
#[derive(Debug)]
pub(crate) struct Refusal {
    error: clap::Error,
    json: bool,
}

impl Refusal {
    /// Prints help to stdout or the mistake to stderr, as JSON too where that was asked for.
    pub(crate) fn say(&self) -> ExitStatus {
        if !self.error.use_stderr() {
            // Help and version: a reader that has gone is as good as one that has read.
            return match self.error.print() {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitStatus::Usage,
                _ => ExitStatus::Pass,
            };
        }
        let status = ExitStatus::Usage;
        if self.error.print().is_err() {
            return status; // Without stderr there is nowhere left to say so.
        }
        if self.json {
            let text = self.error.to_string();
            let text = text.trim().trim_start_matches("error: ").to_owned();
            let document = Document::of_error("", status, &anyhow::anyhow!(text));
            if let Err(error) = print_document(&document) {
                to_stderr(&format!("error: {error:#}"));
            }
        }
        status
    }
}

/// Parses a command line.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, Refusal> {
    let words: Vec<OsString> = words.into_iter().collect();
    let json = words
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| word == "--json");
    Arguments::try_parse_from(words).map_err(|error| Refusal { error, json })
}

/// `NAME=VALUE`
fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected NAME=VALUE, for example user=u-1")?;
    if name.is_empty() {
        return Err("the name before `=` is missing; expected NAME=VALUE".into());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// `127.0.0.1:6379=sessions`
fn named_address(text: &str) -> Result<(SocketAddr, String), String> {
    let (address, name) = text
        .split_once('=')
        .ok_or("expected ADDR=NAME, for example 127.0.0.1:6379=sessions")?;
    let address = address.parse().map_err(|_| {
        format!("`{address}` is no address with a port; write it like 127.0.0.1:6379 or [::1]:80")
    })?;
    if name.is_empty() {
        return Err("the name after `=` is missing; expected ADDR=NAME".into());
    }
    Ok((address, name.to_owned()))
}

/// `250ms`, `30s`, `2m`
fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "" => return Err(format!("`{text}` has no unit; write {text}s for seconds")),
        _ => return Err(format!("`{unit}` is not a unit of time; use ms, s or m")),
    };
    let count: u64 = number
        .parse()
        .map_err(|_| format!("`{number}` is not a whole number"))?;
    match count.checked_mul(scale_ms) {
        Some(ms) if (1..=24 * 3_600_000).contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err("a time is between 1ms and 24 hours".into()),
    }
}

fn url_path(text: &str) -> Result<String, String> {
    if text.starts_with('/') && !text.contains(char::is_whitespace) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "a path starts with `/` and has no blanks; did you mean /{}?",
            text.trim()
        ))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn durations_have_a_unit_and_a_bound() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in [
            "30",
            "0s",
            "-1s",
            "1h",
            "99999999999999999999s",
            "s",
            "25000000000m",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn assignments_keep_later_equals_signs() {
        assert_eq!(assignment("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(assignment("=b").is_err());
        assert!(assignment("a").is_err());
    }

    #[test]
    fn addresses_are_named_with_their_port() {
        let named = named_address("[::1]:6379=a=b").expect("a name");
        assert_eq!((named.0.port(), named.1.as_str()), (6379, "a=b"));
        for wrong in [
            "127.0.0.1=x",
            "localhost:1=x",
            "127.0.0.1:1=",
            "127.0.0.1:1",
        ] {
            assert!(named_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_command_has_an_example() {
        fn walk(command: &clap::Command) {
            for sub in command.get_subcommands() {
                if sub.has_subcommands() {
                    walk(sub);
                } else {
                    let help = sub
                        .get_after_help()
                        .map(ToString::to_string)
                        .unwrap_or_default();
                    assert!(
                        help.contains("Example"),
                        "{} has no example",
                        sub.get_name()
                    );
                    assert!(help.contains("unstall "), "{}", sub.get_name());
                }
            }
        }
        walk(&Arguments::command());
    }
}
