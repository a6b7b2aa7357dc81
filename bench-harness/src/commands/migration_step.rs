//! One step of a migration plan on the way into a record: what `demo` and `replay` have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use unstall_bench_harness::engine::{Amount, LoadModel};
use unstall_results::comparison::Metric;
use unstall_results::design::Design;
use unstall_results::record::{Arm, Load, StepIdentity};
use unstall_scenarios::migration::{
    Criteria, ErrorCriterion, FallCriterion, LatencyCriterion, Step,
};
use unstall_scenarios::plan::Plan;

use crate::judgement::Judgement;
use crate::private_servers::PrivateServers;
use crate::session::{self, Turn};
use crate::{identity, opening, record_file};

/// Requests per endpoint and block, unless the scenario says otherwise: as many as a p95 takes.
const REQUESTS: u64 = 400;
/// What a block of this scenario sends: each of its requests so often, or, of alternatives, one of
/// them each time.
pub(crate) fn requests(plan: &Plan) -> u64 {
    plan.load.requests.unwrap_or(REQUESTS)
}

/// Rounds per user and ms: enough to open every connection of the pools, which is most of
/// what a warm-up does for a service without a compiler at run time.
pub(crate) const WARMUP_QUICK: (u32, u64) = (2, 500);

/// The command of a plan's state, with a monitor that splits every poll's time exactly.
pub(crate) fn monitored(command: &str) -> String {
    format!("{command} --monitor full-split")
}

/// As a record names a version that is started here; `program` is [`PrivateServers::program`].
pub(crate) fn arm(line: &str, program: &str) -> Arm {
    // All versions are programs of this repository, built with this one. What isn't committed, and
    // what was built apart from it, only the program's own digest tells apart.
    let git = match option_env!("UNSTALL_COMMIT") {
        Some(commit) => format!("{commit}+{program}"),
        None => program.to_owned(),
    };
    Arm {
        command: Some(line.to_owned()),
        url: None,
        git: Some(git),
        access: None,
        imported: None,
    }
}

/// The blocks of a closed load, in the design's order.
pub(crate) fn closed_turns(design: &Design, requests: u64) -> Vec<Turn> {
    let amount = Amount::PerEndpoint(requests);
    session::turns(design, |users| LoadModel::Closed { users, amount })
}

/// The same load for the record.
pub(crate) fn closed_load(
    design: &Design,
    requests: u64,
    warmup: (u32, u64),
    plan: &Plan,
    seed: u64,
    servers: &PrivateServers,
) -> Load {
    let (warmup_per_user, warmup_ms_min) = warmup;
    Load {
        model: opening::model(None),
        levels: design.levels().to_vec(),
        requests_per_endpoint: requests,
        warmup_per_user,
        warmup_ms_min,
        pairs: design.pairs(),
        seed,
        state_reset: servers.state_reset().to_owned(),
        store_round_trip_us: Some(servers.round_trip_us()),
        store_round_trip_us_measured: Some(servers.round_trip_us_measured()),
        probe: opening::probe(plan),
        open: None,
        capacity: None,
        looks: Vec::new(),
    }
}

/// The step as a record has it.
pub(crate) fn identity(step: &Step) -> StepIdentity {
    StepIdentity {
        id: step.id.clone(),
        title: step.title.clone(),
        branch: step.branch.clone(),
        risk: step.risk.as_str().to_owned(),
        impact: step.impact.clone(),
        endpoints: step.endpoints.clone(),
        criteria: criteria(step.criteria),
    }
}

/// The criteria in the record's words, which are those of the plan's file.
fn criteria(criteria: Criteria) -> BTreeMap<String, String> {
    let fall = |criterion| match criterion {
        FallCriterion::Down => "down",
        FallCriterion::DownOrFlat => "down-or-flat",
    };
    // By name, so that a new criterion can't be forgotten here.
    let Criteria {
        p95,
        errors,
        blocked,
        threads,
        faults,
    } = criteria;
    let p95 = p95.map(|criterion| match criterion {
        LatencyCriterion::Better => "better",
        LatencyCriterion::BetterOrFlat => "better-or-flat",
    });
    let errors = errors.map(|criterion| match criterion {
        ErrorCriterion::NoneNew => "none-new",
    });
    let named = [
        ("p95", p95),
        ("errors", errors),
        ("blocked", blocked.map(fall)),
        ("threads", threads.map(fall)),
        ("faults", faults.map(fall)),
    ];
    let given = named
        .into_iter()
        .filter_map(|(name, expected)| Some((name, expected?)));
    given
        .map(|(name, expected)| (name.to_owned(), expected.to_owned()))
        .collect()
}

/// Moves what is in the way out of it: nothing is replaced.
///
/// # Errors
/// When a file can't be moved.
pub(crate) fn keep_aside(folder: &Path, names: &[String]) -> anyhow::Result<()> {
    let present: Vec<&String> = names
        .iter()
        .filter(|name| folder.join(name).exists())
        .collect();
    if present.is_empty() {
        return Ok(());
    }
    let aside = folder.join("earlier").join(identity::new_id());
    record_file::create_folder(&aside)?;
    for name in present {
        let (from, to) = (folder.join(name), aside.join(name));
        std::fs::rename(&from, &to).with_context(|| {
            format!("{} could not be moved to {}", from.display(), to.display())
        })?;
    }
    Ok(())
}

/// What so short a run can't see, in numbers of its own.
pub(crate) fn quick_note(judgement: &Judgement, made: &str) -> String {
    let detectable = judgement
        .entries
        .iter()
        .filter_map(|entry| entry.comparison.as_ref())
        .flat_map(|comparison| &comparison.cells)
        .filter(|cell| cell.judged && cell.metric == Metric::ResponseP95)
        .filter_map(|cell| cell.change.as_ref()?.minimum_detectable)
        .reduce(f64::max);
    let smallest = detectable.map_or_else(String::new, |ratio| {
        format!(
            ", and a p95 that gets worse by less than about {:.0} %",
            (ratio - 1.0) * 100.0
        )
    });
    // A scenario may have a number of its own.
    let entries = judgement.entries.iter();
    let counts: BTreeSet<u64> = entries
        .filter(|entry| entry.comparison.is_some())
        .map(|entry| entry.record.load.requests_per_endpoint)
        .collect();
    let requests = match (counts.first(), counts.last()) {
        (Some(fewest), Some(most)) if fewest < most => format!("{fewest} to {most}"),
        (Some(all), _) => all.to_string(),
        _ => REQUESTS.to_string(),
    };
    format!(
        "--quick made {made} of {requests} requests per endpoint after a short warm-up. It does not \
         see p99{smallest}"
    )
}
