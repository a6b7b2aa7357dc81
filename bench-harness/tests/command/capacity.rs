//! `capacity` against queues whose capacity is known to the last request: so many workers that
//! each take so long. What they can take bounds every answer from above, on any machine.

use std::path::Path;

use serde_json::Value;
use unstall_results::capacity;
use unstall_results::store;
use unstall_testbed::ExactDelay;

use crate::program::{Call, call, tiny_service, unstall, write_scenario};

/// What a block of two seconds can't tell from the capacity, and the interval.
const SLACK: f64 = 1.3;

fn search(folder: &Path, scenario: &str, arguments: &[&str]) -> Call {
    let fixed = [
        "capacity",
        scenario,
        "--from",
        "50",
        "--precision",
        "20%",
        "--arrivals",
        "constant",
        "--in-flight",
        "60",
        "--warmup",
        "1",
        "--json",
    ];
    let output = unstall(folder).args(fixed).args(arguments).output();
    Call::of(output.expect("unstall starts"))
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_known_capacity_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ExactDelay::start().expect("a server");
    // 3 workers, 15 ms each: 200 per second.
    write_scenario(folder.path(), "queue", "/queue/3/15");
    let url = server.url();
    let found = search(
        folder.path(),
        "queue.toml",
        &[
            "--target",
            &url,
            "--slo",
            "p90<150ms,errors<1%",
            "--block",
            "2s",
            "--blocks",
            "14",
            "--out",
            "c.json",
        ],
    );
    found.assert_code(0);
    let document = found.document();
    let capacity = &document["capacities"][0];
    let version = &capacity["versions"][0];
    if is_too_busy(version) {
        return;
    }
    assert_eq!(version["outcome"], "found", "{capacity:#}");
    let (low, rate) = (&version["low_per_second"], &version["rate_per_second"]);
    assert!(
        number(low) <= 200.0 && number(rate) <= 200.0 * SLACK,
        "{capacity:#}"
    );
    let blocks = version["blocks"].as_array().expect("blocks");
    let held = blocks.iter().filter(|block| block["outcome"] == "held");
    let fastest = held
        .map(|block| number(&block["rate_per_second"]))
        .fold(0.0, f64::max);
    assert!(fastest <= 200.0 * SLACK, "{capacity:#}");
    // Far beyond it, arrivals pile up.
    let far = |block: &&Value| number(&block["rate_per_second"]) >= 390.0;
    assert!(
        blocks
            .iter()
            .filter(far)
            .all(|block| block["outcome"] != "held")
    );

    // The record holds the question, and whoever reads it finds the same answer.
    let record = store::read(&folder.path().join("c.json")).expect("a record");
    assert!(!record.interrupted);
    let again = capacity::find(&record)
        .expect("an objective")
        .expect("a search");
    assert_eq!(capacity["headline"], again.headline.as_str());
    let report = call(
        folder.path(),
        ["report", "c.json", "-o", "c.html", "--json"],
    );
    report.assert_code(0);
    assert_eq!(
        report.document()["capacities"][0]["headline"],
        capacity["headline"]
    );
    let page = std::fs::read_to_string(folder.path().join("c.html")).expect("a page");
    assert!(page.contains("Every block by its rate"));
}

#[test]
fn half_the_capacity_is_a_regression() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "halved", "/queue/6/20");
    // 300 per second and 150.
    let server = ExactDelay::start().expect("a server");
    let slower = ExactDelay::start_slower(2).expect("a server");
    let (before, after) = (server.url(), slower.url());
    let found = search(
        folder.path(),
        "halved.toml",
        &[
            "--before",
            &before,
            "--after",
            &after,
            "--slo",
            "p90<150ms",
            "--block",
            "2s",
            "--blocks",
            "8",
            "--seed",
            "1",
        ],
    );
    let document = found.document();
    let versions = document["capacities"][0]["versions"].as_array();
    if versions.expect("two versions").iter().any(is_too_busy) {
        return;
    }
    found.assert_code(1);
    assert_eq!(document["verdict"], "regression");
    let ratio = &document["capacities"][0]["ratio"];
    assert!(number(&ratio["high"]) < 0.9, "{ratio}");
    assert_eq!(ratio["goal_outcome"], "missed");
}

#[test]
fn an_objective_that_never_holds_is_below_the_lowest_rate() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ExactDelay::start().expect("a server");
    write_scenario(folder.path(), "slow", "/delay/30");
    let url = server.url();
    let found = search(
        folder.path(),
        "slow.toml",
        &[
            "--target",
            &url,
            "--slo",
            "GET it:p50<20ms",
            "--block",
            "1s",
            "--blocks",
            "6",
        ],
    );
    let document = found.document();
    let version = &document["capacities"][0]["versions"][0];
    let reading = &version["blocks"][0]["readings"][0];
    assert!(
        number(&reading["value"]) >= 30.0 && reading["limit"] == 20.0,
        "{reading}"
    );
    if is_too_busy(version) {
        return;
    }
    found.assert_code(0);
    assert_eq!(version["outcome"], "below", "{document:#}");
}

