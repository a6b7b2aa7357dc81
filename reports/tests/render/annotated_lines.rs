//! Annotations as GitHub shows them: ten of a level, and beside the line that is to blame.

use unstall_reports::{Entry, Report, annotations};
use unstall_results::comparison::{Comparison, Outcome};
use unstall_results::record::RunRecord;
use unstall_results::synthetic::{self, WatchSpec};

use crate::fixture;

fn report<'a>(compared: &'a [(RunRecord, Comparison)]) -> Report<'a> {
    let entries = compared.iter().map(|(record, comparison)| Entry {
        record,
        comparison: Some(comparison),
    });
    Report {
        title: "Latency gate".to_owned(),
        generated_utc: "2026-01-01T00:00:00Z".to_owned(),
        command: "unstall gate ab.json".to_owned(),
        entries: entries.collect(),
        certificate: None,
        last_state: None,
        left_open: None,
    }
}

/// A loop that the new version keeps more than the old one did.
fn blocking() -> (RunRecord, Comparison) {
    let (mut record, comparison) = fixture::regressing();
    let spec = WatchSpec {
        blocked_before: 0.01,
        blocked_after: 0.4,
        ..WatchSpec::default()
    };
    synthetic::add_watch(&mut record, spec);
    (record, comparison)
}

#[test]
fn a_regression_stands_beside_the_line_that_keeps_the_loop() {
    let compared = [blocking()];
    let report = report(&compared);
    let in_checkout =
        |file: &str| (file == "app/stores.py").then(|| "services/a,b:c/stores.py".to_owned());
    let text = annotations::render(&report, &in_checkout);
    insta::assert_snapshot!(text);
    for line in text.lines().filter(|line| line.starts_with("::error")) {
        let place = "::error file=services/a%2Cb%3Ac/stores.py,line=41,title=";
        assert!(line.starts_with(place), "{line}");
        assert!(line.contains("%0Ausage_today at app/stores.py:41 kept the event loop for 28 %25"));
    }
    // What can't be told is nobody's fault, and a file that isn't there has no place.
    assert!(text.contains("::warning title="));
    let elsewhere = annotations::render(&report, &|_| None);
    assert!(!elsewhere.contains("file="));
    assert!(elsewhere.contains("app/stores.py:41"));
}

#[test]
fn ten_of_a_level_are_shown_and_the_tenth_counts_the_rest() {
    let (record, mut comparison) = fixture::regressing();
    let cells = comparison.cells.clone();
    let with = |outcome| cells.iter().filter(move |cell| cell.outcome == outcome);
    let worse: Vec<_> = with(Outcome::Regression).cloned().collect();
    for copy in 0..15 {
        comparison
            .cells
            .extend(worse.iter().cloned().map(|mut cell| {
                cell.endpoint = Some(format!("GET copy-{copy}"));
                if let Some(change) = &mut cell.change {
                    change.estimate += f64::from(copy) / 10.0;
                    change.upper_bound += f64::from(copy) / 10.0;
                }
                cell
            }));
    }
    let compared = [(record, comparison)];
    let text = annotations::render(&report(&compared), &|_| None);
    let errors: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("::error"))
        .collect();
    assert_eq!(errors.len(), 10);
    assert!(
        errors[0].contains("Step 3%3A regression"),
        "the verdict first"
    );
    assert!(
        errors[1].contains("GET copy-14"),
        "then the worst: {}",
        errors[1]
    );
    // The verdict and two cells were there before.
    assert!(
        errors[9].starts_with("::error title=24 more%2C none worse than those shown::"),
        "{}",
        errors[9]
    );
    assert!(errors[9].contains("%0A… and 4 more"));
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("::warning"))
            .count(),
        2
    );
}
