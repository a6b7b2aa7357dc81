//! The run: column by column, one program each, canary by canary.

use std::process::Command;
use std::thread;
use std::time::Duration;

use unstall_loop_monitor::wire::Snapshot;

use super::canary::{Canary, Nature, Surroundings};
use super::cell::{Cell, State};
use super::child::{CanaryProgram, ChildError};
use super::column::{self, Column, Observer, Program};
use super::judge::{Bar, Observation, judge};
use super::protocol::Run;
use super::python::PythonCanaries;
use super::quota::Quota;
use super::spinners::Spinners;

/// A short sleep: just what has to be found.
const SHORT_BLOCK: Duration = Duration::from_micros(200);
/// For a lock: whoever holds it has to see first that somebody waits, which in Python takes a part
/// of the wait for the interpreter's.
const LOCK_BLOCK: Duration = Duration::from_millis(2);
/// A computation, longer than the quota's share of a period.
const LONG_SPIN: Duration = Duration::from_millis(5);
/// How long the never-ending poll is left alone.
const UNFINISHED_FOR: Duration = Duration::from_millis(300);
/// Of those that take long there are fewer, by this.
const LONG_DIVISOR: u64 = 20;
/// For one canary's requests, on a machine that is busy with other things.
const RUN_MAX: Duration = Duration::from_secs(120);

/// What to plant and to look at.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Which canaries.
    pub(crate) canaries: Vec<Canary>,
    /// Which tiers.
    pub(crate) tiers: Vec<u8>,
    /// Calls per canary.
    pub(crate) count: u64,
    /// The interpreter.
    pub(crate) python: String,
}

/// Everything that was found.
#[derive(Debug, Clone)]
pub(crate) struct Findings {
    /// Column by column.
    pub(crate) cells: Vec<Cell>,
}

impl Findings {
    /// The bars that aren't met.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.cells.iter().filter_map(Cell::complaint).collect()
    }

    /// Whether anything was judged at all.
    pub(crate) fn is_empty(&self) -> bool {
        !self.cells.iter().any(|cell| cell.state == State::Met)
    }
}

/// Plants, looks and judges; `note` hears what is going on.
pub(crate) fn run(settings: &Settings, note: &dyn Fn(&str)) -> Findings {
    let python = PythonCanaries::find(&settings.python);
    let mut cells = Vec::new();
    for column in column::ALL {
        if !settings.tiers.contains(&column.tier()) {
            continue;
        }
        note(&format!("{}: {} …", column.program.title(), column.title()));
        let canaries = settings
            .canaries
            .iter()
            .filter(|canary| column.has(**canary));
        let canaries: Vec<Canary> = canaries.copied().collect();
        cells.extend(run_column(column, &canaries, settings.count, &python));
    }
    Findings { cells }
}

fn run_column(
    column: Column,
    canaries: &[Canary],
    count: u64,
    python: &Result<PythonCanaries, String>,
) -> Vec<Cell> {
    let all = |state: &State| {
        let cells = canaries.iter();
        cells
            .map(|canary| Cell::without_run(column, *canary, state.clone()))
            .collect()
    };
    let command = match command(column, python) {
        Ok(command) => command,
        Err(reason) => return all(&State::NotRun(reason)),
    };
    let mut program = match CanaryProgram::start(command) {
        Ok(program) => program,
        Err(error) => return all(&State::Missed(error.to_string())),
    };
    if let Some(reason) = unavailable(column, &mut program) {
        return all(&State::NotRun(reason));
    }
    let cells = canaries.iter().map(|canary| {
        run_canary(column, *canary, count, &mut program).unwrap_or_else(|error| {
            Cell::without_run(column, *canary, State::Missed(error.to_string()))
        })
    });
    cells.collect()
}

fn command(column: Column, python: &Result<PythonCanaries, String>) -> Result<Command, String> {
    match (column.program, column.observer) {
        (Program::Python(event_loop), _) => {
            python.as_ref().map_err(Clone::clone)?.command(event_loop)
        }
        (Program::Rust, observer) => {
            let own = std::env::current_exe()
                .map_err(|error| format!("this program doesn't find itself: {error}"))?;
            let mut command = Command::new(own);
            command.args(["selftest", "canaries", "--host"]);
            command.arg(match observer {
                Observer::Counters(super::host::HostMonitor::FullSplit) => "full-split",
                _ => "counters",
            });
            Ok(command)
        }
    }
}

/// Why this column can't be had here.
fn unavailable(column: Column, program: &mut CanaryProgram) -> Option<String> {
    match column.observer {
        Observer::Counters(_) | Observer::Middleware => {
            let snapshot = program.snapshot().ok()?; // a program that is lost is told by its run
            (!snapshot.mode.measures_blocked()).then(|| {
                format!(
                    "the monitor is in mode {:?} and measures no blocked time",
                    snapshot.mode
                )
            })
        }
    }
}

fn run_canary(
    column: Column,
    canary: Canary,
    count: u64,
    program: &mut CanaryProgram,
) -> Result<Cell, ChildError> {
    let mut quota = None;
    let mut spinners = None;
    match canary.surroundings() {
        Surroundings::Any => {}
        Surroundings::BusyMachine => spinners = Some(Spinners::start()),
        Surroundings::CpuQuota => match Quota::around(program.pid()) {
            Ok(set) => quota = Some(set),
            Err(reason) => return Ok(Cell::without_run(column, canary, State::NotRun(reason))),
        },
    }
    let run = order(canary, count);
    program.begin(run)?;
    if canary == Canary::NeverEnding {
        thread::sleep(UNFINISHED_FOR);
        program.release()?;
    }
    let finished = program.finish(RUN_MAX)?;
    drop(spinners);
    let observed = counted(&program.snapshot()?, canary);
    let mut cell = judge(column, canary, Bar::EverySleep, &finished, &observed);
    if let Some(quota) = &quota
        && !matches!(quota.times_throttled(), Ok(1..))
    {
        cell.state = State::NotRun("the quota was never used up".to_owned());
    }
    Ok(cell)
}

fn order(canary: Canary, count: u64) -> Run {
    let (count, block) = match canary {
        Canary::NeverEnding => (1, SHORT_BLOCK),
        Canary::Lock => (count, LOCK_BLOCK),
        long if long.is_long() => ((count / LONG_DIVISOR).max(1), LONG_SPIN),
        _ => (count, SHORT_BLOCK),
    };
    Run {
        canary,
        count,
        block_us: u64::try_from(block.as_micros()).unwrap_or(u64::MAX),
        count_sleeps: canary.nature() != Nature::Clean,
    }
}

fn counted(snapshot: &Snapshot, canary: Canary) -> Observation {
    let endpoint = snapshot.endpoints.get(&canary.endpoint());
    Observation {
        blocking: endpoint.map_or(0, |endpoint| endpoint.blocked.events_over_200us),
        named: Vec::new(),
    }
}
