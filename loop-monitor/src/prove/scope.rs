//! To whom caught calls are charged: a route, or one asserted future.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::slots;

static SCOPES: AtomicU64 = AtomicU64::new(0);

/// Counters of one route or one future. The signal handler writes them: atomics only.
#[derive(Debug)]
pub(crate) struct Scope {
    /// By which slots know their owner; from 1.
    pub(super) id: u64,
    pub(super) polls: AtomicU64,
    /// Polls of threads that the kernel refused to watch, or for which SIGSYS went elsewhere.
    pub(super) unwatched_polls: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) log_writes: AtomicU64,
    /// Calls that can block for whose place there was no slot left.
    pub(super) lost: AtomicU64,
    /// Places that asked for a slot of their own.
    pub(super) places: AtomicU64,
    /// Calls that can block of more places than are told apart: counted with others.
    pub(super) crowded: AtomicU64,
    /// Polls whose thread slept although they made no call that can block.
    pub(super) slept_polls: AtomicU64,
    /// Polls that waited for a page from disk.
    pub(super) faulted_polls: AtomicU64,
    #[expect(
        clippy::vec_box,
        reason = "the handler holds their addresses while the list grows"
    )]
    exempted: Mutex<Vec<Box<Exempted>>>,
}

/// Calls that were allowed for one reason.
#[derive(Debug)]
pub(super) struct Exempted {
    pub(super) reason: &'static str,
    pub(super) calls: AtomicU64,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            id: SCOPES.fetch_add(1, Relaxed) + 1,
            polls: AtomicU64::new(0),
            unwatched_polls: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            log_writes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            places: AtomicU64::new(0),
            crowded: AtomicU64::new(0),
            slept_polls: AtomicU64::new(0),
            faulted_polls: AtomicU64::new(0),
            exempted: Mutex::default(),
        }
    }
}

impl Scope {
    /// The cell of a reason, made when it is new; its address is good as long as the scope.
    pub(super) fn exempted(&self, reason: &'static str) -> *const Exempted {
        let mut cells = self.exempted.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cells.iter().position(|cell| cell.reason == reason);
        let place = known.unwrap_or_else(|| {
            cells.push(Box::new(Exempted {
                reason,
                calls: AtomicU64::new(0),
            }));
            cells.len() - 1
        });
        std::ptr::from_ref(&*cells[place])
    }

    /// Reasons under which calls were made, and how many.
    pub(super) fn exemptions(&self) -> Vec<(&'static str, u64)> {
        let cells = self.exempted.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = cells
            .iter()
            .map(|cell| (cell.reason, cell.calls.load(Relaxed)));
        counted.filter(|(_, calls)| *calls > 0).collect()
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        slots::free(self.id);
    }
}
