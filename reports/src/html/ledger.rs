//! The ledger: what became of each step, in a table and in charts over all steps, and what the
//! migration made of the capacity.

use std::fmt::Write as _;

use unstall_results::comparison::Metric;
use unstall_results::ledger::{CapacityRow, Course, Ledger, Row, SinceStart, Step};

use super::{answer, permalink, table};
use crate::charts::{self, steps};
use crate::{LastState, Report, capacity, escape, numbers, ranking, vocabulary};

/// Ties marks of the charts to rows of the table.
const LINK: &str = "ledger";

/// Writes the ledger when at least two measurements were compared, or when the last state is known,
/// which stands nowhere else.
pub(super) fn write(out: &mut String, report: &Report<'_>) -> std::fmt::Result {
    let entries = || report.entries.iter().enumerate();
    let compared: Vec<usize> = entries()
        .filter_map(|(index, entry)| entry.comparison.map(|_| index))
        .collect();
    if compared.len() < 2 && report.last_state.is_none() {
        return Ok(());
    }
    let ledger = report.ledger();
    writeln!(
        out,
        "<section aria-labelledby=\"ledger\"><h2 id=\"ledger\">Ledger</h2>"
    )?;
    let summary = ledger.summary();
    if !summary.is_empty() {
        writeln!(
            out,
            "<p class=\"lead\">{}.</p>",
            escape::markup_prose(&summary)
        )?;
    }
    if !compared.is_empty() {
        steps_table(out, &ledger, &compared)?;
    }
    capacities(out, &ledger.capacities)?;
    if let Some(state) = &report.last_state {
        last_state(out, state)?;
    }
    timeline(out, &ledger)?;
    writeln!(out, "</section>")
}

fn steps_table(out: &mut String, ledger: &Ledger, entries: &[usize]) -> std::fmt::Result {
    let with_start = ledger.has_start();
    let mut columns = vec![
        table::text("Step"),
        table::text("Decision"),
        table::text("Title and PR branch"),
        table::text("Risk"),
    ];
    let values: &[&str] = match with_start {
        true => &[
            "p95",
            "p95 since start",
            "Since start",
            "Blocked",
            "Threads",
        ],
        false => &["p95 before → after", "Blocked before → after"],
    };
    columns.extend(values.iter().copied().map(table::number));
    let against = match with_start {
        true => {
            "Each step against the state before it and against the start: values are start → before → after, \
             and two values where the start is what was before"
        }
        false => "Each step against the state before it",
    };
    writeln!(out, "<div data-link=\"{LINK}\">")?;
    table::open_with_class(
        out,
        "ledger",
        &format!(
            "{against}. p95 is that of the endpoint that regressed, or else of the step’s own that gained \
             least; blocked time is the whole service’s, per 1\u{202F}000 requests."
        ),
        &columns,
    )?;
    for (index, ((step, row), entry)) in ledger.rows().zip(entries).enumerate() {
        let mut cells = step_cells(*entry, step, row);
        let mut numbers = vec![p95(row)];
        if with_start {
            numbers.extend(since_start(row.since_start.as_ref()));
        }
        numbers.push(course(Metric::BlockedMsPer1000, row.blocked_ms_per_1000));
        numbers.extend(with_start.then(|| course(Metric::Threads, row.threads)));
        let labelled = values.iter().zip(numbers);
        cells.extend(labelled.map(|(name, number)| format!("{}{number}", head(name))));
        table::keyed_row(out, &charts::row_key(index), &columns, &cells)?;
    }
    table::close(out)?;
    writeln!(out, "</div>")
}

/// The name of a column beside its value: on a narrow page a row is a list, with no head above it.
fn head(name: &str) -> String {
    format!("<span class=\"head\" aria-hidden=\"true\">{name} </span>")
}

/// What a step is and what to do with it. Where it has several measurements, each row says which.
fn step_cells(entry: usize, step: &Step, row: &Row) -> Vec<String> {
    let or_dash = |text: &str| match text {
        "" => "–".to_owned(),
        text => format!("<bdi>{}</bdi>", escape::markup(text)),
    };
    let branch = match step.branch.as_str() {
        "" => String::new(),
        branch => format!("<small><code>{}</code></small>", escape::markup(branch)),
    };
    let scenario = match step.rows.len() {
        0 | 1 => String::new(),
        _ => format!(
            "<small><bdi>{}</bdi></small>",
            escape::markup(&row.scenario)
        ),
    };
    vec![
        format!(
            "<a href=\"#{}\"><bdi>{}</bdi></a>{scenario}",
            permalink::measurement(entry),
            escape::markup(&step.id)
        ),
        format!(
            "<span class=\"w\"><strong>{}</strong> {}</span>",
            vocabulary::decision(step.decision),
            answer::pill(row.verdict)
        ),
        format!("{}{branch}", or_dash(&step.title)),
        format!("{}{}", head("Risk"), or_dash(&step.risk)),
    ]
}

