//! Tables: a caption, column headings with scope, and a container that scrolls
//! by itself so that the page never does.

use std::fmt::Write as _;

use crate::numbers;

/// One column.
pub(super) struct Column {
    /// Heading, already safe markup.
    pub(super) title: &'static str,
    /// Numbers stand right.
    pub(super) numeric: bool,
}

/// A column of text.
pub(super) const fn text(title: &'static str) -> Column {
    Column {
        title,
        numeric: false,
    }
}

/// A column of numbers.
pub(super) const fn number(title: &'static str) -> Column {
    Column {
        title,
        numeric: true,
    }
}

/// Opens a table up to its first body row. `caption` is safe markup.
pub(super) fn open(out: &mut String, caption: &str, columns: &[Column]) -> std::fmt::Result {
    open_with_class(out, "", caption, columns)
}

/// The same with a class for the table.
pub(super) fn open_with_class(
    out: &mut String,
    class: &str,
    caption: &str,
    columns: &[Column],
) -> std::fmt::Result {
    // A scrolling container needs focus, so that a keyboard can scroll it.
    write!(
        out,
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Table\">\
         <table class=\"{class}\"><caption><span>{caption}</span></caption><thead><tr>"
    )?;
    for column in columns {
        let class = if column.numeric { " class=\"n\"" } else { "" };
        write!(out, "<th scope=\"col\"{class}>{}</th>", column.title)?;
    }
    writeln!(out, "</tr></thead><tbody>")
}

/// Closes what [`open`] opened.
pub(super) fn close(out: &mut String) -> std::fmt::Result {
    writeln!(out, "</tbody></table></div>")
}

/// One row: a heading cell, then cells that follow the columns. All safe markup.
pub(super) fn row(out: &mut String, columns: &[Column], cells: &[String]) -> std::fmt::Result {
    keyed_row(out, "", columns, cells)
}

/// Says how many rows a table that was cut left out, if it did.
pub(super) fn more(out: &mut String, left: usize, what: &str) -> std::fmt::Result {
    if left == 0 {
        return Ok(());
    }
    let left = u64::try_from(left).unwrap_or(u64::MAX);
    writeln!(
        out,
        "<p class=\"note\">… and {} more{what}.</p>",
        numbers::count(left)
    )
}

/// A row with attributes of its own, such as [`crate::charts::row_key`]: safe markup that begins
/// with a space, or nothing.
pub(super) fn keyed_row(
    out: &mut String,
    attributes: &str,
    columns: &[Column],
    cells: &[String],
) -> std::fmt::Result {
    write!(out, "<tr{attributes}>")?;
    for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
        let class = if column.numeric { " class=\"n\"" } else { "" };
        if index == 0 {
            write!(out, "<th scope=\"row\"{class}>{cell}</th>")?;
        } else {
            write!(out, "<td{class}>{cell}</td>")?;
        }
    }
    writeln!(out, "</tr>")
}
