//! The report as one HTML file: no request to anywhere, readable in ten seconds and printable.
//!
//! Order: the answer (sentence, verdict, validity, worst cell, what held the loop, next action), the
//! ledger when several steps were measured, then each measurement: what changed, why, response
//! times, course, trust.
//!
//! Everything is there without a script. The one that is inline filters cells, lights up a mark of a
//! chart with its row, and keeps the reader's choices in the address; the policy of the page
//! lets no other script run.

mod answer;
mod answers;
mod blame;
mod blocks;
mod bystander;
mod capacity;
mod cells;
mod certificate;
mod course;
mod curves;
mod environment;
mod event_loop;
mod forest;
mod ledger;
mod measurement;
mod objectives;
mod observations;
mod panel;
mod permalink;
mod streams;
mod table;
mod trust;
mod watched;
mod why;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::{Entry, Report, escape};

/// Inline style of the page.
const STYLE: &str = include_str!("html/style.css");
/// Inline script of the page: what it adds to a page that works without it.
const SCRIPT: &str = include_str!("html/page.js");

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
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the answer</a>",
        policy = policy()
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
        measurement::write(out, index, entry, report.certificate)?;
    }
    let compares = |entry: &Entry<'_>| entry.comparison.is_some_and(|compared| compared.paired);
    let intervals = match report.entries.iter().any(compares) {
        true => "Intervals of changes are signed-rank intervals over pairs of blocks. ",
        false => "",
    };
    writeln!(
        out,
        "</main>\n<footer><p>Make this report again: <code>{}</code></p>\
         <p>{intervals}A block is one process start under one stretch of load.</p></footer>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>",
        escape::markup_prose(&report.command)
    )
}

/// What the page may do: run this one script and nothing else, ask nobody for anything.
fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; img-src data:; \
         base-uri 'none'; form-action 'none'"
    )
}
