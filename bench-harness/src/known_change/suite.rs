//! The run: case by case, on the way of `ab`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use unstall_bench_harness::engine::{self, Amount, BlockSpec, LoadModel, Stop, Target};
use unstall_results::comparison::Comparison;
use unstall_results::design::Design;
use unstall_results::policy::Policy;
use unstall_results::record::{Arm, Load};
use unstall_scenarios::{Inputs, Plan};

use super::case::{ALL, Case, Change, Expected, ServiceChange};
use super::expectation::{State, hold, said};
use super::stage::{DELAYED_ROUTE, Delayed, TOLD_ROUTE, Told, scenario};
use crate::console::Console;
use crate::judgement::{AFTER, BEFORE, Judgement};
use crate::opening::{self, Opening};
use crate::record_file::Placement;
use crate::session::{self, Stage};

/// Users at once, where a clock decides.
const USERS: u32 = 20;
/// And where not: a busy machine still lets so few go on time.
const USERS_COUNTED: u32 = 5;
/// Requests per block: as many as a p95 takes.
const REQUESTS: u64 = 400;
/// Warm-up rounds per user and ms: enough to open every connection.
const WARMUP: (u32, u64) = (2, 100);
/// What is counted and not timed needs no more pairs than a test does beside an improvement.
const PAIRS_COUNTED: u32 = 7;

/// What to try.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Names of cases; all if there are none.
    pub(crate) only: Vec<String>,
    /// Pairs of blocks where a clock decides.
    pub(crate) pairs: u32,
    /// Of the order of blocks.
    pub(crate) seed: u64,
}

/// What came of every case that was tried.
#[derive(Debug, Clone)]
pub(crate) struct Findings {
    /// Case by case.
    pub(crate) cases: Vec<Finding>,
    /// What the settings were.
    pub(crate) settings: Settings,
}

/// What came of one case.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    /// The case.
    pub(crate) case: Case,
    /// What is to be said of it.
    pub(crate) state: State,
    /// What the gate said, session by session: usually one.
    pub(crate) said: Vec<String>,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Findings {
    /// How many are in a state like this.
    pub(crate) fn count(&self, is: fn(&State) -> bool) -> usize {
        self.cases.iter().filter(|of| is(&of.state)).count()
    }

    /// Whether nothing could be tried.
    pub(crate) fn is_empty(&self) -> bool {
        self.count(|state| !matches!(state, State::NotRun(_))) == 0
    }
}

/// Tries the cases; those that a stop leaves out are told as unseen.
///
/// # Errors
/// If the design of the settings can't show anything.
pub(crate) fn run(settings: &Settings, console: &Console, stop: &Stop) -> anyhow::Result<Findings> {
    design(settings.pairs, USERS, settings.seed)?;
    let folder = tempfile::tempdir().context("no folder for records could be made")?;
    let mut cases = Vec::new();
    for case in ALL {
        if !settings.only.is_empty() && !settings.only.iter().any(|name| name == case.name) {
            continue;
        }
        let begun = Instant::now();
        console.note(format!("{}: {}", case.name, case.what));
        let mut trial = Trial {
            case,
            settings,
            folder: folder.path(),
            console,
            stop,
            said: Vec::new(),
        };
        let state = trial.run();
        cases.push(Finding {
            case,
            state,
            said: trial.said,
            took: begun.elapsed(),
        });
    }
    Ok(Findings {
        cases,
        settings: settings.clone(),
    })
}

/// One case under way.
struct Trial<'a> {
    case: Case,
    settings: &'a Settings,
    folder: &'a Path,
    console: &'a Console,
    stop: &'a Stop,
    said: Vec<String>,
}

