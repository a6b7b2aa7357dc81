//! What streams did after their first item: gaps, and how items came. Shown and not judged,
//! since a gap belongs to whoever makes the items as much as to who passes them on.

use crate::comparison::{Estimate, Metric};
use crate::histogram::LatencyHistogram;
use crate::level::Level;
use crate::measure::{Times, percentile};
use crate::order_statistics::interval_ranks;
use crate::pool::{Pool, pools};
use crate::record::{EndpointSamples, ErrorKind, RunRecord};
use crate::validate::saturating_sum;

/// The streams of one endpoint, arm and level, over its valid blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamSummary {
    /// Key of [`RunRecord::arms`].
    pub arm: String,
    /// Concurrency or offered rate.
    pub level: Level,
    /// Its name in the scenario.
    pub endpoint: String,
    /// Complete streams.
    pub completed: u64,
    /// Streams that were cut short.
    pub truncated: u64,
    /// Items, first ones included.
    pub items: u64,
    /// Share of them that came in one read with the one before, 0 to 1: they have no gap.
    pub coalesced_share: Option<f64>,
    /// Gaps that were left out because this side stalled.
    pub gaps_stalled: u64,
    /// Time to the first meaningful item in ms, from the moment the request was meant to be sent.
    pub ttft: Quantiles,
    /// The same from the first byte written.
    pub ttft_sent: Quantiles,
    /// Between items, ms.
    pub gap: Quantiles,
    /// The longest gap of all, ms.
    pub gap_ms_max: Option<f64>,
    /// The longest gap of each stream, median in ms.
    pub gap_longest_p50: Estimate,
}

/// Percentiles in ms, each with its interval where the sample allows one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quantiles {
    /// Median.
    pub p50: Estimate,
    /// 95th percentile.
    pub p95: Estimate,
    /// 99th percentile.
    pub p99: Estimate,
}

/// Streams by endpoint in the scenario's order, then level, then arm; empty without streams.
/// Invalid blocks are left out.
pub fn streams(record: &RunRecord) -> Vec<StreamSummary> {
    pools(record).iter().filter_map(summary).collect()
}

fn summary(pool: &Pool<'_>) -> Option<StreamSummary> {
    let samples: Vec<&EndpointSamples> = pool
        .samples
        .iter()
        .copied()
        .filter(|samples| samples.ttft.is_some())
        .collect();
    if samples.is_empty() {
        return None;
    }
    let sum = |of: fn(&EndpointSamples) -> u64| saturating_sum(samples.iter().map(|s| of(s)));
    let all = |of: fn(&EndpointSamples) -> Option<&LatencyHistogram>| {
        LatencyHistogram::sum(samples.iter().filter_map(|samples| of(samples)))
    };
    let (items, coalesced) = (sum(|s| s.items), sum(|s| s.items_coalesced));
    let gap = all(|samples| samples.gap.as_ref());
    let longest = all(|samples| samples.gap_longest.as_ref());
    // As in the cells: a stream that failed without a first item counts.
    let ttft = Times::of(samples.iter().copied(), Metric::TtftP50)?.adjusted(pool.endpoint);
    let ttft = |q| percentile(&ttft, q, Vec::new());
    Some(StreamSummary {
        arm: pool.arm.to_owned(),
        level: pool.level,
        endpoint: pool.endpoint.name.clone(),
        completed: sum(|samples| samples.completed),
        truncated: sum(|samples| {
            let truncated = samples.errors.get(&ErrorKind::Truncated);
            truncated.copied().unwrap_or(0)
        }),
        items,
        coalesced_share: (items > 0).then(|| coalesced as f64 / items as f64),
        gaps_stalled: sum(|samples| samples.gaps_stalled),
        ttft: Quantiles {
            p50: ttft(0.5),
            p95: ttft(0.95),
            p99: ttft(0.99),
        },
        ttft_sent: quantiles(&all(|samples| samples.ttft_sent.as_ref())),
        gap_ms_max: gap
            .max_us()
            .max(longest.max_us())
            .map(|us| us as f64 / 1_000.0),
        gap: quantiles(&gap),
        gap_longest_p50: quantile(&longest, 0.5),
    })
}

/// Percentiles of recorded times, without anything adjusted.
pub(crate) fn quantiles(times: &LatencyHistogram) -> Quantiles {
    Quantiles {
        p50: quantile(times, 0.5),
        p95: quantile(times, 0.95),
        p99: quantile(times, 0.99),
    }
}

/// A percentile of times that all came, in ms, with its distribution-free interval.
fn quantile(times: &LatencyHistogram, q: f64) -> Estimate {
    let ms = |us: u64| us as f64 / 1_000.0;
    let ranks = interval_ranks(q, times.count());
    let at = |rank: u64| times.value_at_rank(rank).map(ms);
    Estimate {
        value: times.quantile_us(q).map(ms),
        low: ranks.and_then(|(low, _)| at(low)),
        high: ranks.and_then(|(_, high)| at(high)),
        n: times.count(),
        ..Estimate::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EndpointSpec, StreamSpec, add_stream, record};

    #[test]
    fn streams_of_an_endpoint_are_pooled_over_its_blocks() {
        let specs = ["GET stream", "GET plain"].map(|name| EndpointSpec::new(name, 40.0));
        let mut measured = record(1, 5, 100, &specs);
        assert_eq!(streams(&measured), []);
        let spec = StreamSpec {
            items: 12,
            ttft_before_ms: 30.0,
            ttft_after_ms: 10.0,
            gap_ms: 2.0,
            stalled_before: 0.02,
            stalled_after: 0.0,
            coalesced: 0.25,
        };
        add_stream(&mut measured, "GET stream", spec);
        measured.validate().unwrap();
        let block = &mut measured.blocks[0];
        let samples = block.endpoints.get_mut("GET stream").unwrap();
        samples.errors.insert(ErrorKind::Truncated, 2);
        let found = streams(&measured);
        let arms: Vec<&str> = found.iter().map(|stream| stream.arm.as_str()).collect();
        assert_eq!(arms, ["before", "after"]);
        let [before, after] = &found[..] else {
            panic!("two arms: {found:?}");
        };
        assert_eq!((before.completed, before.items), (500, 6_000));
        assert_eq!(before.truncated + after.truncated, 2);
        let share = before.coalesced_share.unwrap();
        assert!((0.2..0.25).contains(&share), "{share}");
        let ms = |estimate: &Estimate| estimate.value.unwrap();
        assert!(ms(&before.ttft.p50) > 2.0 * ms(&after.ttft.p50));
        assert!((1.8..2.2).contains(&ms(&before.gap.p50)), "{before:?}");
        assert!(ms(&before.gap.p99) > 10.0 && ms(&after.gap.p99) < 5.0);
        assert!(before.gap_ms_max.unwrap() >= ms(&before.gap_longest_p50));
        assert!(before.gap.p99.low.is_some(), "thousands of gaps");
    }
}
