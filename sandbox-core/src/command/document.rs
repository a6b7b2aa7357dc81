//! The document that `--json` prints: its own form, so that it can stay the same while the types behind
//! it change. Its JSON Schema is generated from here and shipped in `schema/`.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;
use unstall_sandbox_core::domain::Workspace;
use unstall_sandbox_core::service::{EvictionOutcome, EvictionReport, SandboxService};

use super::failure::Failure;

/// What `unstall-sandbox --json` prints, whatever the command.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Document {
    schema: Schema,
    /// The command, for example `acquire`; empty if the command line has none.
    command: String,
    /// `pass` or `regression` where something is judged: a command that was run, what the doctor found.
    verdict: Option<&'static str>,
    /// 0 done, 1 what was run failed or the doctor found something, 2 usage or set-up, 130 or 143 stopped.
    exit_code: u8,
    /// What went wrong, when the exit code is 2 or more.
    error: Option<ErrorDocument>,
    #[serde(flatten)]
    content: Content,
}

/// Name and version of the form.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Schema {
    /// Always `unstall.sandbox`.
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

/// What a command found or did: one of these, by the command.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Content {
    /// Of `acquire`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workspace: Option<WorkspaceDocument>,
    /// Of `ls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workspaces: Option<Vec<WorkspaceDocument>>,
    /// Of `exec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunDocument>,
    /// Of `diff`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diff: Option<DiffDocument>,
    /// Of `commit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<CommitDocument>,
    /// Of `evict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) eviction: Option<EvictionDocument>,
    /// Of `doctor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) findings: Option<Vec<FindingDocument>>,
}

/// A workspace.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct WorkspaceDocument {
    /// By which other commands name it.
    pub(super) id: String,
    /// `analysis`, `edit` or `task`.
    mode: &'static str,
    /// For whom it is.
    user: String,
    /// For which project it is.
    project: String,
    /// From what it started.
    base: String,
    /// Its branch; an analysis has none.
    branch: Option<String>,
    /// `creating`, `ready`, `missing`, `evicting` or `eviction_blocked`.
    pub(super) state: &'static str,
    /// May it hold what no commit of others holds?
    pub(super) is_dirty: bool,
    /// The full path of its tree.
    pub(super) path: String,
    /// When it was last used, UTC.
    last_used_at: String,
    /// Bytes on disk, once that was measured.
    size_bytes: Option<u64>,
}

/// What a command did.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunDocument {
    /// Its exit code: 124 after its time, 128 and the signal's number after a signal.
    pub(super) exit_code: i32,
    /// What it wrote, its middle left out if it was long.
    pub(super) stdout: String,
    /// What it complained of, in the same way.
    pub(super) stderr: String,
    /// Was it killed for its time?
    pub(super) timed_out: bool,
    /// Was something left out?
    pub(super) is_truncated: bool,
}

/// How a workspace differs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DiffDocument {
    /// The patch.
    pub(super) patch: String,
    /// Was its end cut off?
    pub(super) is_truncated: bool,
}

/// A commit that was made.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CommitDocument {
    /// Its full id.
    pub(super) id: String,
    /// The branch to which it was pushed.
    pub(super) pushed_to: Option<String>,
}

/// What went, and what stays.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct EvictionDocument {
    /// Bytes that count as used; none where one workspace was named.
    used_bytes: Option<u64>,
    /// Of how many; 0 is without limit.
    volume_bytes: Option<u64>,
    /// Each decision.
    decisions: Vec<DecisionDocument>,
}

/// A decision.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DecisionDocument {
    /// On what: `workspace 0190…`.
    target: String,
    /// `kept`, `would_go`, `gone`, `skipped` or `failed`.
    outcome: &'static str,
    /// Why.
    reason: String,
    /// Why it wasn't done, or to which ref its changes were saved.
    note: Option<String>,
}

/// Something that the doctor looked at.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FindingDocument {
    /// What.
    pub(super) what: &'static str,
    /// Is it as it should be?
    pub(super) is_well: bool,
    /// What was found, and what to do if it isn't well.
    pub(super) found: String,
}

impl Document {
    /// That of a command that was done.
    pub(super) fn of(command: &str, exit_code: u8, content: Content) -> Self {
        let is_judged = content.run.is_some() || content.findings.is_some();
        let word = if exit_code == 0 { "pass" } else { "regression" };
        Self {
            schema: Schema::current(),
            command: command.to_owned(),
            verdict: is_judged.then_some(word),
            exit_code,
            error: None,
            content,
        }
    }

