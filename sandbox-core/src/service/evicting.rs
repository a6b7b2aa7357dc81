//! A pass of eviction: facts of everything, a decision on each, and what goes in its order.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::disk::Spared;
use super::removing::Removal;
use super::{SandboxService, ServiceError, if_unused};
use crate::domain::eviction::{
    Action, CacheFacts, Candidate, Decision, Disk, Limits, RuntimeFacts, Target, WorkspaceFacts,
    decide,
};
use crate::domain::{
    CacheId, FencingToken, PreparedTree, RepoCache, Runtime, RuntimeId, RuntimeState, Workspace,
    WorkspaceId,
};
use crate::ports::locks::{LockClass, LockName};
use crate::ports::store::Page;
use crate::ports::workspaces::SavedEdits;

/// Rows that are read at a time.
pub(super) const ROWS_MAX: u32 = 500;

/// What came of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// Nothing was to be done.
    Kept,
    /// It would have been done, had it not been a dry run.
    WouldGo,
    /// It was done.
    Gone {
        /// Where its changes were saved.
        saved: Option<SavedEdits>,
    },
    /// It was not done: it is used, or was changed since. It is looked at again next time.
    Skipped(String),
    /// It could not be done; somebody should look at it.
    Failed(String),
}

/// What a pass decided and did.
#[derive(Debug, Clone)]
pub struct EvictionReport {
    /// How full the disk was.
    pub disk: Disk,
    /// The volume of which that is a part, in bytes; 0 is without limit.
    pub volume_bytes: u64,
    /// Each decision with what came of it, in the order in which things go.
    pub decisions: Vec<(Decision, EvictionOutcome)>,
}

/// All that there is.
struct Scene {
    runtimes: HashMap<RuntimeId, Runtime>,
    workspaces: HashMap<WorkspaceId, Workspace>,
    caches: HashMap<CacheId, RepoCache>,
    uses: HashMap<CacheId, u64>,
}

impl SandboxService {
    /// Looks at everything and lets go what should go. A dry run decides the same and does nothing.
    ///
    /// # Errors
    /// When the store or the disk can't be asked. What goes wrong with one thing is in the report.
    pub async fn evict(
        &self,
        now: Timestamp,
        is_dry_run: bool,
    ) -> Result<EvictionReport, ServiceError> {
        let scene = self.scene().await?;
        let (disk, limits) = self.disk(scene.size_bytes()).await?;
        let pass = self.evict_by(scene, disk, limits, now, is_dry_run);
        if is_dry_run {
            return pass.await;
        }
        self.with_reserve(pass).await
    }

    /// A pass after a write that found no space: as if the volume were full, and with what is kept back
    /// for it.
    pub(super) async fn make_room(
        &self,
        spared: Spared<'_>,
    ) -> Result<EvictionReport, ServiceError> {
        self.reserve().give_up().await?;
        let report = self.evict_as_if_full(spared).await;
        self.renew_reserve().await;
        report
    }

    async fn evict_as_if_full(&self, spared: Spared<'_>) -> Result<EvictionReport, ServiceError> {
        let mut scene = self.scene().await?;
        let (_, limits) = self.disk(scene.size_bytes()).await?;
        let disk = Disk {
            used_bytes: limits.volume_bytes,
        };
        scene.spare(spared);
        let now = Timestamp::now();
        self.evict_by(scene, disk, limits, now, false).await
    }

    async fn evict_by(
        &self,
        scene: Scene,
        disk: Disk,
        limits: Limits,
        now: Timestamp,
        is_dry_run: bool,
    ) -> Result<EvictionReport, ServiceError> {
        let decisions = decide(&scene.candidates(), &limits, now, disk);
        let mut report = EvictionReport {
            disk,
            volume_bytes: limits.volume_bytes,
            decisions: Vec::with_capacity(decisions.len()),
        };
        for decision in decisions {
            let outcome = match decision.action {
                Action::Keep => EvictionOutcome::Kept,
                _ if is_dry_run => EvictionOutcome::WouldGo,
                _ => match self.carry_out(&scene, &decision).await {
                    Ok(outcome) => outcome,
                    Err(error) if error.is_busy() || error.is_conflict() => {
                        EvictionOutcome::Skipped(error.to_string())
                    }
                    Err(error) => {
                        tracing::error!(target = %decision.target, %error, "it should go, and couldn't");
                        EvictionOutcome::Failed(error.to_string())
                    }
                },
            };
            report.decisions.push((decision, outcome));
        }
        Ok(report)
    }

    async fn carry_out(
        &self,
        scene: &Scene,
        decision: &Decision,
    ) -> Result<EvictionOutcome, ServiceError> {
        let gone = EvictionOutcome::Gone { saved: None };
        match decision.target {
            Target::Runtime(id) => match scene.runtimes.get(&id) {
                Some(runtime) => {
                    self.let_runtime_go(scene, runtime, decision.action).await?;
                    Ok(gone)
                }
                None => Ok(gone),
            },
            Target::Workspace(id) => {
                let Some(workspace) = scene.workspaces.get(&id) else {
                    return Ok(gone);
                };
                let unused_since = Some(workspace.last_used_at);
                let removal = self.remove_workspace(workspace, unused_since, Duration::ZERO);
                Ok(match removal.await? {
                    Some(Removal::Done { saved }) => EvictionOutcome::Gone { saved },
                    Some(Removal::Blocked { reason, .. }) => EvictionOutcome::Failed(reason),
                    None => gone,
                })
            }
            Target::Cache(id) => match scene.caches.get(&id) {
                Some(cache) => self.let_cache_go(cache).await,
                None => Ok(gone),
            },
        }
    }

