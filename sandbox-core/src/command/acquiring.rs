//! `acquire`: gets a workspace.

use std::path::Path;

use unstall_sandbox_core::domain::{
    BaseRef, BranchName, ConversationId, ProjectId, RepoName, RepoUrl, TaskId, UserId,
    WorkspaceMode, WorkspaceRequest,
};
use unstall_sandbox_core::service::{CacheRequest, SandboxService};

use super::Outcome;
use super::access::{default_url, token_for};
use super::arguments::{Acquire, Mode, Place};
use super::document::{Content, WorkspaceDocument};
use super::failure::Failure;
use super::ground::Ground;
use super::workshop::{Need, Workshop};

/// Gets the workspace, and says where it is.
pub(super) async fn acquire(
    place: &Place,
    task: &Acquire,
    ground: &Ground,
) -> Result<Outcome, Failure> {
    let mut request = request_of(task)?;
    let workshop = Workshop::open(place, Need::Changing, ground).await?;
    let service = &workshop.service;
    if task.base.is_none() {
        request.base_ref = main_branch(service, &request).await?;
    }
    let session = service.acquire_session(&request).await?;
    if task.prepare {
        service.prepare_for(&request).await?;
    }
    let workspace = WorkspaceDocument::of(service, &session.workspace)?;
    let path = Path::new(&workspace.path).display();
    let text = format!("{}  {path}\n", workspace.id);
    let content = Content {
        workspace: Some(workspace),
        ..Content::default()
    };
    Ok(Outcome {
        text,
        content,
        ..Outcome::default()
    })
}

fn request_of(task: &Acquire) -> Result<WorkspaceRequest, Failure> {
    let repo_name = RepoName::parse(&task.repo)?;
    let url = match &task.url {
        Some(url) => RepoUrl::parse(url)?,
        None => default_url(&repo_name)?,
    };
    // Taken for the resolved one until that is known; no request is sent with it.
    let base_ref = BaseRef::parse(task.base.as_deref().unwrap_or("main"))?;
    Ok(WorkspaceRequest {
        user_id: UserId::parse(&task.user)?,
        project_id: ProjectId::parse(&task.project)?,
        repo_name,
        base_ref,
        mode: match task.mode {
            Mode::Analysis => WorkspaceMode::Analysis,
            Mode::Edit => WorkspaceMode::Edit,
            Mode::Task => WorkspaceMode::Task,
        },
        conversation_id: optional(task.conversation.as_deref(), ConversationId::parse)?,
        task_id: optional(task.task.as_deref(), TaskId::parse)?,
        branch_name: optional(task.branch.as_deref(), BranchName::parse)?,
        create_branch: task.create_branch,
        auth_token: token_for(&url)?,
        repo_url: Some(url),
    })
}

fn optional<T, E>(text: Option<&str>, parse: fn(&str) -> Result<T, E>) -> Result<Option<T>, Failure>
where
    Failure: From<E>,
{
    Ok(text.map(parse).transpose()?)
}

/// The default branch as the origin names it; which that is isn't assumed.
async fn main_branch(
    service: &SandboxService,
    request: &WorkspaceRequest,
) -> Result<BaseRef, Failure> {
    let wanted = CacheRequest::of(request)?;
    match service.default_branch(&wanted).await? {
        Some(branch) => Ok(BaseRef::parse(branch.as_str())?),
        None => Err(Failure::Usage(format!(
            "{} has no main branch, as it is empty; push a commit to it first",
            request.repo_name
        ))),
    }
}
