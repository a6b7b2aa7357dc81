//! The top of the page: what a reader takes away in ten seconds.

use std::fmt::Write as _;

use unstall_results::comparison::{Comparison, Verdict};
use unstall_results::record::RunRecord;
use unstall_results::summary::summarise;

use super::{capacity, certificate, permalink, why};
use crate::guilty_lines::{for_cell, guilty_lines};
use crate::{Entry, Report, Said, escape, numbers, observed, ranking, vocabulary};

/// More measurements than this are counted in the sentence instead of named.
const NAMED_MAX: usize = 5;

/// Of more measurements than this, those that passed are folded: the ledger below has them all.
const SHOWN_MAX: usize = 6;

/// Writes the answer.
pub(super) fn write(out: &mut String, report: &Report<'_>) -> std::fmt::Result {
    let compared: Vec<(usize, &Entry<'_>, &Comparison)> = report
        .entries
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| Some((index, entry, entry.comparison?)))
        .collect();
    if compared.is_empty() {
        let entries = report.entries.iter().enumerate();
        let findings: Vec<_> = entries
            .filter_map(|(index, entry)| Some((index, entry.capacity()?)))
            .collect();
        if findings.is_empty() {
            return observed_only(out, report);
        }
        return capacity::write_answer(out, report, &findings);
    }
    let Some(verdict) = report.verdict() else {
        return observed_only(out, report);
    };
    let judged = judged(report);
    let first_of_worst = |one: &&Judged<'_>| (one.verdict, std::cmp::Reverse(one.index));
    let Some(worst) = judged.iter().max_by_key(first_of_worst) else {
        return observed_only(out, report);
    };
    writeln!(
        out,
        "<section class=\"answer is-{}\" aria-labelledby=\"answer\">{}",
        vocabulary::verdict(verdict),
        verdict_line(verdict, vocabulary::verdict_meaning(verdict))
    )?;
    if let [only] = judged.as_slice() {
        writeln!(
            out,
            "<h1 id=\"answer\">{}</h1>",
            headline(&only.said.headline)
        )?;
    } else {
        writeln!(
            out,
            "<h1 id=\"answer\">{}</h1>\n<ul class=\"sentences\">",
            escape::markup_prose(&overall_sentence(&judged))
        )?;
        let (passed, others): (Vec<&Judged<'_>>, Vec<&Judged<'_>>) = judged
            .iter()
            .partition(|one| judged.len() > SHOWN_MAX && one.verdict == Verdict::Pass);
        sentences(out, &others)?;
        writeln!(out, "</ul>")?;
        if !passed.is_empty() {
            writeln!(
                out,
                "<details><summary>What passed: {}</summary>\n<ul class=\"sentences\">",
                passed.len()
            )?;
            sentences(out, &passed)?;
            writeln!(out, "</ul></details>")?;
        }
    }
    beyond(out, report)?;
    let several = judged.len() > 1;
    facts(out, report, &compared, (worst, several))?;
    writeln!(out, "</section>")
}

/// What no measurement answers for: the last state, where it is worse than all of them, and what was
/// not measured.
fn beyond(out: &mut String, report: &Report<'_>) -> std::fmt::Result {
    if report.worse_last_state().is_some() {
        writeln!(
            out,
            "<p class=\"note\">The verdict is that of the state behind the last step, which is worse than all \
             that was compared: see the <a href=\"#ledger\">ledger</a>.</p>"
        )?;
    }
    if let Some(open) = &report.left_open {
        writeln!(out, "<p>Not all was measured:</p>")?;
        writeln!(out, "<ul class=\"sentences\">")?;
        for why in &open.why {
            writeln!(out, "<li>{}</li>", escape::markup_prose(why))?;
        }
        writeln!(out, "</ul>")?;
    }
    Ok(())
}

/// A sentence each.
fn sentences(out: &mut String, judged: &[&Judged<'_>]) -> std::fmt::Result {
    for one in judged {
        writeln!(
            out,
            "<li>{} <a href=\"#{}\"><bdi>{}</bdi></a> <span>{}</span></li>",
            pill(one.verdict),
            permalink::measurement(one.index),
            escape::markup(&one.name),
            escape::markup_prose(&one.said.headline)
        )?;
    }
    Ok(())
}

/// One measurement that was judged: of two versions, or of their capacities.
struct Judged<'r> {
    index: usize,
    entry: &'r Entry<'r>,
    name: String,
    verdict: Verdict,
    said: Said,
}

fn judged<'r>(report: &'r Report<'r>) -> Vec<Judged<'r>> {
    let entries = report.entries.iter().enumerate();
    let judged = entries.filter_map(|(index, entry)| {
        let said = entry.said()?;
        Some(Judged {
            index,
            entry,
            name: called(entry, &report.entries),
            verdict: said.verdict?,
            said,
        })
    });
    judged.collect()
}

pub(super) fn verdict_line(verdict: Verdict, meaning: &str) -> String {
    format!(
        "<p class=\"verdict\"><span class=\"sign\" aria-hidden=\"true\">{}</span> \
         <strong>{}</strong> <span class=\"meaning\">{meaning}</span></p>",
        vocabulary::verdict_sign(verdict),
        vocabulary::verdict(verdict),
    )
}

