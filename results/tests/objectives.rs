//! Objectives of a policy through the public door: what is met, missed or neither, and what that
//! makes of the verdict.

use std::path::Path;

use unstall_results::compare::{compare, compare_unpaired};
use unstall_results::comparison::{Comparison, Decision, Outcome, Verdict};
use unstall_results::policy::{Consequence, Policy};
use unstall_results::record::{Block, ErrorKind, RunRecord};
use unstall_results::slo::{SloFinding, SloOutcome};
use unstall_results::synthetic::{EndpointSpec, add_open, record, run_record};

fn policy(text: &str) -> Policy {
    Policy::parse(text, Path::new("policy.toml")).unwrap_or_else(|error| panic!("{error}"))
}

fn slo(text: &str) -> Policy {
    policy(&format!("[[slo]]\nslo = \"{text}\"\n"))
}

fn judged(record: &RunRecord, policy: &Policy) -> Comparison {
    policy
        .check(&[record])
        .unwrap_or_else(|error| panic!("{error}"));
    compare(record, policy).expect("it has both arms")
}

/// p50 20 ms and p95 about 46 ms.
fn usual() -> EndpointSpec {
    EndpointSpec::new("GET usage", 20.0)
}

fn only(comparison: &Comparison) -> &SloFinding {
    assert_eq!(comparison.slos.len(), 1, "{:#?}", comparison.slos);
    &comparison.slos[0]
}

fn said(comparison: &Comparison) -> String {
    let rows: Vec<String> = comparison
        .slos
        .iter()
        .map(|slo| format!("  {}", slo.sentence(true)))
        .collect();
    format!(
        "{:?}, {:?}\n{}\nnext: {}\n- {}\nrows:\n{}",
        comparison.verdict,
        comparison.decision,
        comparison.headline,
        comparison.next_action,
        comparison.reasons.join("\n- "),
        rows.join("\n")
    )
}

#[test]
fn an_objective_is_met_missed_or_neither() {
    let record = record(1, 10, 400, &[usual()]);
    let with = |limit: &str| judged(&record, &slo(&format!("p95<{limit}")));
    let met = with("200ms");
    assert_eq!(only(&met).outcome, SloOutcome::Met);
    assert_eq!((met.verdict, met.decision), (Verdict::Pass, Decision::Keep));
    let missed = with("20ms");
    assert_eq!(only(&missed).outcome, SloOutcome::Missed);
    assert_eq!(missed.verdict, Verdict::Regression);
    // Nothing got worse, so there is nothing to revert.
    assert_eq!(missed.decision, Decision::Undecided);
    let value = only(&met).value.expect("it was measured");
    let open = with(&format!("{value:.3}ms"));
    assert!(matches!(
        only(&open).outcome,
        SloOutcome::CantTell {
            pairs_needed: None,
            ..
        }
    ));
    assert_eq!(open.verdict, Verdict::Inconclusive);
    insta::assert_snapshot!(
        [met, missed, open]
            .iter()
            .map(said)
            .collect::<Vec<_>>()
            .join("\n\n")
    );
}

#[test]
fn a_percentile_takes_as_many_requests_as_everywhere() {
    let short = record(1, 10, 100, &[usual()]);
    let comparison = judged(&short, &slo("p95<1s"));
    assert!(matches!(
        only(&comparison).outcome,
        SloOutcome::CantTell {
            requests_needed: Some(400),
            ..
        }
    ));
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
    assert_eq!(comparison.next_action, "Measure again with --requests 400.");
    assert_eq!(
        judged(&short, &slo("p50<1s")).verdict,
        judged(&short, &Policy::default()).verdict
    );
}

#[test]
fn failing_fast_keeps_no_objective() {
    let failing = EndpointSpec {
        errors_after: 0.2,
        errors_before: 0.2,
        ..usual()
    };
    let record = record(1, 10, 400, &[failing]);
    let p95 = judged(&record, &slo("p95<1s"));
    assert_eq!(only(&p95).outcome, SloOutcome::Missed, "{}", said(&p95));
    assert!(only(&p95).at_least && only(&p95).high.is_none());
    let errors = |limit: &str| only(&judged(&record, &slo(&format!("errors<{limit}%")))).outcome;
    assert_eq!(errors("30"), SloOutcome::Met);
    assert_eq!(errors("10"), SloOutcome::Missed);
    assert!(matches!(errors("20"), SloOutcome::CantTell { .. }));
}

