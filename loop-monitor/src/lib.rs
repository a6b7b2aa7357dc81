//! How an event loop fares: what its polls cost, what blocked it, and where.
//!
//! A [`Monitor`] is [installed](Monitor::install) into a Tokio runtime's builder, and its
//! [layer](Monitor::layer) wraps a tower service. From then on every poll of a handler or of a
//! response body is timed, and the time in which its thread slept inside a poll, which nobody
//! else on that loop could use, is charged to the endpoint. Waits at an `.await`, `spawn_blocking`,
//! `block_in_place`, long computations and a busy machine are not blocking, and aren't counted.
//!
//! [`Monitor::spawn`] does the same for tasks, by name, [`Monitor::service_layer`] for services that
//! don't speak HTTP, and [`Monitor::spawn_blocking`] tells how long jobs wait for a thread of the
//! blocking pool. [`Monitor::counter`] counts what the service knows of itself, in the same snapshot. What
//! is not covered the [snapshot](Snapshot::not_covered) says itself.
//!
//! ```
//! use unstall_loop_monitor::{Mode, Monitor};
//!
//! let monitor = Monitor::builder().mode(Mode::Counters).build();
//! let mut builder = tokio::runtime::Builder::new_multi_thread();
//! builder.worker_threads(1).enable_all();
//! monitor.install(&mut builder);
//! let runtime = builder.build()?;
//! let parks = runtime.block_on(async { monitor.snapshot().runtime_metrics.parks });
//! # let _ = parks;
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(all(feature = "watch", target_os = "linux", target_arch = "x86_64"))]
pub mod blocking_rules;
mod calls;
pub mod cause;
mod cells;
pub mod certificate;
mod charge;
mod conservation;
mod counters;
mod endpoints;
mod exposition;
mod histogram;
mod kernel_canary;
mod lag;
mod layer;
mod meter;
mod monitor;
#[cfg(all(feature = "outside", target_os = "linux", target_arch = "x86_64"))]
pub mod outside;
#[cfg(all(
    feature = "outside",
    not(all(target_os = "linux", target_arch = "x86_64"))
))]
#[path = "no_outside.rs"]
pub mod outside;
mod poll_clock;
mod poll_slots;
mod polls;
mod pool;
#[cfg(all(feature = "watch", target_os = "linux", target_arch = "x86_64"))]
pub mod process;
mod prometheus;
#[cfg(feature = "prove")]
pub mod prove;
mod readings;
#[cfg(feature = "axum")]
mod router;
mod runtime_totals;
mod snapshot;
mod stalls;
mod tasks;
mod thread_state;
mod warning;
pub mod watched;
#[cfg(all(feature = "watch", target_os = "linux", target_arch = "x86_64"))]
mod watcher;
#[cfg(not(all(feature = "watch", target_os = "linux", target_arch = "x86_64")))]
#[path = "no_watcher.rs"]
mod watcher;
pub mod wire;

pub use calls::{CallLayer, CallService};
pub use counters::Counter;
pub use endpoints::{OTHER_ENDPOINT, OTHER_NAME, UNMATCHED_ENDPOINT};
pub use lag::{LAG_PROBE_PERIOD, LagProbeError};
pub use layer::{MatchedRoute, MonitorLayer, MonitorService, RouteOf};
pub use monitor::{Monitor, MonitorBuilder, PathError};
pub use polls::{MonitoredBody, MonitoredCall, MonitoredFuture, MonitoredTask};
pub use wire::{Mode, Snapshot};
