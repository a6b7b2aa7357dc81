//! A bounded way off the loop for what has no other: mail and analytics have only a synchronous
//! client, after step 4 as before it.
//!
//! A call on a pool without bounds is what the migration reverts. Here threads, queue and the time
//! of each call are bounded, nobody waits, and what is not done is counted and told.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use thiserror::Error;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use unstall_loop_monitor::{Counter, Monitor};

/// How much a bridge carries. A job's time is bounded by the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Jobs at a time.
    pub threads: usize,
    /// Jobs that wait.
    pub queued_max: usize,
}

/// What bridges lose, counted.
#[derive(Debug, Clone, Default)]
pub struct BridgeCounters {
    /// Jobs that were never done: the queue was full, or the service ended.
    pub dropped: Counter,
    /// Jobs that were done and failed.
    pub failed: Counter,
}

impl BridgeCounters {
    /// Counters in the monitor's snapshot.
    #[must_use]
    pub fn counted_by(monitor: &Monitor) -> Self {
        Self {
            dropped: monitor.counter("bridge_dropped"),
            failed: monitor.counter("bridge_failed"),
        }
    }
}

/// Why a job wasn't taken. It is counted as dropped.
#[derive(Debug, Error)]
pub enum NotHandedOver {
    /// As many jobs wait as may.
    #[error("{0} jobs wait already")]
    Full(usize),
    /// The service ends.
    #[error("the service is ending")]
    Closed,
    /// The system has no thread.
    #[error("no thread can be started: {0}")]
    NoThread(#[source] io::Error),
}

/// One call that blocks, for not longer than it may.
type Job = Box<dyn FnOnce() -> Result<(), Box<dyn std::error::Error>> + Send>;

/// Threads and their queue. Each of the first jobs brings a thread, so that a service that has no
/// jobs has no threads for them.
pub struct Bridge {
    name: &'static str,
    bounds: Bounds,
    /// `None` once it is closed.
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    threads: Mutex<usize>,
    shared: Arc<Shared>,
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Bridge");
        text.field("name", &self.name).field("bounds", &self.bounds);
        text.finish_non_exhaustive()
    }
}

/// What the threads share with it.
struct Shared {
    name: &'static str,
    counters: BridgeCounters,
    jobs: Mutex<mpsc::Receiver<Job>>,
    /// Jobs taken and not done.
    unfinished: AtomicUsize,
    /// Told when a job is done.
    one_done: Notify,
    given_up: AtomicBool,
}

impl Bridge {
    /// A bridge without threads yet.
    #[must_use]
    pub fn new(name: &'static str, bounds: Bounds, counters: BridgeCounters) -> Self {
        let (queue, jobs) = mpsc::channel(bounds.queued_max);
        Self {
            name,
            bounds,
            queue: Mutex::new(Some(queue)),
            threads: Mutex::new(0),
            shared: Arc::new(Shared {
                name,
                counters,
                jobs: Mutex::new(jobs),
                unfinished: AtomicUsize::new(0),
                one_done: Notify::new(),
                given_up: AtomicBool::new(false),
            }),
        }
    }

    /// Takes a job, and doesn't wait for anything.
    ///
    /// # Errors
    /// [`NotHandedOver`] if it won't be done.
    pub fn hand_over(
        &self,
        job: impl FnOnce() -> Result<(), Box<dyn std::error::Error>> + Send + 'static,
    ) -> Result<(), NotHandedOver> {
        let taken = self.enqueue(Box::new(job));
        if taken.is_err() {
            self.shared.counters.dropped.add(1);
        }
        taken
    }

    fn enqueue(&self, job: Job) -> Result<(), NotHandedOver> {
        let queue = lock(&self.queue);
        let queue = queue.as_ref().ok_or(NotHandedOver::Closed)?;
        self.start_thread().map_err(NotHandedOver::NoThread)?;
        let Ok(place) = queue.try_reserve() else {
            return Err(NotHandedOver::Full(self.bounds.queued_max));
        };
        // Before it can be done.
        self.shared.unfinished.fetch_add(1, Ordering::Relaxed);
        place.send(job);
        Ok(())
    }

