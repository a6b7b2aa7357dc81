//! What a thread remembers between its polls: its place in the runtime and its last reading.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::cells::{Part, Place};
use crate::poll_clock::PollClock;
use crate::poll_slots::{self, Slot};
use crate::readings::{Reading, ThreadReader};

/// What this thread is to its runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Not asked yet.
    Unknown,
    /// Runs the loop of this worker.
    Loop(usize),
    /// Ran the loop, until `block_in_place` gave it to another thread.
    OffLoop,
    /// No worker: `block_on` of a multi-thread runtime, or no runtime at all.
    Outside,
}

/// What every poll touches; plain cells, so that a poll pays for no borrow check or destructor.
pub(crate) struct Hot {
    /// Number of the thread, from 1; 0 until asked for.
    thread: Cell<usize>,
    /// The monitor that this state is about.
    monitor: Cell<u64>,
    pub(crate) role: Cell<Role>,
    /// Inside a monitored poll; an inner one is part of the outer.
    pub(crate) in_poll: Cell<bool>,
    /// Parks are seen, so `last_reading` begins an interval without idle waits.
    pub(crate) hooked: Cell<bool>,
    pub(crate) last_reading: Cell<Option<Reading>>,
    pub(crate) longest: Cell<LongestPoll>,
    /// Until then, on the monotonic clock, every poll is fully split.
    pub(crate) full_split_until_ns: Cell<u64>,
    /// Taken at the begin of the current poll, if that is fully split.
    pub(crate) split_from: Cell<Option<Reading>>,
    /// Where the thread tells others of its poll; none while it is being torn down.
    pub(crate) slot: Cell<Option<&'static Slot>>,
}

/// The longest poll since the last reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongestPoll {
    pub(crate) hold_ns: u64,
    /// Number in the registry.
    pub(crate) endpoint: usize,
    pub(crate) part: Part,
}

impl LongestPoll {
    pub(crate) const NONE: Self = Self {
        hold_ns: 0,
        endpoint: 0,
        part: Part::Handler,
    };
}

thread_local! {
    static HOT: Hot = const {
        Hot {
            thread: Cell::new(0),
            monitor: Cell::new(0),
            role: Cell::new(Role::Unknown),
            in_poll: Cell::new(false),
            hooked: Cell::new(false),
            last_reading: Cell::new(None),
            longest: Cell::new(LongestPoll::NONE),
            full_split_until_ns: Cell::new(0),
            split_from: Cell::new(None),
            slot: Cell::new(None),
        }
    };
    static READER: RefCell<Option<ThreadReader>> = const { RefCell::new(None) };
    static CLAIM: Claim = const { Claim };
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Gives the thread's slot back when the thread ends.
struct Claim;

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(slot) = with(|hot| hot.slot.take()) {
            slot.release();
        }
    }
}

/// Lends the calling thread's state.
pub(crate) fn with<T>(use_it: impl FnOnce(&Hot) -> T) -> T {
    HOT.with(use_it)
}

impl Hot {
    pub(crate) fn thread(&self) -> usize {
        if self.thread.get() == 0 {
            self.thread.set(THREADS.fetch_add(1, Relaxed) + 1);
        }
        self.thread.get()
    }

    /// The place of this thread's counters.
    pub(crate) fn place(&self) -> Place {
        self.slot
            .get()
            .map_or(Place::SHARED, |slot| Place::of_slot(slot.index))
    }

    /// Makes this thread's state one about this monitor.
    pub(crate) fn adopt(&self, monitor: u64) {
        if self.monitor.get() != monitor {
            self.forget_for(monitor);
        }
    }

    /// Forgets what another monitor knew of this thread.
    #[cold]
    fn forget_for(&self, monitor: u64) {
        self.monitor.set(monitor);
        self.role.set(Role::Unknown);
        self.leave_loop();
        self.full_split_until_ns.set(0);
        // A thread that is being torn down can't promise to give a slot back, and gets none.
        if self.slot.get().is_none() && CLAIM.try_with(|_| ()).is_ok() {
            self.slot.set(Some(poll_slots::claim(self.thread())));
        }
        if let Some(slot) = self.slot.get() {
            slot.adopt(monitor);
        }
    }

    pub(crate) fn set_role(&self, role: Role) {
        if self.role.replace(role) != role
            && let Some(slot) = self.slot.get()
        {
            slot.set_worker(match role {
                Role::Loop(worker) => Some(worker),
                Role::Unknown | Role::OffLoop | Role::Outside => None,
            });
        }
    }

    /// As of the last reading; without one, the system's.
    #[inline]
    pub(crate) fn clock(&self) -> PollClock {
        let last = self.last_reading.get();
        last.map_or(PollClock::SYSTEM, |last| last.clock)
    }

    pub(crate) fn leave_loop(&self) {
        self.hooked.set(false);
        self.last_reading.set(None);
        self.longest.set(LongestPoll::NONE);
    }

    pub(crate) fn start_interval(&self, reading: Reading) {
        self.last_reading.set(Some(reading));
        self.longest.set(LongestPoll::NONE);
    }
}

/// Reads this thread; `None` only while the thread is being torn down.
pub(crate) fn read_thread() -> Option<Reading> {
    READER
        .try_with(|reader| {
            let mut reader = reader.borrow_mut();
            reader
                .get_or_insert_with(ThreadReader::for_this_thread)
                .read()
        })
        .ok()
}

/// The place of the calling thread's counters.
pub(crate) fn place() -> Place {
    with(Hot::place)
}

/// Whether the calling thread is inside a monitored poll.
pub(crate) fn in_poll() -> bool {
    with(|hot| hot.in_poll.get())
}
