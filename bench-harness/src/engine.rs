//! The load engine: users that measure every request they send, closed or open.
//!
//! `users` live on single-threaded runtimes, each with a connection of its own;
//! a thread keeps its own histograms, so no request touches a lock or a channel.
//! A block has two halves, so that the caller can read the service's counters
//! between them: [`WarmBlock::prepare`] ends with warm users at a barrier,
//! [`WarmBlock::measure`] opens it. [`run_block`] does both.
//!
//! All of it blocks the calling thread and starts runtimes on threads of its own.

mod access;
mod answer;
mod answer_body;
pub(crate) mod asking;
mod brotli;
mod coding;
mod connection;
mod cookies;
mod deflate;
mod dispatch;
mod error;
mod exchange;
mod failure;
mod generator;
mod gzip;
mod hosts;
mod http1;
mod http1_body;
mod http1_head;
mod http1_outgoing;
mod http1_socket;
mod http2;
mod liveness;
mod measurement;
mod pacer;
mod prepared;
mod probe;
mod progress;
mod proxy;
mod redirect;
mod schedule;
mod series;
mod spec;
mod stamps;
mod stop;
mod stream_times;
mod streamed;
mod tally;
mod target;
mod tls;
mod tls_failure;
mod transport;
mod turns;
mod under_way;
mod user;
mod wire;

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use unstall_scenarios::plan::{Per, Plan};
use unstall_scenarios::scope::Scope;

pub use access::{Access, AccessError, TargetOptions};
pub use asking::reach;
pub use error::{EngineError, ReachError, SetupFailure};
pub use hosts::{HostError, services};
pub(crate) use measurement::monotonic_ns;
pub use measurement::{BlockMeasurement, Ended, ErrorExample};
pub use probe::{ProbeMeasurement, ProbeSpec};
pub use progress::{Phase, Progress, ProgressLook, Recent};
pub use proxy::ProxyError;
pub use schedule::{Offsets, Schedule, ScheduleError};
pub use series::EndpointSecond;
pub use spec::{Amount, BlockSpec, LoadModel, OpenLoad, Warmup};
pub use stop::Stop;
pub(crate) use stop::Urgency;
pub use target::{Target, TargetError};
pub use tls::TlsError;
pub use under_way::{RequestTimes, UnderWay};

