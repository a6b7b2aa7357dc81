//! Results of other tools through the public door: what they said is in the record, what they
//! didn't say is listed, and whatever is in a file, reading it ends with a record or a place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use unstall_results::compare::{CompareError, compare_unpaired};
use unstall_results::comparison::{Metric, Outcome, Verdict};
use unstall_results::import::{ImportError, ImportForm, ImportOptions, LogUnit, import};
use unstall_results::policy::Policy;
use unstall_results::record::{EndpointSamples, ErrorKind, RunRecord};
use unstall_results::slo::SloOutcome;
use unstall_results::summary::summarise;
use unstall_results::synthetic::{EndpointSpec, run_record};

/// Every fixture with its form; `imports/README.md` says where each comes from.
const FIXTURES: [(&str, ImportForm); 9] = [
    ("wrk.txt", ImportForm::Wrk),
    ("wrk-refused.txt", ImportForm::Wrk),
    ("wrk2.txt", ImportForm::Wrk2),
    ("oha.json", ImportForm::Oha),
    ("oha-refused.json", ImportForm::Oha),
    ("k6-summary.json", ImportForm::K6),
    ("k6-points.json", ImportForm::K6),
    ("js.hlog", ImportForm::HdrLog),
    ("js-five-digits.hlog", ImportForm::HdrLog),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports")
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn options(form: ImportForm, name: &str) -> ImportOptions {
    ImportOptions {
        form,
        origin: PathBuf::from("results").join(name),
        id: "import-1".to_owned(),
        harness_version: "0.1.0".to_owned(),
        now_utc: "2026-01-02T03:04:05Z".to_owned(),
        label: None,
        scenario: None,
        endpoint: None,
        concurrency: None,
        rate_per_second: None,
        unit: LogUnit::Nanoseconds,
        machine: None,
    }
}

fn imported(name: &str) -> RunRecord {
    let (_, form) = FIXTURES.iter().find(|(of, _)| *of == name).unwrap();
    let record = import(fixture(name).as_slice(), &options(*form, name));
    record.unwrap_or_else(|error| panic!("{error}"))
}

/// What a reader sees of a record, and what is said to be missing.
fn outline(record: &RunRecord) -> String {
    let block = &record.blocks[0];
    let imported = record.arms["run"].imported.as_ref().unwrap();
    let mut lines = vec![
        format!("{} at {}", record.label, record.created_utc),
        format!(
            "{} {:?}, {} ms, {} completed of {}, {:?}",
            record.load.model,
            record.load.levels,
            block.wall_ns / 1_000_000,
            block.completed,
            block.offered,
            block.errors
        ),
        format!("times: {:?}", imported.times),
    ];
    lines.extend(imported.missing.iter().map(|of| format!("missing: {of}")));
    for summary in summarise(record) {
        let Some(endpoint) = summary.endpoint else {
            continue;
        };
        let percentiles: Vec<String> = summary
            .percentiles
            .iter()
            .map(|of| {
                let of = &of.estimate;
                format!("{:?} [{:?} {:?}] of {}", of.value, of.low, of.high, of.n)
            })
            .collect();
        lines.push(format!(
            "{endpoint}: {} ok, {:?}, {}, max {:?}",
            summary.completed,
            summary.errors,
            percentiles.join(", "),
            summary.response_us_max
        ));
    }
    lines.join("\n")
}

#[test]
fn each_tool_is_understood() {
    let outlines: Vec<String> = FIXTURES
        .iter()
        .map(|(name, _)| format!("--- {name}\n{}", outline(&imported(name))))
        .collect();
    insta::assert_snapshot!(outlines.join("\n\n"));
}

#[test]
fn an_import_is_a_sound_record() {
    for (name, _) in FIXTURES {
        let record = imported(name);
        let text = serde_json::to_vec(&record).unwrap();
        let read = unstall_results::store::parse(&text, Path::new(name)).unwrap();
        assert_eq!(read, record, "{name}");
    }
}

/// What the JavaScript library says of its own logs, by tag: count and percentiles in ns.
fn said_by_javascript(name: &str) -> BTreeMap<String, BTreeMap<String, u64>> {
    serde_json::from_slice(&fixture(name)).unwrap()
}

#[test]
fn logs_of_the_javascript_library_say_what_it_says() {
    for name in ["js.hlog", "js-five-digits.hlog"] {
        let record = imported(name);
        let expected = said_by_javascript(&name.replace(".hlog", ".expected.json"));
        let found: Vec<&String> = record.blocks[0].endpoints.keys().collect();
        assert_eq!(found, expected.keys().collect::<Vec<_>>(), "{name}");
        for (tag, said) in expected {
            let samples: &EndpointSamples = &record.blocks[0].endpoints[&tag];
            assert_eq!(samples.completed, said["count"], "{name} {tag}");
            for (percentile, ns) in said.iter().filter(|(key, _)| *key != "count") {
                let q: f64 = percentile.parse::<f64>().unwrap() / 100.0;
                let us = samples.response.quantile_us(q).unwrap() as f64;
                let ns = *ns as f64;
                // Half a bin of theirs, one of ours, and half a microsecond.
                let close = (us * 1_000.0 - ns).abs() <= ns * 0.002 + 1_000.0;
                assert!(close, "{name} {tag} p{percentile}: {us} µs, {ns} ns");
            }
        }
    }
}

#[test]
fn the_unit_of_a_log_is_what_it_is_said_to_be() {
    let of = |unit| {
        let options = ImportOptions {
            unit,
            ..options(ImportForm::HdrLog, "js.hlog")
        };
        let record = import(fixture("js.hlog").as_slice(), &options).unwrap();
        let samples = record.blocks[0].endpoints.values().next().unwrap();
        samples.response.quantile_us(0.5).unwrap() as f64
    };
    let (ns, us, ms) = (
        of(LogUnit::Nanoseconds),
        of(LogUnit::Microseconds),
        of(LogUnit::Milliseconds),
    );
    assert!((us / ns / 1_000.0 - 1.0).abs() < 0.01, "{ns} {us}");
    assert!((ms / us / 1_000.0 - 1.0).abs() < 0.01, "{us} {ms}");
}

#[test]
fn points_of_k6_are_counted_by_name_and_kind() {
    let record = imported("k6-points.json");
    let block = &record.blocks[0];
    let refused = &block.endpoints["GET missing"];
    assert_eq!(refused.completed, 0);
    assert_eq!(
        refused.errors.keys().collect::<Vec<_>>(),
        [&ErrorKind::Status]
    );
    let good = &block.endpoints["GET it"];
    assert!(good.completed > 0 && good.errors.is_empty());
    assert_eq!(good.response.count(), good.completed);
}

#[test]
fn a_failure_of_k6_is_one_whatever_tags_tell_it() {
    let point = |tags: &str| {
        format!(
            "{{\"type\":\"Point\",\"metric\":\"http_req_duration\",\"data\":{{\"time\":\
             \"2026-01-01T00:00:00Z\",\"value\":12,\"tags\":{{\"name\":\"a\",\"method\":\"GET\"{tags}}}}}}}\n"
        )
    };
    let read = |tags: &str| {
        let options = options(ImportForm::K6, "points.json");
        let record = import(point(tags).as_bytes(), &options).unwrap();
        let samples = record.blocks[0].endpoints["GET a"].clone();
        let missing = record.arms["run"]
            .imported
            .as_ref()
            .unwrap()
            .missing
            .join("\n");
        (samples, missing)
    };
    for (tags, kind) in [
        (
            ",\"expected_response\":\"false\",\"error_code\":\"1050\"",
            ErrorKind::Timeout,
        ),
        (",\"error_code\":\"1101\"", ErrorKind::Dns),
        (",\"expected_response\":\"false\"", ErrorKind::Status),
        (
            ",\"expected_response\":\"false\",\"status\":\"200\"",
            ErrorKind::Status,
        ),
        (",\"status\":\"503\"", ErrorKind::Status),
    ] {
        let (samples, missing) = read(tags);
        assert_eq!(samples.errors, [(kind, 1)].into(), "{tags}");
        assert_eq!((samples.completed, samples.response.count()), (0, 0));
        assert!(!missing.contains("failed:"), "{missing}");
    }
    for good in [
        ",\"status\":\"200\"",
        ",\"expected_response\":\"true\",\"status\":\"404\"",
    ] {
        assert_eq!(read(good).0.completed, 1, "{good}");
    }
    let (samples, missing) = read("");
    assert_eq!(samples.completed, 1);
    assert!(missing.contains("Whether 1 request failed"), "{missing}");
}

#[test]
fn what_wrk_printed_without_its_head_is_refused() {
    let text = String::from_utf8(fixture("wrk.txt")).unwrap();
    let headless: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("threads and"))
        .collect();
    let error = import(
        headless.join("\n").as_bytes(),
        &options(ImportForm::Wrk, "wrk.txt"),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("threads and M connections"), "{error}");
}

