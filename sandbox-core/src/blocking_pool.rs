//! The one place where calls wait for the kernel: a few threads of our own beside the runtime.
//!
//! Opening a file, walking a tree and starting a process sleep in the kernel, whichever way they are
//! called, so none of them may happen on a runtime's worker. tokio has a pool for that, but an unfit
//! one: everything in the process shares it, it starts threads on the worker that asks, and its threads
//! end when idle. The last matters to processes that die with their parent: to the kernel the parent is
//! the *thread* that started them. Here threads are started with the pool and live as long as it.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

type Job = Box<dyn FnOnce() + Send>;

/// Threads for calls that block. Clones are the same pool; its threads end when the last clone is gone
/// and what was queued is done.
#[derive(Debug, Clone)]
pub struct BlockingPool {
    jobs: mpsc::UnboundedSender<Job>,
    waits: Arc<WaitCounts>,
}

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockingPoolError {
    /// Nobody would ever do what is queued.
    #[error("a pool of no threads does nothing; give it one at least")]
    NoThreads,
    /// The system refused a thread.
    #[error(
        "thread {number} of {threads_max} of the blocking pool wasn't started: {source}; raise the limit on processes (ulimit -u), or ask for fewer threads"
    )]
    ThreadNotStarted {
        /// Which, from 1 on.
        number: usize,
        /// How many were asked for.
        threads_max: usize,
        /// What the system said.
        source: io::Error,
    },
}

impl BlockingPool {
    /// Starts a pool's threads, all of them. Call it before the runtime serves, as that blocks.
    ///
    /// # Errors
    /// When the system refuses a thread, or none is asked for.
    pub fn new(threads_max: usize) -> Result<Self, BlockingPoolError> {
        if threads_max == 0 {
            return Err(BlockingPoolError::NoThreads);
        }
        let (jobs, queue) = mpsc::unbounded_channel();
        let queue = Arc::new(Mutex::new(queue));
        for number in 1..=threads_max {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new()
                .name(format!("sandbox-block-{number}"))
                .spawn(move || work_off(&queue))
                .map_err(|source| BlockingPoolError::ThreadNotStarted {
                    number,
                    threads_max,
                    source,
                })?;
        }
        let waits = Arc::new(WaitCounts::default());
        Ok(Self { jobs, waits })
    }

    /// Queues `work` for which nobody waits, such as clearing away what was dropped. It is done even if
    /// the caller's runtime has ended meanwhile.
    pub fn run_unwatched<F: FnOnce() + Send + 'static>(&self, work: F) {
        let waits = Arc::clone(&self.waits);
        let asked = Instant::now();
        let job: Job = Box::new(move || {
            waits.add(asked.elapsed());
            // The panic was printed; its thread goes on.
            let _panic = catch_unwind(AssertUnwindSafe(work));
        });
        // Threads end only after the queue's last sender, so that one of them takes it.
        let _queued = self.jobs.send(job);
    }

    /// Queues `work` at once, before the first poll, and answers what it returns. It runs within the
    /// caller's runtime, if there is one, so that it may start tokio's processes. If it panics, so does
    /// the caller's poll.
    ///
    /// When the answer is dropped, work that hasn't begun is left out; work that has goes on to its end.
    pub fn run<T, F>(&self, work: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (answer, answered) = oneshot::channel::<Result<T, Box<dyn Any + Send>>>();
        let waits = Arc::clone(&self.waits);
        let runtime = Handle::try_current().ok();
        let asked = Instant::now();
        let job: Job = Box::new(move || {
            if answer.is_closed() {
                return;
            }
            waits.add(asked.elapsed());
            let entered = runtime.as_ref().map(Handle::enter);
            let outcome = catch_unwind(AssertUnwindSafe(work));
            drop(entered);
            // Nobody waits any more when the answer was dropped meanwhile.
            let _unwanted = answer.send(outcome);
        });
        // Threads end only after the queue's last sender, so that one of them takes it.
        let queued = self.jobs.send(job).is_ok();
        async move {
            match answered.await {
                Ok(Ok(value)) => value,
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => unreachable!("a queued job answers (queued: {queued})"),
            }
        }
    }

    /// How long work waited for a thread, since the pool was made.
    #[must_use]
    pub fn queue_waits(&self) -> QueueWaits {
        self.waits.read()
    }
}

/// Does what is queued until the pool is gone.
fn work_off(queue: &Mutex<mpsc::UnboundedReceiver<Job>>) {
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    while let Some(job) = next_job(queue, &waker) {
        job();
    }
}

/// Waits for a job; there is none any more when the pool is gone.
///
/// One idle thread waits for a job and the others for the lock, which is free before the job begins: so
/// a job that panics can't poison it. Whoever queues a job takes no lock at all. That is why this isn't
/// tokio's `blocking_recv`, which is woken under one, so that a worker might have to wait for it.
fn next_job(queue: &Mutex<mpsc::UnboundedReceiver<Job>>, waker: &Waker) -> Option<Job> {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    let mut context = Context::from_waker(waker);
    loop {
        match queue.poll_recv(&mut context) {
            Poll::Ready(job) => return job,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Wakes a thread of the pool.
struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// How long work waited for a thread of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueWaits {
    /// Pieces of work that were begun.
    pub begun: u64,
    /// 99 of 100 waited for this many microseconds at most; up to a quarter more than exact.
    pub p99_us: u64,
    /// The longest wait in microseconds.
    pub max_us: u64,
}

/// Buckets of a quarter of a power of two each, up to 71 minutes (2³² µs).
const BUCKETS: usize = 124;

/// Waits by length, counted without a lock.
#[derive(Debug)]
struct WaitCounts {
    buckets: [AtomicU64; BUCKETS],
    max_us: AtomicU64,
}

impl Default for WaitCounts {
    fn default() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            max_us: AtomicU64::new(0),
        }
    }
}

