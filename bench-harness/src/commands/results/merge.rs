//! `unstall results merge`: sessions of one design as one record.

use unstall_results::merge::{self, MergeOptions};
use unstall_results::store;

use crate::arguments::MergeArguments;
use crate::console::Outcome;
use crate::identity;
use crate::record_file;

pub(super) fn execute(arguments: &MergeArguments) -> anyhow::Result<Outcome> {
    let inputs = arguments.records.iter().map(std::path::PathBuf::as_path);
    record_file::refuse_to_replace("--out", &arguments.out, inputs)?;
    super::refuse_to_replace(&arguments.out, arguments.force)?;
    let mut sessions = Vec::new();
    for path in &arguments.records {
        sessions.push((path.display().to_string(), store::read(path)?));
    }
    let options = MergeOptions {
        id: identity::new_id(),
        harness_version: env!("CARGO_PKG_VERSION").to_owned(),
        label: arguments.label.clone(),
        planned: arguments.planned,
    };
    let record = merge::merge(sessions, &options)?;
    let file = super::write(&arguments.out, &record, arguments.force)?;
    let mut notes: Vec<String> = merge::meaning(&record).into_iter().collect();
    if record.arms.len() > 1 {
        let (before, after) = merge::order(&record);
        notes.push(format!(
            "{} pairs; in {before} of them the version before came first, in {after} the other one.",
            record.load.pairs
        ));
    }
    if let Some(merged) = &record.merged {
        let cut: u32 = merged.sessions.iter().map(|of| of.pairs_left_out).sum();
        if cut > 0 {
            notes.push(format!(
                "{cut} pairs of sessions that were stopped are left out."
            ));
        }
        notes.extend(merged.differences.iter().cloned());
    }
    Ok(super::written(file, notes))
}