impl Trial<'_> {
    fn run(&mut self) -> State {
        let first = self.session(0);
        // One false alarm in α of the sessions is what the rule allows, so it takes two.
        let must_be_quiet = matches!(self.case.expected, Expected::Quiet | Expected::NoAlarm);
        match first {
            State::Missed(said) if must_be_quiet && !self.stop.is_requested() => {
                self.console
                    .note(format!("{}: {said}; once more", self.case.name));
                match self.session(1) {
                    State::Missed(again) => State::Missed(format!("twice: {said}; {again}")),
                    _ => State::Unseen(format!("alarmed in 1 of 2 sessions: {said}")),
                }
            }
            state => state,
        }
    }

    /// Measures one session and judges it.
    fn session(&mut self, attempt: u64) -> State {
        if self.stop.is_requested() {
            return State::Unseen("interrupted".to_owned());
        }
        match self.compare(attempt) {
            Ok(comparison) => {
                self.said.push(said(&comparison));
                let share = match self.case.change {
                    Change::Slower(share) => share,
                    _ => 0.0,
                };
                hold(self.case.expected, share, &comparison)
            }
            Err(_) if self.stop.is_requested() => State::Unseen("interrupted".to_owned()),
            Err(error) => State::Missed(format!("it could not be measured: {error:#}")),
        }
    }

    fn compare(&self, attempt: u64) -> anyhow::Result<Comparison> {
        match self.case.change {
            Change::Slower(share) => self.delayed(share, false, attempt),
            Change::SecondSlower(share) => self.delayed(share, true, attempt),
            Change::Service(change) => self.told(change, attempt),
        }
    }

    fn delayed(&self, share: f64, by_position: bool, attempt: u64) -> anyhow::Result<Comparison> {
        let plan = plan(DELAYED_ROUTE)?;
        let p95 = {
            let alone = Delayed::start(Duration::ZERO, false).context("no service")?;
            p95_of(&plan, &alone.near(), self.stop)?
        };
        let stage = Delayed::start(p95.mul_f64(share), by_position).context("no service")?;
        let arm = |proxy: &str| Arm {
            command: None,
            url: Some(stage.describe(proxy)),
            git: None,
            access: None,
            imported: None,
        };
        let arms = [arm("near"), arm("far")];
        self.measure(plan, arms, stage, (self.settings.pairs, USERS), attempt)
    }

    fn told(&self, change: ServiceChange, attempt: u64) -> anyhow::Result<Comparison> {
        let stage = Told::new(change)?;
        let arms = stage.commands().map(|line| Arm {
            command: Some(line.to_owned()),
            url: None,
            git: None,
            access: None,
            imported: None,
        });
        let pairs = self.settings.pairs.min(PAIRS_COUNTED);
        let size = (pairs, USERS_COUNTED);
        self.measure(plan(TOLD_ROUTE)?, arms, stage, size, attempt)
    }

    /// A session of so many pairs and users, as `ab` has it.
    fn measure(
        &self,
        plan: Arc<Plan>,
        [before, after]: [Arm; 2],
        mut stage: impl Stage,
        (pairs, users): (u32, u32),
        attempt: u64,
    ) -> anyhow::Result<Comparison> {
        let seed = self.settings.seed.wrapping_add(attempt);
        let design = design(pairs, users, seed)?;
        let amount = Amount::PerEndpoint(REQUESTS);
        let turns = session::turns(&design, |users| LoadModel::Closed { users, amount });
        let path = self
            .folder
            .join(format!("{}-{attempt}.json", self.case.name));
        let session = Opening {
            placement: Placement {
                out: Some(&path),
                several: false,
                force: false,
            },
            label: format!("{}: {}", self.case.name, self.case.what),
            plan,
            load: load(&design, seed),
            turns,
            arms: BTreeMap::from([(BEFORE.to_owned(), before), (AFTER.to_owned(), after)]),
            step: None,
            colocated: true,
            watch: false,
        }
        .session()?;
        let mut judgement = Judgement::default();
        judgement.measure(session, &mut stage, self.console, self.stop)?;
        anyhow::ensure!(!self.stop.is_requested(), "interrupted");
        let compared = judgement.entries.pop().and_then(|entry| entry.comparison);
        compared.with_context(|| judgement.notes.join("; "))
    }
}

fn design(pairs: u32, users: u32, seed: u64) -> anyhow::Result<Design> {
    let alpha = Policy::default().alpha;
    Ok(Design::new(pairs, vec![users], alpha, seed, REQUESTS)?)
}

fn load(design: &Design, seed: u64) -> Load {
    let (warmup_per_user, warmup_ms_min) = WARMUP;
    Load {
        model: opening::model(None),
        levels: design.levels().to_vec(),
        requests_per_endpoint: REQUESTS,
        warmup_per_user,
        warmup_ms_min,
        pairs: design.pairs(),
        seed,
        state_reset: "none".to_owned(),
        store_round_trip_us: None,
        store_round_trip_us_measured: None,
        probe: None,
        open: None,
        capacity: None,
        looks: Vec::new(),
    }
}

fn plan(route: &str) -> anyhow::Result<Arc<Plan>> {
    let text = scenario(route);
    let plan = Plan::parse(&text, Path::new("known-change.toml"), &Inputs::default());
    Ok(Arc::new(plan.context("the scenario of the self-test")?))
}

/// The p95 of the first version, by one block of the same load: the size of changes.
fn p95_of(plan: &Arc<Plan>, url: &str, stop: &Stop) -> anyhow::Result<Duration> {
    let target = Target::parse(url)?;
    let spec = BlockSpec::closed(USERS, Amount::PerEndpoint(REQUESTS));
    let measured = engine::run_block(plan, &target, &spec, stop, &Arc::default())?;
    let samples = measured.endpoints.values().next();
    let p95 = samples.and_then(|samples| samples.response.quantile_us(0.95));
    let p95 = p95.context("the first version answered nothing")?;
    Ok(Duration::from_micros(p95))
}