#[test]
fn none_failed_is_no_proof_that_few_do() {
    let clean = |requests| {
        let record = record(1, 10, requests, &[usual()]);
        only(&judged(&record, &slo("errors<0.1%"))).clone()
    };
    // 3 000 without a failure leave a share of one in a thousand possible, 10 000 don't.
    assert!(matches!(clean(300).outcome, SloOutcome::CantTell { .. }));
    assert_eq!(clean(1_000).outcome, SloOutcome::Met);
    assert_eq!(clean(300).value, Some(0.0));
}

#[test]
fn the_longest_of_all_is_proof_by_one() {
    let record = record(1, 10, 400, &[usual()]);
    let longest = only(&judged(
        &record,
        &slo("max<1h".replace('h', "000s").as_str()),
    ))
    .value
    .expect("measured");
    let at = |limit: f64| only(&judged(&record, &slo(&format!("max<{limit:.3}ms")))).outcome;
    assert_eq!(at(longest + 1.0), SloOutcome::Met);
    assert_eq!(at(longest - 1.0), SloOutcome::Missed);
}

#[test]
fn globs_levels_and_names_choose_what_an_objective_is_about() {
    let specs =
        ["GET usage", "GET other", "POST message"].map(|name| EndpointSpec::new(name, 20.0));
    let mut measured = record(1, 6, 400, &specs);
    let names = |measured: &RunRecord, text: &str| -> Vec<String> {
        let comparison = judged(measured, &policy(text));
        comparison.slos.iter().map(SloFinding::name).collect()
    };
    assert_eq!(
        names(
            &measured,
            "[[slo]]\nendpoint = \"GET /api/*\"\nslo = \"p95<1s,errors<1%\""
        ),
        [
            "GET usage p95<1s",
            "GET other p95<1s",
            "GET usage errors<1%",
            "GET other errors<1%"
        ]
    );
    assert_eq!(
        names(
            &measured,
            "[[slo]]\nslo = \"POST message:p50<1s,errors<1%\""
        ),
        ["POST message p50<1s", "errors<1%"]
    );
    measured.scenario.endpoints[1].judged = false;
    let everywhere = "[[slo]]\nslo = \"p95<1s\"\n";
    let judged_only = ["GET usage p95<1s", "POST message p95<1s"];
    assert_eq!(names(&measured, everywhere), judged_only);
    // Said twice is asked once.
    assert_eq!(names(&measured, &everywhere.repeat(2)), judged_only);
    let mut higher = measured.clone();
    for block in &mut higher.blocks {
        block.level = 50;
    }
    let mut levels = measured.clone();
    levels.blocks.extend(higher.blocks);
    levels.load.levels = vec![20, 50];
    assert_eq!(names(&levels, everywhere).len(), 4);
    assert_eq!(names(&levels, &format!("{everywhere}level = 50")).len(), 2);
}

#[test]
fn arrivals_that_pile_up_keep_no_objective_of_a_time() {
    let mut measured = record(1, 8, 400, &[EndpointSpec::new("GET a", 40.0)]);
    add_open(&mut measured, 200, [true, true]);
    let comparison = judged(&measured, &slo("p95<1000s,errors<50%"));
    let outcomes: Vec<SloOutcome> = comparison.slos.iter().map(|slo| slo.outcome).collect();
    assert_eq!(outcomes, [SloOutcome::Missed, SloOutcome::Met]);
    assert_eq!(comparison.verdict, Verdict::Regression);
    let at_its_rate = policy("[[slo]]\nslo = \"p95<1000s\"\nlevel = 200");
    assert_eq!(judged(&measured, &at_its_rate).slos.len(), 1);
}

