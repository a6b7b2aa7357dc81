//! The bystander probe: a few requests per second to one trivial route, beside the load.
//!
//! Its times are what *others* feel while the service works: a route that holds the event
//! loop delays also those who asked for nothing. So it must never wait for an answer before
//! it sends the next request, and it must not share a thread with the load, whose users
//! would delay it. Arrivals are a pure function of the index. A thread of its own keeps the
//! time, because the timers of a runtime are rounded to milliseconds, and a healthy answer
//! takes less than that.
//!
//! At most [`OPEN_MAX`] requests are out at once. Those due beyond it are held until one
//! comes back, and keep the moment at which they were due: the delay is not hidden.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc as queue, watch};
use unstall_results::record::{ErrorKind, PROBE_TIMEOUT_MS, ProbeSamples};

use super::answer::Answer;
use super::error::EngineError;
use super::exchange::{Client, Reading};
use super::failure::{Cause, Failure};
use super::generator;
use super::stamps::SocketStamps;
use super::stop::{Stop, Urgency};
use super::target::Target;
use super::wire::Wire;

/// An answer that takes longer is a failure of kind `timeout`.
const TIMEOUT: Duration = Duration::from_millis(PROBE_TIMEOUT_MS);
/// Requests that are out at once, each on a connection of its own.
const OPEN_MAX: usize = 64;
/// Longer than any block, and no clock overflows.
const NEVER: Duration = Duration::from_secs(1 << 32);
/// How long the first answer is awaited, before any load.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What the probe asks for, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeSpec {
    /// A route that costs the service next to nothing.
    pub path: String,
    /// Requests per second, above 0.
    pub rate_per_second: f64,
    /// The route has answered this version of the service before: a bad first answer is the
    /// service's then, and the probe goes on.
    pub is_proven: bool,
}

impl ProbeSpec {
    /// When the `index`-th request is due, after the barrier: constant arrivals, whatever
    /// the answers do.
    fn due_after(&self, index: u64) -> Duration {
        // Exact up to 2^53 requests.
        let seconds = index as f64 / self.rate_per_second;
        Duration::try_from_secs_f64(seconds).map_or(NEVER, |after| after.min(NEVER))
    }
}

/// What the probe saw of one block.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeMeasurement {
    /// For the record.
    pub samples: ProbeSamples,
    /// Why its route is none that can be probed, if it gave no good answer before the load.
    pub refusal: Option<String>,
}

/// A probe that has had its first answer and waits for the barrier. Dropped, it ends.
pub(super) struct Bystander {
    thread: JoinHandle<io::Result<ProbeSamples>>,
    over: watch::Sender<Option<Instant>>,
    refusal: Option<String>,
}

impl Bystander {
    /// Starts the probe's thread and waits for the first answer.
    pub(super) fn start(
        target: &Arc<Target>,
        spec: &ProbeSpec,
        stop: &Stop,
        go: watch::Receiver<Option<Instant>>,
    ) -> io::Result<Self> {
        let over = watch::Sender::new(None);
        let (answer, first_answer) = mpsc::channel();
        let job = Job {
            target: Arc::clone(target),
            spec: spec.clone(),
            stop: stop.clone(),
            go,
            over: over.subscribe(),
        };
        let thread = std::thread::Builder::new()
            .name("probe".to_owned())
            .spawn(move || generator::block_on(job.run(&answer))?)?;
        let refusal = match first_answer.recv() {
            Ok(outcome) => outcome.err(),
            Err(mpsc::RecvError) => Some("the probe could not start".to_owned()),
        };
        Ok(Self {
            thread,
            over,
            refusal,
        })
    }

    /// The load is over: nothing more is sent, and what is out is censored at its age.
    pub(super) fn end(self) -> Result<ProbeMeasurement, EngineError> {
        self.over.send_replace(Some(Instant::now()));
        let samples = self
            .thread
            .join()
            .map_err(|panic| EngineError::panicked(panic.as_ref()))?;
        Ok(ProbeMeasurement {
            samples: samples.map_err(EngineError::Start)?,
            refusal: self.refusal,
        })
    }
}

/// What the probe's thread is told.
struct Job {
    target: Arc<Target>,
    spec: ProbeSpec,
    stop: Stop,
    go: watch::Receiver<Option<Instant>>,
    over: watch::Receiver<Option<Instant>>,
}

