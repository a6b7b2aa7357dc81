//! The ledger of a whole migration in every format: each step beside the start, the capacity, and
//! what is known of the state behind the last step.

use unstall_reports::markdown::Placement;
use unstall_reports::terminal::Style;
use unstall_reports::{Entry, Report, html, markdown, terminal};
use unstall_results::comparison::Comparison;
use unstall_results::record::RunRecord;

use crate::fixture;

fn report<'a>(compared: &'a [(RunRecord, Comparison)], searched: &'a RunRecord) -> Report<'a> {
    let steps = compared.iter().map(|(record, comparison)| Entry {
        record,
        comparison: Some(comparison),
    });
    let search = Entry {
        record: searched,
        comparison: None,
    };
    Report {
        title: "Async migration".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall replay".to_owned(),
        certificate: None,
        last_state: Some(fixture::last_state()),
        left_open: None,
        entries: steps.chain([search]).collect(),
    }
}

/// The page of a whole migration.
pub(crate) fn page() -> String {
    html::render(&report(
        &fixture::migration(),
        &fixture::searched(Some(600.0)),
    ))
}

#[test]
fn a_page_of_eleven_steps_beside_their_start_is_less_than_two_megabytes() {
    let page = page();
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    let ledger = page.split("<h2 id=\"ledger\">").nth(1).expect("a ledger");
    let ledger = ledger.split("</section>").next().expect("its end");
    // A row per measurement, whose marks are in all three charts.
    for key in 1..=12 {
        let marks = ledger.matches(&format!("data-k=\"{key}\"")).count();
        assert_eq!(marks, 1 + 3 * 3, "row {key}");
    }
    assert_eq!(ledger.matches("<strong>revert</strong>").count(), 1);
    assert!(ledger.contains("1 reverted (2d)"), "{ledger:.400}");
    // The word of the comparison with the start has a cell of its own, also where it is a pass.
    let word = |cell: &str| {
        let mut words = ["pass", "regression", "inconclusive"].into_iter();
        let is_of = |word: &&str| cell.starts_with(&format!("<span class=\"pill is-{word}\">"));
        words.find(is_of).unwrap_or("none")
    };
    let cells = ledger.split("Since start </span>").skip(1);
    let words: Vec<&str> = cells.map(word).collect();
    let expected = ["none", "pass", "pass", "pass", "inconclusive", "regression"];
    assert_eq!(words[..expected.len()], expected);
    for answer in ["✓ reached", "✓ holds", "✕ does not hold", "? not known"] {
        assert_eq!(ledger.matches(answer).count(), 1, "{answer}");
    }
}

#[test]
fn of_many_measurements_those_that_passed_are_folded() {
    let page = page();
    let answer = page.split("</section>").next().expect("the answer");
    let (open, folded) = answer.split_once("<details>").expect("a fold");
    assert!(open.contains(">Step 2d</bdi>") && !open.contains(">Step 2a</bdi>"));
    assert!(folded.contains(">Step 2a</bdi>") && !folded.contains("is-regression"));
}

#[test]
fn the_ledger_as_markdown_and_in_a_terminal() {
    let (compared, searched) = (fixture::migration(), fixture::searched(Some(600.0)));
    let report = report(&compared, &searched);
    let text = markdown::render(&report, Placement::FILE);
    let end = text.find("\n## ").expect("a measurement");
    insta::assert_snapshot!("markdown_ledger", &text[..end]);
    let text = terminal::render(&report, Style::default());
    let begin = text.find("\nLedger\n").expect("a ledger");
    insta::assert_snapshot!("terminal_ledger", &text[begin..]);
}

/// One step, and what the plan promised is not what others promise.
#[test]
fn a_single_step_has_its_row_above_the_last_state() {
    let (compared, mut searched) = (fixture::migration(), fixture::searched(Some(600.0)));
    let load = searched.load.capacity.as_mut().expect("a search");
    load.promised_percent = [700, 800];
    let report = report(&compared[..1], &searched);
    let text = markdown::render(&report, Placement::FILE);
    let row = text.find("\n| step | title |").expect("the steps' table");
    let state = text
        .find("\n| behind the last step |")
        .expect("the last state");
    assert!(row < state, "{text}");
    assert!(text.contains("| 700 to 800 % more: ✕ missed |"), "{text}");
    let page = html::render(&report);
    assert!(page.contains("✕ missed<small>700 to 800 % more</small>"));
    let text = terminal::render(&report, Style::default());
    assert!(
        text.contains("×8.00, what the whole migration is to bring"),
        "{text}"
    );
}
