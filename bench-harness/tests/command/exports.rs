//! `--export`: each form is read back by a parser that is not ours, and adds up to the record.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;
use tempfile::TempDir;
use unstall_results::record::RunRecord;
use unstall_results::store;
use unstall_testbed::ExactDelay;

use crate::program::{Call, call, unstall};

const FORMS: [&str; 4] = ["all.csv", "all.jsonl", "all.hlog", "all.prom"];

/// Two requests, one of which always fails; one name holds what every form has to quote.
const SCENARIO: &str = r#"
name = "two-ways"
describe = "Two GETs"

[vars]
token = { env = "EXPORT_TEST_TOKEN", secret = true }

[[request]]
name = "GET a, \"b\" c"
method = "GET"
path = "/delay/2"
headers = { authorization = "Bearer ${token}" }
[request.expect]
status = 200

[[request]]
name = "GET missing"
method = "GET"
path = "/nowhere"
[request.expect]
status = 200
"#;

const SECRET: &str = "s3cr3t-of-the-exports";

/// A folder and record of two blocks. On a busy machine a block may be measured once more, which is
/// another test's.
fn measured() -> (TempDir, RunRecord) {
    for _ in 0..5 {
        let folder = tempfile::tempdir().expect("a folder");
        let record = measured_in(folder.path());
        if record.blocks.iter().all(|block| block.validity.ok) {
            return (folder, record);
        }
    }
    panic!("the machine was too busy for two blocks, five times");
}

fn measured_in(folder: &Path) -> RunRecord {
    std::fs::write(folder.join("two.toml"), SCENARIO).expect("a scenario");
    let server = ExactDelay::start().expect("a server");
    let mut command = unstall(folder);
    command.env("EXPORT_TEST_TOKEN", SECRET);
    command.args(["run", "two.toml", "--target", &server.url(), "-c", "2,4"]);
    command.args(["--requests", "400", "--warmup", "0", "--out", "r.json"]);
    for form in FORMS {
        command.args(["--export", form]);
    }
    let output = command.output().expect("unstall starts");
    assert!(output.status.success(), "{output:?}");
    store::read(&folder.join("r.json")).expect("a record")
}

/// Endpoint → completed and failed, over all blocks.
fn truth(record: &RunRecord) -> BTreeMap<String, (u64, u64)> {
    let mut sums = BTreeMap::new();
    for (name, samples) in record.blocks.iter().flat_map(|block| &block.endpoints) {
        let sum: &mut (u64, u64) = sums.entry(name.clone()).or_default();
        sum.0 += samples.completed;
        sum.1 += samples.failed.count();
    }
    sums
}

