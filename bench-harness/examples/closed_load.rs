//! The engine and nothing else, for measuring what a request costs it:
//! `closed_load URL USERS REQUESTS`. See `scripts/cpu_per_request.sh`.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unstall_bench_harness::engine::{Amount, BlockSpec, Progress, Stop, Target, Warmup, run_block};
use unstall_scenarios::{Inputs, Plan};

const SCENARIO: &str = r#"
name = "closed-load"
describe = "One constant request"
[[request]]
name = "GET"
method = "GET"
path = "/"
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, users, requests] = arguments.as_slice() else {
        return Err("usage: closed_load URL USERS REQUESTS".into());
    };
    let plan = Plan::parse(SCENARIO, Path::new("closed-load"), &Inputs::default())?;
    let spec = BlockSpec {
        warmup: Warmup {
            rounds_per_user: 1,
            lasting_at_least: Duration::ZERO,
        },
        threads: Some(1),
        ..BlockSpec::closed(users.parse()?, Amount::PerEndpoint(requests.parse()?))
    };
    let block = run_block(
        &Arc::new(plan),
        &Target::parse(url)?,
        &spec,
        &Stop::new(),
        &Arc::new(Progress::new()),
    )?;
    let lag_us = block.generator_lag.quantile_us(0.99).unwrap_or(0);
    let response_us = block.endpoints["GET"]
        .response
        .quantile_us(0.99)
        .unwrap_or(0);
    writeln!(
        std::io::stdout(),
        "completed {} offered {} in {:.3} s; generator CPU {:.2} us per request; p99 {response_us} us, lag p99 {lag_us} us",
        block.completed,
        block.offered,
        block.wall.as_secs_f64(),
        block.generator_cpu.as_micros() as f64 / block.offered.max(1) as f64,
    )?;
    Ok(())
}
