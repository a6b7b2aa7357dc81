//! How often the comparison is right, on synthetic sessions of which the truth is
//! known: correlated requests, bursts, a drifting machine. Seeded, so the counts
//! are always the same. `examples/simulate.rs` prints the whole table.

use unstall_results::compare::compare;
use unstall_results::comparison::Verdict;
use unstall_results::policy::Policy;
use unstall_results::synthetic::{EndpointSpec, record};

/// Sessions of 10 pairs × 400 requests on two endpoints, of which the first is
/// `ratio` as slow after: how many regressions and passes.
fn sessions(count: u64, ratio: f64) -> (u64, u64) {
    let first = EndpointSpec {
        ratio,
        ..EndpointSpec::new("GET a", 20.0)
    };
    let endpoints = [first, EndpointSpec::new("GET b", 30.0)];
    let mut counts = (0, 0);
    for seed in 0..count {
        let session = record(1_000 + seed, 10, 400, &endpoints);
        let comparison = compare(&session, &Policy::default()).unwrap();
        match comparison.verdict {
            Verdict::Regression => counts.0 += 1,
            Verdict::Pass => counts.1 += 1,
            Verdict::Inconclusive => {}
            Verdict::Invalid => panic!("{:?}", comparison.validity),
        }
    }
    counts
}

#[test]
fn identical_versions_do_not_regress() {
    let (regressions, passes) = sessions(30, 1.0);
    assert!(regressions <= 2, "{regressions} of 30 false alarms");
    assert!(passes >= 15, "only {passes} of 30 passed");
}

#[test]
fn a_fifth_slower_is_found() {
    let (regressions, passes) = sessions(15, 1.2);
    assert!(regressions >= 11, "only {regressions} of 15 found");
    assert_eq!(passes, 0, "a regression passed");
}
