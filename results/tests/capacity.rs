//! The search for a capacity against services of known capacity: simulated, seeded and noisy.

use proptest::prelude::*;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use unstall_results::capacity::{self, Bounds, Capacity, Ceiling, Search, Step, Trial, TrialEnd};
use unstall_results::comparison::Verdict;
use unstall_results::record::RunRecord;
use unstall_results::synthetic::{CapacitySpec, capacity_record};

const BOUNDS: Bounds = Bounds {
    from: 50.0,
    lowest: 50.0,
    highest: 20_000.0,
    precision: 0.05,
    trials_max: 40,
};

/// A service whose blocks hold with a probability that falls with the rate.
struct Service {
    capacity: f64,
    /// Standard deviation of ln capacity from block to block; 0 for a step.
    spread: f64,
    /// Share of blocks that something else decides, either way.
    hiccups: f64,
    rng: ChaCha8Rng,
}

impl Service {
    fn block(&mut self, rate: f64) -> TrialEnd {
        if self.rng.random::<f64>() < self.hiccups {
            return if self.rng.random::<bool>() {
                TrialEnd::Held
            } else {
                TrialEnd::Failed
            };
        }
        let own = self.capacity.ln() + self.spread * normal(&mut self.rng);
        if rate.ln() < own {
            TrialEnd::Held
        } else {
            TrialEnd::Failed
        }
    }
}

/// Box and Muller.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// Searches to the end; how many blocks it took, and the highest rate that was offered.
fn search(bounds: Bounds, mut block: impl FnMut(f64) -> TrialEnd) -> (Search, Capacity) {
    let mut search = Search::new(bounds);
    loop {
        match search.step() {
            Step::Done(capacity) => return (search, capacity),
            Step::Measure(rate) => {
                let end = block(rate);
                search.learn(Trial { rate, end });
            }
        }
    }
}

/// What came of many searches.
#[derive(Debug, Default)]
struct Tally {
    searches: usize,
    found: usize,
    covered: usize,
    precise: usize,
    blocks: usize,
}

fn simulate(spread: f64, hiccups: f64, seeds: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..seeds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let capacity = 60.0 * 100f64.powf(rng.random::<f64>());
        let mut service = Service {
            capacity,
            spread,
            hiccups,
            rng,
        };
        let (search, answer) = search(BOUNDS, |rate| service.block(rate));
        tally.searches += 1;
        tally.blocks += search.trials().len();
        if let Capacity::Found {
            low,
            high,
            is_precise,
            ..
        } = answer
        {
            tally.found += 1;
            tally.precise += usize::from(is_precise);
            tally.covered += usize::from((low..=high).contains(&capacity));
        }
    }
    tally
}

#[test]
fn the_interval_covers_the_truth() {
    for (spread, hiccups) in [
        (0.0, 0.0),
        (0.01, 0.0),
        (0.03, 0.02),
        (0.08, 0.02),
        (0.0, 0.04),
    ] {
        let tally = simulate(spread, hiccups, 200);
        // A first block that fails twice by mishap may end a search early.
        assert!(
            tally.found * 100 >= tally.searches * 98,
            "spread {spread}: {tally:?}"
        );
        assert!(
            tally.covered * 100 >= tally.searches * 90,
            "spread {spread}: {tally:?}"
        );
    }
}

#[test]
fn steady_services_take_few_blocks() {
    let tally = simulate(0.0, 0.0, 100);
    assert_eq!(tally.precise, tally.searches);
    // Up to 7 doublings, then bisection.
    assert!(tally.blocks <= tally.searches * 20, "{tally:?}");
}

#[test]
fn no_rate_leaps_beyond_twice_what_held() {
    for seed in 0..50 {
        let mut service = Service {
            capacity: 900.0,
            spread: 0.2,
            hiccups: 0.2,
            rng: ChaCha8Rng::seed_from_u64(seed),
        };
        let mut held = BOUNDS.from;
        search(BOUNDS, |rate| {
            assert!(rate <= 2.02 * held, "{rate} after {held}");
            let end = service.block(rate);
            if end == TrialEnd::Held {
                held = held.max(rate);
            }
            end
        });
    }
}

