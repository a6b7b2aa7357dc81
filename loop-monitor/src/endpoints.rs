//! The counters of each endpoint: found once per request, then written by polls without a lock.
//!
//! What every poll writes is sharded by thread, so that workers don't fight for one cache line;
//! what only a blocked or long poll writes is not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use http::Method;

use crate::conservation::Class;
use crate::wire;

/// Key under which requests that no route matched are counted.
pub const UNMATCHED_ENDPOINT: &str = "* (unmatched)";
/// Key under which requests are counted once there are as many endpoints as allowed.
pub const OTHER_ENDPOINT: &str = "* (other)";

/// A route longer than this is no template; it is counted as [`OTHER_ENDPOINT`].
const ROUTE_BYTES_MAX: usize = 512;
/// Up to 2^40 µs, almost 13 days.
const HISTOGRAM_BUCKETS: usize = 40;
/// More would cost memory and help nobody.
const SHARDS_MAX: usize = 16;
/// A blocked poll that a person could feel in the sum of many.
const EVENT_NS: u64 = 200_000;

/// Counts by powers of two of microseconds, as [`wire::Histogram`].
#[derive(Debug)]
pub(crate) struct HistogramCells([AtomicU64; HISTOGRAM_BUCKETS]);

impl Default for HistogramCells {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl HistogramCells {
    pub(crate) fn record(&self, ns: u64) {
        self.0[bucket_of(ns)].fetch_add(1, Relaxed);
    }

    pub(crate) fn to_wire(&self) -> wire::Histogram {
        let mut counts = [0; HISTOGRAM_BUCKETS];
        self.add_to(&mut counts);
        trimmed(&counts)
    }

    fn add_to(&self, counts: &mut [u64; HISTOGRAM_BUCKETS]) {
        for (count, cell) in counts.iter_mut().zip(&self.0) {
            *count += cell.load(Relaxed);
        }
    }
}

fn bucket_of(ns: u64) -> usize {
    // The logarithm of a u64 is below 64, so the conversion is exact.
    let log2 = (ns / 1_000).checked_ilog2().unwrap_or(0) as usize;
    log2.min(HISTOGRAM_BUCKETS - 1)
}

fn trimmed(counts: &[u64; HISTOGRAM_BUCKETS]) -> wire::Histogram {
    let length = counts
        .iter()
        .rposition(|count| *count > 0)
        .map_or(0, |last| last + 1);
    wire::Histogram {
        log2_us: counts[..length].to_vec(),
    }
}

/// What every poll writes. Aligned, so that two shards never share a cache line (or the pair of
/// lines that x86 prefetches).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    /// Their sum is the number of polls, so that no cell of its own is needed for it.
    hold: HistogramCells,
    hold_ns_sum: AtomicU64,
    hold_ns_max: AtomicU64,
    request_hold_ns_max: AtomicU64,
    over_1_ms: AtomicU64,
    over_10_ms: AtomicU64,
    over_100_ms: AtomicU64,
    requests: AtomicU64,
    off_loop_polls: AtomicU64,
    cpu_ns: AtomicU64,
    runqueue_ns: AtomicU64,
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
            shared_ns: self.shared_ns.load(Relaxed),
            events: self.events.load(Relaxed),
            events_over_200us: self.events_over_200us.load(Relaxed),
            ns_max: self.ns_max.load(Relaxed),
        }
    }
}

/// All counters of one endpoint.
#[derive(Debug)]
pub(crate) struct EndpointCells {
    /// Place in the registry, by which a thread remembers its longest poll.
    pub(crate) id: usize,
    /// For warnings.
    pub(crate) method: &'static str,
    /// For warnings.
    pub(crate) route: Box<str>,
    pub(crate) blocked: BlockedCells,
    pub(crate) warnings: crate::warning::WarningState,
    shards: Box<[Shard]>,
}

impl EndpointCells {
    fn new(id: usize, method: &'static str, route: &str, shards: usize) -> Self {
        Self {
            id,
            method,
            route: route.into(),
            blocked: BlockedCells::default(),
            warnings: crate::warning::WarningState::default(),
            shards: (0..shards).map(|_| Shard::default()).collect(),
        }
    }

