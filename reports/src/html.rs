//! The report as one HTML file: no request to anywhere, no script, readable in
//! ten seconds and printable.
//!
//! Order: the answer (sentence, verdict, validity, worst cell, next action), the
//! ledger when several steps were measured, then each measurement with its
//! cells, criteria, bystander, event loop, percentiles, streams, course and environment.

mod answer;
mod bystander;
mod capacity;
mod cells;
mod curves;
mod environment;
mod event_loop;
mod forest;
mod ledger;
mod measurement;
mod objectives;
mod observations;
mod panel;
mod streams;
mod table;
mod watched;

use std::fmt::Write as _;

use crate::{Entry, Report, escape};

/// Inline style of the page.
const STYLE: &str = include_str!("html/style.css");

/// Renders the report as one self-contained HTML document.
pub fn render(report: &Report<'_>) -> String {
    let mut out = String::with_capacity(64 * 1024);
    page(&mut out, report).expect("writing to a String cannot fail");
    out
}

fn page(out: &mut String, report: &Report<'_>) -> std::fmt::Result {
    let title = escape::markup(&report.title);
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the answer</a>"
    )?;
    writeln!(
        out,
        "<header class=\"mast\"><p class=\"brand\">Unstall</p><p class=\"title\"><bdi>{title}</bdi></p>\
         <p class=\"when\"><time datetime=\"{when}\">{when}</time></p></header>\n<main id=\"main\">",
        when = escape::markup(&report.generated_utc)
    )?;
    answer::write(out, report)?;
    ledger::write(out, report)?;
    for (index, entry) in report.entries.iter().enumerate() {
        measurement::write(out, index, entry)?;
    }
    let compares = |entry: &Entry<'_>| entry.comparison.is_some() && entry.capacity().is_none();
    let intervals = match report.entries.iter().any(compares) {
        true => "Intervals of changes are signed-rank intervals over pairs of blocks. ",
        false => "",
    };
    writeln!(
        out,
        "</main>\n<footer><p>Make this report again: <code>{}</code></p>\
         <p>{intervals}A block is one process start under one stretch of load.</p></footer>\n\
         </body>\n</html>",
        escape::markup_prose(&report.command)
    )
}

/// The anchor of a measurement.
fn anchor(index: usize) -> String {
    format!("m{}", index + 1)
}
