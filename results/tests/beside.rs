//! Bystanders, streams and endpoints that are only shown, from the record to what is said.

use std::path::Path;

use unstall_results::bystander::bystanders;
use unstall_results::compare::{CompareError, compare, compare_unpaired};
use unstall_results::comparison::{Cell, Comparison, Decision, Metric, Outcome, Verdict};
use unstall_results::histogram::LatencyHistogram;
use unstall_results::policy::Policy;
use unstall_results::record::{
    BackgroundSamples, Block, EndpointSamples, ErrorKind, ProbeSamples, RunRecord,
};
use unstall_results::synthetic::{
    EndpointSpec, ProbeSpec, StreamSpec, add_probe, add_stream, record, run_record,
};

fn faster() -> [EndpointSpec; 1] {
    [EndpointSpec {
        ratio: 0.3,
        ..EndpointSpec::new("GET a", 60.0)
    }]
}

fn probed(held_before: f64, held_after: f64) -> RunRecord {
    let mut measured = record(3, 8, 800, &faster());
    let spec = ProbeSpec {
        held_before,
        held_after,
        hold_ms: 20.0,
    };
    add_probe(&mut measured, spec);
    measured.validate().unwrap();
    measured
}

fn judged(record: &RunRecord) -> Comparison {
    compare(record, &Policy::default()).unwrap()
}

fn cell<'c>(
    comparison: &'c Comparison,
    endpoint: Option<&str>,
    metric: Metric,
) -> Option<&'c Cell> {
    let mut cells = comparison.cells.iter();
    cells.find(|cell| cell.metric == metric && cell.endpoint.as_deref() == endpoint)
}

fn probe_cell(comparison: &Comparison) -> &Cell {
    cell(comparison, None, Metric::ProbeP90).expect("the probe has a cell")
}

#[test]
fn what_others_wait_has_a_cell_that_judges_only_where_the_policy_says_so() {
    let worse = probed(0.0, 0.3);
    let comparison = judged(&worse);
    assert_eq!(comparison.verdict, Verdict::Pass, "{comparison:#?}");
    let shown = probe_cell(&comparison);
    assert_eq!((shown.judged, shown.outcome), (false, Outcome::Regression));
    let change = shown.change.as_ref().expect("8 pairs");
    assert!(change.low > 1.0 && change.upper_bound >= change.estimate);
    let text = "judge = [\"response_p50\", \"probe_p90\"]\n[metrics.probe_p90]\nfloor = 2";
    let policy = Policy::parse(text, Path::new("policy.toml")).unwrap();
    // A judged percentile takes more requests per block than one that is only shown.
    let too_short = compare(&worse, &policy).unwrap();
    assert!(matches!(
        probe_cell(&too_short).outcome,
        Outcome::Insufficient {
            requests_needed: 200
        }
    ));
    let mut long = worse.clone();
    for probe in long.blocks.iter_mut().filter_map(|b| b.probe.as_mut()) {
        let once = probe.clone();
        for _ in 0..3 {
            probe.offered += once.offered;
            probe.completed += once.completed;
            probe.response.merge(&once.response);
        }
    }
    let comparison = compare(&long, &policy).unwrap();
    assert!(probe_cell(&comparison).judged);
    assert_eq!(comparison.verdict, Verdict::Regression);
    assert!(
        comparison.next_action.contains("bystander p90"),
        "{}",
        comparison.next_action
    );
}

#[test]
fn upper_percentiles_are_those_of_all_blocks_together() {
    let found = bystanders(&probed(0.05, 0.0));
    let [before, after] = &found[..] else {
        panic!("two arms: {found:?}");
    };
    assert!(before.p99.value.is_some_and(|ms| ms > 10.0), "{before:?}");
    assert!(after.p99.value.is_some_and(|ms| ms < 3.0), "{after:?}");
    assert!(before.p99.low.is_some() && before.p99.high.is_some());
    assert!(before.longest.value >= before.p99.value);
}

#[test]
fn without_a_probe_there_is_no_cell_and_no_word_of_one() {
    let plain = record(3, 8, 800, &faster());
    let comparison = judged(&plain);
    assert_eq!(cell(&comparison, None, Metric::ProbeP90), None);
    let cpu = |comparison: &Comparison| {
        let cell = cell(comparison, None, Metric::CpuUsPerRequest).expect("it was started here");
        cell.note.clone()
    };
    assert_eq!(cpu(&comparison), None);
    let note = cpu(&judged(&probed(0.0, 0.0)));
    assert!(
        note.is_some_and(|note| note.contains("of its requests per request of the load before"))
    );
    // Who judges it must be told that there is none.
    let policy = Policy {
        judged: [Metric::ProbeP90].into(),
        ..Policy::default()
    };
    let comparison = compare(&plain, &policy).unwrap();
    assert_eq!(probe_cell(&comparison).outcome, Outcome::NotMeasured);
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
}

