//! What must hold of every comparison, whatever was measured.

use proptest::prelude::*;
use unstall_results::compare::compare;
use unstall_results::comparison::{Cell, Comparison, Outcome, Verdict};
use unstall_results::histogram::LatencyHistogram;
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;
use unstall_results::synthetic::{EndpointSpec, SessionSpec};

/// Small sessions, in which medians are judged: of one to three endpoints, somewhere between
/// better, alike and worse.
fn sessions() -> impl Strategy<Value = SessionSpec> {
    let endpoint = (0.5..1.6f64, 0.1..0.6f64, 2.0..60.0f64);
    let endpoints = prop::collection::vec(endpoint, 1..4);
    (any::<u64>(), 6..9u32, endpoints).prop_map(|(seed, pairs, endpoints)| {
        let endpoints: Vec<EndpointSpec> = endpoints
            .into_iter()
            .enumerate()
            .map(|(index, (ratio, spread, p50_ms))| EndpointSpec {
                ratio,
                spread,
                ..EndpointSpec::new(&format!("GET {index}"), p50_ms)
            })
            .collect();
        SessionSpec {
            is_complete: false,
            ..SessionSpec::new(seed, pairs, 60, &endpoints)
        }
    })
}

fn judged(record: &RunRecord) -> Comparison {
    compare(record, &Policy::default()).unwrap()
}

fn find<'a>(comparison: &'a Comparison, like: &Cell) -> &'a Cell {
    let mut cells = comparison.cells.iter();
    let same = |cell: &&Cell| {
        (&cell.endpoint, cell.level, cell.metric) == (&like.endpoint, like.level, like.metric)
    };
    cells.find(same).expect("the same cell")
}

/// Every time of one arm, changed.
fn change_times(record: &mut RunRecord, arm: &str, change: impl Fn(u64) -> u64) {
    let blocks = record.blocks.iter_mut().filter(|block| block.arm == arm);
    for samples in blocks.flat_map(|block| block.endpoints.values_mut()) {
        let mut changed = LatencyHistogram::new();
        for (us, count) in samples.response.iter() {
            changed.record_us_times(change(us), count);
        }
        samples.response = changed;
    }
}

/// Each arm under the other's name.
fn swapped(record: &RunRecord) -> RunRecord {
    let mut swapped = record.clone();
    for block in &mut swapped.blocks {
        let other = if block.arm == "before" {
            "after"
        } else {
            "before"
        };
        other.clone_into(&mut block.arm);
    }
    swapped
}

