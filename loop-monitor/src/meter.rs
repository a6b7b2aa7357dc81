//! Per thread: which polls run, when the kernel's counters are read, and to whom a difference goes.
//!
//! [`Mode::Counters`](crate::Mode::Counters) times each poll by two clock reads and reads the
//! kernel only at unpark, at park, after a poll above [`LONG_POLL`], and when [`READING_AGE_MAX`]
//! has passed. Within one such interval nobody knows the CPU time of a single poll, so the
//! interval's blocked time goes to its longest poll, never more than that poll lasted: *exact*
//! when the poll fills [`EXACT_PERCENT`] of the interval, else *shared*; the rest, and intervals
//! without a poll, are unattributed. An interval with noticeable blocked time switches its thread
//! to the full split (readings around every poll) for [`FULL_SPLIT_AFTER_DIRTY`].
//!
//! The time between park and unpark belongs to no interval, so a loop's idle wait never counts.
//! On a thread whose parks aren't seen (the `block_on` thread of a multi-thread runtime, a runtime
//! without the hooks) intervals across polls would contain such waits; there, polls are always
//! fully split, and nothing between them is looked at.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::conservation::{Class, Interval};
use crate::endpoints::{BlockedCells, EndpointCells, EndpointRegistry};
use crate::readings::{Reading, ThreadReader, nanoseconds};

/// A poll above this is read after at once: a wait of 200 µs never hides among others.
pub(crate) const LONG_POLL: Duration = Duration::from_micros(100);
/// A busy loop is read at least this often.
pub(crate) const READING_AGE_MAX: Duration = Duration::from_millis(10);
/// From this share of its interval on, a poll is taken for the only suspect.
pub(crate) const EXACT_PERCENT: u64 = 90;
/// How long a thread splits every poll after it was caught blocking.
pub(crate) const FULL_SPLIT_AFTER_DIRTY: Duration = Duration::from_secs(1);
/// Below this, a wait (a contended allocator, say) doesn't call for the full split.
const DIRTY_NS: u64 = 50_000;
/// Workers that are told apart when `block_in_place` moves a loop to another thread.
const WORKERS_TRACKED: usize = 1_024;

/// What this thread is to its runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
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
struct Hot {
    /// Number of the thread, from 1; 0 until asked for.
    thread: Cell<usize>,
    /// The monitor that this state is about.
    monitor: Cell<u64>,
    role: Cell<Role>,
    /// Inside a monitored poll; an inner one is part of the outer.
    in_poll: Cell<bool>,
    /// Parks are seen, so `last_reading` begins an interval without idle waits.
    hooked: Cell<bool>,
    last_reading: Cell<Option<Reading>>,
    longest_ns: Cell<u64>,
    longest_endpoint: Cell<usize>,
    full_split_until: Cell<Option<Instant>>,
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
            longest_ns: Cell::new(0),
            longest_endpoint: Cell::new(0),
            full_split_until: Cell::new(None),
        }
    };
    static READER: RefCell<Option<ThreadReader>> = const { RefCell::new(None) };
}

static THREADS: AtomicUsize = AtomicUsize::new(0);
static MONITORS: AtomicU64 = AtomicU64::new(0);

impl Hot {
    fn thread(&self) -> usize {
        if self.thread.get() == 0 {
            self.thread.set(THREADS.fetch_add(1, Relaxed) + 1);
        }
        self.thread.get()
    }

    /// Forgets what another monitor knew of this thread.
    fn adopt(&self, monitor: u64) {
        if self.monitor.get() != monitor {
            self.monitor.set(monitor);
            self.role.set(Role::Unknown);
            self.leave_loop();
            self.full_split_until.set(None);
        }
    }

    fn leave_loop(&self) {
        self.hooked.set(false);
        self.last_reading.set(None);
        self.longest_ns.set(0);
    }

    fn start_interval(&self, reading: Reading) {
        self.last_reading.set(Some(reading));
        self.longest_ns.set(0);
    }
}

