//! What comparisons of believable records say, from the record to the sentence.

use unstall_results::compare::{compare, compare_unpaired};
use unstall_results::comparison::{Cell, Comparison, Decision, Metric, Outcome, Scale, Verdict};
use unstall_results::histogram::LatencyHistogram;
use unstall_results::level::Level;
use unstall_results::policy::{Policy, Unpaired};
use unstall_results::record::{ErrorKind, RunRecord};
use unstall_results::synthetic::{EndpointSpec, record, run_record};

/// The comparison as text: all sentences, then one line per cell.
fn outline(comparison: &Comparison) -> String {
    let mut lines = vec![
        format!("{:?} / {:?}", comparison.verdict, comparison.decision),
        comparison.headline.clone(),
        format!("next: {}", comparison.next_action),
    ];
    let list = |name: &str, texts: &[String]| -> Vec<String> {
        texts.iter().map(|text| format!("{name}: {text}")).collect()
    };
    lines.extend(list("reason", &comparison.reasons));
    lines.extend(list("blind spot", &comparison.blind_spots));
    lines.extend(list("fault", &comparison.validity.faults));
    lines.extend(list("warning", &comparison.validity.warnings));
    lines.extend(comparison.criteria.iter().map(|criterion| {
        format!(
            "criterion {} {}: {:?}, {}",
            criterion.name, criterion.expected, criterion.met, criterion.found
        )
    }));
    lines.extend(comparison.cells.iter().enumerate().map(|(index, cell)| {
        let worst = if comparison.worst_cell == Some(index) {
            " <- worst"
        } else {
            ""
        };
        format!("{}{worst}", line(cell))
    }));
    lines.join("\n").replace('\u{a0}', " ")
}

fn line(cell: &Cell) -> String {
    let value = |estimate: &unstall_results::comparison::Estimate| {
        let bound = if estimate.at_least { ">" } else { "" };
        estimate
            .value
            .map_or("-".to_owned(), |value| format!("{bound}{value:.3}"))
    };
    let change = cell.change.as_ref().map_or(String::new(), |change| {
        let scale = match change.scale {
            Scale::Ratio => "x",
            Scale::Difference => "+",
        };
        format!(
            " {scale}{:.3} [{:.3} {:.3}] bounds {:.3} {:.3} p {:.3} {:.3} mde {}",
            change.estimate,
            change.low,
            change.high,
            change.lower_bound,
            change.upper_bound,
            change.p_regression,
            change.p_improvement,
            change
                .minimum_detectable
                .map_or("-".to_owned(), |mde| format!("{mde:.3}")),
        )
    });
    format!(
        "{}{} {:?}: {} -> {}{change} {:?}{}",
        if cell.judged { "" } else { "(" },
        cell.endpoint.as_deref().unwrap_or("service"),
        cell.metric,
        value(&cell.before),
        value(&cell.after),
        cell.outcome,
        cell.note
            .as_ref()
            .map_or(String::new(), |note| format!(" // {note}")),
    )
}

fn judged(record: &RunRecord) -> String {
    record.validate().unwrap();
    outline(&compare(record, &Policy::default()).unwrap())
}

fn two_endpoints() -> Vec<EndpointSpec> {
    vec![
        EndpointSpec {
            blocked_before_ms: 220.0,
            ratio: 0.2,
            ..EndpointSpec::new("GET usage", 20.0)
        },
        EndpointSpec {
            blocked_before_ms: 400.0,
            ratio: 0.3,
            ..EndpointSpec::new("POST conversations", 30.0)
        },
    ]
}

#[test]
fn an_improvement() {
    insta::assert_snapshot!(judged(&record(1, 10, 400, &two_endpoints())));
}

#[test]
fn a_regression_beside_an_improvement() {
    let mut endpoints = two_endpoints();
    endpoints[1].ratio = 1.5;
    insta::assert_snapshot!(judged(&record(1, 10, 400, &endpoints)));
}

#[test]
fn the_same_version_twice() {
    let same = [
        EndpointSpec::new("GET a", 20.0),
        EndpointSpec::new("GET b", 2.0),
    ];
    insta::assert_snapshot!(judged(&record(3, 10, 400, &same)));
}

