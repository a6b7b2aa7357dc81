//! What the generator saw of one block, joined from its threads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::{
    BackgroundSamples, EndpointSamples, ErrorKind, LocalFault, OpenBlock, Second,
};
use unstall_scenarios::plan::Plan;

use super::background::Held;
use super::generator::Finished;
use super::probe::ProbeMeasurement;
use super::series::{EndpointSecond, SharedSeries};
use super::tally::{Examples, FinishedTally};
use super::under_way::RequestTimes;

/// What the generator saw.
#[derive(Debug, Clone)]
pub struct BlockMeasurement {
    /// When the barrier opened: RFC 3339, UTC.
    pub started_utc: String,
    /// The same on the kernel's monotonic clock.
    pub started_mono_ns: u64,
    /// From the first intended request to the last end.
    pub wall: Duration,
    /// Requests that the load model wanted sent.
    pub offered: u64,
    /// Requests whose first byte was written.
    pub sent: u64,
    /// Requests that ended with a checked, successful answer.
    pub completed: u64,
    /// Failures of the service or the network.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Faults of this machine; any spoils the block.
    pub local_faults: BTreeMap<LocalFault, u64>,
    /// released − intended.
    pub generator_lag: LatencyHistogram,
    /// Endpoint → samples.
    pub endpoints: BTreeMap<String, EndpointSamples>,
    /// One entry per second since the barrier.
    pub series: Vec<Second>,
    /// The same of each endpoint by itself, if [`BlockSpec::by_endpoint`](super::BlockSpec::by_endpoint)
    /// asked for it.
    pub endpoint_seconds: Vec<EndpointSecond>,
    /// CPU of the generator's threads since the barrier.
    pub generator_cpu: Duration,
    /// Largest share of the time since the barrier for which one of them computed, 0 to 1: near
    /// 1 the generator was the limit.
    pub generator_busy_share: Option<f64>,
    /// What became of the arrivals, if the load was open.
    pub open: Option<OpenBlock>,
    /// Arrivals that had to wait at one thread of the generator although a user was free at
    /// another: their wait was ours.
    pub missed_with_users_free: u64,
    /// Why the block ended.
    pub ended: Ended,
    /// One example message per endpoint and kind of error, without secrets.
    pub examples: Vec<ErrorExample>,
    /// When each request was under way, if [`WarmBlock::keep_times`](super::WarmBlock::keep_times)
    /// asked for it.
    pub times: Option<RequestTimes>,
    /// What the bystander probe saw, if there was one.
    pub probe: Option<ProbeMeasurement>,
    /// What became of the users who held streams open beside the load, if there were any.
    pub background: Option<BackgroundSamples>,
    /// They hold them as long as this lives: whoever reads the service's counters after the block
    /// lets go then, so that what their leaving costs is in none.
    pub held: Option<Held>,
}

/// Why a block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All requests of its plan were sent.
    Complete,
    /// [`Stop`](super::Stop) was requested.
    Stopped,
    /// The service did not answer at all for [`BlockSpec::patience`](super::BlockSpec::patience).
    ServiceGone,
}

/// What one kind of error looked like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorExample {
    /// Endpoint.
    pub endpoint: String,
    /// Kind of error.
    pub kind: ErrorKind,
    /// The first message of that kind.
    pub message: String,
}

/// Three readings of a clock take less.
const CLOCKS_APART_NS_MAX: u64 = 10_000;
/// Readings in a row that are disturbed are rare, and not worth more.
const ATTEMPTS: u32 = 3;

/// When the barrier opened, on every clock that somebody needs.
pub(super) struct Start {
    pub(super) begun: Instant,
    utc: String,
    mono_ns: u64,
}

impl Start {
    pub(super) fn now() -> Self {
        let utc = jiff::Timestamp::now().to_string();
        // Both clocks at one moment: whoever loses its core between the two asks again.
        let (mut mono_ns, mut begun) = (monotonic_ns(), Instant::now());
        for _ in 0..ATTEMPTS {
            if monotonic_ns().saturating_sub(mono_ns) < CLOCKS_APART_NS_MAX {
                break;
            }
            (mono_ns, begun) = (monotonic_ns(), Instant::now());
        }
        Self {
            begun,
            utc,
            mono_ns,
        }
    }
}

