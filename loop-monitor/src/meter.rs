//! Per thread: which polls run, when the kernel's counters are read, and to whom a difference goes.
//!
//! [`Mode::Counters`](crate::Mode::Counters) times each poll by two reads of a
//! [`PollClock`](crate::poll_clock::PollClock) and reads the kernel only at unpark, at park, after a poll above [`LONG_POLL_NS`], and when
//! [`READING_AGE_NS_MAX`] has passed. Within one such interval nobody knows the CPU time of a single
//! poll, so the interval's blocked time goes to its longest poll, never more than that poll lasted:
//! *exact* when the poll fills 90 % of the interval, else *shared*; the rest, and intervals without
//! a poll, are unattributed. An interval with noticeable blocked time switches its thread to the
//! full split (readings around every poll) for [`FULL_SPLIT_AFTER_DIRTY_NS`].
//!
//! The time between park and unpark belongs to no interval, so a loop's idle wait never counts.
//! On a thread whose parks aren't seen (the `block_on` thread of a multi-thread runtime, a runtime
//! without the hooks) intervals across polls would contain such waits; there, polls are always
//! fully split, and nothing between them is looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::cells::{BlockedCells, EndpointCells, Part};
use crate::charge::Charge;
use crate::conservation::Interval;
use crate::endpoints::EndpointRegistry;
use crate::poll_slots::{self, SlotReading};
use crate::readings::{Reading, monotonic_ns};
use crate::thread_state::{self, Hot, LongestPoll, Role, read_thread};

/// A poll above this is read after at once: a wait of 200 µs never hides among others.
const LONG_POLL_NS: u64 = 100_000;
/// A busy loop is read at least this often.
const READING_AGE_NS_MAX: u64 = 10_000_000;
/// How long a thread splits every poll after it was caught blocking.
const FULL_SPLIT_AFTER_DIRTY_NS: u64 = 1_000_000_000;
/// Below this, a wait (a contended allocator, say) doesn't call for the full split.
const DIRTY_NS: u64 = 50_000;
/// Workers that are told apart when `block_in_place` moves a loop to another thread.
const WORKERS_TRACKED: usize = 1_024;

static MONITORS: AtomicU64 = AtomicU64::new(0);

/// A monitored poll that has begun; [`Meter::end_poll`] wants it back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PollStart {
    /// As its thread's slot tells it.
    pub(crate) at_ns: u64,
    kind: PollKind,
}

#[derive(Debug, Clone, Copy)]
enum PollKind {
    /// Timed only.
    Timed,
    /// A reading was taken at its start, and kept by the thread.
    Split,
    /// On a thread that lost its loop.
    OffLoop,
}

/// What one poll came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PollCost {
    /// Zero for a poll that held no loop.
    pub(crate) hold_ns: u64,
    pub(crate) blocked_ns: u64,
    /// Of its interval, when the poll was only timed.
    pub(crate) runqueue_ns: u64,
}

/// A thread that the monitor has met, and the poll that it is in.
#[derive(Debug, Clone)]
pub(crate) struct MonitoredThread {
    /// The kernel's number.
    pub(crate) thread_id: u32,
    /// Number of the worker whose loop it runs; none outside of a loop.
    pub(crate) worker: Option<usize>,
    /// None between monitored polls.
    pub(crate) poll: Option<CurrentPoll>,
}

/// A monitored poll that goes on.
#[derive(Debug, Clone)]
pub(crate) struct CurrentPoll {
    /// By the system's monotonic clock: [`monotonic_ns`] now, less this, is its age.
    pub(crate) began_ns: u64,
    /// Whose poll it is.
    pub(crate) endpoint: Arc<EndpointCells>,
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

    /// The threads that run loops or monitored polls now. Not those whose loop was given to
    /// another thread by `block_in_place`: they hold nobody.
    pub(crate) fn threads(&self) -> Vec<MonitoredThread> {
        poll_slots::of_monitor(self.id)
            .into_iter()
            .filter(|slot| slot.worker.is_some() || slot.poll.is_some())
            .filter(|slot| !self.runs_no_loop(slot.worker, slot.thread))
            .map(|slot| MonitoredThread {
                thread_id: slot.thread_id,
                worker: slot.worker,
                poll: self.current_poll(&slot),
            })
            .collect()
    }

    fn current_poll(&self, slot: &SlotReading) -> Option<CurrentPoll> {
        let poll = slot.poll?;
        Some(CurrentPoll {
            began_ns: poll.began_ns,
            endpoint: self.endpoints.by_id(poll.endpoint)?,
        })
    }

