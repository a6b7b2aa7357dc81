//! What a dead process left half-done is finished or undone at a start: records against the disk, git
//! and runtimes. Other workers may be at work meanwhile: what they hold locked is left to them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::{SandboxService, ServiceError, as_read};
use crate::domain::{
    LocalPath, PreparedTreeState, RepoCache, RepoCacheState, Runtime, RuntimeState, Workspace,
    WorkspaceState,
};
use crate::ports::caches::GitError;
use crate::ports::locks::{LockClass, LockName};
use crate::ports::workspaces::{FoundKind, FoundTree};

/// What was mended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReconcileReport {
    /// Workspaces that were being made, and were given up.
    pub given_up: u64,
    /// Removals that were finished: workspaces, prepared trees, caches, and saved edits of which a tree was
    /// made.
    pub finished: u64,
    /// Workspaces whose tree isn't there. Somebody should look at that.
    pub missing: u64,
    /// Workspaces whose tree is there again.
    pub found_again: u64,
    /// Records of runtimes that nothing runs for.
    pub runtimes_ended: u64,
    /// Leftovers and trees without a record that were removed from the disk.
    pub removed_from_disk: u64,
    /// Trees with changes and caches with saved ones that have no record, and were left: the store was
    /// restored, perhaps.
    pub kept_on_disk: Vec<String>,
    /// What couldn't be mended, and why.
    pub failures: Vec<String>,
}

impl ReconcileReport {
    /// Was there nothing to mend?
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// Counts what was done, or notes why it wasn't; what somebody else holds is theirs.
    fn note(&mut self, what: &str, done: Result<u64, ServiceError>) -> u64 {
        match done {
            Ok(count) => count,
            Err(error) if error.is_busy() || error.is_conflict() => {
                tracing::debug!(what, %error, "left to whoever has it");
                0
            }
            Err(error) => {
                tracing::error!(what, %error, "what was left half-done couldn't be mended");
                self.failures.push(format!("{what}: {error}"));
                0
            }
        }
    }
}

impl SandboxService {
    /// Mends what earlier processes left. To be called at each start, before anything else.
    ///
    /// # Errors
    /// When the store or the disk can't be asked. What goes wrong with one thing is in the report.
    pub async fn reconcile(&self) -> Result<ReconcileReport, ServiceError> {
        self.with_reserve(self.mend()).await
    }

    async fn mend(&self) -> Result<ReconcileReport, ServiceError> {
        let mut report = ReconcileReport::default();
        // The disk first: a row is written before its tree, so whatever is seen now has its row then.
        let on_disk = self.adapters.trees.list().await?;
        let caches_on_disk = self.adapters.caches.list().await?;
        self.reconcile_runtimes(&mut report).await?;
        self.reconcile_workspaces(&on_disk, &mut report).await?;
        self.reconcile_prepared(&mut report).await?;
        self.reconcile_caches(&caches_on_disk, &mut report).await?;
        self.reconcile_disk(on_disk, &mut report).await?;
        if !report.is_clean() {
            tracing::warn!(?report, "an earlier process had left something half-done");
        }
        Ok(report)
    }

    /// A sole worker's runtimes died with its process, unless their backend still has them.
    async fn reconcile_runtimes(&self, report: &mut ReconcileReport) -> Result<(), ServiceError> {
        for runtime in self.all_runtimes().await? {
            let is_half_done = matches!(
                runtime.state,
                RuntimeState::Creating | RuntimeState::Destroying
            );
            if !is_half_done && !self.settings.is_sole_worker {
                continue;
            }
            let what = format!("runtime {}", runtime.id);
            let done = self.reconcile_runtime(runtime).await;
            report.runtimes_ended += report.note(&what, done);
        }
        self.sweep_runtimes(Timestamp::now()).await
    }

