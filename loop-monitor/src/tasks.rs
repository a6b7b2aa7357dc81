//! Spawned tasks: what runs beside the requests gets counters of its own, by name.

use tokio::task::JoinHandle;

use crate::monitor::Monitor;
use crate::polls::{Charged, MonitoredTask};

impl Monitor {
    /// Spawns a task whose polls are counted under `name` in the snapshot's `tasks`, apart from
    /// the request that spawned it.
    ///
    /// The name must be one of few, never one with an id in it: beyond the monitor's
    /// [cap](crate::MonitorBuilder::endpoint_cap), names share [`OTHER_NAME`](crate::OTHER_NAME).
    /// What a task that is not spawned so blocks is `unattributed`.
    ///
    /// # Panics
    /// Outside of a runtime, as [`tokio::spawn`].
    #[track_caller]
    pub fn spawn<F>(&self, name: &str, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        tokio::spawn(self.task(name, future))
    }

    /// Only wraps a future, for who spawns in another way: `JoinSet`, `spawn_local`, a runtime's
    /// handle. It is a task of its own from the first poll that isn't within another measured
    /// poll; awaited within a request it is a part of that request, and not counted twice.
    pub fn task<F: Future>(&self, name: &str, future: F) -> MonitoredTask<F> {
        let endpoint = self.inner.meter.endpoints().resolve_task(name);
        MonitoredTask::new(future, Charged::new(self.clone(), endpoint))
    }
}
