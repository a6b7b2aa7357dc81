//! The use cases: who gets which tree and runtime, under which lock, and what goes when.
//!
//! Adapters do what they are told; all decisions are here or in the domain. Each use case is written so
//! that it may end anywhere: a row says what is meant before it is done, and whoever comes next finishes
//! or undoes it, be it the next call for the same workspace or the reconciler at a start.
//!
//! **Order of locks**, so that nobody waits in a ring: a workspace's, a cache's, a workspace's commands'.
//! Runtimes are guarded by their workspace's lock, and what is written of them carries its token.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::blocking_pool::BlockingPool;
use crate::domain::eviction::Limits;
use crate::domain::{
    FencingToken, ImageName, ProviderKind, SandboxError, Subject, UrlSchemes, WorkerId, Workspace,
    WorkspaceId,
};
use crate::ports::caches::RepoCacheProvider;
use crate::ports::locks::{Hold, LockClass, LockManager, LockName};
use crate::ports::platforms::GitPlatformProvider;
use crate::ports::runtimes::{Network, Resources, RuntimeProvider};
use crate::ports::store::{Precondition, SandboxStore, WorkspaceQuota};
use crate::ports::workspaces::WorkspaceProvider;

mod caches;
mod changes;
mod command_class;
mod commands;
mod disk;
mod evicting;
mod failure;
mod faults;
mod making;
mod prepared;
mod readers;
mod reconciling;
mod removing;
mod reserve;
mod restoring;
mod runtimes;
mod sessions;
mod sweeping;

pub use caches::CacheRequest;
pub use changes::CommitOrder;
pub use commands::CommandOrder;
pub use evicting::{EvictionOutcome, EvictionReport};
pub use failure::ServiceError;
pub use faults::{FaultPoint, Faults, UnknownFault};
pub use reconciling::ReconcileReport;
pub use reserve::{DiskRoom, RESERVE_BYTES, Reserve};
pub use sessions::Session;

/// What the service works with.
pub struct Adapters {
    /// Where records are.
    pub store: Arc<dyn SandboxStore>,
    /// Who may do what now.
    pub locks: Arc<dyn LockManager>,
    /// Repositories on disk.
    pub caches: Arc<dyn RepoCacheProvider>,
    /// Working trees on disk.
    pub trees: Arc<dyn WorkspaceProvider>,
    /// What commands run in.
    pub runtimes: Arc<dyn RuntimeProvider>,
    /// The code host, for pull requests.
    pub platform: Option<Arc<dyn GitPlatformProvider>>,
    /// For what blocks.
    pub pool: BlockingPool,
}

/// How the service decides.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder below which caches and trees lie; its disk is what may become full.
    pub root: PathBuf,
    /// Who this process is.
    pub worker: WorkerId,
    /// Does nobody else use this root and store? Then whatever is half-done at a start is a dead
    /// process's, and every runtime that isn't here is gone.
    pub is_sole_worker: bool,
    /// How long others' work on the same workspace is waited for.
    pub lock_wait: Duration,
    /// How long others' clone or fetch of the same repository is waited for.
    pub cache_wait: Duration,
    /// A new tree is made from a cache that was fetched within this time; else it is fetched first.
    pub cache_fresh: Duration,
    /// How many workspaces there may be.
    pub quota: WorkspaceQuota,
    /// How many runtimes there may be.
    pub runtimes_max: u32,
    /// How many trees are kept ready for a base that is asked for.
    pub prepared_per_base: u32,
    /// When things go.
    pub limits: Limits,
    /// From what runtimes are made.
    pub image: ImageName,
    /// What each runtime may use.
    pub resources: Resources,
    /// What runtimes may reach.
    pub network: Network,
    /// By which schemes repositories may be reached.
    pub schemes: UrlSchemes,
    /// What kind of code host repositories are on.
    pub provider: ProviderKind,
    /// Leftovers on disk that are younger may be another worker's, who is at it now.
    pub leftover_age: Duration,
}

