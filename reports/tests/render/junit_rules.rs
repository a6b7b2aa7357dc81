//! What viewers of JUnit XML need, as rules that a file is held against.
//!
//! There is no standard: Ant's task wrote the first files, Surefire and Jenkins describe theirs, GitLab
//! lists the parts that it reads. These rules are what all of them take.

use std::collections::BTreeSet;

use roxmltree::{Document, Node};
use unstall_reports::{Entry, Report, junit};
use unstall_results::comparison::{Comparison, Verdict};
use unstall_results::policy::Consequence;
use unstall_results::record::RunRecord;

use crate::fixture;

/// Attributes that each element must have, and others that it may have.
const ATTRIBUTES: [(&str, &[&str], &[&str]); 9] = [
    (
        "testsuites",
        &["name", "tests", "failures", "errors", "skipped", "time"],
        &[],
    ),
    (
        "testsuite",
        &["name", "tests", "failures", "errors", "skipped", "time"],
        &["timestamp"],
    ),
    ("properties", &[], &[]),
    ("property", &["name", "value"], &[]),
    ("testcase", &["classname", "name", "time"], &[]),
    ("failure", &["type", "message"], &[]),
    ("error", &["type", "message"], &[]),
    ("skipped", &["message"], &[]),
    ("system-out", &[], &[]),
];

/// Which elements an element may have, in this order.
const CHILDREN: [(&str, &[&str]); 4] = [
    ("testsuites", &["testsuite"]),
    ("testsuite", &["properties", "testcase", "system-out"]),
    ("properties", &["property"]),
    ("testcase", &["failure", "error", "skipped"]),
];

/// Everything that some viewer would stumble over.
pub(crate) fn violations(xml: &str) -> Vec<String> {
    let document = match Document::parse(xml) {
        Ok(document) => document,
        Err(error) => return vec![format!("not well-formed: {error}")],
    };
    let mut found = Vec::new();
    if !xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>") {
        found.push("no declaration".to_owned());
    }
    let root = document.root_element();
    if !root.has_tag_name("testsuites") {
        found.push(format!("the root is {}", root.tag_name().name()));
    }
    for node in document.descendants().filter(Node::is_element) {
        check_attributes(node, &mut found);
        check_children(node, &mut found);
    }
    check_counts(root, &mut found);
    for suite in elements(root, "testsuite") {
        check_counts(suite, &mut found);
        check_timestamp(suite, &mut found);
        for case in elements(suite, "testcase") {
            check_outcome(case, &mut found);
        }
        let names = elements(suite, "properties").flat_map(|of| elements(of, "property"));
        check_unique(names.filter_map(|of| of.attribute("name")), &mut found);
    }
    let suites = elements(root, "testsuite");
    let cases: Vec<String> = suites
        .flat_map(|suite| elements(suite, "testcase"))
        .map(|case| {
            let of = |name| case.attribute(name).unwrap_or_default();
            format!("{}\u{0}{}", of("classname"), of("name"))
        })
        .collect();
    check_unique(cases.iter().map(String::as_str), &mut found);
    found
}

fn elements<'a, 'i>(of: Node<'a, 'i>, name: &'a str) -> impl Iterator<Item = Node<'a, 'i>> {
    of.children().filter(move |node| node.has_tag_name(name))
}

fn check_attributes(node: Node<'_, '_>, found: &mut Vec<String>) {
    let name = node.tag_name().name();
    let Some((_, must, may)) = ATTRIBUTES.iter().find(|(known, ..)| *known == name) else {
        found.push(format!("nobody knows <{name}>"));
        return;
    };
    for attribute in *must {
        if node.attribute(*attribute).is_none_or(str::is_empty) {
            found.push(format!("<{name}> has no {attribute}"));
        }
    }
    for attribute in node.attributes() {
        let known = must.contains(&attribute.name()) || may.contains(&attribute.name());
        if !known {
            found.push(format!("<{name}> has {}", attribute.name()));
        }
    }
}

