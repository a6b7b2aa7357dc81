//! What the store's port asks of runtimes, in memory.

use jiff::Timestamp;

use super::super::admission::{RuntimesFound, admit_runtime};
use super::super::runtime_row::RuntimeRow;
use super::super::stored_values::{StoredPrecondition, stored_moment, stored_token};
use super::super::write_check::{check_commands_token, check_write};
use super::tables::{Tables, count_of, first_of, page_of};
use crate::domain::{
    FencingToken, Runtime, RuntimeId, RuntimeState, SandboxError, Subject, WorkspaceId,
    to_the_microsecond,
};
use crate::ports::store::{IdleRuntimeQuery, Page, Precondition};

/// The record as a database would give it back.
fn as_kept(runtime: &Runtime) -> Result<Runtime, SandboxError> {
    RuntimeRow::try_from(runtime)?.try_into()
}

fn is_live(runtime: &Runtime) -> bool {
    runtime.state != RuntimeState::Destroyed
}

impl Tables {
    pub(super) fn insert_runtime(
        &mut self,
        runtime: &Runtime,
        runtimes_max: u32,
    ) -> Result<(), SandboxError> {
        let kept = as_kept(runtime)?;
        let workspace = self.find_workspace(kept.workspace_id);
        let found = RuntimesFound {
            workspace_has_one: self.find_runtime_of_workspace(kept.workspace_id).is_some(),
            of_all: count_of(self.live_runtimes()),
        };
        let state = workspace.map(|workspace| workspace.state);
        admit_runtime(&kept, state, found, runtimes_max)?;
        if self.runtimes.contains_key(&kept.id) {
            return Err(SandboxError::AlreadyExists(Subject::Runtime(kept.id)));
        }
        self.runtimes.insert(kept.id, kept);
        Ok(())
    }

    pub(super) fn find_runtime(&self, id: RuntimeId) -> Option<&Runtime> {
        self.runtimes.get(&id).filter(|runtime| is_live(runtime))
    }

    pub(super) fn find_runtime_of_workspace(&self, workspace: WorkspaceId) -> Option<&Runtime> {
        self.live_runtimes()
            .find(|runtime| runtime.workspace_id == workspace)
    }

    pub(super) fn update_runtime(
        &mut self,
        runtime: &Runtime,
        when: Precondition,
    ) -> Result<Runtime, SandboxError> {
        let kept = as_kept(runtime)?;
        StoredPrecondition::try_from(&when)?;
        let found = self.live_runtime(kept.id)?;
        check_write(Subject::Runtime(kept.id), (&*found).into(), &when)?;
        found.backend_runtime_id = kept.backend_runtime_id;
        found.state = kept.state;
        found.last_started_at = kept.last_started_at;
        found.last_used_at = found.last_used_at.max(kept.last_used_at);
        found.expires_at = found.expires_at.max(kept.expires_at);
        found.version += 1;
        found.token = when.token;
        found.updated_at = kept.updated_at;
        Ok(found.clone())
    }

    pub(super) fn touch_runtime(
        &mut self,
        id: RuntimeId,
        commands_token: Option<FencingToken>,
        used_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Result<(), SandboxError> {
        stored_token(commands_token)?;
        let workspace = self.live_runtime(id)?.workspace_id;
        let of = self.workspaces.get(&workspace);
        let of = of.ok_or(SandboxError::NotFound(Subject::Workspace(workspace)))?;
        let newest = of.commands_token;
        check_commands_token(Subject::Runtime(id), newest, commands_token)?;
        let found = self.live_runtime(id)?;
        found.last_used_at = found.last_used_at.max(to_the_microsecond(used_at));
        // Nothing is earlier than any moment.
        found.expires_at = found.expires_at.max(expires_at.map(to_the_microsecond));
        Ok(())
    }

    pub(super) fn find_idle_runtimes(&self, query: IdleRuntimeQuery) -> Vec<Runtime> {
        let now_us = stored_moment(query.now);
        let idle = self.live_runtimes().filter(|runtime| {
            let lease_end_us = runtime.expires_at.map(stored_moment);
            runtime.state == query.state
                && stored_moment(runtime.last_used_at) < stored_moment(query.used_before)
                && lease_end_us.is_none_or(|end_us| end_us <= now_us)
        });
        first_of(idle, query.rows_max, |runtime| {
            (runtime.last_used_at, runtime.id)
        })
    }

    pub(super) fn find_orphan_runtimes(&self, rows_max: u32) -> Vec<Runtime> {
        let orphans = self
            .live_runtimes()
            .filter(|runtime| self.find_workspace(runtime.workspace_id).is_none());
        first_of(orphans, rows_max, |runtime| runtime.id)
    }

    pub(super) fn list_runtimes(&self, page: Page<RuntimeId>) -> Vec<Runtime> {
        page_of(&self.runtimes, page, is_live)
    }

    fn live_runtimes(&self) -> impl Iterator<Item = &Runtime> {
        self.runtimes.values().filter(|runtime| is_live(runtime))
    }

    fn live_runtime(&mut self, id: RuntimeId) -> Result<&mut Runtime, SandboxError> {
        let found = self.runtimes.get_mut(&id);
        found
            .filter(|runtime| is_live(runtime))
            .ok_or(SandboxError::NotFound(Subject::Runtime(id)))
    }
}
