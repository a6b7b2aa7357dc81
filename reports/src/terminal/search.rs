//! A search for capacity in a terminal.

use unstall_results::capacity::{Finding, SeenTrial, TrialEnd};

use super::{Page, align, fit, shorten};
use crate::{Entry, capacity, escape};

/// A search for capacity: the answer, then each block by its rate.
pub(super) fn write(page: &mut Page, entry: &Entry<'_>, finding: &Finding) {
    let name = shorten(&escape::visible(&entry.short_name()), page.style.width);
    let name = page.paint("1", &name);
    match finding.verdict {
        Some(verdict) => page.line(&format!("{}  {name}", page.verdict(verdict, ""))),
        None => page.line(&name),
    }
    page.wrapped("  ", &finding.headline);
    for note in &finding.notes {
        page.wrapped("  - ", note);
    }
    page.blank();
    let heads = [
        "",
        "version",
        "offered",
        "served",
        "outcome",
        "tightest objective",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let mut styles = vec!["2"];
    for arm in &finding.arms {
        let mut trials: Vec<&SeenTrial> = arm.trials.iter().collect();
        trials.sort_by(|left, right| left.rate.total_cmp(&right.rate));
        for trial in trials {
            rows.push(trial_row(&arm.arm, trial));
            styles.push(match trial.end {
                TrialEnd::Held => "32",
                TrialEnd::Failed => "31",
                TrialEnd::Spoilt | TrialEnd::Idle => "2",
            });
        }
    }
    let widths = fit(&rows, page.style.width);
    for (row, code) in rows.iter().zip(styles) {
        let line = page.paint(code, &align(row, &widths));
        page.line(&line);
    }
    page.blank();
    page.wrapped("  Next: ", &finding.next_action);
}

fn trial_row(arm: &str, trial: &SeenTrial) -> Vec<String> {
    let (sign, word) = capacity::end(trial);
    let served = trial.ended_per_second;
    [
        format!("  {sign}"),
        escape::visible(arm),
        capacity::rate(trial.rate),
        served.map_or_else(|| "–".to_owned(), capacity::rate),
        word.to_owned(),
        capacity::tightest(trial).map_or_else(
            || "nothing answered".to_owned(),
            |reading| escape::visible(&capacity::reading(reading)),
        ),
    ]
    .iter()
    .map(|text| escape::plain_spaces(text))
    .collect()
}