#[test]
fn an_arm_in_which_everything_fails() {
    let dead = EndpointSpec {
        errors_after: 1.0,
        ..EndpointSpec::new("GET a", 20.0)
    };
    insta::assert_snapshot!(judged(&record(1, 6, 400, &[dead])));
}

#[test]
fn both_arms_fail() {
    let dead = EndpointSpec {
        errors_before: 1.0,
        errors_after: 1.0,
        ..EndpointSpec::new("GET a", 20.0)
    };
    insta::assert_snapshot!(judged(&record(1, 6, 400, &[dead])));
}

#[test]
fn failing_fast_is_not_faster() {
    let failing = EndpointSpec {
        ratio: 0.5,
        errors_after: 0.1,
        ..EndpointSpec::new("GET a", 20.0)
    };
    insta::assert_snapshot!(judged(&record(1, 8, 400, &[failing])));
}

/// An arm that answers so many of a block's few requests before the block is given up.
fn starve(record: &mut RunRecord, arm: &str, asked: u64, answered: u64) {
    for block in record.blocks.iter_mut().filter(|block| block.arm == arm) {
        for samples in block.endpoints.values_mut() {
            let of = |us: u64, count: u64| {
                let mut times = LatencyHistogram::new();
                times.record_us_times(us, count);
                times
            };
            samples.response = of(20_000, answered);
            samples.service = of(20_000, answered);
            samples.queue = of(0, asked);
            samples.failed = of(2_000_000, asked - answered);
            samples.completed = answered;
            samples.errors = [(ErrorKind::Timeout, asked - answered)].into();
        }
        let endpoints = block.endpoints.len() as u64;
        (block.offered, block.sent) = (endpoints * asked, endpoints * asked);
        block.completed = endpoints * answered;
        block.errors = [(ErrorKind::Timeout, endpoints * (asked - answered))].into();
    }
}

fn p95(record: &RunRecord) -> (Verdict, Decision, Outcome) {
    record.validate().unwrap();
    let comparison = compare(record, &Policy::default()).unwrap();
    let mut cells = comparison.cells.iter();
    let cell = cells.find(|cell| cell.metric == Metric::ResponseP95);
    let outcome = cell.map(|cell| cell.outcome).expect("a p95");
    (comparison.verdict, comparison.decision, outcome)
}

/// A version that answers nobody gets few requests, and is the slower one all the same.
#[test]
fn a_version_that_starves_is_compared_by_its_bound() {
    let measured = record(1, 10, 400, &[EndpointSpec::new("GET a", 20.0)]);
    let starved = |arm: &str, asked, answered| {
        let mut starved = measured.clone();
        starve(&mut starved, arm, asked, answered);
        p95(&starved)
    };
    let (verdict, decision, outcome) = starved("before", 20, 0);
    assert_eq!(outcome, Outcome::Improvement);
    assert_eq!((verdict, decision), (Verdict::Pass, Decision::Keep));
    let (verdict, decision, outcome) = starved("after", 20, 0);
    assert_eq!(outcome, Outcome::Regression);
    assert_eq!((verdict, decision), (Verdict::Regression, Decision::Revert));
    let insufficient = Outcome::Insufficient {
        requests_needed: 400,
    };
    assert_eq!(
        starved("before", 9, 0).2,
        insufficient,
        "any could be chance"
    );
    assert_eq!(starved("before", 20, 18).2, insufficient, "so could two");
    assert_eq!(starved("before", 20, 16).2, Outcome::Improvement);
}

#[test]
fn stopped_after_three_pairs() {
    let mut stopped = record(1, 10, 400, &two_endpoints());
    stopped.blocks.truncate(7);
    stopped.interrupted = true;
    insta::assert_snapshot!(judged(&stopped));
}