impl Job {
    async fn run(
        mut self,
        first_answer: &mpsc::Sender<Result<(), String>>,
    ) -> io::Result<ProbeSamples> {
        let request = match Wire::get(&self.spec.path, &self.target) {
            Ok(request) => request,
            Err(failure) => {
                // As below.
                let _ = first_answer.send(Err(failure.message));
                return Ok(ProbeSamples::default());
            }
        };
        let lane = Rc::new(Lane::new(Arc::clone(&self.target), request));
        let outcome = tokio::select! {
            outcome = lane.first_answer() => outcome,
            // Nothing will be measured.
            () = self.stop.reached(Urgency::WindDown) => Ok(()),
        };
        let is_refused = outcome.is_err() && !self.spec.is_proven;
        // Nobody listens only when the block is being torn down already.
        let _ = first_answer.send(outcome);
        if is_refused {
            // Its numbers would be kept nowhere, and it would be a load that nobody knows of.
            return Ok(ProbeSamples::default());
        }
        // An error means that the block was given up before its barrier.
        let begun = tokio::select! {
            begun = self.go.wait_for(Option::is_some) => begun.ok().and_then(|begun| *begun),
            _ = self.over.changed() => None,
        };
        let Some(begun) = begun else {
            return Ok(ProbeSamples::default());
        };
        let mut clock = Clock::start(&self.spec, begun)?;
        let mut next = 0;
        let end = loop {
            tokio::select! {
                end = self.over.wait_for(Option::is_some) => break end.ok().and_then(|end| *end),
                Some(due) = clock.ticks.recv() => {
                    lane.release(due);
                    next += 1;
                }
            }
        };
        let end = end.unwrap_or_else(Instant::now);
        drop(clock);
        // What was due and not yet noticed is late by our own fault, and no less due.
        while let due = begun + self.spec.due_after(next)
            && due < end
        {
            lane.hold(due, end);
            next += 1;
        }
        Ok(lane.finish(end))
    }
}

/// Tells when each request is due. Dropped, its thread ends at once.
struct Clock {
    ticks: queue::UnboundedReceiver<Instant>,
    _running: mpsc::Sender<Infallible>,
}

