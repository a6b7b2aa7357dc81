//! How much CPU time a large comparison takes: 100 endpoints in 24 pairs of 400
//! requests. On-CPU time from the Linux scheduler, since wall time on a busy machine
//! tells little.
//!
//! `cargo run --release -p unstall-results --example large`

#![expect(clippy::print_stdout, reason = "it prints durations")]

use std::error::Error;
use std::time::Duration;

use unstall_results::compare::compare;
use unstall_results::policy::Policy;
use unstall_results::store;
use unstall_results::synthetic::{EndpointSpec, record};

/// Time that this thread has been on a core.
fn on_cpu() -> Result<Duration, Box<dyn Error>> {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns = schedstat.split(' ').next().unwrap_or_default();
    Ok(Duration::from_nanos(ns.parse()?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let endpoints: Vec<EndpointSpec> = (0..100)
        .map(|index| EndpointSpec::new(&format!("GET {index}"), 10.0 + f64::from(index)))
        .collect();
    let session = record(1, 24, 400, &endpoints);
    let path = std::env::temp_dir().join(format!("unstall-large-{}.json", std::process::id()));
    let start = on_cpu()?;
    store::write(&path, &session)?;
    println!(
        "write   {:?}, {} bytes",
        on_cpu()? - start,
        std::fs::metadata(&path)?.len()
    );
    let start = on_cpu()?;
    let read = store::read(&path)?;
    println!("read    {:?}", on_cpu()? - start);
    std::fs::remove_file(&path)?;
    let start = on_cpu()?;
    let comparison = compare(&read, &Policy::default())?;
    println!(
        "compare {:?}, {} cells",
        on_cpu()? - start,
        comparison.cells.len()
    );
    Ok(())
}
