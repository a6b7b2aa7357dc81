//! The report as JUnit XML: a suite per comparison, a test case for its verdict
//! and one per judged cell.
//!
//! A regression or a missed objective is a failure; an invalid measurement is an error; what
//! can't be told is skipped, so that no viewer paints it green. So is an invalid measurement that
//! the policy makes a warning of.

use std::fmt::Write as _;

use unstall_results::capacity::Finding;
use unstall_results::comparison::{Cell, Comparison, Outcome, Verdict};
use unstall_results::slo::{SloFinding, SloOutcome};

use crate::ranking::Group;
use crate::{Entry, Report, escape, numbers, objectives, ranking, vocabulary};

/// Renders the comparisons as JUnit XML; records of one version have no verdict
/// and are left out.
pub fn render(report: &Report<'_>) -> String {
    let suites: Vec<Suite> = report
        .entries
        .iter()
        .filter_map(|entry| match (entry.comparison, entry.capacity()) {
            (Some(comparison), _) => Some(suite(entry, comparison)),
            (None, Some(finding)) => capacity_suite(entry, finding),
            (None, None) => None,
        })
        .collect();
    let total = |status: Status| -> usize { suites.iter().map(|suite| suite.count(status)).sum() };
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    write_suites(&mut out, report, &suites, &total).expect("writing to a String cannot fail");
    out
}

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Passed,
    Failed,
    Errored,
    Skipped,
}

struct Case {
    name: String,
    status: Status,
    kind: &'static str,
    message: String,
}

struct Suite {
    name: String,
    class: String,
    timestamp: String,
    cases: Vec<Case>,
    output: String,
}

impl Suite {
    fn count(&self, status: Status) -> usize {
        self.cases
            .iter()
            .filter(|case| case.status == status)
            .count()
    }
}

fn suite(entry: &Entry<'_>, comparison: &Comparison) -> Suite {
    let mut cases = vec![verdict_case(comparison)];
    cases.extend(
        ranking::cells(comparison, Group::Judged)
            .into_iter()
            .map(|cell| cell_case(cell, comparison.verdict)),
    );
    cases.extend(
        objectives::worst_first(comparison)
            .into_iter()
            .map(|slo| objective_case(slo, comparison.verdict)),
    );
    let mut output = vec![comparison.headline.clone(), comparison.next_action.clone()];
    output.extend(comparison.validity.warnings.iter().cloned());
    output.extend(comparison.blind_spots.iter().cloned());
    Suite {
        name: entry.short_name(),
        class: format!("unstall.{}", comparison.scenario),
        timestamp: entry.record.created_utc.trim_end_matches('Z').to_owned(),
        cases,
        output: output.join(" | "),
    }
}

/// Two versions' capacities; of one version there is no verdict.
fn capacity_suite(entry: &Entry<'_>, finding: Finding) -> Option<Suite> {
    let verdict = finding.verdict?;
    let mut output = vec![finding.headline.clone(), finding.next_action];
    output.extend(finding.notes);
    Some(Suite {
        name: entry.short_name(),
        class: format!("unstall.{}", entry.record.scenario.name),
        timestamp: entry.record.created_utc.trim_end_matches('Z').to_owned(),
        cases: vec![Case {
            name: "capacity".to_owned(),
            status: status_of(verdict),
            kind: vocabulary::verdict(verdict),
            message: finding.headline,
        }],
        output: output.join(" | "),
    })
}

fn status_of(verdict: Verdict) -> Status {
    match verdict {
        Verdict::Pass => Status::Passed,
        Verdict::Regression => Status::Failed,
        Verdict::Inconclusive => Status::Skipped,
        Verdict::Invalid => Status::Errored,
    }
}

fn verdict_case(comparison: &Comparison) -> Case {
    let status = match status_of(comparison.verdict) {
        Status::Errored if comparison.is_only_warned() => Status::Skipped,
        status => status,
    };
    let mut message = comparison.headline.clone();
    for fault in &comparison.validity.faults {
        message = format!("{message} {fault}");
    }
    Case {
        name: "verdict".to_owned(),
        status,
        kind: vocabulary::verdict(comparison.verdict),
        message,
    }
}