fn text(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_form_adds_up_to_the_record() {
    let (folder, record) = measured();
    let truth = truth(&record);
    assert_eq!(truth["GET a, \"b\" c"], (800, 0));
    assert_eq!(truth["GET missing"], (0, 800));
    assert_eq!(from_csv(folder.path()), truth);
    assert_eq!(from_json_lines(folder.path()), truth);
    check_hdr_log(folder.path(), &record);
    check_prometheus(folder.path());
    for form in FORMS {
        assert!(!text(folder.path(), form).contains(SECRET), "{form}");
    }
}

fn from_csv(folder: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut reader = csv::Reader::from_path(folder.join("all.csv")).expect("a CSV file");
    let mut sums = BTreeMap::new();
    for row in reader.deserialize() {
        let row: BTreeMap<String, String> = row.expect("a row of the header's length");
        let number = |column: &str| row[column].parse::<u64>().expect("a number");
        assert_eq!(
            (row["scenario"].as_str(), row["valid"].as_str()),
            ("two-ways", "true")
        );
        assert!(["2", "4"].contains(&row["concurrency"].as_str()));
        let sum: &mut (u64, u64) = sums.entry(row["endpoint"].clone()).or_default();
        sum.0 += number("completed");
        sum.1 += number("errors");
        if number("completed") > 0 {
            // The server's own delay is a lower bound; percentiles are in order.
            let times = ["p50_us", "p95_us", "p99_us", "max_us"].map(number);
            assert!(times[0] >= 2_000 && times.is_sorted(), "{times:?}");
        } else {
            assert_eq!(row["p50_us"], "");
        }
    }
    sums
}

fn from_json_lines(folder: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut sums = BTreeMap::new();
    for line in text(folder, "all.jsonl").lines() {
        let row: Value = serde_json::from_str(line).expect("a JSON object");
        let number = |field: &str| row[field].as_u64().expect("a number");
        let name = row["endpoint"].as_str().expect("a name").to_owned();
        let sum: &mut (u64, u64) = sums.entry(name).or_default();
        sum.0 += number("completed");
        sum.1 += number("errors");
    }
    sums
}

/// Tags, times and histograms, as HdrHistogram's own reader has them.
fn check_hdr_log(folder: &Path, record: &RunRecord) {
    let log = text(folder, "all.hlog");
    let mut all: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    let mut ends = Vec::new();
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        let LogEntry::Interval(interval) = entry.expect("a line of the format") else {
            continue;
        };
        let tag = interval.tag().expect("a tag").as_str().to_owned();
        let bytes = STANDARD
            .decode(interval.encoded_histogram())
            .expect("base64");
        let histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .expect("a V2 histogram");
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a short test")]
        let longest_ms = histogram.max() as f64 / 1e6;
        assert!(
            (longest_ms / interval.max() - 1.0).abs() < 0.003,
            "{longest_ms}"
        );
        ends.push(interval.start_timestamp() + interval.duration());
        let sum = all
            .entry(tag)
            .or_insert_with(|| Histogram::new(3).expect("3 digits"));
        sum.add(&histogram).expect("one that grows");
    }
    assert!(ends.is_sorted());
    let counts: Vec<(&str, u64)> = all
        .iter()
        .map(|(tag, sum)| (tag.as_str(), sum.len()))
        .collect();
    assert_eq!(
        counts,
        [("GET_a__\"b\"_c@c=2", 400), ("GET_a__\"b\"_c@c=4", 400)].map(|(tag, n)| {
            (
                if tag.ends_with('2') {
                    "GET_a___b__c@c=2"
                } else {
                    "GET_a___b__c@c=4"
                },
                n,
            )
        })
    );
    for (block, sum) in record.blocks.iter().zip(all.values()) {
        let ours = block.endpoints["GET a, \"b\" c"]
            .response
            .quantile_us(0.5)
            .expect("a median");
        let theirs = sum.value_at_quantile(0.5) / 1_000;
        assert!(ours.abs_diff(theirs) <= 1 + ours / 400, "{ours} {theirs}");
    }
}

/// Each line is one of the text format's, and samples stand below their family.
fn check_prometheus(folder: &Path) {
    let mut families = Vec::new();
    let mut requests = 0.0;
    for line in text(folder, "all.prom").lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            families.push(help.split(' ').next().expect("a name").to_owned());
            continue;
        }
        if line.starts_with("# TYPE ") {
            assert!(line.ends_with(" gauge"), "{line}");
            continue;
        }
        let (name, rest) = line.split_once('{').expect("labels");
        let (labels, value) = rest.rsplit_once("} ").expect("a value");
        let value: f64 = value.parse().expect("a number");
        assert_eq!(Some(name), families.last().map(String::as_str));
        assert!(labels.starts_with(r#"scenario="two-ways""#), "{line}");
        if name == "unstall_requests" {
            requests += value;
        }
    }
    assert!(requests == 1_600.0, "{requests}");
    let mut unique = families.clone();
    unique.dedup();
    assert_eq!(unique, families);
    assert!(families.contains(&"unstall_measured_timestamp_seconds".to_owned()));
}

#[test]
fn files_are_not_lost_and_forms_not_guessed() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("two.toml"), SCENARIO).expect("a scenario");
    std::fs::write(folder.path().join("old.csv"), "precious").expect("a file");
    let refused = |name: &str, words: &[&str]| {
        let mut command = unstall(folder.path());
        command.env("EXPORT_TEST_TOKEN", SECRET);
        command.args([
            "run",
            "two.toml",
            "--target",
            "http://127.0.0.1:9",
            "--export",
            name,
        ]);
        let call = crate::program::Call::of(command.output().expect("unstall starts"));
        call.assert_code(2).assert_stderr(words);
    };
    refused("old.csv", &["old.csv", "--force"]);
    refused("x.txt", &["x.txt", ".csv", ".hlog"]);
    refused("nowhere/x.prom", &["nowhere/x.prom", "--export"]);
    assert_eq!(text(folder.path(), "old.csv"), "precious");
    let help = call(folder.path(), ["run", "--help"]);
    assert!(help.stdout.contains("--export"));
}