#[test]
fn no_objective_is_missed_by_the_numbers_of_another_tool() {
    let record = imported("wrk.txt");
    let with = |slo: &str, record: &RunRecord| {
        let text = format!("unpaired = \"judge\"\n[[slo]]\nslo = \"{slo}\"\n");
        let policy = Policy::parse(&text, Path::new("policy.toml")).unwrap();
        let comparison = compare_unpaired(record, record, &policy).unwrap();
        assert_eq!(comparison.verdict, Verdict::Inconclusive, "{slo}");
        assert_eq!(comparison.slos.len(), 1, "{slo}");
        comparison.slos[0].clone()
    };
    for slo in ["max<1us", "max<1000s", "p99<1us", "errors<0.001%"] {
        let finding = with(slo, &record);
        assert_ne!(finding.outcome, SloOutcome::Missed, "{slo}");
    }
    // What the tool stated is shown.
    let stated = &record.arms["run"].imported.as_ref().unwrap().percentiles;
    let longest = stated.values().next().unwrap().last().unwrap();
    assert_eq!(longest.share, 1.0);
    assert_eq!(with("max<1000s", &record).value, Some(longest.us / 1_000.0));
    // Failures of which only the number is known count.
    let mut failing = record.clone();
    for samples in failing.blocks[0].endpoints.values_mut() {
        samples.completed = 97;
        samples.errors = [(ErrorKind::Status, 3)].into();
    }
    assert_eq!(with("errors<1%", &failing).value, Some(3.0));
}

