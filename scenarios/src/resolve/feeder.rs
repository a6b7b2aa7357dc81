//! Feeder files: one column of a CSV file with a header line, or one key of a JSONL
//! file. Read whole at load, so that nothing can fail under load.

use std::path::Path;

use serde_json::Value as Json;

use crate::document::{Document, Place, invalid, read_text};
use crate::error::{ScenarioError, suggestion};
use crate::plan::{Feeder, Pick};

pub(crate) fn load(
    document: &Document<'_>,
    place: &Place<'_>,
    file: &str,
    column: &str,
    pick: Pick,
) -> Result<Feeder, ScenarioError> {
    let path = document.beside(file);
    let file_place = place.key("file");
    let extension = path.extension().and_then(|extension| extension.to_str());
    let format = match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("csv") => Format::Csv,
        Some("jsonl" | "ndjson") => Format::JsonLines,
        _ => {
            return Err(document.error(
                &file_place,
                format!("`{file}` is neither .csv nor .jsonl"),
                "name the file by its format, as `rows.csv`",
            ));
        }
    };
    let text = read_text(&path).map_err(|error| match error {
        ScenarioError::Read { source, .. } => document.error(
            &file_place,
            format!("the file {} can't be read: {source}", path.display()),
            "paths are taken from the scenario's folder; check name and permissions",
        ),
        other => other,
    })?;
    document.identify_by(text.as_bytes());
    let values = match format {
        Format::Csv => csv_column(document, &place.key("column"), &path, &text, column)?,
        Format::JsonLines => json_lines_column(&path, &text, column)?,
    };
    if values.is_empty() {
        return Err(document.error(
            &file_place,
            format!("the file {} has no rows", path.display()),
            "add at least one row, below the header line if it is CSV",
        ));
    }
    Ok(Feeder { values, pick })
}

enum Format {
    Csv,
    JsonLines,
}

fn csv_column(
    document: &Document<'_>,
    column_place: &Place<'_>,
    path: &Path,
    text: &str,
    column: &str,
) -> Result<Vec<String>, ScenarioError> {
    // A byte order mark would become part of the first column's name.
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let malformed = |error: &csv::Error| {
        let offset = error.position().map_or(0, |position| position.byte());
        let fix = "give each row as many fields as the header line; quote fields that have a comma";
        let what = match error.kind() {
            csv::ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => format!("the row has {len} fields, the header line {expected_len}"),
            _ => format!("not CSV: {error}"),
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        invalid(path, text, offset, what, fix.to_owned())
    };
    let header = reader.headers().map_err(|error| malformed(&error))?.clone();
    let Some(index) = header.iter().position(|name| name == column) else {
        return Err(document.error(
            column_place,
            format!("the file {} has no column `{column}`", path.display()),
            suggestion(column, header.iter()),
        ));
    };
    reader
        .records()
        .map(|record| {
            let record = record.map_err(|error| malformed(&error))?;
            // Equal lengths are the reader's own check.
            Ok(record.get(index).unwrap_or_default().to_owned())
        })
        .collect()
}

fn json_lines_column(path: &Path, text: &str, column: &str) -> Result<Vec<String>, ScenarioError> {
    let mut values = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let at = offset;
        offset += line.len();
        if line.trim().is_empty() {
            continue;
        }
        let object: serde_json::Map<String, Json> =
            serde_json::from_str(line).map_err(|error| {
                // Serde counts lines within the text that it was given: ours is the file's.
                let message = error.to_string();
                let reason = message.split(" at line ").next().unwrap_or(&message);
                let what = format!("the line is no JSON object: {reason}");
                let fix = "write one JSON object per line, as {\"text\": \"…\"}";
                invalid(path, text, at, what, fix.to_owned())
            })?;
        values.push(match object.get(column) {
            Some(Json::String(value)) => value.clone(),
            Some(value @ (Json::Number(_) | Json::Bool(_))) => value.to_string(),
            Some(_) => {
                let what = format!("`{column}` is neither a string, a number nor a boolean");
                let fix = format!("write {{\"{column}\": \"…\"}}");
                return Err(invalid(path, text, at, what, fix));
            }
            None => {
                let what = format!("the line has no key `{column}`");
                let fix = suggestion(column, object.keys().map(String::as_str));
                return Err(invalid(path, text, at, what, fix));
            }
        });
    }
    Ok(values)
}
