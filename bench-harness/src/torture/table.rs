//! What came of the cases, for people: Markdown that also reads well in a terminal.

use super::case::{Check, Group};
use super::suite::{Finding, Findings, Verdict};
use crate::selftest::markdown::{aligned, list};

/// How many of a case's checks its row shows; the others are told when they aren't met.
const SHOWN: usize = 3;

/// A table for each heading, then what isn't met and what wasn't run, with the reasons.
pub(crate) fn render(findings: &Findings) -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let all = findings.cases.iter();
        let own: Vec<&Finding> = all.filter(|finding| finding.case.group == group).collect();
        if !own.is_empty() {
            text.push_str(&format!("## {}\n\n{}\n", group.title(), table(&own)));
        }
    }
    for (title, verdict) in [
        ("Not met", Verdict::Missed),
        ("Slower than it should be", Verdict::Late),
        ("Not run, and why", Verdict::NotRun),
    ] {
        text.push_str(&list(title, told_of(findings, verdict)));
    }
    text.push_str(&summary(findings));
    text
}

fn table(findings: &[&Finding]) -> String {
    let head = ["case", "stands for", "expected", "seen", ""].map(str::to_owned);
    let rows = findings.iter().map(|finding| {
        let checks = finding.tried.as_deref().unwrap_or_default();
        let shown = &checks[..checks.len().min(SHOWN)];
        let told = |of: fn(&Check) -> &str| {
            let told = shown.iter().map(|check| told(check, of(check)));
            told.collect::<Vec<_>>().join(", ")
        };
        [
            finding.case.name.to_owned(),
            finding.case.stands_for.to_owned(),
            told(|check| &check.expected),
            told(|check| &check.seen),
            word(finding.verdict()).to_owned(),
        ]
    });
    aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

fn told(check: &Check, value: &str) -> String {
    format!("{} {value}", check.what)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "✓",
        Verdict::Missed => "✗",
        Verdict::Late => "late",
        Verdict::NotRun => "not run",
    }
}

fn told_of(findings: &Findings, verdict: Verdict) -> Vec<String> {
    let all = findings.cases.iter();
    all.filter(|finding| finding.verdict() == verdict)
        .map(|finding| {
            let reasons = finding.reasons().join("; ");
            format!(
                "{} ({}): {reasons}",
                finding.case.name, finding.case.stands_for
            )
        })
        .collect()
}

fn summary(findings: &Findings) -> String {
    let count = |verdict| findings.count(verdict);
    let tried = findings.cases.len() - count(Verdict::NotRun);
    let mut text = format!(
        "{} of {tried} cases are as they have to be",
        count(Verdict::Met)
    );
    for (verdict, words) in [
        (Verdict::Missed, "aren't"),
        (Verdict::Late, "took too long, which proves nothing"),
        (Verdict::NotRun, "could not be run here"),
    ] {
        match count(verdict) {
            0 => {}
            some => text.push_str(&format!("; {some} {words}")),
        }
    }
    text.push_str(".\n");
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::case::{Tried, Trouble};
    use super::super::catalogue;
    use super::*;

    fn finding(name: &str, tried: Tried) -> Finding {
        let mut all = catalogue::all().into_iter();
        let case = all.find(|case| case.name == name).expect("a case");
        Finding {
            case,
            tried,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_report() {
        let right = [
            Check::same("completed", 20, 20),
            Check::same("sent", 20, 20),
        ];
        let wrong = [
            Check::same("completed", 20, 19),
            Check::same("errors", "none".to_owned(), "1 timeout".to_owned()),
            Check::same("sent", 20, 20),
            Check::same("connections", 4, 5),
        ];
        let findings = Findings {
            cases: vec![
                finding("trailers", Ok(right.into())),
                finding("obs-fold", Ok(wrong.into())),
                finding(
                    "ipv6",
                    Err(Trouble::NotRun("there is no [::1] here".to_owned())),
                ),
            ],
        };
        let shown = "\
## Right answers in unusual frames

| case     | stands for            | expected                           | seen                                    |   |
|----------|-----------------------|------------------------------------|-----------------------------------------|---|
| trailers | http-kit/http-kit#523 | completed 20, sent 20              | completed 20, sent 20                   | ✓ |
| obs-fold | psf/requests#4796     | completed 20, errors none, sent 20 | completed 19, errors 1 timeout, sent 20 | ✗ |

## Limits of this machine

| case | stands for    | expected | seen |         |
|------|---------------|----------|------|---------|
| ipv6 | hatoo/oha#100 |          |      | not run |

Not met:

- obs-fold (psf/requests#4796): completed: expected 20, seen 19; errors: expected none, seen 1 timeout; connections: expected 4, seen 5

Not run, and why:

- ipv6 (hatoo/oha#100): there is no [::1] here

1 of 2 cases are as they have to be; 1 aren't; 1 could not be run here.
";
        assert_eq!(render(&findings), shown);
    }
}
