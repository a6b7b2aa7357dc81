//! `unstall ab`: two versions in interleaved blocks, judged.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstall_bench_harness::engine::Amount;
use unstall_bench_harness::process_group::ServiceCommand;
use unstall_results::design::Design;
use unstall_results::policy::Policy;
use unstall_results::record::Load;
use unstall_scenarios::plan::Plan;

use crate::arguments::AbArguments;
use crate::before_block::BeforeBlock;
use crate::console::{Console, Outcome};
use crate::judgement::{AFTER, BEFORE, Judgement};
use crate::opening::{self, Opening};
use crate::record_file::Placement;
use crate::session::{self, Prepared, Session, Stage, Turn};
use crate::version::Version;
use crate::{identity, inputs, interrupt};

/// Requests per endpoint and block where neither scenario nor command line says: enough to
/// judge a p95.
const REQUESTS_DEFAULT: u64 = 400;

/// What takes a version, in messages.
const SIDES: &str = "--before and --after take";

/// Both sides, and the user's own way to restore state.
struct Versions<'a> {
    before: Version,
    after: Version,
    ready: String,
    before_block: Option<BeforeBlock<'a>>,
}

impl Stage for Versions<'_> {
    fn prepare(&mut self, turn: &Turn) -> anyhow::Result<Prepared> {
        if let Some(command) = &self.before_block {
            command.run(turn)?;
        }
        let version = if turn.arm == BEFORE {
            &self.before
        } else {
            &self.after
        };
        Ok(match version {
            Version::Url { target, .. } => Prepared::Running(target.clone()),
            Version::Command(line) => {
                let mut command = ServiceCommand::new(line);
                command.ready_path.clone_from(&self.ready);
                Prepared::ToStart(command)
            }
        })
    }
}

pub(crate) fn execute(arguments: AbArguments, console: &Console) -> anyhow::Result<Outcome> {
    let access = arguments.access.resolve(console)?;
    let before = Version::parse(&arguments.before, SIDES, &access)?;
    let after = Version::parse(&arguments.after, SIDES, &access)?;
    arguments.access.refuse_unused(&[&before, &after])?;
    let inputs = inputs::gather(arguments.scenario.variables.clone());
    let plans = opening::plans(&arguments.scenario.scenarios, &inputs)?;
    let sessions = plans
        .iter()
        .map(|plan| open(&arguments, &before, &after, Arc::clone(plan)))
        .collect::<anyhow::Result<Vec<Session>>>()?;
    for version in [&before, &after] {
        match version {
            Version::Url { target, .. } => opening::reachable(target, &plans)?,
            Version::Command(_) => opening::hosts_reachable(&plans)?,
        }
    }
    let stop = interrupt::listen()?;
    let before_block = arguments
        .before_block
        .as_deref()
        .map(|line| BeforeBlock::new(line, &stop))
        .transpose()?;
    let mut versions = Versions {
        before,
        after,
        ready: arguments.ready,
        before_block,
    };
    let mut judgement = Judgement::default();
    for session in sessions {
        judgement.measure(session, &mut versions, console, &stop)?;
    }
    let mut outcome = judgement.outcome(console);
    for file in &judgement.files {
        outcome.text.push_str(&format!(
            "Record: {0}\nHTML:   unstall report {0} -o report.html\n",
            file.path
        ));
    }
    Ok(outcome)
}

/// Everything that is decided before the first block.
fn open(
    arguments: &AbArguments,
    before: &Version,
    after: &Version,
    plan: Arc<Plan>,
) -> anyhow::Result<Session> {
    let common = &arguments.scenario;
    let seed = identity::seed(arguments.seed);
    let requests = arguments
        .requests
        .or(plan.load.requests)
        .unwrap_or(REQUESTS_DEFAULT);
    let levels = levels(arguments, &plan);
    opening::busy(&levels, requests)?;
    let design = Design::new(
        arguments.pairs,
        levels,
        Policy::default().alpha,
        seed,
        requests,
    )?;
    let turns = session::turns(&design, Amount::PerEndpoint(requests));
    let (warmup_per_user, warmup_ms_min) = opening::warmup(common.warmup);
    let load = Load {
        model: "closed".to_owned(),
        levels: design.levels().to_vec(),
        requests_per_endpoint: requests,
        warmup_per_user,
        warmup_ms_min,
        pairs: design.pairs(),
        seed,
        state_reset: if arguments.before_block.is_some() {
            "command"
        } else {
            "none"
        }
        .to_owned(),
        store_round_trip_us: None,
        store_round_trip_us_measured: None,
        probe: opening::probe(&plan),
    };
    Opening {
        placement: Placement::of(common),
        label: common.label.clone().unwrap_or_else(|| plan.name.clone()),
        plan,
        load,
        turns,
        arms: BTreeMap::from([
            (BEFORE.to_owned(), before.arm()),
            (AFTER.to_owned(), after.arm()),
        ]),
        step: None,
        colocated: before.is_local() || after.is_local(),
        watch: common.watch,
    }
    .session()
}

/// The levels asked for; else the usual one, or the scenario's own if it makes too few requests
/// to keep so many users busy.
fn levels(arguments: &AbArguments, plan: &Plan) -> Vec<u32> {
    const USUAL: u32 = 20;
    if !arguments.concurrency.is_empty() {
        return arguments.concurrency.clone();
    }
    match plan.load.requests {
        Some(requests) if requests < u64::from(USUAL) => plan.load.concurrency.clone(),
        _ => vec![USUAL],
    }
}
