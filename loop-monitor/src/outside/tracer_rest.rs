//! Whether traced loops have come to rest. Only then does everything that was caught have its
//! route: a request's answer is out before its last step is over.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The loops that have waited for events at least once under trace.
#[derive(Debug, Default)]
pub(super) struct Rests {
    loops: Mutex<BTreeMap<u32, Rest>>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy)]
struct Rest {
    /// How often it has come to rest.
    times: u64,
    is_resting: bool,
}

impl Rests {
    /// A loop begins to wait for events, or stands still.
    pub(super) fn rests(&self, tid: u32) {
        let mut loops = self.lock();
        let rest = loops.entry(tid).or_default();
        rest.times += 1;
        rest.is_resting = true;
        self.changed.notify_all();
    }

    /// A thread has come back from a call.
    pub(super) fn works(&self, tid: u32) {
        if let Some(rest) = self.lock().get_mut(&tid) {
            rest.is_resting = false;
        }
    }

    /// A thread is no longer traced.
    pub(super) fn ended(&self, tid: u32) {
        self.lock().remove(&tid);
        self.changed.notify_all();
    }

    /// No thread is.
    pub(super) fn all_ended(&self) {
        self.lock().clear();
        self.changed.notify_all();
    }

    /// Waits until each loop rests or has rested since now; whether that came in time.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let mut loops = self.lock();
        let working = loops.iter().filter(|(_, rest)| !rest.is_resting);
        let working: Vec<(u32, u64)> = working.map(|(tid, rest)| (*tid, rest.times)).collect();
        let is_working = |loops: &BTreeMap<u32, Rest>| {
            working
                .iter()
                .any(|(tid, times)| loops.get(tid).is_some_and(|rest| rest.times == *times))
        };
        while is_working(&loops) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(loops, left);
            loops = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Rest>> {
        // Each change is one step.
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn who_works_is_waited_for_until_it_rests_or_ends() {
        let rests = Rests::default();
        assert!(rests.wait(SHORT), "nobody is traced");
        rests.works(1);
        assert!(rests.wait(SHORT), "it isn't known as a loop");
        rests.rests(1);
        rests.rests(2);
        assert!(rests.wait(SHORT), "both rest");
        rests.works(1);
        rests.works(2);
        assert!(!rests.wait(SHORT), "both work");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| rests.wait(LONG));
            scope.spawn(|| {
                rests.rests(1);
                rests.ended(2);
            });
            assert!(waiting.join().expect("it waits"));
        });
        rests.works(1);
        rests.all_ended();
        assert!(rests.wait(SHORT), "no thread is left");
    }
}
