//! `unstall results …`: records on disk. Nothing here measures; what is judged is judged by the
//! default policy and changes no exit code.

use std::path::Path;

use anyhow::bail;
use unstall_results::record::RunRecord;
use unstall_results::store;

use crate::arguments::ResultsCommand;
use crate::console::{Console, Outcome};
use crate::document::{Content, FileDocument, FileKind};

mod baseline;
mod export;
mod import;
mod list;
mod merge;
mod show;

pub(crate) fn execute(command: ResultsCommand, console: &Console) -> anyhow::Result<Outcome> {
    match command {
        ResultsCommand::List { folder } => list::execute(&folder),
        ResultsCommand::Show { record } => show::execute(&record, console),
        ResultsCommand::Merge(arguments) => merge::execute(&arguments),
        ResultsCommand::Import(arguments) => import::execute(&arguments),
        ResultsCommand::Export(arguments) => export::execute(&arguments),
        ResultsCommand::Baseline(command) => baseline::execute(command),
    }
}

/// Writes a record where none was, or where one may be replaced.
fn write(path: &Path, record: &RunRecord, force: bool) -> anyhow::Result<FileDocument> {
    refuse_to_replace(path, force)?;
    store::write(path, record)?;
    Ok(FileDocument::new(FileKind::Record, path))
}

fn refuse_to_replace(path: &Path, force: bool) -> anyhow::Result<()> {
    if path.exists() && !force {
        bail!(
            "{} exists; choose another --out, or add --force to replace it",
            path.display()
        );
    }
    Ok(())
}

/// A file was written, and this is to be known of it.
fn written(file: FileDocument, notes: Vec<String>) -> Outcome {
    let mut text = file.lines();
    for note in &notes {
        text.push_str(&format!("note: {note}\n"));
    }
    Outcome {
        verdict: None,
        status: None,
        text,
        content: Content {
            files: vec![file],
            notes,
            ..Content::default()
        },
    }
}
