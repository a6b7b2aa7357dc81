//! A certificate of a machine, through the public door: what it says of sessions whose truth is known,
//! what it refuses, and what it does to a verdict. Seeded, so the counts are always the same.

use std::path::Path;
use std::sync::LazyLock;

use unstall_results::calibration::{Certificate, certify, is_of_a_kind, schema};
use unstall_results::compare::compare;
use unstall_results::comparison::{Comparison, Decision, Metric, Verdict};
use unstall_results::policy::{Consequence, Margin, Policy};
use unstall_results::record::{ArmAccess, RunRecord, StepIdentity};
use unstall_results::synthetic::{EndpointSpec, record};

fn endpoints(ratio: f64) -> [EndpointSpec; 2] {
    [
        EndpointSpec {
            ratio,
            ..EndpointSpec::new("GET a", 20.0)
        },
        EndpointSpec::new("GET b", 30.0),
    ]
}

/// A session of one version against itself.
fn session(seed: u64) -> RunRecord {
    let mut session = record(seed, 10, 400, &endpoints(1.0));
    let before = session.arms["before"].clone();
    session.arms.insert("after".to_owned(), before);
    session.step = None;
    session
}

fn sessions(count: u64) -> Vec<RunRecord> {
    (0..count).map(|seed| session(5_000 + seed)).collect()
}

/// The same for all tests, since making it takes a while without optimisation.
fn certificate() -> Certificate {
    static CERTIFICATE: LazyLock<Certificate> =
        LazyLock::new(|| certify(&sessions(6), &Policy::default(), 40).expect("sessions"));
    CERTIFICATE.clone()
}

#[test]
fn sessions_are_counted_and_left_out_when_unfinished() {
    let mut records = sessions(4);
    records[3].interrupted = true;
    records[2].blocks[0].steal_share = Some(0.5);
    let certified = certify(&records, &Policy::default(), 0).expect("sessions");
    let verdicts: Vec<Verdict> = certified.sessions.iter().map(|of| of.verdict).collect();
    assert_eq!(verdicts.len(), 3);
    assert_eq!(verdicts[2], Verdict::Invalid);
    let counts = certified.counts;
    assert_eq!(counts.invalid, 1);
    assert_eq!(counts.pass + counts.inconclusive + counts.regression, 2);
    assert_eq!(certified.false_alarms.of, 2, "an invalid one is not judged");
    assert_eq!(certified.resampled, None);
    let all_unfinished = certify(&records[3..], &Policy::default(), 0);
    let error = all_unfinished.expect_err("nothing whole").to_string();
    assert!(error.contains("no session is complete"), "{error}");
}

#[test]
fn more_pairs_find_less_and_a_cell_has_its_noise() {
    let certified = certificate();
    let p95 = certified
        .cell(Some("GET a"), 20, Metric::ResponseP95)
        .expect("measured");
    assert!(p95.judged && p95.pairs == 60);
    let within = p95.sd_within_blocks.expect("a percentile has an interval");
    assert!(0.0 < within && within < p95.sd_between_pairs, "{p95:?}");
    let found = &p95.detectable;
    assert!(found.iter().any(|of| of.pairs == 10) && found.len() >= 5);
    for two in found.windows(2) {
        assert!(two[0].pairs < two[1].pairs);
        assert!(two[0].beyond_margin > two[1].beyond_margin, "{two:?}");
        assert!(two[1].change > Margin::default_of(Metric::ResponseP95).regression);
    }
    // Only shown: its noise is told, and nothing of what could be found.
    let cpu = certified.cell(None, 20, Metric::CpuUsPerRequest);
    assert!(cpu.is_some_and(|cpu| !cpu.judged && cpu.detectable.is_empty()));
    assert!(certified.minutes_per_pair > 0.0);
}

#[test]
fn what_is_said_to_be_found_8_times_in_10_is() {
    let certified = certificate();
    let found = |metric| {
        let cell = certified.cell(Some("GET a"), 20, metric).expect("measured");
        let at_ten = cell.detectable.iter().find(|of| of.pairs == 10);
        at_ten.expect("the design's own number").change
    };
    // A slower endpoint is slower in all percentiles: whichever is seen first decides.
    let change = found(Metric::ResponseP50);
    let mut alarms = 0;
    for seed in 0..40 {
        let slower = record(9_000 + seed, 10, 400, &endpoints(1.0 + change));
        let comparison = compare(&slower, &Policy::default()).expect("two arms");
        let p50 = comparison.cells.iter().find(|cell| {
            cell.endpoint.as_deref() == Some("GET a") && cell.metric == Metric::ResponseP50
        });
        let p = p50
            .and_then(|cell| cell.change.as_ref())
            .map(|of| of.p_regression);
        alarms += u32::from(p.is_some_and(|p| p <= 0.05));
    }
    assert!((26..=39).contains(&alarms), "{alarms} of 40 at +{change}");
}

