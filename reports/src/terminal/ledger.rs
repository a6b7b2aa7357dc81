//! The ledger in a terminal: a line per measurement, after all that is said of each.

use unstall_results::comparison::{Decision, Metric};
use unstall_results::ledger::{Ledger, Row, Step};

use super::{Page, align, fit, needed_widths};
use crate::{capacity, escape, numbers, ranking, vocabulary};

/// The column of the change since the start.
const SINCE: usize = 5;

/// Writes what became of each step of a plan, and of the capacity; nothing of fewer than two.
pub(super) fn write(page: &mut Page, ledger: &Ledger) {
    let planned = || ledger.rows().filter(|(step, _)| step.is_planned);
    if planned().count() < 2 {
        return;
    }
    let title = page.paint("1", "Ledger");
    page.line(&title);
    page.wrapped("  ", &format!("{}.", ledger.summary()));
    let with_start = ledger.has_start();
    let (p95, since) = if with_start {
        page.wrapped("  ", "Values are start → before → after.");
        ("p95", ["p95 since", "since start"])
    } else {
        ("p95 before → after", ["", ""])
    };
    let [p95_since, since_start] = since;
    let heads = [
        "",
        "step",
        "",
        p95,
        "blocked per 1 000",
        p95_since,
        since_start,
        "threads",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let mut styles = vec!["2"];
    for (step, row) in planned() {
        rows.push(line(step, row));
        styles.push(match step.decision {
            Decision::Keep => "0",
            Decision::Revert => "31",
            Decision::Undecided => "33",
        });
    }
    let mut widths = fit(&rows, page.style.width);
    // A number that is cut is another one: it goes, and the values that it is of stay.
    if widths[SINCE] < needed_widths(&rows)[SINCE] {
        widths[SINCE] = 0;
    }
    for (row, code) in rows.iter().zip(styles) {
        let line = page.paint(code, &align(row, &widths));
        page.line(&line);
    }
    for row in &ledger.capacities {
        let label = format!("  Capacity, {}: ", escape::visible(&row.scenario));
        let text = match capacity::ratio(row.ratio) {
            Some((middle, interval)) => format!(
                "{} → {}, {middle} ({interval}) with {}; the plan’s {}: {}",
                capacity::estimate(row.before).0,
                capacity::estimate(row.after).0,
                row.slo,
                capacity::promise(row),
                capacity::goal(row.goal)
            ),
            None => row.headline.clone(),
        };
        page.wrapped(&label, &text);
    }
    page.blank();
}

fn line(step: &Step, row: &Row) -> Vec<String> {
    let id = match step.rows.len() {
        0 | 1 => escape::visible(&step.id),
        _ => escape::visible(&format!("{} {}", step.id, row.scenario)),
    };
    let since = row.since_start.as_ref();
    let change = since.and_then(|since| since.p95.as_ref());
    [
        format!("  {}", vocabulary::verdict_sign(row.verdict)),
        id,
        vocabulary::decision(step.decision).to_owned(),
        ranking::course(Metric::ResponseP95, row.p95_ms),
        ranking::course(Metric::BlockedMsPer1000, row.blocked_ms_per_1000),
        change.map_or_else(String::new, |change| {
            numbers::change(Metric::ResponseP95, change)
        }),
        since.map_or_else(String::new, |since| {
            vocabulary::verdict_in_words(since.verdict)
        }),
        ranking::course(Metric::Threads, row.threads),
    ]
    .map(|text| escape::plain_spaces(&text))
    .to_vec()
}
