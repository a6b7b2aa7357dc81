//! The agent worker: takes runs from Redis and answers them, many at once on one thread.
//!
//! It stands for the process of the original that runs agents, beside the service: nothing of
//! it is ever on the loop that is measured, and its own calls are awaited in every state.

use std::io;
use std::time::Duration;

use fred::clients::Client;
use fred::error::ErrorKind;
use fred::interfaces::ListInterface;
use thiserror::Error;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::agent::Agent;
use self::cancellations::Cancellations;
use self::journal::Journal;
use self::pace::Pace;
use self::publisher::Publisher;
use crate::run::{QUEUE, Task};
use crate::variants::ConnectError;
use crate::variants::asynchronous::{postgres, redis};

pub mod agent;
pub mod answer;
pub mod cancellations;
pub mod journal;
pub mod pace;
pub mod publisher;

/// Runs that are answered at once; further ones wait in Redis.
const RUNS_MAX: usize = 1000;
/// How long one look into an empty queue waits, in seconds. An idle worker ends this late.
const TAKE_WAIT_S: f64 = 0.2;
/// Pause before the next look while Redis can't be reached.
const TAKE_PAUSE: Duration = Duration::from_millis(100);
/// How long the last look may take: its wait, a pause, and as much again for a slow Redis.
const LAST_TAKE: Duration = Duration::from_millis(600);
/// How long runs in flight may take to tell their readers that this worker ends.
const GOODBYE: Duration = Duration::from_millis(800);

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
    let journal = Journal::new(postgres::pool(&options.database_url).await?);
    let client = redis::connect(&options.redis_url).await?;
    // Waiting for a task holds a connection.
    let queue = redis::connect(&options.redis_url).await?;
    let (stop, stopped) = watch::channel(false);
    let agent = Agent {
        publisher: Publisher::new(client.clone()),
        cancellations: Cancellations::new(client),
        journal,
        pace: options.pace,
        chunks: options.chunks,
        stopped: stopped.clone(),
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(WorkerError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(WorkerError::Signals)?;
    tokio::spawn(agent.cancellations.clone().look());
    // Taking is a task of its own: dropped halfway, it would lose what it has just taken.
    let (sender, mut tasks) = mpsc::channel(1);
    let taking = tokio::spawn(take(queue, sender, stopped));
    tracing::info!("taking runs");
    let mut runs = JoinSet::new();
    loop {
        tokio::select! {
            Some(task) = tasks.recv(), if runs.len() < RUNS_MAX => {
                runs.spawn(agent.clone().perform(task));
            }
            Some(ended) = runs.join_next() => report_panic(ended),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    tracing::info!("stopping");
    stop.send_replace(true);
    // What is taken is nowhere else any longer: its readers are told, too.
    let taken = async {
        while let Some(task) = tasks.recv().await {
            runs.spawn(agent.clone().perform(task));
        }
    };
    if tokio::time::timeout(LAST_TAKE, taken).await.is_err() {
        tracing::warn!("the queue doesn't answer; a run that it may have given just now is lost");
        taking.abort();
    }
    let goodbyes = async {
        while let Some(ended) = runs.join_next().await {
            report_panic(ended);
        }
    };
    if tokio::time::timeout(GOODBYE, goodbyes).await.is_err() {
        tracing::warn!("runs end without a word to their readers");
    }
    Ok(())
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a run panicked");
    }
}

/// Takes tasks until the worker stops, also across restarts of Redis. It is never stopped within
/// a look: the queue may have given a task already.
async fn take(queue: Client, tasks: mpsc::Sender<Task>, stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        let taken: Result<(String, String), _> = queue.blpop(QUEUE, TAKE_WAIT_S).await;
        let text = match taken {
            Ok((_, text)) => text,
            // So the client calls an empty queue.
            Err(error) if *error.kind() == ErrorKind::Timeout => continue,
            Err(error) => {
                tracing::warn!(%error, "the queue can't be reached");
                tokio::time::sleep(TAKE_PAUSE).await;
                continue;
            }
        };
        match serde_json::from_str(&text) {
            Ok(task) => {
                if tasks.send(task).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, text, "an element of {QUEUE} is not a task; it is dropped");
            }
        }
    }
}
