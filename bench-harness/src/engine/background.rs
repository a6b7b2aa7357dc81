//! Users who hold streams open beside the load: on a thread of their own, in no count of the load.
//!
//! They begin when the load's users stand at the barrier, so that what opening their streams costs
//! the service is in no counter of the block. The barrier opens when each of them has opened its
//! stream, or when none has come further for a while: a service that can't take more of them is what
//! such a scenario is there to show. From then on this thread has nothing to do but to read what
//! comes, and the streams stay open until whoever measures has read the service's counters again.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc as queue;
use unstall_results::record::BackgroundSamples;
use unstall_scenarios::plan;
use unstall_scenarios::scope::Scope;

use super::error::EngineError;
use super::exchange::Client;
use super::failure::{Cause, Failure};
use super::generator;
use super::hosts::Hosts;
use super::prepared::{Place, Prepared};
use super::stamps::SocketStamps;
use super::stop::Stop;
use super::user::{self, Values};

/// Between the first requests of two users: a service that is asked by all at once refuses some.
const BEGIN_APART: Duration = Duration::from_millis(1);
/// Between two looks at how many streams are open; none is taken once the load has begun.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// When nobody has come further for so long, no more streams will open.
const STANDSTILL: Duration = Duration::from_secs(2);
/// After a failure, before the same user tries again; it doubles with each, up to the second.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// What the background's thread is told.
pub(super) struct Job {
    pub(super) users: u32,
    /// What each of them sends.
    pub(super) plan: Arc<plan::Plan>,
    pub(super) hosts: Arc<Hosts>,
    /// What the setup requests of the run have brought.
    pub(super) run_values: Values,
    pub(super) seed: u64,
    pub(super) stop: Stop,
}

/// Who asks how many streams are open, by the way back.
type Question = mpsc::Sender<BackgroundSamples>;

/// Users who hold streams open. Dropped, they hang up.
#[derive(Debug)]
pub(super) struct Background {
    /// `None` once it is being dropped.
    questions: Option<queue::UnboundedSender<Question>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Keeps a block's background as it is, until this and its clones are dropped.
#[derive(Debug, Clone)]
pub struct Held {
    _background: Arc<Background>,
}

impl Held {
    pub(super) fn new(background: Background) -> Self {
        Self {
            _background: Arc::new(background),
        }
    }
}

impl Background {
    /// Opens the streams, and returns when no more of them will open.
    ///
    /// # Errors
    /// No thread or runtime can be started.
    pub(super) fn start(job: Job) -> Result<Self, EngineError> {
        let (questions, asked) = queue::unbounded_channel();
        let (opened, is_opened) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("background".to_owned())
            .spawn(move || generator::block_on(job.run(&opened, asked)))
            .map_err(EngineError::Start)?;
        let mut background = Self {
            questions: Some(questions),
            thread: Some(thread),
        };
        match is_opened.recv() {
            Ok(()) => Ok(background),
            Err(mpsc::RecvError) => Err(background.fault()),
        }
    }

    /// What has become of it by now.
    ///
    /// # Errors
    /// Its thread has failed.
    pub(super) fn look(&mut self) -> Result<BackgroundSamples, EngineError> {
        let (answer, samples) = mpsc::channel();
        let is_asked = self.questions.as_ref().map(|asked| asked.send(answer));
        match (is_asked, samples.recv()) {
            (Some(Ok(())), Ok(samples)) => Ok(samples),
            _ => Err(self.fault()),
        }
    }

    /// Why its thread is gone, which it is not by itself.
    fn fault(&mut self) -> EngineError {
        self.questions = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => EngineError::panicked(panic.as_ref()),
            Some(Ok(Err(error))) => EngineError::Start(error),
            Some(Ok(Ok(()))) | None => {
                EngineError::Panicked("the background ended by itself".to_owned())
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.questions = None;
        if let Some(thread) = self.thread.take() {
            // What it saw has been asked for, or nobody wants to know.
            let _ = thread.join();
        }
    }
}

impl Job {
    async fn run(self, opened: &mpsc::Sender<()>, mut asked: queue::UnboundedReceiver<Question>) {
        let seen = Rc::new(RefCell::new(BackgroundSamples::default()));
        let holders: Vec<Watch> = (0..self.users)
            .map(|index| {
                let holder = Holder::new(&self, index, &seen);
                let watch = holder.watch.clone();
                tokio::task::spawn_local(holder.hold());
                watch
            })
            .collect();
        self.until_open(&holders).await;
        let open_at_begin = open(&holders);
        // Nobody listens only when the block is being torn down already.
        let _ = opened.send(());
        while let Some(answer) = asked.recv().await {
            let samples = BackgroundSamples {
                users: self.users,
                open_at_begin,
                open_at_end: open(&holders),
                ..seen.borrow().clone()
            };
            // Whoever asked waits for it, or has gone with the block.
            let _ = answer.send(samples);
        }
    }

