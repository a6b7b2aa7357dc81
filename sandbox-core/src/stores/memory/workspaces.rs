//! Workspaces in memory.

use jiff::Timestamp;

use super::super::admission::{WorkspacesFound, admit_workspace};
use super::super::stored_values::{StoredPrecondition, stored_moment, stored_number, stored_token};
use super::super::workspace_row::WorkspaceRow;
use super::super::write_check::{check_commands_token, check_version, check_write};
use super::tables::{Tables, count_of, first_of, page_of};
use crate::domain::{
    CacheId, FencingToken, RuntimeState, SandboxError, Subject, Workspace, WorkspaceId,
    WorkspaceKey, WorkspaceState, to_the_microsecond,
};
use crate::ports::store::{Page, Precondition, WorkspaceEvictionQuery, WorkspaceQuota};

/// The record as a database would give it back.
fn as_kept(workspace: &Workspace) -> Result<Workspace, SandboxError> {
    WorkspaceRow::try_from(workspace)?.try_into()
}

fn is_live(workspace: &Workspace) -> bool {
    workspace.state != WorkspaceState::Deleted
}

impl Tables {
    pub(super) fn insert_workspace(
        &mut self,
        workspace: &Workspace,
        quota: WorkspaceQuota,
    ) -> Result<(), SandboxError> {
        let kept = as_kept(workspace)?;
        let user = &kept.key.user_id;
        let of_user = self
            .live_workspaces()
            .filter(|other| other.key.user_id == *user);
        let found = WorkspacesFound {
            key_is_taken: self.find_workspace_by_key(&kept.key).is_some(),
            of_user: count_of(of_user),
            of_all: count_of(self.live_workspaces()),
        };
        let cache = self.state_of_cache(kept.repo_cache_id);
        admit_workspace(&kept, cache, found, quota)?;
        if self.workspaces.contains_key(&kept.id) {
            return Err(SandboxError::AlreadyExists(Subject::Workspace(kept.id)));
        }
        self.workspaces.insert(kept.id, kept);
        Ok(())
    }

    pub(super) fn find_workspace(&self, id: WorkspaceId) -> Option<&Workspace> {
        let found = self.workspaces.get(&id);
        found.filter(|workspace| is_live(workspace))
    }

    pub(super) fn find_workspace_by_key(&self, key: &WorkspaceKey) -> Option<&Workspace> {
        self.live_workspaces()
            .find(|workspace| workspace.key == *key)
    }

    pub(super) fn update_workspace(
        &mut self,
        workspace: &Workspace,
        when: Precondition,
    ) -> Result<Workspace, SandboxError> {
        let kept = as_kept(workspace)?;
        StoredPrecondition::try_from(&when)?;
        let found = self.live_workspace(kept.id)?;
        check_write(Subject::Workspace(kept.id), (&*found).into(), &when)?;
        found.local_path = kept.local_path;
        found.state = kept.state;
        found.dirty = kept.dirty;
        found.pinned_until = kept.pinned_until;
        found.last_used_at = found.last_used_at.max(kept.last_used_at);
        found.size_bytes = kept.size_bytes;
        found.version += 1;
        found.token = when.token;
        found.updated_at = kept.updated_at;
        Ok(found.clone())
    }

    pub(super) fn touch_workspace(
        &mut self,
        id: WorkspaceId,
        commands_token: Option<FencingToken>,
        used_at: Timestamp,
    ) -> Result<(), SandboxError> {
        stored_token(commands_token)?;
        let found = self.live_workspace(id)?;
        let newest = found.commands_token;
        check_commands_token(Subject::Workspace(id), newest, commands_token)?;
        found.last_used_at = found.last_used_at.max(to_the_microsecond(used_at));
        Ok(())
    }

    pub(super) fn mark_workspace_dirty(
        &mut self,
        id: WorkspaceId,
        commands_token: FencingToken,
        used_at: Timestamp,
    ) -> Result<u64, SandboxError> {
        let used_at = to_the_microsecond(used_at);
        stored_number("fencing token", commands_token.get())?;
        let found = self.live_workspace(id)?;
        let newest = found.commands_token;
        check_commands_token(Subject::Workspace(id), newest, Some(commands_token))?;
        found.dirty = true;
        found.commands_token = commands_token;
        found.version += 1;
        found.last_used_at = found.last_used_at.max(used_at);
        found.updated_at = used_at;
        Ok(found.version)
    }

    pub(super) fn mark_workspace_clean(
        &mut self,
        id: WorkspaceId,
        version: u64,
        commands_token: FencingToken,
        now: Timestamp,
    ) -> Result<u64, SandboxError> {
        stored_number("version", version)?;
        stored_number("fencing token", commands_token.get())?;
        let found = self.live_workspace(id)?;
        let newest = found.commands_token;
        check_commands_token(Subject::Workspace(id), newest, Some(commands_token))?;
        check_version(Subject::Workspace(id), version, found.version)?;
        found.dirty = false;
        found.version += 1;
        found.updated_at = to_the_microsecond(now);
        Ok(found.version)
    }

    pub(super) fn list_workspaces_by_repo(
        &self,
        cache: CacheId,
        page: Page<WorkspaceId>,
    ) -> Vec<Workspace> {
        page_of(&self.workspaces, page, |workspace| {
            is_live(workspace) && workspace.repo_cache_id == cache
        })
    }

    pub(super) fn list_workspaces(&self, page: Page<WorkspaceId>) -> Vec<Workspace> {
        page_of(&self.workspaces, page, is_live)
    }

    pub(super) fn find_workspaces_for_eviction(
        &self,
        query: WorkspaceEvictionQuery,
    ) -> Vec<Workspace> {
        let is_pinned = |workspace: &Workspace| {
            let until = workspace.pinned_until.map(stored_moment);
            until.is_some_and(|until_us| until_us > stored_moment(query.now))
        };
        let idle = self.workspaces.values().filter(|workspace| {
            matches!(
                workspace.state,
                WorkspaceState::Ready | WorkspaceState::EvictionBlocked
            ) && workspace.key.mode() == query.mode
                && workspace.dirty == query.dirty
                && stored_moment(workspace.last_used_at) < stored_moment(query.used_before)
                && !is_pinned(workspace)
                && !self.has_running_runtime(workspace.id)
        });
        first_of(idle, query.rows_max, |workspace| {
            (workspace.last_used_at, workspace.id)
        })
    }

    pub(super) fn live_workspaces(&self) -> impl Iterator<Item = &Workspace> {
        let all = self.workspaces.values();
        all.filter(|workspace| is_live(workspace))
    }

    pub(super) fn live_workspace(
        &mut self,
        id: WorkspaceId,
    ) -> Result<&mut Workspace, SandboxError> {
        let found = self.workspaces.get_mut(&id);
        found
            .filter(|workspace| is_live(workspace))
            .ok_or(SandboxError::NotFound(Subject::Workspace(id)))
    }

    fn has_running_runtime(&self, id: WorkspaceId) -> bool {
        self.runtimes.values().any(|runtime| {
            let is_up = matches!(
                runtime.state,
                RuntimeState::Creating | RuntimeState::Running
            );
            is_up && runtime.workspace_id == id
        })
    }
}
