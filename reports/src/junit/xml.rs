//! Suites as XML, with names that no two cases share.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::{Case, Status, Suite};
use crate::{escape, observed};

/// Gives the second of two cases of one name a number. Names are compared as they are written, where
/// very long ones are cut.
pub(super) fn make_unique(suites: &mut [Suite]) {
    // Class and name → the number that was tried last: thousands of names may begin alike.
    let mut taken: HashMap<(String, String), u32> = HashMap::new();
    for suite in suites {
        let class = text(&suite.class);
        for case in &mut suite.cases {
            let name = case.name.clone();
            let wanted = (class.clone(), text(&name));
            let mut number = taken.get(&wanted).copied().unwrap_or(0);
            let key = loop {
                number += 1;
                if number > 1 {
                    // In front, since the end of a long name may be cut.
                    case.name = format!("({number}) {name}");
                }
                let key = (class.clone(), text(&case.name));
                if number == 1 || !taken.contains_key(&key) {
                    break key;
                }
            };
            taken.insert(wanted, number);
            taken.entry(key).or_insert(1);
        }
    }
}

/// The whole file.
pub(super) fn document(title: &str, suites: &[Suite]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    write_suites(&mut out, title, suites).expect("writing to a String cannot fail");
    out
}

fn write_suites(out: &mut String, title: &str, suites: &[Suite]) -> std::fmt::Result {
    let tests: usize = suites.iter().map(|suite| suite.cases.len()).sum();
    let total = |status| -> usize { suites.iter().map(|suite| suite.count(status)).sum() };
    let duration_ms = observed::total(suites.iter().map(|suite| suite.duration_ms));
    writeln!(
        out,
        "<testsuites name=\"{}\" tests=\"{tests}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\">",
        text(title),
        total(Status::Failed),
        total(Status::Errored),
        total(Status::Skipped),
        seconds(duration_ms),
    )?;
    for suite in suites {
        write_suite(out, suite)?;
    }
    writeln!(out, "</testsuites>")
}

fn write_suite(out: &mut String, suite: &Suite) -> std::fmt::Result {
    let time = seconds(suite.duration_ms);
    let timestamp = suite.timestamp.iter();
    let timestamp: String = timestamp
        .map(|text| format!(" timestamp=\"{text}\""))
        .collect();
    writeln!(
        out,
        "  <testsuite name=\"{}\"{timestamp} tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{time}\">",
        text(&suite.name),
        suite.cases.len(),
        suite.count(Status::Failed),
        suite.count(Status::Errored),
        suite.count(Status::Skipped),
    )?;
    writeln!(out, "    <properties>")?;
    for (name, value) in &suite.properties {
        writeln!(
            out,
            "      <property name=\"{name}\" value=\"{}\"/>",
            text(value)
        )?;
    }
    writeln!(out, "    </properties>")?;
    for (index, case) in suite.cases.iter().enumerate() {
        let time = if index == 0 { &time } else { "0.000" };
        write_case(out, &suite.class, case, time)?;
    }
    let output: Vec<String> = suite.output.iter().map(|line| text(line)).collect();
    writeln!(
        out,
        "    <system-out>{}</system-out>\n  </testsuite>",
        output.join("\n")
    )
}

fn write_case(out: &mut String, class: &str, case: &Case, time: &str) -> std::fmt::Result {
    write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{time}\"",
        text(class),
        text(&case.name)
    )?;
    let message = text(&case.message);
    let kind = case.kind;
    let element = match case.status {
        Status::Passed => return writeln!(out, "/>"),
        Status::Skipped => {
            return writeln!(out, "><skipped message=\"{kind}: {message}\"/></testcase>");
        }
        Status::Failed => "failure",
        Status::Errored => "error",
    };
    let details: String = case
        .details
        .iter()
        .map(|line| format!("\n{}", text(line)))
        .collect();
    writeln!(
        out,
        "><{element} type=\"{kind}\" message=\"{message}\">{message}{details}</{element}></testcase>"
    )
}

/// Text and attributes alike, on one line.
fn text(text: &str) -> String {
    escape::markup_prose(&escape::plain_spaces(text))
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1_000, milliseconds % 1_000)
}