#[test]
fn sessions_put_together_anew_agree_with_real_ones() {
    let resampled = certificate().resampled.expect("asked for");
    assert_eq!(resampled.from_pairs, 60);
    let counts = resampled.counts;
    let all = counts.pass + counts.inconclusive + counts.regression + counts.invalid;
    assert_eq!(all, 40);
    let verdict = |record: &RunRecord| {
        let compared = compare(record, &Policy::default());
        compared.expect("two arms").verdict
    };
    let real: Vec<Verdict> = sessions(20).iter().map(verdict).collect();
    let count = |wanted| real.iter().filter(|verdict| **verdict == wanted).count();
    assert!(counts.regression <= 2, "{counts:?}");
    assert!(count(Verdict::Regression) <= 1, "{real:?}");
    let passes = (
        f64::from(counts.pass) / 40.0,
        count(Verdict::Pass) as f64 / 20.0,
    );
    assert!((passes.0 - passes.1).abs() < 0.3, "{passes:?}");
}

#[test]
fn another_kind_of_session_is_refused() {
    let first = session(1);
    let refused = |change: fn(&mut RunRecord)| {
        let mut other = session(2);
        other.label = "other".to_owned();
        change(&mut other);
        let error = is_of_a_kind(&first, &other, true).expect_err("another kind");
        error.to_string()
    };
    assert!(is_of_a_kind(&first, &session(2), true).is_ok());
    insta::assert_snapshot!(
        [
            refused(|of| of.machine.class = "arm64/4c/8g/linux-6.18".to_owned()),
            refused(|of| of.load.requests_per_endpoint = 2_000),
            refused(|of| of.load.pairs = 16),
            refused(|of| of.scenario.sha256 = "f".repeat(64)),
            refused(|of| {
                let command = Some("another --port {port}".to_owned());
                of.arms
                    .values_mut()
                    .for_each(|arm| arm.command = command.clone());
            }),
            refused(|of| {
                of.arms.get_mut("after").expect("an arm").command = None;
            }),
        ]
        .join("\n")
    );
}

#[test]
fn a_missed_objective_is_no_false_alarm() {
    let text = "[[slo]]\nslo = \"p95<1ms\"\n";
    let policy = Policy::parse(text, Path::new("policy.toml")).expect("a policy");
    let one = sessions(1);
    let missed = compare(&one[0], &policy).expect("two arms");
    assert_eq!(missed.verdict, Verdict::Regression, "it is missed");
    let certified = certify(&one, &policy, 5).expect("sessions");
    assert_eq!(certified.counts.regression, 0);
    let again = certified.resampled.expect("asked for");
    assert_eq!(again.counts.regression, 0);
}

#[test]
fn what_could_not_be_judged_certifies_nothing() {
    let mut records = sessions(3);
    for record in &mut records {
        record.blocks[0].steal_share = Some(0.5);
    }
    let nothing = certify(&records, &Policy::default(), 0).expect("sessions");
    assert_eq!(nothing.false_alarms.of, 0);
    let why = nothing.distrust().expect("nothing is known");
    assert!(why.starts_with("Of 3 sessions"), "{why}");
    let measured = record(77, 10, 400, &endpoints(1.0));
    let mut comparison = compare(&measured, &Policy::default()).expect("two arms");
    let fits = nothing.apply(&measured, &mut comparison, &Policy::default());
    assert!(fits.is_ok(), "{fits:?}");
    assert_eq!(comparison.verdict, Verdict::Invalid);

    records[0].blocks[0].steal_share = None;
    let few = certify(&records, &Policy::default(), 0).expect("sessions");
    assert_eq!(few.distrust(), None);
    let doubt = few.doubt().expect("one of three");
    assert!(doubt.starts_with("Only 1 of 3 sessions"), "{doubt}");
    assert_eq!(certificate().doubt(), None);
}