#[test]
fn comparing_imports_is_advice_whatever_the_policy_says() {
    let policy = Policy {
        unpaired: unstall_results::policy::Unpaired::Judge,
        ..Policy::default()
    };
    let record = imported("wrk.txt");
    let mut slower = record.clone();
    let arm = slower.arms.get_mut("run").unwrap();
    for stated in arm.imported.as_mut().unwrap().percentiles.values_mut() {
        stated
            .iter_mut()
            .for_each(|percentile| percentile.us *= 100.0);
    }
    let comparison = compare_unpaired(&record, &slower, &policy).unwrap();
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
    assert!(!comparison.paired);
    let warnings = comparison.validity.warnings.join("\n");
    for words in [
        "imported from wrk",
        "advice",
        "machine class",
        "Not known of both",
    ] {
        assert!(warnings.contains(words), "no {words:?} in {warnings}");
    }
    let of = |metric: Metric| {
        let mut cells = comparison.cells.iter();
        cells.find(|cell| cell.metric == metric).unwrap()
    };
    // A hundred times as slow is beyond what the stated percentiles around the median leave open.
    assert!(of(Metric::ResponseP99).before.value.is_some());
    // wrk doesn't state a 95th percentile: nothing is put in its place.
    let p95 = of(Metric::ResponseP95);
    assert_eq!(p95.outcome, Outcome::Insufficient { requests_needed: 0 });
    assert_eq!((p95.before.value, p95.judged), (None, false));
}

