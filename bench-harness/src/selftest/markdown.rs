//! Lists and tables of the self-tests, in Markdown that also reads well in a terminal.

/// Lines below a title; nothing where there are none.
pub(crate) fn list(title: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = lines
        .into_iter()
        .map(|line| format!("- {line}\n"))
        .collect();
    format!("{title}:\n\n{}\n", lines.concat())
}

/// A table of a head and its rows: columns of equal width, by letters.
pub(crate) fn aligned<R: AsRef<[String]>>(rows: &[R]) -> String {
    let columns = rows.first().map_or(0, |row| row.as_ref().len());
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        text.push('|');
        for (cell, width) in row.as_ref().iter().zip(&widths) {
            text.push_str(&format!(" {cell:<width$} |"));
        }
        text.push('\n');
        if index == 0 {
            let rules = widths
                .iter()
                .map(|width| format!("{}|", "-".repeat(width + 2)));
            text.push_str(&format!("|{}\n", rules.collect::<String>()));
        }
    }
    text
}
