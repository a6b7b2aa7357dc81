//! What eviction has to know of a runtime, a workspace and a cache: what their records say, and who
//! uses them.

use jiff::Timestamp;

use super::super::{
    CacheId, RepoCache, RepoCacheState, Runtime, RuntimeId, RuntimeState, Workspace, WorkspaceId,
    WorkspaceMode, WorkspaceState,
};

/// What is known of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// Which.
    pub id: RuntimeId,
    /// How far it is.
    pub state: RuntimeState,
    /// When it was last used.
    pub last_used_at: Timestamp,
    /// The end of the lease of what runs in it.
    pub expires_at: Option<Timestamp>,
}

impl RuntimeFacts {
    /// What its record says.
    #[must_use]
    pub const fn of(runtime: &Runtime) -> Self {
        Self {
            id: runtime.id,
            state: runtime.state,
            last_used_at: runtime.last_used_at,
            expires_at: runtime.expires_at,
        }
    }
}

/// What is known of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceFacts {
    /// Which.
    pub id: WorkspaceId,
    /// For what it is.
    pub mode: WorkspaceMode,
    /// How far it is.
    pub state: WorkspaceState,
    /// May it hold what no commit holds?
    pub dirty: bool,
    /// Until when it is pinned.
    pub pinned_until: Option<Timestamp>,
    /// When it was last used.
    pub last_used_at: Timestamp,
    /// What it takes on disk; what isn't known frees nothing.
    pub size_bytes: Option<u64>,
    /// Has it a runtime that is being made or runs?
    pub has_running_runtime: bool,
}

impl WorkspaceFacts {
    /// What its record says.
    #[must_use]
    pub const fn of(workspace: &Workspace, has_running_runtime: bool) -> Self {
        Self {
            id: workspace.id,
            mode: workspace.key.mode(),
            state: workspace.state,
            dirty: workspace.dirty,
            pinned_until: workspace.pinned_until,
            last_used_at: workspace.last_used_at,
            size_bytes: workspace.size_bytes,
            has_running_runtime,
        }
    }
}

/// What is known of a repository's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheFacts {
    /// Which.
    pub id: CacheId,
    /// How far it is.
    pub state: RepoCacheState,
    /// When it was last used.
    pub last_used_at: Timestamp,
    /// What it takes on disk; what isn't known frees nothing.
    pub size_bytes: Option<u64>,
    /// How many live workspaces and prepared trees stand on it.
    pub uses: u64,
}

impl CacheFacts {
    /// What its record says.
    #[must_use]
    pub const fn of(cache: &RepoCache, uses: u64) -> Self {
        Self {
            id: cache.id,
            state: cache.state,
            last_used_at: cache.last_used_at,
            size_bytes: cache.size_bytes,
            uses,
        }
    }
}
