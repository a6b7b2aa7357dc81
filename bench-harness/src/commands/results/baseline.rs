//! `unstall results baseline …`: the records that later ones are gated against.

use std::path::Path;

use unstall_results::baseline::{Baselines, Placed};
use unstall_results::store;

use crate::arguments::BaselineCommand;
use crate::console::Outcome;
use crate::document::{Content, FileDocument, FileKind, StoredDocument};

pub(super) fn execute(command: BaselineCommand) -> anyhow::Result<Outcome> {
    match command {
        BaselineCommand::Set {
            record,
            folder,
            branch,
        } => set(&record, &folder, &branch),
        BaselineCommand::List { folder } => list(&folder),
    }
}

fn set(path: &Path, folder: &Path, branch: &str) -> anyhow::Result<Outcome> {
    let record = store::read(path)?;
    let (file, note) = match Baselines::in_folder(folder).set(&record, branch)? {
        Placed::New { path } => (path, "There was none before.".to_owned()),
        Placed::Replaced { path, older_utc } => {
            (path, format!("It replaces the one of {older_utc}."))
        }
        Placed::Mended { path, damage } => {
            let note = format!("It replaces one that nobody could read: {damage}");
            (path, note)
        }
        Placed::Kept { path, newer_utc } => {
            let note =
                format!("Nothing was written: the one that is there is newer, of {newer_utc}.");
            (path, note)
        }
    };
    let file = FileDocument::new(FileKind::Record, &file);
    Ok(Outcome {
        verdict: None,
        status: None,
        text: format!("{}{note}\n", file.line()),
        content: Content {
            files: vec![file],
            notes: vec![note],
            ..Content::default()
        },
    })
}

fn list(folder: &Path) -> anyhow::Result<Outcome> {
    let found = Baselines::in_folder(folder).list()?;
    let records: Vec<StoredDocument> = found.into_iter().map(StoredDocument::from).collect();
    let text = if records.is_empty() {
        format!("{} holds no baselines.\n", folder.display())
    } else {
        super::list::table(&records)
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
