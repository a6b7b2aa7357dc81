//! Runtimes in which a writable tree is mounted read-only: where commands run that are said to read.
//!
//! They have no rows: they hold nothing, belong to this process, and end with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::OnceCell;

use crate::domain::WorkspaceId;
use crate::ports::runtimes::LiveRuntime;

/// The readers of this process.
#[derive(Default)]
pub(super) struct Readers(Mutex<HashMap<WorkspaceId, Arc<Reader>>>);

/// One workspace's.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) live: OnceCell<Arc<dyn LiveRuntime>>,
    last_used_ms: AtomicI64,
}

impl Readers {
    /// The one of a workspace, which may not have been made yet. Whoever holds it uses it.
    pub(super) fn of(&self, workspace: WorkspaceId) -> Arc<Reader> {
        let reader = Arc::clone(self.lock().entry(workspace).or_default());
        reader.touch();
        reader
    }

    /// Forgets the one of a workspace, which is answered to be ended.
    pub(super) fn take(&self, workspace: WorkspaceId) -> Option<Arc<dyn LiveRuntime>> {
        let reader = self.lock().remove(&workspace);
        reader.and_then(|reader| reader.live.get().cloned())
    }

    /// Forgets those that nobody uses and that weren't used since, and answers them to be ended.
    pub(super) fn take_idle(&self, since: Timestamp) -> Vec<Arc<dyn LiveRuntime>> {
        let since_ms = since.as_millisecond();
        let is_idle = |reader: &Arc<Reader>| {
            Arc::strong_count(reader) == 1 && reader.last_used_ms.load(Ordering::Relaxed) < since_ms
        };
        let mut readers = self.lock();
        let idle: Vec<WorkspaceId> = readers
            .iter()
            .filter(|(_, reader)| is_idle(reader))
            .map(|(id, _)| *id)
            .collect();
        let taken = idle.iter().filter_map(|id| readers.remove(id));
        taken
            .filter_map(|reader| reader.live.get().cloned())
            .collect()
    }

    /// Of which workspaces there are some.
    pub(super) fn workspaces(&self) -> Vec<WorkspaceId> {
        self.lock().keys().copied().collect()
    }

    /// What it guards is consistent at every panic point, and nobody waits while it is locked.
    fn lock(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Arc<Reader>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// It is used now.
    pub(super) fn touch(&self) {
        let now_ms = Timestamp::now().as_millisecond();
        self.last_used_ms.fetch_max(now_ms, Ordering::Relaxed);
    }
}
