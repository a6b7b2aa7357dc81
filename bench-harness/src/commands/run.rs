//! `unstall run`: one version, one record per scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unstall_bench_harness::engine::{Amount, LoadModel, Target};
use unstall_bench_harness::floor;
use unstall_results::comparison::Verdict;
use unstall_results::record::{Load, OpenLoad, RunRecord};
use unstall_scenarios::plan::Plan;

use crate::arguments::RunArguments;
use crate::console::{Console, Outcome};
use crate::exports::ExportFiles;
use crate::judgement::{Judgement, ONLY};
use crate::opening::{self, Beside, OpenLevels, Opening};
use crate::record_file::Placement;
use crate::session::{Prepared, Session, Stage, Turn};
use crate::{identity, inputs, interrupt, version};

/// Requests per endpoint and level that a bare `run` makes: enough to judge a p95.
const REQUESTS_DEFAULT: u64 = 400;
/// Rounds per user that a bare `run` makes at least.
const ROUNDS_MIN: u64 = 3;

/// When a block of this many users is over: what the command line says goes before what the
/// scenario says.
fn amount(arguments: &RunArguments, plan: &Plan, level: u32) -> Amount {
    let users = u64::from(level);
    match (arguments.duration, arguments.requests, arguments.rounds) {
        (Some(duration), ..) => Amount::For(duration),
        (_, Some(requests), _) => Amount::PerEndpoint(requests),
        (.., Some(rounds)) => Amount::PerEndpoint(rounds.saturating_mul(users)),
        (None, None, None) => {
            let usual = REQUESTS_DEFAULT.max(ROUNDS_MIN * users);
            // Users without a request of their own would make the level a lie.
            let wanted = plan.load.requests.map(|requests| requests.max(users));
            Amount::PerEndpoint(wanted.unwrap_or(usual))
        }
    }
}

/// The service that is running already.
#[derive(Debug)]
struct Running(Target);

impl Stage for Running {
    fn prepare(&mut self, _turn: &Turn) -> anyhow::Result<Prepared> {
        Ok(Prepared::Running(self.0.clone()))
    }
}

pub(crate) fn execute(arguments: &RunArguments, console: &Console) -> anyhow::Result<Outcome> {
    let access = arguments.access.resolve(console)?;
    let target = Target::reached_by(&arguments.target, &access)?;
    let inputs = inputs::gather(arguments.scenario.variables.clone());
    let plans = opening::plans(&arguments.scenario.scenarios, &inputs)?;
    let common = &arguments.scenario;
    let exports = ExportFiles::check(&common.exports, common.force)?;
    let sessions = plans
        .iter()
        .map(|plan| open(arguments, &target, Arc::clone(plan)))
        .collect::<anyhow::Result<Vec<Session>>>()?;
    opening::reachable(&target, &plans)?;
    let exports = exports.create()?;
    let stop = interrupt::listen()?;
    let floor = floor::measure()?;
    let mut judgement = Judgement::default();
    for mut session in sessions {
        opening::note_ports(console, &session, &[(ONLY, Some(&target))]);
        session.exports = exports.clone();
        session.record.floor = Some(floor.clone());
        judgement.measure(session, &mut Running(target.clone()), console, &stop)?;
    }
    judgement.finish_exports(&exports)?;
    let mut outcome = judgement.outcome(console);
    outcome.verdict = verdict(&judgement);
    for file in &judgement.files {
        outcome.text.push_str(&file.line());
    }
    Ok(outcome)
}

/// One block per level.
struct Levels {
    blocks: Vec<LoadModel>,
    /// What every level is sure to have; 0 where time ends a level.
    requests_per_endpoint: u64,
    open: Option<OpenLoad>,
}

impl Levels {
    fn of(arguments: &RunArguments, plan: &Plan) -> anyhow::Result<Self> {
        let beside = Beside {
            asks_for_closed: !arguments.concurrency.is_empty()
                || arguments.requests.is_some()
                || arguments.rounds.is_some(),
            duration: arguments.duration,
        };
        if let Some(open) = OpenLevels::choose(&arguments.open, beside, plan)? {
            return Ok(Self {
                blocks: open.loads().collect(),
                requests_per_endpoint: open.arrivals_min(),
                open: open.record(),
            });
        }
        let levels = levels(arguments, plan)?;
        if let Some(requests) = arguments.requests {
            opening::busy(&levels, requests)?;
        }
        let amounts: Vec<(u32, Amount)> = levels
            .into_iter()
            .map(|users| (users, amount(arguments, plan, users)))
            .collect();
        let counts = amounts.iter().filter_map(|(_, amount)| match amount {
            Amount::PerEndpoint(requests) => Some(*requests),
            Amount::For(_) => None,
        });
        Ok(Self {
            requests_per_endpoint: counts.min().unwrap_or(0),
            blocks: amounts
                .into_iter()
                .map(|(users, amount)| LoadModel::Closed { users, amount })
                .collect(),
            open: None,
        })
    }
}

/// Everything that is decided before the first request.
fn open(arguments: &RunArguments, target: &Target, plan: Arc<Plan>) -> anyhow::Result<Session> {
    let common = &arguments.scenario;
    let levels = Levels::of(arguments, &plan)?;
    let users = levels.blocks.iter().map(LoadModel::users).max();
    opening::allow_users(users.unwrap_or(0), &plan, Some(target))?;
    let keys = levels.blocks.iter().map(|block| block.level().key());
    let (warmup_per_user, warmup_ms_min) = opening::warmup(common.warmup);
    let load = Load {
        model: opening::model(levels.open.as_ref()),
        requests_per_endpoint: levels.requests_per_endpoint,
        levels: keys.collect(),
        warmup_per_user,
        warmup_ms_min,
        pairs: 0,
        seed: identity::seed(None),
        state_reset: "none".to_owned(),
        store_round_trip_us: None,
        store_round_trip_us_measured: None,
        probe: opening::probe(&plan),
        open: levels.open,
        capacity: None,
        looks: Vec::new(),
    };
    let turn = |load| Turn {
        arm: ONLY,
        pair: 0,
        position: 0,
        load,
    };
    let arm = version::arm_of(&arguments.target, target);
    Opening {
        placement: Placement::of(common),
        label: common.label.clone().unwrap_or_else(|| plan.name.clone()),
        plan,
        load,
        turns: levels.blocks.into_iter().map(turn).collect(),
        arms: BTreeMap::from([(ONLY.to_owned(), arm)]),
        step: None,
        colocated: target.is_here(),
        watch: common.watch,
    }
    .session()
}

fn levels(arguments: &RunArguments, plan: &Plan) -> anyhow::Result<Vec<u32>> {
    let levels = if arguments.concurrency.is_empty() {
        plan.load.concurrency.clone()
    } else {
        arguments.concurrency.clone()
    };
    opening::distinct(levels)
}

/// `run` does not judge the service; it only says when its own numbers can't be used: a
/// level without a valid block, or one in which nothing was answered.
fn verdict(judgement: &Judgement) -> Option<Verdict> {
    let usable = |record: &RunRecord, level: u32| {
        let mut blocks = record.blocks.iter().filter(|block| block.level == level);
        blocks.any(|block| block.validity.ok && block.completed > 0)
    };
    let unusable = judgement.entries.iter().any(|entry| {
        let levels: BTreeSet<u32> = entry
            .record
            .blocks
            .iter()
            .map(|block| block.level)
            .collect();
        levels
            .into_iter()
            .any(|level| !usable(&entry.record, level))
    });
    let broken = judgement.verdict() == Some(Verdict::Invalid);
    (unusable || broken).then_some(Verdict::Invalid)
}
