//! A workspace as a row of a database, and its key as the columns that hold it.

use sqlx::types::Uuid;

use super::failure::damaged;
use super::stored_values::{read_moment, read_number, stored_moment, stored_number};
use crate::domain::{
    BaseRef, BranchName, CacheId, ConversationId, FencingToken, Invalid, KeyParts, LocalPath,
    ProjectId, Purpose, SandboxError, Subject, TaskId, UserId, Workspace, WorkspaceId,
    WorkspaceKey, WorkspaceMode, WorkspaceState,
};

/// The columns of `sandbox_workspaces`.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct WorkspaceRow {
    pub(super) id: Uuid,
    pub(super) repo_cache_id: Uuid,
    pub(super) project_id: String,
    pub(super) user_id: String,
    pub(super) mode: String,
    pub(super) conversation_id: Option<String>,
    pub(super) task_id: Option<String>,
    pub(super) base_ref: String,
    pub(super) branch_name: Option<String>,
    pub(super) local_path: String,
    pub(super) state: String,
    pub(super) dirty: bool,
    pub(super) pinned_until_us: Option<i64>,
    pub(super) last_used_at_us: i64,
    pub(super) size_bytes: Option<i64>,
    pub(super) version: i64,
    pub(super) token: i64,
    pub(super) commands_token: i64,
    pub(super) created_at_us: i64,
    pub(super) updated_at_us: i64,
}

impl TryFrom<&Workspace> for WorkspaceRow {
    type Error = Invalid;

    fn try_from(workspace: &Workspace) -> Result<Self, Invalid> {
        let key = WorkspaceKey::derive(KeyParts {
            user_id: &workspace.key.user_id,
            project_id: &workspace.key.project_id,
            mode: workspace.key.mode(),
            base_ref: &workspace.base_ref,
            branch_name: workspace.branch_name.as_ref(),
            conversation_id: workspace.conversation_id.as_ref(),
            task_id: workspace.task_id.as_ref(),
        })?;
        if key != workspace.key {
            return Err(Invalid::new(
                "workspace",
                &workspace.key.to_string(),
                "its parts make another key than it has; derive the key of its parts",
            ));
        }
        let size_bytes = workspace
            .size_bytes
            .map(|bytes| stored_number("size in bytes", bytes));
        Ok(Self {
            id: workspace.id.as_uuid(),
            repo_cache_id: workspace.repo_cache_id.as_uuid(),
            project_id: key.project_id.as_str().to_owned(),
            user_id: key.user_id.as_str().to_owned(),
            mode: key.mode().as_str().to_owned(),
            conversation_id: owned(
                workspace
                    .conversation_id
                    .as_ref()
                    .map(ConversationId::as_str),
            ),
            task_id: owned(workspace.task_id.as_ref().map(TaskId::as_str)),
            base_ref: workspace.base_ref.as_str().to_owned(),
            branch_name: owned(workspace.branch_name.as_ref().map(BranchName::as_str)),
            local_path: workspace.local_path.as_str().to_owned(),
            state: workspace.state.as_str().to_owned(),
            dirty: workspace.dirty,
            pinned_until_us: workspace.pinned_until.map(stored_moment),
            last_used_at_us: stored_moment(workspace.last_used_at),
            size_bytes: size_bytes.transpose()?,
            version: stored_number("version", workspace.version)?,
            token: stored_number("fencing token", workspace.token.get())?,
            commands_token: stored_number("fencing token", workspace.commands_token.get())?,
            created_at_us: stored_moment(workspace.created_at),
            updated_at_us: stored_moment(workspace.updated_at),
        })
    }
}

impl TryFrom<WorkspaceRow> for Workspace {
    type Error = SandboxError;

    fn try_from(row: WorkspaceRow) -> Result<Self, SandboxError> {
        let id = WorkspaceId::from_uuid(row.id);
        read(&row, id).map_err(damaged(Subject::Workspace(id)))
    }
}

fn read(row: &WorkspaceRow, id: WorkspaceId) -> Result<Workspace, Invalid> {
    let conversation_id = row.conversation_id.as_deref().map(ConversationId::parse);
    let conversation_id = conversation_id.transpose()?;
    let task_id = row.task_id.as_deref().map(TaskId::parse).transpose()?;
    let base_ref = BaseRef::parse(&row.base_ref)?;
    let branch_name = row.branch_name.as_deref().map(BranchName::parse);
    let branch_name = branch_name.transpose()?;
    let key = WorkspaceKey::derive(KeyParts {
        user_id: &UserId::parse(&row.user_id)?,
        project_id: &ProjectId::parse(&row.project_id)?,
        mode: WorkspaceMode::from_stored(&row.mode)?,
        base_ref: &base_ref,
        branch_name: branch_name.as_ref(),
        conversation_id: conversation_id.as_ref(),
        task_id: task_id.as_ref(),
    })?;
    let size_bytes = row
        .size_bytes
        .map(|bytes| read_number("size in bytes", bytes));
    Ok(Workspace {
        id,
        repo_cache_id: CacheId::from_uuid(row.repo_cache_id),
        key,
        conversation_id,
        task_id,
        base_ref,
        branch_name,
        local_path: LocalPath::parse(&row.local_path)?,
        state: WorkspaceState::from_stored(&row.state)?,
        dirty: row.dirty,
        pinned_until: row.pinned_until_us.map(read_moment).transpose()?,
        last_used_at: read_moment(row.last_used_at_us)?,
        size_bytes: size_bytes.transpose()?,
        version: read_number("version", row.version)?,
        token: FencingToken::new(read_number("fencing token", row.token)?),
        commands_token: FencingToken::new(read_number("fencing token", row.commands_token)?),
        created_at: read_moment(row.created_at_us)?,
        updated_at: read_moment(row.updated_at_us)?,
    })
}

/// Reads the state of a live workspace alone.
pub(super) fn read_workspace_state(
    id: WorkspaceId,
    stored: Option<String>,
) -> Result<Option<WorkspaceState>, SandboxError> {
    let state = stored.as_deref().map(WorkspaceState::from_stored);
    state.transpose().map_err(damaged(Subject::Workspace(id)))
}

/// A key as what its columns must equal. Of the four that can be `None` one isn't, and `None` equals
/// nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyColumns<'a> {
    pub(super) user_id: &'a str,
    pub(super) project_id: &'a str,
    pub(super) mode: &'static str,
    pub(super) base_ref: Option<&'a str>,
    pub(super) conversation_id: Option<&'a str>,
    /// Of a workspace without a conversation.
    pub(super) branch_name: Option<&'a str>,
    pub(super) task_id: Option<&'a str>,
}

impl<'a> KeyColumns<'a> {
    pub(super) fn of(key: &'a WorkspaceKey) -> Self {
        let mut columns = Self {
            user_id: key.user_id.as_str(),
            project_id: key.project_id.as_str(),
            mode: key.mode().as_str(),
            base_ref: None,
            conversation_id: None,
            branch_name: None,
            task_id: None,
        };
        match &key.purpose {
            Purpose::Analysis(base) => columns.base_ref = Some(base.as_str()),
            Purpose::Conversation(id) => columns.conversation_id = Some(id.as_str()),
            Purpose::Branch(branch) => columns.branch_name = Some(branch.as_str()),
            Purpose::Task(id) => columns.task_id = Some(id.as_str()),
        }
        columns
    }
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}