fn p95(row: &Row) -> String {
    let endpoint = row.endpoint.as_ref().map_or_else(String::new, |endpoint| {
        format!("<small><bdi>{}</bdi></small>", escape::markup(endpoint))
    });
    format!("{}{endpoint}", course(Metric::ResponseP95, row.p95_ms))
}

fn course(metric: Metric, course: Option<Course>) -> String {
    ranking::course(metric, course)
}

/// `−81 %` with its interval, and what the whole comparison with the start says.
fn since_start(since: Option<&SinceStart>) -> [String; 2] {
    let p95 = since.and_then(|since| since.p95.as_ref()).map(|change| {
        format!(
            "{}<small>{}</small>",
            numbers::change(Metric::ResponseP95, change),
            numbers::interval(Metric::ResponseP95, change)
        )
    });
    let word = since.map(|since| answer::pill(since.verdict));
    [p95, word].map(|cell| cell.unwrap_or_else(|| "–".to_owned()))
}

/// What two versions can take: the start and the end, as a rule.
fn capacities(out: &mut String, rows: &[CapacityRow]) -> std::fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let columns = [
        table::text("Capacity"),
        table::text("Objective"),
        table::number("Before"),
        table::number("After"),
        table::number("After ÷ before"),
        table::text("What the plan promised"),
        table::text("Verdict"),
    ];
    table::open_with_class(
        out,
        "capacities",
        "The highest rate of arrivals at which the objective holds, with 95 % intervals.",
        &columns,
    )?;
    for row in rows {
        let version = |of| {
            let (middle, interval) = capacity::estimate(of);
            format!("{middle}<small>{interval}</small>")
        };
        let cells = [
            format!("<bdi>{}</bdi>", escape::markup(&row.scenario)),
            escape::markup_prose(&row.slo),
            version(row.before),
            version(row.after),
            capacity::ratio(row.ratio).map_or_else(
                || "–".to_owned(),
                |(middle, interval)| format!("{middle}<small>{interval}</small>"),
            ),
            format!(
                "{}<small>{}</small>",
                capacity::goal(row.goal),
                capacity::promise(row)
            ),
            row.verdict.map_or_else(|| "–".to_owned(), answer::pill),
        ];
        table::row(out, &columns, &cells)?;
    }
    table::close(out)
}

/// What is known of the state behind the last step.
fn last_state(out: &mut String, state: &LastState) -> std::fmt::Result {
    let columns = [
        table::text("Behind the last step"),
        table::text("Answer"),
        table::text("Found"),
    ];
    let caption = format!("Served by <code>{}</code>.", escape::markup(&state.command));
    table::open_with_class(out, "state", &caption, &columns)?;
    for finding in &state.findings {
        let cells = [
            escape::markup_prose(&finding.wanted),
            vocabulary::holds(finding.holds).to_owned(),
            escape::markup_prose(&finding.found),
        ];
        table::row(out, &columns, &cells)?;
    }
    table::close(out)
}

/// Charts over all steps of the plan, where there are at least two.
fn timeline(out: &mut String, ledger: &Ledger) -> std::fmt::Result {
    let with_start = ledger.has_start();
    // Where the start isn't told apart, it is what was before the step.
    let from_start = |course: Course| Course {
        start: course.start.or(with_start.then_some(course.before)),
        ..course
    };
    let marks = |of: fn(&Row) -> Option<Course>| -> Vec<steps::Mark> {
        let rows = ledger.rows().enumerate();
        rows.filter(|(_, (step, _))| step.is_planned)
            .map(|(index, (step, row))| steps::Mark {
                row: index,
                name: escape::visible(&step.id).chars().take(6).collect(),
                course: of(row).map(from_start),
            })
            .collect()
    };
    let mut figures = String::new();
    for (caption, axis, marks) in [
        ("p95", "p95, ms", marks(|row| row.p95_ms)),
        (
            "Blocked time per 1\u{202F}000 requests",
            "blocked, ms per 1 000",
            marks(|row| row.blocked_ms_per_1000),
        ),
        (
            "Threads of the service",
            "threads",
            marks(|row| row.threads),
        ),
    ] {
        let subject = steps::Subject {
            title: &format!("{caption} of each step: its start, before and after"),
            axis,
            marks: &marks,
        };
        if let Some(svg) = steps::render(&subject) {
            writeln!(
                figures,
                "<figure data-link=\"{LINK}\"><figcaption>{caption}</figcaption>{svg}</figure>"
            )?;
        }
    }
    if figures.is_empty() {
        return Ok(());
    }
    let start = match with_start {
        true => "<span class=\"start\"><i aria-hidden=\"true\"></i> start of the migration</span> ",
        false => "",
    };
    writeln!(
        out,
        "<h3 id=\"timeline\">Step by step</h3>\n<p class=\"legend marks\">{start}\
         <span class=\"before\"><i aria-hidden=\"true\"></i> before the step</span> \
         <span class=\"after\"><i aria-hidden=\"true\"></i> after it</span></p>\n\
         <div class=\"charts\">{figures}</div>\n<p class=\"note\">Each step is driven by its own \
         scenario, so heights compare within a step and not between steps. Zero stands on the floor.</p>"
    )
}