#[test]
fn a_command_that_goes_wrong_leaves_exports_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(
        path.join("two.toml"),
        SCENARIO.replace(", secret = true", ", default = \"t\""),
    )
    .expect("a scenario");
    for form in FORMS {
        std::fs::write(path.join(form), "the last measurement").expect("a file");
    }
    let gone = "http://127.0.0.1:1";
    let commands: [&[&str]; 4] = [
        &["run", "two.toml", "--target", gone],
        &["ab", "two.toml", "--before", gone, "--after", gone],
        &["capacity", "two.toml", "--target", gone, "--slo", "p95<1s"],
        &[
            "capacity",
            "two.toml",
            "--target",
            gone,
            "--slo",
            "other:p95<1s",
        ],
    ];
    for command in commands {
        for form in FORMS {
            let fresh = format!("new-{form}");
            let exports = ["--export", form, "--export", fresh.as_str(), "--force"];
            let output = unstall(path).args(command).args(exports).output();
            let told = Call::of(output.expect("unstall starts"));
            told.assert_code(2);
            assert_eq!(text(path, form), "the last measurement", "{command:?}");
            assert!(!path.join(&fresh).exists(), "{command:?} {fresh}");
        }
    }
}

#[test]
fn the_last_measurement_stays_while_the_next_one_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let seen = path.join("seen.prom");
    crate::program::write_scenario(path, "one", "/delay/1");
    let server = ExactDelay::start().expect("a server");
    std::fs::write(path.join("all.prom"), "the last measurement").expect("a file");
    let url = server.url();
    let copy = format!("cp {} {}", path.join("all.prom").display(), seen.display());
    let measured = call(
        path,
        [
            "ab",
            "one.toml",
            "--before",
            &url,
            "--after",
            &url,
            "--pairs",
            "5",
            "--requests",
            "20",
            "--warmup",
            "0",
            "-c",
            "1",
            "--before-block",
            &copy,
            "--export",
            "all.prom",
            "--force",
        ],
    );
    assert!(
        matches!(measured.code, Some(0 | 1 | 3 | 4)),
        "{measured:#?}"
    );
    let seen = std::fs::read_to_string(seen).expect("what a block saw");
    assert_eq!(seen, "the last measurement");
    assert!(text(path, "all.prom").contains("unstall_requests"));
}

#[test]
fn a_search_tags_every_block_by_its_rate() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    crate::program::write_scenario(path, "one", "/delay/1");
    let server = ExactDelay::start().expect("a server");
    let url = server.url();
    let measured = call(
        path,
        [
            "capacity",
            "one.toml",
            "--target",
            &url,
            "--slo",
            "errors<99%",
            "--from",
            "40",
            "--to",
            "80",
            "--block",
            "1s",
            "--warmup",
            "0",
            "--export",
            "all.hlog",
            "--export",
            "all.csv",
        ],
    );
    measured.assert_code(0);
    let log = text(path, "all.hlog");
    let tags: Vec<&str> = log
        .lines()
        .filter_map(|line| line.strip_prefix("Tag=")?.split(',').next())
        .collect();
    let table = text(path, "all.csv");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    let column = |name: &str| {
        let found = rows[0].iter().position(|of| *of == name);
        found.unwrap_or_else(|| panic!("{name} in {table}"))
    };
    let (rate, valid) = (column("rate_per_second"), column("valid"));
    assert_eq!(rows[1][rate], "40", "{table}");
    // A busy machine lets arrivals go late; such blocks are in the table alone.
    let expected: Vec<String> = rows[1..]
        .iter()
        .filter(|row| row[valid] == "true")
        .map(|row| format!("GET_it@{}/s", row[rate]))
        .collect();
    assert_eq!(tags, expected, "{log}{table}");
}
