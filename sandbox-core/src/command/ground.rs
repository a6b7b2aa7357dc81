//! What a command stands on: threads for what blocks, and what has to be cleared away at its end,
//! whichever way that comes.

use std::sync::{Arc, OnceLock};

use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::service::SandboxService;

use super::failure::Failure;
use super::root_lock::RootLock;
use super::workshop::Need;

/// One command's.
pub(super) struct Ground {
    pool: BlockingPool,
    opened: OnceLock<Opened>,
}

/// What a workshop was opened with.
struct Opened {
    service: Arc<SandboxService>,
    need: Need,
    /// Held until all is cleared away.
    _lock: Option<RootLock>,
}

impl Ground {
    pub(super) const fn new(pool: BlockingPool) -> Self {
        Self {
            pool,
            opened: OnceLock::new(),
        }
    }

    pub(super) const fn pool(&self) -> &BlockingPool {
        &self.pool
    }

    /// Keeps what a workshop works with until the end. A command opens one.
    pub(super) fn keep(&self, service: Arc<SandboxService>, need: Need, lock: Option<RootLock>) {
        let _kept = self.opened.get_or_init(|| Opened {
            service,
            need,
            _lock: lock,
        });
    }

    /// Ends what runs in workspaces; and if the command was stopped, finishes or undoes what it had begun.
    ///
    /// # Errors
    /// When the service can't.
    pub(super) async fn close(&self, is_stopped: bool) -> Result<(), Failure> {
        let Some(opened) = self.opened.get() else {
            return Ok(());
        };
        opened.service.close().await?;
        if is_stopped && opened.need != Need::Looking {
            opened.service.reconcile().await?;
        }
        Ok(())
    }
}
