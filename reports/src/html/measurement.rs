//! One measurement: its heading and its parts in order.

use std::fmt::Write as _;

use unstall_results::comparison::Comparison;
use unstall_results::level::blindness;
use unstall_results::summary::near_the_floor;

use super::{
    answer, bystander, capacity, cells, curves, environment, event_loop, objectives, observations,
    streams, watched,
};
use crate::ranking::Group;
use crate::{Entry, escape, observed, ranking};

const BLIND: &str = "What this measurement could not see";

/// Writes one measurement.
pub(super) fn write(out: &mut String, index: usize, entry: &Entry<'_>) -> std::fmt::Result {
    let anchor = super::anchor(index);
    writeln!(
        out,
        "<section class=\"measurement\" id=\"{anchor}\" aria-labelledby=\"{anchor}-title\">"
    )?;
    match (entry.comparison, entry.capacity()) {
        (Some(comparison), _) => compared(out, &anchor, entry, comparison)?,
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
    list(out, "Faults", "fault", &comparison.validity.faults)?;
    list(out, "Warnings", "warning", &comparison.validity.warnings)?;
    list(out, "Why", "why", &comparison.reasons)?;
    writeln!(
        out,
        "<p class=\"do\"><strong>Next:</strong> {}</p>",
        escape::markup_prose(&comparison.next_action)
    )?;
    objectives::write(out, comparison)?;
    cells::write(out, comparison)?;
    cells::write_criteria(out, comparison)?;
    bystander::write(out, entry.record)?;
    event_loop::write(out, entry.record)?;
    watched::write(out, entry.record)?;
    let worst_first: Vec<&str> = ranking::cells(comparison, Group::Judged)
        .into_iter()
        .filter_map(|cell| cell.endpoint.as_deref())
        .collect();
    curves::write(out, entry.record, &worst_first)?;
    streams::write(out, entry.record)?;
    observations::write_errors(out, entry.record)?;
    let medians_us = observed::block_medians_us(entry.record);
    curves::write_course(out, entry.record, &medians_us)?;
    environment::write(out, entry.record, &medians_us)?;
    blind_spots(out, comparison)
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
        parts.push("<strong>unpaired: advisory only</strong>".to_owned());
    }
    writeln!(out, "<p class=\"about\">{}</p>", parts.join(" · "))
}

fn list(out: &mut String, title: &str, class: &str, items: &[String]) -> std::fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(out, "<div class=\"list {class}\"><h3>{title}</h3><ul>")?;
    for item in items {
        writeln!(out, "<li>{}</li>", escape::markup_prose(item))?;
    }
    writeln!(out, "</ul></div>")
}

fn blind_spots(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    list(out, BLIND, "blind", &comparison.blind_spots)
}

fn single(out: &mut String, anchor: &str, entry: &Entry<'_>) -> std::fmt::Result {
    let record = entry.record;
    writeln!(
        out,
        "<h2 id=\"{anchor}-title\"><bdi>{}</bdi></h2>\n<p class=\"about\">scenario {}</p>",
        escape::markup(&entry.short_name()),
        escape::markup(&record.scenario.name)
    )?;
    observations::write(out, record)?;
    let blind: Vec<String> = blindness(&record.load)
        .map(str::to_owned)
        .into_iter()
        .collect();
    list(out, "Warnings", "warning", &near_the_floor(record))?;
    list(out, BLIND, "blind", &blind)?;
    observations::write_errors(out, record)?;
    bystander::write(out, record)?;
    event_loop::write(out, record)?;
    watched::write(out, record)?;
    curves::write(out, record, &[])?;
    streams::write(out, record)?;
    let medians_us = observed::block_medians_us(record);
    curves::write_course(out, record, &medians_us)?;
    environment::write(out, record, &medians_us)
}