/// Reads this thread; `None` only while the thread is being torn down.
fn read_thread() -> Option<Reading> {
    READER
        .try_with(|reader| {
            let mut reader = reader.borrow_mut();
            reader
                .get_or_insert_with(ThreadReader::for_this_thread)
                .read()
        })
        .ok()
}

/// The number of the calling thread, for sharding.
pub(crate) fn this_thread() -> usize {
    HOT.with(Hot::thread)
}

/// Whether the calling thread is inside a monitored poll.
pub(crate) fn in_poll() -> bool {
    HOT.with(|hot| hot.in_poll.get())
}

/// A monitored poll that has begun; [`Meter::end_poll`] wants it back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PollStart {
    at: Instant,
    kind: PollKind,
}

#[derive(Debug, Clone, Copy)]
enum PollKind {
    /// Timed only.
    Timed,
    /// A reading was taken at its start.
    Split(Reading),
    /// On a thread that lost its loop.
    OffLoop,
}

/// What one poll came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PollCost {
    /// Zero for a poll that held no loop.
    pub(crate) hold: Duration,
    pub(crate) blocked: Duration,
    /// Of its interval, when the poll was only timed.
    pub(crate) runqueue: Duration,
}

/// The part of a monitor that its threads share.
#[derive(Debug)]
pub(crate) struct Meter {
    id: u64,
    always_split: bool,
    endpoints: EndpointRegistry,
    unattributed: BlockedCells,
    /// By worker, the thread that was last seen to run its loop.
    loop_threads: Box<[AtomicUsize]>,
}