#[test]
fn another_policy_has_false_alarms_of_its_own() {
    let certified = certificate();
    let measured = record(77, 10, 400, &endpoints(1.0));
    let other = |text: &str| {
        let policy = Policy::parse(text, Path::new("policy.toml")).expect("a policy");
        let comparison = compare(&measured, &policy).expect("two arms");
        certified.other_rule(&comparison, &policy).join("; ")
    };
    // A limit is about passes, and an objective about one version.
    for same in [
        "",
        "[metrics.response_p95]\nlimit = 60\n",
        "[[slo]]\nslo = \"p95<1s\"\n",
    ] {
        assert_eq!(other(same), "", "{same}");
    }
    insta::assert_snapshot!(
        [
            other("alpha = 0.2"),
            other("judge = [\"cpu_us_per_request\", \"response_p50\"]"),
            other("[metrics.response_p95]\nmargin = 1\n"),
            other("[metrics.response_p50]\nfloor = 0\n"),
        ]
        .join("\n")
    );
    let policy = Policy {
        alpha: 0.2,
        ..Policy::default()
    };
    let told = applied(&certified, &policy).blind_spots.join("\n");
    assert!(
        told.contains("of another policy (α 0.05 there, 0.2 here)"),
        "{told}"
    );
    // Of an older certificate nobody knows the margins.
    let mut old = certified.clone();
    old.cells.iter_mut().for_each(|cell| cell.margin = None);
    let comparison = compare(&measured, &Policy::default()).expect("two arms");
    assert_eq!(
        old.other_rule(&comparison, &Policy::default()),
        ["margins and floors are not known of it"]
    );
}

#[test]
fn a_look_sees_less_than_the_level_of_all_looks() {
    let certified = certificate();
    let policy = with_limit(16.0);
    let mut measured = record(77, 10, 400, &endpoints(1.0));
    let found = |measured: &RunRecord| {
        let comparison = compare(measured, &policy).expect("two arms");
        let spots = certified.blind_spots(&comparison);
        let p95 = spots.into_iter().find(|spot| {
            spot.endpoint.as_deref() == Some("GET a") && spot.metric == Metric::ResponseP95
        });
        p95.expect("below sight")
    };
    let once = found(&measured);
    measured.load.looks = vec![10, 16, 24];
    measured.load.pairs = 24;
    measured.interrupted = true;
    let at_look = found(&measured);
    assert!(at_look.detectable > once.detectable, "{at_look:?} {once:?}");
    assert!(
        at_look.pairs_needed > once.pairs_needed,
        "{at_look:?} {once:?}"
    );
}

/// A comparison of two versions on the certificate's machine, with what the certificate adds.
fn applied(certified: &Certificate, policy: &Policy) -> Comparison {
    let measured = record(77, 10, 400, &endpoints(1.0));
    let mut comparison = compare(&measured, policy).expect("two arms");
    certified
        .apply(&measured, &mut comparison, policy)
        .expect("the same machine and design");
    comparison
}

fn with_limit(percent: f64) -> Policy {
    let text = format!("[metrics.response_p95]\nlimit = {percent}\n");
    Policy::parse(&text, Path::new("policy.toml")).expect("a policy")
}

#[test]
fn limits_below_sight_are_told_with_what_it_takes() {
    let certified = certificate();
    let policy = Policy::default();
    let measured = record(77, 10, 400, &endpoints(1.0));
    let plain = compare(&measured, &policy).expect("two arms");
    let wide = applied(&certified, &with_limit(300.0));
    assert!(!wide.blind_spots.iter().any(|spot| spot.contains("p95")));
    let tight = applied(&certified, &with_limit(16.0));
    let spots: Vec<&String> = tight
        .blind_spots
        .iter()
        .filter(|spot| !plain.blind_spots.contains(spot))
        .collect();
    // What is below the floor is no harm, so nobody has to see it.
    assert!(
        !tight
            .blind_spots
            .iter()
            .any(|spot| spot.contains("blocked"))
    );
    assert!(
        spots.iter().any(|spot| spot.contains("GET a p95")),
        "{spots:?}"
    );
    insta::assert_debug_snapshot!(spots);
    assert_ne!(tight.verdict, Verdict::Invalid);
}

#[test]
fn another_machine_scenario_or_design_is_refused_and_other_pairs_are_told() {
    let certified = certificate();
    let refused = |change: fn(&mut RunRecord)| {
        let mut measured = session(3);
        measured.label = "nightly".to_owned();
        change(&mut measured);
        certified
            .fits(&measured, true)
            .expect_err("another")
            .to_string()
    };
    insta::assert_snapshot!(
        [
            refused(|of| of.machine.class = "x86_64/64c/256g/linux-6.18".to_owned()),
            refused(|of| {
                of.load.levels = vec![10, 50];
                of.load.warmup_per_user = 9;
            }),
            refused(|of| of.machine.colocated = !of.machine.colocated),
            refused(|of| of.load.state_reset = "elsewhere".to_owned()),
            refused(|of| of.harness.version = "7.0.0".to_owned()),
            refused(|of| of.load.store_round_trip_us = Some(9_000)),
            refused(|of| {
                let access = ArmAccess {
                    insecure: true,
                    ..ArmAccess::default()
                };
                of.arms
                    .values_mut()
                    .for_each(|arm| arm.access = Some(access.clone()));
            }),
        ]
        .join("\n")
    );
    let mut planned = session(3);
    planned.load.probe = None;
    assert!(certified.fits(&planned, false).is_ok());
    let mut more = record(78, 14, 400, &endpoints(1.0));
    more.machine.kernel = "6.99".to_owned();
    let mut comparison = compare(&more, &Policy::default()).expect("two arms");
    let fits = certified.apply(&more, &mut comparison, &Policy::default());
    assert!(fits.is_ok(), "{fits:?}");
    let told = comparison.blind_spots.join("\n");
    assert!(told.contains("sessions with 10 pairs"), "{told}");
    let warned = comparison.validity.warnings.join("\n");
    assert!(warned.contains("6.99 here"), "{warned}");
}