    /// `METHOD route`, as in the snapshot.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.method, self.route)
    }

    fn shard(&self, thread: usize) -> &Shard {
        &self.shards[thread % self.shards.len()]
    }

    pub(crate) fn count_request(&self, thread: usize) {
        self.shard(thread).requests.fetch_add(1, Relaxed);
    }

    /// A poll that held a loop, and what the polls of its request came to so far. (A sum only
    /// grows, so the largest seen is that of a whole request, and one that never ends counts too.)
    pub(crate) fn count_poll(&self, thread: usize, hold_ns: u64, request_hold_ns: u64) {
        let shard = self.shard(thread);
        shard.hold.record(hold_ns);
        shard.hold_ns_sum.fetch_add(hold_ns, Relaxed);
        if hold_ns > shard.hold_ns_max.load(Relaxed) {
            shard.hold_ns_max.fetch_max(hold_ns, Relaxed);
        }
        if request_hold_ns > shard.request_hold_ns_max.load(Relaxed) {
            shard
                .request_hold_ns_max
                .fetch_max(request_hold_ns, Relaxed);
        }
        if hold_ns > 1_000_000 {
            shard.over_1_ms.fetch_add(1, Relaxed);
            if hold_ns > 10_000_000 {
                shard.over_10_ms.fetch_add(1, Relaxed);
            }
            if hold_ns > 100_000_000 {
                shard.over_100_ms.fetch_add(1, Relaxed);
            }
        }
    }

    /// A poll on a thread whose loop went on elsewhere, by `block_in_place`.
    pub(crate) fn count_off_loop_poll(&self, thread: usize) {
        self.shard(thread).off_loop_polls.fetch_add(1, Relaxed);
    }

    /// The exact split of one poll's time.
    pub(crate) fn add_split(&self, thread: usize, cpu_ns: u64, runqueue_ns: u64) {
        let shard = self.shard(thread);
        shard.cpu_ns.fetch_add(cpu_ns, Relaxed);
        shard.runqueue_ns.fetch_add(runqueue_ns, Relaxed);
    }

    pub(crate) fn to_wire(&self) -> wire::Endpoint {
        let mut hold = [0; HISTOGRAM_BUCKETS];
        let mut endpoint = wire::Endpoint {
            blocked: self.blocked.to_wire(),
            ..wire::Endpoint::default()
        };
        for shard in &self.shards {
            shard.hold.add_to(&mut hold);
            endpoint.requests += shard.requests.load(Relaxed);
            endpoint.polls += shard.off_loop_polls.load(Relaxed);
            endpoint.hold_ns_sum += shard.hold_ns_sum.load(Relaxed);
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
        endpoint.polls += hold.iter().sum::<u64>();
        endpoint.hold = trimmed(&hold);
        endpoint
    }
}

/// Every endpoint seen, at most as many as allowed.
#[derive(Debug)]
pub(crate) struct EndpointRegistry {
    routes_max: usize,
    shards: usize,
    table: RwLock<Table>,
    unmatched: Arc<EndpointCells>,
    other: Arc<EndpointCells>,
}

#[derive(Debug, Default)]
struct Table {
    by_route: HashMap<&'static str, HashMap<Box<str>, Arc<EndpointCells>>>,
    by_id: Vec<Arc<EndpointCells>>,
}

impl EndpointRegistry {
    pub(crate) fn new(routes_max: usize) -> Self {
        let shards = std::thread::available_parallelism()
            // Unknown: one shard is right, only slower.
            .map_or(1, usize::from)
            .next_power_of_two()
            .min(SHARDS_MAX);
        let unmatched = Arc::new(EndpointCells::new(0, "*", "(unmatched)", shards));
        let other = Arc::new(EndpointCells::new(1, "*", "(other)", shards));
        let table = Table {
            by_route: HashMap::new(),
            by_id: vec![Arc::clone(&unmatched), Arc::clone(&other)],
        };
        Self {
            routes_max,
            shards,
            table: RwLock::new(table),
            unmatched,
            other,
        }
    }

    /// The counters of a route; `None` means that no route matched.
    pub(crate) fn resolve(&self, method: &Method, route: Option<&str>) -> Arc<EndpointCells> {
        let Some(route) = route else {
            return Arc::clone(&self.unmatched);
        };
        if route.len() > ROUTE_BYTES_MAX {
            return Arc::clone(&self.other);
        }
        let method = method_name(method);
        {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(cells) = table.find(method, route) {
                return Arc::clone(cells);
            }
            if table.routes() >= self.routes_max {
                return Arc::clone(&self.other);
            }
        }
        self.admit(method, route)
    }

