//! Counters of the service's own, by name, in the same snapshot as what the loop did meanwhile.
//!
//! A monitor sees how long polls take, and not what a service knows to be wrong with itself: a
//! queue beyond its bound, a thread too many. Such faults are counted where they happen.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::monitor::Monitor;

/// A number that only grows, told under its name in every snapshot from its making on, so that 0
/// is told too. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Counter {
    value: Arc<AtomicU64>,
}

impl Counter {
    /// Adds to it; stays at its largest value instead of starting again at 0.
    pub fn add(&self, n: u64) {
        let grown = |value: u64| Some(value.saturating_add(n));
        // Never an error: the closure always has a value.
        let _before = self.value.fetch_update(Relaxed, Relaxed, grown);
    }

    /// What was added so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value.load(Relaxed)
    }
}

/// Every counter by its name.
#[derive(Debug, Default)]
pub(crate) struct CounterCells {
    by_name: Mutex<BTreeMap<String, Counter>>,
}

impl CounterCells {
    fn resolve(&self, name: &str) -> Counter {
        // A map stays whole at every panic point, so a poisoned lock is usable.
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = by_name.get(name) {
            return counter.clone();
        }
        by_name.entry(name.to_owned()).or_default().clone()
    }

    pub(crate) fn to_wire(&self) -> BTreeMap<String, u64> {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        by_name
            .iter()
            .map(|(name, counter)| (name.clone(), counter.value()))
            .collect()
    }
}

impl Monitor {
    /// The counter of that name; made, at 0, if there was none. Keep it: each call looks the name
    /// up under a lock.
    ///
    /// Names end up in snapshots, records and Prometheus labels. They are the program's, few and
    /// fixed (`stream_threads_beyond_pool`): nothing bounds their number.
    #[must_use]
    pub fn counter(&self, name: &str) -> Counter {
        self.inner.counters.resolve(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_counter() {
        let monitor = Monitor::builder().build();
        monitor.counter("streams_dropped").add(2);
        let same = monitor.counter("streams_dropped");
        same.clone().add(1);
        let _untouched = monitor.counter("sessions_lost");
        assert_eq!(same.value(), 3);
        let told = monitor.snapshot().counters;
        let expected = [("sessions_lost", 0), ("streams_dropped", 3)];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(told, Some(BTreeMap::from(expected)));
    }

    #[test]
    fn a_counter_never_starts_again() {
        let counter = Counter::default();
        counter.add(u64::MAX);
        counter.add(1);
        assert_eq!(counter.value(), u64::MAX);
    }
}
