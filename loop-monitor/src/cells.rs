//! The counters of one endpoint, or of one kind of task: written by polls without a lock.
//!
//! What every poll writes is sharded: the first threads that polled have a shard each, which nobody
//! else writes, so that they pay neither for a cache line that others want nor for a locked
//! instruction; all later threads share the last one. What only a blocked poll writes isn't sharded.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::conservation::Class;
use crate::histogram::{BUCKETS, HistogramCells, trimmed};
use crate::warning::WarningState;
use crate::wire;

/// A blocked poll that a person could feel in the sum of many.
const EVENT_NS: u64 = 200_000;
/// Kinds of [`Part`].
const PARTS: usize = 3;

/// Which part of a request, or of a task, a poll did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The handler up to its response, or a task.
    Handler,
    /// The response's body, up to and with the poll that says that it has ended.
    Body,
    /// What nobody waits for: the dropping of a body or of an unfinished future, and polls of a
    /// body that has ended.
    After,
}

impl Part {
    fn index(self) -> usize {
        match self {
            Self::Handler => 0,
            Self::Body => 1,
            Self::After => 2,
        }
    }
}

/// Which shard a thread writes: the one of its [slot](crate::poll_slots::Slot), or that of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(usize);

impl Place {
    /// For who has no slot.
    pub(crate) const SHARED: Self = Self(usize::MAX);

    /// Whoever has the slot writes alone.
    pub(crate) fn of_slot(index: usize) -> Self {
        Self(index)
    }
}

/// How a shard's cells are written. A thread that is alone there needs no locked instruction: the
/// next one to have its slot claims that after it was released, and so sees all that was written.
#[derive(Clone, Copy)]
struct Written {
    alone: bool,
}

impl Written {
    fn add(self, cell: &AtomicU64, more: u64) {
        if self.alone {
            cell.store(cell.load(Relaxed) + more, Relaxed);
        } else {
            cell.fetch_add(more, Relaxed);
        }
    }

    fn max(self, cell: &AtomicU64, value: u64) {
        if value > cell.load(Relaxed) {
            if self.alone {
                cell.store(value, Relaxed);
            } else {
                cell.fetch_max(value, Relaxed);
            }
        }
    }
}

/// What every poll writes. Aligned, so that two shards never share a cache line (or the pair of
/// lines that x86 prefetches).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    parts: [PartShard; PARTS],
    hold_ns_max: AtomicU64,
    request_hold_ns_max: AtomicU64,
    over_1_ms: AtomicU64,
    over_10_ms: AtomicU64,
    over_100_ms: AtomicU64,
    requests: AtomicU64,
    cpu_ns: AtomicU64,
    runqueue_ns: AtomicU64,
}

/// A poll writes two of these, and none of the whole request's: totals are sums over the parts.
#[derive(Debug, Default)]
struct PartShard {
    /// Their sum is the number of polls, so that no cell of its own is needed for it.
    hold: HistogramCells,
    hold_ns_sum: AtomicU64,
    off_loop_polls: AtomicU64,
}

/// Blocked time, written seldom.
#[derive(Debug, Default)]
pub(crate) struct BlockedCells {
    slept_ns: AtomicU64,
    fault_ns: AtomicU64,
    shared_ns: AtomicU64,
    events: AtomicU64,
    events_over_200us: AtomicU64,
    ns_max: AtomicU64,
}

impl BlockedCells {
    /// Adds the blocked time of one poll, or of one stretch between polls.
    pub(crate) fn add(&self, class: Class, blocked_ns: u64, exact: bool) {
        if blocked_ns == 0 {
            return;
        }
        match class {
            Class::Slept => self.slept_ns.fetch_add(blocked_ns, Relaxed),
            Class::Fault => self.fault_ns.fetch_add(blocked_ns, Relaxed),
        };
        if !exact {
            self.shared_ns.fetch_add(blocked_ns, Relaxed);
        }
        self.events.fetch_add(1, Relaxed);
        if blocked_ns >= EVENT_NS {
            self.events_over_200us.fetch_add(1, Relaxed);
        }
        self.ns_max.fetch_max(blocked_ns, Relaxed);
    }

