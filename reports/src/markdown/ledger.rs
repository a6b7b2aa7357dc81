//! The ledger as Markdown: `async-migration-results.md` is a report that begins with it.

use std::fmt::Write as _;

use unstall_results::comparison::Metric;
use unstall_results::ledger::{CapacityRow, Ledger, Row, SinceStart, Step};

use crate::{LastState, capacity, escape, numbers, ranking, vocabulary};

/// Writes what became of each step, and of the capacity; the summary is that of all steps.
pub(super) fn write(out: &mut String, summary: &str, ledger: &Ledger) -> std::fmt::Result {
    if !summary.is_empty() {
        writeln!(out, "{}.\n", escape::markdown(summary))?;
    }
    let with_start = ledger.has_start();
    if with_start {
        writeln!(
            out,
            "Each step against the state before it and against the start: values are start → before → after, and two values \
             where the start is what was before.\n\n\
             | step | title | branch | risk | decision | p95 | p95 since start | since start | blocked per 1 000 requests | threads |\n\
             |---|---|---|---|---|---|---|---|---|---|"
        )?;
    } else {
        writeln!(
            out,
            "| step | title | branch | risk | decision | p95 | blocked per 1 000 requests |\n|---|---|---|---|---|---|---|"
        )?;
    }
    for (step, row) in ledger.rows() {
        write_row(out, step, row, with_start)?;
    }
    writeln!(out)?;
    write_capacities(out, &ledger.capacities)
}

fn write_row(out: &mut String, step: &Step, row: &Row, with_start: bool) -> std::fmt::Result {
    let or_dash = |text: &str, written: fn(&str) -> String| match text {
        "" => "–".to_owned(),
        text => written(text),
    };
    let scenario = match step.rows.len() {
        0 | 1 => String::new(),
        _ => format!(" ({})", escape::markdown(&row.scenario)),
    };
    let endpoint = row.endpoint.as_ref().map_or_else(String::new, |endpoint| {
        format!(" ({})", escape::markdown_code(endpoint))
    });
    write!(
        out,
        "| {}{scenario} | {} | {} | {} | {} **{}** | {}{endpoint} | ",
        escape::markdown(&step.id),
        or_dash(&step.title, escape::markdown),
        or_dash(&step.branch, escape::markdown_code),
        or_dash(&step.risk, escape::markdown),
        vocabulary::verdict_sign(row.verdict),
        vocabulary::decision(step.decision),
        ranking::course(Metric::ResponseP95, row.p95_ms),
    )?;
    if with_start {
        let [p95, word] = since_start(row.since_start.as_ref());
        write!(out, "{p95} | {word} | ")?;
    }
    write!(
        out,
        "{} |",
        ranking::course(Metric::BlockedMsPer1000, row.blocked_ms_per_1000)
    )?;
    if with_start {
        write!(out, " {} |", ranking::course(Metric::Threads, row.threads))?;
    }
    writeln!(out)
}

/// `−81 % (−83 … −79 %)`, and what the whole comparison with the start says.
fn since_start(since: Option<&SinceStart>) -> [String; 2] {
    let p95 = since.and_then(|since| since.p95.as_ref()).map(|change| {
        format!(
            "{} ({})",
            numbers::change(Metric::ResponseP95, change),
            numbers::interval(Metric::ResponseP95, change)
        )
    });
    let word = since.map(|since| vocabulary::verdict_in_words(since.verdict));
    [p95, word].map(|cell| cell.unwrap_or_else(|| "–".to_owned()))
}

fn write_capacities(out: &mut String, rows: &[CapacityRow]) -> std::fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "| capacity | objective | before | after | after ÷ before | what the plan promised |\n|---|---|---|---|---|---|"
    )?;
    for row in rows {
        let version = |of| {
            let (middle, interval) = capacity::estimate(of);
            format!("{middle} ({interval})")
        };
        let ratio = capacity::ratio(row.ratio).map_or_else(
            || "–".to_owned(),
            |(middle, interval)| format!("{middle} ({interval})"),
        );
        writeln!(
            out,
            "| {} | {} | {} | {} | {ratio} | {}: {} |",
            escape::markdown(&row.scenario),
            escape::markdown_code(&row.slo),
            version(row.before),
            version(row.after),
            capacity::promise(row),
            capacity::goal(row.goal)
        )?;
    }
    writeln!(out)
}

/// Writes what is known of the state behind the last step.
pub(super) fn write_last_state(out: &mut String, state: &LastState) -> std::fmt::Result {
    writeln!(out, "| behind the last step | | found |\n|---|---|---|")?;
    for finding in &state.findings {
        writeln!(
            out,
            "| {} | {} | {} |",
            escape::markdown(&finding.wanted),
            vocabulary::holds(finding.holds),
            escape::markdown(&finding.found)
        )?;
    }
    writeln!(
        out,
        "\nServed by {}.\n",
        escape::markdown_code(&state.command)
    )
}
