//! One user: setup, warm-up, barrier, then its share of the requests; or, in the open model, the
//! arrivals that find it free.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use unstall_results::record::ErrorKind;
use unstall_scenarios::plan::{Per, Plan, Quotes};
use unstall_scenarios::scope::Scope;

use super::answer::BodySize;
use super::dispatch::{Arrival, Lobby, Seat};
use super::exchange::{Client, Stamps};
use super::failure::{Cause, Failure};
use super::hosts::Hosts;
use super::liveness::Liveness;
use super::prepared::{Place, Prepared};
use super::progress::Progress;
use super::series::SharedSeries;
use super::stamps::SocketStamps;
use super::tally::{Due, Tally, thread_cpu};
use super::under_way::TimesAsked;
use super::{SetupFailure, Warmup};

/// Waiting after a request that was never sent grows from the first to the second: a
/// dead service must not make the generator spin.
const BACK_OFF_MIN: Duration = Duration::from_millis(1);
const BACK_OFF_MAX: Duration = Duration::from_millis(100);

/// After so many arrivals that had waited, others get their turn: those that are dropped because
/// they waited for too long, or refused, end without any wait, and there may be a million of them.
const OVERDUE_IN_A_ROW_MAX: u32 = 32;

/// Warm-up counts its iterations from here, measured ones from 0: how many fit into a warm-up
/// depends on the version's speed, and both versions must be asked for the same rows.
const WARM_UP_ITERATIONS: u64 = 1 << 32;

/// What all users of one thread share; no lock, they take turns.
pub(super) struct Shared {
    pub(super) plan: Arc<Plan>,
    pub(super) hosts: Arc<Hosts>,
    pub(super) series: Arc<SharedSeries>,
    pub(super) progress: Arc<Progress>,
    pub(super) liveness: Arc<Liveness>,
    pub(super) times: Arc<TimesAsked>,
    /// `None` before the barrier.
    pub(super) measured: RefCell<Option<Measured>>,
    /// True when nothing more is to be sent.
    pub(super) closing: Cell<bool>,
    pub(super) closed: Notify,
}

impl Shared {
    /// Ends the sending; users that sleep wake up.
    pub(super) fn close(&self) {
        self.closing.set(true);
        self.closed.notify_waiters();
    }

    /// Sleeps until `moment` or until nothing more is to be sent.
    async fn sleep_until(&self, moment: Instant) {
        let closed = self.closed.notified();
        if self.closing.get() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(moment.into()) => {}
            () = closed => {}
        }
    }

    /// The barrier was passed; whoever notices first begins the counting.
    pub(super) fn begin(&self, begun: Instant) {
        self.measured
            .borrow_mut()
            .get_or_insert_with(|| Measured::begin(&self.plan, begun, &self.times));
    }

    /// An arrival was noticed, and nobody is free to serve it.
    pub(super) fn noticed(&self, intended: Instant, now: Instant) {
        self.with_tally(|tally| tally.noticed(intended, now));
    }

    /// The block lasts until `end` at least.
    pub(super) fn lasts_until(&self, end: Instant) {
        self.with_tally(|tally| tally.last_end = tally.last_end.max(Some(end)));
    }

    fn with_tally(&self, act: impl FnOnce(&mut Tally)) {
        if let Some(measured) = self.measured.borrow_mut().as_mut() {
            act(&mut measured.tally);
        }
    }
}

/// What a thread keeps from the barrier on.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) tally: Tally,
    pub(super) cpu_before: Duration,
}

impl Measured {
    pub(super) fn begin(plan: &Plan, begun: Instant, times: &TimesAsked) -> Self {
        Self {
            tally: Tally::new(plan, begun, times.of_thread(begun)),
            cpu_before: thread_cpu(),
        }
    }
}

/// A request that is out, for the case that the block ends before it does.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    pub(super) endpoint: usize,
    pub(super) due: Due,
}

/// A user's slot for it, and its socket's stamps; the thread keeps both ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch {
    pub(super) in_flight: Rc<Cell<Option<InFlight>>>,
    pub(super) stamps: SocketStamps,
}

