//! A busy machine: threads that compute beside the canary, in this process and not in its.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Nothing spins for longer, whatever happens to who wanted it.
const SPIN_MAX: Duration = Duration::from_secs(60);

/// Computes until it is dropped.
#[derive(Debug)]
pub(super) struct Spinners {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    /// Two threads per core.
    pub(super) fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..2 * cores).map(|_| {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                let deadline = Instant::now() + SPIN_MAX;
                while !over.load(Ordering::Relaxed) && Instant::now() < deadline {
                    std::hint::spin_loop();
                }
            })
        });
        Self {
            threads: threads.collect(),
            over,
        }
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // They only compute: there is nothing to panic about.
            let _ = thread.join();
        }
    }
}
