//! A large comparison, for measuring by hand; nothing here is decided by a clock.

#![expect(clippy::print_stdout, reason = "a table for people, on demand")]

use std::time::Instant;

use unstall_results::compare::compare;
use unstall_results::policy::Policy;
use unstall_results::synthetic::{EndpointSpec, record};

/// `cargo test --release -p unstall-results --test speed -- --ignored --nocapture`.
#[test]
#[ignore = "prints durations instead of deciding anything"]
fn a_hundred_endpoints_in_24_pairs() {
    let endpoints: Vec<EndpointSpec> = (0..100)
        .map(|index| EndpointSpec::new(&format!("GET {index}"), 10.0 + f64::from(index)))
        .collect();
    let session = record(1, 24, 400, &endpoints);
    let start = Instant::now();
    let comparison = compare(&session, &Policy::default()).unwrap();
    println!(
        "compare: {:?}, {} cells",
        start.elapsed(),
        comparison.cells.len()
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.json");
    let start = Instant::now();
    unstall_results::store::write(&path, &session).unwrap();
    println!(
        "write: {:?}, {} bytes",
        start.elapsed(),
        std::fs::metadata(&path).unwrap().len()
    );
    let start = Instant::now();
    assert_eq!(unstall_results::store::read(&path).unwrap(), session);
    println!("read: {:?}", start.elapsed());
}
