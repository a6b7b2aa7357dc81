//! A certificate of a machine in a terminal: how often identical code alarmed, and what so many
//! pairs would find.

use unstall_results::calibration::{CellNoise, Certificate, Share, VerdictCounts};
use unstall_results::comparison::{Metric, Scale};
use unstall_results::level::Level;

use super::{Page, Style, align, fit, shorten};
use crate::{escape, numbers, vocabulary};

/// Renders a certificate as plain text with optional ANSI colours, ending in a newline.
pub fn render(certificate: &Certificate, style: Style) -> String {
    let style = Style {
        width: style.width.max(60),
        ..style
    };
    let mut page = Page {
        style,
        text: String::new(),
    };
    let design = &certificate.design;
    let title = format!(
        "{}  the same version twice: {}",
        escape::visible(&design.scenario),
        escape::visible(&certificate.target)
    );
    let title = page.paint("1", &shorten(&title, style.width));
    page.line(&title);
    page.wrapped("  ", &surroundings(certificate));
    page.blank();
    alarms(&mut page, certificate);
    page.blank();
    detectable(&mut page, certificate);
    page.text
}

/// Machine and design in one sentence.
fn surroundings(certificate: &Certificate) -> String {
    let (machine, design) = (&certificate.machine, &certificate.design);
    let levels: Vec<String> = design
        .levels
        .iter()
        .map(|level| Level::of_model(&design.load_model, *level).to_string())
        .collect();
    format!(
        "{}, kernel {}; {} of {} requests per endpoint and block at {}; {} a session",
        machine.class,
        machine.kernel,
        vocabulary::plural(u64::from(design.pairs), "pair", "pairs"),
        numbers::count(design.requests_per_endpoint),
        levels.join(", "),
        minutes(certificate.minutes_per_pair * f64::from(design.pairs)),
    )
}

fn minutes(minutes: f64) -> String {
    if minutes < 1.0 {
        format!("{:.0} s", minutes * 60.0)
    } else {
        format!("{minutes:.1} min")
    }
}

fn alarms(page: &mut Page, certificate: &Certificate) {
    let sessions = certificate.sessions.len() as u64;
    page.wrapped(
        "  ",
        &format!(
            "{}: {}.",
            vocabulary::plural(sessions, "session", "sessions"),
            counts(certificate.counts)
        ),
    );
    page.wrapped(
        "  ",
        &format!("False alarms: {}.", share(certificate.false_alarms)),
    );
    if let Some(resampled) = &certificate.resampled {
        page.wrapped(
            "  ",
            &format!(
                "Put together anew from the {} measured: {}; false alarms {}.",
                vocabulary::plural(u64::from(resampled.from_pairs), "pair", "pairs"),
                counts(resampled.counts),
                share(resampled.false_alarms)
            ),
        );
    }
    if let Some(distrust) = certificate.distrust() {
        page.wrapped("  ⊘ ", &format!("{distrust}."));
    }
}

fn counts(counts: VerdictCounts) -> String {
    format!(
        "{} pass, {} inconclusive, {} regression, {} invalid",
        counts.pass, counts.inconclusive, counts.regression, counts.invalid
    )
}

/// What was counted, and what it may stand for.
fn share(share: Share) -> String {
    format!(
        "{} of {}, which is a rate between {} and {} (95 % interval)",
        share.count,
        share.of,
        numbers::share(share.low),
        numbers::share(share.high)
    )
}

/// The judged cells: noise, and the smallest worsening by number of pairs.
fn detectable(page: &mut Page, certificate: &Certificate) {
    let told = certificate
        .cells
        .iter()
        .filter(|cell| !cell.detectable.is_empty());
    let told: Vec<&CellNoise> = told.collect();
    let Some(first) = told.first() else {
        page.line("  No judged cell has enough pairs to say what could be found.");
        return;
    };
    page.wrapped(
        "  ",
        "Smallest worsening that is found 8 times in 10, by number of pairs (* this design). Noise is \
         the standard deviation between pairs; in brackets what the number of requests explains.",
    );
    let mut heads = vec![String::new(), "endpoint".into(), "metric".into()];
    heads.extend(["value".into(), "noise".into()]);
    heads.extend(first.detectable.iter().map(|of| {
        let star = if of.pairs == certificate.design.pairs {
            "*"
        } else {
            ""
        };
        format!("{}{star}", of.pairs)
    }));
    let several = certificate.design.levels.len() > 1;
    let mut rows = vec![heads];
    rows.extend(told.iter().map(|cell| {
        let level = several.then(|| Level::of_model(&certificate.design.load_model, cell.level));
        row(cell, level)
    }));
    let widths = fit(&rows, page.style.width);
    for (index, row) in rows.iter().enumerate() {
        let line = page.paint(if index == 0 { "2" } else { "0" }, &align(row, &widths));
        page.line(&line);
    }
}

fn row(cell: &CellNoise, level: Option<Level>) -> Vec<String> {
    let mut endpoint = match &cell.endpoint {
        Some(name) => escape::visible(name),
        None => "whole service".to_owned(),
    };
    if let Some(level) = level {
        endpoint.push_str(&format!(" {}", super::compact(level)));
    }
    let noise = match cell.sd_within_blocks {
        Some(within) => format!(
            "{} ({})",
            deviation(cell.metric, cell.sd_between_pairs),
            deviation(cell.metric, within)
        ),
        None => deviation(cell.metric, cell.sd_between_pairs),
    };
    let mut row = vec![
        "  ".to_owned(),
        endpoint,
        vocabulary::metric(cell.metric).replace(" per 1\u{202F}000", "/1000 req"),
        numbers::value(cell.metric, cell.value),
        noise,
    ];
    let found = cell.detectable.iter();
    row.extend(found.map(|of| change(cell.metric, of.change)));
    row.iter().map(|text| escape::plain_spaces(text)).collect()
}

/// A scatter on the metric's scale: a share of the value, or in its unit.
fn deviation(metric: Metric, deviation: f64) -> String {
    match metric.scale() {
        Scale::Ratio => numbers::share(deviation.exp_m1()),
        Scale::Difference => numbers::value(metric, deviation),
    }
}

/// What can be found: `+12 %`, or in the metric's unit.
fn change(metric: Metric, change: f64) -> String {
    let number = match metric.scale() {
        Scale::Ratio => 1.0 + change,
        Scale::Difference => change,
    };
    numbers::scaled(metric, metric.scale(), number)
}