    fn admit(&self, method: &'static str, route: &str) -> Arc<EndpointCells> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been here between the two locks.
        if let Some(cells) = table.find(method, route) {
            return Arc::clone(cells);
        }
        if table.routes() >= self.routes_max {
            return Arc::clone(&self.other);
        }
        let id = table.by_id.len();
        let cells = Arc::new(EndpointCells::new(id, method, route, self.shards));
        table.by_id.push(Arc::clone(&cells));
        table
            .by_route
            .entry(method)
            .or_default()
            .insert(route.into(), Arc::clone(&cells));
        cells
    }

    pub(crate) fn by_id(&self, id: usize) -> Option<Arc<EndpointCells>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_id.get(id).map(Arc::clone)
    }

    /// Every endpoint that has been asked for.
    pub(crate) fn all(&self) -> Vec<Arc<EndpointCells>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_id.clone()
    }
}

impl Table {
    fn find(&self, method: &'static str, route: &str) -> Option<&Arc<EndpointCells>> {
        self.by_route.get(method)?.get(route)
    }

    /// Endpoints beside the two buckets.
    fn routes(&self) -> usize {
        self.by_id.len() - 2
    }
}

/// Methods are the client's choice and may be any token: the unusual ones share a name.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::PATCH => "PATCH",
        Method::TRACE => "TRACE",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_as_the_wire_form_says() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(1_999), 0);
        assert_eq!(bucket_of(2_000), 1);
        assert_eq!(bucket_of(3_999), 1);
        assert_eq!(bucket_of(4_000), 2);
        assert_eq!(bucket_of(u64::MAX), HISTOGRAM_BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn a_value_lies_within_its_bucket(ns in 2_000u64..1_000_000_000_000) {
            let us = ns / 1_000;
            let bucket = bucket_of(ns);
            prop_assert!((1u64 << bucket) <= us && us < (1u64 << (bucket + 1)));
        }
    }

    #[test]
    fn routes_beyond_the_cap_share_a_bucket_and_known_ones_stay() {
        let registry = EndpointRegistry::new(2);
        let first = registry.resolve(&Method::GET, Some("/a"));
        registry.resolve(&Method::GET, Some("/b"));
        let beyond = registry.resolve(&Method::GET, Some("/c"));
        assert_eq!(beyond.key(), OTHER_ENDPOINT);
        let again = registry.resolve(&Method::GET, Some("/a"));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(registry.all().len(), 4);
    }

    #[test]
    fn strange_methods_and_endless_routes_make_no_endpoints() {
        let registry = EndpointRegistry::new(100);
        for name in ["BREW", "brew", "GET2"] {
            let method = Method::from_bytes(name.as_bytes()).expect("a token");
            let cells = registry.resolve(&method, Some("/pot"));
            assert_eq!(cells.key(), "OTHER /pot");
        }
        let endless = "/x".repeat(ROUTE_BYTES_MAX);
        let cells = registry.resolve(&Method::GET, Some(&endless));
        assert_eq!(cells.key(), OTHER_ENDPOINT);
        let unmatched = registry.resolve(&Method::GET, None);
        assert_eq!(unmatched.key(), UNMATCHED_ENDPOINT);
    }

    #[test]
    fn shards_add_up() {
        let registry = EndpointRegistry::new(1);
        let cells = registry.resolve(&Method::GET, Some("/"));
        for thread in 0..5 {
            cells.count_request(thread);
            cells.count_poll(thread, 11_000_000, 11_000_000);
        }
        // A request that goes on on other threads, each of which sees the sum so far.
        cells.count_poll(0, 101_000_000, 112_000_000);
        cells.count_poll(1, 1_000_000, 113_000_000);
        cells.count_poll(2, 2_000_000, 2_000_000);
        cells.count_off_loop_poll(1);
        let wire = cells.to_wire();
        assert_eq!((wire.requests, wire.polls), (5, 9));
        assert_eq!(wire.hold_ns_sum, 5 * 11_000_000 + 104_000_000);
        assert_eq!(wire.hold_ns_max, 101_000_000);
        assert_eq!(wire.request_hold_ns_max, 113_000_000);
        let over = wire.holds_over;
        assert_eq!((over.ms_1, over.ms_10, over.ms_100), (7, 6, 1));
    }
}