fn cell_case(cell: &Cell, verdict: Verdict) -> Case {
    // Numbers of an invalid measurement must not be used, so none of its cells passes.
    let (status, kind) = match cell.outcome {
        _ if verdict == Verdict::Invalid => (Status::Skipped, "invalid"),
        Outcome::Regression => (Status::Failed, "regression"),
        Outcome::Improvement | Outcome::WithinLimit => (Status::Passed, "pass"),
        Outcome::Inconclusive { .. } => (Status::Skipped, "inconclusive"),
        Outcome::Insufficient { .. } => (Status::Skipped, "insufficient"),
        Outcome::Pooled => (Status::Skipped, "pooled"),
        Outcome::Saturated => (Status::Skipped, "saturated"),
        Outcome::NotMeasured => (Status::Skipped, "not-measured"),
    };
    let (_, words) = vocabulary::outcome(cell);
    let values = numbers::before_after(cell.metric, &cell.before, &cell.after);
    let change = match &cell.change {
        Some(change) => format!(
            ", {} [{}]",
            numbers::change(cell.metric, change),
            numbers::interval(cell.metric, change)
        ),
        // Without numbers to compare, the words are all there is.
        None => vocabulary::note(cell).map_or_else(String::new, |note| format!(". {note}")),
    };
    Case {
        name: format!(
            "{} {} {}",
            vocabulary::cell_endpoint(cell),
            cell.level.to_string().replace(' ', ""),
            vocabulary::metric(cell.metric)
        ),
        status,
        kind,
        message: format!("{words}: {values}{change}"),
    }
}

fn objective_case(slo: &SloFinding, verdict: Verdict) -> Case {
    let (status, kind) = match slo.outcome {
        _ if verdict == Verdict::Invalid => (Status::Skipped, "invalid"),
        SloOutcome::Met => (Status::Passed, "pass"),
        SloOutcome::Missed => (Status::Failed, "objective"),
        SloOutcome::CantTell { .. } => (Status::Skipped, "inconclusive"),
    };
    let (_, words) = objectives::outcome(slo, verdict);
    Case {
        name: format!(
            "objective {} {} {}",
            objectives::subject(slo),
            slo.level.to_string().replace(' ', ""),
            slo.objective
        ),
        status,
        kind,
        message: format!("{words}: {}", objectives::found(slo)),
    }
}

fn write_suites(
    out: &mut String,
    report: &Report<'_>,
    suites: &[Suite],
    total: &dyn Fn(Status) -> usize,
) -> std::fmt::Result {
    let tests: usize = suites.iter().map(|suite| suite.cases.len()).sum();
    writeln!(
        out,
        "<testsuites name=\"{}\" tests=\"{tests}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
        xml(&report.title),
        total(Status::Failed),
        total(Status::Errored),
        total(Status::Skipped),
    )?;
    for suite in suites {
        writeln!(
            out,
            "  <testsuite name=\"{}\" timestamp=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
            xml(&suite.name),
            xml(&suite.timestamp),
            suite.cases.len(),
            suite.count(Status::Failed),
            suite.count(Status::Errored),
            suite.count(Status::Skipped),
        )?;
        for case in &suite.cases {
            write_case(out, &suite.class, case)?;
        }
        writeln!(out, "    <system-out>{}</system-out>", xml(&suite.output))?;
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

fn write_case(out: &mut String, class: &str, case: &Case) -> std::fmt::Result {
    write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\"",
        xml(class),
        xml(&case.name)
    )?;
    let message = xml(&case.message);
    let kind = case.kind;
    match case.status {
        Status::Passed => writeln!(out, "/>"),
        Status::Failed => writeln!(
            out,
            "><failure type=\"{kind}\" message=\"{message}\"/></testcase>"
        ),
        Status::Errored => writeln!(
            out,
            "><error type=\"{kind}\" message=\"{message}\"/></testcase>"
        ),
        Status::Skipped => writeln!(out, "><skipped message=\"{kind}: {message}\"/></testcase>"),
    }
}

fn xml(text: &str) -> String {
    escape::markup_prose(&escape::plain_spaces(text))
}
