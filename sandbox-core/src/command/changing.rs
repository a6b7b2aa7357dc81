//! `diff` and `commit`: what a workspace holds, and what is made of it.

use unstall_sandbox_core::domain::{BaseRef, SandboxError, Subject};
use unstall_sandbox_core::ports::workspaces::{CommitIdentity, DiffBase};
use unstall_sandbox_core::service::CommitOrder;

use super::Outcome;
use super::access::token_for;
use super::arguments::{Commit, Diff, Place};
use super::document::{CommitDocument, Content, DiffDocument};
use super::failure::Failure;
use super::ground::Ground;
use super::workshop::{Need, Workshop, workspace_id};

/// As much of a patch as somebody may want to read or pipe.
const PATCH_BYTES_MAX: usize = 16 << 20;

/// Shows a workspace's difference.
pub(super) async fn diff(place: &Place, task: &Diff, ground: &Ground) -> Result<Outcome, Failure> {
    let id = workspace_id(&task.workspace)?;
    let base = match &task.base {
        Some(base) => DiffBase::ForkOf(BaseRef::parse(base)?),
        None => DiffBase::Head,
    };
    let workshop = Workshop::open(place, Need::Looking, ground).await?;
    let diff = workshop.service.diff(id, &base, PATCH_BYTES_MAX).await?;
    let diff = DiffDocument {
        patch: diff.text,
        is_truncated: diff.is_truncated,
    };
    Ok(Outcome {
        text: diff.patch.clone(),
        content: Content {
            diff: Some(diff),
            ..Content::default()
        },
        ..Outcome::default()
    })
}

/// Commits a workspace's changes, and pushes them if that is asked for.
pub(super) async fn commit(
    place: &Place,
    task: &Commit,
    ground: &Ground,
) -> Result<Outcome, Failure> {
    let id = workspace_id(&task.workspace)?;
    let identity = CommitIdentity::new(&task.author_name, &task.author_email)?;
    let workshop = Workshop::open(place, Need::Changing, ground).await?;
    let service = &workshop.service;
    let order = CommitOrder {
        message: task.message.clone(),
        paths: task.paths.clone(),
        identity,
    };
    let commit = service.commit(id, &order).await?;
    let mut text = format!("{commit}\n");
    let mut pushed_to = None;
    if task.push {
        let cache_id = service.find_ready(id).await?.repo_cache_id;
        let cache = service.adapters().store.find_cache(cache_id).await?;
        let cache = cache.ok_or(SandboxError::NotFound(Subject::Cache(cache_id)))?;
        let token = token_for(&cache.repo_url)?;
        let pushed = service.push(id, token.as_ref()).await?;
        text.push_str(&format!("pushed to {}\n", pushed.branch));
        pushed_to = Some(pushed.branch.to_string());
    }
    Ok(Outcome {
        text,
        content: Content {
            commit: Some(CommitDocument {
                id: commit.to_string(),
                pushed_to,
            }),
            ..Content::default()
        },
        ..Outcome::default()
    })
}
