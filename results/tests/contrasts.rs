//! Records of three versions, through the public door: any two of them compare as if the third had
//! never been measured, except that triples count whole or not at all.

use proptest::prelude::*;
use unstall_results::compare::compare;
use unstall_results::comparison::{Comparison, Metric, Verdict};
use unstall_results::design::ArmName;
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;
use unstall_results::store;
use unstall_results::synthetic::{EndpointSpec, add_start, record};

fn endpoint(ratio: f64) -> EndpointSpec {
    EndpointSpec {
        ratio,
        ..EndpointSpec::new("GET a", 20.0)
    }
}

/// The step halves the time; the start was twice as slow as what came before the step.
fn measured(seed: u64, pairs: u32) -> RunRecord {
    let mut measured = record(seed, pairs, 400, &[endpoint(0.5)]);
    add_start(&mut measured, &[EndpointSpec::new("GET a", 40.0)]);
    measured
}

fn p50_change(comparison: &Comparison) -> f64 {
    let mut cells = comparison.cells.iter();
    let cell = cells.find(|cell| cell.metric == Metric::ResponseP50);
    cell.unwrap().change.as_ref().unwrap().estimate
}

fn against(record: &RunRecord, from: ArmName, to: ArmName) -> Comparison {
    compare(&record.contrast(from, to).unwrap(), &Policy::default()).unwrap()
}

#[test]
fn each_contrast_is_its_own_comparison() {
    let measured = measured(1, 10);
    assert_eq!(measured.validate(), Ok(()));
    assert!(measured.has_start());
    let step = against(&measured, ArmName::Before, ArmName::After);
    let start = against(&measured, ArmName::Start, ArmName::After);
    let earlier = against(&measured, ArmName::Start, ArmName::Before);
    assert_eq!(
        (step.verdict, start.verdict),
        (Verdict::Pass, Verdict::Pass)
    );
    for (found, expected) in [(&step, 0.5), (&start, 0.25), (&earlier, 0.5)] {
        let ratio = p50_change(found) / expected;
        assert!((0.85..1.18).contains(&ratio), "{ratio}");
        assert_eq!(found.pairs, 10);
    }
    // Who compares the record itself asks for the step, and gets the start beside it.
    let whole = compare(&measured, &Policy::default()).unwrap();
    assert_eq!(whole.from_start.as_deref(), Some(&start));
    assert_eq!(
        Comparison {
            from_start: None,
            ..whole
        },
        step
    );
    assert_eq!(start.label, format!("{}, start → after", measured.label));
}

#[test]
fn a_contrast_is_a_record_of_two_versions() {
    let measured = measured(2, 6);
    let step = measured.contrast(ArmName::Before, ArmName::After).unwrap();
    assert_eq!(step.validate(), Ok(()));
    assert!(!step.has_start());
    assert_eq!(step.arms["before"], measured.arms["before"]);
    let start = measured.contrast(ArmName::Start, ArmName::After).unwrap();
    assert_eq!(start.arms["before"], measured.arms["start"]);
    for reduced in [&step, &start] {
        let text = serde_json::to_vec(reduced).unwrap();
        assert_eq!(
            &store::parse(&text, "contrast.json".as_ref()).unwrap(),
            reduced
        );
        // The two of a pair take turns 0 and 1, whatever the third's was.
        for pair in reduced.blocks.chunks(2) {
            assert_eq!((pair[0].position, pair[1].position), (0, 1));
            assert_ne!(pair[0].arm, pair[1].arm);
        }
    }
    // A record of two is its own contrast.
    assert_eq!(
        step.contrast(ArmName::Before, ArmName::After).unwrap(),
        step
    );
}

#[test]
fn a_triple_counts_whole_or_not_at_all() {
    let mut broken = measured(3, 8);
    let third = |block: &unstall_results::record::Block| block.pair == 2 && block.arm == "start";
    let block = broken.blocks.iter_mut().find(|of| third(of)).unwrap();
    block.validity.ok = false;
    block.validity.reasons = vec!["late; close other programs".to_owned()];
    // The step doesn't use that block: it has a triple less, and no fault.
    let step = against(&broken, ArmName::Before, ArmName::After);
    assert_eq!((step.pairs, step.verdict), (7, Verdict::Pass));
    assert!(
        step.validity.warnings[0].contains("1 incomplete triple"),
        "{:?}",
        step.validity
    );
    // The contrast with the start does.
    let start = against(&broken, ArmName::Start, ArmName::After);
    assert_eq!((start.pairs, start.verdict), (7, Verdict::Invalid));
    assert!(start.validity.faults[0].contains("late; close other programs"));
    // Once more, and well.
    let mut again = broken.blocks.iter().find(|of| third(of)).unwrap().clone();
    again.validity.ok = true;
    broken.blocks.push(again);
    for from in [ArmName::Start, ArmName::Before] {
        let mended = against(&broken, from, ArmName::After);
        assert_eq!((mended.pairs, mended.verdict), (8, Verdict::Pass));
        assert_eq!(mended.validity.warnings, Vec::<String>::new());
    }
}

#[test]
fn a_session_that_was_stopped_keeps_its_whole_triples() {
    let mut stopped = measured(4, 8);
    stopped.blocks.truncate(3 * 6 + 2);
    stopped.interrupted = true;
    for from in [ArmName::Start, ArmName::Before] {
        let found = against(&stopped, from, ArmName::After);
        assert_eq!(found.pairs, 6, "{:?}", found.validity);
        assert_eq!(found.verdict, Verdict::Inconclusive);
    }
    // Before any triple is whole there is nothing to say, and no fault.
    stopped.blocks.truncate(2);
    let found = against(&stopped, ArmName::Before, ArmName::After);
    assert_eq!((found.pairs, found.verdict), (0, Verdict::Inconclusive));
}

#[test]
fn a_contrast_that_is_none_is_refused() {
    let two = record(5, 5, 20, &[endpoint(1.0)]);
    let refused = [
        two.contrast(ArmName::Start, ArmName::After).unwrap_err(),
        two.contrast(ArmName::After, ArmName::After).unwrap_err(),
    ];
    insta::assert_snapshot!(refused.map(|error| error.to_string()).join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Any blocks may be lost or spoilt: a contrast is a sound record, and both use the same triples.
    #[test]
    fn contrasts_of_damaged_records_are_sound_and_agree(
        lost in prop::collection::btree_set(0..24usize, 0..8),
        spoilt in prop::collection::btree_set(0..24usize, 0..8),
        interrupted in any::<bool>(),
    ) {
        let mut damaged = record(6, 8, 20, &[endpoint(1.0)]);
        add_start(&mut damaged, &[endpoint(1.0)]);
        for index in &spoilt {
            damaged.blocks[*index].validity.ok = false;
        }
        let blocks = damaged.blocks.into_iter().enumerate();
        damaged.blocks = blocks
            .filter(|(index, _)| !lost.contains(index))
            .map(|(_, block)| block)
            .collect();
        damaged.interrupted = interrupted;
        let whole: Vec<u32> = (0..8)
            .filter(|pair| {
                let of = |block: &&unstall_results::record::Block| block.pair == *pair && block.validity.ok;
                damaged.blocks.iter().filter(of).count() == 3
            })
            .collect();
        for from in [ArmName::Start, ArmName::Before] {
            let reduced = damaged.contrast(from, ArmName::After).unwrap();
            if !reduced.blocks.is_empty() {
                prop_assert_eq!(reduced.validate(), Ok(()));
            }
            let compared = compare(&reduced, &Policy::default()).unwrap();
            prop_assert_eq!(compared.pairs as usize, whole.len());
        }
    }
}