impl Settings {
    /// The defaults: waits of 30 s (ten minutes for a clone), fetched within five minutes, 50 workspaces
    /// of a user, 1000 in all, 100 runtimes of 4 GB and two CPUs, no file of more than 10 GB, no network,
    /// repositories by `https` alone.
    ///
    /// # Errors
    /// When `worker` isn't an id.
    pub fn below(root: PathBuf, worker: WorkerId) -> Result<Self, ServiceError> {
        Ok(Self {
            root,
            worker,
            is_sole_worker: false,
            lock_wait: Duration::from_secs(30),
            cache_wait: Duration::from_secs(600),
            cache_fresh: Duration::from_secs(300),
            quota: WorkspaceQuota {
                per_user_max: 50,
                total_max: 1000,
            },
            runtimes_max: 100,
            prepared_per_base: 0,
            limits: Limits::default(),
            image: ImageName::parse("agent-sandbox").map_err(SandboxError::from)?,
            resources: Resources {
                // What sandboxes of agents have: two CPUs, 4 GB, and 10 GB of disk, of which a limit
                // on each file is the part that can be held up everywhere.
                cpu_milli: Some(2000),
                memory_mb: Some(4096),
                file_mb: Some(10 * 1024),
                processes_max: Some(1024),
            },
            network: Network::None,
            schemes: UrlSchemes::default(),
            provider: ProviderKind::parse("git").map_err(SandboxError::from)?,
            leftover_age: Duration::from_secs(3600),
        })
    }
}

/// The use cases on working trees and what runs in them. See the module.
pub struct SandboxService {
    adapters: Adapters,
    settings: Settings,
    faults: Faults,
    readers: readers::Readers,
}

impl SandboxService {
    /// The use cases on these adapters. Nothing is done yet; see [`reconcile`](Self::reconcile).
    #[must_use]
    pub fn new(adapters: Adapters, settings: Settings, faults: Faults) -> Self {
        Self {
            adapters,
            settings,
            faults,
            readers: readers::Readers::default(),
        }
    }

    /// How it decides.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What it works with.
    #[must_use]
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// Does `work` under a lock, with its token. When the lock is lost the work is dropped, and what it
    /// left half-done is finished by whoever comes next.
    async fn under<T, F>(
        &self,
        name: &LockName,
        class: LockClass,
        wait_max: Duration,
        work: impl FnOnce(FencingToken) -> F + Send,
    ) -> Result<T, ServiceError>
    where
        F: Future<Output = Result<T, ServiceError>> + Send,
    {
        let work = |hold: Hold| work(hold.token);
        self.under_hold(name, class, wait_max, work).await
    }

    /// The same for work that others do, too, and who have to be told under which lock.
    async fn under_hold<T, F>(
        &self,
        name: &LockName,
        class: LockClass,
        wait_max: Duration,
        work: impl FnOnce(Hold) -> F + Send,
    ) -> Result<T, ServiceError>
    where
        F: Future<Output = Result<T, ServiceError>> + Send,
    {
        let lease = self.adapters.locks.acquire(name, class, wait_max).await?;
        let outcome = lease.run(work(lease.hold())).await?;
        if let Err(error) = lease.release().await {
            // The work was done while the lock was held, and its writes carry the token.
            tracing::warn!(%name, %error, "a lock wasn't given back, and ends by itself");
        }
        outcome
    }

    /// A workspace that can be used now.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` when it isn't ready, and those of the store.
    pub async fn find_ready(&self, id: WorkspaceId) -> Result<Workspace, ServiceError> {
        self.ready_workspace(id).await
    }

    /// Where a workspace's tree lies on this machine.
    ///
    /// # Errors
    /// When its path isn't one of a tree.
    pub fn tree_of(&self, workspace: &Workspace) -> Result<PathBuf, ServiceError> {
        Ok(self.adapters.trees.locate(&workspace.local_path)?.tree)
    }

    async fn ready_workspace(&self, id: WorkspaceId) -> Result<Workspace, ServiceError> {
        let workspace = self.live_workspace(id).await?;
        failure::check_ready(&workspace)?;
        Ok(workspace)
    }

    async fn live_workspace(&self, id: WorkspaceId) -> Result<Workspace, ServiceError> {
        let found = self.adapters.store.find_workspace(id).await?;
        Ok(found.ok_or(SandboxError::NotFound(Subject::Workspace(id)))?)
    }
}

/// The condition of a write under a lock of that token, for a row of that version.
const fn as_read(version: u64, token: FencingToken) -> Precondition {
    Precondition {
        version,
        token,
        unused_since: None,
    }
}

/// The same, if the row wasn't used since.
const fn if_unused(version: u64, token: FencingToken, since: Timestamp) -> Precondition {
    Precondition {
        version,
        token,
        unused_since: Some(since),
    }
}