impl Clock {
    fn start(spec: &ProbeSpec, begun: Instant) -> io::Result<Self> {
        let (ticker, ticks) = queue::unbounded_channel();
        let (running, over) = mpsc::channel();
        let spec = spec.clone();
        let tick = move || {
            for index in 0.. {
                let due = begun + spec.due_after(index);
                let left = due.saturating_duration_since(Instant::now());
                let stopped = over.recv_timeout(left) != Err(RecvTimeoutError::Timeout);
                if stopped || ticker.send(due).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("probe-clock".to_owned())
            .spawn(tick)?;
        Ok(Self {
            ticks,
            _running: running,
        })
    }
}

/// The way to the service: connections that are free, and requests that wait for one.
struct Lane {
    target: Arc<Target>,
    request: Wire,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    samples: ProbeSamples,
    /// The one used last comes first: a burst's other connections rest.
    idle: Vec<Client>,
    /// When the requests that are out were due.
    out: Vec<Instant>,
    /// Due, and without a connection so far.
    held: VecDeque<Instant>,
}

impl Lane {
    fn new(target: Arc<Target>, request: Wire) -> Self {
        Self {
            target,
            request,
            state: RefCell::default(),
        }
    }

    /// One answer before the load, not counted; its connection stays open.
    async fn first_answer(&self) -> Result<(), String> {
        let mut client = self.client();
        let now = Instant::now();
        let (_, outcome) = client
            .exchange(&self.request, Reading::Counted, now, FIRST_ANSWER_WITHIN)
            .await;
        let outcome = accept(outcome, client.answer()).map_err(|failure| failure.message);
        self.state.borrow_mut().idle.push(client);
        outcome
    }

    fn client(&self) -> Client {
        Client::new(&self.target, SocketStamps::default())
    }

    /// A request is due: it goes out, or waits for a connection.
    fn release(self: &Rc<Self>, due: Instant) {
        let now = Instant::now();
        let mut state = self.state.borrow_mut();
        state.expire(now);
        if state.out.len() >= OPEN_MAX {
            drop(state);
            return self.hold(due, now);
        }
        state.offered(due, now);
        state.out.push(due);
        let client = state.idle.pop();
        drop(state);
        let client = client.unwrap_or_else(|| self.client());
        tokio::task::spawn_local(Rc::clone(self).serve(client, due));
    }

    /// A request is due at a moment at which it can't go out.
    fn hold(&self, due: Instant, noticed: Instant) {
        let mut state = self.state.borrow_mut();
        state.offered(due, noticed);
        state.held.push_back(due);
    }

    /// Sends one request after the other as long as any is held.
    async fn serve(self: Rc<Self>, mut client: Client, first_due: Instant) {
        let mut due = first_due;
        loop {
            let (stamps, outcome) = client
                .exchange(&self.request, Reading::Counted, due, TIMEOUT)
                .await;
            let outcome = accept(outcome, client.answer());
            let mut state = self.state.borrow_mut();
            state.ended(due, stamps.ended, outcome);
            state.expire(stamps.ended);
            match state.held.pop_front() {
                Some(held) => {
                    due = held;
                    state.out.push(due);
                }
                None => return state.idle.push(client),
            }
        }
    }

    /// What was seen; requests without an answer are censored at `end`.
    fn finish(&self, end: Instant) -> ProbeSamples {
        let mut state = std::mem::take(&mut *self.state.borrow_mut());
        state.expire(end);
        for due in state.out.iter().chain(&state.held) {
            state
                .samples
                .in_flight
                .record(end.saturating_duration_since(*due));
        }
        state.samples
    }
}

impl State {
    fn offered(&mut self, due: Instant, noticed: Instant) {
        self.samples.offered += 1;
        self.samples
            .generator_lag
            .record(noticed.saturating_duration_since(due));
    }

    fn ended(&mut self, due: Instant, ended: Instant, outcome: Result<(), Failure>) {
        if let Some(index) = self.out.iter().position(|out| *out == due) {
            self.out.swap_remove(index);
        }
        let after = ended.saturating_duration_since(due);
        match outcome {
            Ok(()) => {
                self.samples.completed += 1;
                self.samples.response.record(after);
            }
            Err(Failure { cause, .. }) => self.failed(cause, after),
        }
    }

    /// Held requests whose time is over have failed without ever being sent.
    fn expire(&mut self, now: Instant) {
        while let Some(due) = self.held.front()
            && *due + TIMEOUT <= now
        {
            self.held.pop_front();
            self.failed(Cause::Service(ErrorKind::Timeout), TIMEOUT);
        }
    }

    fn failed(&mut self, cause: Cause, after: Duration) {
        match cause {
            Cause::Service(kind) => {
                *self.samples.errors.entry(kind).or_default() += 1;
                self.samples.failed.record(after);
            }
            Cause::Local(fault) => count(&mut self.samples.local_faults, fault),
        }
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    *counts.entry(key).or_default() += 1;
}

/// Any answer that is no error will do: nobody looks at what it says.
fn accept(outcome: Result<(), Failure>, answer: &Answer) -> Result<(), Failure> {
    outcome?;
    let status = answer.head.status();
    if status < 400 {
        return Ok(());
    }
    let message = format!("it answers {status}");
    Err(Failure::service(ErrorKind::Status, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_a_function_of_the_index() {
        let spec = ProbeSpec {
            path: "/".to_owned(),
            rate_per_second: 50.0,
            is_proven: false,
        };
        assert_eq!(spec.due_after(0), Duration::ZERO);
        assert_eq!(spec.due_after(1), Duration::from_millis(20));
        assert_eq!(spec.due_after(180_000), Duration::from_secs(3_600));
        let slowest = ProbeSpec {
            rate_per_second: f64::MIN_POSITIVE,
            ..spec
        };
        assert_eq!(slowest.due_after(u64::MAX), NEVER);
    }

    #[test]
    fn who_waits_for_a_connection_keeps_the_moment_at_which_it_was_due() {
        let mut state = State::default();
        let due = Instant::now();
        state.offered(due, due);
        state.held.push_back(due);
        state.expire(due + TIMEOUT - Duration::from_millis(1));
        assert_eq!(state.held.len(), 1);
        state.expire(due + TIMEOUT);
        assert_eq!(state.samples.errors, [(ErrorKind::Timeout, 1)].into());
        let bound_us = state.samples.failed.max_us();
        assert!(
            bound_us.is_some_and(|us| us >= 10_000_000),
            "the timeout: {bound_us:?}"
        );
        state.out.push(due);
        state.ended(due, due + Duration::from_millis(30), Ok(()));
        let waited_us = state.samples.response.max_us();
        assert!(waited_us.is_some_and(|us| us >= 30_000), "{waited_us:?}");
        assert!(state.out.is_empty());
    }
}