#[test]
fn an_objective_is_of_one_version_whatever_the_sessions() {
    let before = run_record(1, 2_000, &[usual()]);
    let mut after = before.clone();
    after.label = "after".to_owned();
    let blocks = after.blocks.clone();
    for _ in 1..8 {
        after.blocks.extend(blocks.clone());
    }
    let verdict = |text: &str| compare_unpaired(&before, &after, &slo(text)).expect("comparable");
    assert_eq!(verdict("p95<1s").verdict, Verdict::Inconclusive);
    let missed = verdict("p95<10ms");
    assert_eq!(missed.verdict, Verdict::Regression, "{}", said(&missed));
}

#[test]
fn a_fault_of_our_own_comes_first_and_nothing_at_all_proves_nothing() {
    let mut faulty = record(1, 10, 400, &[usual()]);
    faulty.blocks[0].steal_share = Some(0.5);
    assert_eq!(judged(&faulty, &slo("p95<1ms")).verdict, Verdict::Invalid);
    let mut dead = record(
        1,
        10,
        400,
        &[EndpointSpec {
            errors_before: 1.0,
            errors_after: 1.0,
            ..usual()
        }],
    );
    for block in &mut dead.blocks {
        block.completed = 0;
    }
    assert_eq!(
        judged(&dead, &slo("errors<1%")).verdict,
        Verdict::Inconclusive
    );
}

#[test]
fn a_warning_changes_the_consequence_and_no_verdict() {
    let short = record(1, 10, 20, &[usual()]);
    let warned = judged(&short, &policy("inconclusive = \"warn\""));
    assert_eq!(warned.verdict, Verdict::Inconclusive);
    assert_eq!(warned.consequence, Some(Consequence::Warn));
    assert!(warned.reasons[0].contains("makes an inconclusive comparison a warning"));
    assert_eq!(warned.decision, Decision::Undecided);
    let usually = judged(&short, &Policy::default());
    assert_eq!(usually.consequence, Some(Consequence::Fail));
    assert_eq!(usually.reasons, warned.reasons[1..]);
    let worse = record(
        1,
        10,
        400,
        &[EndpointSpec {
            ratio: 2.0,
            ..usual()
        }],
    );
    let lenient = policy("inconclusive = \"warn\"\ninvalid = \"warn\"");
    let worse = judged(&worse, &lenient);
    assert_eq!(
        (worse.verdict, worse.consequence),
        (Verdict::Regression, Some(Consequence::Fail))
    );
}

#[test]
fn a_rule_moves_the_margins_of_what_it_is_about_and_of_nothing_else() {
    let slower = |name: &str| EndpointSpec {
        ratio: 1.6,
        ..EndpointSpec::new(name, 20.0)
    };
    let record = record(1, 10, 400, &[slower("GET usage"), slower("GET other")]);
    let outcomes = |text: &str| -> Vec<(String, Outcome, bool)> {
        let comparison = judged(&record, &policy(text));
        let cells = comparison
            .cells
            .iter()
            .filter(|cell| cell.metric.name() == "response_p95");
        cells
            .map(|cell| {
                (
                    cell.endpoint.clone().expect("an endpoint"),
                    cell.outcome,
                    cell.judged,
                )
            })
            .collect()
    };
    let both = outcomes("");
    assert!(
        both.iter()
            .all(|(_, outcome, judged)| *outcome == Outcome::Regression && *judged)
    );
    let rule = "[[rule]]\nendpoint = \"GET /api/v1/usage\"\nmetric = \"response_*\"\n";
    let wide = outcomes(&format!("{rule}margin = 100\nlimit = 200"));
    assert_eq!(wide[0].1, Outcome::WithinLimit);
    assert_eq!(wide[1].1, Outcome::Regression);
    let floor = outcomes(&format!("{rule}floor = 1000"));
    assert_eq!(floor[0].1, Outcome::WithinLimit);
    let advisory = outcomes(&format!("{rule}judged = false"));
    assert_eq!((advisory[0].2, advisory[1].2), (false, true));
}

/// Takes all of an endpoint out of the blocks that `chosen` picks, as if nobody had asked for it.
fn forget(record: &mut RunRecord, endpoint: &str, chosen: impl Fn(&Block) -> bool) {
    for block in record.blocks.iter_mut().filter(|block| chosen(block)) {
        let samples = block.endpoints.remove(endpoint).expect("it is there");
        block.completed -= samples.completed;
    }
}

