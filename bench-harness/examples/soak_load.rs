//! One long block against a server that does nothing: `soak_load open|closed SECONDS`. Prints the
//! median p95 of the seconds of its first and of its last tenth, in µs: an open load's answers are
//! late where its arrivals are. See `scripts/soak.sh`, which looks at the process meanwhile.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unstall_bench_harness::engine::{
    Amount, BlockSpec, Ended, OpenLoad, Progress, Stop, run_block,
};
use unstall_bench_harness::floor::NullServer;
use unstall_scenarios::{Inputs, Plan};

const SCENARIO: &str = r#"
name = "soak"
describe = "Two requests, one of which is drawn anew for each iteration"
[[request]]
name = "constant"
method = "GET"
path = "/"
[[request]]
name = "varying"
method = "GET"
path = "/${iteration}"
"#;
const RATE: f64 = 500.0;
const USERS: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, seconds] = arguments.as_slice() else {
        return Err("usage: soak_load open|closed SECONDS".into());
    };
    let duration = Duration::from_secs(seconds.parse()?);
    let spec = match model.as_str() {
        "open" => BlockSpec::open(OpenLoad::poisson(RATE, duration)),
        "closed" => BlockSpec::closed(USERS, Amount::For(duration)),
        _ => return Err("the load is open or closed".into()),
    };
    let server = NullServer::start()?;
    let block = run_block(
        &Arc::new(Plan::parse(
            SCENARIO,
            Path::new("soak"),
            &Inputs::default(),
        )?),
        &server.target(),
        &spec,
        &Stop::new(),
        &Arc::new(Progress::new()),
    )?;
    if block.ended != Ended::Complete || !block.errors.is_empty() || block.completed == 0 {
        return Err(format!(
            "the block ended as {:?} with {:?}",
            block.ended, block.errors
        )
        .into());
    }
    let p95_us: Vec<u64> = block
        .series
        .iter()
        .filter_map(|second| second.p95_us)
        .collect();
    let tenth = (p95_us.len() / 10).max(1);
    let first = median(&p95_us[..tenth]);
    let last = median(&p95_us[p95_us.len() - tenth..]);
    writeln!(std::io::stdout(), "{first} {last}")?;
    Ok(())
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
