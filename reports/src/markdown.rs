//! The report as Markdown, for a step summary or a comment in a code review.
//!
//! Both have size limits, so a report that is too long is written with less of it: worst first, and
//! the rest is counted (`markdown/detail.rs`). The first line is hidden and always the same, so that a bot finds
//! the comment that it wrote before.

mod compared;
mod detail;
mod ledger;
mod single;

use std::fmt::Write as _;

use unstall_results::calibration::Certificate;

pub use detail::Limit;
use detail::{Detail, LADDER};

use crate::{Entry, Report, Said, escape, ledger_of, numbers, vocabulary};

/// Where the Markdown goes and what it is called there.
#[derive(Debug, Clone, Copy)]
pub struct Placement<'a> {
    /// How long it may be.
    pub limit: Limit,
    /// What the hidden first line names; by default the scenarios that were driven.
    pub marker: Option<&'a str>,
}

impl Placement<'_> {
    /// A file that shows everything.
    pub const FILE: Self = Self {
        limit: Limit::None,
        marker: None,
    };
}

/// Renders the report as GitHub-flavoured Markdown, ending in a newline, with as much of it as the
/// place takes; empty if it takes nothing.
pub fn render(report: &Report<'_>, placement: Placement<'_>) -> String {
    let marker = marker(report, placement.marker);
    let with = |detail: &Detail| {
        let mut out = marker.clone();
        write_report(&mut out, report, detail).expect("writing to a String cannot fail");
        out
    };
    LADDER
        .iter()
        .map(with)
        .find(|text| placement.limit.holds(text))
        .or_else(|| {
            let least = marker.clone() + &answer_only(report);
            placement.limit.holds(&least).then_some(least)
        })
        // More than a place takes would lose all that stands there.
        .unwrap_or_default()
}

/// The line that a bot looks for: `<!-- unstall-report: usage-check -->`.
fn marker(report: &Report<'_>, name: Option<&str>) -> String {
    const CHARS_MAX: usize = 200;
    let scenarios = || {
        let mut names: Vec<&str> = Vec::new();
        for entry in &report.entries {
            let name = entry.record.scenario.name.as_str();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(" ")
    };
    let name = name.map_or_else(scenarios, str::to_owned);
    let kept = |letter: char| match letter {
        plain if plain.is_ascii_alphanumeric() || "._/- ".contains(plain) => plain,
        _ => '_',
    };
    let name: String = name.chars().take(CHARS_MAX).map(kept).collect();
    // Two hyphens may end a comment.
    format!("<!-- unstall-report: {} -->\n", name.replace("--", "-_"))
}

/// For a place that has no room even for one measurement.
fn answer_only(report: &Report<'_>) -> String {
    let answer = report.verdict().map_or_else(
        || "nothing was compared".to_owned(),
        |verdict| {
            format!(
                "**{} {}**: {}",
                vocabulary::verdict_sign(verdict),
                vocabulary::verdict(verdict),
                vocabulary::verdict_meaning(verdict)
            )
        },
    );
    format!("# Unstall\n\n{answer}\n\nThere is no room for more here.\n")
}

fn write_report(out: &mut String, report: &Report<'_>, detail: &Detail) -> std::fmt::Result {
    writeln!(out, "# {}\n", escape::markdown(&report.title))?;
    let shown = worst_entries(report, detail.entries);
    let judged = report.entries.iter().filter_map(Entry::verdict).count();
    let compared = report.entries.iter().filter(|e| e.comparison.is_some());
    if let Some(said) = report.answer().filter(|_| judged > 1) {
        overall(out, &said)?;
    }
    if let Some(verdict) = report.worse_last_state() {
        writeln!(
            out,
            "**{} {}**: the state behind the last step\n",
            vocabulary::verdict_sign(verdict),
            vocabulary::verdict(verdict)
        )?;
    }
    if let Some(open) = &report.left_open {
        writeln!(
            out,
            "**{} {}**: not all was measured\n",
            vocabulary::verdict_sign(open.verdict),
            vocabulary::verdict(open.verdict)
        )?;
        for why in &open.why {
            writeln!(out, "- {}", escape::markdown(why))?;
        }
        writeln!(out)?;
    }
    let compared = compared.count();
    // What is known of the last state stands below the step, also where it is a single one.
    if compared > 1 || (compared == 1 && report.last_state.is_some()) {
        // Of a text with little room the rows are fewer, and what became of all steps is the same.
        let summary = report.ledger().summary();
        ledger::write(out, &summary, &ledger_of(shown.iter().copied()))?;
    }
    if let Some(state) = &report.last_state {
        ledger::write_last_state(out, state)?;
    }
    for entry in &shown {
        match entry.comparison {
            Some(comparison) => compared::entry(out, entry, comparison, detail)?,
            None => match entry.capacity() {
                Some(finding) => single::capacity_entry(out, entry, &finding, detail)?,
                None => single::entry(out, entry, detail)?,
            },
        }
    }
    let left = report.entries.len() - shown.len();
    if left > 0 {
        writeln!(
            out,
            "… and {left} more measurements, with no worse verdict than these.\n"
        )?;
    }
    if let Some(certificate) = report.certificate {
        writeln!(out, "{}\n", escape::markdown(&trust(certificate)))?;
    }
    writeln!(
        out,
        "<sub>Generated {} by {}</sub>",
        escape::markdown(&report.generated_utc),
        escape::markdown_code(&report.command)
    )
}

/// The verdict over several measurements, in the words of the one that decides it.
fn overall(out: &mut String, said: &Said) -> std::fmt::Result {
    let Some(verdict) = said.verdict else {
        return Ok(());
    };
    writeln!(
        out,
        "**{} {}**: {}: {}\n",
        vocabulary::verdict_sign(verdict),
        vocabulary::verdict(verdict),
        escape::markdown(&said.name),
        escape::markdown(&said.headline)
    )
}

/// How often the same version twice alarmed on this machine.
fn trust(certificate: &Certificate) -> String {
    let alarms = certificate.false_alarms;
    let distrust = certificate.distrust();
    format!(
        "Calibrated {}: {} of {} sessions of the same version twice alarmed, a rate between {} and {}.{}",
        certificate.created_utc,
        alarms.count,
        alarms.of,
        numbers::share(alarms.low),
        numbers::share(alarms.high),
        distrust.map_or_else(String::new, |why| format!(" {why}."))
    )
}

/// The entries with the worst verdicts, in the report's order.
fn worst_entries<'r, 'a>(report: &'r Report<'a>, count: usize) -> Vec<&'r Entry<'a>> {
    let mut indexed: Vec<(usize, &Entry<'_>)> = report.entries.iter().enumerate().collect();
    indexed.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.verdict()));
    indexed.truncate(count);
    indexed.sort_by_key(|(index, _)| *index);
    indexed.into_iter().map(|(_, entry)| entry).collect()
}

/// An item of a list for each of the first texts, each with a label in front or none; says how many
/// are left.
fn write_items(
    out: &mut String,
    label: &str,
    texts: &[String],
    detail: &Detail,
) -> std::fmt::Result {
    for text in texts.iter().take(detail.items) {
        writeln!(out, "- {label}{}", escape::markdown(text))?;
    }
    if texts.len() > detail.items {
        writeln!(out, "- {label}… and {} more", texts.len() - detail.items)?;
    }
    Ok(())
}
