//! Comparisons of open loads: that a version can't keep up is a result, and its latency is none.

use unstall_results::compare::{compare, compare_unpaired};
use unstall_results::comparison::{Cell, Comparison, Decision, Metric, Outcome, Verdict};
use unstall_results::level::Level;
use unstall_results::policy::{Policy, Unpaired};
use unstall_results::record::RunRecord;
use unstall_results::store;
use unstall_results::summary::summarise;
use unstall_results::synthetic::{EndpointSpec, add_open, record, run_record};

fn measured(saturated: [bool; 2]) -> RunRecord {
    let mut measured = record(1, 10, 400, &[EndpointSpec::new("GET a", 40.0)]);
    add_open(&mut measured, 200, saturated);
    measured.step = None;
    measured.validate().expect("it agrees with itself");
    measured
}

fn compared(saturated: [bool; 2]) -> Comparison {
    compare(&measured(saturated), &Policy::default()).expect("it has both arms")
}

fn cell(comparison: &Comparison, metric: Metric) -> &Cell {
    let mut cells = comparison.cells.iter();
    cells
        .find(|cell| cell.metric == metric)
        .expect("the cell is there")
}

fn sentences(comparison: &Comparison) -> String {
    let mut lines = vec![
        format!("{:?}", comparison.verdict),
        comparison.headline.clone(),
        format!("next: {}", comparison.next_action),
    ];
    lines.extend(
        comparison
            .reasons
            .iter()
            .map(|reason| format!("why: {reason}")),
    );
    lines.join("\n").replace('\u{a0}', " ")
}

#[test]
fn versions_that_keep_up_are_compared_by_latency() {
    let both = compared([false, false]);
    assert_eq!(both.verdict, Verdict::Pass, "{}", sentences(&both));
    assert_eq!(both.saturation, []);
    let p95 = cell(&both, Metric::ResponseP95);
    assert_eq!((p95.level, p95.judged), (Level::of_rate(200.0), true));
    assert!(!cell(&both, Metric::Throughput).judged);
    // A closed load has something to say here.
    let blind = both.blind_spots.join(" ");
    assert!(!blind.contains("Closed load"), "{blind}");
}

#[test]
fn only_the_new_version_can_not_keep_up() {
    let worse = compared([false, true]);
    assert_eq!(
        (worse.verdict, worse.decision),
        (Verdict::Regression, Decision::Revert)
    );
    for metric in [Metric::ResponseP50, Metric::ResponseP95] {
        let latency = cell(&worse, metric);
        assert_eq!(
            (latency.outcome, latency.judged),
            (Outcome::Saturated, false)
        );
        assert_eq!(latency.change, None);
    }
    let throughput = cell(&worse, Metric::Throughput);
    assert_eq!(
        (throughput.outcome, throughput.judged),
        (Outcome::Regression, true)
    );
    insta::assert_snapshot!(sentences(&worse));
}

#[test]
fn only_the_old_version_can_not_keep_up() {
    let better = compared([true, false]);
    assert_eq!(better.verdict, Verdict::Pass, "{}", sentences(&better));
    assert_eq!(
        cell(&better, Metric::Throughput).outcome,
        Outcome::Improvement
    );
    insta::assert_snapshot!(sentences(&better));
}

#[test]
fn neither_version_can_keep_up() {
    let neither = compared([true, true]);
    assert_eq!(neither.verdict, Verdict::Inconclusive);
    insta::assert_snapshot!(sentences(&neither));
}

#[test]
fn records_of_different_sessions_say_the_same() {
    let one = |saturated: bool| {
        let mut one = run_record(1, 400, &[EndpointSpec::new("GET a", 40.0)]);
        add_open(&mut one, 200, [saturated, saturated]);
        one
    };
    let policy = Policy {
        unpaired: Unpaired::Judge,
        ..Policy::default()
    };
    let worse = compare_unpaired(&one(false), &one(true), &policy).expect("they are comparable");
    assert_eq!(worse.verdict, Verdict::Regression, "{}", sentences(&worse));
    assert_eq!(
        cell(&worse, Metric::ResponseP95).outcome,
        Outcome::Saturated
    );
    // Another rate is another measurement.
    let mut faster = one(true);
    add_open(&mut faster, 300, [true, true]);
    let refused = compare_unpaired(&one(false), &faster, &policy).expect_err("not comparable");
    assert!(
        refused.to_string().contains("200/s before, 300/s after"),
        "{refused}"
    );
}

#[test]
fn a_summary_tells_what_became_of_the_arrivals() {
    let summaries = summarise(&measured([false, true]));
    let services: Vec<_> = summaries
        .iter()
        .filter(|summary| summary.endpoint.is_none())
        .map(|summary| (summary.level.to_string(), summary.is_saturated))
        .collect();
    assert_eq!(
        services,
        [("200/s".to_owned(), false), ("200/s".to_owned(), true)]
    );
    let after = summaries.iter().rfind(|summary| summary.endpoint.is_none());
    let arrivals = after.and_then(|after| after.arrivals.clone());
    let arrivals = arrivals.expect("an open load");
    assert!(
        arrivals.starts_with("140 of 200 arrivals per second served"),
        "{arrivals}"
    );
}

#[test]
fn an_open_record_is_written_and_read_and_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("open.json");
    let open = measured([false, true]);
    store::write(&path, &open).expect("written");
    assert_eq!(store::read(&path).expect("read"), open);

    let refusal = |change: fn(&mut RunRecord)| {
        let mut forged = open.clone();
        change(&mut forged);
        forged.validate().expect_err("a contradiction").to_string()
    };
    insta::assert_snapshot!(
        [
            refusal(|record| record.load.open = None),
            refusal(|record| record.load.model = "closed".to_owned()),
            refusal(|record| {
                let open = record.blocks[0].open.as_mut().expect("an open load");
                open.queued_at_end = 1;
            }),
            refusal(|record| record.blocks[0].generator_busy_share = Some(1.5)),
        ]
        .join("\n")
    );
}
