//! One generator thread: a single-threaded runtime and the users that live on it.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use unstall_results::record::OpenBlock;
use unstall_scenarios::plan::Plan;
use unstall_scenarios::scope::Scope;

use super::dispatch::{Dispatcher, FreeUsers, Lane, Lobby};
use super::hosts::Hosts;
use super::liveness::Liveness;
use super::progress::Progress;
use super::schedule::Schedule;
use super::series::SharedSeries;
use super::stop::{Stop, Urgency};
use super::tally::{FinishedTally, Tally, thread_cpu};
use super::turns;
use super::under_way::TimesAsked;
use super::user::{Measured, Share, Shared, User, UserEvent, Values, Watch};
use super::{Amount, BlockSpec, LoadModel};

/// What one thread is told.
pub(super) struct Job {
    pub(super) plan: Arc<Plan>,
    pub(super) hosts: Arc<Hosts>,
    pub(super) spec: BlockSpec,
    pub(super) users: Range<u32>,
    /// Which of the generator's threads this is.
    pub(super) lane: Lane,
    /// In the open model: who is free on any of them, and when arrivals are due.
    pub(super) free_users: FreeUsers,
    pub(super) schedule: Option<Schedule>,
    pub(super) run_values: Values,
    /// The user's.
    pub(super) stop: Stop,
    /// The engine's own, when another part of the block has failed.
    pub(super) cancel: Stop,
    pub(super) progress: Arc<Progress>,
    pub(super) series: Arc<SharedSeries>,
    pub(super) liveness: Arc<Liveness>,
    pub(super) times: Arc<TimesAsked>,
    pub(super) go: watch::Receiver<Option<Instant>>,
}

/// What one thread has seen.
pub(super) struct Finished {
    pub(super) tally: FinishedTally,
    /// CPU of this thread since the barrier.
    pub(super) cpu: Duration,
    /// Time since the barrier.
    pub(super) wall: Duration,
    /// What became of this thread's arrivals, in the open model.
    pub(super) open: Option<OpenBlock>,
    /// Arrivals that had to wait although a user was free on another thread.
    pub(super) missed_with_users_free: u64,
}

/// Runs this on a runtime of its own, on this thread: its tasks need no `Send`.
///
/// # Errors
/// No runtime can be started.
pub(super) fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    Ok(finish(runtime(&mut builder())?, future))
}

/// Runs the thread's part of the block to its end.
pub(super) fn run(job: Job, events: mpsc::Sender<UserEvent>) -> io::Result<Finished> {
    let mut builder = builder();
    if job.plan.has_stream() {
        turns::begin();
        turns::watch(&mut builder);
    }
    finish(runtime(&mut builder)?, root(job, events))
}

fn builder() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    builder
}

fn runtime(builder: &mut Builder) -> io::Result<LocalRuntime> {
    builder.build_local(LocalOptions::default())
}

/// A name that is still being looked up at the end can't be called back, and nobody waits for it: a
/// runtime that is only dropped would, for as long as the name server takes.
fn finish<F: Future>(runtime: LocalRuntime, future: F) -> F::Output {
    let output = runtime.block_on(future);
    runtime.shutdown_background();
    output
}

async fn root(job: Job, events: mpsc::Sender<UserEvent>) -> io::Result<Finished> {
    let shared = Rc::new(Shared {
        plan: Arc::clone(&job.plan),
        hosts: Arc::clone(&job.hosts),
        series: Arc::clone(&job.series),
        progress: Arc::clone(&job.progress),
        liveness: Arc::clone(&job.liveness),
        times: Arc::clone(&job.times),
        measured: RefCell::new(None),
        closing: Cell::new(false),
        closed: Notify::new(),
    });
    let lobby = Rc::new(Lobby::new(&job.free_users));
    let (mut users, watches) = start_users(&job, &shared, &lobby, &events);
    let begun = match dispatcher(&job, &shared, &lobby) {
        None => {
            // Only the users tell: when they are gone, the listener must learn it.
            drop(events);
            closed_load(&job, &shared, &mut users).await
        }
        Some(dispatcher) => open_load(&job, &dispatcher, events).await?,
    };
    abort(&users);
    let now = Instant::now();
    let measured = shared.measured.borrow_mut().take();
    let Measured {
        mut tally,
        cpu_before,
    } = measured.unwrap_or_else(|| Measured::begin(&job.plan, now, &job.times));
    for watch in watches {
        if let Some(request) = watch.in_flight.get() {
            tally.censored(request.endpoint, request.due, &watch.stamps, now);
        }
    }
    let open = job.schedule.is_some().then(|| {
        let counts = lobby.counts();
        give_up_waiting(&job, &lobby, &mut tally, now);
        counts
    });
    if open.is_some() {
        propagate_panics(&mut users).await;
    }
    Ok(Finished {
        tally: tally.finish(&job.series),
        cpu: thread_cpu().saturating_sub(cpu_before),
        wall: begun.map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun)),
        open,
        missed_with_users_free: lobby.missed_with_users_free(),
    })
}

/// Counts the arrivals that nobody served, each for the request that it would have sent first: what
/// is drawn hangs on the arrival, whichever user would have served it.
fn give_up_waiting(job: &Job, lobby: &Lobby, tally: &mut Tally, now: Instant) {
    let plan = &job.plan;
    let mut scope = Scope::new(Arc::clone(plan), 0, job.spec.load.users(), job.spec.seed);
    for arrival in lobby.give_up_waiting().filter(|one| one.is_measured) {
        scope.begin_arrival(arrival.index);
        // A scenario has a request, and each group of alternatives sends one.
        let first = (0..plan.requests.len()).find(|request| scope.takes(*request));
        let first = first.unwrap_or(0);
        let timeout = plan.requests[first].timeout;
        tally.unserved(first, arrival.intended, timeout, now, &job.series);
    }
}

