//! What came of the cases, for people: Markdown that also reads well in a terminal.

use super::expectation::State;
use super::suite::{Finding, Findings};
use crate::selftest::markdown::{aligned, list};

/// A table, then what isn't met, with what the gate said.
pub(crate) fn render(findings: &Findings) -> String {
    let head = [
        "case",
        "what is different",
        "has to be",
        "the gate said",
        "",
    ]
    .map(str::to_owned);
    let rows = findings.cases.iter().map(|finding| {
        [
            finding.case.name.to_owned(),
            finding.case.what.to_owned(),
            super::case::words(finding.case.expected).to_owned(),
            in_short(finding),
            sign(&finding.state).to_owned(),
        ]
    });
    let mut text = aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>());
    text.push('\n');
    text.push_str(&list(
        "Not met",
        told(findings, |of| matches!(of, State::Missed(_))),
    ));
    text.push_str(&list(
        "Not seen on this machine at this moment, which proves nothing",
        told(findings, |of| matches!(of, State::Unseen(_))),
    ));
    text.push_str(&list(
        "Not run, and why",
        told(findings, |of| matches!(of, State::NotRun(_))),
    ));
    text.push_str(&summary(findings));
    text
}

/// The verdicts alone.
fn in_short(finding: &Finding) -> String {
    let verdicts = finding.said.iter();
    let verdicts: Vec<&str> = verdicts
        .map(|said| said.split(':').next().unwrap_or(said))
        .collect();
    verdicts.join(", then ")
}

fn sign(state: &State) -> &'static str {
    match state {
        State::Met => "✓",
        State::Missed(_) => "✗",
        State::Unseen(_) => "unseen",
        State::NotRun(_) => "not run",
    }
}

fn told(findings: &Findings, is: fn(&State) -> bool) -> Vec<String> {
    let cases = findings.cases.iter();
    cases
        .filter(|finding| is(&finding.state))
        .filter_map(|finding| {
            let (State::Missed(why) | State::Unseen(why) | State::NotRun(why)) = &finding.state
            else {
                return None;
            };
            Some(format!("{}: {why}", finding.case.name))
        })
        .collect()
}

fn summary(findings: &Findings) -> String {
    let met = findings.count(|state| *state == State::Met);
    let tried = findings.count(|state| !matches!(state, State::NotRun(_)));
    let missed = findings.count(|state| matches!(state, State::Missed(_)));
    let unseen = findings.count(|state| matches!(state, State::Unseen(_)));
    let mut text = format!(
        "{met} of {tried} cases are as they have to be ({} pairs, seed {})",
        findings.settings.pairs, findings.settings.seed
    );
    if missed > 0 {
        text.push_str(&format!("; {missed} aren't"));
    }
    if unseen > 0 {
        text.push_str(&format!("; {unseen} could not be seen"));
    }
    text.push_str(".\n");
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::case::ALL;
    use super::super::suite::Settings;
    use super::*;

    #[test]
    fn what_is_wrong_is_told() {
        let finding = |index: usize, state, said: &[&str]| Finding {
            case: ALL[index],
            state,
            said: said.iter().map(ToString::to_string).collect(),
            took: Duration::ZERO,
        };
        let settings = Settings {
            only: Vec::new(),
            pairs: 10,
            seed: 7,
        };
        let findings = Findings {
            cases: vec![
                finding(0, State::Met, &["pass"]),
                finding(2, State::Unseen("pass".to_owned()), &["pass"]),
                finding(4, State::Missed("pass".to_owned()), &["pass"]),
                finding(6, State::NotRun("interrupted".to_owned()), &[]),
            ],
            settings,
        };
        insta::assert_snapshot!(render(&findings));
    }
}
