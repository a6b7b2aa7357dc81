//! Objectives in every format: missed first, each with its evidence, none in the colour of another.

use crate::{fixture, junit_rules};

use unstall_reports::terminal::Style;
use unstall_reports::{Entry, Report, annotations, html, junit, markdown, terminal};
use unstall_results::comparison::{Comparison, Verdict};
use unstall_results::policy::Consequence;
use unstall_results::record::RunRecord;

fn report((record, comparison): &(RunRecord, Comparison)) -> Report<'_> {
    Report {
        title: "Objectives".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall report a.json".to_owned(),
        entries: vec![Entry {
            record,
            comparison: Some(comparison),
        }],
        certificate: None,
        last_state: None,
        left_open: None,
    }
}

/// The lines of a text that are about objectives.
fn lines<'t>(text: &'t str, about: &[&str]) -> Vec<&'t str> {
    let is = |line: &&str| about.iter().any(|word| line.contains(word));
    text.lines().filter(is).collect()
}

#[test]
fn the_terminal_shows_them_worst_first() {
    let measured = fixture::with_objectives();
    insta::assert_snapshot!(terminal::render(&report(&measured), Style::default()));
}

#[test]
fn files_for_pipelines_have_a_row_for_each() {
    let measured = fixture::with_objectives();
    let report = report(&measured);
    let words = ["<200ms", "<0.1%", "&lt;200ms", "&lt;0.1%"];
    let shown = [
        lines(
            &markdown::render(&report, markdown::Placement::FILE),
            &words,
        )
        .join("\n"),
        lines(&junit::render(&report), &words).join("\n"),
        annotations::render(&report, &|_| None),
    ];
    insta::assert_snapshot!(shown.join("\n\n"));
    let parsed = junit::render(&report);
    assert_eq!(junit_rules::violations(&parsed), [""; 0]);
    let parsed = roxmltree::Document::parse(&parsed).expect("XML");
    let cases = parsed.descendants().filter(|node| {
        node.attribute("name")
            .is_some_and(|name| name.starts_with("objective "))
    });
    assert_eq!(cases.count(), measured.1.slos.len());
}

#[test]
fn the_page_has_a_table_of_them() {
    let measured = fixture::with_objectives();
    let page = html::render(&report(&measured));
    let table = page
        .split("<h4>Objectives</h4>")
        .nth(1)
        .expect("the heading");
    let table = table.split("</table>").next().expect("its end");
    insta::assert_snapshot!(table);
    let (record, mut comparison) = fixture::with_objectives();
    comparison.slos.clear();
    let without = html::render(&report(&(record, comparison)));
    assert!(!without.contains("<h4>Objectives</h4>"));
}

#[test]
fn of_an_invalid_measurement_none_is_judged() {
    let (record, mut comparison) = fixture::with_objectives();
    comparison.verdict = Verdict::Invalid;
    let measured = (record, comparison);
    let report = report(&measured);
    let junit = junit::render(&report);
    assert!(!junit.contains("type=\"objective\""), "{junit}");
    let text = terminal::render(&report, Style::default());
    assert!(
        !text.contains("✕ POST message") && text.contains("not judged: invalid"),
        "{text}"
    );
}

#[test]
fn a_warning_is_no_error_to_any_pipeline() {
    let (record, mut comparison) = fixture::invalid();
    comparison.consequence = Some(Consequence::Warn);
    let measured = (record, comparison);
    let report = report(&measured);
    let junit = junit::render(&report);
    assert!(junit.contains("errors=\"0\"") && junit.contains("<skipped message=\"invalid: "));
    assert_eq!(junit_rules::violations(&junit), [""; 0]);
    let annotations = annotations::render(&report, &|_| None);
    assert!(annotations.starts_with("::warning title="), "{annotations}");
    assert!(annotations.contains("%3A invalid::"), "{annotations}");
    // A reader sees an invalid measurement and a job that is green.
    let said = "the policy lets this end with exit code 0";
    for text in [
        html::render(&report),
        terminal::render(&report, Style::default()),
        markdown::render(&report, markdown::Placement::FILE),
    ] {
        assert!(text.contains(said), "{text}");
    }
}