/// Waits for the barrier and for the users' end, or for whatever ends them before.
async fn closed_load(
    job: &Job,
    shared: &Rc<Shared>,
    users: &mut [JoinHandle<()>],
) -> Option<Instant> {
    let begun = tokio::select! {
        begun = barrier(&job.go) => begun,
        () = wind_down(job, None, shared) => None,
    }?;
    shared.begin(begun);
    tokio::select! {
        () = all_ended(users) => {}
        () = wind_down(job, Some(begun), shared) => {}
    }
    Some(begun)
}

/// The same where arrivals come at their own times.
async fn open_load(
    job: &Job,
    dispatcher: &Dispatcher,
    events: mpsc::Sender<UserEvent>,
) -> io::Result<Option<Instant>> {
    let shared = &dispatcher.shared;
    let ready = async {
        dispatcher.warm_up(job.spec.warmup).await?;
        // Nobody listens only when the block is being torn down already.
        let _ = events.send(UserEvent::Warm(dispatcher.users));
        drop(events);
        io::Result::Ok(barrier(&job.go).await)
    };
    let begun = tokio::select! {
        ready = ready => ready?,
        () = wind_down(job, None, shared) => None,
    };
    let (Some(begun), Some(schedule)) = (begun, &job.schedule) else {
        return Ok(None);
    };
    shared.begin(begun);
    tokio::select! {
        measured = dispatcher.measure(schedule, begun) => measured?,
        () = wind_down(job, Some(begun), shared) => {}
    }
    Ok(Some(begun))
}

fn dispatcher(job: &Job, shared: &Rc<Shared>, lobby: &Rc<Lobby>) -> Option<Dispatcher> {
    let LoadModel::Open(load) = &job.spec.load else {
        return None;
    };
    Some(Dispatcher {
        shared: Rc::clone(shared),
        lobby: Rc::clone(lobby),
        load: load.clone(),
        lane: job.lane,
        users: job.users.end - job.users.start,
        seed: job.spec.seed,
        grace: job.spec.grace,
    })
}

/// The users' tasks, and what shows their requests in flight.
fn start_users(
    job: &Job,
    shared: &Rc<Shared>,
    lobby: &Rc<Lobby>,
    events: &mpsc::Sender<UserEvent>,
) -> (Vec<JoinHandle<()>>, Vec<Watch>) {
    job.users
        .clone()
        .map(|index| {
            let watch = Watch::default();
            let user = User::new(
                Rc::clone(shared),
                share(&job.spec, index),
                job.run_values.clone(),
                watch.clone(),
            );
            let task = match &job.spec.load {
                LoadModel::Closed { .. } => {
                    tokio::task::spawn_local(user.run(events.clone(), job.go.clone()))
                }
                LoadModel::Open(_) => {
                    tokio::task::spawn_local(user.serve(events.clone(), Rc::clone(lobby)))
                }
            };
            (task, watch)
        })
        .unzip()
}

/// The fixed number is shared out evenly; the first users take what is left over.
fn share(spec: &BlockSpec, user: u32) -> Share {
    let users = spec.load.users();
    let rounds = match spec.load {
        LoadModel::Closed {
            amount: Amount::PerEndpoint(requests),
            ..
        } => {
            let all = u64::from(users);
            Some(requests / all + u64::from(u64::from(user) < requests % all))
        }
        _ => None,
    };
    Share {
        user,
        users,
        rounds,
        warmup: spec.warmup,
        seed: spec.seed,
    }
}

async fn barrier(go: &watch::Receiver<Option<Instant>>) -> Option<Instant> {
    let mut go = go.clone();
    // An error means that the block was given up before its barrier.
    go.wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|begun| *begun)
}

async fn all_ended(users: &mut [JoinHandle<()>]) {
    for user in users {
        if let Err(error) = user.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

/// A user that panicked has ended already; the others were told to end.
async fn propagate_panics(users: &mut [JoinHandle<()>]) {
    for user in users.iter_mut().filter(|user| user.is_finished()) {
        if let Err(error) = user.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

fn abort(users: &[JoinHandle<()>]) {
    for user in users {
        user.abort();
    }
}

/// Returns when whatever is in flight is to be dropped.
async fn wind_down(job: &Job, begun: Option<Instant>, shared: &Shared) {
    tokio::select! {
        () = job.stop.reached(Urgency::WindDown) => {}
        () = job.cancel.reached(Urgency::WindDown) => return shared.close(),
        () = job.liveness.given_up(), if begun.is_some() => {}
        () = end_of_time(&job.spec, begun) => {}
    }
    shared.close();
    tokio::select! {
        () = tokio::time::sleep(job.spec.grace) => {}
        () = job.stop.reached(Urgency::AtOnce) => {}
        () = job.cancel.reached(Urgency::WindDown) => {}
    }
}

async fn end_of_time(spec: &BlockSpec, begun: Option<Instant>) {
    match (&spec.load, begun) {
        (
            LoadModel::Closed {
                amount: Amount::For(duration),
                ..
            },
            Some(begun),
        ) => {
            tokio::time::sleep_until((begun + *duration).into()).await;
        }
        _ => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn shares_add_up_to_the_number(requests in 1_u64..5_000, level in 1_u32..200) {
            let spec = BlockSpec::closed(level, Amount::PerEndpoint(requests));
            let shares: Vec<u64> = (0..level)
                .map(|user| share(&spec, user).rounds.expect("a number was asked for"))
                .collect();
            proptest::prop_assert_eq!(shares.iter().sum::<u64>(), requests);
            let (least, most) = (shares.iter().min(), shares.iter().max());
            proptest::prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
        }
    }
}