#[test]
fn a_late_probe_is_warned_of_and_spoils_no_block() {
    let mut late = probed(0.0, 0.0);
    for probe in late.blocks.iter_mut().filter_map(|b| b.probe.as_mut()) {
        probe.generator_lag = LatencyHistogram::new();
        probe.generator_lag.record_us_times(4_000, probe.offered);
        probe.response = LatencyHistogram::new();
        probe.response.record_us_times(4_500, probe.completed);
    }
    let comparison = judged(&late);
    assert_eq!(comparison.verdict, Verdict::Pass);
    let warnings = comparison.validity.warnings;
    assert_eq!(warnings.len(), 1, "once for both arms: {warnings:?}");
    assert!(warnings[0].contains("late itself"), "{warnings:?}");
}

#[test]
fn sessions_with_and_without_a_probe_are_not_comparable() {
    let plain = run_record(1, 400, &faster());
    let mut with = plain.clone();
    let spec = ProbeSpec {
        held_before: 0.1,
        held_after: 0.1,
        hold_ms: 20.0,
    };
    add_probe(&mut with, spec);
    let error = compare_unpaired(&plain, &with, &Policy::default()).unwrap_err();
    let CompareError::NotComparable { differences } = error else {
        panic!("{error}");
    };
    assert_eq!(
        differences,
        ["bystander probe none before, /health 50/s after"]
    );
    let advisory = compare_unpaired(&with, &with, &Policy::default()).unwrap();
    assert!(probe_cell(&advisory).before.value.is_some());
}

/// Ten requests per block to `name`, not judged, `ms` each.
fn add_only_shown(record: &mut RunRecord, name: &str, ms: impl Fn(&Block) -> u64) {
    let mut endpoint = record.scenario.endpoints[0].clone();
    name.clone_into(&mut endpoint.name);
    endpoint.judged = false;
    record.scenario.endpoints.push(endpoint);
    for block in &mut record.blocks {
        let mut samples = EndpointSamples {
            completed: 10,
            ..EndpointSamples::default()
        };
        for request in 0..10 {
            samples.response.record_us(ms(block) * 1_000 + request * 50);
        }
        block.offered += 10;
        block.completed += 10;
        block.endpoints.insert(name.to_owned(), samples);
    }
    if let Some(step) = record.step.as_mut() {
        step.endpoints.push(name.to_owned());
    }
    record.validate().unwrap();
}

#[test]
fn what_is_only_shown_says_what_all_blocks_say_and_decides_nothing() {
    let mut measured = record(3, 8, 800, &faster());
    add_only_shown(&mut measured, "POST stop", |block| {
        if block.arm == "after" { 500 } else { 5 }
    });
    let comparison = judged(&measured);
    // A hundred times slower, and only shown: neither verdict nor criteria wait for it.
    assert_eq!(comparison.verdict, Verdict::Pass, "{comparison:#?}");
    assert_eq!(comparison.decision, Decision::Keep, "{comparison:#?}");
    assert!(comparison.headline.starts_with("GET a p95"));
    let of = |metric| cell(&comparison, Some("POST stop"), metric).expect("a cell");
    for metric in [Metric::ResponseP50, Metric::ResponseP95] {
        let shown = of(metric);
        assert_eq!((shown.judged, shown.outcome), (false, Outcome::Pooled));
        assert!(shown.before.low.is_some() && shown.after.high.is_some());
        assert!(shown.after.value.is_some_and(|ms| ms > 499.0));
    }
    // 80 are too few for a p99, also together.
    let p99 = of(Metric::ResponseP99);
    assert!(matches!(p99.outcome, Outcome::Insufficient { .. }));
    // Its failures count as anybody's.
    assert!(of(Metric::ErrorRate).judged);
    let after = measured.blocks.iter_mut().filter(|b| b.arm == "after");
    for block in after {
        let samples = block.endpoints.get_mut("POST stop").expect("it is there");
        *samples = EndpointSamples::default();
        samples.errors.insert(ErrorKind::Status, 10);
        samples.failed.record_us_times(1_000, 10);
        block.completed -= 10;
        block.errors.insert(ErrorKind::Status, 10);
    }
    measured.validate().unwrap();
    assert_eq!(judged(&measured).verdict, Verdict::Regression);
}

