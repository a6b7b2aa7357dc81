//! How often the comparison is right, on synthetic sessions of which the truth is
//! known: correlated requests, bursts, a drifting machine. Seeded, so the counts
//! are always the same.

#![expect(clippy::print_stdout, reason = "a table for people, on demand")]

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
    let (regressions, passes) = sessions(40, 1.0);
    assert!(regressions <= 2, "{regressions} of 40 false alarms");
    assert!(passes >= 20, "only {passes} of 40 passed");
}

#[test]
fn a_fifth_slower_is_found() {
    let (regressions, passes) = sessions(20, 1.2);
    assert!(regressions >= 15, "only {regressions} of 20 found");
    assert_eq!(passes, 0, "a regression passed");
}

/// The table of the documentation: `cargo test --release -p unstall-results --test
/// simulation -- --ignored --nocapture`.
#[test]
#[ignore = "minutes long; prints a table instead of deciding anything"]
fn table() {
    println!("pairs x requests, endpoints: regression % / pass %, at ratios 1, 1.1, 1.2");
    for (pairs, requests) in [(7, 400), (10, 400), (10, 500), (10, 2_000), (16, 2_000)] {
        for count in [2, 6] {
            let row: Vec<String> = [1.0, 1.1, 1.2]
                .iter()
                .map(|ratio| {
                    let mut endpoints = vec![EndpointSpec::new("GET 0", 20.0); count];
                    for (index, endpoint) in endpoints.iter_mut().enumerate() {
                        endpoint.name = format!("GET {index}");
                    }
                    endpoints[0].ratio = *ratio;
                    let mut counts = (0, 0, 0);
                    for seed in 0..150 {
                        let session = record(seed, pairs, requests, &endpoints);
                        match compare(&session, &Policy::default()).unwrap().verdict {
                            Verdict::Regression => counts.0 += 1,
                            Verdict::Pass => counts.1 += 1,
                            Verdict::Invalid => counts.2 += 1,
                            Verdict::Inconclusive => {}
                        }
                    }
                    let percent = |count: i32| f64::from(count) / 1.5;
                    format!(
                        "{:.1} / {:.1} (invalid {:.1})",
                        percent(counts.0),
                        percent(counts.1),
                        percent(counts.2)
                    )
                })
                .collect();
            println!("{pairs} x {requests}, {count}: {}", row.join(" | "));
        }
    }
}
