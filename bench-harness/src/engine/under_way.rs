//! When each measured request was under way, for who can tell what the service's loop did meanwhile.
//!
//! Kept only where somebody asked for it before the barrier: a request costs one line of
//! [`UnderWay`], 24 bytes in chunks that never move, and no look at a clock of its own. Beyond
//! [`REQUESTS_MAX`] requests are only counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Requests of a block whose times are kept, on all threads together: 24 MB.
const REQUESTS_MAX: u64 = 1_000_000;
/// Of one allocation: 96 KiB.
const CHUNK: usize = 4_096;

/// One request on its way: from its first written byte to its last read one, or to its failure.
/// One that was cut off at the block's end was under way until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnderWay {
    /// Since the barrier.
    pub sent_ns: u64,
    /// Since the barrier.
    pub ended_ns: u64,
    /// Index of the request in the plan.
    pub endpoint: u16,
}

/// The times of a block's requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestTimes {
    /// In no order.
    pub kept: Vec<UnderWay>,
    /// Requests that were sent, and of which there are none.
    pub untold: u64,
}

/// Whether times are kept, known to all threads when the barrier opens.
#[derive(Debug, Default)]
pub(super) struct TimesAsked(AtomicU64);

impl TimesAsked {
    /// Times are kept, by so many threads.
    pub(super) fn ask(&self, threads: usize) {
        let each = REQUESTS_MAX / (threads as u64).max(1);
        // Whoever passes the barrier has seen it: it opens later, by a channel.
        self.0.store(each, Ordering::Relaxed);
    }

    /// What a thread keeps; `None` unless that was asked for.
    pub(super) fn of_thread(&self, begun: Instant) -> Option<ThreadTimes> {
        let room = self.0.load(Ordering::Relaxed);
        (room > 0).then(|| ThreadTimes::new(begun, room))
    }
}

/// One thread's part.
#[derive(Debug)]
pub(super) struct ThreadTimes {
    begun: Instant,
    room: u64,
    chunks: Vec<Vec<UnderWay>>,
    untold: u64,
}

impl ThreadTimes {
    fn new(begun: Instant, room: u64) -> Self {
        Self {
            begun,
            room,
            chunks: Vec::new(),
            untold: 0,
        }
    }

    /// Adds a request; one of which nothing was sent was never under way.
    pub(super) fn add(&mut self, endpoint: usize, sent: Option<Instant>, ended: Instant) {
        let Some(sent) = sent else { return };
        let Some((room, endpoint)) = self.room.checked_sub(1).zip(u16::try_from(endpoint).ok())
        else {
            self.untold += 1;
            return;
        };
        self.room = room;
        let since = |moment: Instant| nanoseconds(moment.saturating_duration_since(self.begun));
        let request = UnderWay {
            sent_ns: since(sent),
            ended_ns: since(ended),
            endpoint,
        };
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(request),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(request);
                self.chunks.push(chunk);
            }
        }
    }
}

impl RequestTimes {
    /// Adds a thread's part.
    pub(super) fn join(&mut self, thread: ThreadTimes) {
        self.untold += thread.untold;
        self.kept.extend(thread.chunks.into_iter().flatten());
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted_and_what_was_not_sent_is_not() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut thread = ThreadTimes::new(begun, 2);
        thread.add(0, None, at(1));
        thread.add(3, Some(at(1)), at(4));
        thread.add(usize::from(u16::MAX) + 1, Some(at(1)), at(4));
        thread.add(0, Some(at(2)), at(5));
        thread.add(0, Some(at(3)), at(6));
        let mut times = RequestTimes::default();
        times.join(thread);
        let first = UnderWay {
            sent_ns: 1_000_000,
            ended_ns: 4_000_000,
            endpoint: 3,
        };
        assert_eq!((times.kept[0], times.kept.len()), (first, 2));
        assert_eq!(times.untold, 2);
    }

    #[test]
    fn chunks_hold_everything_in_order() {
        let begun = Instant::now();
        let mut thread = ThreadTimes::new(begun, u64::MAX);
        let count = 2 * CHUNK as u64 + 1;
        for ns in 0..count {
            thread.add(0, Some(begun + Duration::from_nanos(ns)), begun);
        }
        assert_eq!(thread.chunks.len(), 3);
        let mut times = RequestTimes::default();
        times.join(thread);
        let sent: Vec<u64> = times.kept.iter().map(|request| request.sent_ns).collect();
        assert_eq!(sent, (0..count).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_kept_unless_somebody_asks() {
        let asked = TimesAsked::default();
        assert!(asked.of_thread(Instant::now()).is_none());
        asked.ask(4);
        let room = asked.of_thread(Instant::now()).map(|thread| thread.room);
        assert_eq!(room, Some(REQUESTS_MAX / 4));
    }
}
