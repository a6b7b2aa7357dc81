//! What is kept of one stream while it lasts: when its items came, and by how much this side
//! may have been late. It enters the histograms only if the stream turns out to be complete.

use std::time::{Duration, Instant};

use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::EndpointSamples;

use super::stamps::SocketStamps;

/// A gap is left out if this side may have been late, at either end of it, by more than this.
/// Its length doesn't matter: percentiles of which only short gaps are left out are too high.
const LATE_MAX: Duration = Duration::from_millis(1);
/// It may still be its stream's longest if the lateness is at most this part of it: a stall of
/// the service for half a second isn't lost because its end was read two milliseconds late.
const LATE_SHARE: u32 = 10;
/// So many gaps are kept one by one; beyond, in a histogram, so that an endless stream takes
/// no more memory than a long one.
const GAPS_MAX: usize = 4_096;

/// A read of the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadMark {
    /// Counts the connection's reads.
    pub(super) number: u64,
    /// When it returned.
    pub(super) at: Instant,
    /// By how much it may have been late.
    pub(super) lateness: Duration,
}

/// The times of one stream.
#[derive(Debug, Default)]
pub(super) struct StreamTimes {
    /// When the first meaningful item came.
    pub(super) first_meaningful: Option<Instant>,
    /// All items.
    pub(super) items: u64,
    coalesced: u64,
    stalled: u64,
    longest: Option<Duration>,
    gaps: Vec<Duration>,
    more_gaps: LatencyHistogram,
    last: Option<ReadMark>,
}

impl StreamTimes {
    /// Forgets the stream before; memory is kept.
    pub(super) fn reset(&mut self) {
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.clear();
        *self = Self {
            gaps,
            ..Self::default()
        };
    }

    /// An item was completed by this read.
    pub(super) fn item(&mut self, read: ReadMark) {
        self.items += 1;
        let Some(before) = self.last.replace(read) else {
            return;
        };
        if before.number == read.number {
            self.coalesced += 1;
            return;
        }
        let gap = read.at.saturating_duration_since(before.at);
        let lateness = before.lateness.max(read.lateness);
        if lateness <= LATE_MAX.max(gap / LATE_SHARE) {
            self.longest = self.longest.max(Some(gap));
        }
        if lateness > LATE_MAX {
            self.stalled += 1;
            return;
        }
        if self.gaps.len() == GAPS_MAX {
            for gap in self.gaps.drain(..) {
                self.more_gaps.record(gap);
            }
        }
        self.gaps.push(gap);
    }

    /// Adds a complete stream to its endpoint.
    pub(super) fn add_to(&self, samples: &mut EndpointSamples, intended: Instant, sent: Instant) {
        if let Some(first) = self.first_meaningful {
            let since = |moment| first.saturating_duration_since(moment);
            histogram(&mut samples.ttft).record(since(intended));
            histogram(&mut samples.ttft_sent).record(since(sent));
        }
        let gaps = histogram(&mut samples.gap);
        gaps.merge(&self.more_gaps);
        for gap in &self.gaps {
            gaps.record(*gap);
        }
        if let Some(longest) = self.longest {
            histogram(&mut samples.gap_longest).record(longest);
        }
        samples.items += self.items;
        samples.items_coalesced += self.coalesced;
        samples.gaps_stalled += self.stalled;
    }
}

/// Adds a stream that was in flight when the block ended: of it counts when its first meaningful
/// item came, or for how long it hadn't.
pub(super) fn add_cut_off(
    samples: &mut EndpointSamples,
    intended: Instant,
    stamps: &SocketStamps,
    now: Instant,
) {
    let since = |from, to: Instant| to.saturating_duration_since(from);
    let Some(first) = stamps.reads.first_meaningful() else {
        return histogram(&mut samples.ttft_in_flight).record(since(intended, now));
    };
    histogram(&mut samples.ttft).record(since(intended, first));
    let sent = stamps.written.first().unwrap_or(intended);
    histogram(&mut samples.ttft_sent).record(since(sent, first));
}

fn histogram(slot: &mut Option<LatencyHistogram>) -> &mut LatencyHistogram {
    slot.get_or_insert_with(LatencyHistogram::new)
}