/// What users tell the thread that waits for all of them.
pub(super) enum UserEvent {
    /// So many more are warm.
    Warm(u32),
    SetupFailed(SetupFailure),
}

/// A user's part of the work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) user: u32,
    pub(super) users: u32,
    /// `None`: until the block ends by time; of no meaning in the open model.
    pub(super) rounds: Option<u64>,
    pub(super) warmup: Warmup,
    pub(super) seed: u64,
}

/// One user.
pub(super) struct User {
    shared: Rc<Shared>,
    share: Share,
    client: Client,
    scope: Scope,
    requests: Vec<Prepared>,
    watch: Watch,
    iteration: u64,
    back_off: Option<Duration>,
}

impl User {
    /// `run_values` is what the setup requests of the whole run have brought.
    pub(super) fn new(shared: Rc<Shared>, share: Share, run_values: Values, watch: Watch) -> Self {
        let plan = &shared.plan;
        let mut scope = Scope::new(Arc::clone(plan), share.user, share.users, share.seed);
        scope.prepare(run_values);
        let requests = (0..plan.requests.len())
            .map(|index| Prepared::new(plan, Place::Measured(index), &shared.hosts))
            .collect();
        Self {
            client: Client::of_user(&shared.hosts, &plan.client, watch.stamps.clone()),
            shared,
            share,
            scope,
            requests,
            watch,
            iteration: WARM_UP_ITERATIONS,
            back_off: None,
        }
    }

    /// Runs until the share is done or the sending has ended.
    pub(super) async fn run(
        mut self,
        events: mpsc::Sender<UserEvent>,
        mut go: watch::Receiver<Option<Instant>>,
    ) {
        if !self.set_up(&events).await {
            return;
        }
        self.warm_up().await;
        // Nobody listens only when the block is being torn down already.
        let _ = events.send(UserEvent::Warm(1));
        drop(events);
        let Ok(barrier) = go.wait_for(Option::is_some).await.map(|begun| *begun) else {
            return;
        };
        if let Some(begun) = barrier {
            self.measure(begun).await;
        }
    }