/// From better to worse.
fn rank(outcome: Outcome) -> u32 {
    match outcome {
        Outcome::Improvement => 0,
        Outcome::WithinLimit => 1,
        Outcome::Inconclusive { .. } => 2,
        Outcome::Regression => 3,
        other => panic!("{other:?} in a session that has everything"),
    }
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_order_of_endpoints_means_nothing(spec in sessions()) {
        let mut record = spec.record();
        let one = judged(&record);
        record.scenario.endpoints.reverse();
        let other = judged(&record);
        prop_assert_eq!(one.verdict, other.verdict);
        for cell in &one.cells {
            let same = find(&other, cell);
            prop_assert_eq!(&cell.outcome, &same.outcome);
            prop_assert_eq!(&cell.change, &same.change);
        }
    }

    #[test]
    fn swapped_arms_mirror_every_number(spec in sessions()) {
        let record = spec.record();
        let (one, other) = (judged(&record), judged(&swapped(&record)));
        for cell in one.cells.iter().filter(|cell| cell.change.is_some()) {
            let (change, mirrored) = (cell.change.as_ref(), find(&other, cell).change.as_ref());
            let (change, mirrored) = (change.unwrap(), mirrored.unwrap());
            prop_assert!(close(change.p_regression, mirrored.p_improvement), "{cell:?}");
            prop_assert!(close(change.p_improvement, mirrored.p_regression), "{cell:?}");
            let mirror = |value: f64| match change.scale {
                unstall_results::comparison::Scale::Ratio => 1.0 / value,
                unstall_results::comparison::Scale::Difference => -value,
            };
            prop_assert!(close(change.estimate, mirror(mirrored.estimate)), "{cell:?}");
            prop_assert!(close(change.upper_bound, mirror(mirrored.lower_bound)), "{cell:?}");
            prop_assert!(close(change.low, mirror(mirrored.high)), "{cell:?}");
        }
        // The two can't both be worse than the other.
        let both = one.verdict == Verdict::Regression && other.verdict == Verdict::Regression;
        let worse = |comparison: &Comparison, cell: &Cell| {
            find(comparison, cell).outcome == Outcome::Regression
        };
        prop_assert!(!both || !one.cells.iter().any(|cell| worse(&one, cell) && worse(&other, cell)));
    }

    /// An added endpoint makes a family larger and the adjusted p of its cells no smaller; bounds
    /// are a cell's own. So what was no regression and no improvement of its own is none beside
    /// it, and a session that passed can regress by the added endpoint only.
    #[test]
    fn an_added_endpoint_is_no_reason_for_another_one_to_regress(spec in sessions()) {
        let record = spec.record();
        let mut fewer = record.clone();
        let left_out = fewer.scenario.endpoints.pop().unwrap().name;
        if fewer.scenario.endpoints.is_empty() {
            return Ok(());
        }
        for block in &mut fewer.blocks {
            block.endpoints.remove(&left_out);
        }
        let (with, without) = (judged(&record), judged(&fewer));
        for cell in without.cells.iter().filter(|cell| cell.endpoint.is_some()) {
            let (alone, beside) = (cell.change.as_ref(), find(&with, cell).change.as_ref());
            if let (Some(alone), Some(beside)) = (alone, beside) {
                prop_assert!(beside.p_regression >= alone.p_regression - 1e-12, "{cell:?}");
                prop_assert!(beside.p_improvement >= alone.p_improvement - 1e-12, "{cell:?}");
                prop_assert_eq!(beside.upper_bound, alone.upper_bound);
            }
        }
        // What is only shown, such as throughput, may well be worse for the added one.
        let by_the_others = with.cells.iter().find(|cell| {
            cell.judged
                && cell.outcome == Outcome::Regression
                && cell.endpoint.as_ref() != Some(&left_out)
        });
        prop_assert!(without.verdict != Verdict::Pass || by_the_others.is_none(), "{by_the_others:?}");
    }

    /// Of one endpoint: the worse its times, the worse what is said of them.
    #[test]
    fn a_slower_version_is_never_judged_better(
        spec in sessions(),
        factor in 1.0..2.0f64,
    ) {
        let spec = SessionSpec { endpoints: spec.endpoints[..1].to_vec(), ..spec };
        let record = spec.record();
        let mut slower = record.clone();
        change_times(&mut slower, "after", |us| (us as f64 * factor) as u64);
        let (before, after) = (judged(&record), judged(&slower));
        for cell in before.cells.iter().filter(|cell| cell.judged && cell.metric.quantile().is_some()) {
            let worse = find(&after, cell);
            prop_assert!(rank(worse.outcome) >= rank(cell.outcome), "{cell:?}\n{worse:?}");
        }
        let order = |verdict| match verdict {
            Verdict::Pass => 0,
            Verdict::Inconclusive => 1,
            Verdict::Regression => 2,
            Verdict::Invalid => 3,
        };
        prop_assert!(order(after.verdict) >= order(before.verdict));
    }

    /// Of several: one that becomes slower may hide how sure another one's change is, but a
    /// regression never becomes a pass.
    #[test]
    fn a_slower_version_never_turns_a_regression_into_a_pass(
        spec in sessions(),
        factor in 1.0..2.0f64,
    ) {
        let record = spec.record();
        let mut slower = record.clone();
        change_times(&mut slower, "after", |us| (us as f64 * factor) as u64);
        if judged(&record).verdict == Verdict::Regression {
            prop_assert_ne!(judged(&slower).verdict, Verdict::Pass);
        }
    }

    /// In another unit, so to speak: times that are all twice as long change no ratio, as long as
    /// they are above the floors and their digits.
    #[test]
    fn doubled_times_leave_ratios_and_p(spec in sessions()) {
        let record = spec.record();
        let mut doubled = record.clone();
        change_times(&mut doubled, "before", |us| us * 2);
        change_times(&mut doubled, "after", |us| us * 2);
        let (one, other) = (judged(&record), judged(&doubled));
        for cell in one.cells.iter().filter(|cell| cell.judged && cell.metric.quantile().is_some()) {
            let (change, same) = (cell.change.as_ref(), find(&other, cell).change.as_ref());
            let (change, same) = (change.unwrap(), same.unwrap());
            // Histograms keep three digits.
            prop_assert!((change.estimate / same.estimate - 1.0).abs() < 3e-3, "{cell:?}");
            // Of 2⁶ flips or more a few may be on the other side of a rounding.
            prop_assert!((change.p_regression - same.p_regression).abs() <= 0.05, "{cell:?}");
        }
    }
}
