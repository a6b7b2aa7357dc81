//! How often the comparison is right, on synthetic sessions of which the truth is known:
//! correlated requests, bursts, a drifting machine, something that comes and goes. Seeded, so the
//! counts are always the same. `examples/simulate.rs` makes the whole tables.

use unstall_results::compare::compare;
use unstall_results::comparison::Verdict;
use unstall_results::policy::Policy;
use unstall_results::synthetic::naive::Rule;
use unstall_results::synthetic::simulation::{Plan, Simulation, Tally, Truth};
use unstall_results::synthetic::{EndpointSpec, SessionSpec};

/// Sessions of two endpoints.
fn sessions(looks: &[u32], requests: u64, truth: Truth, count: u32) -> Tally {
    let simulation = Simulation {
        plan: Plan {
            looks: looks.to_vec(),
            requests,
            endpoints: 2,
        },
        truth,
        policy: Policy::default(),
        with_other_rules: true,
    };
    let tally = simulation.run(count).unwrap();
    assert_eq!(tally.invalid, 0, "{tally:?}");
    tally
}

#[test]
fn identical_versions_do_not_regress() {
    let tally = sessions(&[10], 400, Truth::Same, 60);
    assert!(tally.regressions <= 2, "{tally:?}");
    assert!(tally.passes >= 30, "{tally:?}");
}

#[test]
fn a_fifth_slower_is_found() {
    let tally = sessions(&[10], 400, Truth::OneSlower(20), 40);
    assert!(tally.regressions >= 30, "{tally:?}");
    assert_eq!(tally.passes, 0, "{tally:?}");
}

#[test]
fn exactly_at_the_margin_alarms_are_as_rare_as_promised() {
    let tally = sessions(&[10], 400, Truth::AtMargin, 100);
    // 5 % at most in the long run. The seeds are fixed, so this isn't left to chance.
    assert!(tally.regressions <= 10, "{tally:?}");
}

#[test]
fn looks_find_it_sooner_and_alarm_no_more_often() {
    let same = sessions(&[8, 12], 400, Truth::Same, 40);
    assert!(same.regressions <= 2, "{same:?}");
    let slower = sessions(&[8, 12], 400, Truth::OneSlower(40), 20);
    assert!(slower.regressions >= 18, "{slower:?}");
    assert!(
        slower.pairs < 12 * 20,
        "some end at the first look: {slower:?}"
    );
}

#[test]
fn rules_that_people_use_alarm_without_a_reason() {
    let tally = sessions(&[10], 400, Truth::Same, 60);
    // That of this rule is 2 of 60 at most, above.
    for rule in [Rule::PooledRequests, Rule::EarlierRun] {
        assert!(tally.alarms[&rule] >= 10, "{rule:?}: {tally:?}");
    }
    assert!(tally.passes_at_margin < tally.passes, "{tally:?}");
}

#[test]
fn one_standard_error_for_all_flips_hides_a_regression_behind_improvements() {
    let tally = sessions(&[10], 400, Truth::OneSlowerOthersFaster(30), 30);
    assert!(tally.regressions >= 25, "{tally:?}");
    assert!(
        tally.alarms[&Rule::FixedError] < tally.regressions,
        "{tally:?}"
    );
}

/// Sessions of identical versions whose second block of each pair is slower.
fn with_position(pairs: u32, slower: f64, spread: f64, seed: u64) -> (Verdict, Vec<String>) {
    let endpoints = [("GET a", 20.0), ("GET b", 30.0)].map(|(name, p50_ms)| EndpointSpec {
        spread,
        ..EndpointSpec::new(name, p50_ms)
    });
    let spec = SessionSpec {
        position: f64::ln(slower),
        is_complete: false,
        ..SessionSpec::new(seed, pairs, 400, &endpoints)
    };
    let comparison = compare(&spec.record(), &Policy::default()).unwrap();
    (comparison.verdict, comparison.validity.warnings)
}

#[test]
fn being_second_is_kept_out_of_the_verdict_and_told() {
    let mut warned = 0;
    for pairs in [10, 16, 24] {
        for seed in 0..20 {
            let (verdict, warnings) = with_position(pairs, 1.04, 0.5, seed);
            assert!(
                matches!(verdict, Verdict::Pass | Verdict::Inconclusive),
                "{pairs} pairs, seed {seed}: {verdict:?}"
            );
            let told = warnings.iter().filter(|text| text.contains("second block"));
            warned += told.count();
        }
    }
    // An effect of the size of the noise shows beyond doubt in some sessions only.
    assert!(warned >= 5, "only {warned} of 60 sessions warn");
}