#[test]
fn times_of_another_kind_are_not_compared() {
    let named = |name: &str, form, rate| {
        let options = ImportOptions {
            scenario: Some("shop".to_owned()),
            endpoint: Some("GET a".to_owned()),
            concurrency: None,
            rate_per_second: rate,
            ..options(form, name)
        };
        import(fixture(name).as_slice(), &options).unwrap()
    };
    let wrk = named("wrk.txt", ImportForm::Wrk, None);
    let wrk2 = named("wrk2.txt", ImportForm::Wrk2, Some(2_000.0));
    let policy = Policy::default();
    let error = compare_unpaired(&wrk, &wrk2, &policy).unwrap_err();
    let CompareError::NotComparable { differences } = &error else {
        panic!("{error}");
    };
    assert!(
        differences.iter().any(|of| of.starts_with("times ")),
        "{error}"
    );
    // One of our own may stand beside what is known to be the same.
    let mut own = run_record(1, 1_000, &[EndpointSpec::new("GET a", 1.0)]);
    own.scenario.name = "shop".to_owned();
    assert!(compare_unpaired(&own, &wrk, &policy).is_err());
    unstall_results::synthetic::add_open(&mut own, 2_000, [false, false]);
    let comparison = compare_unpaired(&wrk2, &own, &policy).unwrap();
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
}

#[test]
fn what_a_tool_tells_itself_is_not_overridden() {
    let refused = |name: &str, form, change: fn(&mut ImportOptions)| {
        let mut options = options(form, name);
        change(&mut options);
        import(fixture(name).as_slice(), &options)
            .unwrap_err()
            .to_string()
    };
    let error = refused("wrk.txt", ImportForm::Wrk, |of| {
        of.rate_per_second = Some(5.0)
    });
    assert!(error.contains("leave --rate out"), "{error}");
    let error = refused("wrk2.txt", ImportForm::Wrk2, |of| of.concurrency = Some(5));
    assert!(error.contains("leave --concurrency out"), "{error}");
    let error = refused("k6-points.json", ImportForm::K6, |of| {
        of.endpoint = Some("GET a".to_owned());
    });
    assert!(error.contains("2 endpoints"), "{error}");
}

#[test]
fn mistakes_name_file_line_and_fix() {
    let log = String::from_utf8(fixture("js.hlog")).unwrap();
    let points = String::from_utf8(fixture("k6-points.json")).unwrap();
    let cut_points = &points[..points.trim_end().len() - 5];
    let interval = log.lines().find(|line| line.starts_with("Tag=")).unwrap();
    let damaged = interval.replace("HISTFAAA", "HISTFAAB");
    let cases: [(ImportForm, &str, String); 18] = [
        (ImportForm::Wrk, "empty", String::new()),
        (ImportForm::Wrk, "words", "hello\n".to_owned()),
        (
            ImportForm::Wrk,
            "wrk2",
            String::from_utf8(fixture("wrk2.txt")).unwrap(),
        ),
        (
            ImportForm::Wrk,
            "without --latency",
            "Running 1s test @ http://a/\n  100 requests in 1.00s, 1.00MB read\n".to_owned(),
        ),
        (
            ImportForm::Wrk,
            "cut short",
            "  Latency Distribution\n     50%  250.00us\n".to_owned(),
        ),
        (
            ImportForm::Wrk,
            "edited",
            "Latency Distribution\n 50%  250.00us\n many requests in 1.00s, 1.00MB read\n"
                .to_owned(),
        ),
        (
            ImportForm::Wrk2,
            "wrk",
            String::from_utf8(fixture("wrk.txt")).unwrap(),
        ),
        (
            ImportForm::Wrk2,
            "edited spectrum",
            "Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%  1.00ms\n\n  \
             Detailed Percentile spectrum:\n  1.0 0.5 7 nan extra\n  x 0.5 7 2.00\n"
                .to_owned(),
        ),
        (
            ImportForm::Oha,
            "no document",
            "{\n  \"summary\": 3\n}".to_owned(),
        ),
        (
            ImportForm::Oha,
            "cut short",
            "{\n  \"summary\": {".to_owned(),
        ),
        (ImportForm::K6, "no summary", "{\n}".to_owned()),
        (
            ImportForm::K6,
            "no requests",
            "{\"metrics\": {}}".to_owned(),
        ),
        (ImportForm::K6, "cut short", cut_points.to_owned()),
        (ImportForm::HdrLog, "empty", String::new()),
        (
            ImportForm::HdrLog,
            "fields",
            "0.1,1.0,HISTFAAA\n".to_owned(),
        ),
        (
            ImportForm::HdrLog,
            "seconds",
            "0.1,one,2.0,HISTFAAA\n".to_owned(),
        ),
        (
            ImportForm::HdrLog,
            "base64",
            "#[x]\n\n0.1,1.0,2.0,HIST!\n".to_owned(),
        ),
        (ImportForm::HdrLog, "stated length", damaged),
    ];
    let errors: Vec<String> = cases
        .iter()
        .map(|(form, name, text)| {
            let error = import(text.as_bytes(), &options(*form, "a.txt")).unwrap_err();
            assert!(matches!(error, ImportError::Malformed { .. }), "{error}");
            format!("--- {form:?}, {name}\n{error}")
        })
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn what_is_compressed_or_no_text_is_told() {
    for (bytes, words) in [
        (&[0x1f, 0x8b, 8, 0][..], "gzip -d"),
        (&[0xff, 0xfe, 0, 10][..], "not UTF-8"),
    ] {
        for form in [ImportForm::K6, ImportForm::HdrLog, ImportForm::Wrk] {
            let error = import(bytes, &options(form, "a.bin"))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(words) && error.contains("a.bin:1"),
                "{error}"
            );
        }
    }
}

