//! The managers that are tested, always as two workers see them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use unstall_sandbox_core::domain::WorkspaceId;
use unstall_sandbox_core::locks::{LeaseTimes, LocalLocks, RedisLocks};
use unstall_sandbox_core::ports::locks::{LockManager, LockName};
use unstall_testbed::{Options, Testbed};

/// No test waits longer for what must come; none is decided by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A worker's manager.
pub(crate) type Worker = Arc<dyn LockManager>;

/// Two workers who share locks.
pub(crate) struct Workers {
    pub(crate) first: Worker,
    pub(crate) second: Worker,
}

/// Two tasks of one process.
pub(crate) fn local() -> Workers {
    let locks = LocalLocks::new();
    Workers {
        first: Arc::new(locks.clone()),
        second: Arc::new(locks),
    }
}

/// Two workers, each with its own connection to a Redis that nobody disturbs.
pub(crate) async fn redis() -> Workers {
    let url = shared_testbed().redis_url();
    let times = LeaseTimes::default();
    Workers {
        first: Arc::new(connect(&url, times).await),
        second: Arc::new(connect(&url, times).await),
    }
}

pub(crate) async fn connect(url: &str, times: LeaseTimes) -> RedisLocks {
    let connected = RedisLocks::connect(url, times).await;
    connected.expect("Redis answers")
}

/// One for all tests that leave its servers alone. Its guard ends it with this process.
pub(crate) fn shared_testbed() -> &'static Testbed {
    static SHARED: OnceLock<Testbed> = OnceLock::new();
    SHARED.get_or_init(own_testbed)
}

/// One whose Redis may be killed.
pub(crate) fn own_testbed() -> Testbed {
    Testbed::start(&Options::default()).expect("private servers start")
}

/// A name that no other test has.
pub(crate) fn fresh_name() -> LockName {
    LockName::workspace_command(WorkspaceId::generate())
}

/// Times of a lease that is lost within a test's patience, and not by a busy machine's hiccup.
pub(crate) fn short_times() -> LeaseTimes {
    LeaseTimes::of_length(Duration::from_secs(3)).expect("a length in bounds")
}
