//! The tasks that a worker has taken and not brought to an end, kept in Redis beside the queue: if
//! it is killed, others find them there.
//!
//! Each worker has a list of its own, into which Redis itself moves what it takes, and a key that
//! lives only while the worker prolongs it. Whose key is gone is dead, and its list is for whoever
//! finds it first.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use fred::error::ErrorKind;
use fred::interfaces::{KeysInterface, ListInterface, SetsInterface};
use fred::types::Expiration;
use fred::types::lists::LMoveDirection;

use crate::conversation::fresh_id;
use crate::run::{QUEUE, STREAM_TTL_S, Task};
use crate::stores::StoreError;
use crate::variants::asynchronous::redis::{once, store_error};

/// The workers that have a list, dead ones included: a set.
const WORKERS: &str = "agent:workers";
/// Time between two signs of life.
pub const BEAT_EVERY: Duration = Duration::from_secs(2);
/// Life of a sign of life: so late is a dead worker found. One that can't be heard for as long
/// (stopped, or its machine too busy) counts as dead, too.
const ALIVE_TTL_S: i64 = 10;

/// Life of the count of attempts at a run, from the last on: twice as long as the longest thought.
const ATTEMPTS_TTL_S: i64 = 2 * 3600;

/// One worker's tasks.
#[derive(Debug, Clone)]
pub struct Takings {
    client: Client,
    worker: String,
    /// What this worker knows that it has: its list may have more, if an answer of Redis is lost.
    known: Arc<Known>,
}

/// A task as it lies in Redis, by which it is found again, and what it says. Dropped, it isn't known
/// any more, whatever became of its run: if it is still in the list, it is found again.
#[derive(Debug)]
pub struct Taken {
    text: String,
    /// What is asked.
    pub task: Task,
    known: Arc<Known>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.known.lock().remove(&self.text);
    }
}

/// Tasks' texts.
#[derive(Debug, Default)]
struct Known(Mutex<HashSet<String>>);

