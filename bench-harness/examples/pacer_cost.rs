//! How late an open load's arrivals go out, and what keeping the time costs: the engine against a
//! server that does nothing, at some rates. Prints a Markdown table; see `./dev bench`.
//! `pacer_cost [SECONDS]`, 5 by default.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unstall_bench_harness::engine::{
    BlockMeasurement, BlockSpec, OpenLoad, Progress, Stop, run_block,
};
use unstall_bench_harness::floor::NullServer;
use unstall_scenarios::{Inputs, Plan};

const SCENARIO: &str = r#"
name = "pacer-cost"
describe = "One constant request"
[[request]]
name = "GET"
method = "GET"
path = "/"
"#;
const RATES: [f64; 4] = [100.0, 1_000.0, 5_000.0, 10_000.0];
/// Each rate so often; what is printed is the middle one by its p99.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "| arrivals | late p50 | late p99 | late max | generator CPU | CPU per arrival |\n\
         |---|---|---|---|---|---|"
    )?;
    let server = NullServer::start()?;
    for rate in RATES {
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(run(&server, rate, Duration::from_secs(seconds))?);
        }
        runs.sort_by_key(|block| block.generator_lag.quantile_us(0.99));
        let block = &runs[RUNS / 2];
        let late = |q| block.generator_lag.quantile_us(q).unwrap_or(0);
        writeln!(
            out,
            "| {rate}/s | {} µs | {} µs | {} µs | {:.1} % of a core | {:.1} µs |",
            late(0.5),
            late(0.99),
            block.generator_lag.max_us().unwrap_or(0),
            100.0 * block.generator_cpu.as_secs_f64() / block.wall.as_secs_f64(),
            block.generator_cpu.as_secs_f64() * 1e6 / block.offered.max(1) as f64,
        )?;
    }
    Ok(())
}

fn run(
    server: &NullServer,
    rate: f64,
    duration: Duration,
) -> Result<BlockMeasurement, Box<dyn Error>> {
    let plan = Plan::parse(SCENARIO, Path::new("pacer-cost"), &Inputs::default())?;
    let spec = BlockSpec {
        threads: Some(1),
        ..BlockSpec::open(OpenLoad::constant(rate, duration))
    };
    Ok(run_block(
        &Arc::new(plan),
        &server.target(),
        &spec,
        &Stop::new(),
        &Arc::new(Progress::new()),
    )?)
}
