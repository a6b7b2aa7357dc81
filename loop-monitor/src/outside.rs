//! Watching the event loops of another process, with no change to it: Tokio, asyncio, uvloop,
//! Node.
//!
//! [`Watch::attach`] finds the loops' threads by itself; [`Watch::run`] follows each of them, from
//! the moments at which the kernel takes it off its core (or by looking often, where the kernel
//! tells nobody), and names by `/proc` what it waits for while it does. Nothing is stopped, traced
//! or written in the process.
//!
//! A loop's time is idle, running, waiting for a core, waiting for Python's interpreter lock, or
//! blocked, and these five add up to the time for which it was watched. *Idle* is a wait for events
//! on the loop's own descriptor, or a worker of Tokio parked for lack of work. Everything else that a
//! loop sleeps in keeps all of its tasks.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use unstall_loop_monitor::outside::{Watch, WatchOptions};
//!
//! let mut watch = Watch::attach(4242, &WatchOptions::default())?;
//! let until = Instant::now() + Duration::from_secs(5);
//! let summary = watch.run(|| Instant::now() >= until, Duration::from_secs(1), |_| {});
//! for cause in &summary.causes {
//!     let line = cause.cause.to_string();
//! #   let _ = line;
//! }
//! # Ok::<(), unstall_loop_monitor::outside::WatchError>(())
//! ```

mod budget;
mod causes;
mod elf;
mod error;
mod finder;
mod free_threading;
mod judge;
mod ledger;
mod pace;
mod program;
mod python;
mod runtime;
mod summary;
mod switches;
mod times;
mod trace_event;
pub mod tracer;
#[expect(
    clippy::disallowed_methods,
    reason = "procfs, read on a thread of the tracer's own"
)]
mod tracer_judge;
mod tracer_ledger;
#[expect(
    clippy::disallowed_methods,
    reason = "procfs, read on a thread of the tracer's own"
)]
mod tracer_python;
mod tracer_rest;
#[expect(
    clippy::disallowed_methods,
    reason = "procfs, read on a thread of the tracer's own"
)]
mod tracer_routes;
mod tracer_session;
mod tracer_threads;
mod v8;
mod wakes;
mod watch;
mod watched_thread;

pub use error::WatchError;
pub use watch::{Watch, WatchOptions};

use std::net::SocketAddr;

use crate::process::{ProcessView, listeners};

/// The processes that listen where a connection from here to `address` arrives, as far as they may
/// be read.
///
/// # Errors
/// When the kernel's tables can't be read.
pub fn listeners(address: SocketAddr) -> Result<Vec<u32>, WatchError> {
    Ok(listeners::listeners(&ProcessView::own(), address)?)
}
