//! The load engine: closed-model users that measure every request they send.
//!
//! `users` live on single-threaded runtimes, each with a connection of its own;
//! a thread keeps its own histograms, so no request touches a lock or a channel.
//! A block has two halves, so that the caller can read the service's counters
//! between them: [`WarmBlock::prepare`] ends with warm users at a barrier,
//! [`WarmBlock::measure`] opens it. [`run_block`] does both.
//!
//! All of it blocks the calling thread and starts runtimes on threads of its own.

mod connection;
mod exchange;
mod failure;
mod generator;
mod liveness;
mod prepared;
mod progress;
mod series;
mod stop;
mod tally;
mod target;
mod user;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::{EndpointSamples, ErrorKind, LocalFault, Second};
use unstall_scenarios::plan::{Per, Plan};
use unstall_scenarios::scope::Scope;

pub use exchange::CHECKED_BODY_BYTES_MAX;
pub use progress::{Phase, Progress, ProgressLook};
pub use stop::{Stop, Urgency};
pub use target::{Target, TargetError};

use exchange::Client;
use generator::{Finished, Job};
use liveness::Liveness;
use series::SharedSeries;
use user::{UserEvent, Values};

/// How a block is driven.
#[derive(Debug, Clone)]
pub struct BlockSpec {
    /// Users at the same time.
    pub level: u32,
    /// When the block is over.
    pub amount: Amount,
    /// What comes before the first measured request.
    pub warmup: Warmup,
    /// For random feeders of the scenario.
    pub seed: u64,
    /// Generator threads; `None`: half the cores that this process may use, at least 1.
    pub threads: Option<usize>,
    /// After a stop, or at the end of [`Amount::For`]: how long answers are awaited.
    pub grace: Duration,
    /// A service that has not answered at all for this long, and for 3 requests per
    /// user, ends the block.
    pub patience: Duration,
}

impl Default for BlockSpec {
    /// 20 users, 400 requests per endpoint, the warm-up and grace of this tool's definitions.
    fn default() -> Self {
        Self {
            level: 20,
            amount: Amount::PerEndpoint(400),
            warmup: Warmup::default(),
            seed: 0,
            threads: None,
            grace: Duration::from_secs(2),
            patience: Duration::from_secs(3),
        }
    }
}

/// How much is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Exactly this many requests to each endpoint, over all users.
    PerEndpoint(u64),
    /// As many as fit into this time.
    For(Duration),
}

/// Load before the measured one, thrown away: whichever of the two is longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warmup {
    /// Rounds through the scenario per user.
    pub rounds_per_user: u32,
    /// Least time.
    pub lasting_at_least: Duration,
}

impl Default for Warmup {
    /// 5 rounds per user, 1 s.
    fn default() -> Self {
        Self {
            rounds_per_user: 5,
            lasting_at_least: Duration::from_secs(1),
        }
    }
}

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
    /// CPU of the generator's threads since the barrier.
    pub generator_cpu: Duration,
    /// Why the block ended.
    pub ended: Ended,
    /// One example message per endpoint and kind of error, without secrets.
    pub examples: Vec<ErrorExample>,
}

/// Why a block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All requests of its plan were sent.
    Complete,
    /// [`Stop`] was requested.
    Stopped,
    /// The service did not answer at all for [`BlockSpec::patience`].
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

/// A setup request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupFailure {
    /// Method and name.
    pub request: String,
    /// What went wrong.
    pub reason: String,
    /// The beginning of the answer, if there was one.
    pub answer: String,
}

/// Why a block could not be measured at all.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No user, no request, or no time.
    #[error("nothing to send: {0}")]
    Nothing(&'static str),
    /// The scenario has a streamed answer.
    #[error(
        "request `{request}` of scenario `{scenario}` reads its answer as a stream, \
         which this version does not drive; take out [request.stream] to measure the whole answer"
    )]
    Stream {
        /// The scenario.
        scenario: String,
        /// The request.
        request: String,
    },
    /// A setup request failed.
    #[error(
        "setup request `{}` failed: {}{}{}; mend the service or the scenario's [[setup]]",
        .0.request, .0.reason,
        if .0.answer.is_empty() { "" } else { "; it answered: " }, .0.answer
    )]
    Setup(SetupFailure),
    /// A thread or runtime could not be started.
    #[error(
        "the load generator could not start: {0}; check the limits of processes and descriptors (ulimit -u -n)"
    )]
    Start(#[source] io::Error),
    /// A generator thread panicked: a bug of ours.
    #[error(
        "a generator thread ended unexpectedly ({0}): this is a bug in unstall, please report it"
    )]
    Panicked(String),
}