    pub(crate) fn to_wire(&self) -> wire::Blocked {
        wire::Blocked {
            slept_ns: self.slept_ns.load(Relaxed),
            fault_ns: self.fault_ns.load(Relaxed),
            gil_ns: 0,
            shared_ns: self.shared_ns.load(Relaxed),
            events: self.events.load(Relaxed),
            events_over_200us: self.events_over_200us.load(Relaxed),
            ns_max: self.ns_max.load(Relaxed),
        }
    }
}

/// What the counters are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Requests of an endpoint.
    Requests,
    /// Spawned tasks of one name.
    Tasks,
}

/// All counters of one endpoint, or of one kind of task.
#[derive(Debug)]
pub(crate) struct EndpointCells {
    /// Place in the registry, by which a thread remembers its longest poll.
    pub(crate) id: usize,
    pub(crate) subject: Subject,
    /// The HTTP method; `CALL` for other services, `TASK` for tasks.
    pub(crate) method: &'static str,
    /// The route's template, or the name.
    pub(crate) route: Box<str>,
    pub(crate) warnings: WarningState,
    blocked: BlockedCells,
    blocked_ns_by_part: [AtomicU64; PARTS],
    /// One for each thread that has its own, and the last one for all others.
    shards: Box<[Shard]>,
    /// What its caught calls came to.
    #[cfg(feature = "prove")]
    pub(crate) proof: crate::prove::Scope,
}

impl EndpointCells {
    pub(crate) fn new(
        id: usize,
        subject: Subject,
        method: &'static str,
        route: &str,
        own_shards: usize,
    ) -> Self {
        Self {
            id,
            subject,
            method,
            route: route.into(),
            warnings: WarningState::default(),
            blocked: BlockedCells::default(),
            blocked_ns_by_part: Default::default(),
            shards: (0..=own_shards).map(|_| Shard::default()).collect(),
            #[cfg(feature = "prove")]
            proof: crate::prove::Scope::default(),
        }
    }

