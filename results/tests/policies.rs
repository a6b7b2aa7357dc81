//! Policy files through the public door: what the example means, what is refused with which words,
//! and that schema and reader are of one mind.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::Value as Json;
use unstall_results::comparison::Metric;
use unstall_results::policy::{Consequence, Policy, PolicyError, Unpaired, schema};
use unstall_results::record::RunRecord;
use unstall_results::synthetic::{EndpointSpec, record};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a file of this repository")
}

fn example() -> Policy {
    let text = read(&folder("examples/policy.toml"));
    Policy::parse(&text, Path::new("policy.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// Two endpoints that are judged, one that the scenario wants only shown.
fn measured() -> RunRecord {
    let specs = ["GET usage", "POST message", "POST export", "GET health"]
        .map(|name| EndpointSpec::new(name, 20.0));
    let mut measured = record(1, 5, 40, &specs);
    measured.scenario.endpoints[3].judged = false;
    measured
}

/// The files of a folder, by name.
fn corpus(name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder("tests").join(name)).expect("a folder of this test");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() > 10);
    files
}

/// All messages, each checked for what every message must have.
fn messages(name: &str, judge: impl Fn(&str, &Path) -> Result<(), PolicyError>) -> String {
    let mut all = String::new();
    for path in corpus(name) {
        let text = read(&path);
        let shown = PathBuf::from(path.file_name().expect("a name"));
        let Err(error) = judge(&text, &shown) else {
            panic!("{} has nothing wrong", path.display());
        };
        assert!((1..=text.lines().count()).contains(&error.line), "{error}");
        assert!(error.column >= 1 && !error.message.is_empty() && !error.fix.is_empty());
        writeln!(all, "{error}\n").expect("a String");
    }
    all
}

#[test]
fn every_malformed_policy_is_answered_with_place_and_fix() {
    insta::assert_snapshot!(messages("malformed-policies", |text, path| {
        Policy::parse(text, path).map(drop)
    }));
}

#[test]
fn a_policy_that_matches_nothing_is_answered_with_what_there_is() {
    let measured = measured();
    insta::assert_snapshot!(messages("unmatched-policies", |text, path| {
        let policy = Policy::parse(text, path).unwrap_or_else(|error| panic!("{error}"));
        policy.check(&[&measured])
    }));
}

#[test]
fn the_example_means_what_it_says() {
    let policy = example();
    assert_eq!(policy.check(&[&measured()]), Ok(()));
    assert_eq!(
        (policy.inconclusive, policy.invalid, policy.unpaired),
        (Consequence::Fail, Consequence::Fail, Unpaired::Advise)
    );
    let bound = policy.for_scenario(&measured().scenario);
    let margin = |endpoint, metric| {
        let margin = bound.margin(endpoint, metric);
        [margin.regression, margin.harm, margin.floor]
    };
    assert_eq!(
        margin(Some("GET usage"), Metric::ResponseP95),
        [0.1, 0.3, 2.0]
    );
    assert_eq!(
        margin(Some("GET usage"), Metric::ResponseP99),
        [0.1, 0.3, 2.0]
    );
    assert_eq!(
        margin(Some("POST message"), Metric::ResponseP95),
        [0.05, 0.2, 1.0]
    );
    assert_eq!(
        margin(Some("GET usage"), Metric::ErrorRate),
        [0.0, 0.5, 0.1]
    );
    assert_eq!(margin(None, Metric::CpuUsPerRequest)[1], 0.5);
    // Without routes only the name is known, and this rule is about a path.
    assert_eq!(
        policy.margin(Some("GET usage"), Metric::ResponseP95).floor,
        1.0
    );
    assert_eq!(policy.slos.len(), 2);
}

#[test]
fn one_policy_is_for_all_records_that_are_judged_together() {
    let usage = record(1, 5, 40, &[EndpointSpec::new("GET usage", 20.0)]);
    let message = record(1, 5, 40, &[EndpointSpec::new("POST message", 20.0)]);
    let text = "[[rule]]\nendpoint = \"POST *\"\nlimit = 30\n[[slo]]\nendpoint = \"GET *\"\nslo = \"p95<1s\"\n";
    let policy = Policy::parse(text, Path::new("p.toml")).expect("a policy");
    assert_eq!(policy.check(&[&usage, &message]), Ok(()));
    let error = policy.check(&[&usage]).expect_err("there is no POST");
    assert_eq!(error.line, 1, "{error}");
    let error = policy.check(&[&message]).expect_err("there is no GET");
    assert_eq!(error.line, 4, "{error}");
}

#[test]
fn before_a_measurement_whatever_can_be_measured_is_taken_as_there() {
    let measured = measured();
    let check = |text: &str| {
        let policy = Policy::parse(text, Path::new("p.toml")).expect("a policy");
        policy.check_plans(&[(&measured.scenario, &measured.load)])
    };
    assert_eq!(check("judge = [\"probe_p90\", \"ttft_p95\"]"), Ok(()));
    assert_eq!(check("[[slo]]\nslo = \"ttft.p95<1s\""), Ok(()));
    let error = check("[[rule]]\nendpoint = \"GET /nowhere\"\nlimit = 30").expect_err("nowhere");
    assert!(error.to_string().contains("GET /api/v1/usage"), "{error}");
    check("[[slo]]\nslo = \"p95<1s\"\nlevel = 10").expect_err("the load is 20 users");
}

/// The committed schema equals the generated one; `INSTA_UPDATE=always` rewrites it.
#[test]
fn the_committed_schema_is_the_generated_one() {
    let path = folder("schema/policy.schema.json");
    let generated = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &generated).expect("schema/ can be written");
    }
    assert!(
        read(&path) == generated,
        "run this test with INSTA_UPDATE=always and commit"
    );
}