#[test]
fn what_nobody_asked_for_keeps_its_row_and_passes_nothing() {
    let two = [usual(), EndpointSpec::new("GET other", 20.0)];
    let mut measured = record(1, 10, 400, &two);
    forget(&mut measured, "GET other", |_| true);
    // Only the objective is about it: no cell of it is judged.
    let only_errors = "judge = [\"error_rate\"]\n";
    for alternative in [None, Some(0.5)] {
        measured.scenario.endpoints[1].share = alternative;
        for slo in ["errors<1%", "p95<1s", "max<10s"] {
            let rule = format!("{only_errors}[[slo]]\nendpoint = \"GET other\"\nslo = \"{slo}\"\n");
            let comparison = compare(&measured, &policy(&rule)).expect("two arms");
            let finding = only(&comparison);
            assert!(
                matches!(finding.outcome, SloOutcome::CantTell { .. }),
                "{slo}: {finding:?}"
            );
            assert_eq!(finding.value, None, "{slo}");
            assert_eq!(comparison.verdict, Verdict::Inconclusive, "{slo}");
        }
    }
}

#[test]
fn a_stream_that_stopped_streaming_keeps_no_objective_of_its_first_item() {
    let mut measured = record(1, 10, 400, &[usual()]);
    for block in &mut measured.blocks {
        if block.arm == "before" {
            let samples = block.endpoints.get_mut("GET usage").expect("it is there");
            samples.ttft = Some(samples.response.clone());
        }
    }
    let rules = "judge = [\"error_rate\"]\n[[slo]]\nslo = \"ttft.p95<500s\"\n";
    let comparison = judged(&measured, &policy(rules));
    assert!(matches!(
        only(&comparison).outcome,
        SloOutcome::CantTell { .. }
    ));
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
}

#[test]
fn a_block_without_a_request_is_no_proof_that_one_took_too_long() {
    let two = [usual(), EndpointSpec::new("GET other", 20.0)];
    let mut measured = record(1, 10, 400, &two);
    forget(&mut measured, "GET other", |block| {
        block.pair == 3 && block.arm == "after"
    });
    let with = |slo: &str| {
        let rule = format!("[[slo]]\nendpoint = \"GET other\"\nslo = \"{slo}\"\n");
        judged(&measured, &policy(&rule))
    };
    let open = with("max<1000s");
    assert!(matches!(only(&open).outcome, SloOutcome::CantTell { .. }));
    assert!(only(&open).value.is_some(), "the others have a longest");
    assert_eq!(open.verdict, Verdict::Inconclusive);
    assert_eq!(only(&with("max<1ms")).outcome, SloOutcome::Missed);
}

#[test]
fn before_the_first_look_only_proof_is_said() {
    let mut stopped = record(1, 9, 400, &[usual()]);
    stopped.load.looks = vec![10, 16, 24];
    stopped.load.pairs = 24;
    stopped.interrupted = true;
    for slo in ["p95<20ms", "p95<900ms", "errors<90%"] {
        let comparison = judged(&stopped, &policy(&format!("[[slo]]\nslo = \"{slo}\"\n")));
        assert_eq!(
            only(&comparison).outcome,
            SloOutcome::CantTell {
                pairs_needed: Some(10),
                requests_needed: None
            },
            "{slo}"
        );
        assert_eq!(comparison.verdict, Verdict::Inconclusive, "{slo}");
    }
    let proof = judged(&stopped, &slo("max<1ms"));
    assert_eq!(proof.verdict, Verdict::Regression);
}

#[test]
fn counts_beyond_all_measure_are_no_panic() {
    let mut measured = record(1, 10, 400, &[usual()]);
    measured.scenario.endpoints[0].share = Some(1.0);
    for block in &mut measured.blocks {
        let samples = block.endpoints.get_mut("GET usage").expect("it is there");
        samples.completed = u64::MAX;
        samples.errors.insert(ErrorKind::Status, u64::MAX);
    }
    let comparison = compare(&measured, &slo("errors<0.1%")).expect("two arms");
    assert_eq!(comparison.slos.len(), 1);
}
