//! How late a single loop serves a timer: the delay that everything else on it feels too.
//!
//! The probe wakes every [`LAG_PROBE_PERIOD`] at deadlines that lie on a fixed grid, so its own
//! lateness never moves the next one. A stall over several deadlines counts once for each of
//! them, as late as each was: a probe that skipped them would see one delay where everyone else
//! saw many. Tokio's timers have a granularity of 1 ms, which is the floor of what it shows.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::monitor::{Monitor, MonitorState};
use crate::readings::nanoseconds;

/// Twenty wake-ups a second leave an idle loop idle, and still catch every stall of 50 ms.
pub const LAG_PROBE_PERIOD: Duration = Duration::from_millis(50);

/// Why there is no lag to measure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LagProbeError {
    /// Called outside of a runtime.
    #[error("the lag probe needs a Tokio runtime: call spawn_lag_probe from within one")]
    NoRuntime,
    /// Several loops: a free one serves the timer while another is stalled.
    #[error(
        "loop lag says nothing with {workers} workers, since a free one serves the timer while \
         another is stalled; use it with worker_threads(1) or a current_thread runtime"
    )]
    SeveralLoops {
        /// Workers of the runtime.
        workers: usize,
    },
    /// It runs already.
    #[error("the lag probe of this monitor runs already")]
    AlreadyRunning,
}

impl Monitor {
    /// Starts the lag probe on the current runtime, which must have time enabled and only one
    /// loop. It ends with the runtime, or once every clone of the monitor is dropped.
    ///
    /// # Errors
    /// Without a runtime, with several loops, or when it runs already.
    pub fn spawn_lag_probe(&self) -> Result<JoinHandle<()>, LagProbeError> {
        let handle = Handle::try_current().map_err(|_| LagProbeError::NoRuntime)?;
        let workers = handle.metrics().num_workers();
        if handle.runtime_flavor() != RuntimeFlavor::CurrentThread && workers > 1 {
            return Err(LagProbeError::SeveralLoops { workers });
        }
        if self.inner.lag_probed.swap(true, Relaxed) {
            return Err(LagProbeError::AlreadyRunning);
        }
        Ok(handle.spawn(probe(Arc::downgrade(&self.inner))))
    }
}

async fn probe(state: Weak<MonitorState>) {
    let mut deadline = Instant::now() + LAG_PROBE_PERIOD;
    loop {
        tokio::time::sleep_until(deadline).await;
        let Some(state) = state.upgrade() else {
            return;
        };
        let now = Instant::now();
        while deadline <= now {
            state.lag.record(nanoseconds(now - deadline));
            deadline += LAG_PROBE_PERIOD;
        }
    }
}