/// Prepares and measures one block.
///
/// # Errors
/// [`EngineError`] only if nothing could be measured; whatever the service does is
/// in the measurement.
pub fn run_block(
    plan: &Arc<Plan>,
    target: &Target,
    spec: &BlockSpec,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Result<BlockMeasurement, EngineError> {
    WarmBlock::prepare(plan, target, spec, stop, progress)?.measure()
}

/// Users that have done setup and warm-up and stand at the barrier.
pub struct WarmBlock {
    plan: Arc<Plan>,
    stop: Stop,
    cancel: Stop,
    progress: Arc<Progress>,
    series: Arc<SharedSeries>,
    liveness: Arc<Liveness>,
    go: watch::Sender<Option<Instant>>,
    threads: Vec<JoinHandle<io::Result<Finished>>>,
}

impl WarmBlock {
    /// Runs setup and warm-up; returns when every user stands at the barrier.
    ///
    /// # Errors
    /// A failed setup, a scenario that can't be driven, or a machine out of threads.
    pub fn prepare(
        plan: &Arc<Plan>,
        target: &Target,
        spec: &BlockSpec,
        stop: &Stop,
        progress: &Arc<Progress>,
    ) -> Result<Self, EngineError> {
        check(plan, spec)?;
        let total = match spec.amount {
            Amount::PerEndpoint(requests) => requests * plan.requests.len() as u64,
            Amount::For(_) => 0,
        };
        progress.begin(total);
        let target = Arc::new(target.clone());
        let run_values = set_up_run(plan, &target, spec)?;
        let (events_sender, events) = mpsc::channel();
        let mut block = Self {
            plan: Arc::clone(plan),
            stop: stop.clone(),
            cancel: Stop::new(),
            progress: Arc::clone(progress),
            series: Arc::new(SharedSeries::new(Arc::clone(progress))),
            liveness: Arc::new(Liveness::new(spec.level, spec.patience)),
            go: watch::Sender::new(None),
            threads: Vec::new(),
        };
        let threads = thread_count(spec);
        for index in 0..threads {
            let job = block.job(
                &target,
                spec,
                user_range(spec.level, index, threads),
                &run_values,
            );
            let events = events_sender.clone();
            let thread = std::thread::Builder::new()
                .name(format!("generator-{index}"))
                .spawn(move || generator::run(job, events))
                .map_err(EngineError::Start)?;
            block.threads.push(thread);
        }
        drop(events_sender);
        block.await_warm(&events, spec.level)?;
        Ok(block)
    }

    /// Opens the barrier and waits for the end of the block.
    ///
    /// # Errors
    /// Only if a thread of the generator failed.
    pub fn measure(mut self) -> Result<BlockMeasurement, EngineError> {
        self.liveness.reset();
        self.progress.enter(Phase::Measuring);
        let started_utc = jiff::Timestamp::now().to_string();
        let started_mono_ns = monotonic_ns();
        let begun = Instant::now();
        self.go.send_replace(Some(begun));
        let finished = self.join_threads()?;
        self.progress.enter(Phase::Done);

        let mut generator_cpu = Duration::ZERO;
        let mut counts = Vec::new();
        let mut joined = None;
        for Finished { mut tally, cpu } in finished {
            generator_cpu += cpu;
            counts.push(std::mem::take(&mut tally.counts));
            match joined.as_mut() {
                None => joined = Some(tally),
                Some(all) => tally::FinishedTally::join(all, tally),
            }
        }
        let tally = joined.ok_or(EngineError::Nothing("there was no generator thread"))?;
        let ended = if self.stop.is_requested() {
            Ended::Stopped
        } else if self.liveness.has_given_up() {
            Ended::ServiceGone
        } else {
            Ended::Complete
        };
        let examples = self.examples(&tally);
        let names = self
            .plan
            .requests
            .iter()
            .map(|request| request.name.clone());
        let endpoints: BTreeMap<String, EndpointSamples> = names.zip(tally.endpoints).collect();
        let mut errors = BTreeMap::new();
        for (kind, count) in endpoints.values().flat_map(|samples| &samples.errors) {
            *errors.entry(*kind).or_default() += count;
        }
        Ok(BlockMeasurement {
            started_utc,
            started_mono_ns,
            wall: tally
                .last_end
                .map_or(Duration::ZERO, |end| end.saturating_duration_since(begun)),
            offered: tally.offered,
            sent: tally.sent,
            completed: endpoints.values().map(|samples| samples.completed).sum(),
            errors,
            local_faults: tally.local_faults,
            generator_lag: tally.generator_lag,
            endpoints,
            series: self.series.join(&counts),
            generator_cpu,
            ended,
            examples,
        })
    }

    fn job(
        &self,
        target: &Arc<Target>,
        spec: &BlockSpec,
        users: std::ops::Range<u32>,
        run_values: &Values,
    ) -> Job {
        Job {
            plan: Arc::clone(&self.plan),
            target: Arc::clone(target),
            spec: spec.clone(),
            users,
            run_values: run_values.clone(),
            stop: self.stop.clone(),
            cancel: self.cancel.clone(),
            progress: Arc::clone(&self.progress),
            series: Arc::clone(&self.series),
            liveness: Arc::clone(&self.liveness),
            go: self.go.subscribe(),
        }
    }

    /// Waits until all users are warm, or until no user is left to become so.
    fn await_warm(
        &mut self,
        events: &mpsc::Receiver<UserEvent>,
        users: u32,
    ) -> Result<(), EngineError> {
        let mut warm = 0;
        while warm < users {
            match events.recv() {
                Ok(UserEvent::Warm) => warm += 1,
                Ok(UserEvent::SetupFailed(failure)) => return Err(EngineError::Setup(failure)),
                // All users were stopped: what there is, `measure` collects.
                Err(mpsc::RecvError) => return Ok(()),
            }
        }
        Ok(())
    }

    fn join_threads(&mut self) -> Result<Vec<Finished>, EngineError> {
        let mut finished = Vec::new();
        for thread in self.threads.drain(..) {
            let result = thread
                .join()
                .map_err(|panic| EngineError::Panicked(panic_text(panic.as_ref())))?;
            finished.push(result.map_err(EngineError::Start)?);
        }
        Ok(finished)
    }

    fn examples(&self, tally: &tally::FinishedTally) -> Vec<ErrorExample> {
        tally
            .examples
            .iter()
            .map(|((endpoint, kind), message)| ErrorExample {
                endpoint: self.plan.requests[*endpoint].name.clone(),
                kind: *kind,
                message: self.plan.redact(message).into_owned(),
            })
            .collect()
    }
}

impl Drop for WarmBlock {
    /// A block that is not measured ends its users at once.
    fn drop(&mut self) {
        self.cancel.request();
        for thread in self.threads.drain(..) {
            // Its outcome belongs to a block that nobody wants any more.
            let _ = thread.join();
        }
    }
}

fn check(plan: &Plan, spec: &BlockSpec) -> Result<(), EngineError> {
    if let Some(request) = plan.first_stream() {
        return Err(EngineError::Stream {
            scenario: plan.name.clone(),
            request: request.name.clone(),
        });
    }
    if plan.requests.is_empty() {
        return Err(EngineError::Nothing("the scenario has no request"));
    }
    if spec.level == 0 {
        return Err(EngineError::Nothing(
            "concurrency is 0, expected at least 1",
        ));
    }
    match spec.amount {
        Amount::PerEndpoint(0) => Err(EngineError::Nothing(
            "0 requests per endpoint were asked for",
        )),
        Amount::For(Duration::ZERO) => Err(EngineError::Nothing("a duration of 0 was asked for")),
        _ => Ok(()),
    }
}

/// Runs the setup requests of the whole block on a thread of its own.
fn set_up_run(
    plan: &Arc<Plan>,
    target: &Arc<Target>,
    spec: &BlockSpec,
) -> Result<Values, EngineError> {
    if !plan.setup.iter().any(|setup| setup.per == Per::Run) {
        return Ok(Values::new());
    }
    let work = || {
        let runtime = generator::runtime().map_err(EngineError::Start)?;
        runtime.block_on(async {
            let mut client = Client::new(Arc::clone(target), connection::WriteStamp::default());
            let mut scope = Scope::new(Arc::clone(plan), 0, spec.level, spec.seed);
            user::run_setup(plan, target, Per::Run, &mut client, &mut scope)
                .await
                .map_err(EngineError::Setup)?;
            Ok(scope.prepared().clone())
        })
    };
    std::thread::scope(|threads| {
        threads
            .spawn(work)
            .join()
            .unwrap_or_else(|panic| Err(EngineError::Panicked(panic_text(panic.as_ref()))))
    })
}

/// One thread is enough for far more than a service on the same two cores can answer.
fn thread_count(spec: &BlockSpec) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    spec.threads
        .unwrap_or(cores / 2)
        .clamp(1, spec.level as usize)
}

/// The users of one thread: contiguous, as even as possible.
fn user_range(users: u32, index: usize, threads: usize) -> std::ops::Range<u32> {
    let edge = |index: usize| (u64::from(users) * index as u64 / threads as u64) as u32;
    edge(index)..edge(index + 1)
}

/// The kernel's monotonic clock, as other processes' counters use it.
fn monotonic_ns() -> u64 {
    let now =
        clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the monotonic clock exists on every Linux");
    u64::try_from(Duration::from(now).as_nanos()).unwrap_or(u64::MAX)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_lives_on_one_thread() {
        for (users, threads) in [(1, 1), (20, 1), (20, 3), (7, 7), (1000, 64)] {
            let all: Vec<u32> = (0..threads)
                .flat_map(|index| user_range(users, index, threads))
                .collect();
            assert_eq!(all, (0..users).collect::<Vec<_>>());
        }
    }
}
