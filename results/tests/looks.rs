//! Comparisons that are judged at looks: at which look a record stands, and at what α.

use unstall_results::compare::compare;
use unstall_results::comparison::{Comparison, Outcome, Verdict};
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;
use unstall_results::synthetic::{EndpointSpec, SessionSpec};

const LOOKS: [u32; 3] = [10, 16, 24];

/// A session of which `pairs` pairs are complete; its first endpoint takes `ratio` as long after.
fn stopped(pairs: usize, ratio: f64) -> RunRecord {
    let slower = EndpointSpec {
        ratio,
        spread: 0.3,
        ..EndpointSpec::new("GET a", 20.0)
    };
    let spec = SessionSpec {
        looks: LOOKS.to_vec(),
        ..SessionSpec::new(4, 0, 400, &[slower])
    };
    let mut record = spec.record();
    record.blocks.truncate(pairs * 2);
    record.interrupted = pairs < 24;
    record.validate().unwrap();
    record
}

fn judged(record: &RunRecord) -> Comparison {
    compare(record, &Policy::default()).unwrap()
}

#[test]
fn a_record_is_judged_at_the_alpha_of_its_look() {
    for (pairs, number, used, alpha) in [
        (10, 1, 10, 0.01),
        (13, 1, 10, 0.01),
        (16, 2, 16, 0.015),
        (23, 2, 16, 0.015),
        (24, 3, 24, 0.025),
    ] {
        let comparison = judged(&stopped(pairs, 1.0));
        let looks = comparison.looks.as_ref().unwrap();
        assert_eq!(
            (looks.number(), comparison.pairs),
            (number, used),
            "{pairs}"
        );
        assert!((comparison.alpha - alpha).abs() < 1e-12, "{pairs}");
        for cell in comparison.cells.iter().filter(|cell| cell.change.is_some()) {
            assert_eq!(cell.before.per_block.len(), used as usize);
        }
    }
}

#[test]
fn what_came_after_a_look_changes_nothing() {
    let (at, beyond) = (judged(&stopped(10, 1.12)), judged(&stopped(15, 1.12)));
    assert_eq!(at.verdict, beyond.verdict);
    assert_eq!(at.cells, beyond.cells);
    let warning = &beyond.validity.warnings;
    assert!(
        warning
            .iter()
            .any(|text| text.contains("5 complete pairs left out")),
        "{warning:?}"
    );
}

#[test]
fn a_fault_after_a_look_changes_nothing_either() {
    let at = judged(&stopped(10, 1.12));
    let mut beyond = stopped(13, 1.12);
    for block in &mut beyond.blocks[22..24] {
        block.validity.ok = false;
        block.validity.reasons = vec!["the generator was late".to_owned()];
    }
    let beyond = judged(&beyond);
    assert_eq!(at.verdict, beyond.verdict);
    assert_eq!(at.cells, beyond.cells);
    let warned = beyond.validity.warnings.join("\n");
    assert!(warned.contains("the generator was late"), "{warned}");
    // A session that came to its end has no pairs that didn't count.
    let mut whole = stopped(24, 1.12);
    whole.blocks[46].validity.ok = false;
    assert_eq!(judged(&whole).verdict, Verdict::Invalid);
}

#[test]
fn before_the_first_look_nothing_is_judged() {
    let comparison = judged(&stopped(9, 3.0));
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
    let settled = comparison.cells.iter().filter(|cell| {
        matches!(
            cell.outcome,
            Outcome::Regression | Outcome::Improvement | Outcome::WithinLimit
        )
    });
    assert_eq!(settled.count(), 0);
    insta::assert_snapshot!(
        [&comparison.reasons[..], &[comparison.next_action]]
            .concat()
            .join("\n")
    );
    assert_eq!(judged(&stopped(10, 3.0)).verdict, Verdict::Regression);
}

#[test]
fn a_look_says_which_it_is_and_what_its_test_can_see() {
    let comparison = judged(&stopped(16, 1.12));
    insta::assert_snapshot!(
        [
            &comparison.reasons[..],
            &comparison.blind_spots[..],
            &[comparison.next_action]
        ]
        .concat()
        .join("\n")
    );
}

#[test]
fn looks_in_a_file_must_make_sense() {
    for looks in [
        vec![10, 10, 24],
        vec![16, 10, 24],
        vec![0, 24],
        vec![10, 16],
    ] {
        let mut record = stopped(24, 1.0);
        record.load.looks = looks.clone();
        let message = record.validate().unwrap_err().to_string();
        assert!(message.starts_with("load.looks:"), "{looks:?}: {message}");
    }
}

#[test]
fn each_look_has_its_share_of_either_order() {
    let record = stopped(24, 1.0);
    let mut begun = 0;
    for look in LOOKS {
        let of_look = record.blocks.iter().filter(|block| {
            (begun..look).contains(&block.pair) && block.position == 0 && block.arm == "before"
        });
        assert_eq!(of_look.count() as u32 * 2, look - begun);
        begun = look;
    }
}
