//! What the watcher has named: counters per cause for the snapshot, and per thread the latest one,
//! for the warning when its poll ends.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cause::{Cause, CauseClass, Frame};
use crate::endpoints::OTHER_ENDPOINT;
use crate::watched::WatchedCause;

/// Causes told apart; further ones share a bucket.
const CAUSES_MAX: usize = 64;

/// What makes two sightings the same cause. The rest of a stack may differ from poll to poll (a
/// worker's frames, a child's number) and tells nothing more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    class: CauseClass,
    syscall: Option<String>,
    target: Option<String>,
    endpoint: Option<String>,
    blamed: Option<Frame>,
}

impl Key {
    fn of(cause: &Cause) -> Self {
        let target = cause.target.as_ref().map(|target| match &target.name {
            Some(name) if target.what.starts_with("pid ") => name.clone(),
            _ => target.to_string(),
        });
        Self {
            class: cause.class,
            syscall: cause.syscall.clone(),
            target,
            endpoint: cause.endpoint.clone(),
            blamed: cause.blamed().cloned(),
        }
    }

    fn other() -> Self {
        Self::of(&other())
    }
}

fn other() -> Cause {
    Cause {
        class: CauseClass::Unknown,
        syscall: None,
        target: None,
        endpoint: Some(OTHER_ENDPOINT.to_owned()),
        frames: Vec::new(),
    }
}

/// Shared by the watcher, which names, and the loops, which end the named polls.
#[derive(Debug, Default)]
pub(crate) struct NamedCauses {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    causes: BTreeMap<Key, WatchedCause>,
    current: HashMap<u32, NamedPoll>,
}

/// A poll that goes on, as far as it is named.
#[derive(Debug)]
struct NamedPoll {
    began_ns: u64,
    key: Key,
    cause: Cause,
    /// So much of its time has been counted.
    charged_ns: u64,
}

impl NamedCauses {
    /// A poll of this thread, begun then, was seen to be kept by `cause` at this age. What has
    /// passed since the look before goes to the cause found now; at the first look that is all.
    pub(crate) fn record(&self, thread_id: u32, began_ns: u64, cause: &Cause, age_ns: u64) {
        let mut table = self.lock();
        let before = table
            .current
            .remove(&thread_id)
            .filter(|poll| poll.began_ns == began_ns);
        let key = table.admit(Key::of(cause));
        let charged_ns = before.as_ref().map_or(0, |poll| poll.charged_ns);
        let is_first = before.is_none_or(|poll| poll.key != key);
        let passed_ns = age_ns.saturating_sub(charged_ns);
        table.charge(&key, cause, u64::from(is_first), passed_ns, age_ns);
        let poll = NamedPoll {
            began_ns,
            key,
            cause: cause.clone(),
            charged_ns: age_ns,
        };
        table.current.insert(thread_id, poll);
    }

    /// The poll has ended after `hold_ns`: what wasn't counted yet goes to what it was last seen
    /// in. Returns that; `None` when it was never named.
    pub(crate) fn finish(&self, thread_id: u32, began_ns: u64, hold_ns: u64) -> Option<Cause> {
        // Held for the moment in which the watcher writes down a finished name; never longer.
        let mut table = self.lock();
        let poll = table.current.remove(&thread_id)?;
        if poll.began_ns != began_ns {
            return None;
        }
        let rest_ns = hold_ns.saturating_sub(poll.charged_ns);
        table.charge(&poll.key, &poll.cause, 0, rest_ns, hold_ns);
        Some(poll.cause)
    }

    /// The dearest first.
    pub(crate) fn to_wire(&self) -> Vec<WatchedCause> {
        let mut causes: Vec<WatchedCause> = self.lock().causes.values().cloned().collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.total_ns));
        causes
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing in here is ever half done.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The cause's own bucket, or the common one when there are too many.
    fn admit(&self, key: Key) -> Key {
        if self.causes.len() < CAUSES_MAX || self.causes.contains_key(&key) {
            key
        } else {
            Key::other()
        }
    }

    fn charge(&mut self, key: &Key, cause: &Cause, count: u64, passed_ns: u64, age_ns: u64) {
        let counters = self.causes.entry(key.clone()).or_insert_with(|| {
            let is_other = *key == Key::other();
            WatchedCause {
                cause: if is_other { other() } else { cause.clone() },
                count: 0,
                total_ns: 0,
                longest_ns: 0,
            }
        });
        counters.count += count;
        counters.total_ns += passed_ns;
        counters.longest_ns = counters.longest_ns.max(age_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Target;

    fn reading(endpoint: &str) -> Cause {
        Cause {
            class: CauseClass::Io,
            syscall: Some("read".to_owned()),
            target: None,
            endpoint: Some(endpoint.to_owned()),
            frames: Vec::new(),
        }
    }

    #[test]
    fn a_poll_s_whole_time_is_counted_once_however_often_it_is_looked_at() {
        let causes = NamedCauses::default();
        let cause = reading("GET /a");
        causes.record(1, 500, &cause, 100);
        causes.record(1, 500, &cause, 150);
        assert_eq!(causes.finish(1, 500, 180), Some(cause.clone()));
        assert_eq!(causes.finish(1, 500, 180), None);
        causes.record(1, 900, &cause, 100);
        assert_eq!(causes.finish(1, 901, 100), None);
        let expected = WatchedCause {
            cause,
            count: 2,
            total_ns: 280,
            longest_ns: 180,
        };
        assert_eq!(causes.to_wire(), [expected]);
    }

    #[test]
    fn a_poll_of_several_causes_shares_its_time_out() {
        let causes = NamedCauses::default();
        let (read, mut sleep) = (reading("GET /a"), reading("GET /a"));
        sleep.class = CauseClass::Sleep;
        causes.record(1, 500, &read, 100);
        causes.record(1, 500, &sleep, 150);
        assert_eq!(causes.finish(1, 500, 200), Some(sleep));
        let totals: Vec<u64> = causes
            .to_wire()
            .iter()
            .map(|cause| cause.total_ns)
            .collect();
        assert_eq!(totals, [100, 100]);
    }

    #[test]
    fn beyond_the_cap_causes_share_a_bucket() {
        let causes = NamedCauses::default();
        for endpoint in 0..100 {
            causes.record(1, endpoint, &reading(&format!("GET /{endpoint}")), 10);
        }
        let wire = causes.to_wire();
        assert_eq!(wire.len(), CAUSES_MAX + 1);
        assert_eq!(wire[0].cause, other());
        assert_eq!((wire[0].count, wire[0].total_ns), (36, 360));
    }

    #[test]
    fn children_of_one_program_are_one_cause() {
        let causes = NamedCauses::default();
        for pid in 0..3 {
            let mut cause = reading("GET /a");
            cause.target = Some(Target {
                what: format!("pid {pid}"),
                name: Some("git".to_owned()),
            });
            causes.record(1, pid, &cause, 10);
        }
        assert_eq!(causes.to_wire().len(), 1);
    }
}
