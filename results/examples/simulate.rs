//! How often the comparison is right on synthetic sessions of which the truth is
//! known: the table behind every rate that the documentation quotes.
//!
//! `cargo run --release -p unstall-results --example simulate [-- SESSIONS]`

#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::error::Error;

use unstall_results::compare::compare;
use unstall_results::comparison::Verdict;
use unstall_results::policy::Policy;
use unstall_results::synthetic::{EndpointSpec, record};

/// Endpoints alike, of which the first is `ratio` as slow after.
fn endpoints(count: usize, ratio: f64) -> Vec<EndpointSpec> {
    (0..count)
        .map(|index| EndpointSpec {
            ratio: if index == 0 { ratio } else { 1.0 },
            ..EndpointSpec::new(&format!("GET {index}"), 20.0)
        })
        .collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let sessions: u32 = std::env::args()
        .nth(1)
        .map_or(Ok(150), |text| text.parse())?;
    println!("| pairs × requests, endpoints | identical | one +10 % | one +20 % |");
    println!("|---|---|---|---|");
    for (pairs, requests) in [(7, 400), (10, 400), (10, 500), (10, 2_000), (16, 2_000)] {
        for count in [2, 6] {
            let mut row = format!("| {pairs} × {requests}, {count} |");
            for ratio in [1.0, 1.1, 1.2] {
                let [mut regressions, mut passes, mut invalid] = [0u32; 3];
                for seed in 0..sessions {
                    let session =
                        record(u64::from(seed), pairs, requests, &endpoints(count, ratio));
                    match compare(&session, &Policy::default())?.verdict {
                        Verdict::Regression => regressions += 1,
                        Verdict::Pass => passes += 1,
                        Verdict::Invalid => invalid += 1,
                        Verdict::Inconclusive => {}
                    }
                }
                let percent = |count: u32| f64::from(count) * 100.0 / f64::from(sessions);
                row += &format!(" {:.1} / {:.1}", percent(regressions), percent(passes));
                if invalid > 0 {
                    row += &format!(" (invalid {:.1})", percent(invalid));
                }
                row += " |";
            }
            println!("{row}");
        }
    }
    println!("\nregression % / pass % of {sessions} sessions each");
    Ok(())
}
