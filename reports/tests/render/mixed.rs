//! Several measurements in one report: what is said of all is said of the one that decides, and of
//! cells the worst come first.

use crate::fixture;

use unstall_reports::{Entry, Report, annotations, html, markdown};
use unstall_results::comparison::{Cell, Comparison, Outcome, Scale, Verdict};
use unstall_results::record::RunRecord;

fn report(entries: Vec<Entry<'_>>) -> Report<'_> {
    Report {
        title: "Mixed".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall report a.json b.json".to_owned(),
        entries,
        certificate: None,
        last_state: None,
        left_open: None,
    }
}

fn compared(measured: &(RunRecord, Comparison)) -> Entry<'_> {
    Entry {
        record: &measured.0,
        comparison: Some(&measured.1),
    }
}

#[test]
fn the_answer_is_of_the_entry_that_decides() {
    let passing = fixture::passing();
    let searched = fixture::searched(Some(250.0));
    let search = Entry {
        record: &searched,
        comparison: None,
    };
    let finding = search.said().expect("two versions");
    assert_eq!(
        finding.verdict,
        Some(Verdict::Regression),
        "{}",
        finding.headline
    );
    let report = report(vec![compared(&passing), search]);
    assert_eq!(report.verdict(), Some(Verdict::Regression));
    assert_eq!(report.answer(), Some(finding.clone()));
    let page = html::render(&report);
    let (answer, _) = page.split_once("</section>").expect("the answer");
    let (_, answer) = answer
        .split_once("<section class=\"answer")
        .expect("the answer");
    let next = answer.split_once("<dt>Next</dt>").expect("what to do").1;
    assert!(answer.starts_with(" is-regression"));
    assert!(
        answer.contains(&format!("{} regresses", finding.name)),
        "{answer}"
    );
    assert!(!next.contains("Merge"), "{next}");
    let text = markdown::render(&report, markdown::Placement::FILE);
    let overall = text
        .lines()
        .find(|line| line.starts_with("**✕ regression**"));
    assert!(
        overall.is_some_and(|line| line.contains("Capacity") || line.contains("capacity")),
        "{text}"
    );
}

#[test]
fn a_search_alone_has_a_sentence() {
    let searched = fixture::searched(None);
    let search = Entry {
        record: &searched,
        comparison: None,
    };
    let said = report(vec![search]).answer().expect("a search");
    assert!(said.verdict.is_none() && !said.headline.is_empty());
    let observed = fixture::observed();
    let alone = Entry {
        record: &observed,
        comparison: None,
    };
    assert_eq!(report(vec![alone]).answer(), None);
}

/// Cells whose error rate got worse by so many percentage points.
fn errors_by(points: &[f64], comparison: &Comparison) -> Vec<Cell> {
    let is_difference = |cell: &&Cell| {
        let change = cell.change.as_ref();
        cell.judged && change.is_some_and(|change| change.scale == Scale::Difference)
    };
    let template = comparison.cells.iter().find(is_difference).expect("errors");
    let mut cells = Vec::new();
    for (place, points) in points.iter().enumerate() {
        let mut cell = template.clone();
        cell.endpoint = Some(format!("GET e{place:02}"));
        cell.outcome = Outcome::Regression;
        let change = cell.change.as_mut().expect("a change");
        (change.estimate, change.low, change.high) = (*points, points - 0.1, points + 0.1);
        (change.lower_bound, change.upper_bound) = (points - 0.1, points + 0.1);
        cells.push(cell);
    }
    cells
}

#[test]
fn the_largest_difference_comes_first_wherever_it_stands() {
    let (record, mut comparison) = fixture::regressing();
    let mut points = [0.6; 12];
    points[11] = 80.0;
    comparison.cells = errors_by(&points, &comparison);
    comparison.worst_cell = Some(11);
    let measured = (record, comparison);
    let report = report(vec![compared(&measured)]);
    let annotated = annotations::render(&report, &|_| None);
    let first_of_cells = annotated.lines().find(|line| line.contains("GET e"));
    assert!(
        first_of_cells.is_some_and(|line| line.contains("GET e11")),
        "{annotated}"
    );
    let page = html::render(&report);
    let first = page.split(" data-o=\"").nth(1).expect("a row");
    assert!(first.contains("<bdi>GET e11</bdi>"), "{first:.200}");
}

#[test]
fn what_takes_most_of_its_limit_comes_first_within_its_outcome_too() {
    let (record, mut comparison) = fixture::regressing();
    let mut cells = errors_by(&[-0.3, 0.2, -0.1, 0.3], &comparison);
    for cell in &mut cells {
        cell.outcome = Outcome::WithinLimit;
    }
    comparison.cells = cells;
    comparison.worst_cell = Some(3);
    let measured = (record, comparison);
    let page = html::render(&report(vec![compared(&measured)]));
    let rows = page.split(" data-o=\"").skip(1);
    let order: Vec<&str> = rows
        .map(|row| row.split_once("<bdi>GET e").expect("a name").1)
        .map(|row| &row[..2])
        .collect();
    assert_eq!(order, ["03", "01", "02", "00"]);
}

#[test]
fn two_sessions_have_no_test_and_say_so() {
    let (record, mut comparison) = fixture::passing();
    comparison.paired = false;
    let measured = (record, comparison);
    let page = html::render(&report(vec![compared(&measured)]));
    for words in ["Hodges–Lehmann", "signed-rank", "pairs of blocks, α"] {
        assert!(!page.contains(words), "{words}");
    }
    assert!(page.contains("Two sessions, so no pairs, no test and no α"));
}