#[test]
fn what_broke_off_never_passes() {
    let mut whole = record(1, 10, 400, &two_endpoints());
    assert_eq!(
        compare(&whole, &Policy::default()).unwrap().verdict,
        Verdict::Pass
    );
    whole.blocks.truncate(14);
    whole.interrupted = true;
    let broken = compare(&whole, &Policy::default()).unwrap();
    assert_eq!((broken.verdict, broken.pairs), (Verdict::Inconclusive, 7));
    let said = broken.reasons.join(" ");
    assert!(said.contains("broke off after 7 pairs"), "{said}");
    assert_eq!(
        broken.next_action,
        "Measure again and let it run to its end."
    );
    // The same blocks of a shorter plan are a whole.
    whole.interrupted = false;
    whole.load.pairs = 7;
    assert_eq!(
        compare(&whole, &Policy::default()).unwrap().verdict,
        Verdict::Pass
    );
}

#[test]
fn an_endpoint_that_nobody_asked_for_never_passes() {
    let mut unasked = record(1, 10, 400, &two_endpoints());
    let name = unasked.scenario.endpoints[1].name.clone();
    for block in &mut unasked.blocks {
        let gone = block.endpoints.remove(&name).unwrap();
        block.offered -= gone.completed;
        block.sent -= gone.completed;
        block.completed -= gone.completed;
    }
    let comparison = compare(&unasked, &Policy::default()).unwrap();
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
    let said = comparison.reasons.join(" ");
    assert!(said.contains(&name), "{said}");
    // A scenario that only shows it is content.
    unasked.scenario.endpoints[1].judged = false;
    let comparison = compare(&unasked, &Policy::default()).unwrap();
    assert_eq!(
        comparison.verdict,
        Verdict::Pass,
        "{:?}",
        comparison.reasons
    );
}

#[test]
fn stopped_before_the_first_pair() {
    let mut stopped = record(1, 10, 400, &two_endpoints());
    stopped.blocks.clear();
    stopped.interrupted = true;
    insta::assert_snapshot!(judged(&stopped));
}

#[test]
fn too_few_requests() {
    insta::assert_snapshot!(judged(&record(1, 7, 100, &two_endpoints())));
}

#[test]
fn what_is_too_short_to_see_a_latency_never_passes() {
    for ratio in [0.1, 1.0, 7.0] {
        let slower = EndpointSpec {
            ratio,
            ..EndpointSpec::new("GET usage", 20.0)
        };
        let short = compare(&record(1, 7, 20, &[slower]), &Policy::default()).unwrap();
        assert_eq!(short.verdict, Verdict::Inconclusive, "{ratio}");
        assert!(
            short
                .reasons
                .iter()
                .any(|reason| reason.contains("no latency of it is judged")),
            "{:?}",
            short.reasons
        );
        assert!(
            short.next_action.contains("--requests "),
            "{}",
            short.next_action
        );
    }
    // Who judges no latency has nothing to miss.
    let errors_only = Policy::parse("judge = [\"error_rate\"]", "p.toml".as_ref()).unwrap();
    let short = record(1, 7, 20, &[EndpointSpec::new("GET usage", 20.0)]);
    assert_eq!(
        compare(&short, &errors_only).unwrap().verdict,
        Verdict::Pass
    );
}

#[test]
fn our_own_fault() {
    let mut late = record(1, 6, 50, &two_endpoints());
    late.blocks[4].validity.ok = false;
    late.blocks[4].validity.reasons =
        vec!["the load generator was late (p99 7.2 ms); close other programs".to_owned()];
    let comparison = compare(&late, &Policy::default()).unwrap();
    let outline = outline(&comparison);
    let sentences: Vec<&str> = outline
        .lines()
        .take_while(|line| !line.contains("Response"))
        .collect();
    insta::assert_snapshot!(sentences.join("\n"));
}

#[test]
fn no_monitor_and_no_process() {
    let mut foreign = record(1, 6, 400, &[EndpointSpec::new("GET a", 20.0)]);
    for block in &mut foreign.blocks {
        block.monitor = None;
        block.process = None;
    }
    foreign.step = None;
    insta::assert_snapshot!(judged(&foreign));
}