#[test]
fn enough_requests_per_block_are_compared_and_not_judged() {
    let mut measured = record(3, 8, 800, &[EndpointSpec::new("GET a", 60.0)]);
    let slow = EndpointSpec {
        ratio: 3.0,
        ..EndpointSpec::new("GET slow", 20.0)
    };
    let other = record(4, 8, 800, &[slow]);
    let mut endpoint = other.scenario.endpoints[0].clone();
    endpoint.judged = false;
    measured.scenario.endpoints.push(endpoint);
    for block in &mut measured.blocks {
        let mut same = other.blocks.iter();
        let twin = same.find(|twin| twin.pair == block.pair && twin.arm == block.arm);
        let samples = twin.expect("the same design").endpoints["GET slow"].clone();
        block.offered += samples.completed;
        block.completed += samples.completed;
        block.endpoints.insert("GET slow".to_owned(), samples);
    }
    let comparison = judged(&measured);
    let slow = cell(&comparison, Some("GET slow"), Metric::ResponseP95).expect("a cell");
    assert_eq!((slow.judged, slow.outcome), (false, Outcome::Regression));
    assert!(
        slow.note
            .as_ref()
            .is_some_and(|note| note.contains("not judged"))
    );
    assert_ne!(comparison.verdict, Verdict::Regression);
}

#[test]
fn first_items_are_judged_where_the_scenario_does_not_say_otherwise() {
    let mut measured = record(3, 8, 400, &[EndpointSpec::new("GET a", 60.0)]);
    let spec = StreamSpec {
        items: 3,
        ttft_before_ms: 10.0,
        ttft_after_ms: 30.0,
        gap_ms: 2.0,
        stalled_before: 0.0,
        stalled_after: 0.0,
        coalesced: 0.0,
    };
    add_stream(&mut measured, "GET a", spec);
    let comparison = judged(&measured);
    let first = cell(&comparison, Some("GET a"), Metric::TtftP95).expect("a cell");
    assert_eq!((first.judged, first.outcome), (true, Outcome::Regression));
    assert_eq!(comparison.verdict, Verdict::Regression);
    measured.scenario.endpoints[0].judged = false;
    let comparison = judged(&measured);
    let first = cell(&comparison, Some("GET a"), Metric::TtftP95).expect("a cell");
    assert_eq!((first.judged, first.outcome), (false, Outcome::Regression));
    assert_ne!(comparison.verdict, Verdict::Regression);
}

#[test]
fn forged_counts_do_not_overflow() {
    let mut forged = probed(0.1, 0.0);
    for block in &mut forged.blocks {
        let probe = ProbeSamples {
            offered: u64::MAX,
            completed: u64::MAX,
            errors: [(ErrorKind::Timeout, u64::MAX)].into(),
            ..block.probe.clone().expect("it was probed")
        };
        block.probe = Some(probe);
    }
    let found = bystanders(&forged);
    assert_eq!(found[0].offered, u64::MAX);
    assert!(probe_cell(&judged(&forged)).before.at_least);
}

/// A faster version, and streams that each version held open at the begin and at the end.
fn beside_streams(before: (u32, u32), after: (u32, u32)) -> Comparison {
    let mut measured = record(3, 8, 800, &faster());
    for block in &mut measured.blocks {
        let (open_at_begin, open_at_end) = match block.arm.as_str() {
            "before" => before,
            _ => after,
        };
        block.background = Some(BackgroundSamples {
            users: 1_000,
            open_at_begin,
            open_at_end,
            ..BackgroundSamples::default()
        });
    }
    measured.validate().unwrap();
    judged(&measured)
}

#[test]
fn a_version_that_loses_its_streams_is_not_faster() {
    let same = beside_streams((1_000, 1_000), (1_000, 999));
    assert_eq!(same.verdict, Verdict::Pass, "one stream explains nothing");
    let more = beside_streams((40, 40), (1_000, 1_000));
    assert_eq!(more.verdict, Verdict::Pass);
    assert_eq!(more.validity.warnings, [""; 0]);
    let lost = beside_streams((1_000, 1_000), (1_000, 40));
    assert_eq!(lost.verdict, Verdict::Inconclusive);
    let told = "The after version held 40 of 1\u{a0}000 streams open, the before version \
                1\u{a0}000: it was measured beside less.";
    assert!(
        lost.validity.warnings.iter().any(|of| of == told),
        "{lost:?}"
    );
    assert!(lost.reasons.iter().any(|of| of == told), "{lost:?}");
    assert!(
        lost.next_action.contains("what ended its streams"),
        "{lost:?}"
    );
}