/// A verdict in a line of text.
pub(super) fn pill(verdict: Verdict) -> String {
    format!(
        "<span class=\"pill is-{word}\"><span aria-hidden=\"true\">{}</span> {word}</span>",
        vocabulary::verdict_sign(verdict),
        word = vocabulary::verdict(verdict)
    )
}

/// The sentence with its first clause set large: it carries the main number.
pub(super) fn headline(sentence: &str) -> String {
    match sentence.split_once("; ") {
        Some((first, rest)) => format!(
            "{}<span class=\"rest\"><span class=\"gone\">; </span>{}</span>",
            escape::markup_prose(first),
            escape::markup_prose(rest)
        ),
        None => escape::markup_prose(sentence),
    }
}

/// Its short name, with the scenario where a step was measured by several.
fn called(entry: &Entry<'_>, among: &[Entry<'_>]) -> String {
    let name = entry.short_name();
    let namesakes = among.iter().filter(|other| other.short_name() == name);
    if namesakes.count() > 1 {
        return format!("{name} ({})", entry.record.scenario.name);
    }
    name
}

/// "Step 3 regresses; step 2a passes": worst first.
fn overall_sentence(judged: &[Judged<'_>]) -> String {
    let clause = |verdict: Verdict, one: &str, many: &str| -> Option<String> {
        let names: Vec<String> = judged
            .iter()
            .filter(|one| one.verdict == verdict)
            .map(|one| one.name.clone())
            .collect();
        match names.as_slice() {
            [] => None,
            [name] => Some(format!("{name} {one}")),
            [first @ .., last] if names.len() <= NAMED_MAX => {
                Some(format!("{} and {last} {many}", first.join(", ")))
            }
            names => Some(format!("{} measurements {many}", names.len())),
        }
    };
    [
        clause(Verdict::Invalid, "is invalid", "are invalid"),
        clause(Verdict::Regression, "regresses", "regress"),
        clause(Verdict::Inconclusive, "is inconclusive", "are inconclusive"),
        clause(Verdict::Pass, "passes", "pass"),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join("; ")
    .replace("; Step ", "; step ")
    .replace(", Step ", ", step ")
    .replace(" and Step ", " and step ")
}

fn facts(
    out: &mut String,
    report: &Report<'_>,
    compared: &[(usize, &Entry<'_>, &Comparison)],
    (worst, several): (&Judged<'_>, bool),
) -> std::fmt::Result {
    let Judged { index, entry, .. } = worst;
    let anchor = permalink::measurement(*index);
    let lead = if several {
        format!(
            "<a href=\"#{anchor}\"><bdi>{}</bdi></a>: ",
            escape::markup(&entry.short_name())
        )
    } else {
        String::new()
    };
    let calibrated = certificate::in_one_line(entry.record, report.certificate)
        .map_or_else(String::new, |text| format!("; {text}"));
    writeln!(out, "<dl class=\"facts\">")?;
    writeln!(
        out,
        "<div><dt>Validity</dt><dd>{}{calibrated}</dd></div>",
        validity(compared)
    )?;
    if let Some(comparison) = entry.comparison {
        writeln!(
            out,
            "<div><dt>Worst cell</dt><dd>{lead}{}</dd></div>",
            worst_cell(&anchor, comparison)
        )?;
        look_at(out, &lead, entry.record, comparison)?;
        if let Some(held) = why::in_one_line(entry.record) {
            writeln!(
                out,
                "<div><dt>What held the event loop</dt><dd>{lead}{held} \
                 <a href=\"#{anchor}-why\">Why</a></dd></div>"
            )?;
        }
        if comparison.is_only_warned() {
            writeln!(
                out,
                "<div><dt>Only a warning</dt><dd>{lead}the policy lets this end with exit code 0</dd></div>"
            )?;
        }
    } else if let Some(finding) = entry.capacity() {
        writeln!(
            out,
            "<div><dt>Objective</dt><dd>{lead}{}</dd></div>",
            escape::markup_prose(&finding.slo.to_string())
        )?;
    }
    writeln!(
        out,
        "<div class=\"next\"><dt>Next</dt><dd>{lead}{}</dd></div>\n</dl>",
        escape::markup_prose(&worst.said.next_action)
    )
}

/// The line that keeps the loop more than before, where that may be why something got worse.
fn look_at(
    out: &mut String,
    lead: &str,
    record: &RunRecord,
    comparison: &Comparison,
) -> std::fmt::Result {
    if matches!(comparison.verdict, Verdict::Pass | Verdict::Invalid) {
        return Ok(());
    }
    let lines = guilty_lines(record);
    match ranking::worst(comparison).and_then(|worst| for_cell(&lines, worst)) {
        Some(line) => writeln!(
            out,
            "<div><dt>Look at</dt><dd>{lead}{}</dd></div>",
            escape::markup_prose(&line.sentence)
        ),
        None => Ok(()),
    }
}

fn validity(compared: &[(usize, &Entry<'_>, &Comparison)]) -> String {
    let faults: usize = compared
        .iter()
        .map(|(_, _, c)| c.validity.faults.len())
        .sum();
    let warnings: usize = compared
        .iter()
        .map(|(_, _, c)| c.validity.warnings.len())
        .sum();
    let blocks: usize = compared.iter().map(|(_, e, _)| e.record.blocks.len()).sum();
    let interrupted = compared
        .iter()
        .any(|(_, entry, _)| entry.record.interrupted);
    let noun = |count: usize, one: &str, many: &str| {
        vocabulary::plural(u64::try_from(count).unwrap_or(u64::MAX), one, many)
    };
    let first = compared
        .iter()
        .flat_map(|(_, _, c)| c.validity.faults.iter().chain(&c.validity.warnings))
        .next();
    let mut text = if faults > 0 {
        format!("⊘ {}", noun(faults, "fault", "faults"))
    } else if warnings > 0 {
        format!("valid, with {}", noun(warnings, "warning", "warnings"))
    } else {
        format!("✓ valid: no fault in {}", noun(blocks, "block", "blocks"))
    };
    if interrupted {
        text.push_str("; stopped early");
    }
    match first {
        Some(first) => format!("{text}: {}", escape::markup_prose(first)),
        None => text,
    }
}

fn worst_cell(anchor: &str, comparison: &Comparison) -> String {
    let worst = ranking::worst(comparison).zip(comparison.worst_cell);
    let Some((cell, index)) = worst else {
        return "none was judged".to_owned();
    };
    let target = permalink::cells(anchor, comparison).swap_remove(index);
    let (sign, words) = vocabulary::outcome(cell);
    let change = match &cell.change {
        Some(change) => format!(
            ", <span class=\"w\">{} [{}]</span>",
            escape::markup(&numbers::change(cell.metric, change)),
            escape::markup(&numbers::interval(cell.metric, change))
        ),
        None => String::new(),
    };
    format!(
        "<a href=\"#{target}\"><bdi>{}</bdi> {}</a>: <span class=\"w\">{}</span>{change} · <span class=\"w\">{sign}</span> {words}",
        escape::markup(vocabulary::cell_endpoint(cell)),
        vocabulary::metric(cell.metric),
        numbers::before_after(cell.metric, &cell.before, &cell.after),
    )
}

/// Without a comparison there is no verdict: the page says what was seen.
fn observed_only(out: &mut String, report: &Report<'_>) -> std::fmt::Result {
    let all_blocks = || report.entries.iter().flat_map(|entry| &entry.record.blocks);
    let blocks = all_blocks().count();
    let spoilt = all_blocks().filter(|block| !block.validity.ok).count();
    let good_blocks = report
        .entries
        .iter()
        .flat_map(|entry| observed::blocks(entry.record));
    let completed = observed::total(good_blocks.map(|block| block.completed));
    let failed = observed::total(
        report
            .entries
            .iter()
            .flat_map(|entry| observed::errors(entry.record).into_values()),
    );
    writeln!(
        out,
        "<section class=\"answer is-observed\" aria-labelledby=\"answer\">\
         <p class=\"verdict\"><strong>one version</strong> <span class=\"meaning\">measured, not compared: no verdict</span></p>\
         <h1 id=\"answer\">{}</h1>\n<dl class=\"facts\">\
         <div><dt>Validity</dt><dd>{}</dd></div>\
         <div class=\"next\"><dt>Next</dt><dd>Measure a second version beside it with <code>unstall ab</code> to get a verdict.</dd></div></dl></section>",
        headline(&observed_sentence(report, completed, failed)),
        if spoilt == 0 {
            format!(
                "✓ valid: no fault in {}",
                vocabulary::plural(u64::try_from(blocks).unwrap_or(u64::MAX), "block", "blocks")
            )
        } else {
            format!("⊘ {spoilt} of {blocks} blocks spoilt by a fault of the measurement, see below")
        }
    )
}

/// "POST conversations p50 12.1 ms, p95 41.2 ms at c = 20; 8 000 answers, 3 failed".
fn observed_sentence(report: &Report<'_>, completed: u64, failed: u64) -> String {
    let counts = format!(
        "{} successful answers, {} failed",
        numbers::count(completed),
        numbers::count(failed)
    );
    let summaries = report
        .entries
        .iter()
        .flat_map(|entry| summarise(entry.record));
    let slowest = summaries
        .filter_map(|summary| {
            let at = |quantile: f64| {
                summary
                    .percentiles
                    .iter()
                    .find(|percentile| (percentile.q - quantile).abs() < 1e-9)
                    .and_then(|percentile| numbers::percentile(&percentile.estimate))
            };
            let p95_ms = summary.percentiles.get(1)?.estimate.value?;
            Some((
                p95_ms,
                at(0.5)?.0,
                at(0.95)?.0,
                summary.level,
                summary.endpoint?,
            ))
        })
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match slowest {
        Some((_, p50, p95, level, endpoint)) => {
            format!("{endpoint} is slowest: p50 {p50}, p95 {p95} at {level}; {counts}")
        }
        None => counts,
    }
}