#[test]
fn several_levels_are_cells_of_one_family() {
    let mut levels = record(1, 6, 400, &two_endpoints());
    let slower = record(2, 6, 400, &two_endpoints());
    levels.load.levels = vec![20, 50];
    levels
        .blocks
        .extend(slower.blocks.into_iter().map(|mut block| {
            block.level = 50;
            block
        }));
    let comparison = compare(&levels, &Policy::default()).unwrap();
    assert_eq!(comparison.pairs, 6);
    assert_eq!(
        comparison
            .cells
            .iter()
            .filter(|cell| cell.level == Level::Users(50))
            .count()
            * 2,
        comparison.cells.len()
    );
    assert!(
        comparison.headline.contains("at c = "),
        "{}",
        comparison.headline
    );
    // A pair without one of its blocks at the second level is no pair.
    levels.blocks.pop();
    levels.interrupted = true;
    assert_eq!(compare(&levels, &Policy::default()).unwrap().pairs, 5);
}

#[test]
fn sessions_apart_are_advice() {
    let endpoints = two_endpoints();
    let mut before = run_record(1, 2_000, &endpoints);
    let mut faster = endpoints.clone();
    faster[0].p50_ms = 5.0;
    let mut after = run_record(2, 2_000, &faster);
    before.label = "monday".to_owned();
    after.label = "tuesday".to_owned();
    after.created_utc = "2026-01-02T00:00:00Z".to_owned();
    after.machine.kernel = "6.19.0".to_owned();
    let advisory = compare_unpaired(&before, &after, &Policy::default()).unwrap();
    let policy = Policy {
        unpaired: Unpaired::Judge,
        ..Policy::default()
    };
    let judged = compare_unpaired(&before, &after, &policy).unwrap();
    let sentences = |comparison: &Comparison| {
        let outline = outline(comparison);
        let lines: Vec<&str> = outline
            .lines()
            .take_while(|line| !line.contains("Response"))
            .collect();
        lines.join("\n")
    };
    insta::assert_snapshot!(format!("{}\n\n{}", sentences(&judged), outline(&advisory)));
}

#[test]
fn records_that_measured_different_things_are_refused() {
    let endpoints = two_endpoints();
    let before = run_record(1, 100, &endpoints);
    let mut after = run_record(2, 200, &endpoints);
    after.scenario.sha256 = "11".repeat(32);
    after.machine.class = "aarch64/4c/8g/linux-6.1".to_owned();
    let pair = record(1, 5, 50, &endpoints);
    let policy = Policy::default();
    insta::assert_snapshot!(
        [
            compare_unpaired(&before, &after, &policy)
                .unwrap_err()
                .to_string(),
            compare_unpaired(&before, &pair, &policy)
                .unwrap_err()
                .to_string(),
            compare(&before, &policy).unwrap_err().to_string(),
        ]
        .join("\n")
    );
}

#[test]
fn a_policy_can_judge_what_is_advisory_otherwise() {
    let mut costly = record(1, 8, 50, &[EndpointSpec::new("GET a", 20.0)]);
    for block in costly
        .blocks
        .iter_mut()
        .filter(|block| block.arm == "after")
    {
        block.process.as_mut().unwrap().cpu_us *= 2;
    }
    let cpu = |policy: &Policy| {
        let comparison = compare(&costly, policy).unwrap();
        let cell = comparison
            .cells
            .iter()
            .find(|cell| cell.endpoint.is_none() && line(cell).contains("CpuUsPerRequest"))
            .unwrap()
            .clone();
        (cell.judged, cell.outcome, comparison.verdict)
    };
    let (judged, outcome, verdict) = cpu(&Policy::default());
    assert_eq!((judged, outcome), (false, Outcome::Regression));
    assert_ne!(verdict, Verdict::Regression);
    let text = "judge = [\"cpu_us_per_request\"]";
    let policy = Policy::parse(text, std::path::Path::new("policy.toml")).unwrap();
    let (judged, _, verdict) = cpu(&policy);
    assert!(judged);
    assert_eq!(verdict, Verdict::Regression);
}