impl WaitCounts {
    fn add(&self, wait: Duration) {
        let wait_us = u32::try_from(wait.as_micros()).unwrap_or(u32::MAX);
        self.buckets[bucket_of(wait_us)].fetch_add(1, Ordering::Relaxed);
        self.max_us.fetch_max(u64::from(wait_us), Ordering::Relaxed);
    }

    fn read(&self) -> QueueWaits {
        let counts: Vec<u64> = self
            .buckets
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect();
        let begun: u64 = counts.iter().sum();
        let max_us = self.max_us.load(Ordering::Relaxed);
        let rank = begun - begun / 100;
        let mut seen = 0;
        let reached = counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let p99_us = reached.map_or(0, longest_in).min(max_us);
        QueueWaits {
            begun,
            p99_us,
            max_us,
        }
    }
}

fn bucket_of(wait_us: u32) -> usize {
    if wait_us < 4 {
        return wait_us as usize;
    }
    let power = wait_us.ilog2();
    let quarter = (wait_us >> (power - 2)) & 3;
    (4 * (power - 1) + quarter) as usize
}

fn longest_in(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 4 {
        return bucket;
    }
    let (power, quarter) = (bucket / 4 + 1, bucket % 4);
    ((4 + quarter + 1) << (power - 2)) - 1
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc as std_mpsc;

    use super::*;

    #[tokio::test]
    async fn what_the_work_returns_is_answered() {
        let pool = BlockingPool::new(2).expect("threads");
        let caller = std::thread::current().id();
        let name = pool
            .run(move || {
                assert_ne!(std::thread::current().id(), caller);
                std::thread::current().name().map(str::to_owned)
            })
            .await;
        assert!(name.is_some_and(|name| name.starts_with("sandbox-block-")));
        assert_eq!(pool.queue_waits().begun, 1);
    }

    #[tokio::test]
    async fn never_more_threads_work_than_the_pool_has() {
        let pool = BlockingPool::new(3).expect("threads");
        let now = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let work = (0..60).map(|_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            pool.run(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
            })
        });
        futures_util::future::join_all(work).await;
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
        assert_eq!(pool.queue_waits().begun, 60);
    }

    #[test]
    fn work_that_nobody_waits_for_is_done_after_a_panic_and_without_a_runtime() {
        let pool = BlockingPool::new(1).expect("a thread");
        let (done, told) = std_mpsc::channel();
        pool.run_unwatched(|| panic!("planted"));
        pool.run_unwatched(move || done.send(()).expect("somebody waits"));
        assert!(told.recv_timeout(Duration::from_secs(60)).is_ok());
    }

    #[tokio::test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a pool's thread may wait, that is what it is for"
    )]
    async fn work_whose_answer_was_dropped_before_it_began_is_left_out() {
        let pool = BlockingPool::new(1).expect("a thread");
        let (go, gate) = std_mpsc::channel::<()>();
        let first = pool.run(move || gate.recv());
        let was_run = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&was_run);
        drop(pool.run(move || counted.fetch_add(1, Ordering::SeqCst)));
        go.send(()).expect("the first waits");
        assert!(first.await.is_ok());
        pool.run(|| ()).await;
        assert_eq!(was_run.load(Ordering::SeqCst), 0);
        assert_eq!(pool.queue_waits().begun, 2);
    }

    #[tokio::test]
    async fn a_panic_reaches_the_caller_and_the_thread_goes_on() {
        let pool = BlockingPool::new(1).expect("a thread");
        let caller = tokio::spawn(pool.run(|| panic!("as planned")));
        assert!(caller.await.expect_err("a panic").is_panic());
        assert_eq!(pool.run(|| 7).await, 7);
    }

    #[tokio::test]
    async fn work_may_start_processes_of_the_callers_runtime() {
        let pool = BlockingPool::new(1).expect("a thread");
        assert!(pool.run(|| Handle::try_current().is_ok()).await);
    }

    #[tokio::test]
    async fn what_was_queued_is_done_after_the_pool_is_gone() {
        let pool = BlockingPool::new(1).expect("a thread");
        let work = pool.run(|| 7);
        drop(pool);
        assert_eq!(work.await, 7);
    }

    #[test]
    fn a_pool_of_no_threads_is_refused() {
        assert!(matches!(
            BlockingPool::new(0),
            Err(BlockingPoolError::NoThreads)
        ));
    }

    #[test]
    fn buckets_are_in_order_and_hold_what_falls_into_them() {
        for power in 0..32 {
            for wait_us in [
                (1_u32 << power) - 1,
                1 << power,
                (1 << power) + (1 << power) / 3,
            ] {
                let bucket = bucket_of(wait_us);
                assert!(bucket < BUCKETS);
                assert!(u64::from(wait_us) <= longest_in(bucket), "{wait_us}");
                assert!(
                    bucket == 0 || longest_in(bucket - 1) < u64::from(wait_us),
                    "{wait_us}"
                );
            }
        }
        assert_eq!(longest_in(bucket_of(u32::MAX)), u64::from(u32::MAX));
    }

    #[test]
    fn the_99th_of_100_waits_is_told() {
        let counts = WaitCounts::default();
        assert_eq!(counts.read().p99_us, 0);
        for _ in 0..99 {
            counts.add(Duration::from_micros(100));
        }
        counts.add(Duration::from_secs(1));
        let read = counts.read();
        assert_eq!((read.begun, read.max_us), (100, 1_000_000));
        assert!((100..=125).contains(&read.p99_us), "{}", read.p99_us);
    }
}
