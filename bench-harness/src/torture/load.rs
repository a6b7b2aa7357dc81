//! The engine's public door, as the cases use it: a scenario's text in, a measurement out.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unstall_bench_harness::engine::{
    Amount, BlockMeasurement, BlockSpec, LoadModel, OpenLoad, Progress, Stop, Target, WarmBlock,
    Warmup,
};
use unstall_results::record::ErrorKind;
use unstall_scenarios::{Inputs, Plan};
use unstall_testbed::{Behaviour, FaultyServer};

use super::case::Trouble;

/// The one endpoint of most scenarios here.
pub(super) const ENDPOINT: &str = "it";

/// What a block may need besides what it waits for, on a machine that isn't busy.
pub(super) const OVERHEAD_MS: u128 = 5_000;

/// A scenario of one request; `more` is what its table holds besides.
pub(super) fn scenario(method: &str, path: &str, more: &str) -> String {
    scenario_of_client("", method, path, more)
}

/// The same; `client` is what stands before the request: `[client]`, `[hosts]`.
pub(super) fn scenario_of_client(client: &str, method: &str, path: &str, more: &str) -> String {
    format!(
        "name = \"torture\"\ndescribe = \"a case of the self-test\"\n{client}\n\
         [[request]]\nname = \"{ENDPOINT}\"\nmethod = \"{method}\"\npath = \"{path}\"\n{more}\n"
    )
}

/// A server that misbehaves so.
pub(super) fn start(behaviour: Behaviour) -> Result<FaultyServer, Trouble> {
    FaultyServer::start(behaviour)
        .map_err(|error| Trouble::NotRun(format!("no server could be started: {error}")))
}

/// No load before the measured one, so that servers which count see each request once.
const COLD: Warmup = Warmup {
    rounds_per_user: 0,
    lasting_at_least: Duration::ZERO,
};

/// A block of so many requests per endpoint, without warm-up.
pub(super) fn cold(users: u32, requests: u64) -> BlockSpec {
    BlockSpec {
        warmup: COLD,
        ..BlockSpec::closed(users, Amount::PerEndpoint(requests))
    }
}

/// The same, ended by time; answers are awaited for as long as `grace` says.
pub(super) fn lasting(users: u32, duration: Duration, grace: Duration) -> BlockSpec {
    BlockSpec {
        warmup: COLD,
        grace,
        ..BlockSpec::closed(users, Amount::For(duration))
    }
}

/// Arrivals at their own times, without warm-up.
pub(super) fn open(load: OpenLoad) -> BlockSpec {
    BlockSpec {
        warmup: COLD,
        ..BlockSpec::open(load)
    }
}

/// Requests per endpoint, where their number ends a block.
pub(super) fn planned(spec: &BlockSpec) -> Option<u64> {
    match spec.load {
        LoadModel::Closed {
            amount: Amount::PerEndpoint(requests),
            ..
        } => Some(requests),
        _ => None,
    }
}

/// Drives a scenario against a service.
pub(super) fn measure(
    scenario: &str,
    target: &str,
    spec: &BlockSpec,
) -> Result<BlockMeasurement, Trouble> {
    measure_at(scenario, &parsed(target)?, spec)
}

/// The same where a target is more than its URL.
pub(super) fn measure_at(
    scenario: &str,
    target: &Target,
    spec: &BlockSpec,
) -> Result<BlockMeasurement, Trouble> {
    let block = prepare_at(scenario, target, spec)?.measure();
    block.map_err(|error| broken("the block", &error))
}

fn parsed(target: &str) -> Result<Target, Trouble> {
    Target::parse(target).map_err(|error| broken("the target", &error))
}

/// The first half of that: every user stands at the barrier.
pub(super) fn prepare(
    scenario: &str,
    target: &str,
    spec: &BlockSpec,
) -> Result<WarmBlock, Trouble> {
    prepare_at(scenario, &parsed(target)?, spec)
}

fn prepare_at(scenario: &str, target: &Target, spec: &BlockSpec) -> Result<WarmBlock, Trouble> {
    let plan = Plan::parse(scenario, Path::new("torture.toml"), &Inputs::default());
    let plan = Arc::new(plan.map_err(|error| broken("the scenario", &error))?);
    let progress = Arc::new(Progress::new());
    WarmBlock::prepare(&plan, target, spec, &Stop::new(), &progress)
        .map_err(|error| broken("the block", &error))
}

/// What should have been measured can't be: a fault of ours.
pub(super) fn broken(what: &str, error: &dyn std::fmt::Display) -> Trouble {
    Trouble::Broken(format!("{what} can't be used: {error}"))
}

/// Failures in the way in which the table writes them: `8 reset, 1 timeout`.
pub(super) fn kinds<'a>(errors: impl IntoIterator<Item = (&'a ErrorKind, &'a u64)>) -> String {
    let errors: Vec<String> = errors
        .into_iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{count} {}", kind.as_str()))
        .collect();
    if errors.is_empty() {
        "none".to_owned()
    } else {
        errors.join(", ")
    }
}