impl BlockMeasurement {
    /// Joins what the threads have seen.
    pub(super) fn join(
        plan: &Plan,
        start: Start,
        threads: Vec<Finished>,
        series: &SharedSeries,
        ended: Ended,
    ) -> Self {
        let mut tally = FinishedTally::empty(plan);
        let mut counts = Vec::with_capacity(threads.len());
        let mut generator_cpu = Duration::ZERO;
        let mut busy_share: Option<f64> = None;
        let mut open = None;
        let mut missed_with_users_free = 0;
        let mut times: Option<RequestTimes> = None;
        for thread in threads {
            generator_cpu += thread.cpu;
            let share = thread.cpu.as_secs_f64() / thread.wall.as_secs_f64();
            if share.is_finite() {
                busy_share = Some(busy_share.map_or(share, |most| most.max(share)).min(1.0));
            }
            if let Some(part) = thread.open {
                open = Some(open.map_or(part.clone(), |so_far| joined(&so_far, &part)));
            }
            missed_with_users_free += thread.missed_with_users_free;
            let mut finished = thread.tally;
            if let Some(kept) = finished.times.take() {
                times.get_or_insert_with(RequestTimes::default).join(kept);
            }
            counts.push(tally.join(finished));
        }
        let examples = examples(plan, &tally.examples);
        let names = plan.requests.iter().map(|request| request.name.clone());
        let endpoints: BTreeMap<String, EndpointSamples> = names.zip(tally.endpoints).collect();
        let mut errors = BTreeMap::new();
        for (kind, count) in endpoints.values().flat_map(|samples| &samples.errors) {
            *errors.entry(*kind).or_default() += count;
        }
        Self {
            started_utc: start.utc,
            started_mono_ns: start.mono_ns,
            wall: tally.last_end.map_or(Duration::ZERO, |end| {
                end.saturating_duration_since(start.begun)
            }),
            offered: tally.offered,
            sent: tally.sent,
            completed: endpoints.values().map(|samples| samples.completed).sum(),
            errors,
            local_faults: tally.local_faults,
            generator_lag: tally.generator_lag,
            endpoints,
            series: series.join(&counts),
            endpoint_seconds: series.endpoint_seconds(),
            generator_cpu,
            generator_busy_share: busy_share,
            open,
            missed_with_users_free,
            ended,
            examples,
            times,
            probe: None,
            background: None,
            held: None,
        }
    }
}

impl BlockMeasurement {
    /// What to say of streams whose gaps tell less than they seem to, because this side was
    /// late in too many of them.
    pub fn doubtful_gaps(&self) -> Vec<String> {
        const STALLED_SHARE_MAX: f64 = 0.2;
        let share = |samples: &EndpointSamples| {
            let kept = samples.gap.as_ref().map_or(0, LatencyHistogram::count);
            let all = kept + samples.gaps_stalled;
            (all > 0).then(|| samples.gaps_stalled as f64 / all as f64)
        };
        let shares = self.endpoints.iter();
        shares
            .filter_map(|(name, samples)| Some((name, share(samples)?)))
            .filter(|(_, share)| *share > STALLED_SHARE_MAX)
            .map(|(name, share)| {
                format!(
                    "{:.0} % of the gaps between items of {name} are left out, because the load \
                     generator may have read them late: free some CPU on this machine, or use \
                     fewer users",
                    share * 100.0
                )
            })
            .collect()
    }
}

/// Arrivals of two threads. Each has its own users and queue, so that the sums of their extremes
/// are as good as the whole's.
fn joined(one: &OpenBlock, other: &OpenBlock) -> OpenBlock {
    OpenBlock {
        arrivals: one.arrivals + other.arrivals,
        begun: one.begun + other.begun,
        ended_in_time: one.ended_in_time + other.ended_in_time,
        duration_ms: one.duration_ms.max(other.duration_ms),
        in_flight_max: one.in_flight_max + other.in_flight_max,
        in_flight_most: one.in_flight_most + other.in_flight_most,
        queued_at_end: one.queued_at_end + other.queued_at_end,
        backlog_least_third_quarter: one.backlog_least_third_quarter
            + other.backlog_least_third_quarter,
        backlog_least_fourth_quarter: one.backlog_least_fourth_quarter
            + other.backlog_least_fourth_quarter,
        arrivals_fourth_quarter: one.arrivals_fourth_quarter + other.arrivals_fourth_quarter,
    }
}

fn examples(plan: &Plan, examples: &Examples) -> Vec<ErrorExample> {
    examples
        .iter()
        .map(|((endpoint, kind), message)| ErrorExample {
            endpoint: plan.requests[*endpoint].name.clone(),
            kind: *kind,
            message: plan.redact(message).into_owned(),
        })
        .collect()
}

/// The kernel's monotonic clock, as other processes' counters use it.
pub(crate) fn monotonic_ns() -> u64 {
    let now =
        clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the monotonic clock exists on every Linux");
    u64::try_from(Duration::from(now).as_nanos()).unwrap_or(u64::MAX)
}