#[test]
fn what_always_holds_is_at_least_the_highest_rate() {
    let (search, capacity) = search(BOUNDS, |_| TrialEnd::Held);
    let Capacity::AtLeast { rate, because } = capacity else {
        panic!("{capacity:?}");
    };
    assert_eq!((rate, because), (20_000.0, Ceiling::Asked));
    assert!(search.trials().len() < 14, "{}", search.trials().len());
}

#[test]
fn what_never_holds_is_below_the_lowest_rate() {
    let bounds = Bounds {
        lowest: 10.0,
        ..BOUNDS
    };
    let (search, capacity) = search(bounds, |_| TrialEnd::Failed);
    assert_eq!(capacity, Capacity::Below { rate: 10.0 });
    assert!(search.trials().len() <= 6, "{:?}", search.trials());
}

#[test]
fn where_the_generator_ends_the_answer_is_a_bound() {
    let (search, capacity) = search(BOUNDS, |rate| {
        if rate > 3_000.0 {
            TrialEnd::Spoilt
        } else {
            TrialEnd::Held
        }
    });
    let Capacity::AtLeast { rate, because } = capacity else {
        panic!("{capacity:?}");
    };
    assert_eq!(because, Ceiling::Generator);
    assert!((2_000.0..=3_000.0).contains(&rate), "{rate}");
    assert!(search.trials().len() < 24, "{}", search.trials().len());
}

#[test]
fn a_ceiling_above_the_capacity_does_not_hide_it() {
    let (_, capacity) = search(BOUNDS, |rate| match rate {
        rate if rate > 1_000.0 => TrialEnd::Spoilt,
        rate if rate > 700.0 => TrialEnd::Failed,
        _ => TrialEnd::Held,
    });
    let Capacity::Found { low, high, .. } = capacity else {
        panic!("{capacity:?}");
    };
    assert!(
        low <= 700.0 && (700.0..780.0).contains(&high),
        "{low} {high}"
    );
}

#[test]
fn a_machine_that_can_offer_nothing_ends_the_search() {
    let (search, capacity) = search(BOUNDS, |_| TrialEnd::Spoilt);
    assert_eq!(capacity, Capacity::Unknown);
    assert!(search.trials().len() <= BOUNDS.trials_max);
}

#[test]
fn the_same_trials_lead_to_the_same_rates() {
    let run = || {
        let mut service = Service {
            capacity: 300.0,
            spread: 0.05,
            hiccups: 0.0,
            rng: ChaCha8Rng::seed_from_u64(7),
        };
        search(BOUNDS, |rate| service.block(rate)).0
    };
    assert_eq!(run().trials(), run().trials());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_service_that_always_holds_is_asked_for_the_highest_rate_and_no_more(
        from in 0.02f64..1_000.0, doublings in 0.0f64..8.0,
    ) {
        let bounds = Bounds {
            from,
            lowest: from / 16.0,
            highest: from * doublings.exp2(),
            ..BOUNDS
        };
        let (search, capacity) = search(bounds, |_| TrialEnd::Held);
        prop_assert!(
            search.trials().len() <= doublings.ceil() as usize + 4,
            "{:?}", search.trials()
        );
        prop_assert!(search.trials().iter().all(|trial| trial.rate <= bounds.highest));
        prop_assert_eq!(
            capacity,
            Capacity::AtLeast { rate: bounds.highest, because: Ceiling::Asked }
        );
    }

    #[test]
    fn a_machine_that_is_late_at_every_rate_ends_the_search(from in 0.02f64..1_000.0) {
        let bounds = Bounds { from, lowest: from / 16.0, highest: from * 100.0, ..BOUNDS };
        // A record keeps thousandths.
        let mut search = Search::new(bounds);
        while let Step::Measure(rate) = search.step() {
            prop_assert!(rate >= bounds.lowest);
            let rate = if rate > 1.0 { (rate * 1e3).round() / 1e3 } else { rate };
            search.learn(Trial { rate, end: TrialEnd::Spoilt });
        }
        prop_assert_eq!(search.close(), Capacity::Unknown);
        // Sixteen is four halvings, of rates that are rounded: the fifth may stop just above the
        // lowest, which is then asked for too. Four blocks each.
        prop_assert!(search.trials().len() <= 24, "{:?}", search.trials());
    }
}