    /// The loop is about to wait: what follows is idle time.
    pub(crate) fn on_park(&self) {
        thread_state::with(|hot| {
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
        thread_state::with(|hot| {
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
        hot.set_role(role);
    }

    fn lost_loop(&self, hot: &Hot) -> bool {
        match hot.role.get() {
            Role::Loop(worker) => self.runs_no_loop(Some(worker), hot.thread()),
            Role::OffLoop => true,
            Role::Unknown | Role::Outside => false,
        }
    }

    /// Whether another thread has taken over this worker's loop.
    fn runs_no_loop(&self, worker: Option<usize>, thread: usize) -> bool {
        worker
            .and_then(|worker| self.loop_threads.get(worker))
            .is_some_and(|owner| owner.load(Relaxed) != thread)
    }

    /// Begins a poll; `None` inside another one, whose part it is.
    pub(crate) fn begin_poll(&self, endpoint: &EndpointCells) -> Option<PollStart> {
        thread_state::with(|hot| {
            if hot.in_poll.replace(true) {
                return None;
            }
            hot.adopt(self.id);
            if hot.role.get() == Role::Unknown {
                self.claim_loop(hot);
            }
            let mut start = PollStart {
                at_ns: hot.clock().now_ns(),
                kind: PollKind::Timed,
            };
            if self.lost_loop(hot) {
                start.kind = PollKind::OffLoop;
                return Some(start);
            }
            let split = self.always_split
                || !hot.hooked.get()
                || start.at_ns < hot.full_split_until_ns.get();
            if split && self.begin_split(hot) {
                start.kind = PollKind::Split;
                // The reading's own microseconds hold the loop, but they aren't the handler's.
                start.at_ns = monotonic_ns();
            }
            if let Some(slot) = hot.slot.get() {
                slot.enter(endpoint.id, start.at_ns);
            }
            Some(start)
        })
    }

    /// Reads the thread at the begin of a poll, if that can be done.
    #[cold]
    fn begin_split(&self, hot: &Hot) -> bool {
        let reading = read_thread();
        if hot.hooked.get()
            && let Some(reading) = &reading
        {
            self.close_interval(hot, reading, None);
        }
        hot.split_from.set(reading);
        reading.is_some()
    }

    /// Ends a poll, charges it to its endpoint, and adds its hold to that of its request.
    pub(crate) fn end_poll(
        &self,
        start: PollStart,
        endpoint: &EndpointCells,
        part: Part,
        request_hold_ns: &mut u64,
    ) -> PollCost {
        thread_state::with(|hot| {
            let now_ns = match start.kind {
                PollKind::Timed => hot.clock().end_ns(start.at_ns),
                PollKind::Split | PollKind::OffLoop => monotonic_ns(),
            };
            hot.in_poll.set(false);
            if let Some(slot) = hot.slot.get() {
                slot.leave();
            }
            let hold_ns = now_ns.saturating_sub(start.at_ns);
            let place = hot.place();
            if matches!(start.kind, PollKind::OffLoop) || self.lost_loop(hot) {
                hot.set_role(Role::OffLoop);
                hot.leave_loop();
                endpoint.count_off_loop_poll(place, part);
                return PollCost::default();
            }
            *request_hold_ns += hold_ns;
            endpoint.count_poll(place, part, hold_ns, *request_hold_ns);
            let charged = (endpoint, part);
            let (blocked_ns, runqueue_ns) = match start.kind {
                PollKind::Split => self.end_split(hot, hold_ns, charged),
                PollKind::Timed | PollKind::OffLoop => {
                    self.end_timed(hot, hold_ns, now_ns, charged)
                }
            };
            PollCost {
                hold_ns,
                blocked_ns,
                runqueue_ns: runqueue_ns.min(hold_ns),
            }
        })
    }

    /// Returns the poll's blocked and run-queue time.
    fn end_split(
        &self,
        hot: &Hot,
        hold_ns: u64,
        (endpoint, part): (&EndpointCells, Part),
    ) -> (u64, u64) {
        let (Some(before), Some(after)) = (hot.split_from.take(), read_thread()) else {
            return (0, 0);
        };
        let interval = Interval::between(&before, &after);
        let blocked_ns = interval.blocked_ns();
        endpoint.add_blocked(part, interval.class(), blocked_ns, true);
        if self.always_split {
            // The first reading's own microseconds are in the interval; the handler can't have
            // computed, or waited, for longer than it held the loop.
            let (cpu_ns, runqueue_ns) = (interval.cpu_ns, interval.runqueue_ns);
            endpoint.add_split(hot.place(), cpu_ns.min(hold_ns), runqueue_ns.min(hold_ns));
        }
        note_dirt(hot, blocked_ns, after.wall_ns);
        if hot.hooked.get() {
            hot.start_interval(after);
        }
        (blocked_ns, interval.runqueue_ns)
    }

    /// Returns what is known of the poll's blocked and run-queue time, the latter of its interval.
    fn end_timed(
        &self,
        hot: &Hot,
        hold_ns: u64,
        now_ns: u64,
        (endpoint, part): (&EndpointCells, Part),
    ) -> (u64, u64) {
        if hold_ns > hot.longest.get().hold_ns {
            hot.longest.set(LongestPoll {
                hold_ns,
                endpoint: endpoint.id,
                part,
            });
        }
        let stale = hot
            .last_reading
            .get()
            .is_some_and(|last| now_ns.saturating_sub(last.wall_ns) >= READING_AGE_NS_MAX);
        if (hold_ns > LONG_POLL_NS || stale)
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
        let longest = hot.longest.get();
        hot.start_interval(*reading);
        let Some(last) = last else {
            return (0, 0);
        };
        let interval = Interval::between(&last, reading);
        let charge = Charge::of(&interval, longest.hold_ns);
        note_dirt(hot, interval.blocked_ns(), reading.wall_ns);
        self.unattributed
            .add(charge.class, charge.unattributed_ns, true);
        if charge.longest_ns == 0 {
            return (0, interval.runqueue_ns);
        }
        if let Some(current) = current
            && current.id == longest.endpoint
        {
            charge.longest_to(current, longest.part);
            return (charge.longest_ns, interval.runqueue_ns);
        }
        if let Some(cells) = self.endpoints.by_id(longest.endpoint) {
            charge.longest_to(&cells, longest.part);
        }
        (0, interval.runqueue_ns)
    }
}

fn note_dirt(hot: &Hot, blocked_ns: u64, now_ns: u64) {
    if blocked_ns >= DIRTY_NS {
        hot.full_split_until_ns
            .set(now_ns + FULL_SPLIT_AFTER_DIRTY_NS);
    }
}