    /// Runs until the sending has ended: serves one arrival after the other.
    pub(super) async fn serve(mut self, events: mpsc::Sender<UserEvent>, lobby: Rc<Lobby>) {
        if !self.set_up(&events).await {
            return;
        }
        drop(events);
        let seat = Rc::new(Seat::default());
        let mut overdue_in_a_row = 0;
        while !self.shared.closing.get() {
            let arrival = lobby.next(&seat).await;
            self.pass(&arrival).await;
            self.client.end_iteration();
            lobby.ended(&arrival);
            overdue_in_a_row = if arrival.has_waited {
                overdue_in_a_row + 1
            } else {
                0
            };
            if overdue_in_a_row == OVERDUE_IN_A_ROW_MAX {
                overdue_in_a_row = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    /// The setup requests of this user; false if one failed.
    async fn set_up(&mut self, events: &mpsc::Sender<UserEvent>) -> bool {
        let plan = Arc::clone(&self.shared.plan);
        let hosts = Arc::clone(&self.shared.hosts);
        let setup = run_setup(&plan, &hosts, Per::User, &mut self.client, &mut self.scope);
        let Err(failure) = setup.await else {
            self.client.end_iteration();
            return true;
        };
        // Nobody listens only when the block is being torn down already.
        let _ = events.send(UserEvent::SetupFailed(failure));
        false
    }

    /// One pass through the scenario's requests for an arrival.
    async fn pass(&mut self, arrival: &Arrival) {
        let turn = if arrival.is_measured {
            arrival.index
        } else {
            WARM_UP_ITERATIONS + arrival.index
        };
        self.scope.begin_arrival(turn);
        let mut due = Due {
            intended: arrival.intended,
            is_noticed: arrival.has_waited,
        };
        let taken = |endpoint: &usize| self.scope.takes(*endpoint);
        let mut endpoints = 0..self.requests.len();
        // A scenario has a request, and each group of alternatives sends one.
        let Some(first) = endpoints.clone().find(taken) else {
            return;
        };
        let last = endpoints.rfind(taken).unwrap_or(first);
        let timeout = self.requests[first].request().timeout;
        let now = Instant::now();
        if arrival.has_waited && now.saturating_duration_since(due.intended) >= timeout {
            // Sent now, it could only be cut off.
            if arrival.is_measured {
                let series = &self.shared.series;
                self.shared.progress.begun();
                self.shared
                    .with_tally(|tally| tally.unserved(first, due.intended, timeout, now, series));
                self.shared.progress.ended(true);
            }
            return;
        }
        for endpoint in first..=last {
            if !self.scope.takes(endpoint) {
                continue;
            }
            // The first one was let go; what follows from it is not sent once all is over.
            if endpoint > first && self.shared.closing.get() {
                return;
            }
            let (stamps, outcome) = if arrival.is_measured {
                self.measured(endpoint, due).await
            } else {
                self.request(endpoint, due.intended).await
            };
            if endpoint < last {
                due = Due::at(self.pause(endpoint, &stamps, &outcome).await);
            }
        }
    }

    async fn warm_up(&mut self) {
        let begun = Instant::now();
        let warmup = self.share.warmup;
        let mut rounds = 0;
        let mut intended = begun;
        while rounds < warmup.rounds_per_user || begun.elapsed() < warmup.lasting_at_least {
            self.scope.begin_iteration(self.iteration);
            self.iteration += 1;
            rounds += 1;
            for endpoint in 0..self.requests.len() {
                if !self.scope.takes(endpoint) {
                    continue;
                }
                if self.shared.closing.get() || self.shared.liveness.has_given_up() {
                    return;
                }
                let (stamps, outcome) = self.request(endpoint, intended).await;
                intended = self.pause(endpoint, &stamps, &outcome).await;
            }
            self.client.end_iteration();
        }
    }

    async fn measure(&mut self, begun: Instant) {
        self.shared.begin(begun);
        self.iteration = 0;
        let mut intended = begun;
        let mut rounds = 0;
        while self.share.rounds.is_none_or(|all| rounds < all) {
            self.scope.begin_iteration(self.iteration);
            self.iteration += 1;
            rounds += 1;
            for endpoint in 0..self.requests.len() {
                if !self.scope.takes(endpoint) {
                    continue;
                }
                if self.shared.closing.get() {
                    return;
                }
                let (stamps, outcome) = self.measured(endpoint, Due::at(intended)).await;
                intended = self.pause(endpoint, &stamps, &outcome).await;
            }
            self.client.end_iteration();
        }
    }

    /// Sends one request and counts it.
    async fn measured(&mut self, endpoint: usize, due: Due) -> (Stamps, Result<BodySize, Failure>) {
        self.watch.in_flight.set(Some(InFlight { endpoint, due }));
        self.shared.progress.begun();
        let (stamps, outcome) = self.request(endpoint, due.intended).await;
        self.watch.in_flight.set(None);
        let stream = self.requests[endpoint].stream_times();
        self.shared.with_tally(|tally| {
            let series = &self.shared.series;
            tally.count(endpoint, due, &stamps, &outcome, stream, series);
        });
        self.shared.progress.ended(outcome.is_err());
        (stamps, outcome)
    }

    /// Sends one request; `Ok` carries the sizes of the accepted body.
    async fn request(
        &mut self,
        endpoint: usize,
        intended: Instant,
    ) -> (Stamps, Result<BodySize, Failure>) {
        let prepared = &mut self.requests[endpoint];
        let (stamps, accepted) =
            perform(prepared, &mut self.client, &mut self.scope, intended).await;
        if stamps.answered {
            self.shared.liveness.answered();
        } else if matches!(&accepted, Err(failure) if is_silence(failure)) {
            self.shared.liveness.unanswered(stamps.ended);
        }
        (stamps, accepted.map(|()| self.client.answer().size()))
    }

    /// The think time, or a back-off; returns when the next request is intended.
    async fn pause(
        &mut self,
        endpoint: usize,
        stamps: &Stamps,
        outcome: &Result<BodySize, Failure>,
    ) -> Instant {
        let ended = stamps.ended;
        let mut next = ended + self.scope.think(endpoint);
        // Nothing was written: no connection, or a request that can't be built. It came at once,
        // and without a pause the next one would too; a user that never waits would even keep its
        // thread from noticing that the block is over.
        let nothing_sent = outcome.is_err() && stamps.written.is_none();
        self.back_off = nothing_sent.then(|| {
            self.back_off
                .map_or(BACK_OFF_MIN, |last| (last * 2).min(BACK_OFF_MAX))
        });
        if let Some(back_off) = self.back_off {
            next = next.max(ended + back_off);
        }
        if next > ended {
            self.shared.sleep_until(next).await;
        }
        next
    }
}

/// No answer, and that is the service's doing.
fn is_silence(failure: &Failure) -> bool {
    match failure.cause {
        Cause::Service(kind) => !matches!(
            kind,
            ErrorKind::Status | ErrorKind::CheckFailed | ErrorKind::Decode
        ),
        // It was not even asked.
        Cause::Local(_) => false,
    }
}

/// Values that answers have brought.
pub(super) type Values = std::collections::BTreeMap<String, serde_json::Value>;

/// Builds, sends and checks one request.
pub(super) async fn perform(
    prepared: &mut Prepared,
    client: &mut Client,
    scope: &mut Scope,
    intended: Instant,
) -> (Stamps, Result<(), Failure>) {
    let built = prepared.build(scope);
    if let Err(failure) = built.and_then(|()| client.dress(prepared.parts().0)) {
        client.forget_answer();
        let failure = without_secrets(failure, scope);
        return (Stamps::unsent(Instant::now()), Err(failure));
    }
    let timeout = prepared.request().timeout;
    let (wire, reading) = prepared.parts();
    let (stamps, outcome) = client.exchange(wire, reading, intended, timeout).await;
    // Before anything is said about the answer.
    scope.hide(client.take_new_secrets());
    let accepted = outcome
        .map_err(|failure| without_secrets(failure, scope))
        .and_then(|()| prepared.accept(client.answer(), scope));
    (stamps, accepted)
}

/// A failure of the exchange may name paths and header values, and those may hold what only this
/// user knows. What is said of an accepted answer is redacted where it is said.
fn without_secrets(failure: Failure, scope: &Scope) -> Failure {
    Failure {
        message: scope.redact(&failure.message).into_owned(),
        ..failure
    }
}

/// Runs the setup requests of one kind.
pub(super) async fn run_setup(
    plan: &Arc<Plan>,
    hosts: &Hosts,
    per: Per,
    client: &mut Client,
    scope: &mut Scope,
) -> Result<(), SetupFailure> {
    for (index, setup) in plan.setup.iter().enumerate() {
        if setup.per != per || scope.skips(setup) {
            continue;
        }
        let mut prepared = Prepared::new(plan, Place::Setup(index), hosts);
        let (_, accepted) = perform(&mut prepared, client, scope, Instant::now()).await;
        if let Err(failure) = accepted {
            // It may hold the secret that was to be taken from it, and that nobody knows now.
            let is_quotable = setup.request.expect.quotes != Quotes::Never;
            let quoted: &[u8] = if is_quotable {
                &client.answer().body
            } else {
                &[]
            };
            let body = String::from_utf8_lossy(quoted);
            return Err(SetupFailure {
                request: format!("{} {}", setup.request.method, setup.request.name),
                reason: failure.message,
                // Redacted before it is cut: half a secret would slip through.
                answer: excerpt(&scope.redact(&body)),
            });
        }
    }
    Ok(())
}

/// The beginning of an answer, for people.
fn excerpt(body: &str) -> String {
    const CHARS_MAX: usize = 500;
    // What would steer a terminal instead of being read becomes a blank.
    let readable = |letter: char| if letter.is_control() { ' ' } else { letter };
    body.chars().take(CHARS_MAX).map(readable).collect()
}
