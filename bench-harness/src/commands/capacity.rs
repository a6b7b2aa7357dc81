//! `unstall capacity`: the highest rate at which an objective holds, of one version or of two.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use unstall_bench_harness::block::{self, BlockPlace, Service};
use unstall_bench_harness::engine::{Access, Amount, BlockSpec, OpenLoad, Stop, Target, Warmup};
use unstall_bench_harness::floor;
use unstall_results::capacity::PROMISED_PERCENT;
use unstall_results::level::OPEN;
use unstall_results::record::{CapacityLoad, EndpointIdentity, Load};
use unstall_results::slo::Slo;
use unstall_scenarios::plan::{Arrivals, Plan};

use crate::arguments::{CapacityArguments, RATE_MIN};
use crate::console::{Console, Outcome};
use crate::exports::ExportFiles;
use crate::judgement::{AFTER, BEFORE, Judgement, ONLY};
use crate::opening::{self, Opening};
use crate::record_file::Placement;
use crate::session::{Prepared, Session, Stage, Turn};
use crate::version::{Version, Versions};
use crate::{identity, inputs, interrupt};
use rate_search::{BlockShape, RateSearch};

pub(super) mod rate_search;

/// The lowest rate that is tried, as a part of the first one.
pub(super) const LOWEST_OF_FROM: f64 = 1.0 / 16.0;
/// How long a service that runs already may take to work off what an earlier block left behind.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// The versions, each of which is let settle after a block that was too much for it.
struct Settling<'a> {
    versions: Versions<'a>,
    plan: Arc<Plan>,
    slo: Slo,
    endpoints: Vec<EndpointIdentity>,
    stop: Stop,
    /// Whether each version held the objective before its first block, with nobody beside it.
    holds_alone: BTreeMap<&'static str, bool>,
    /// What a reader must know of versions that did not settle.
    notes: RefCell<BTreeSet<String>>,
}

impl Stage for Settling<'_> {
    fn prepare(&mut self, turn: &Turn) -> anyhow::Result<Prepared> {
        let prepared = self.versions.prepare(turn)?;
        if let Prepared::Running(target) = &prepared {
            match self.holds_alone.get(turn.arm) {
                None => {
                    let holds = self.holds(target);
                    self.holds_alone.insert(turn.arm, holds);
                }
                Some(true) => self.settle(turn.arm, target),
                // One that never does is measured as it is.
                Some(false) => {}
            }
        }
        Ok(prepared)
    }
}