#[test]
fn swapping_the_arms_mirrors_everything() {
    let mut endpoints = two_endpoints();
    endpoints[0].errors_after = 0.03;
    let straight = record(4, 9, 400, &endpoints);
    let mut swapped = straight.clone();
    for block in &mut swapped.blocks {
        let other = if block.arm == "before" {
            "after"
        } else {
            "before"
        };
        other.clone_into(&mut block.arm);
    }
    let policy = Policy::default();
    let straight = compare(&straight, &policy).unwrap();
    let swapped = compare(&swapped, &policy).unwrap();
    assert_eq!(straight.cells.len(), swapped.cells.len());
    let mut mirrored = 0;
    for (one, other) in straight.cells.iter().zip(&swapped.cells) {
        assert_eq!((&one.before, &one.after), (&other.after, &other.before));
        let (Some(one), Some(other)) = (&one.change, &other.change) else {
            continue;
        };
        let invert = |value: f64| match one.scale {
            Scale::Ratio => 1.0 / value,
            Scale::Difference => -value,
        };
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
        assert!(
            close(one.estimate, invert(other.estimate)),
            "{one:?} {other:?}"
        );
        assert!(close(one.low, invert(other.high)), "{one:?} {other:?}");
        assert!(
            close(one.lower_bound, invert(other.upper_bound)),
            "{one:?} {other:?}"
        );
        assert_eq!(
            (one.p_regression, one.p_improvement),
            (other.p_improvement, other.p_regression)
        );
        assert!(one.lower_bound <= one.estimate && one.estimate <= one.upper_bound);
        mirrored += 1;
    }
    assert!(mirrored > 10, "{mirrored}");
}

#[test]
fn what_only_one_version_measures_can_not_pass() {
    let judge = |arm: &str, of: fn(u32) -> bool| {
        let mut blind = record(1, 10, 400, &two_endpoints());
        let blocks = blind.blocks.iter_mut();
        for block in blocks.filter(|block| block.arm == arm && of(block.pair)) {
            block.monitor = None;
        }
        compare(&blind, &Policy::default()).unwrap()
    };
    let after = judge("after", |_| true);
    insta::assert_snapshot!(outline(&after));
    for comparison in [
        after,
        judge("before", |_| true),
        judge("after", |pair| pair == 3),
    ] {
        assert_eq!(comparison.verdict, Verdict::Inconclusive);
        assert_eq!(comparison.decision, Decision::Undecided);
        let reasons = comparison.reasons.join(" ");
        assert!(reasons.contains("mount the monitor in both"), "{reasons}");
    }
}

#[test]
fn the_headline_does_not_pick_the_best_endpoint() {
    let mut endpoints = two_endpoints();
    endpoints[1].ratio = 0.05;
    let comparison = compare(&record(1, 10, 400, &endpoints), &Policy::default()).unwrap();
    let least = "GET usage p95 51.1 → 10.1 ms, at least −77 %";
    let headline = &comparison.headline;
    assert!(headline.starts_with(least), "{headline}");
    endpoints[1].ratio = 0.5;
    let comparison = compare(&record(1, 10, 400, &endpoints), &Policy::default()).unwrap();
    let headline = &comparison.headline;
    assert!(headline.starts_with("POST conversations p95"), "{headline}");
}

#[test]
fn what_only_the_floor_forgives_is_counted() {
    let mut more = record(1, 10, 400, &two_endpoints());
    for block in more.blocks.iter_mut().filter(|block| block.arm == "after") {
        block.process.as_mut().unwrap().threads_max += 2;
    }
    let comparison = compare(&more, &Policy::default()).unwrap();
    assert_eq!(comparison.verdict, Verdict::Pass);
    let expected = "All 10 judged cells are within their harm limits, 7 of them significantly \
                    better, 1 of them because its change is below the floor.";
    assert_eq!(comparison.reasons, [expected]);
}

#[test]
fn an_endpoint_that_only_one_session_reached_can_not_pass() {
    let endpoints = two_endpoints();
    let before = run_record(1, 2_000, &endpoints);
    let mut after = before.clone();
    let policy = Policy {
        unpaired: Unpaired::Judge,
        ..Policy::default()
    };
    let verdict = |after: &RunRecord| {
        let comparison = compare_unpaired(&before, after, &policy).unwrap();
        (comparison.verdict, comparison.reasons.join(" "))
    };
    assert_eq!(verdict(&after).0, Verdict::Pass);
    for block in &mut after.blocks {
        block.endpoints.remove("GET usage");
    }
    let (verdict, reasons) = verdict(&after);
    assert_eq!(verdict, Verdict::Inconclusive);
    assert!(
        reasons.contains("Only one version was measured"),
        "{reasons}"
    );
}

