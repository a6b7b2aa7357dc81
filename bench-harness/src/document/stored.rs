//! Records on disk in the document of `--json`, and their rows in a table.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use unstall_results::baseline::Baseline;
use unstall_results::capacity;
use unstall_results::compare::compare;
use unstall_results::level::Level;
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;
use unstall_results::store::StoreError;

use super::VerdictName;
use crate::console::visible;

/// One file that holds a record, or should.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct StoredDocument {
    /// The file.
    path: String,
    /// Of a baseline: the branch; else `null`.
    pub(crate) branch: Option<String>,
    /// Why it can't be read; else `null`.
    pub(crate) error: Option<String>,
    /// What it is; `null` where it can't be read.
    record: Option<RecordDocument>,
}

/// What a record is, without what was measured.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RecordDocument {
    /// Unique id of the measurement.
    id: String,
    /// Its label.
    label: String,
    /// Name of the scenario.
    scenario: String,
    /// When it was measured, RFC 3339, UTC.
    created_utc: String,
    /// Class of the machine that measured.
    machine_class: String,
    /// Its versions: `run`, or `before` and `after`.
    arms: Vec<String>,
    /// Users at once, or arrivals per second, of each level, in words.
    levels: Vec<String>,
    /// Pairs that can be compared; `null` of one version.
    pairs: Option<u32>,
    /// Stretches of load.
    blocks: u64,
    /// Those of them that may not be used.
    invalid_blocks: u64,
    /// Whether it was stopped before its plan was done.
    interrupted: bool,
    /// Sessions that were merged; 0 where it was measured in one.
    merged_sessions: u64,
    /// The tool that it was imported from; else `null`.
    imported_from: Option<String>,
    /// What the default policy makes of it; `null` where there is nothing to judge.
    verdict: Option<VerdictName>,
}

impl StoredDocument {
    /// Columns of a table.
    pub(crate) const HEADS: [&str; 8] = [
        "measured", "scenario", "label", "machine", "versions", "pairs", "verdict", "file",
    ];

    pub(crate) fn new(path: &Path, read: Result<RunRecord, StoreError>) -> Self {
        let (record, error) = match read {
            Ok(record) => (Some(RecordDocument::from(&record)), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            path: path.display().to_string(),
            branch: None,
            error,
            record,
        }
    }

    /// When it was measured; `None` where it can't be read.
    pub(crate) fn created_utc(&self) -> Option<&str> {
        self.record
            .as_ref()
            .map(|record| record.created_utc.as_str())
    }

    /// Its row, the branch in front where it has one; `None` where it can't be read.
    pub(crate) fn row(&self) -> Option<Vec<String>> {
        let record = self.record.as_ref()?;
        let mut row: Vec<String> = self.branch.iter().map(|of| visible(of)).collect();
        let dash = || "–".to_owned();
        let verdict = record.verdict.map(|verdict| match verdict {
            VerdictName::Pass => "✓ pass",
            VerdictName::Regression => "✕ regression",
            VerdictName::Inconclusive => "? inconclusive",
            _ => "! invalid",
        });
        row.extend([
            record.created_utc.clone(),
            visible(&record.scenario),
            visible(&record.label),
            visible(&record.machine_class),
            match &record.imported_from {
                Some(tool) => format!("{} of {}", record.arms.join(", "), visible(tool)),
                None => record.arms.join(", "),
            },
            record.pairs.map_or_else(dash, |pairs| pairs.to_string()),
            verdict.map_or_else(dash, ToOwned::to_owned),
            visible(&self.path),
        ]);
        Some(row)
    }
}

impl From<Baseline> for StoredDocument {
    fn from(baseline: Baseline) -> Self {
        Self {
            branch: Some(baseline.branch),
            ..Self::new(&baseline.path, baseline.record)
        }
    }
}

impl From<&RunRecord> for RecordDocument {
    fn from(record: &RunRecord) -> Self {
        // What can't be compared has no verdict; `compare` says why.
        let comparison = match record.load.capacity {
            None => compare(record, &Policy::default()).ok(),
            Some(_) => None,
        };
        let capacity = capacity::find(record).ok().flatten();
        let verdict = comparison.as_ref().map(|of| of.verdict);
        let verdict = verdict.or(capacity.and_then(|of| of.verdict));
        let invalid = record.blocks.iter().filter(|block| !block.validity.ok);
        let imported = record.arms.values().find_map(|arm| arm.imported.as_ref());
        let mut arms: Vec<String> = record.arms.keys().cloned().collect();
        // "before" stands before "after".
        arms.reverse();
        let levels = record.load.levels.iter();
        Self {
            id: record.id.clone(),
            label: record.label.clone(),
            scenario: record.scenario.name.clone(),
            created_utc: record.created_utc.clone(),
            machine_class: record.machine.class.clone(),
            arms,
            levels: levels
                .map(|level| Level::of(&record.load, *level).to_string())
                .collect(),
            pairs: comparison.map(|of| of.pairs),
            blocks: record.blocks.len() as u64,
            invalid_blocks: invalid.count() as u64,
            interrupted: record.interrupted,
            merged_sessions: record
                .merged
                .as_ref()
                .map_or(0, |of| of.sessions.len() as u64),
            imported_from: imported.map(|of| of.tool.clone()),
            verdict: verdict.map(VerdictName::from),
        }
    }
}