    /// Returns when everybody has opened a stream, when nobody comes further, or when nothing is
    /// to be measured any more.
    async fn until_open(&self, holders: &[Watch]) {
        let begun = Instant::now();
        // Those who begin last must have had their turn, too.
        let all_begun = begun + BEGIN_APART * self.users;
        let (mut furthest, mut moved) = (0, all_begun);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = Instant::now();
            let reached: usize = holders.iter().map(Watch::look).sum();
            if reached > furthest {
                (furthest, moved) = (reached, moved.max(now));
            }
            if holders.iter().all(Watch::has_opened)
                || now.saturating_duration_since(moved) >= STANDSTILL
                || self.stop.is_requested()
            {
                return;
            }
        }
    }
}

/// Users whose stream is open now.
fn open(holders: &[Watch]) -> u32 {
    holders.iter().map(|watch| u32::from(watch.is_open())).sum()
}

/// What shows how far a user has come; the thread keeps the other end.
#[derive(Debug, Clone, Default)]
struct Watch {
    /// Requests of a pass that have been answered, the most so far.
    answered: Rc<Cell<usize>>,
    has_opened: Rc<Cell<bool>>,
    is_streaming: Rc<Cell<bool>>,
    stamps: SocketStamps,
}

impl Watch {
    /// Its first meaningful item has come, and its end hasn't.
    fn is_open(&self) -> bool {
        self.is_streaming.get() && self.stamps.reads.first_meaningful().is_some()
    }

    /// One of its streams has been open.
    fn has_opened(&self) -> bool {
        self.has_opened.get()
    }

    /// How far it has come, which never falls.
    fn look(&self) -> usize {
        if self.is_open() {
            self.has_opened.set(true);
        }
        self.answered.get() + usize::from(self.has_opened())
    }

    fn answered(&self, index: usize, is_stream: bool) {
        self.answered.set(self.answered.get().max(index + 1));
        self.has_opened.set(self.has_opened() || is_stream);
    }
}

/// One user of the background.
struct Holder {
    client: Client,
    scope: Scope,
    requests: Vec<Prepared>,
    watch: Watch,
    seen: Rc<RefCell<BackgroundSamples>>,
    begins_after: Duration,
}

impl Holder {
    fn new(job: &Job, index: u32, seen: &Rc<RefCell<BackgroundSamples>>) -> Self {
        let watch = Watch::default();
        let mut scope = Scope::new(Arc::clone(&job.plan), index, job.users, job.seed);
        scope.prepare(job.run_values.clone());
        let requests = 0..job.plan.requests.len();
        Self {
            client: Client::of_user(&job.hosts, &job.plan.client, watch.stamps.clone()),
            scope,
            requests: requests
                .map(|request| Prepared::new(&job.plan, Place::Measured(request), &job.hosts))
                .collect(),
            watch,
            seen: Rc::clone(seen),
            begins_after: BEGIN_APART * index,
        }
    }

    /// Goes through the requests again and again, until its task is dropped.
    async fn hold(mut self) {
        tokio::time::sleep(self.begins_after).await;
        let mut back_off = BACK_OFF_MIN;
        for iteration in 0.. {
            self.scope.begin_iteration(iteration);
            if self.pass().await {
                back_off = BACK_OFF_MIN;
            } else {
                tokio::time::sleep(back_off).await;
                back_off = (back_off * 2).min(BACK_OFF_MAX);
            }
            self.client.end_iteration();
        }
    }

    /// One pass through the requests, ended by the first failure; true if there was none.
    async fn pass(&mut self) -> bool {
        for index in 0..self.requests.len() {
            if !self.scope.takes(index) {
                continue;
            }
            let request = &mut self.requests[index];
            let is_stream = request.stream_times().is_some();
            self.watch.is_streaming.set(is_stream);
            let now = Instant::now();
            let (_, outcome) = user::perform(request, &mut self.client, &mut self.scope, now).await;
            self.watch.is_streaming.set(false);
            if let Err(failure) = outcome {
                failed(&mut self.seen.borrow_mut(), &failure);
                return false;
            }
            self.watch.answered(index, is_stream);
            self.seen.borrow_mut().ended += u64::from(is_stream);
            let pause = self.scope.think(index);
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        true
    }
}

fn failed(seen: &mut BackgroundSamples, failure: &Failure) {
    match failure.cause {
        Cause::Service(kind) => *seen.errors.entry(kind).or_default() += 1,
        Cause::Local(fault) => *seen.local_faults.entry(fault).or_default() += 1,
    }
}