impl Meter {
    pub(crate) fn new(always_split: bool, endpoints: EndpointRegistry) -> Self {
        Self {
            id: MONITORS.fetch_add(1, Relaxed) + 1,
            always_split,
            endpoints,
            unattributed: BlockedCells::default(),
            loop_threads: (0..WORKERS_TRACKED).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Tells this monitor from others of the process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn endpoints(&self) -> &EndpointRegistry {
        &self.endpoints
    }

    pub(crate) fn unattributed(&self) -> &BlockedCells {
        &self.unattributed
    }

    /// The loop is about to wait: what follows is idle time.
    pub(crate) fn on_park(&self) {
        HOT.with(|hot| {
            self.claim_loop(hot);
            if hot.hooked.get()
                && let Some(reading) = read_thread()
            {
                self.close_interval(hot, &reading, None);
            }
            hot.last_reading.set(None);
        });
    }

    /// The loop goes on.
    pub(crate) fn on_unpark(&self) {
        HOT.with(|hot| {
            self.claim_loop(hot);
            if let Some(reading) = read_thread() {
                hot.start_interval(reading);
                hot.hooked.set(true);
            }
        });
    }

    /// Hooks run only on the thread that has the loop.
    fn claim_loop(&self, hot: &Hot) {
        hot.adopt(self.id);
        if self.lost_loop(hot) {
            // It has been in the pool meanwhile, where it may have slept.
            hot.leave_loop();
        }
        let role = match tokio::runtime::worker_index() {
            Some(worker) => {
                if let Some(owner) = self.loop_threads.get(worker)
                    // Seldom written, so that workers don't fight for the cache line.
                    && owner.load(Relaxed) != hot.thread()
                {
                    owner.store(hot.thread(), Relaxed);
                }
                Role::Loop(worker)
            }
            None => Role::Outside,
        };
        hot.role.set(role);
    }

    fn lost_loop(&self, hot: &Hot) -> bool {
        match hot.role.get() {
            Role::Loop(worker) => self
                .loop_threads
                .get(worker)
                .is_some_and(|owner| owner.load(Relaxed) != hot.thread()),
            Role::OffLoop => true,
            Role::Unknown | Role::Outside => false,
        }
    }

    /// Begins a poll; `None` inside another one, whose part it is.
    pub(crate) fn begin_poll(&self) -> Option<PollStart> {
        HOT.with(|hot| {
            if hot.in_poll.replace(true) {
                return None;
            }
            hot.adopt(self.id);
            if hot.role.get() == Role::Unknown {
                self.claim_loop(hot);
            }
            let at = Instant::now();
            if self.lost_loop(hot) {
                let kind = PollKind::OffLoop;
                return Some(PollStart { at, kind });
            }
            let split = self.always_split
                || !hot.hooked.get()
                || hot.full_split_until.get().is_some_and(|until| at < until);
            if split && let Some(reading) = read_thread() {
                if hot.hooked.get() {
                    self.close_interval(hot, &reading, None);
                }
                // The reading's own microseconds hold the loop, but they aren't the handler's.
                let at = Instant::now();
                let kind = PollKind::Split(reading);
                return Some(PollStart { at, kind });
            }
            let kind = PollKind::Timed;
            Some(PollStart { at, kind })
        })
    }

    /// Ends a poll, charges it to its endpoint, and adds its hold to that of its request.
    pub(crate) fn end_poll(
        &self,
        start: PollStart,
        endpoint: &EndpointCells,
        request_hold_ns: &mut u64,
    ) -> PollCost {
        HOT.with(|hot| {
            let now = Instant::now();
            hot.in_poll.set(false);
            let hold = now.saturating_duration_since(start.at);
            let thread = hot.thread();
            if matches!(start.kind, PollKind::OffLoop) || self.lost_loop(hot) {
                hot.role.set(Role::OffLoop);
                hot.leave_loop();
                endpoint.count_off_loop_poll(thread);
                return PollCost::default();
            }
            let hold_ns = nanoseconds(hold);
            *request_hold_ns += hold_ns;
            endpoint.count_poll(thread, hold_ns, *request_hold_ns);
            let (blocked_ns, runqueue_ns) = match start.kind {
                PollKind::Split(before) => self.end_split(hot, &before, hold, now, endpoint),
                PollKind::Timed | PollKind::OffLoop => self.end_timed(hot, hold, now, endpoint),
            };
            PollCost {
                hold,
                blocked: Duration::from_nanos(blocked_ns),
                runqueue: Duration::from_nanos(runqueue_ns).min(hold),
            }
        })
    }

    /// Returns the poll's blocked and run-queue time.
    fn end_split(
        &self,
        hot: &Hot,
        before: &Reading,
        hold: Duration,
        now: Instant,
        endpoint: &EndpointCells,
    ) -> (u64, u64) {
        let Some(after) = read_thread() else {
            return (0, 0);
        };
        let interval = Interval::between(before, &after);
        let blocked_ns = interval.blocked_ns();
        endpoint.blocked.add(interval.class(), blocked_ns, true);
        if self.always_split {
            // The first reading's own microseconds are in the interval; the handler can't have
            // computed, or waited, for longer than it held the loop.
            let hold_ns = nanoseconds(hold);
            let (cpu_ns, runqueue_ns) = (interval.cpu_ns, interval.runqueue_ns);
            endpoint.add_split(hot.thread(), cpu_ns.min(hold_ns), runqueue_ns.min(hold_ns));
        }
        note_dirt(hot, blocked_ns, now);
        if hot.hooked.get() {
            hot.start_interval(after);
        }
        (blocked_ns, interval.runqueue_ns)
    }

    /// Returns what is known of the poll's blocked and run-queue time, the latter of its interval.
    fn end_timed(
        &self,
        hot: &Hot,
        hold: Duration,
        now: Instant,
        endpoint: &EndpointCells,
    ) -> (u64, u64) {
        let hold_ns = nanoseconds(hold);
        if hold_ns > hot.longest_ns.get() {
            hot.longest_ns.set(hold_ns);
            hot.longest_endpoint.set(endpoint.id);
        }
        let stale = hot
            .last_reading
            .get()
            .is_some_and(|last| now.saturating_duration_since(last.wall) >= READING_AGE_MAX);
        if (hold > LONG_POLL || stale)
            && let Some(reading) = read_thread()
        {
            return self.close_interval(hot, &reading, Some(endpoint));
        }
        (0, 0)
    }

    /// Ends the interval since the last reading, charges it, and begins the next one. Returns
    /// what of its blocked time went to `current`, the poll that has just ended, and the
    /// interval's run-queue time.
    fn close_interval(
        &self,
        hot: &Hot,
        reading: &Reading,
        current: Option<&EndpointCells>,
    ) -> (u64, u64) {
        let last = hot.last_reading.get();
        let (longest_ns, longest) = (hot.longest_ns.get(), hot.longest_endpoint.get());
        hot.start_interval(*reading);
        let Some(last) = last else {
            return (0, 0);
        };
        let interval = Interval::between(&last, reading);
        let charge = Charge::of(&interval, longest_ns);
        note_dirt(hot, interval.blocked_ns(), reading.wall);
        self.unattributed
            .add(charge.class, charge.unattributed_ns, true);
        if charge.longest_ns == 0 {
            return (0, interval.runqueue_ns);
        }
        if let Some(current) = current
            && current.id == longest
        {
            charge.longest_to(current);
            return (charge.longest_ns, interval.runqueue_ns);
        }
        if let Some(cells) = self.endpoints.by_id(longest) {
            charge.longest_to(&cells);
        }
        (0, interval.runqueue_ns)
    }
}

fn note_dirt(hot: &Hot, blocked_ns: u64, now: Instant) {
    if blocked_ns >= DIRTY_NS {
        hot.full_split_until.set(Some(now + FULL_SPLIT_AFTER_DIRTY));
    }
}

/// How an interval's blocked time is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Charge {
    class: Class,
    /// To the longest poll; at most its length.
    longest_ns: u64,
    /// That poll fills so much of the interval that nobody else is a suspect.
    exact: bool,
    /// More than the longest poll can have been blocked.
    unattributed_ns: u64,
}

impl Charge {
    fn of(interval: &Interval, longest_ns: u64) -> Self {
        let blocked_ns = interval.blocked_ns();
        let charged_ns = blocked_ns.min(longest_ns);
        Self {
            class: interval.class(),
            longest_ns: charged_ns,
            exact: u128::from(longest_ns) * 100
                >= u128::from(interval.wall_ns) * u128::from(EXACT_PERCENT),
            unattributed_ns: blocked_ns - charged_ns,
        }
    }