    async fn reconcile_runtime(&self, runtime: Runtime) -> Result<u64, ServiceError> {
        let store = &self.adapters.store;
        let Some(workspace) = store.find_workspace(runtime.workspace_id).await? else {
            return Ok(0); // an orphan, which the sweep ends
        };
        let name = LockName::workspace(&workspace.key);
        let work = async |token| {
            let Some(found) = store.find_runtime(runtime.id).await? else {
                return Ok(0);
            };
            let is_known = match &found.backend_runtime_id {
                Some(id) => self.adapters.runtimes.get(id).await?.is_some(),
                None => false,
            };
            let is_whole = matches!(found.state, RuntimeState::Running | RuntimeState::Stopped);
            if is_known && is_whole {
                return Ok(0);
            }
            self.end_runtime(found, token).await.map(|()| 1)
        };
        self.under(&name, LockClass::Write, Duration::ZERO, work)
            .await
    }

    async fn reconcile_workspaces(
        &self,
        on_disk: &[FoundTree],
        report: &mut ReconcileReport,
    ) -> Result<(), ServiceError> {
        let whole: HashMap<&LocalPath, &FoundTree> = on_disk
            .iter()
            .filter(|found| found.kind == FoundKind::Workspace)
            .map(|found| (&found.path, found))
            .collect();
        for workspace in self.all_workspaces().await? {
            let what = format!("workspace {}", workspace.id);
            let tree = whole.get(&workspace.local_path);
            let is_there = tree.is_some();
            match workspace.state {
                WorkspaceState::Creating => {
                    let removal = self
                        .remove_workspace(&workspace, None, Duration::ZERO)
                        .await;
                    report.given_up += report.note(&what, removal.map(|_| 1));
                }
                WorkspaceState::Evicting => {
                    let removal = self
                        .remove_workspace(&workspace, None, Duration::ZERO)
                        .await;
                    report.finished += report.note(&what, removal.map(|_| 1));
                }
                WorkspaceState::Ready | WorkspaceState::EvictionBlocked if !is_there => {
                    let done = self.look_for(&workspace).await;
                    report.missing += report.note(&what, done);
                }
                WorkspaceState::Ready | WorkspaceState::EvictionBlocked
                    if tree.is_some_and(|tree| tree.holds_saved_edits) =>
                {
                    let done = self.finish_restoring(&workspace).await;
                    report.finished += report.note(&what, done);
                }
                WorkspaceState::Missing if is_there => {
                    let done = self.look_for(&workspace).await;
                    report.found_again += report.note(&what, done);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes down that a tree isn't where it should be, or that it is there again.
    async fn look_for(&self, workspace: &Workspace) -> Result<u64, ServiceError> {
        let id = workspace.id;
        let name = LockName::workspace(&workspace.key);
        let work = async |token| {
            let found = self.live_workspace(id).await?;
            let is_there = match self.adapters.trees.status(&found.local_path).await {
                Ok(_) => true,
                Err(GitError::NotThere { .. }) => false,
                Err(error) => return Err(error.into()),
            };
            let next = match (found.state, is_there) {
                (WorkspaceState::Ready, false) => {
                    tracing::error!(workspace = %id, path = %found.local_path, dirty = found.dirty, "a tree is not where it should be: look for it, or give it up");
                    WorkspaceState::Missing
                }
                (WorkspaceState::Missing, true) => WorkspaceState::Ready,
                _ => return Ok(0),
            };
            let when = as_read(found.version, token);
            let moved = found.moved_to(next, Timestamp::now())?;
            self.adapters.store.update_workspace(&moved, when).await?;
            Ok(1)
        };
        self.under(&name, LockClass::Write, Duration::ZERO, work)
            .await
    }

    async fn reconcile_prepared(&self, report: &mut ReconcileReport) -> Result<(), ServiceError> {
        let now = Timestamp::now();
        let leftover_ms = i64::try_from(self.settings.leftover_age.as_millis()).unwrap_or(i64::MAX);
        for tree in self.all_prepared_trees().await? {
            let age_ms = now.as_millisecond() - tree.updated_at.as_millisecond();
            let is_old = self.settings.is_sole_worker || age_ms > leftover_ms;
            let goes = match tree.state {
                PreparedTreeState::Draining => true,
                PreparedTreeState::Warming => is_old,
                PreparedTreeState::Claimed => {
                    let is_over = tree.claimed_until.is_none_or(|until| until <= now);
                    self.settings.is_sole_worker || is_over
                }
                _ => false,
            };
            if goes {
                let what = format!("prepared tree {}", tree.id);
                let done = self.drain(tree).await;
                report.finished += report.note(&what, done.map(|()| 1));
            }
        }
        Ok(())
    }

    async fn reconcile_caches(
        &self,
        on_disk: &[LocalPath],
        report: &mut ReconcileReport,
    ) -> Result<(), ServiceError> {
        let rows = self.all_caches().await?;
        for cache in &rows {
            let is_half_done = matches!(
                cache.state,
                RepoCacheState::Creating | RepoCacheState::Evicting
            );
            if is_half_done {
                let what = format!("repository cache {}", cache.id);
                let done = self.reconcile_cache(cache).await;
                report.finished += report.note(&what, done);
            }
        }
        let known: HashSet<&LocalPath> = rows.iter().map(|cache| &cache.local_path).collect();
        let caches = &self.adapters.caches;
        for path in on_disk.iter().filter(|path| !known.contains(path)) {
            let removed = match caches.has_saved_edits(path).await {
                Ok(true) => {
                    tracing::error!(%path, "a repository's cache with saved edits beside it has no record, and is left: look at it");
                    report.kept_on_disk.push(path.to_string());
                    continue;
                }
                Ok(false) => caches.remove(path).await,
                Err(error) => Err(error),
            };
            let done = removed.map(|()| 1).map_err(ServiceError::from);
            report.removed_from_disk += report.note(path.as_str(), done);
        }
        Ok(())
    }

    async fn reconcile_cache(&self, cache: &RepoCache) -> Result<u64, ServiceError> {
        let name = LockName::cache(&cache.key);
        let work = async |token| {
            let Some(found) = self.adapters.store.find_cache(cache.id).await? else {
                return Ok(0);
            };
            match found.state {
                RepoCacheState::Evicting => self.finish_cache_eviction(found, token).await?,
                // Trees may stand on one that is to be cloned anew; their next request does that.
                RepoCacheState::Creating if found.last_fetched_at.is_none() => {
                    self.give_cache_up(found, token).await?;
                }
                _ => return Ok(0),
            }
            Ok(1)
        };
        self.under(&name, LockClass::Write, Duration::ZERO, work)
            .await
    }

    /// Removes what has no record. A workspace's tree with changes stays, whatever the records say.
    async fn reconcile_disk(
        &self,
        on_disk: Vec<FoundTree>,
        report: &mut ReconcileReport,
    ) -> Result<(), ServiceError> {
        let mut known: HashSet<LocalPath> = HashSet::new();
        known.extend(
            self.all_workspaces()
                .await?
                .into_iter()
                .map(|row| row.local_path),
        );
        let prepared = self.all_prepared_trees().await?;
        known.extend(prepared.into_iter().map(|row| row.local_path));
        let leftover_s = self.settings.leftover_age.as_secs();
        let trees = &self.adapters.trees;
        for found in on_disk {
            if known.contains(&found.path) {
                continue;
            }
            let is_old = self.settings.is_sole_worker || found.age_s > leftover_s;
            let is_lost = match found.kind {
                FoundKind::Prepared | FoundKind::Leftover => is_old,
                FoundKind::Workspace => match trees.status(&found.path).await {
                    Ok(status) if status.is_dirty() => {
                        tracing::error!(path = %found.path, "a tree with changes has no record, and is left: look at it");
                        report.kept_on_disk.push(found.path.to_string());
                        false
                    }
                    Ok(_) => is_old,
                    Err(GitError::NotThere { .. }) => false,
                    Err(error) => {
                        report.note(found.path.as_str(), Err(error.into()));
                        false
                    }
                },
            };
            if is_lost {
                let removed = trees.remove(&found.path).await;
                let done = removed.map(|()| 1).map_err(ServiceError::from);
                report.removed_from_disk += report.note(found.path.as_str(), done);
            }
        }
        Ok(())
    }
}