/// An endpoint that reads streams and has seen none: its times are empty, and not missing.
pub(super) fn no_streams_yet() -> EndpointSamples {
    let empty = || Some(LatencyHistogram::new());
    EndpointSamples {
        ttft: empty(),
        ttft_in_flight: empty(),
        ttft_sent: empty(),
        gap: empty(),
        gap_longest: empty(),
        ..EndpointSamples::default()
    }
}

/// Joins what two threads have seen of an endpoint's streams.
pub(super) fn join(mine: &mut EndpointSamples, theirs: &EndpointSamples) {
    for (mine, theirs) in [
        (&mut mine.ttft, &theirs.ttft),
        (&mut mine.ttft_in_flight, &theirs.ttft_in_flight),
        (&mut mine.ttft_sent, &theirs.ttft_sent),
        (&mut mine.gap, &theirs.gap),
        (&mut mine.gap_longest, &theirs.gap_longest),
    ] {
        if let Some(theirs) = theirs {
            histogram(mine).merge(theirs);
        }
    }
    mine.items += theirs.items;
    mine.items_coalesced += theirs.items_coalesced;
    mine.gaps_stalled += theirs.gaps_stalled;
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// A stream of items at (read, milliseconds, lateness in milliseconds).
    fn samples(items: &[(u64, u64, u64)]) -> EndpointSamples {
        let start = Instant::now();
        let mut times = StreamTimes::default();
        for (number, at, late) in items {
            times.item(ReadMark {
                number: *number,
                at: start + ms(*at),
                lateness: ms(*late),
            });
        }
        times.first_meaningful = Some(start + ms(items[0].1));
        let mut samples = no_streams_yet();
        times.add_to(&mut samples, start, start);
        samples
    }

    fn gaps_ms(samples: &EndpointSamples) -> Vec<u64> {
        let gaps = samples.gap.as_ref().expect("a stream");
        let mut all = Vec::new();
        for (us, count) in gaps.iter() {
            all.extend((0..count).map(|_| us / 1_000));
        }
        all
    }

    #[test]
    fn items_of_one_read_have_no_gap_of_their_own() {
        let samples = samples(&[(1, 50, 0), (1, 50, 0), (2, 70, 0), (2, 70, 0), (3, 90, 0)]);
        assert_eq!((samples.items, samples.items_coalesced), (5, 2));
        assert_eq!(gaps_ms(&samples), [20, 20]);
        let longest = samples.gap_longest.expect("a stream");
        assert_eq!(longest.count(), 1);
    }

    #[test]
    fn a_gap_that_our_own_lateness_may_have_changed_is_left_out() {
        let late_end = samples(&[(1, 50, 0), (2, 70, 3), (3, 90, 0)]);
        assert_eq!(late_end.gaps_stalled, 2, "both gaps have that end");
        assert_eq!(gaps_ms(&late_end), Vec::<u64>::new());
        let slightly = samples(&[(1, 50, 1), (2, 70, 1), (3, 90, 0)]);
        assert_eq!(gaps_ms(&slightly), [20, 20]);
        assert_eq!(slightly.gaps_stalled, 0);
    }

    #[test]
    fn which_gaps_are_left_out_does_not_depend_on_their_length() {
        let long = samples(&[(1, 50, 0), (2, 550, 2), (3, 570, 0), (4, 590, 0)]);
        assert_eq!(gaps_ms(&long), [20]);
        assert_eq!(long.gaps_stalled, 2);
    }

    #[test]
    fn a_long_stall_stays_the_longest_gap_although_we_were_a_little_late() {
        let longest_ms = |late| {
            let samples = samples(&[(1, 50, 0), (2, 70, 0), (3, 570, late)]);
            let longest = samples.gap_longest.expect("a stream");
            longest.max_us().expect("it has a gap") / 1_000
        };
        assert_eq!(longest_ms(40), 500, "a tenth of the gap at most");
        assert_eq!(longest_ms(60), 20, "the stall may have been ours");
    }

    #[test]
    fn a_very_long_stream_is_counted_to_its_end() {
        let items: Vec<(u64, u64, u64)> = (0..3 * GAPS_MAX as u64).map(|i| (i, i, 0)).collect();
        let samples = samples(&items);
        let count = samples.gap.expect("a stream").count();
        assert_eq!(count, 3 * GAPS_MAX as u64 - 1);
    }
}