use dispatch::{FreeUsers, Lane};
use exchange::Client;
use generator::{Finished, Job};
use hosts::Hosts;
use liveness::Liveness;
use measurement::Start;
use probe::Bystander;
use series::SharedSeries;
use stamps::SocketStamps;
use under_way::TimesAsked;
use user::{UserEvent, Values};

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
    /// How many are planned; `None` where time ends the block.
    requests: Option<u64>,
    /// In the open model: when arrivals are due.
    schedule: Option<Schedule>,
    stop: Stop,
    cancel: Stop,
    progress: Arc<Progress>,
    series: Arc<SharedSeries>,
    liveness: Arc<Liveness>,
    times: Arc<TimesAsked>,
    free_users: FreeUsers,
    go: watch::Sender<Option<Instant>>,
    threads: Vec<JoinHandle<io::Result<Finished>>>,
    probe: Option<Bystander>,
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
        let schedule = check(plan, spec)?;
        let users = spec.load.users();
        let requests = spec.requests(plan.requests_per_iteration());
        let expected = schedule.as_ref().map(Schedule::count);
        let expected = expected.map(|arrivals| arrivals * plan.requests_per_iteration() as u64);
        progress.begin(requests.or(expected).unwrap_or(0));
        let hosts = Arc::new(Hosts::of(plan, target)?);
        let run_values = set_up_run(plan, &hosts, spec, stop)?;
        let (events_sender, events) = mpsc::channel();
        let mut block = Self {
            plan: Arc::clone(plan),
            requests,
            schedule,
            stop: stop.clone(),
            cancel: Stop::new(),
            progress: Arc::clone(progress),
            series: Arc::new(SharedSeries::new(Arc::clone(progress), spec.by_endpoint)),
            liveness: Arc::new(Liveness::new(senders(spec), spec.patience)),
            times: Arc::default(),
            free_users: FreeUsers::default(),
            go: watch::Sender::new(None),
            threads: Vec::new(),
            probe: None,
        };
        if let Some(probe) = &spec.probe {
            let probe = Bystander::start(hosts.target(), probe, stop, block.go.subscribe());
            block.probe = Some(probe.map_err(EngineError::Start)?);
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = thread_count(spec, cores);
        for index in 0..threads {
            let job = block.job(
                &hosts,
                spec,
                Lane { index, of: threads },
                user_range(users, index, threads),
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
        block.await_warm(&events, users)?;
        Ok(block)
    }

    /// Has the times of each request kept: see [`BlockMeasurement::times`].
    pub fn keep_times(&self) {
        self.times.ask();
    }

    /// Opens the barrier and waits for the end of the block.
    ///
    /// # Errors
    /// Only if a thread of the generator failed.
    pub fn measure(mut self) -> Result<BlockMeasurement, EngineError> {
        self.liveness.reset();
        self.progress.enter(Phase::Measuring);
        let start = Start::now();
        self.go.send_replace(Some(start.begun));
        let finished = self.join_threads()?;
        let probe = self.probe.take().map(Bystander::end).transpose()?;
        self.progress.enter(Phase::Done);

        let ended = self.ended(&finished);
        let mut measurement =
            BlockMeasurement::join(&self.plan, start, finished, &self.series, ended);
        measurement.probe = probe;
        Ok(measurement)
    }

    fn ended(&self, finished: &[Finished]) -> Ended {
        let offered: u64 = finished.iter().map(|part| part.tally.offered).sum();
        let arrived = finished.iter().filter_map(|part| part.open.as_ref());
        let arrived: u64 = arrived.map(|open| open.arrivals).sum();
        let is_complete = match &self.schedule {
            Some(schedule) => arrived == schedule.count(),
            None => Some(offered) == self.requests,
        };
        if is_complete {
            // A stop that came after the last request has stopped nothing.
            Ended::Complete
        } else if self.stop.is_requested() {
            Ended::Stopped
        } else if self.liveness.has_given_up() {
            Ended::ServiceGone
        } else {
            Ended::Complete
        }
    }

    fn job(
        &self,
        hosts: &Arc<Hosts>,
        spec: &BlockSpec,
        lane: Lane,
        users: std::ops::Range<u32>,
        run_values: &Values,
    ) -> Job {
        Job {
            plan: Arc::clone(&self.plan),
            hosts: Arc::clone(hosts),
            spec: spec.clone(),
            users,
            lane,
            free_users: self.free_users.clone(),
            schedule: self.schedule.clone(),
            run_values: run_values.clone(),
            stop: self.stop.clone(),
            cancel: self.cancel.clone(),
            progress: Arc::clone(&self.progress),
            series: Arc::clone(&self.series),
            liveness: Arc::clone(&self.liveness),
            times: Arc::clone(&self.times),
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
                Ok(UserEvent::Warm(more)) => warm += more,
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
                .map_err(|panic| EngineError::panicked(panic.as_ref()))?;
            finished.push(result.map_err(EngineError::Start)?);
        }
        Ok(finished)
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

/// Whether there is anything to send; in the open model, when.
fn check(plan: &Plan, spec: &BlockSpec) -> Result<Option<Schedule>, EngineError> {
    if plan.requests.is_empty() {
        return Err(EngineError::Nothing("the scenario has no request"));
    }
    if spec.load.users() == 0 {
        return Err(EngineError::Nothing(
            "concurrency is 0, expected at least 1",
        ));
    }
    match &spec.load {
        LoadModel::Closed { amount, .. } => match amount {
            Amount::PerEndpoint(0) => Err(EngineError::Nothing(
                "0 requests per endpoint were asked for",
            )),
            Amount::For(Duration::ZERO) => {
                Err(EngineError::Nothing("a duration of 0 was asked for"))
            }
            _ => Ok(None),
        },
        LoadModel::Open(open) => Ok(Some(open.schedule(spec.seed)?)),
    }
}

/// How many may fail at once without it meaning much: users, or a second's arrivals.
fn senders(spec: &BlockSpec) -> u32 {
    match &spec.load {
        LoadModel::Closed { users, .. } => *users,
        LoadModel::Open(open) => open.in_flight_max.min(open.rate_per_second().ceil() as u32),
    }
}

/// Runs the setup requests of the whole block on a thread of its own.
fn set_up_run(
    plan: &Arc<Plan>,
    hosts: &Arc<Hosts>,
    spec: &BlockSpec,
    stop: &Stop,
) -> Result<Values, EngineError> {
    if !plan.setup.iter().any(|setup| setup.per == Per::Run) {
        return Ok(Values::new());
    }
    let work = || {
        let set_up = generator::block_on(async {
            let mut client = Client::of_user(hosts, &plan.client, SocketStamps::default());
            let mut scope = Scope::new(Arc::clone(plan), 0, spec.load.users(), spec.seed);
            let setup = user::run_setup(plan, hosts, Per::Run, &mut client, &mut scope);
            tokio::select! {
                done = setup => done.map_err(EngineError::Setup)?,
                // Nothing is measured yet, so there is no answer to wait for.
                () = stop.reached(Urgency::WindDown) => return Err(EngineError::Stopped),
            }
            Ok(scope.prepared().clone())
        });
        set_up.map_err(EngineError::Start)?
    };
    std::thread::scope(|threads| {
        threads
            .spawn(work)
            .join()
            .unwrap_or_else(|panic| Err(EngineError::panicked(panic.as_ref())))
    })
}

/// One thread is enough for far more than a service on the same two cores can answer. In the open
/// model a thread's arrivals are served by its own users: a few of them would all be busy while
/// others are free, so that small pools aren't split.
fn thread_count(spec: &BlockSpec, cores: usize) -> usize {
    const IN_FLIGHT_MIN: u32 = 128;
    let usual = match &spec.load {
        LoadModel::Closed { .. } => cores / 2,
        LoadModel::Open(open) => (cores / 2).min((open.in_flight_max / IN_FLIGHT_MIN) as usize),
    };
    let threads = spec.threads.unwrap_or(usual);
    threads.clamp(1, spec.load.users() as usize)
}

/// The users of one thread: contiguous, as even as possible.
fn user_range(users: u32, index: usize, threads: usize) -> std::ops::Range<u32> {
    let edge = |index: usize| (u64::from(users) * index as u64 / threads as u64) as u32;
    edge(index)..edge(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_half_the_cores_and_small_pools_are_not_split() {
        let closed = |users| BlockSpec::closed(users, Amount::PerEndpoint(1));
        let open = |in_flight_max| {
            BlockSpec::open(OpenLoad {
                in_flight_max,
                ..OpenLoad::constant(1.0, Duration::from_secs(1))
            })
        };
        for (spec, cores, threads) in [
            (closed(20), 1, 1),
            (closed(20), 16, 8),
            (closed(3), 16, 3),
            (open(16), 16, 1),
            (open(255), 16, 1),
            (open(256), 16, 2),
            (open(1_000), 16, 7),
            (open(1_000), 4, 2),
        ] {
            assert_eq!(thread_count(&spec, cores), threads, "{spec:?}");
        }
        let asked = BlockSpec {
            threads: Some(8),
            ..open(16)
        };
        assert_eq!(thread_count(&asked, 2), 8);
    }

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