    /// `METHOD route`, as in the snapshot; `TASK name` for a task.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.method, self.route)
    }

    fn shard(&self, place: Place) -> (&Shard, Written) {
        let last = self.shards.len() - 1;
        let alone = place.0 < last;
        (&self.shards[place.0.min(last)], Written { alone })
    }

    /// A request, or a task, has begun.
    pub(crate) fn count_request(&self, place: Place) {
        let (shard, written) = self.shard(place);
        written.add(&shard.requests, 1);
    }

    /// A poll that held a loop, and what the polls of its request came to so far. (A sum only
    /// grows, so the largest seen is that of a whole request, and one that never ends counts too.)
    pub(crate) fn count_poll(&self, place: Place, part: Part, hold_ns: u64, request_hold_ns: u64) {
        let (shard, written) = self.shard(place);
        let of_part = &shard.parts[part.index()];
        written.add(of_part.hold.cell(hold_ns), 1);
        written.add(&of_part.hold_ns_sum, hold_ns);
        written.max(&shard.hold_ns_max, hold_ns);
        written.max(&shard.request_hold_ns_max, request_hold_ns);
        if hold_ns > 1_000_000 {
            written.add(&shard.over_1_ms, 1);
            if hold_ns > 10_000_000 {
                written.add(&shard.over_10_ms, 1);
            }
            if hold_ns > 100_000_000 {
                written.add(&shard.over_100_ms, 1);
            }
        }
    }

    /// A poll on a thread whose loop went on elsewhere, by `block_in_place`.
    pub(crate) fn count_off_loop_poll(&self, place: Place, part: Part) {
        let (shard, written) = self.shard(place);
        written.add(&shard.parts[part.index()].off_loop_polls, 1);
    }

    /// The exact split of one poll's time.
    pub(crate) fn add_split(&self, place: Place, cpu_ns: u64, runqueue_ns: u64) {
        let (shard, written) = self.shard(place);
        written.add(&shard.cpu_ns, cpu_ns);
        written.add(&shard.runqueue_ns, runqueue_ns);
    }

    /// Blocked time of one poll.
    pub(crate) fn add_blocked(&self, part: Part, class: Class, blocked_ns: u64, exact: bool) {
        if blocked_ns > 0 {
            self.blocked.add(class, blocked_ns, exact);
            self.blocked_ns_by_part[part.index()].fetch_add(blocked_ns, Relaxed);
        }
    }

    pub(crate) fn to_wire(&self) -> wire::Endpoint {
        let mut hold = [0; BUCKETS];
        let mut endpoint = wire::Endpoint {
            blocked: self.blocked.to_wire(),
            parts: wire::Parts {
                handler: self.part_to_wire(Part::Handler, &mut hold),
                body: self.part_to_wire(Part::Body, &mut hold),
                child: None,
                after: self.part_to_wire(Part::After, &mut hold),
            },
            ..wire::Endpoint::default()
        };
        let parts = &endpoint.parts;
        for part in [&parts.handler, &parts.body, &parts.after] {
            endpoint.polls += part.polls;
            endpoint.hold_ns_sum += part.hold_ns_sum;
        }
        for shard in &self.shards {
            endpoint.requests += shard.requests.load(Relaxed);
            endpoint.hold_ns_max = endpoint.hold_ns_max.max(shard.hold_ns_max.load(Relaxed));
            endpoint.request_hold_ns_max = endpoint
                .request_hold_ns_max
                .max(shard.request_hold_ns_max.load(Relaxed));
            endpoint.holds_over.ms_1 += shard.over_1_ms.load(Relaxed);
            endpoint.holds_over.ms_10 += shard.over_10_ms.load(Relaxed);
            endpoint.holds_over.ms_100 += shard.over_100_ms.load(Relaxed);
            endpoint.cpu_ns += shard.cpu_ns.load(Relaxed);
            endpoint.runqueue_ns += shard.runqueue_ns.load(Relaxed);
        }
        endpoint.hold = trimmed(&hold);
        endpoint
    }

    /// Adds the part's holds to those of the whole.
    fn part_to_wire(&self, part: Part, hold: &mut [u64; BUCKETS]) -> wire::Part {
        let mut of_part = [0; BUCKETS];
        let mut wire = wire::Part {
            blocked_ns: self.blocked_ns_by_part[part.index()].load(Relaxed),
            ..wire::Part::default()
        };
        for shard in &self.shards {
            let shard = &shard.parts[part.index()];
            shard.hold.add_to(&mut of_part);
            wire.polls += shard.off_loop_polls.load(Relaxed);
            wire.hold_ns_sum += shard.hold_ns_sum.load(Relaxed);
        }
        wire.polls += of_part.iter().sum::<u64>();
        for (sum, count) in hold.iter_mut().zip(of_part) {
            *sum += count;
        }
        wire
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_and_parts_add_up() {
        let cells = EndpointCells::new(0, Subject::Requests, "GET", "/", 4);
        for place in (0..5).map(Place::of_slot) {
            cells.count_request(place);
            cells.count_poll(place, Part::Handler, 11_000_000, 11_000_000);
        }
        // A request that goes on on other threads, each of which sees the sum so far.
        cells.count_poll(Place::of_slot(0), Part::Handler, 101_000_000, 112_000_000);
        cells.count_poll(Place::of_slot(1), Part::Body, 1_000_000, 113_000_000);
        cells.count_poll(Place::of_slot(2), Part::After, 2_000_000, 2_000_000);
        cells.count_off_loop_poll(Place::SHARED, Part::Handler);
        cells.add_blocked(Part::After, Class::Slept, 1_500_000, true);
        cells.add_blocked(Part::Body, Class::Slept, 0, true);
        let wire = cells.to_wire();
        assert_eq!((wire.requests, wire.polls), (5, 9));
        assert_eq!(wire.hold_ns_sum, 5 * 11_000_000 + 104_000_000);
        assert_eq!(wire.hold_ns_max, 101_000_000);
        assert_eq!(wire.request_hold_ns_max, 113_000_000);
        assert_eq!(wire.hold.log2_us.iter().sum::<u64>(), 8);
        let over = wire.holds_over;
        assert_eq!((over.ms_1, over.ms_10, over.ms_100), (7, 6, 1));
        let parts = wire.parts;
        assert_eq!(parts.handler.polls, 7);
        assert_eq!((parts.body.polls, parts.body.hold_ns_sum), (1, 1_000_000));
        let after = wire::Part {
            polls: 1,
            hold_ns_sum: 2_000_000,
            blocked_ns: 1_500_000,
        };
        assert_eq!(parts.after, after);
        assert_eq!(wire.blocked.events, 1);
    }
}
