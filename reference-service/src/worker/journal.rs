//! The conversation's messages, as the agent writes them: SQL, synchronous, on a thread of its own.
//!
//! The original's worker is synchronous by design, and its chat history stays so when the
//! service's is moved (step 2b): there are two implementations, and one set of statements.

use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::WorkerError;
use crate::chat_history::AgentMessage;
use crate::run::Task;
use crate::stores::{Backend, POOL_WAIT, StoreError};
use crate::variants::ConnectError;
use crate::variants::asynchronous::postgres::connect_options;
use crate::variants::blocking::history::WorkerHistory;

/// Statements that wait for the thread; who has one more waits with it.
const WAITING_MAX: usize = 64;
/// How long a run waits for PostgreSQL before it gives up its question: as long as the service
/// waits for a connection.
const QUESTION_PATIENCE: Patience = Patience::of(POOL_WAIT);
/// How long one waits before it gives up its answer, of which there is nothing else but a stream
/// that expires. Far below the silence after which readers take a worker for dead.
const ANSWER_PATIENCE: Patience = Patience::of(Duration::from_secs(60));
type Statement = Box<dyn FnOnce(&mut WorkerHistory) + Send>;

/// The messages. The thread ends with the last clone.
#[derive(Debug, Clone)]
pub struct Journal {
    statements: mpsc::Sender<Statement>,
}

impl Journal {
    /// Connects, and starts the thread.
    ///
    /// # Errors
    /// [`WorkerError`] if PostgreSQL can't be reached, or there is no thread to be had.
    pub async fn open(database_url: &str) -> Result<Self, WorkerError> {
        // Read as the service reads it, so that a mistake is told alike.
        connect_options(database_url)?;
        let (statements, mut asked) = mpsc::channel::<Statement>(WAITING_MAX);
        let (opened, is_open) = oneshot::channel();
        let database_url = database_url.to_owned();
        thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                let mut history = match WorkerHistory::open(&database_url) {
                    Ok(history) => history,
                    // Who asked may be gone, here and below.
                    Err(error) => return drop(opened.send(Err(error))),
                };
                drop(opened.send(Ok(())));
                while let Some(statement) = asked.blocking_recv() {
                    statement(&mut history);
                }
            })
            .map_err(WorkerError::Thread)?;
        let opened = is_open.await.unwrap_or_else(|_panicked| Err(gone()));
        opened.map_err(ConnectError::from)?;
        Ok(Self { statements })
    }

    /// Stores what is asked, or finds what was asked last and archives the answers to it.
    /// `None` if the conversation isn't the user's, or nothing was asked yet. May be asked again
    /// for the same task: its question is there once.
    ///
    /// # Errors
    /// [`StoreError`] if PostgreSQL doesn't answer for 5 s, or refuses.
    pub async fn question(&self, task: &Task) -> Result<Option<String>, StoreError> {
        patiently(QUESTION_PATIENCE, || {
            let task = task.clone();
            self.ask(move |history| history.question(&task))
        })
        .await
    }

    /// Stores what was answered, unless more of it is stored already.
    ///
    /// # Errors
    /// [`StoreError`] if PostgreSQL doesn't answer for a minute, or refuses.
    pub async fn answer(&self, task: &Task, message: &AgentMessage) -> Result<(), StoreError> {
        patiently(ANSWER_PATIENCE, || {
            let (task, message) = (task.clone(), message.clone());
            self.ask(move |history| history.answer(&task, &message))
        })
        .await
    }

    /// Has the thread do something. Who gives up before its turn has asked for nothing.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WorkerHistory) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done, result) = oneshot::channel();
        let statement: Statement = Box::new(move |history| {
            if !done.is_closed() {
                // As above.
                drop(done.send(work(history)));
            }
        });
        let answered = async {
            let sent = self.statements.send(statement).await;
            sent.map_err(|_panicked| gone())?;
            result.await.unwrap_or_else(|_panicked| Err(gone()))
        };
        timeout(POOL_WAIT, answered).await.unwrap_or_else(|late| {
            // It may be done still, once the server goes on.
            Err(StoreError::unavailable(Backend::Postgres, late))
        })
    }
}

fn gone() -> StoreError {
    StoreError::unavailable(Backend::Postgres, "the journal's thread has panicked")
}

/// How long, and how often, something is tried.
#[derive(Debug, Clone, Copy)]
struct Patience {
    total: Duration,
    /// Before the second try; it doubles after each.
    first_pause: Duration,
    longest_pause: Duration,
}

impl Patience {
    const fn of(total: Duration) -> Self {
        Self {
            total,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(1),
        }
    }
}

/// Tries while the server can't be reached: a restart shall cost nobody an answer. What is tried
/// may have been done by a try that failed.
async fn patiently<T, F>(patience: Patience, mut once: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let deadline = Instant::now() + patience.total;
    let mut pause = patience.first_pause;
    loop {
        match once().await {
            Err(error @ StoreError::Unavailable { .. }) if Instant::now() + pause < deadline => {
                tracing::debug!(%error, "the journal tries again");
                sleep(pause).await;
                pause = (pause * 2).min(patience.longest_pause);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT_PAUSES: Patience = Patience {
        total: Duration::from_secs(3600),
        first_pause: Duration::from_micros(1),
        longest_pause: Duration::from_micros(10),
    };

    /// Answers at the try of that number; until then the error.
    async fn tries(
        patience: Patience,
        until: u32,
        error: impl Fn(&'static str) -> StoreError,
    ) -> (u32, Result<u32, StoreError>) {
        let mut tries = 0;
        let done = patiently(patience, || {
            tries += 1;
            std::future::ready(if tries < until {
                Err(error("restarts"))
            } else {
                Ok(tries)
            })
        })
        .await;
        (tries, done)
    }

    #[tokio::test]
    async fn an_outage_is_waited_for_and_a_refusal_is_not() {
        let unavailable = |text| StoreError::unavailable(Backend::Postgres, text);
        let (tried, done) = tries(SHORT_PAUSES, 9, unavailable).await;
        assert!(matches!((tried, done), (9, Ok(9))));

        let refused = |text| StoreError::refused(Backend::Postgres, text);
        let (tried, done) = tries(SHORT_PAUSES, 9, refused).await;
        assert!(matches!(
            (tried, done),
            (1, Err(StoreError::Refused { .. }))
        ));
    }

    #[tokio::test]
    async fn patience_ends() {
        let unavailable = |text| StoreError::unavailable(Backend::Postgres, text);
        let (tried, done) = tries(Patience::of(Duration::ZERO), 9, unavailable).await;
        assert!(matches!(
            (tried, done),
            (1, Err(StoreError::Unavailable { .. }))
        ));
    }
}