#[test]
fn thousands_of_names_are_counted_together() {
    let mut text = String::new();
    for index in 0..300 {
        text.push_str(&format!(
            "{{\"metric\":\"http_req_duration\",\"type\":\"Point\",\"data\":{{\"time\":\
             \"2026-01-01T00:00:{:02}Z\",\"value\":1.5,\"tags\":{{\"name\":\"u/{index}\",\
             \"method\":\"GET\",\"status\":\"200\"}}}}}}\n",
            index % 60
        ));
    }
    let record = import(text.as_bytes(), &options(ImportForm::K6, "k6.json")).unwrap();
    assert_eq!(record.scenario.endpoints.len(), 201);
    assert_eq!(record.blocks[0].endpoints["other"].completed, 100);
    assert_eq!(record.blocks[0].completed, 300);
}

/// A place in a file, and what is put there.
fn damage() -> impl Strategy<Value = (usize, prop::sample::Index, prop::sample::Index, Vec<u8>)> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..6),
        Just(b"-1".to_vec()),
        Just(b"99999999999999999999".to_vec()),
        Just(b"1e308".to_vec()),
        Just(b"\n".to_vec()),
        Just("null".into()),
    ];
    (
        0..FIXTURES.len(),
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        bytes,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is cut out and put in: a record that may be used, or an error with its place.
    #[test]
    fn damaged_files_end_in_a_record_or_a_place((which, from, length, bytes) in damage()) {
        let (name, form) = FIXTURES[which];
        let mut text = fixture(name);
        let from = from.index(text.len());
        let until = (from + length.index(40)).min(text.len());
        text.splice(from..until, bytes);
        match import(text.as_slice(), &options(form, name)) {
            Ok(record) => prop_assert!(record.validate().is_ok()),
            Err(error) => {
                let error = error.to_string();
                let place = format!("results/{name}:");
                prop_assert!(error.starts_with(&place) && error.contains("fix: "), "{}", error);
            }
        }
    }

    #[test]
    fn files_that_are_cut_short_end_so_too(which in 0..FIXTURES.len(), end: prop::sample::Index) {
        let (name, form) = FIXTURES[which];
        let mut text = fixture(name);
        text.truncate(end.index(text.len()));
        if let Err(error) = import(text.as_slice(), &options(form, name)) {
            prop_assert!(error.to_string().contains("fix: "), "{}", error);
        }
    }
}
