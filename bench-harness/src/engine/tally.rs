//! What one generator thread counts and uses, and how threads are joined.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::{EndpointSamples, ErrorKind, LocalFault};
use unstall_scenarios::plan::Plan;

use super::answer::BodySize;
use super::exchange::Stamps;
use super::failure::{Cause, Failure};
use super::series::{Counts, SharedSeries, ThreadSeries};
use super::stamps::SocketStamps;
use super::stream_times::{self, StreamTimes};
use super::transport;
use super::under_way::ThreadTimes;

/// One example per endpoint and kind, so that a person sees what went wrong.
pub(super) type Examples = BTreeMap<(usize, ErrorKind), String>;

/// When a request was to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) intended: Instant,
    /// It had to wait for a free user, and how late this side noticed that is counted already:
    /// the rest of its wait is the service's.
    pub(super) is_noticed: bool,
}

impl Due {
    /// One whose lateness is its release's.
    pub(super) fn at(intended: Instant) -> Self {
        Self {
            intended,
            is_noticed: false,
        }
    }

    /// One whose lateness was counted when it was noticed.
    pub(super) fn noticed(intended: Instant) -> Self {
        Self {
            intended,
            is_noticed: true,
        }
    }
}

/// Counts of one thread; touched by one task at a time, so without any lock.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) offered: u64,
    pub(super) sent: u64,
    pub(super) local_faults: BTreeMap<LocalFault, u64>,
    pub(super) generator_lag: LatencyHistogram,
    /// In the order of the plan's requests.
    pub(super) endpoints: Vec<EndpointSamples>,
    pub(super) last_end: Option<Instant>,
    pub(super) examples: Examples,
    series: ThreadSeries,
    /// Of each request, if that was asked for.
    times: Option<ThreadTimes>,
}

impl Tally {
    pub(super) fn new(plan: &Plan, begun: Instant, times: Option<ThreadTimes>) -> Self {
        Self {
            offered: 0,
            sent: 0,
            local_faults: BTreeMap::new(),
            generator_lag: LatencyHistogram::new(),
            endpoints: no_samples(plan),
            last_end: None,
            examples: BTreeMap::new(),
            series: ThreadSeries::new(begun),
            times,
        }
    }

    /// Counts a request that was let go and has ended; `stream` if its answer is one.
    pub(super) fn count(
        &mut self,
        endpoint: usize,
        due: Due,
        stamps: &Stamps,
        outcome: &Result<BodySize, Failure>,
        stream: Option<&StreamTimes>,
        shared: &SharedSeries,
    ) {
        let Due { intended, .. } = due;
        self.offered(due, stamps.released, stamps.written);
        self.last_end = self.last_end.max(Some(stamps.ended));
        if let Some(times) = &mut self.times {
            times.add(endpoint, stamps.written, stamps.ended);
        }
        let response = stamps.ended.saturating_duration_since(intended);
        let samples = &mut self.endpoints[endpoint];
        samples.redirects += u64::from(stamps.redirects);
        stamps.phases.add_to(samples);
        match outcome {
            Ok(size) => {
                samples.completed += 1;
                samples.body_bytes += size.decoded;
                samples.encoded_bytes += size.encoded;
                samples.response.record(response);
                let written = stamps.written.unwrap_or(stamps.released);
                samples
                    .service
                    .record(stamps.ended.saturating_duration_since(written));
                samples
                    .queue
                    .record(stamps.released.saturating_duration_since(intended));
                if let Some(stream) = stream {
                    stream.add_to(samples, intended, written);
                }
                self.series
                    .completed(endpoint, stamps.ended, response, shared);
            }
            Err(failure) => self.failed(endpoint, stamps.ended, response, failure, shared),
        }
    }

    /// Counts a request that was in flight when the block was stopped: censored at its age.
    pub(super) fn censored(
        &mut self,
        endpoint: usize,
        due: Due,
        stamps: &SocketStamps,
        now: Instant,
    ) {
        let Due { intended, .. } = due;
        // Its release is as good as its intention here: the lag of one request is not worth a stamp.
        self.offered(due, intended, stamps.written.first());
        // The wait for an answer that never came belongs to the block: without it a service that
        // stalls would have the throughput of the time before.
        self.last_end = self.last_end.max(Some(now));
        if let Some(times) = &mut self.times {
            times.add(endpoint, stamps.written.first(), now);
        }
        let samples = &mut self.endpoints[endpoint];
        samples
            .in_flight
            .record(now.saturating_duration_since(intended));
        if samples.ttft.is_some() {
            stream_times::add_cut_off(samples, intended, stamps, now);
        }
    }

    /// Counts a request that was due and never got a user before `now`: as a timeout if its
    /// time was over, else censored at its age. Its lateness has been noted before.
    pub(super) fn unserved(
        &mut self,
        endpoint: usize,
        intended: Instant,
        timeout: Duration,
        now: Instant,
        shared: &SharedSeries,
    ) {
        self.offered(Due::noticed(intended), now, None);
        let age = now.saturating_duration_since(intended);
        if age >= timeout {
            let message = format!("no user was free within {} ms", timeout.as_millis());
            let failure = Failure::service(ErrorKind::Timeout, message);
            self.last_end = self.last_end.max(Some(now));
            return self.failed(endpoint, now, timeout, &failure, shared);
        }
        self.last_end = self.last_end.max(Some(now));
        let samples = &mut self.endpoints[endpoint];
        samples.in_flight.record(age);
        if samples.ttft.is_some() {
            samples.ttft_in_flight.get_or_insert_default().record(age);
        }
    }

