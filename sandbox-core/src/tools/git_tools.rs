//! The tools on the repository: status, diff, commit, push, pull request. The branch is the workspace's,
//! and no input names another.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::cut_text::CHARS_MAX;
use super::failure::ToolFailure;
use super::inputs::{GitCommitInput, GitDiffInput, OpenPrInput};
use crate::domain::tree_path::escaped;
use crate::domain::{BaseRef, TreePath};
use crate::ports::workbench::Workbench;
use crate::ports::workspaces::{Change, ChangeKind, DiffBase};

/// Changes that are told.
const CHANGES_MAX: usize = 1000;

pub(super) async fn status(bench: &dyn Workbench) -> Result<Value, ToolFailure> {
    let status = bench.status().await?;
    let changes: Vec<Value> = status.changes.iter().take(CHANGES_MAX).map(told).collect();
    Ok(json!({
        "success": true,
        "branch": status.branch.as_ref().map(ToString::to_string),
        "head": status.head.as_str(),
        "is_clean": status.changes.is_empty(),
        "has_unpushed_commits": status.has_unsaved_commits,
        "changes": changes,
        "is_truncated": status.is_truncated || status.changes.len() > CHANGES_MAX,
    }))
}

fn told(change: &Change) -> Value {
    let text = |path: &Path| escaped(path.as_os_str().as_bytes());
    let mut told = json!({
        "kind": match change.kind {
            ChangeKind::Untracked => "untracked",
            ChangeKind::Added => "added",
            ChangeKind::Modified => "modified",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Renamed => "renamed",
            ChangeKind::Unmerged => "unmerged",
        },
        "path": text(&change.path),
    });
    if let Some(before) = &change.renamed_from {
        told["renamed_from"] = text(before).into();
    }
    told
}

pub(super) async fn diff(bench: &dyn Workbench, input: GitDiffInput) -> Result<Value, ToolFailure> {
    let base = match input.base {
        None => DiffBase::Head,
        Some(base) => DiffBase::ForkOf(BaseRef::parse(&base)?),
    };
    // No text has more characters than bytes.
    let diff = bench.diff(base, CHARS_MAX).await?;
    Ok(json!({
        "success": true,
        "is_empty": diff.text.is_empty(),
        "diff": diff.text,
        "is_truncated": diff.is_truncated,
    }))
}

pub(super) async fn commit(
    bench: &dyn Workbench,
    input: GitCommitInput,
) -> Result<Value, ToolFailure> {
    if input.message.trim().is_empty() {
        return Err(ToolFailure::Input("`message` is empty".to_owned()));
    }
    let paths = input
        .paths
        .iter()
        .map(|path| Ok(PathBuf::from(TreePath::parse(path)?.as_path())))
        .collect::<Result<Vec<PathBuf>, ToolFailure>>()?;
    let commit = bench.commit(input.message, paths).await?;
    Ok(json!({"success": true, "commit": commit.as_str()}))
}

pub(super) async fn push(bench: &dyn Workbench) -> Result<Value, ToolFailure> {
    let pushed = bench.push().await?;
    Ok(json!({
        "success": true,
        "branch": pushed.branch.as_str(),
        "commit": pushed.commit.as_str(),
    }))
}

pub(super) async fn open_pr(
    bench: &dyn Workbench,
    input: OpenPrInput,
) -> Result<Value, ToolFailure> {
    if input.title.trim().is_empty() {
        return Err(ToolFailure::Input("`title` is empty".to_owned()));
    }
    let opened = bench.open_pull_request(input.title, input.body).await?;
    Ok(json!({"success": true, "number": opened.number, "url": opened.url}))
}
