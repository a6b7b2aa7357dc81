//! `unstall results list`: the records of a folder, each with what it says. A file that can't be
//! read is listed as such and hides no other.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use console::measure_text_width;
use unstall_results::store;

use crate::console::{Outcome, visible};
use crate::document::{Content, StoredDocument};

pub(super) fn execute(folder: &Path) -> anyhow::Result<Outcome> {
    let mut records: Vec<StoredDocument> = files(folder)?
        .into_iter()
        .map(|path| StoredDocument::new(&path, store::read(&path)))
        .collect();
    // By time; what can't be read stands last.
    records.sort_by_key(|record| {
        let created = record.created_utc();
        (created.is_none(), created.map(ToOwned::to_owned))
    });
    let text = if records.is_empty() {
        format!(
            "{} holds no records. `unstall run` and `unstall ab` write them.\n",
            folder.display()
        )
    } else {
        table(&records)
    };
    Ok(Outcome {
        verdict: None,
        status: None,
        text,
        content: Content {
            records,
            ..Content::default()
        },
    })
}

/// The JSON files of a folder, by name.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if folder.is_file() {
        bail!(
            "{} is a file; name its folder, or use `unstall results show`",
            folder.display()
        );
    }
    let read = || {
        format!(
            "{} can't be listed; name the folder that holds records",
            folder.display()
        )
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(read)? {
        let path = entry.with_context(read)?.path();
        let is_hidden = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with('.');
        let is_json = path.extension().is_some_and(|suffix| suffix == "json");
        if is_json && !path.file_name().is_some_and(is_hidden) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Records in columns, and below them what could not be read.
pub(super) fn table(records: &[StoredDocument]) -> String {
    let sound: Vec<Vec<String>> = records.iter().filter_map(StoredDocument::row).collect();
    let has_branch = records.iter().any(|record| record.branch.is_some());
    let mut heads = StoredDocument::HEADS.map(ToOwned::to_owned).to_vec();
    if has_branch {
        heads.insert(0, "branch".to_owned());
    }
    let mut text = String::new();
    if !sound.is_empty() {
        let rows: Vec<Vec<String>> = std::iter::once(heads).chain(sound).collect();
        text = aligned(&rows);
    }
    for record in records {
        if let Some(error) = &record.error {
            let lines = error.lines().map(visible).collect::<Vec<_>>();
            text.push_str(&format!("✕ {}\n", lines.join("\n  ")));
        }
    }
    text
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| measure_text_width(cell))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let space = width.saturating_sub(measure_text_width(cell)) + 2;
            line.push_str(cell);
            line.push_str(&" ".repeat(space));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