    /// Starts one more, up to the bound. Not all at once: the loop waits while the system makes one.
    fn start_thread(&self) -> io::Result<()> {
        let mut threads = lock(&self.threads);
        if *threads == self.bounds.threads {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name(self.name.to_owned());
        match thread.spawn(move || shared.work()) {
            Ok(_it_ends_with_the_queue) => *threads += 1,
            Err(error) if *threads == 0 => return Err(error),
            // Fewer do it, more slowly; the next job tries again.
            Err(_) => (),
        }
        Ok(())
    }

    /// Takes no more jobs, and waits for those that were taken. At the end the rest is dropped, and
    /// told.
    pub async fn close(&self, end: Instant) {
        drop(lock(&self.queue).take());
        let all_done = async {
            while self.shared.unfinished.load(Ordering::Acquire) > 0 {
                self.shared.one_done.notified().await;
            }
        };
        if tokio::time::timeout_at(end, all_done).await.is_ok() {
            return;
        }
        self.shared.given_up.store(true, Ordering::Release);
        let left = self.shared.unfinished.load(Ordering::Acquire);
        // Fits: a bridge holds few.
        self.shared.counters.dropped.add(left as u64);
        tracing::warn!("{}: {left} jobs are left undone at the end", self.name);
    }
}

impl Shared {
    /// What a thread does until the queue is closed and empty.
    fn work(&self) {
        loop {
            // One thread waits for a job, the others for their turn to.
            let Some(job) = lock(&self.jobs).blocking_recv() else {
                return;
            };
            if self.given_up.load(Ordering::Acquire) {
                return;
            }
            match catch_unwind(AssertUnwindSafe(job)) {
                Ok(Ok(())) => (),
                Ok(Err(error)) => self.tell_of_failure(&*error),
                Err(_panic_is_on_stderr) => self.tell_of_failure(&"it panicked"),
            }
            self.unfinished.fetch_sub(1, Ordering::Release);
            self.one_done.notify_one();
        }
    }

    fn tell_of_failure(&self, why: &(impl fmt::Display + ?Sized)) {
        self.counters.failed.add(1);
        tracing::warn!("{}: a job failed: {why}", self.name);
    }
}

/// A job that panics holds none of the locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        threads: 2,
        queued_max: 3,
    };

    /// A bridge, both of whose threads do jobs that wait for the test.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test and the jobs wait for each other on threads where no loop runs"
    )]
    fn busy(counters: &BridgeCounters) -> (Bridge, Sender<()>, Receiver<()>) {
        let bridge = Bridge::new("bridge", BOUNDS, counters.clone());
        let (go_on, told) = channel::<()>();
        let told = Arc::new(Mutex::new(told));
        let (began, begun) = channel();
        for _ in 0..BOUNDS.threads {
            let (told, began) = (Arc::clone(&told), began.clone());
            let job = move || {
                began.send(()).expect("the test listens");
                // Nobody ever sends: it returns when the test lets go.
                match lock(&told).recv() {
                    Ok(()) | Err(_) => Ok(()),
                }
            };
            bridge.hand_over(job).expect("there is room");
        }
        for _ in 0..BOUNDS.threads {
            begun.recv().expect("a job begins");
        }
        (bridge, go_on, begun)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(1)
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[tokio::test]
    async fn what_finds_the_queue_full_is_dropped_and_told() {
        let counters = BridgeCounters::default();
        let (bridge, go_on, _begun) = busy(&counters);
        for _ in 0..BOUNDS.queued_max {
            bridge.hand_over(|| Ok(())).expect("there is room");
        }
        for dropped in 1..=5 {
            let told = bridge.hand_over(|| panic!("it is not done"));
            assert!(matches!(told, Err(NotHandedOver::Full(3))), "{told:?}");
            assert_eq!(counters.dropped.value(), dropped);
        }
        drop(go_on);
        bridge.close(far()).await;
        assert_eq!((counters.dropped.value(), counters.failed.value()), (5, 0));
        let late = bridge.hand_over(|| Ok(()));
        assert!(matches!(late, Err(NotHandedOver::Closed)), "{late:?}");
        assert_eq!(counters.dropped.value(), 6);
    }

    #[tokio::test]
    async fn what_is_queued_at_the_end_is_done_if_there_is_time() {
        let counters = BridgeCounters::default();
        let (bridge, go_on, _begun) = busy(&counters);
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..BOUNDS.queued_max {
            let done = Arc::clone(&done);
            let job = move || {
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            bridge.hand_over(job).expect("there is room");
        }
        drop(go_on);
        bridge.close(far()).await;
        assert_eq!(done.load(Ordering::Relaxed), BOUNDS.queued_max);
        assert_eq!(counters.dropped.value(), 0);
    }

    #[tokio::test]
    async fn what_is_undone_at_the_end_is_counted() {
        let counters = BridgeCounters::default();
        let (bridge, _go_on, _begun) = busy(&counters);
        for _ in 0..BOUNDS.queued_max {
            bridge.hand_over(|| Ok(())).expect("there is room");
        }
        bridge.close(soon()).await;
        // Two that were begun, and three that weren't.
        assert_eq!((counters.dropped.value(), counters.failed.value()), (5, 0));
    }

    #[tokio::test]
    async fn what_fails_is_counted_and_costs_no_thread() {
        let counters = BridgeCounters::default();
        let bridge = Bridge::new("bridge", BOUNDS, counters.clone());
        for turn in 0..8 {
            let job = move || match turn % 2 {
                0 => Err("the service is down".into()),
                _ => panic!("a fault of the client"),
            };
            // No more than wait at a time.
            while matches!(bridge.hand_over(job), Err(NotHandedOver::Full(_))) {
                tokio::task::yield_now().await;
            }
        }
        bridge.close(far()).await;
        assert_eq!(counters.failed.value(), 8);
    }
}
