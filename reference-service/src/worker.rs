//! The agent worker: takes runs from Redis and answers them, many at once on one thread, and keeps
//! their history on a second one.
//!
//! It stands for the process of the original that runs agents, beside the service: nothing of
//! it is ever on the loop that is measured, and it is the same in every state.
//!
//! What it takes stays known to Redis until it has ended (`takings`). A worker that is told to end
//! stores what its runs have said and tells their readers; of one that is killed the next finds
//! both the runs and, in their streams, what they have said.

use std::io;
use std::time::Duration;

use fred::clients::Client;
use thiserror::Error;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::agent::Agent;
use self::cancellations::Cancellations;
use self::journal::Journal;
use self::pace::Pace;
use self::publisher::Publisher;
use self::takings::{BEAT_EVERY, Taken, Takings};
use crate::variants::ConnectError;
use crate::variants::asynchronous::redis;

pub mod agent;
pub mod answer;
pub mod cancellations;
pub mod journal;
pub mod pace;
pub mod publisher;
pub mod takings;

/// Runs that are answered at once; further ones wait in Redis. Most of so many think, which costs
/// next to nothing.
const RUNS_MAX: usize = 5000;
/// How long one look into an empty queue waits, in seconds. An idle worker ends this late.
const TAKE_WAIT_S: f64 = 0.2;
/// Pause before the next look while Redis can't be reached.
const TAKE_PAUSE: Duration = Duration::from_millis(100);
/// How long the last look may take: its wait, a pause, and as much again for a slow Redis.
const LAST_TAKE: Duration = Duration::from_millis(600);
/// How long runs in flight may take to store what they have said and to tell their readers that
/// this worker ends. With the above less than the 3 s that a testbed gives it; what isn't done by
/// then is the next worker's.
const GOODBYE: Duration = Duration::from_millis(1600);

/// How to answer, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// `postgres://…`
    pub database_url: String,
    /// `redis://…`
    pub redis_url: String,
    /// When the pieces of an answer come.
    pub pace: Pace,
    /// Pieces of each answer; `None` for as many as it has words.
    pub chunks: Option<usize>,
}

/// Why the worker doesn't work.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// No runtime.
    #[error("can't start the runtime: {0}")]
    Runtime(#[source] io::Error),
    /// No thread for the messages.
    #[error("can't start the journal's thread: {0}")]
    Thread(#[source] io::Error),
    /// A server is missing.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The system's signals can't be watched.
    #[error("can't watch for signals: {0}")]
    Signals(#[source] io::Error),
}

/// Works until TERM or INT. Runs in flight then end with an error, so that nobody waits for
/// them.
///
/// # Errors
/// [`WorkerError`]
pub fn run(options: &Options) -> Result<(), WorkerError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(WorkerError::Runtime)?;
    let worked = runtime.block_on(work(options));
    runtime.shutdown_background();
    worked
}

async fn work(options: &Options) -> Result<(), WorkerError> {
    let journal = Journal::open(&options.database_url).await?;
    let client = redis::connect(&options.redis_url).await?;
    // Waiting for a task holds a connection.
    let queue = redis::connect(&options.redis_url).await?;
    let (stop, stopped) = watch::channel(false);
    let takings = Takings::new(client.clone());
    let agent = Agent {
        publisher: Publisher::new(client.clone()),
        cancellations: Cancellations::new(client),
        takings: takings.clone(),
        journal,
        pace: options.pace,
        chunks: options.chunks,
        stopped: stopped.clone(),
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(WorkerError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(WorkerError::Signals)?;
    tokio::spawn(agent.cancellations.clone().look());
    let beating = tokio::spawn(beat(takings.clone()));
    // Taking is a task of its own: dropped halfway, it would lose what it has just taken.
    let (sender, mut tasks) = mpsc::channel(1);
    let taking = tokio::spawn(take(takings.clone(), queue, sender, stopped));
    tracing::info!("taking runs");
    let mut runs = JoinSet::new();
    loop {
        tokio::select! {
            Some(run) = tasks.recv(), if runs.len() < RUNS_MAX => {
                runs.spawn(begin(agent.clone(), run));
            }
            Some(ended) = runs.join_next() => report_panic(ended),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    tracing::info!("stopping");
    stop.send_replace(true);
    // What is taken has readers that wait: they are told, too.
    let taken = async {
        while let Some(run) = tasks.recv().await {
            runs.spawn(begin(agent.clone(), run));
        }
    };
    if tokio::time::timeout(LAST_TAKE, taken).await.is_err() {
        tracing::warn!(
            "the queue doesn't answer; a run that it gave just now is the next worker's"
        );
        taking.abort();
    }
    let goodbyes = async {
        while let Some(ended) = runs.join_next().await {
            report_panic(ended);
        }
        beating.abort();
        takings.leave().await
    };
    match tokio::time::timeout(GOODBYE, goodbyes).await {
        Ok(Ok(())) => (),
        Ok(Err(error)) => tracing::warn!(%error, "can't say that this worker has ended"),
        Err(_late) => tracing::warn!("runs end without a word; they are the next worker's"),
    }
    Ok(())
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a run panicked");
    }
}

/// Signs of life, for as long as the worker has runs.
async fn beat(takings: Takings) {
    loop {
        if let Err(error) = takings.beat().await {
            tracing::debug!(%error, "no sign of life");
        }
        tokio::time::sleep(BEAT_EVERY).await;
    }
}

/// A run to begin with.
enum ToDo {
    /// From the queue.
    New(Taken),
    /// A dead worker's, or one whose taking was not heard of.
    Found(Taken),
}

async fn begin(agent: Agent, run: ToDo) {
    match run {
        ToDo::New(taken) => agent.perform(taken).await,
        ToDo::Found(taken) => agent.take_over(taken).await,
    }
}

/// Takes tasks until the worker stops, also across restarts of Redis. It is never stopped within
/// a look: the queue may have given a task already.
async fn take(
    takings: Takings,
    queue: Client,
    runs: mpsc::Sender<ToDo>,
    stopped: watch::Receiver<bool>,
) {
    let mut look = Instant::now();
    while !*stopped.borrow() {
        let found = if look <= Instant::now() {
            look = Instant::now() + BEAT_EVERY;
            let found = takings.found().await;
            found.map(|found| found.into_iter().map(ToDo::Found).collect())
        } else {
            let taken = takings.take(&queue, TAKE_WAIT_S).await;
            taken.map(|taken| Vec::from_iter(taken.map(ToDo::New)))
        };
        match found {
            Ok(found) => {
                for run in found {
                    if runs.send(run).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the queue can't be reached");
                tokio::time::sleep(TAKE_PAUSE).await;
            }
        }
    }
}
