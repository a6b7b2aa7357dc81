//! What is done again and again in the background: measuring, looking, evicting, ending what is nobody's.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::runtimes::{ACCESS_LABEL, RUNTIME_LABEL, WORKSPACE_LABEL};
use super::{SandboxService, ServiceError};
use crate::domain::{PreparedTreeState, RuntimeState, Workspace, WorkspaceState};
use crate::ports::locks::{LockClass, LockName};
use crate::ports::runtimes::Labels;

/// A sweep looks at so many trees at most, since git is asked for each.
const LOOKS_MAX: usize = 64;

impl SandboxService {
    /// Sweeps for ever, once in half of the time after which an idle runtime is stopped. With a time of
    /// 0 it never does.
    pub async fn keep_sweeping(&self) {
        let every_ms = self.settings.limits.runtime_idle_ms / 2;
        if every_ms == 0 {
            return;
        }
        loop {
            tokio::time::sleep(Duration::from_millis(every_ms)).await;
            if let Err(error) = self.sweep(Timestamp::now()).await {
                tracing::error!(%error, "a sweep failed, and is tried again later");
            }
        }
    }

    /// One sweep: runtimes that are nobody's, prepared trees that are too old, sizes and dirtiness, and
    /// then a pass of eviction.
    ///
    /// # Errors
    /// When the store, the disk or the backend can't be asked.
    pub async fn sweep(&self, now: Timestamp) -> Result<(), ServiceError> {
        self.sweep_runtimes(now).await?;
        for tree in self.all_prepared_trees().await? {
            if tree.state == PreparedTreeState::Ready && Self::is_stale(&tree, now) {
                self.skip_if_used(self.drain(tree).await)?;
            }
        }
        self.look_at_idle(now).await?;
        self.evict(now, false).await?;
        Ok(())
    }

    /// Brings records of idle trees up to date: what they take on disk, and whether they are dirty still.
    pub(super) async fn look_at_idle(&self, now: Timestamp) -> Result<(), ServiceError> {
        let idle_ms = i64::try_from(self.settings.limits.pressure_idle_ms).unwrap_or(i64::MAX);
        let is_idle = |workspace: &Workspace| {
            let unused_ms = now.as_millisecond() - workspace.last_used_at.as_millisecond();
            workspace.state == WorkspaceState::Ready
                && unused_ms > idle_ms
                && (workspace.dirty || workspace.size_bytes.is_none())
        };
        let idle = self.all_workspaces().await?.into_iter().filter(is_idle);
        for workspace in idle.take(LOOKS_MAX) {
            let id = workspace.id;
            let name = LockName::workspace(&workspace.key);
            let work = async |token| {
                // While a command runs, it isn't idle.
                let commands = LockName::workspace_command(id);
                let look = async |commands_token| {
                    let workspace = self.ready_workspace(id).await?;
                    self.look(&workspace, commands_token).await.map(drop)
                };
                self.under(&commands, LockClass::Read, Duration::ZERO, look)
                    .await?;
                let workspace = self.ready_workspace(id).await?;
                match workspace.size_bytes {
                    Some(_) => Ok(()),
                    None => self.measure(workspace, token).await.map(drop),
                }
            };
            let done = self
                .under(&name, LockClass::Write, Duration::ZERO, work)
                .await;
            if let Err(error) = done {
                tracing::debug!(workspace = %id, %error, "an idle tree wasn't looked at");
            }
        }
        Ok(())
    }

    /// Ends runtimes of this process whose records say that they don't run, and readers that nobody uses.
    pub(super) async fn sweep_runtimes(&self, now: Timestamp) -> Result<(), ServiceError> {
        let store = &self.adapters.store;
        let runtimes = &self.adapters.runtimes;
        for id in self.readers.workspaces() {
            if store.find_workspace(id).await?.is_none() {
                self.end_reader(id).await?;
            }
        }
        let idle_ms = i64::try_from(self.settings.limits.runtime_idle_ms).unwrap_or(i64::MAX);
        if idle_ms > 0 {
            let since = now.saturating_sub(SignedDuration::from_millis(idle_ms));
            for reader in self.readers.take_idle(since.unwrap_or(Timestamp::MIN)) {
                runtimes.destroy(reader.backend_id()).await?;
            }
        }
        let states: HashMap<String, RuntimeState> = self
            .all_runtimes()
            .await?
            .into_iter()
            .map(|runtime| (runtime.id.to_string(), runtime.state))
            .collect();
        for live in runtimes.list(&Labels::new()).await? {
            let labels = live.labels();
            let is_ours = labels.contains_key(WORKSPACE_LABEL);
            let is_reader = labels
                .get(ACCESS_LABEL)
                .is_some_and(|access| access == "read");
            let row = labels.get(RUNTIME_LABEL).and_then(|id| states.get(id));
            match row {
                Some(RuntimeState::Stopped) if live.state().await? == RuntimeState::Running => {
                    live.stop().await?;
                }
                // A reader without a row is held by this process; an analysis' own has one.
                None if is_ours && !is_reader => runtimes.destroy(live.backend_id()).await?,
                _ => {}
            }
        }
        self.end_orphan_runtimes().await
    }

    /// Ends records of runtimes whose workspace is gone.
    async fn end_orphan_runtimes(&self) -> Result<(), ServiceError> {
        let store = &self.adapters.store;
        for orphan in store
            .find_orphan_runtimes(super::evicting::ROWS_MAX)
            .await?
        {
            let token = orphan.token; // nobody else has a lock of a workspace that is gone
            self.skip_if_used(self.end_runtime(orphan, token).await)?;
        }
        Ok(())
    }

    /// Somebody else was faster, which is as well.
    pub(super) fn skip_if_used(&self, done: Result<(), ServiceError>) -> Result<(), ServiceError> {
        match done {
            Err(error) if error.is_busy() || error.is_conflict() => {
                tracing::debug!(%error, "left to whoever has it");
                Ok(())
            }
            done => done,
        }
    }

    /// Ends all runtimes of this process, for its end.
    ///
    /// # Errors
    /// Those of the backend, the store and the lock.
    pub async fn close(&self) -> Result<(), ServiceError> {
        for id in self.readers.workspaces() {
            self.end_reader(id).await?;
        }
        for live in self.adapters.runtimes.list(&Labels::new()).await? {
            let runtime = self.adapters.store.find_runtime(live.id()).await?;
            match runtime {
                Some(runtime) => self.destroy_runtime(runtime.workspace_id).await?,
                None => self.adapters.runtimes.destroy(live.backend_id()).await?,
            }
        }
        Ok(())
    }
}