#[test]
fn what_a_step_has_no_criterion_for_is_shown_and_not_judged() {
    let mut spec = EndpointSpec::new("GET a", 20.0);
    spec.ratio = 2.0;
    let mut record = record(1, 8, 400, &[spec]);
    let verdict = |record: &RunRecord| {
        let compared = compare(record, &Policy::default());
        compared.expect("two versions").verdict
    };
    assert_eq!(verdict(&record), Verdict::Regression);
    let step = record.step.as_mut().expect("a step");
    step.criteria
        .retain(|name, _| name != "p95" && name != "blocked");
    assert_eq!(verdict(&record), Verdict::Pass);
    // Without a plan everything is judged.
    record.step = None;
    assert_eq!(verdict(&record), Verdict::Regression);
}

/// Two records of one version, and a policy that judges them.
fn apart() -> (RunRecord, RunRecord, Policy) {
    let endpoints = [
        EndpointSpec::new("GET a", 20.0),
        EndpointSpec::new("GET b", 20.0),
    ];
    let before = run_record(3, 8_000, &endpoints);
    let policy = Policy {
        unpaired: Unpaired::Judge,
        ..Policy::default()
    };
    (before.clone(), before, policy)
}

#[test]
fn a_percentile_that_failures_reach_into_is_open_between_sessions_too() {
    let (mut before, mut after, policy) = apart();
    let verdict = |before: &RunRecord, after: &RunRecord| {
        compare_unpaired(before, after, &policy).expect("comparable")
    };
    // Few failures, and the 99th percentile is the first failure or next to it.
    for record in [&mut before, &mut after] {
        let samples = record.blocks[0].endpoints.get_mut("GET b").expect("there");
        samples.errors.insert(ErrorKind::Status, 79);
        samples.failed.record_us_times(1_000, 79);
    }
    let comparison = verdict(&before, &after);
    let p99 = comparison.cells.iter().find(|cell| {
        cell.endpoint.as_deref() == Some("GET b") && cell.metric == Metric::ResponseP99
    });
    let p99 = p99.expect("it has a cell");
    assert!(p99.judged, "{p99:?}");
    assert_eq!(p99.outcome, Outcome::Inconclusive { pairs_needed: None });
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
}

#[test]
fn what_only_one_session_or_none_came_to_is_no_pass() {
    let (before, after, policy) = apart();
    let verdict = |before: &RunRecord, after: &RunRecord| {
        compare_unpaired(before, after, &policy)
            .expect("comparable")
            .verdict
    };
    assert_eq!(verdict(&before, &after), Verdict::Pass);
    let mut stopped = before.clone();
    stopped.interrupted = true;
    for (one, other) in [(&stopped, &after), (&after, &stopped)] {
        let comparison = compare_unpaired(one, other, &policy).expect("comparable");
        assert_eq!(comparison.verdict, Verdict::Inconclusive);
        assert_eq!(
            comparison.next_action,
            "Measure both versions in one session with `unstall ab`."
        );
        assert!(
            comparison
                .validity
                .warnings
                .iter()
                .any(|of| of.contains("stopped before its plan was done")),
            "{:?}",
            comparison.validity.warnings
        );
    }
    // A level that the first session didn't come to.
    let both = |record: &RunRecord| {
        let mut both = record.clone();
        let mut higher = record.blocks[0].clone();
        higher.level = 50;
        both.blocks.push(higher);
        both.load.levels = vec![20, 50];
        both
    };
    let (whole, mut without) = (both(&after), both(&before));
    assert_eq!(verdict(&whole, &whole), Verdict::Pass);
    without.blocks.pop();
    assert_eq!(verdict(&without, &whole), Verdict::Inconclusive);
    assert_eq!(verdict(&without, &without), Verdict::Inconclusive);
    // An endpoint that nobody asked for.
    let mut unasked = before.clone();
    unasked.blocks[0].endpoints.remove("GET b");
    assert_eq!(verdict(&unasked, &unasked), Verdict::Inconclusive);
}