#[test]
fn a_ratio_of_two_short_searches_at_the_finest_precision_takes_little() {
    // One failure each: nearly every cell of the grid is still likely.
    let spec = CapacitySpec {
        before: 120.0,
        after: Some(100.0),
        highest: 1_000_000.0,
    };
    let mut record = capacity_record(1, spec);
    if let Some(load) = &mut record.load.capacity {
        load.precision = 0.01;
        load.blocks_max = 4;
    }
    record.blocks.retain(|block| block.pair < 3);
    let finding = capacity::find(&record)
        .expect("an objective")
        .expect("a search");
    let ratio = finding.ratio.expect("a ratio");
    assert!(
        ratio.low <= ratio.estimate && ratio.estimate <= ratio.high,
        "{ratio:?}"
    );
}

#[test]
fn where_the_blocks_end_no_more_is_said_to_be_asked_for() {
    let bounds = Bounds {
        trials_max: 4,
        ..BOUNDS
    };
    let (_, capacity) = search(bounds, |_| TrialEnd::Held);
    let expected = Capacity::AtLeast {
        rate: 400.0,
        because: Ceiling::Ended,
    };
    assert_eq!(capacity, expected);
    // One failed block alone is no verdict.
    let mut short = Search::new(bounds);
    short.learn(Trial {
        rate: 50.0,
        end: TrialEnd::Failed,
    });
    assert_eq!(short.close(), Capacity::Unknown);
    short.learn(Trial {
        rate: 50.0,
        end: TrialEnd::Failed,
    });
    assert!(matches!(short.close(), Capacity::Below { .. }));
}

fn found(record: &RunRecord) -> capacity::Finding {
    capacity::find(record)
        .expect("an objective")
        .expect("a search")
}

#[test]
fn a_search_that_was_stopped_decides_nothing() {
    let spec = CapacitySpec {
        before: 400.0,
        after: Some(5.0),
        highest: 600.0,
    };
    let mut record = capacity_record(1, spec);
    assert_eq!(found(&record).verdict, Some(Verdict::Regression));
    record.interrupted = true;
    let finding = found(&record);
    assert_eq!(finding.verdict, Some(Verdict::Inconclusive));
    assert_eq!(finding.next_action, "Measure again, to the end");
}

#[test]
fn a_bound_of_one_block_is_none_for_a_ratio() {
    let spec = CapacitySpec {
        before: 100.0,
        after: Some(4_000.0),
        highest: 50_000.0,
    };
    let mut record = capacity_record(1, spec);
    if let Some(load) = &mut record.load.capacity {
        load.blocks_max = 6;
    }
    // Of the new version, the doublings up to the first that is far beyond the old one's.
    record
        .blocks
        .retain(|block| block.arm == "before" || block.level <= 200_000);
    let finding = found(&record);
    let held = finding.arms[1].capacity;
    let expected = Capacity::AtLeast {
        rate: 200.0,
        because: Ceiling::Ended,
    };
    assert_eq!(held, expected);
    let (Capacity::Found { high, .. }, Some(ratio)) = (finding.arms[0].capacity, finding.ratio)
    else {
        panic!("{finding:?}");
    };
    assert_eq!(ratio.low, Some(100.0 / high));
    let notes = finding.notes.join("\n");
    assert!(notes.contains("after: one block held at 200/s"), "{notes}");
}
