//! Which monitored poll each thread is in right now: told by the thread, read by anybody.
//!
//! Counters are written when a poll ends, and one that never ends would be in none. So a thread
//! says in a slot of its own when a poll begins and ends, by plain stores that cost about a
//! nanosecond; who wants to know (the snapshot, the watcher) pays for looking.
//!
//! Slots belong to the process. They are never freed, so that a thread can hold a plain reference,
//! but those of ended threads are used again: there are as many as there once were threads.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use Ordering::{Acquire, Relaxed, Release};

/// No monitored poll.
const IDLE: u64 = 0;
/// No worker's loop.
const NO_WORKER: usize = usize::MAX;
/// A slot that changes under the reader's eyes is a poll that has just ended.
const ATTEMPTS: usize = 3;

/// What one thread says of itself. Aligned, so that two threads never write the same cache line
/// (or the pair of lines that x86 prefetches).
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot {
    /// Place among the slots; of the threads alive, this one alone has it.
    pub(crate) index: usize,
    /// Begin of the current poll by the monotonic clock, or [`IDLE`].
    began_ns: AtomicU64,
    /// Whose poll it is: a number in the registry of the monitor.
    endpoint: AtomicUsize,
    /// The kernel's number of the thread; 0 while the slot is nobody's.
    thread_id: AtomicU32,
    /// The monitor's own number of the thread.
    thread: AtomicUsize,
    /// The monitor in whose registry the endpoint is.
    monitor: AtomicU64,
    worker: AtomicUsize,
}

/// A slot as it was at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotReading {
    /// The kernel's number of the thread.
    pub(crate) thread_id: u32,
    /// The monitor's own number of the thread.
    pub(crate) thread: usize,
    /// Whose loop the thread ran when it last met a hook or a poll.
    pub(crate) worker: Option<usize>,
    /// The poll that it is in.
    pub(crate) poll: Option<SlotPoll>,
}

/// A poll that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotPoll {
    /// By the monotonic clock.
    pub(crate) began_ns: u64,
    /// Number in the registry.
    pub(crate) endpoint: usize,
}

static SLOTS: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// A slot for the calling thread, which [`Slot::release`]s it when it ends.
pub(crate) fn claim(thread: usize) -> &'static Slot {
    // A number of the kernel's is positive, and fits.
    let thread_id = nix::unistd::gettid().as_raw().unsigned_abs();
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    let free = slots
        .iter()
        .copied()
        .find(|slot| slot.thread_id.load(Acquire) == 0);
    let slot = free.unwrap_or_else(|| {
        let slot: &'static Slot = Box::leak(Box::new(Slot::new(slots.len())));
        slots.push(slot);
        slot
    });
    slot.thread.store(thread, Relaxed);
    slot.thread_id.store(thread_id, Release);
    slot
}

/// What the threads that a monitor has met say of themselves.
pub(crate) fn of_monitor(monitor: u64) -> Vec<SlotReading> {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    slots.iter().filter_map(|slot| slot.read(monitor)).collect()
}

impl Slot {
    fn new(index: usize) -> Self {
        Self {
            index,
            began_ns: AtomicU64::new(IDLE),
            endpoint: AtomicUsize::new(0),
            thread_id: AtomicU32::new(0),
            thread: AtomicUsize::new(0),
            monitor: AtomicU64::new(0),
            worker: AtomicUsize::new(NO_WORKER),
        }
    }

    /// The thread has met a monitor, or another one.
    pub(crate) fn adopt(&self, monitor: u64) {
        self.leave();
        self.worker.store(NO_WORKER, Relaxed);
        self.monitor.store(monitor, Release);
    }

    /// The thread runs this worker's loop, or none.
    pub(crate) fn set_worker(&self, worker: Option<usize>) {
        self.worker.store(worker.unwrap_or(NO_WORKER), Relaxed);
    }

    /// A poll begins. Not before the endpoint is written may its begin be seen.
    pub(crate) fn enter(&self, endpoint: usize, began_ns: u64) {
        self.endpoint.store(endpoint, Release);
        self.began_ns.store(began_ns, Release);
    }

    /// The poll has ended.
    pub(crate) fn leave(&self) {
        self.began_ns.store(IDLE, Release);
    }

    /// The thread ends; the slot is the next one's.
    pub(crate) fn release(&self) {
        self.leave();
        self.monitor.store(0, Relaxed);
        self.thread_id.store(0, Release);
    }

    fn read(&self, monitor: u64) -> Option<SlotReading> {
        let thread_id = self.thread_id.load(Acquire);
        if thread_id == 0 || self.monitor.load(Acquire) != monitor {
            return None;
        }
        let worker = self.worker.load(Relaxed);
        Some(SlotReading {
            thread_id,
            thread: self.thread.load(Relaxed),
            worker: (worker != NO_WORKER).then_some(worker),
            poll: self.poll(),
        })
    }

    /// Begin and endpoint of one and the same poll: the begin is the same before and after.
    fn poll(&self) -> Option<SlotPoll> {
        for _ in 0..ATTEMPTS {
            let began_ns = self.began_ns.load(Acquire);
            if began_ns == IDLE {
                return None;
            }
            let endpoint = self.endpoint.load(Acquire);
            if self.began_ns.load(Acquire) == began_ns {
                return Some(SlotPoll { began_ns, endpoint });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No monitor that a test of this process builds has such a number.
    const MONITOR: u64 = u64::MAX - 7;

    #[test]
    fn a_slot_tells_its_poll_until_it_ends() {
        let slot = claim(41);
        slot.adopt(MONITOR);
        slot.set_worker(Some(3));
        slot.enter(7, 1_000);
        let me = nix::unistd::gettid().as_raw().unsigned_abs();
        let inside = SlotReading {
            thread_id: me,
            thread: 41,
            worker: Some(3),
            poll: Some(SlotPoll {
                began_ns: 1_000,
                endpoint: 7,
            }),
        };
        assert_eq!(of_monitor(MONITOR), [inside]);
        slot.leave();
        assert_eq!(
            of_monitor(MONITOR),
            [SlotReading {
                poll: None,
                ..inside
            }]
        );
        slot.adopt(MONITOR - 1);
        assert_eq!(of_monitor(MONITOR), []);
        slot.release();
        assert_eq!(of_monitor(MONITOR - 1), []);
    }
}
