//! When each measured request was under way, for who can tell what the service's loop did meanwhile.
//!
//! Kept only where somebody asked for it before the barrier: a request costs one line of
//! [`UnderWay`], 24 bytes in chunks that never move until the block is over, and no look at a clock of
//! its own. Beyond [`CHUNKS_MAX`] requests are only counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Of one allocation: 96 KiB.
const CHUNK: usize = 4_096;
/// Chunks of a block, on all threads together, whichever has the most to do: a million requests and 24 MB,
/// up to twice that for a moment when threads are joined.
const CHUNKS_MAX: u64 = 245;

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
pub(super) struct TimesAsked {
    is_asked: AtomicBool,
    chunks_left: Arc<AtomicU64>,
}

impl TimesAsked {
    /// Times are kept.
    pub(super) fn ask(&self) {
        // Whoever passes the barrier has seen it: it opens later, by a channel.
        self.chunks_left.store(CHUNKS_MAX, Ordering::Relaxed);
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// What a thread keeps; `None` unless that was asked for.
    pub(super) fn of_thread(&self, begun: Instant) -> Option<ThreadTimes> {
        let is_asked = self.is_asked.load(Ordering::Relaxed);
        is_asked.then(|| ThreadTimes::new(begun, Arc::clone(&self.chunks_left)))
    }
}

/// One thread's part.
#[derive(Debug)]
pub(super) struct ThreadTimes {
    begun: Instant,
    /// Chunks that any thread may still take.
    chunks_left: Arc<AtomicU64>,
    chunks: Vec<Vec<UnderWay>>,
    untold: u64,
}

impl ThreadTimes {
    fn new(begun: Instant, chunks_left: Arc<AtomicU64>) -> Self {
        Self {
            begun,
            chunks_left,
            chunks: Vec::new(),
            untold: 0,
        }
    }

    /// Adds a request; one of which nothing was sent was never under way.
    pub(super) fn add(&mut self, endpoint: usize, sent: Option<Instant>, ended: Instant) {
        let Some(sent) = sent else { return };
        let begun = self.begun;
        let since = |moment: Instant| nanoseconds(moment.saturating_duration_since(begun));
        let Some((chunk, endpoint)) = self.room().zip(u16::try_from(endpoint).ok()) else {
            self.untold += 1;
            return;
        };
        chunk.push(UnderWay {
            sent_ns: since(sent),
            ended_ns: since(ended),
            endpoint,
        });
    }

    /// The chunk for the next one, if there is any.
    fn room(&mut self) -> Option<&mut Vec<UnderWay>> {
        if self.chunks.last().is_none_or(|chunk| chunk.len() >= CHUNK) {
            let take = |left: u64| left.checked_sub(1);
            let taken = self
                .chunks_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            taken.ok()?;
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks.last_mut()
    }
}

impl RequestTimes {
    /// Adds a thread's part.
    pub(super) fn join(&mut self, thread: ThreadTimes) {
        self.untold += thread.untold;
        self.kept
            .reserve_exact(thread.chunks.iter().map(Vec::len).sum());
        self.kept.extend(thread.chunks.into_iter().flatten());
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(begun: Instant, chunks: u64) -> ThreadTimes {
        ThreadTimes::new(begun, Arc::new(AtomicU64::new(chunks)))
    }

    #[test]
    fn what_can_not_be_named_is_counted_and_what_was_not_sent_is_not() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut thread = alone(begun, 1);
        thread.add(0, None, at(1));
        thread.add(3, Some(at(1)), at(4));
        thread.add(usize::from(u16::MAX) + 1, Some(at(1)), at(4));
        let mut times = RequestTimes::default();
        times.join(thread);
        let first = UnderWay {
            sent_ns: 1_000_000,
            ended_ns: 4_000_000,
            endpoint: 3,
        };
        assert_eq!((&times.kept[..], times.untold), (&[first][..], 1));
    }

    #[test]
    fn a_busy_thread_takes_what_others_leave() {
        let chunk = CHUNK as u64;
        let requests_max = CHUNKS_MAX * chunk;
        let begun = Instant::now();
        let asked = TimesAsked::default();
        asked.ask();
        let thread = || asked.of_thread(begun).expect("asked");
        let (mut idle, mut busy) = (thread(), thread());
        idle.add(0, Some(begun), begun);
        for _ in 0..requests_max {
            busy.add(0, Some(begun), begun);
        }
        idle.add(0, Some(begun), begun);
        let mut times = RequestTimes::default();
        times.join(busy);
        times.join(idle);
        assert_eq!(times.kept.len() as u64, requests_max - chunk + 2);
        assert_eq!(times.untold, chunk);
    }

    #[test]
    fn chunks_hold_everything_in_order() {
        let begun = Instant::now();
        let mut thread = alone(begun, 3);
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
        asked.ask();
        assert!(asked.of_thread(Instant::now()).is_some());
    }
}
