//! A watch from outside on a thread of its own, which its parts never leave, asked now and then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use unstall_loop_monitor::outside::{Watch, WatchOptions};
use unstall_loop_monitor::watched::{WatchSummary, WatchedCause};

/// How often the summary so far is taken.
const VIEW_EVERY: Duration = Duration::from_millis(50);
/// For the next of them, on a busy machine.
const VIEW_MAX: Duration = Duration::from_secs(20);

/// A watch that goes on until it is dropped.
#[derive(Debug)]
pub(super) struct Watching {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    view: Mutex<View>,
    is_new: Condvar,
}

/// The summary so far.
#[derive(Debug, Default)]
struct View {
    /// How many were taken.
    number: u64,
    causes: Vec<WatchedCause>,
}

impl Watching {
    /// Watches from now on.
    pub(super) fn start(pid: u32) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let (tell, told) = channel();
        let its = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            // Whoever started this waits for an answer.
            let _ = match Watch::attach(pid, &WatchOptions::default()) {
                Ok(mut watch) => {
                    let told = tell.send(Ok(()));
                    let is_over = || its.is_over.load(Ordering::Acquire);
                    watch.run(is_over, VIEW_EVERY, |summary| its.show(summary));
                    told
                }
                Err(error) => tell.send(Err(error.to_string())),
            };
        });
        let gone = |_| Err("the watch ended before it began".to_owned());
        told.recv().unwrap_or_else(gone)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Everything that was named until now.
    pub(super) fn causes(&self) -> Result<Vec<WatchedCause>, String> {
        let deadline = Instant::now() + VIEW_MAX;
        let mut view = self
            .shared
            .view
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // The next one may have been begun before now.
        let wanted = view.number + 2;
        while view.number < wanted {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!(
                    "the watch said nothing for {} s",
                    VIEW_MAX.as_secs()
                ));
            }
            let waited = self.shared.is_new.wait_timeout(view, left);
            view = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(view.causes.clone())
    }
}

impl Shared {
    fn show(&self, summary: &WatchSummary) {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.number += 1;
        view.causes.clone_from(&summary.causes);
        self.is_new.notify_all();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A watch that panicked has said nothing more, which was told.
            let _ = thread.join();
        }
    }
}