fn check_children(node: Node<'_, '_>, found: &mut Vec<String>) {
    let name = node.tag_name().name();
    let order = CHILDREN.iter().find(|(known, _)| *known == name);
    let order = order.map_or(&[][..], |(_, children)| *children);
    let mut last = 0;
    for child in node.children().filter(Node::is_element) {
        let child = child.tag_name().name();
        match order.iter().position(|known| *known == child) {
            Some(place) if place >= last => last = place,
            Some(_) => found.push(format!("<{child}> is late in <{name}>")),
            None => found.push(format!("<{child}> in <{name}>")),
        }
    }
}

/// Counts and times are those of what is inside.
fn check_counts(node: Node<'_, '_>, found: &mut Vec<String>) {
    let number = |name: &str| node.attribute(name).and_then(|text| text.parse().ok());
    let cases: Vec<Node<'_, '_>> = node
        .descendants()
        .filter(|inner| inner.has_tag_name("testcase"))
        .collect();
    let with = |outcome: &str| {
        let of_outcome = |case: &&Node<'_, '_>| case.children().any(|c| c.has_tag_name(outcome));
        cases.iter().filter(of_outcome).count()
    };
    for (attribute, expected) in [
        ("tests", cases.len()),
        ("failures", with("failure")),
        ("errors", with("error")),
        ("skipped", with("skipped")),
    ] {
        if number(attribute) != Some(expected) {
            let name = node.tag_name().name();
            found.push(format!("{attribute} of <{name}> is not {expected}"));
        }
    }
    let milliseconds = |of: &Node<'_, '_>| -> Option<u64> {
        let (whole, rest) = of.attribute("time")?.split_once('.')?;
        let digits = rest.len() == 3;
        digits.then(|| Some(whole.parse::<u64>().ok()? * 1_000 + rest.parse::<u64>().ok()?))?
    };
    let sum: Option<u64> = cases.iter().map(milliseconds).sum();
    if sum.is_none() || milliseconds(&node) != sum {
        found.push(format!(
            "time of <{}> is not the sum",
            node.tag_name().name()
        ));
    }
}

/// `2026-01-01T00:00:00`, without a zone.
fn check_timestamp(suite: Node<'_, '_>, found: &mut Vec<String>) {
    let Some(text) = suite.attribute("timestamp") else {
        return;
    };
    let shape: String = text
        .chars()
        .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
        .collect();
    if shape != "0000-00-00T00:00:00" {
        found.push(format!("timestamp {text}"));
    }
}

/// One outcome at most; a failure says what it is in one line and at length.
fn check_outcome(case: Node<'_, '_>, found: &mut Vec<String>) {
    let outcomes: Vec<Node<'_, '_>> = case.children().filter(Node::is_element).collect();
    if outcomes.len() > 1 {
        found.push("a case with two outcomes".to_owned());
    }
    for outcome in outcomes.iter().filter(|of| !of.has_tag_name("skipped")) {
        let message = outcome.attribute("message").unwrap_or_default();
        if !outcome.text().is_some_and(|body| body.starts_with(message)) {
            found.push(format!(
                "the body doesn't begin like the message {message:?}"
            ));
        }
    }
}

fn check_unique<'a>(names: impl Iterator<Item = &'a str>, found: &mut Vec<String>) {
    let mut taken = BTreeSet::new();
    for name in names {
        if !taken.insert(name) {
            found.push(format!("{name:?} is there twice"));
        }
    }
}