    fn longest_to(&self, endpoint: &EndpointCells) {
        endpoint
            .blocked
            .add(self.class, self.longest_ns, self.exact);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn slept(wall_ns: u64, cpu_ns: u64) -> Interval {
        Interval {
            wall_ns,
            cpu_ns,
            sleeps: 1,
            ..Interval::default()
        }
    }

    #[test]
    fn a_poll_that_fills_its_interval_is_charged_exactly() {
        let charge = Charge::of(&slept(10 * MS, 4 * MS), 9 * MS);
        assert!(charge.exact);
        assert_eq!((charge.longest_ns, charge.unattributed_ns), (6 * MS, 0));
    }

    #[test]
    fn a_poll_among_others_shares() {
        let charge = Charge::of(&slept(10 * MS, 4 * MS), 7 * MS);
        assert!(!charge.exact);
        assert_eq!((charge.longest_ns, charge.unattributed_ns), (6 * MS, 0));
    }

    #[test]
    fn a_poll_is_never_charged_more_than_it_lasted() {
        let charge = Charge::of(&slept(10 * MS, MS), 50_000);
        assert_eq!(charge.longest_ns, 50_000);
        assert_eq!(charge.unattributed_ns, 9 * MS - 50_000);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_made_up(
            wall_ns in 0u64..1_000_000_000, cpu_ns in 0u64..1_000_000_000, longest_ns in 0u64..1_000_000_000,
        ) {
            let interval = slept(wall_ns, cpu_ns);
            let charge = Charge::of(&interval, longest_ns);
            prop_assert_eq!(charge.longest_ns + charge.unattributed_ns, interval.blocked_ns());
            prop_assert!(charge.longest_ns <= longest_ns);
        }
    }
}
