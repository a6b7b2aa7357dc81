//! The run: column by column, one program each, canary by canary.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use unstall_loop_monitor::certificate::PROVE_VARIABLE;

use super::canary::{Canary, Nature, Surroundings};
use super::cell::{Cell, State};
use super::child::CanaryProgram;
use super::column::{self, Column, Observer, Program};
use super::eye::{Eye, EyeError};
use super::judge::{Bar, judge};
use super::protocol::Run;
use super::python::PythonCanaries;
use super::quota::Quota;
use super::spinners::Spinners;

/// A short sleep: just what has to be found.
const SHORT_BLOCK: Duration = Duration::from_micros(200);
/// For a lock: in Python it is held for just that long, and the waiter comes a little later. Shorter
/// than the interpreter's switch interval of 5 ms, by which waits for its own lock are told.
const LOCK_BLOCK: Duration = Duration::from_millis(3);
/// A computation, longer than the quota's share of a period.
const LONG_SPIN: Duration = Duration::from_millis(5);
/// A sleep that can be looked at while it lasts, on a busy machine too.
const LOOKED_AT_BLOCK: Duration = Duration::from_millis(20);
/// Of those, at least so many.
const LOOKS_MIN: u64 = 20;
/// A first look reads symbols from disk, which on a busy machine takes longer than all sleeps
/// together; so they are planted again.
const NAMED_WITHIN: Duration = Duration::from_secs(20);
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
    let mut eye = match Eye::open(column, &mut program) {
        Ok(eye) => eye,
        Err(reason) => return all(&State::NotRun(reason)),
    };
    let cells = canaries.iter().map(|canary| {
        run_canary(column, *canary, count, &mut program, &mut eye).unwrap_or_else(|error| {
            Cell::without_run(column, *canary, State::Missed(error.to_string()))
        })
    });
    cells.collect()
}

fn command(column: Column, python: &Result<PythonCanaries, String>) -> Result<Command, String> {
    match (column.program, column.observer) {
        (Program::Python(event_loop), observer) => {
            let mut command = python.as_ref().map_err(Clone::clone)?.command(event_loop)?;
            if observer == Observer::Tracer {
                // So that the middleware tells the tracer whose request a step is.
                command.env(PROVE_VARIABLE, "1");
            }
            Ok(command)
        }
        (Program::Rust, observer) => {
            let own = std::env::current_exe()
                .map_err(|error| format!("this program doesn't find itself: {error}"))?;
            let mut command = Command::new(own);
            command.args(["selftest", "canaries", "--host"]);
            command.arg(match observer {
                Observer::FullSplit => "full-split",
                Observer::Watcher => "watcher",
                Observer::Dispatch => "proof",
                _ => "counters",
            });
            Ok(command)
        }
    }
}

fn run_canary(
    column: Column,
    canary: Canary,
    count: u64,
    program: &mut CanaryProgram,
    eye: &mut Eye,
) -> Result<Cell, EyeError> {
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
    let mut cell = plant(column, canary, count, program, eye)?;
    let patience = Instant::now() + NAMED_WITHIN;
    while cell.is_unnamed() && Instant::now() < patience {
        cell = plant(column, canary, count, program, eye)?;
    }
    drop(spinners);
    if let Some(quota) = &quota
        && !matches!(quota.times_throttled(), Ok(1..))
    {
        cell.state = State::NotRun("the quota was never used up".to_owned());
    }
    Ok(cell)
}

fn plant(
    column: Column,
    canary: Canary,
    count: u64,
    program: &mut CanaryProgram,
    eye: &mut Eye,
) -> Result<Cell, EyeError> {
    eye.begin(canary)?;
    program.begin(order(column, canary, count))?;
    let mut told = None;
    if canary == Canary::NeverEnding {
        thread::sleep(UNFINISHED_FOR);
        told = eye.reports_unfinished(program, column)?;
        program.release()?;
    }
    let finished = program.finish(RUN_MAX)?;
    let observed = eye.end(program, canary)?;
    let mut cell = judge(column, canary, column.bar(), &finished, &observed);
    if told == Some(false) {
        cell.state = State::Missed("not told before it had ended".to_owned());
    }
    Ok(cell)
}

/// As many as asked for where each call counts; few and long where each must be looked at.
fn order(column: Column, canary: Canary, count: u64) -> Run {
    let few = (count / LONG_DIVISOR).max(1);
    let is_looked_at = column.bar() == Bar::NamesLongSleeps;
    let (count, block) = match canary {
        Canary::NeverEnding => (1, SHORT_BLOCK),
        long if long.is_long() => (few, LONG_SPIN),
        other if is_looked_at && !matches!(other.nature(), Nature::MaySleep(_)) => {
            (few.max(LOOKS_MIN), LOOKED_AT_BLOCK)
        }
        Canary::Lock => (count, LOCK_BLOCK),
        _ => (count, SHORT_BLOCK),
    };
    Run {
        canary,
        count,
        block_us: u64::try_from(block.as_micros()).unwrap_or(u64::MAX),
        count_sleeps: matches!(column.bar(), Bar::EverySleep | Bar::MostSleeps)
            && canary.nature() != Nature::Clean,
    }
}
