//! What the engine's tests have in common: plans from a few lines of scenario, small blocks.

#![allow(
    dead_code,
    reason = "each test binary uses a part; expect would be wrong in the others"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unstall_bench_harness::engine::{
    Amount, BlockMeasurement, BlockSpec, EngineError, LoadModel, OpenLoad, Progress, Stop, Target,
    Warmup, run_block,
};
use unstall_scenarios::{Inputs, Plan};

/// A scenario of requests `(name, method, path)`, with more lines for each of them.
pub(crate) fn plan(requests: &[(&str, &str, &str)], more: &str) -> Arc<Plan> {
    let mut text = String::from("name = \"test\"\ndescribe = \"test\"\n");
    for (name, method, path) in requests {
        text.push_str(&format!(
            "[[request]]\nname = \"{name}\"\nmethod = \"{method}\"\npath = \"{path}\"\n{more}\n"
        ));
    }
    parse(&text)
}

/// A scenario from its text.
pub(crate) fn parse(text: &str) -> Arc<Plan> {
    let plan = Plan::parse(text, Path::new("test.toml"), &Inputs::default());
    Arc::new(plan.unwrap_or_else(|error| panic!("{error}\n{text}")))
}

/// One request `GET path` that expects 200.
pub(crate) fn get(path: &str) -> Arc<Plan> {
    plan(&[("it", "GET", path)], "expect = { status = 200 }")
}

/// A block without warm-up, so that servers which count see each request once.
pub(crate) fn cold(level: u32, requests: u64) -> BlockSpec {
    BlockSpec {
        warmup: Warmup {
            rounds_per_user: 0,
            lasting_at_least: Duration::ZERO,
        },
        ..BlockSpec::closed(level, Amount::PerEndpoint(requests))
    }
}

/// The same, of as many requests as fit into the time.
pub(crate) fn lasting(users: u32, time: Duration) -> BlockSpec {
    BlockSpec {
        load: LoadModel::Closed {
            users,
            amount: Amount::For(time),
        },
        ..cold(users, 1)
    }
}

/// An open load without warm-up.
pub(crate) fn open(load: OpenLoad) -> BlockSpec {
    BlockSpec {
        load: LoadModel::Open(load),
        ..cold(1, 1)
    }
}

/// The target of a test server.
pub(crate) fn target(url: &str) -> Target {
    Target::parse(url).expect("test servers have good URLs")
}

/// Runs a block that nobody stops or watches.
pub(crate) fn run(plan: &Arc<Plan>, url: &str, spec: &BlockSpec) -> BlockMeasurement {
    try_run(plan, url, spec).expect("the block can be measured")
}

/// The same, for blocks that can't be measured.
pub(crate) fn try_run(
    plan: &Arc<Plan>,
    url: &str,
    spec: &BlockSpec,
) -> Result<BlockMeasurement, EngineError> {
    run_block(
        plan,
        &target(url),
        spec,
        &Stop::new(),
        &Arc::new(Progress::new()),
    )
}
