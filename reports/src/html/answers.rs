//! How large answers were, and how often requests were sent elsewhere.

use std::fmt::Write as _;

use unstall_results::answers::{Answers, answers};
use unstall_results::record::RunRecord;

use super::table;
use crate::{escape, numbers};

/// Rows of the table.
const ROWS_MAX: usize = 400;

/// Writes the table of endpoints whose answers had a body or that redirected, if there are any.
pub(super) fn write(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let found = answers(record);
    if found.is_empty() {
        return Ok(());
    }
    let is_encoded = found.iter().any(Answers::is_encoded);
    let has_redirects = found.iter().any(|one| one.redirects > 0);
    let mut columns = vec![
        table::text("Endpoint"),
        table::text("Arm"),
        table::number("Answers"),
        table::number("Body each"),
    ];
    if is_encoded {
        columns.push(table::number("On the wire each"));
    }
    if has_redirects {
        columns.push(table::number("Redirects"));
    }
    writeln!(out, "<details><summary>Table: answers</summary>")?;
    table::open(out, &caption(is_encoded, has_redirects), &columns)?;
    for one in found.iter().take(ROWS_MAX) {
        let mut cells = vec![
            format!("<bdi>{}</bdi>", escape::markup(&one.endpoint)),
            escape::markup(&one.arm),
            numbers::count(one.completed),
            bytes(one.body_bytes_each()),
        ];
        if is_encoded {
            cells.push(bytes(one.encoded_bytes_each()));
        }
        if has_redirects {
            cells.push(numbers::count(one.redirects));
        }
        table::row(out, &columns, &cells)?;
    }
    table::close(out)?;
    table::more(out, found.len().saturating_sub(ROWS_MAX), "")?;
    writeln!(out, "</details>")
}

fn caption(is_encoded: bool, has_redirects: bool) -> String {
    let mut caption =
        "Mean size of an answer’s body as a program reads it, over all levels.".to_owned();
    if is_encoded {
        caption.push_str(" On the wire: as it came, before its content coding was undone.");
    }
    if has_redirects {
        caption.push_str(" Redirects: followed, each counted, also by requests that failed.");
    }
    caption
}

fn bytes(bytes: Option<f64>) -> String {
    bytes.map_or_else(|| "–".to_owned(), numbers::bytes)
}