impl Known {
    /// The set is consistent at every panic point.
    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Takings {
    /// Of a new worker.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            worker: fresh_id(),
            known: Arc::default(),
        }
    }

    /// Moves the next task from the queue to the worker's list, if one comes within `wait_s`
    /// seconds. On a connection of its own, since it waits there. What isn't a task is dropped.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer.
    pub async fn take(&self, queue: &Client, wait_s: f64) -> Result<Option<Taken>, StoreError> {
        use LMoveDirection::{Left, Right};
        let list = list_of(&self.worker);
        match queue.blmove(QUEUE, &list, Left, Right, wait_s).await {
            Ok(text) => self.read(text).await,
            // So the client calls an empty queue.
            Err(error) if *error.kind() == ErrorKind::Timeout => Ok(None),
            Err(error) => Err(store_error(error)),
        }
    }

    async fn read(&self, text: String) -> Result<Option<Taken>, StoreError> {
        match serde_json::from_str(&text) {
            Ok(task) => {
                self.known.lock().insert(text.clone());
                let known = Arc::clone(&self.known);
                Ok(Some(Taken { text, task, known }))
            }
            Err(error) => {
                tracing::error!(%error, text, "an element of {QUEUE} is not a task; it is dropped");
                self.remove(&text).await?;
                Ok(None)
            }
        }
    }

    /// A run has ended, or somebody else has brought it to an end. False if the task wasn't in
    /// the list any more: then Redis has lost what it had.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer. Whoever finds the task then finds its run ended.
    pub async fn ended(&self, taken: &Taken) -> Result<bool, StoreError> {
        self.remove(&taken.text).await
    }

    async fn remove(&self, text: &str) -> Result<bool, StoreError> {
        let removed: i64 = once(&self.client)
            .lrem(list_of(&self.worker), 1, text)
            .await
            .map_err(store_error)?;
        Ok(removed > 0)
    }

    /// Somebody begins with a run that was begun with before. Gives how often that was in vain: since
    /// the count was last forgotten, who had begun neither came to the run's end nor put it off.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer.
    pub async fn begin_again(&self, task: &Task) -> Result<i64, StoreError> {
        let key = attempts_key(task);
        let writes = once(&self.client.pipeline());
        let _queued: () = writes.incr(&key).await.map_err(store_error)?;
        let _queued: () = writes
            .expire(&key, ATTEMPTS_TTL_S, None)
            .await
            .map_err(store_error)?;
        let (in_vain, _is_set): (i64, i64) = writes.all().await.map_err(store_error)?;
        Ok(in_vain)
    }

    /// A run that was begun with again has come to its end, or is put off in order.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer. Then the count expires.
    pub async fn forget_attempts(&self, task: &Task) -> Result<(), StoreError> {
        once(&self.client)
            .del(attempts_key(task))
            .await
            .map_err(store_error)
    }

    /// A sign of life.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer.
    pub async fn beat(&self) -> Result<(), StoreError> {
        let signs = once(&self.client.pipeline());
        let life = Some(Expiration::EX(ALIVE_TTL_S));
        let _queued: () = signs
            .set(alive_key(&self.worker), "1", life, None, false)
            .await
            .map_err(store_error)?;
        let _queued: () = signs
            .sadd(WORKERS, &self.worker)
            .await
            .map_err(store_error)?;
        // What a run said is gone with its stream, and then nobody need find its task.
        let _queued: () = signs
            .expire(list_of(&self.worker), STREAM_TTL_S, None)
            .await
            .map_err(store_error)?;
        let _done: Vec<fred::types::Value> = signs.all().await.map_err(store_error)?;
        Ok(())
    }

    /// The worker ends in order: what it leaves is to be found at once.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer.
    pub async fn leave(&self) -> Result<(), StoreError> {
        let client = once(&self.client);
        client
            .del::<(), _>(alive_key(&self.worker))
            .await
            .map_err(store_error)?;
        let left: i64 = client
            .llen(list_of(&self.worker))
            .await
            .map_err(store_error)?;
        if left == 0 {
            self.strike_off(&self.worker).await?;
        }
        Ok(())
    }

    /// Moves the tasks of workers that are dead to this worker's list, and gives what it finds
    /// there that this worker doesn't know. Not while it takes: what is on its way would be found.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer. What was moved until then is found the next time.
    pub async fn found(&self) -> Result<Vec<Taken>, StoreError> {
        let client = once(&self.client);
        let workers: Vec<String> = client.smembers(WORKERS).await.map_err(store_error)?;
        for worker in workers.iter().filter(|worker| **worker != self.worker) {
            let alive: bool = client
                .exists(alive_key(worker))
                .await
                .map_err(store_error)?;
            if !alive {
                self.inherit(worker).await?;
                self.strike_off(worker).await?;
            }
        }
        let texts: Vec<String> = client
            .lrange(list_of(&self.worker), 0, -1)
            .await
            .map_err(store_error)?;
        let mut found = Vec::new();
        for text in texts {
            if !self.known.lock().contains(&text) {
                found.extend(self.read(text).await?);
            }
        }
        Ok(found)
    }

    /// One by one, so that no two workers find the same, and none is in no list meanwhile.
    async fn inherit(&self, dead: &str) -> Result<(), StoreError> {
        use LMoveDirection::{Left, Right};
        let (from, to) = (list_of(dead), list_of(&self.worker));
        loop {
            let moved: Option<String> = once(&self.client)
                .lmove(&from, &to, Left, Right)
                .await
                .map_err(store_error)?;
            if moved.is_none() {
                return Ok(());
            }
        }
    }

    async fn strike_off(&self, worker: &str) -> Result<(), StoreError> {
        once(&self.client)
            .srem(WORKERS, worker)
            .await
            .map_err(store_error)
    }
}

fn list_of(worker: &str) -> String {
    format!("agent:taken:{worker}")
}

fn attempts_key(task: &Task) -> String {
    format!("agent:attempts:{}", task.task_id)
}

fn alive_key(worker: &str) -> String {
    format!("agent:alive:{worker}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing here asks Redis.
    fn takings() -> Takings {
        Takings::new(Client::default())
    }

    fn text() -> String {
        let task = Task {
            task_id: "t".to_owned(),
            conversation_id: "c".to_owned(),
            run_id: "r".to_owned(),
            user_id: "u".to_owned(),
            content: "x".to_owned(),
            agent_id: None,
            regenerate: false,
        };
        serde_json::to_string(&task).expect("texts")
    }

    #[tokio::test]
    async fn a_task_is_known_until_it_is_dropped() {
        let takings = takings();
        let taken = takings.read(text()).await.expect("no command");
        assert!(takings.known.lock().contains(&text()));
        drop(taken);
        assert!(takings.known.lock().is_empty());
    }

    #[tokio::test]
    async fn a_run_that_panics_is_found_again() {
        let takings = takings();
        let taken = takings.read(text()).await.expect("no command");
        let run = tokio::spawn(async move {
            let _taken = taken.expect("a task");
            panic!("a run's mistake");
        });
        assert!(run.await.expect_err("it panicked").is_panic());
        assert!(takings.known.lock().is_empty());
    }
}