impl Settling<'_> {
    /// Waits until it holds the objective again with nobody beside it.
    fn settle(&self, arm: &str, target: &Target) {
        const PAUSE: Duration = Duration::from_millis(200);
        let deadline = Instant::now() + SETTLED_WITHIN;
        while !self.stop.is_requested() {
            if self.holds(target) {
                return;
            }
            if Instant::now() >= deadline {
                self.notes.borrow_mut().insert(format!(
                    "{arm} did not hold the objective by itself within {} s after a block that was \
                     too much for it, and the next block began all the same: what it can take may \
                     be told too low. Give a command instead of a URL, and it is started afresh",
                    SETTLED_WITHIN.as_secs()
                ));
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends the scenario once. What keeps it from answering is the next block's to find out.
    fn holds(&self, target: &Target) -> bool {
        let spec = BlockSpec {
            warmup: Warmup {
                rounds_per_user: 0,
                lasting_at_least: Duration::ZERO,
            },
            threads: Some(1),
            ..BlockSpec::closed(1, Amount::PerEndpoint(1))
        };
        let place = BlockPlace {
            arm: ONLY.to_owned(),
            pair: 0,
            position: 0,
        };
        let (service, progress) = (Service::Running(target), Arc::default());
        let looked = block::measure(&self.plan, service, &place, &spec, &self.stop, &progress);
        looked.is_ok_and(|looked| {
            let block = &looked.block;
            let readings = self.slo.read(block, &self.endpoints);
            // Of alternatives one is drawn; where the objective is about another, that it answers.
            let answers = block.completed > 0 && block.errors.is_empty();
            readings.iter().all(|reading| reading.holds) && (!readings.is_empty() || answers)
        })
    }
}

pub(crate) fn execute(arguments: CapacityArguments, console: &Console) -> anyhow::Result<Outcome> {
    let slo = Slo::parse(&arguments.slo).context("--slo can't be read")?;
    if arguments.to < arguments.from {
        anyhow::bail!(
            "--from {} is above --to {}; start lower",
            arguments.from,
            arguments.to
        );
    }
    let access = arguments.access.resolve(console)?;
    let versions = versions(&arguments, &access)?;
    let named: Vec<&Version> = versions.iter().map(|(_, version)| version).collect();
    arguments.access.refuse_unused(&named)?;
    let common = &arguments.scenario;
    let inputs = inputs::gather(common.variables.clone());
    let plans = opening::plans(&common.scenarios, &inputs)?;
    let exports = ExportFiles::check(&common.exports, common.force)?;
    let mut sessions = Vec::new();
    for plan in &plans {
        let session = open(&arguments, &versions, &slo, plan)?;
        sessions.push((Arc::clone(plan), session));
    }
    for (_, version) in &versions {
        version.reachable(&plans)?;
    }
    let targets: Vec<_> = versions
        .iter()
        .map(|(arm, one)| (*arm, one.target()))
        .collect();
    for (_, session) in &sessions {
        opening::note_ports(console, session, &targets);
    }
    let exports = exports.create()?;
    let stop = interrupt::listen()?;
    let floor = floor::measure()?;
    let mut judgement = Judgement::default();
    for (plan, mut session) in sessions {
        session.exports = exports.clone();
        session.record.floor = Some(floor.clone());
        let by_arm = versions.iter().cloned().collect();
        let mut stage = Settling {
            versions: Versions::starting(by_arm, &arguments.start, &stop)?,
            endpoints: session.record.scenario.endpoints.clone(),
            slo: slo.clone(),
            stop: stop.clone(),
            holds_alone: BTreeMap::new(),
            notes: RefCell::default(),
            plan: Arc::clone(&plan),
        };
        let mut search = search(&arguments, &slo, &plan, &session, &versions)?;
        judgement.measure_by(session, &mut search, &mut stage, console, &stop)?;
        judgement.notes.extend(stage.notes.into_inner());
    }
    judgement.finish_exports(&exports)?;
    let mut outcome = judgement.outcome(console);
    for file in &judgement.files {
        outcome.text.push_str(&file.lines());
    }
    Ok(outcome)
}

/// The versions by their arm, in order.
fn versions(
    arguments: &CapacityArguments,
    access: &Access,
) -> anyhow::Result<Vec<(&'static str, Version)>> {
    match (&arguments.target, &arguments.before, &arguments.after) {
        (Some(target), _, _) => {
            let version = Version::parse(target, "--target takes", access)?;
            Ok(vec![(ONLY, version)])
        }
        (None, Some(before), Some(after)) => {
            const SIDES: &str = "--before and --after take";
            Ok(vec![
                (BEFORE, Version::parse(before, SIDES, access)?),
                (AFTER, Version::parse(after, SIDES, access)?),
            ])
        }
        _ => anyhow::bail!("name the service with --target, or two with --before and --after"),
    }
}

fn search(
    arguments: &CapacityArguments,
    slo: &Slo,
    plan: &Plan,
    session: &Session,
    versions: &[(&'static str, Version)],
) -> anyhow::Result<RateSearch> {
    let load = &session.record.load;
    let capacity = load.capacity.as_ref();
    let bounds = capacity
        .map(CapacityLoad::bounds)
        .context("the record has no question of capacity; this is a fault of unstall")?;
    let arms: Vec<&'static str> = versions.iter().map(|(arm, _)| *arm).collect();
    let shape = shape(arguments, plan);
    Ok(RateSearch::new(
        slo.clone(),
        session.record.scenario.endpoints.clone(),
        bounds,
        shape,
        &arms,
        load.seed,
    ))
}

/// How blocks are driven: what the command line says goes before what the scenario says.
fn shape(arguments: &CapacityArguments, plan: &Plan) -> BlockShape {
    let of_scenario = plan.load.open.as_ref().map(|open| open.arrivals);
    let asked = arguments.arrivals.map(Arrivals::from);
    let in_flight_max = arguments.in_flight;
    BlockShape {
        arrivals: asked.or(of_scenario).unwrap_or(Arrivals::Poisson),
        length: arguments.block,
        in_flight_max: in_flight_max.unwrap_or_else(|| OpenLoad::in_flight_max_of(plan)),
    }
}

/// Everything that is decided before the first block.
fn open(
    arguments: &CapacityArguments,
    versions: &[(&'static str, Version)],
    slo: &Slo,
    plan: &Arc<Plan>,
) -> anyhow::Result<Session> {
    let common = &arguments.scenario;
    let shape = shape(arguments, plan);
    for (_, version) in versions {
        opening::allow_users(shape.in_flight_max, plan, version.target())?;
    }
    let (warmup_per_user, warmup_ms_min) = opening::warmup(common.warmup);
    let load = Load {
        model: OPEN.to_owned(),
        levels: Vec::new(),
        requests_per_endpoint: 0,
        warmup_per_user,
        warmup_ms_min,
        pairs: 0,
        seed: identity::seed(arguments.start.seed),
        state_reset: arguments.start.state_reset(),
        store_round_trip_us: None,
        store_round_trip_us_measured: None,
        probe: opening::probe(plan),
        open: Some(shape.record()),
        capacity: Some(CapacityLoad {
            slo: slo.to_string(),
            from_per_second: arguments.from,
            lowest_per_second: (arguments.from * LOWEST_OF_FROM)
                .max(RATE_MIN)
                .min(arguments.from),
            highest_per_second: arguments.to,
            precision: arguments.precision,
            blocks_max: arguments.blocks,
            promised_percent: PROMISED_PERCENT,
        }),
        looks: Vec::new(),
    };
    let arms: BTreeMap<_, _> = versions
        .iter()
        .map(|(arm, version)| ((*arm).to_owned(), version.arm()))
        .collect();
    let session = Opening {
        placement: Placement::of(common),
        label: common.label.clone().unwrap_or_else(|| plan.name.clone()),
        plan: Arc::clone(plan),
        load,
        turns: Vec::new(),
        arms,
        step: None,
        colocated: versions.iter().any(|(_, version)| version.is_local()),
        watch: common.watch,
    }
    .session()?;
    check(slo, plan)?;
    Ok(session)
}

/// Whether an objective is about what a scenario measures.
///
/// # Errors
/// An endpoint that it doesn't have, or a time that only streams have.
pub(super) fn check(slo: &Slo, plan: &Plan) -> anyhow::Result<()> {
    let streams = |name: &str| {
        let mut requests = plan.requests.iter();
        requests.any(|request| request.name == name && request.stream.is_some())
    };
    slo.check(&opening::endpoints(plan), streams)
        .map_err(|why| anyhow::anyhow!("the objective `{slo}`: {why}"))
}