/// A file that follows the rules, and each way to break it.
#[test]
fn the_rules_find_what_breaks_a_viewer() {
    let good = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <testsuites name=\"a\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\" time=\"1.500\">\
        <testsuite name=\"s\" timestamp=\"2026-01-01T00:00:00\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\" time=\"1.500\">\
        <properties><property name=\"p\" value=\"1\"/></properties>\
        <testcase classname=\"c\" name=\"x\" time=\"1.500\"/>\
        <testcase classname=\"c\" name=\"y\" time=\"0.000\"><failure type=\"t\" message=\"m\">m\nmore</failure></testcase>\
        <system-out>out</system-out></testsuite></testsuites>";
    assert_eq!(violations(good), [""; 0]);
    for (from, to, said) in [
        ("<system-out>", "<system-out", "not well-formed"),
        ("name=\"y\"", "name=\"x\"", "twice"),
        ("tests=\"2\"", "tests=\"3\"", "tests of"),
        ("failures=\"1\"", "failures=\"0\"", "failures of"),
        ("time=\"0.000\"", "time=\"0.100\"", "not the sum"),
        ("time=\"0.000\"", "time=\"0,000\"", "not the sum"),
        ("00:00:00\"", "00:00:00Z\"", "timestamp"),
        ("message=\"m\"", "message=\"\"", "no message"),
        (">m\nmore<", "><", "the body"),
        ("classname=\"c\" name=\"x\"", "name=\"x\"", "no classname"),
        ("name=\"p\"", "name=\"p\" type=\"t\"", "has type"),
        ("system-out>", "system-err>", "system-err"),
        ("UTF-8", "UTF-16", "no declaration"),
        (
            "</failure>",
            "</failure><skipped message=\"m\"/>",
            "two outcomes",
        ),
        (
            "</properties>",
            "</properties><testcase classname=\"c\" name=\"z\" time=\"0.000\"/><properties/>",
            "late",
        ),
        (
            "<property name=\"p\" value=\"1\"/>",
            "<property name=\"p\" value=\"1\"/><property name=\"p\" value=\"2\"/>",
            "twice",
        ),
    ] {
        let broken = good.replace(from, to);
        assert_ne!(broken, good, "{from}");
        let found = violations(&broken).join("; ");
        assert!(found.contains(said), "{from} → {to}: {found}");
    }
}

fn render(compared: &[(RunRecord, Comparison)]) -> String {
    let entries = compared.iter().map(|(record, comparison)| Entry {
        record,
        comparison: Some(comparison),
    });
    junit::render(&Report {
        title: "Latency gate".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall gate ab.json".to_owned(),
        entries: entries.collect(),
        certificate: None,
        last_state: None,
        left_open: None,
    })
}

/// Whatever the cells say: two sessions have cells that got worse and no verdict.
#[test]
fn a_suite_fails_exactly_if_its_verdict_does() {
    let policies = [None, Some(Consequence::Fail), Some(Consequence::Warn)];
    for verdict in [
        Verdict::Pass,
        Verdict::Regression,
        Verdict::Inconclusive,
        Verdict::Invalid,
    ] {
        for consequence in policies {
            let (record, mut comparison) = fixture::regressing();
            comparison.slos = fixture::with_objectives().1.slos;
            comparison.verdict = verdict;
            comparison.consequence = consequence;
            let fails = verdict != Verdict::Pass && !comparison.is_only_warned();
            let xml = render(&[(record, comparison)]);
            assert_eq!(violations(&xml), [""; 0]);
            let is_bad = xml.contains("<failure ") || xml.contains("<error ");
            if verdict == Verdict::Regression {
                // No policy makes a warning of it.
                assert!(is_bad);
            } else {
                assert_eq!(is_bad, fails, "{verdict:?} {consequence:?}: {xml}");
            }
        }
    }
}

#[test]
fn measurements_and_endpoints_of_one_name_are_told_apart() {
    let (record, mut comparison) = fixture::regressing();
    let long = "x".repeat(2_000);
    for (index, cell) in comparison.cells.iter_mut().enumerate() {
        // Alike as far as they are written.
        cell.endpoint = Some(format!("{long}{index}"));
        cell.metric = unstall_results::comparison::Metric::ResponseP50;
    }
    let twice = [(record.clone(), comparison.clone()), (record, comparison)];
    let xml = render(&twice);
    assert_eq!(violations(&xml), [""; 0]);
    assert!(xml.contains("name=\"(2) verdict\""));
}

#[test]
fn a_file_stays_small_enough_to_be_taken() {
    let (record, mut comparison) = fixture::regressing();
    let one = comparison.cells.clone();
    for copy in 0..2_500 {
        comparison.cells.extend(one.iter().cloned().map(|mut cell| {
            cell.endpoint = Some(format!("GET copy-{copy}"));
            cell
        }));
    }
    let xml = render(&[(record, comparison)]);
    assert_eq!(violations(&xml), [""; 0]);
    assert!(xml.len() < 30_000_000, "{}", xml.len());
    assert!(xml.contains("more cells, none worse than those listed"));
    let failures = xml.matches("<failure ").count();
    assert_eq!(failures, 1 + 5_000, "the worst are there: {failures}");
}
