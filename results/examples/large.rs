//! How long a large comparison takes: 100 endpoints in 24 pairs of 400 requests.
//!
//! `cargo run --release -p unstall-results --example large`

#![expect(clippy::print_stdout, reason = "it prints durations")]

use std::error::Error;
use std::time::Instant;

use unstall_results::compare::compare;
use unstall_results::policy::Policy;
use unstall_results::store;
use unstall_results::synthetic::{EndpointSpec, record};

fn main() -> Result<(), Box<dyn Error>> {
    let endpoints: Vec<EndpointSpec> = (0..100)
        .map(|index| EndpointSpec::new(&format!("GET {index}"), 10.0 + f64::from(index)))
        .collect();
    let session = record(1, 24, 400, &endpoints);
    let path = std::env::temp_dir().join(format!("unstall-large-{}.json", std::process::id()));
    let start = Instant::now();
    store::write(&path, &session)?;
    println!(
        "write   {:?}, {} bytes",
        start.elapsed(),
        std::fs::metadata(&path)?.len()
    );
    let start = Instant::now();
    let read = store::read(&path)?;
    println!("read    {:?}", start.elapsed());
    std::fs::remove_file(&path)?;
    let start = Instant::now();
    let comparison = compare(&read, &Policy::default())?;
    println!(
        "compare {:?}, {} cells",
        start.elapsed(),
        comparison.cells.len()
    );
    Ok(())
}
