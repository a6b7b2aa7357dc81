//! A search for capacity: the answer, its chart, and every block behind it.

use std::fmt::Write as _;

use unstall_results::capacity::{CONFIDENCE, Finding};
use unstall_results::record::RunRecord;

use super::{answer, observations, permalink, table, trust};
use crate::charts::rates;
use crate::{Entry, Report, capacity, escape, numbers};

/// The top of a page that holds nothing but searches.
pub(super) fn write_answer(
    out: &mut String,
    report: &Report<'_>,
    findings: &[(usize, Finding)],
) -> std::fmt::Result {
    let class = match report.verdict() {
        Some(verdict) => crate::vocabulary::verdict(verdict),
        None => "observed",
    };
    writeln!(
        out,
        "<section class=\"answer is-{class}\" aria-labelledby=\"answer\">{}",
        match report.verdict() {
            Some(verdict) => answer::verdict_line(verdict, capacity::meaning(verdict)),
            None => "<p class=\"verdict\"><strong>capacity</strong> <span class=\"meaning\">one \
                     version, not compared: no verdict</span></p>"
                .to_owned(),
        }
    )?;
    if let [(_, finding)] = findings {
        writeln!(
            out,
            "<h1 id=\"answer\">{}</h1>",
            answer::headline(&finding.headline)
        )?;
    } else {
        writeln!(
            out,
            "<h1 id=\"answer\">Capacity</h1>\n<ul class=\"sentences\">"
        )?;
        for (index, finding) in findings {
            writeln!(
                out,
                "<li><a href=\"#{}\"><bdi>{}</bdi></a> <span>{}</span></li>",
                permalink::measurement(*index),
                escape::markup(&report.entries[*index].short_name()),
                escape::markup_prose(&finding.headline)
            )?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(out, "<dl class=\"facts\">")?;
    for (_, finding) in findings.iter().take(1) {
        writeln!(
            out,
            "<div><dt>Objective</dt><dd>{}</dd></div>\n\
             <div class=\"next\"><dt>Next</dt><dd>{}</dd></div>",
            escape::markup_prose(&finding.slo.to_string()),
            escape::markup_prose(&finding.next_action)
        )?;
    }
    writeln!(out, "</dl></section>")
}

/// Writes one search.
pub(super) fn write(
    out: &mut String,
    anchor: &str,
    entry: &Entry<'_>,
    finding: &Finding,
) -> std::fmt::Result {
    let record = entry.record;
    let pill = finding.verdict.map_or_else(String::new, answer::pill);
    writeln!(
        out,
        "<h2 id=\"{anchor}-title\"><bdi>{}</bdi> {pill}</h2>\n<p class=\"lead\">{}</p>\n\
         <p class=\"about\">scenario {} · capacity with {}</p>",
        escape::markup(&entry.short_name()),
        escape::markup_prose(&finding.headline),
        escape::markup(&record.scenario.name),
        escape::markup_prose(&finding.slo.to_string())
    )?;
    notes(out, finding)?;
    writeln!(
        out,
        "<p class=\"do\"><strong>Next:</strong> {}</p>",
        escape::markup_prose(&finding.next_action)
    )?;
    answers(out, finding)?;
    chart(out, record, finding)?;
    observations::write_errors(out, record)?;
    trust::write(out, anchor, record, &[])
}

fn notes(out: &mut String, finding: &Finding) -> std::fmt::Result {
    if finding.notes.is_empty() {
        return Ok(());
    }
    writeln!(out, "<div class=\"list why\"><h3>Why</h3><ul>")?;
    for note in &finding.notes {
        writeln!(out, "<li>{}</li>", escape::markup_prose(note))?;
    }
    writeln!(out, "</ul></div>")
}

fn answers(out: &mut String, finding: &Finding) -> std::fmt::Result {
    let columns = [
        table::text("Version"),
        table::number("Capacity"),
        table::number("Interval"),
        table::number("Blocks"),
    ];
    writeln!(out, "<h3>Capacity</h3>")?;
    let caption = format!(
        "Arrivals per second, each one pass through the scenario. At the capacity half of the \
         blocks would hold the objective; the interval holds it with probability \
         {}\u{202F}%, if blocks differ by chance only.",
        numbers::tick(CONFIDENCE * 100.0)
    );
    table::open(out, &caption, &columns)?;
    for arm in &finding.arms {
        let (estimate, interval) = capacity::estimate(arm.capacity);
        let name = escape::markup(&arm.arm);
        table::row(
            out,
            &columns,
            &[name, estimate, interval, capacity::blocks(arm)],
        )?;
    }
    table::close(out)
}

fn chart(out: &mut String, record: &RunRecord, finding: &Finding) -> std::fmt::Result {
    writeln!(out, "<h3>Every block by its rate</h3>")?;
    super::panel::legend(out, record, false)?;
    writeln!(
        out,
        "<div class=\"charts\"><figure><figcaption>Filled: held; hollow: failed; ✕ not judged. \
         Vertical lines: the capacity and its interval</figcaption>"
    )?;
    if let Some(svg) = rates::render("Blocks by rate, and the interval of the capacity", finding) {
        writeln!(out, "{svg}")?;
    }
    writeln!(out, "<details><summary>Table</summary>")?;
    trials(out, finding)?;
    writeln!(out, "</details></figure></div>")
}

fn trials(out: &mut String, finding: &Finding) -> std::fmt::Result {
    let columns = [
        table::text("Version"),
        table::number("Offered"),
        table::number("Served"),
        table::text("Outcome"),
        table::text("Tightest objective"),
    ];
    table::open(out, "Blocks in the order of their rate", &columns)?;
    for arm in &finding.arms {
        let mut trials: Vec<_> = arm.trials.iter().collect();
        trials.sort_by(|left, right| left.rate.total_cmp(&right.rate));
        for trial in trials {
            let (sign, word) = capacity::end(trial);
            let cells = [
                escape::markup(&arm.arm),
                capacity::rate(trial.rate),
                trial
                    .ended_per_second
                    .map_or_else(|| "–".to_owned(), capacity::rate),
                format!("{sign} {word}"),
                capacity::tightest(trial).map_or_else(
                    || "nothing answered".to_owned(),
                    |reading| escape::markup_prose(&capacity::reading(reading)),
                ),
            ];
            table::row(out, &columns, &cells)?;
        }
    }
    table::close(out)
}