#[test]
fn a_machine_on_which_identical_code_alarms_makes_verdicts_invalid() {
    let mut certified = certificate();
    assert_eq!(certified.distrust(), None);
    certified.false_alarms.count = 4;
    certified.false_alarms.of = 6;
    certified.false_alarms.low = 0.22;
    let comparison = applied(&certified, &Policy::default());
    assert_eq!(comparison.verdict, Verdict::Invalid);
    assert_eq!(comparison.decision, Decision::Undecided);
    assert_eq!(comparison.reasons, comparison.validity.faults);
    insta::assert_snapshot!(format!(
        "{}\n{}",
        comparison.headline,
        comparison.reasons.join("\n")
    ));
}

#[test]
fn no_criterion_stays_met_where_verdicts_are_worth_nothing() {
    let mut certified = certificate();
    let mut measured = record(77, 10, 400, &endpoints(1.0));
    measured.step = Some(StepIdentity {
        id: "1".to_owned(),
        title: "A step".to_owned(),
        branch: "step-1".to_owned(),
        risk: "low".to_owned(),
        impact: "none".to_owned(),
        endpoints: vec![measured.scenario.endpoints[0].name.clone()],
        criteria: [("p50".to_owned(), "better-or-flat".to_owned())].into(),
    });
    let policy = Policy {
        invalid: Consequence::Warn,
        ..Policy::default()
    };
    let apply = |certified: &Certificate| {
        let mut comparison = compare(&measured, &policy).expect("two arms");
        let fits = certified.apply(&measured, &mut comparison, &policy);
        fits.expect("the same machine and design");
        comparison
    };
    let met = |comparison: &Comparison| comparison.criteria[0].met;
    assert_eq!(met(&apply(&certified)), Some(true));
    certified.false_alarms.low = 0.22;
    let spoilt = apply(&certified);
    assert_eq!((met(&spoilt), spoilt.verdict), (None, Verdict::Invalid));
    assert!(spoilt.criteria[0].found.contains("is invalid"));
    // Nor is it forgotten that the policy only warns.
    assert!(spoilt.reasons.len() > spoilt.validity.faults.len());
}

#[test]
fn a_certificate_is_read_as_it_was_written_and_mistakes_name_their_line() {
    let certified = certificate();
    let text = certified.to_json().expect("JSON");
    let origin = Path::new("calibration.json");
    let read = Certificate::parse(text.as_bytes(), origin).expect("its own form");
    assert_eq!(read, certified);
    let refused = |text: &str| {
        let error = Certificate::parse(text.as_bytes(), origin).expect_err("no certificate");
        error.to_string()
    };
    insta::assert_snapshot!(
        [
            refused(""),
            refused(
                "{\n  \"schema\": {\"name\": \"unstall.record\", \"major\": 1, \"minor\": 0}\n}"
            ),
            refused(&text.replacen("\"major\": 1", "\"major\": 2", 1)),
            refused(&text.replacen("\"alpha\": 0.05", "\"alpha\": \"small\"", 1)),
            refused(&text[..text.len() / 2])
                .lines()
                .last()
                .unwrap_or_default()
                .to_owned(),
        ]
        .join("\n")
    );
    assert!(Certificate::read(Path::new("/nowhere/calibration.json")).is_err());
}

#[test]
fn the_shipped_schema_is_the_generated_one_and_holds_a_certificate() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/calibration.schema.json");
    let schema = schema();
    let generated = format!("{}\n", serde_json::to_string_pretty(&schema).expect("JSON"));
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &generated).expect("schema/ can be written");
    }
    let shipped = std::fs::read_to_string(&path).expect("schema/calibration.schema.json");
    assert!(
        shipped == generated,
        "run this test with INSTA_UPDATE=always and commit"
    );
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let document = serde_json::to_value(certificate()).expect("JSON");
    let mistakes: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(mistakes, Vec::<String>::new());
}