    /// How late this side noticed that a request was due for which nobody is free.
    pub(super) fn noticed(&mut self, intended: Instant, now: Instant) {
        let lag = now.saturating_duration_since(intended);
        self.generator_lag.record(lag);
        self.series.late(lag);
    }

    /// Ends the thread's part.
    pub(super) fn finish(self, shared: &SharedSeries) -> FinishedTally {
        FinishedTally {
            counts: self.series.finish(shared),
            offered: self.offered,
            sent: self.sent,
            local_faults: self.local_faults,
            generator_lag: self.generator_lag,
            endpoints: self.endpoints,
            last_end: self.last_end,
            examples: self.examples,
            times: self.times,
        }
    }

    fn offered(&mut self, due: Due, released: Instant, written: Option<Instant>) {
        self.offered += 1;
        self.series.at(due.intended).offered += 1;
        if !due.is_noticed {
            let lag = released.saturating_duration_since(due.intended);
            self.generator_lag.record(lag);
            self.series.late(lag);
        }
        if let Some(written) = written {
            self.sent += 1;
            self.series.at(written).sent += 1;
        }
    }

    fn failed(
        &mut self,
        endpoint: usize,
        ended: Instant,
        after: Duration,
        failure: &Failure,
        shared: &SharedSeries,
    ) {
        match failure.cause {
            Cause::Service(kind) => {
                let samples = &mut self.endpoints[endpoint];
                *samples.errors.entry(kind).or_default() += 1;
                samples.failed.record(after);
                self.series.failed(endpoint, ended, shared);
                self.examples
                    .entry((endpoint, kind))
                    .or_insert_with(|| failure.message.clone());
            }
            Cause::Local(fault) => *self.local_faults.entry(fault).or_default() += 1,
        }
    }
}

/// A thread's counts at its end.
#[derive(Debug)]
pub(super) struct FinishedTally {
    pub(super) counts: Vec<Counts>,
    pub(super) offered: u64,
    pub(super) sent: u64,
    pub(super) local_faults: BTreeMap<LocalFault, u64>,
    pub(super) generator_lag: LatencyHistogram,
    pub(super) endpoints: Vec<EndpointSamples>,
    pub(super) last_end: Option<Instant>,
    pub(super) examples: Examples,
    pub(super) times: Option<ThreadTimes>,
}

impl FinishedTally {
    /// Nothing yet.
    pub(super) fn empty(plan: &Plan) -> Self {
        Self {
            counts: Vec::new(),
            offered: 0,
            sent: 0,
            local_faults: BTreeMap::new(),
            generator_lag: LatencyHistogram::new(),
            endpoints: no_samples(plan),
            last_end: None,
            examples: BTreeMap::new(),
            times: None,
        }
    }

    /// Adds a thread's counts; those per second are given back, to be joined by the series.
    pub(super) fn join(&mut self, other: Self) -> Vec<Counts> {
        self.offered += other.offered;
        self.sent += other.sent;
        for (fault, count) in other.local_faults {
            *self.local_faults.entry(fault).or_default() += count;
        }
        self.generator_lag.merge(&other.generator_lag);
        for (mine, theirs) in self.endpoints.iter_mut().zip(other.endpoints) {
            join_samples(mine, &theirs);
        }
        self.last_end = self.last_end.max(other.last_end);
        for (key, example) in other.examples {
            self.examples.entry(key).or_insert(example);
        }
        other.counts
    }
}

/// Of each endpoint of the plan, none.
fn no_samples(plan: &Plan) -> Vec<EndpointSamples> {
    plan.requests
        .iter()
        .map(|request| match request.stream {
            Some(_) => stream_times::no_streams_yet(),
            None => EndpointSamples::default(),
        })
        .collect()
}

fn join_samples(mine: &mut EndpointSamples, theirs: &EndpointSamples) {
    mine.completed += theirs.completed;
    mine.body_bytes += theirs.body_bytes;
    mine.encoded_bytes += theirs.encoded_bytes;
    mine.redirects += theirs.redirects;
    for (kind, count) in &theirs.errors {
        *mine.errors.entry(*kind).or_default() += count;
    }
    mine.response.merge(&theirs.response);
    mine.service.merge(&theirs.service);
    mine.queue.merge(&theirs.queue);
    mine.failed.merge(&theirs.failed);
    mine.in_flight.merge(&theirs.in_flight);
    stream_times::join(mine, theirs);
    transport::join_phases(mine, theirs);
}

/// User and system time of this thread.
pub(super) fn thread_cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)
        .expect("getrusage fails only for a bad argument, and this one is a constant");
    let spent_us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(spent_us).unwrap_or(0))
}