    /// That of one that wasn't.
    pub(super) fn of_failure(command: &str, exit_code: u8, failure: &Failure) -> Self {
        Self {
            schema: Schema::current(),
            command: command.to_owned(),
            verdict: None,
            exit_code,
            error: Some(ErrorDocument {
                message: failure.to_string(),
                causes: failure.causes(),
            }),
            content: Content::default(),
        }
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

impl Schema {
    const fn current() -> Self {
        Self {
            name: "unstall.sandbox",
            major: 1,
            minor: 0,
        }
    }
}

impl WorkspaceDocument {
    /// What its record says.
    pub(super) fn of(service: &SandboxService, workspace: &Workspace) -> Result<Self, Failure> {
        let key = &workspace.key;
        Ok(Self {
            id: workspace.id.to_string(),
            mode: key.mode().as_str(),
            user: key.user_id.to_string(),
            project: key.project_id.to_string(),
            base: workspace.base_ref.to_string(),
            branch: workspace.branch_name.as_ref().map(ToString::to_string),
            state: workspace.state.as_str(),
            is_dirty: workspace.dirty,
            path: service.tree_of(workspace)?.display().to_string(),
            last_used_at: workspace.last_used_at.to_string(),
            size_bytes: workspace.size_bytes,
        })
    }

    /// On a line.
    pub(super) fn line(&self) -> String {
        let dirty = if self.is_dirty { "dirty" } else { "clean" };
        let branch = self.branch.as_deref().unwrap_or("-");
        format!(
            "{}  {:8}  {:8}  {dirty}  {branch}  {}\n",
            self.id, self.mode, self.state, self.path
        )
    }
}

impl EvictionDocument {
    /// What a pass decided and did.
    pub(super) fn of(report: &EvictionReport) -> Self {
        let decisions = report.decisions.iter().map(|(decision, outcome)| {
            let (word, note) = match outcome {
                EvictionOutcome::Kept => ("kept", None),
                EvictionOutcome::WouldGo => ("would_go", None),
                EvictionOutcome::Gone { saved } => {
                    ("gone", saved.as_ref().map(ToString::to_string))
                }
                EvictionOutcome::Skipped(why) => ("skipped", Some(why.clone())),
                EvictionOutcome::Failed(why) => ("failed", Some(why.clone())),
            };
            DecisionDocument {
                target: decision.target.to_string(),
                outcome: word,
                reason: decision.reason.clone(),
                note,
            }
        });
        Self {
            used_bytes: Some(report.disk.used_bytes),
            volume_bytes: Some(report.volume_bytes),
            decisions: decisions.collect(),
        }
    }

    /// One workspace that was named.
    pub(super) fn of_one(target: String, saved: Option<String>) -> Self {
        let decision = DecisionDocument {
            target,
            outcome: "gone",
            reason: "it was named".to_owned(),
            note: saved,
        };
        Self {
            used_bytes: None,
            volume_bytes: None,
            decisions: vec![decision],
        }
    }

    /// A line per decision.
    pub(super) fn lines(&self) -> String {
        let mut text = String::new();
        for decision in &self.decisions {
            let note = decision.note.as_ref().map(|note| format!(" ({note})"));
            text.push_str(&format!(
                "{:8}  {}: {}{}\n",
                decision.outcome,
                decision.target,
                decision.reason,
                note.unwrap_or_default()
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// `INSTA_UPDATE=always` rewrites it.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test reads and writes files without a runtime"
    )]
    fn the_shipped_schema_is_the_one_of_these_types() {
        let schema = schemars::schema_for!(Document);
        let generated = format!(
            "{}\n",
            serde_json::to_string_pretty(&schema).expect("a schema is JSON")
        );
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/sandbox.schema.json");
        if std::env::var("INSTA_UPDATE").is_ok_and(|mode| mode == "always") {
            std::fs::write(&path, &generated).expect("schema/ can be written");
        }
        let shipped = std::fs::read_to_string(&path).expect("schema/sandbox.schema.json");
        assert!(
            shipped == generated,
            "the schema is not that of the types: accept it by INSTA_UPDATE=always"
        );
    }
}