#[test]
fn what_held_at_the_highest_rate_is_a_lower_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ExactDelay::start().expect("a server");
    write_scenario(folder.path(), "easy", "/delay/1");
    let url = server.url();
    let found = search(
        folder.path(),
        "easy.toml",
        &[
            "--target",
            &url,
            "--slo",
            "errors<50%",
            "--to",
            "60",
            "--block",
            "1s",
        ],
    );
    found.assert_code(0);
    let document = found.document();
    let version = &document["capacities"][0]["versions"][0];
    assert_eq!(version["outcome"], "at_least", "{document:#}");
    // On a machine that starves the load generator, the bound is where that ended.
    let rate = number(&version["rate_per_second"]);
    match version["because"].as_str() {
        Some("asked") => assert!(rate > 59.9 && rate < 60.1, "{version:#}"),
        Some("generator") => assert!(rate < 60.0 && spoilt(version) > 0, "{version:#}"),
        other => panic!("{other:?}: {version:#}"),
    }
    let headline = document["capacities"][0]["headline"].as_str();
    let headline = headline.expect("a headline");
    assert!(headline.starts_with("Capacity at least "), "{headline}");
}

/// On a machine that starves the load generator there is nothing to be right about but that it
/// says so.
fn is_too_busy(version: &Value) -> bool {
    spoilt(version) >= 4
}

fn spoilt(version: &Value) -> usize {
    let blocks = version["blocks"].as_array().expect("blocks");
    let spoilt = blocks.iter().filter(|block| block["outcome"] == "spoilt");
    spoilt.count()
}

/// Two alternatives, one of which one iteration in a hundred sends.
const WEIGHED: &str = r#"
name = "weighed"
describe = "One in a hundred buys"

[[request]]
name = "browse"
weight = 99
method = "GET"
path = "/delay/1"

[[request]]
name = "buy"
weight = 1
method = "GET"
path = "/delay/1"
"#;

#[test]
fn an_alternative_that_is_not_drawn_fails_no_objective() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("weighed.toml"), WEIGHED).expect("a scenario");
    let server = ExactDelay::start().expect("a server");
    let url = server.url();
    // Ten of a hundredth at 50 per second are 20 s.
    let found = search(
        folder.path(),
        "weighed.toml",
        &[
            "--target",
            &url,
            "--slo",
            "p95<30s,buy:errors<99%",
            "--to",
            "50",
            "--block",
            "1s",
        ],
    );
    found.assert_code(0);
    let document = found.document();
    let version = &document["capacities"][0]["versions"][0];
    if is_too_busy(version) {
        return;
    }
    assert_eq!(version["outcome"], "at_least", "{document:#}");
    let blocks = version["blocks"].as_array().expect("blocks");
    assert!(
        blocks.iter().all(|block| block["outcome"] != "failed"),
        "{document:#}"
    );
}

#[test]
fn a_host_that_is_not_there_is_told_before_a_command_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = "name = \"beside\"\n[hosts]\nidentity = \"http://127.0.0.1:1\"\n\
                    [[request]]\nname = \"in\"\nmethod = \"GET\"\npath = \"/\"\nhost = \"identity\"\n";
    std::fs::write(folder.path().join("beside.toml"), scenario).expect("a scenario");
    let service = format!("{} --delay-ms 1", tiny_service().display());
    let told = call(
        folder.path(),
        [
            "capacity",
            "beside.toml",
            "--target",
            &service,
            "--slo",
            "p95<1s",
        ],
    );
    told.assert_code(2)
        .assert_stderr(&["identity", "127.0.0.1:1"]);
}

#[test]
fn mistakes_are_told_before_anything_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "one", "/");
    let with = |slo| {
        let target = [
            "capacity",
            "one.toml",
            "--target",
            "http://127.0.0.1:9",
            "--slo",
            slo,
        ];
        call(folder.path(), target)
    };
    with("p95<200")
        .assert_code(2)
        .assert_stderr(&["--slo", "200ms", "^"]);
    with("GET other:p95<1s")
        .assert_code(2)
        .assert_stderr(&["GET it"]);
    with("ttft.p95<1s")
        .assert_code(2)
        .assert_stderr(&["stream"]);
    let neither = call(folder.path(), ["capacity", "one.toml", "--slo", "p95<1s"]);
    neither.assert_code(2).assert_stderr(&["--target"]);
}
