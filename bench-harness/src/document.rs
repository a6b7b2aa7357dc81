//! The document that `--json` prints: its own form, so that it can stay the same while the
//! types behind it change. Its JSON Schema is generated from here and shipped in `schema/`.

use std::path::Path;

use anyhow::Context;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use unstall_loop_monitor::certificate::RouteVerdict;
use unstall_loop_monitor::watched::WatchSummary;
use unstall_results::calibration::Certificate;
use unstall_results::comparison::Verdict;

use crate::exit::ExitStatus;

mod beside;
pub(crate) mod capacity;
pub(crate) mod comparison;
pub(crate) mod known_change;
mod ledger;
pub(crate) mod measurement;
mod objective;
pub(crate) mod proof;
pub(crate) mod replay;
pub(crate) mod selftest;
mod stored;
pub(crate) mod torture;

pub(crate) use capacity::CapacityDocument;
pub(crate) use comparison::ComparisonDocument;
pub(crate) use ledger::LedgerDocument;
pub(crate) use measurement::RunDocument;
use proof::ProofDocument;
pub(crate) use stored::StoredDocument;

const SCHEMA_NAME: &str = "unstall.result";
const SCHEMA_MAJOR: u32 = 1;
const SCHEMA_MINOR: u32 = 5;

/// What `unstall --json` prints, whatever the command.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Document {
    /// Name and version of this form.
    schema: Schema,
    /// The command, for example `ab` or `scenarios list`; empty if the command line has none.
    command: String,
    /// The judgement over everything, `null` where the command judges nothing.
    verdict: Option<VerdictName>,
    /// 0 pass or proven, or what a policy makes a warning; 1 regression, blocking, unproven or unmet, 2 usage or input, 3 invalid
    /// measurement, 4 inconclusive.
    exit_code: u8,
    /// What went wrong, when the exit code is 2.
    error: Option<ErrorDocument>,
    #[serde(flatten)]
    content: Content,
}

/// Name and version of the form.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Schema {
    /// Always `unstall.result`.
    name: &'static str,
    /// Bumped when a field changes its meaning or disappears.
    major: u32,
    /// Bumped when a field is added.
    minor: u32,
}

/// A mistake and what led to it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ErrorDocument {
    /// What went wrong, and what to do.
    message: String,
    /// Why, the nearest cause first.
    causes: Vec<String>,
}

/// What the command found. Lists that do not apply are empty.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Content {
    /// Two versions each, judged.
    pub(crate) comparisons: Vec<ComparisonDocument>,
    /// How much one or two versions each can take.
    pub(crate) capacities: Vec<CapacityDocument>,
    /// One version each, measured.
    pub(crate) runs: Vec<RunDocument>,
    /// One process and what is proven of it, for `prove`; else `null`.
    pub(crate) proof: Option<ProofDocument>,
    /// Scenarios, for `scenarios list` and `scenarios check`.
    pub(crate) scenarios: Vec<ScenarioDocument>,
    /// What one version against itself showed of this machine, for `calibrate`; else `null`. Since 1.4.
    pub(crate) calibration: Option<Certificate>,
    /// What `selftest monitor` found; else `null`.
    pub(crate) selftest: Option<selftest::SelftestDocument>,
    /// What `selftest http` found; else `null`. Since 1.3.
    pub(crate) torture: Option<torture::TortureDocument>,
    /// What `selftest gate` found; else `null`. Since 1.4.
    pub(crate) known_changes: Option<known_change::KnownChangeDocument>,
    /// What became of each step, where steps of a migration plan were compared; else `null`. Since 1.5.
    pub(crate) ledger: Option<LedgerDocument>,
    /// A migration step by step, for `replay`; else `null`. Since 1.5.
    pub(crate) replay: Option<replay::ReplayDocument>,
    /// What was seen of a process, for `watch`.
    pub(crate) watch: Option<WatchSummary>,
    /// Records on disk, for `results`. Since 1.4.
    pub(crate) records: Vec<StoredDocument>,
    /// Files written.
    pub(crate) files: Vec<FileDocument>,
    /// What a reader must know besides, one sentence each.
    pub(crate) notes: Vec<String>,
    /// The text that the command exists to print, for `scenarios show` and `schema`, and for `report`
    /// as Markdown or CSV where no file is named.
    pub(crate) text: Option<String>,
}

/// One scenario.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ScenarioDocument {
    /// Its name.
    pub(crate) name: String,
    /// One sentence.
    pub(crate) describe: String,
    /// Its endpoints, in the order in which a user calls them.
    pub(crate) endpoints: Vec<String>,
}