    async fn let_runtime_go(
        &self,
        scene: &Scene,
        runtime: &Runtime,
        action: Action,
    ) -> Result<(), ServiceError> {
        let Some(workspace) = scene.workspaces.get(&runtime.workspace_id) else {
            return Ok(()); // an orphan, which the sweep ends
        };
        let name = LockName::workspace(&workspace.key);
        let since = Some(runtime.last_used_at);
        let work = async |token| {
            let Some(runtime) = self.adapters.store.find_runtime(runtime.id).await? else {
                return Ok(());
            };
            if action == Action::StopRuntime && runtime.state == RuntimeState::Running {
                self.stop_runtime(runtime, since, token).await
            } else {
                self.end_runtime_unused(runtime, since, token).await
            }
        };
        self.under(&name, LockClass::Write, Duration::ZERO, work)
            .await
    }

    async fn let_cache_go(&self, cache: &RepoCache) -> Result<EvictionOutcome, ServiceError> {
        let name = LockName::cache(&cache.key);
        let work = async |token: FencingToken| {
            let store = &self.adapters.store;
            let gone = EvictionOutcome::Gone { saved: None };
            let Some(found) = store.find_cache(cache.id).await? else {
                return Ok(gone);
            };
            // What is saved from now on touches the cache, which refuses its eviction.
            if self
                .adapters
                .caches
                .has_saved_edits(&found.local_path)
                .await?
            {
                let reason = "edits of evicted workspaces are saved beside it, and stand on it";
                return Ok(EvictionOutcome::Skipped(reason.to_owned()));
            }
            let when = if_unused(found.version, token, cache.last_used_at);
            let going = store
                .begin_cache_eviction(found.id, when, Timestamp::now())
                .await?;
            self.finish_cache_eviction(going, token).await?;
            Ok(gone)
        };
        self.under(&name, LockClass::Write, Duration::ZERO, work)
            .await
    }

    async fn scene(&self) -> Result<Scene, ServiceError> {
        let runtimes = self.all_runtimes().await?;
        let workspaces = self.all_workspaces().await?;
        let caches = self.all_caches().await?;
        let mut uses: HashMap<CacheId, u64> = HashMap::new();
        for workspace in &workspaces {
            *uses.entry(workspace.repo_cache_id).or_default() += 1;
        }
        for tree in self.all_prepared_trees().await? {
            *uses.entry(tree.repo_cache_id).or_default() += 1;
        }
        Ok(Scene {
            runtimes: runtimes.into_iter().map(|row| (row.id, row)).collect(),
            workspaces: workspaces.into_iter().map(|row| (row.id, row)).collect(),
            caches: caches.into_iter().map(|row| (row.id, row)).collect(),
            uses,
        })
    }
}

impl Scene {
    fn candidates(&self) -> Vec<Candidate> {
        let is_running = |runtime: &&Runtime| {
            matches!(
                runtime.state,
                RuntimeState::Creating | RuntimeState::Running
            )
        };
        let running = self.runtimes.values().filter(is_running);
        let with_runtime: HashSet<WorkspaceId> =
            running.map(|runtime| runtime.workspace_id).collect();
        let runtimes = self.runtimes.values().map(RuntimeFacts::of);
        let workspaces = self
            .workspaces
            .values()
            .map(|row| WorkspaceFacts::of(row, with_runtime.contains(&row.id)));
        let caches = self.caches.values().map(|row| {
            let uses = self.uses.get(&row.id).copied().unwrap_or(0);
            CacheFacts::of(row, uses)
        });
        let mut candidates: Vec<Candidate> = runtimes.map(Candidate::Runtime).collect();
        candidates.extend(workspaces.map(Candidate::Workspace));
        candidates.extend(caches.map(Candidate::Cache));
        candidates
    }

    /// Leaves out what isn't to be decided on. Its cache stays in use by it.
    fn spare(&mut self, spared: Spared<'_>) {
        self.runtimes.retain(|_, runtime| {
            let workspace = self.workspaces.get(&runtime.workspace_id);
            !workspace.is_some_and(|workspace| spared.is(workspace))
        });
        self.workspaces.retain(|_, workspace| !spared.is(workspace));
    }

    fn size_bytes(&self) -> u64 {
        let trees = self.workspaces.values().filter_map(|row| row.size_bytes);
        let caches = self.caches.values().filter_map(|row| row.size_bytes);
        trees.chain(caches).fold(0, u64::saturating_add)
    }
}

/// All rows of a list that is read in parts.
macro_rules! all_rows {
    ($(#[$doc:meta])* $name:ident, $list:ident, $row:ty) => {
        impl SandboxService {
            $(#[$doc])*
            ///
            /// # Errors
            /// Those of the store.
            pub async fn $name(&self) -> Result<Vec<$row>, ServiceError> {
                let mut rows: Vec<$row> = Vec::new();
                loop {
                    let page = Page {
                        after: rows.last().map(|row| row.id),
                        rows_max: ROWS_MAX,
                    };
                    let mut part = self.adapters.store.$list(page).await?;
                    let is_last = part.len() < ROWS_MAX as usize;
                    rows.append(&mut part);
                    if is_last {
                        return Ok(rows);
                    }
                }
            }
        }
    };
}

all_rows!(
    /// All live caches, in the order in which they were made.
    all_caches, list_caches, RepoCache
);
all_rows!(
    /// All live workspaces, in the order in which they were made.
    all_workspaces, list_workspaces, Workspace
);
all_rows!(
    /// All live records of runtimes, in the order in which they were made.
    all_runtimes, list_runtimes, Runtime
);
all_rows!(
    /// All live prepared trees, in the order in which they were made.
    all_prepared_trees, list_prepared_trees, PreparedTree
);
