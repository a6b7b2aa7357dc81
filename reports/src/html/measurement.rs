//! One measurement: its heading and its parts in order.

use std::fmt::Write as _;

use unstall_results::calibration::Certificate;
use unstall_results::comparison::Comparison;
use unstall_results::level::blindness;
use unstall_results::record::RunRecord;
use unstall_results::summary::near_the_floor;

use super::{
    answer, answers, capacity, cells, course, curves, objectives, observations, permalink, streams,
    trust, why,
};
use crate::ranking::Group;
use crate::{Entry, escape, numbers, observed, ranking};

/// Items of a list that are shown at once.
const ITEMS_SHOWN: usize = 8;
/// Items of a list that are shown at all.
const ITEMS_MAX: usize = 200;

/// Writes one measurement.
pub(super) fn write(
    out: &mut String,
    index: usize,
    entry: &Entry<'_>,
    certificate: Option<&Certificate>,
) -> std::fmt::Result {
    let anchor = permalink::measurement(index);
    writeln!(
        out,
        "<section class=\"measurement\" id=\"{anchor}\" aria-labelledby=\"{anchor}-title\">"
    )?;
    match (entry.comparison, entry.capacity()) {
        (Some(comparison), _) => compared(out, &anchor, entry, comparison, certificate)?,
        (None, Some(finding)) => capacity::write(out, &anchor, entry, &finding)?,
        (None, None) => single(out, &anchor, entry)?,
    }
    writeln!(out, "</section>")
}

fn compared(
    out: &mut String,
    anchor: &str,
    entry: &Entry<'_>,
    comparison: &Comparison,
    certificate: Option<&Certificate>,
) -> std::fmt::Result {
    let title = comparison.step.as_ref().map_or_else(String::new, |step| {
        format!(
            " <span class=\"soft\"><bdi>{}</bdi></span>",
            escape::markup(&step.title)
        )
    });
    writeln!(
        out,
        "<h2 id=\"{anchor}-title\"><bdi>{}</bdi>{title} {}</h2>\n<p class=\"lead\">{}</p>",
        escape::markup(&entry.short_name()),
        answer::pill(comparison.verdict),
        escape::markup_prose(&comparison.headline)
    )?;
    about(out, comparison)?;
    contents(out, anchor, entry.record, "What changed")?;
    list(out, "Faults", "fault", &comparison.validity.faults)?;
    list(out, "Warnings", "warning", &comparison.validity.warnings)?;
    list(out, "Reasons", "why", &comparison.reasons)?;
    writeln!(
        out,
        "<p class=\"do\"><strong>Next:</strong> {}</p>\n<h3 id=\"{anchor}-changed\">What changed</h3>",
        escape::markup_prose(&comparison.next_action)
    )?;
    objectives::write(out, comparison)?;
    cells::write(out, anchor, comparison)?;
    cells::write_criteria(out, comparison)?;
    let worst_first: Vec<&str> = ranking::cells(comparison, Group::Judged)
        .into_iter()
        .filter_map(|cell| cell.endpoint.as_deref())
        .collect();
    evidence(out, anchor, entry.record, &worst_first)?;
    trust::write_compared(out, anchor, entry.record, comparison, certificate)
}

/// What both kinds of measurement have between their results and the reasons to trust them.
fn evidence(
    out: &mut String,
    anchor: &str,
    record: &RunRecord,
    first: &[&str],
) -> std::fmt::Result {
    why::write(out, anchor, record)?;
    curves::write(out, anchor, record, first)?;
    streams::write(out, anchor, record)?;
    answers::write(out, record)?;
    course::write(out, anchor, record)
}

/// Links to the parts that follow. `results` is what the first one is called.
fn contents(out: &mut String, anchor: &str, record: &RunRecord, results: &str) -> std::fmt::Result {
    let number = anchor.trim_start_matches('m');
    write!(
        out,
        "<nav class=\"parts\" aria-label=\"Parts of measurement {number}\"><a href=\"#{anchor}-changed\">{results}</a>"
    )?;
    let has_blocks = !record.blocks.is_empty();
    let has_times = has_blocks && !observed::endpoints(record).is_empty();
    for (part, name, is_there) in [
        ("why", "Why", has_blocks),
        ("times", "Response times", has_times),
        ("course", "Course", has_blocks),
    ] {
        if is_there {
            write!(out, " <a href=\"#{anchor}-{part}\">{name}</a>")?;
        }
    }
    writeln!(out, " <a href=\"#{anchor}-trust\">Trust</a></nav>")
}

fn about(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    let mut parts = Vec::new();
    if let Some(step) = &comparison.step {
        parts.push(format!(
            "branch <code>{}</code>",
            escape::markup(&step.branch)
        ));
        parts.push(format!("risk {}", escape::markup(&step.risk)));
        parts.push(format!("expected: {}", escape::markup_prose(&step.impact)));
    }
    parts.push(format!("scenario {}", escape::markup(&comparison.scenario)));
    if !comparison.paired {
        parts.push("<strong>unpaired: measured in two sessions</strong>".to_owned());
    }
    writeln!(out, "<p class=\"about\">{}</p>", parts.join(" · "))
}

fn list(out: &mut String, title: &str, class: &str, texts: &[String]) -> std::fmt::Result {
    if texts.is_empty() {
        return Ok(());
    }
    writeln!(out, "<div class=\"list {class}\"><h3>{title}</h3>")?;
    items(out, texts)?;
    writeln!(out, "</div>")
}

/// Items of a list: the first few at once, more behind a fold, and of very many how many they are.
pub(super) fn items(out: &mut String, texts: &[String]) -> std::fmt::Result {
    let write_all = |out: &mut String, texts: &[String]| -> std::fmt::Result {
        writeln!(out, "<ul>")?;
        for text in texts {
            writeln!(out, "<li>{}</li>", escape::markup_prose(text))?;
        }
        writeln!(out, "</ul>")
    };
    let (shown, folded) = texts.split_at(texts.len().min(ITEMS_SHOWN));
    write_all(out, shown)?;
    if folded.is_empty() {
        return Ok(());
    }
    let count = u64::try_from(folded.len()).unwrap_or(u64::MAX);
    writeln!(
        out,
        "<details><summary>{} more</summary>",
        numbers::count(count)
    )?;
    let kept = folded.len().min(ITEMS_MAX);
    write_all(out, &folded[..kept])?;
    super::table::more(out, folded.len() - kept, " that no page can hold")?;
    writeln!(out, "</details>")
}

fn single(out: &mut String, anchor: &str, entry: &Entry<'_>) -> std::fmt::Result {
    let record = entry.record;
    writeln!(
        out,
        "<h2 id=\"{anchor}-title\"><bdi>{}</bdi></h2>\n<p class=\"about\">scenario {}</p>",
        escape::markup(&entry.short_name()),
        escape::markup(&record.scenario.name)
    )?;
    contents(out, anchor, record, "What was seen")?;
    list(out, "Warnings", "warning", &near_the_floor(record))?;
    writeln!(out, "<h3 id=\"{anchor}-changed\">What was seen</h3>")?;
    observations::write(out, record)?;
    evidence(out, anchor, record, &[])?;
    let blind: Vec<String> = blindness(&record.load)
        .map(str::to_owned)
        .into_iter()
        .collect();
    trust::write(out, anchor, record, &blind)
}