/// One file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct FileDocument {
    /// What it is.
    pub(crate) kind: FileKind,
    /// Where it is.
    pub(crate) path: String,
}

impl FileDocument {
    pub(crate) fn new(kind: FileKind, path: &Path) -> Self {
        Self {
            kind,
            path: path.display().to_string(),
        }
    }

    /// In a line of what a measurement wrote.
    pub(crate) fn line(&self) -> String {
        let what = match self.kind {
            FileKind::Export => "Export",
            _ => "Record",
        };
        format!("{what}: {}\n", self.path)
    }

    /// The same with what makes a page of it.
    pub(crate) fn lines(&self) -> String {
        let mut lines = self.line();
        if matches!(self.kind, FileKind::Record) {
            lines.push_str(&format!(
                "HTML:   unstall report {} -o report.html\n",
                self.path
            ));
        }
        lines
    }
}

/// Kinds of files that commands write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileKind {
    /// A record, for `compare`, `gate` and `report`.
    Record,
    /// The report, in the form that was asked for.
    Report,
    /// The ledger of a migration, Markdown.
    Ledger,
    /// JUnit XML.
    Junit,
    /// Markdown.
    Markdown,
    /// A certificate, JSON.
    Certificate,
    /// What was measured in the form of another tool, for `--export`.
    Export,
}

/// A verdict, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VerdictName {
    /// No regression, every judged cell is within its harm limit, and every objective is met.
    Pass,
    /// At least one judged cell is significantly worse, or an objective is missed.
    Regression,
    /// A fault of our own: the numbers must not be used.
    Invalid,
    /// Not enough evidence either way.
    Inconclusive,
    /// Every route was exercised and made no call that can block.
    Proven,
    /// At least one route made a call that can block.
    Blocking,
    /// At least one route was not exercised, or nothing could be caught.
    Unproven,
    /// At least one bar of a self-test is not met.
    Unmet,
}

impl From<Verdict> for VerdictName {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Pass,
            Verdict::Regression => Self::Regression,
            Verdict::Invalid => Self::Invalid,
            Verdict::Inconclusive => Self::Inconclusive,
        }
    }
}

impl From<RouteVerdict> for VerdictName {
    fn from(verdict: RouteVerdict) -> Self {
        match verdict {
            RouteVerdict::Proven => Self::Proven,
            RouteVerdict::Blocking => Self::Blocking,
            RouteVerdict::Unproven => Self::Unproven,
        }
    }
}

impl Document {
    /// The document of a command that did its work.
    pub(crate) fn new(
        command: &str,
        verdict: Option<VerdictName>,
        status: ExitStatus,
        content: Content,
    ) -> Self {
        Self {
            schema: Schema {
                name: SCHEMA_NAME,
                major: SCHEMA_MAJOR,
                minor: SCHEMA_MINOR,
            },
            command: command.to_owned(),
            verdict,
            exit_code: status.code(),
            error: None,
            content,
        }
    }

    /// The document of a command that could not.
    pub(crate) fn of_error(command: &str, status: ExitStatus, error: &anyhow::Error) -> Self {
        let mut document = Self::new(command, None, status, Content::default());
        document.error = Some(ErrorDocument {
            message: error.to_string(),
            causes: error.chain().skip(1).map(ToString::to_string).collect(),
        });
        document
    }

    /// As it is printed.
    pub(crate) fn to_json(&self) -> anyhow::Result<String> {
        let mut text = serde_json::to_string_pretty(self)
            .context("the result could not be written as JSON; this is a fault of unstall")?;
        text.push('\n');
        Ok(text)
    }
}

/// The JSON Schema of [`Document`].
pub(crate) fn schema() -> anyhow::Result<String> {
    // As it is written, where every field is there: `null` stands for what is not known.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Document>();
    let mut text = serde_json::to_string_pretty(&schema).context("the schema is no JSON")?;
    text.push('\n');
    Ok(text)
}

/// JSON has no infinities: what is not finite is not known.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_schema_is_the_generated_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/result.schema.json");
        let generated = schema().expect("a schema");
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(&path, &generated).expect("schema/ can be written");
        }
        let shipped = std::fs::read_to_string(&path).expect("schema/result.schema.json");
        // Not assert_eq: it would print both schemas on one line each.
        assert!(
            shipped == generated,
            "run this test with INSTA_UPDATE=always and commit"
        );
    }
}