/// What a schema can't tell: relations between values, globs over names, the notation of objectives,
/// and what JSON has no word for.
const BEYOND_A_SCHEMA: [&str; 7] = [
    "infinite-limit",
    "limit-below-default-margin",
    "limit-not-above-margin",
    "rule-limit-not-above-margin",
    "rule-metric-unknown",
    "slo-endpoint-twice",
    "slo-without-unit",
];

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let mut accepted = Vec::new();
    for path in corpus("malformed-policies") {
        // What is no TOML, or has no JSON, is nothing to a schema.
        let Ok(value) = toml::from_str::<Json>(&read(&path)) else {
            continue;
        };
        if validator.is_valid(&value) {
            let name = path.file_stem().expect("a name").to_string_lossy();
            accepted.push(name.into_owned());
        }
    }
    assert_eq!(accepted, BEYOND_A_SCHEMA);
}

#[test]
fn the_schema_takes_what_the_reader_takes() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let mut texts = vec![String::new(), read(&folder("examples/policy.toml"))];
    texts.extend(corpus("unmatched-policies").iter().map(|path| read(path)));
    for text in texts {
        Policy::parse(&text, Path::new("p.toml")).unwrap_or_else(|error| panic!("{error}"));
        let value = toml::from_str::<Json>(&text).expect("TOML");
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{text}\n{errors:#?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_policy_or_a_placed_mistake(text in "\\PC*") {
        if let Err(error) = Policy::parse(&text, Path::new("p.toml")) {
            prop_assert!(error.line >= 1 && !error.fix.is_empty());
        }
    }

    #[test]
    fn any_rule_is_taken_or_refused_without_a_panic(
        endpoint in "[A-Z*? /a-z]{0,12}", metric in "[a-z_*?0-9]{0,14}",
        numbers in prop::collection::vec(prop::option::of(-1.0..60.0f64), 3),
        judged in prop::option::of(any::<bool>()),
    ) {
        let mut text = format!("[[rule]]\nendpoint = {endpoint:?}\nmetric = {metric:?}\n");
        for (key, number) in ["margin", "limit", "floor"].iter().zip(&numbers) {
            if let Some(number) = number {
                writeln!(text, "{key} = {number:.3}").expect("a String");
            }
        }
        if let Some(judged) = judged {
            writeln!(text, "judged = {judged}").expect("a String");
        }
        if let Ok(policy) = Policy::parse(&text, Path::new("p.toml")) {
            let measured = measured_once();
            // Whatever it says of each cell, no limit is below its margin if it was checked.
            if policy.check(&[measured]).is_ok() {
                let bound = policy.for_scenario(&measured.scenario);
                for metric in Metric::ALL {
                    let margin = bound.margin(Some("GET usage"), metric);
                    prop_assert!(margin.harm > margin.regression);
                }
            }
        }
    }
}

fn measured_once() -> &'static RunRecord {
    static ONCE: std::sync::OnceLock<RunRecord> = std::sync::OnceLock::new();
    ONCE.get_or_init(measured)
}
