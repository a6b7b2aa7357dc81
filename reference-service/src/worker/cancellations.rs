//! Requests to stop, looked for on behalf of all runs at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::KeysInterface;
use tokio::sync::Notify;

use crate::run::Run;
use crate::variants::asynchronous::redis::once;

/// Time between two looks: well below the shortest pause of a stop, 200 ms, after which it
/// deletes what the run would be told by.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Keys of one MGET.
const KEYS_MAX: usize = 500;

/// The runs that are watched.
#[derive(Debug, Clone)]
pub struct Cancellations {
    client: Client,
    watched: Arc<Mutex<Watched>>,
}

#[derive(Debug, Default)]
struct Watched {
    next: u64,
    runs: HashMap<u64, (String, Arc<Notify>)>,
}

impl Cancellations {
    /// On a connection; nothing is watched yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            watched: Arc::default(),
        }
    }

    /// Watches a run for as long as what is given is kept.
    #[must_use]
    pub fn watch(&self, run: &Run) -> Watch {
        let cancelled = Arc::new(Notify::new());
        let mut watched = self.lock();
        let number = watched.next;
        watched.next += 1;
        let run = (run.cancel_key(), Arc::clone(&cancelled));
        watched.runs.insert(number, run);
        drop(watched);
        Watch {
            number,
            cancelled,
            cancellations: self.clone(),
        }
    }

    /// Looks for ever.
    pub async fn look(self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let runs: Vec<_> = self.lock().runs.values().cloned().collect();
            for runs in runs.chunks(KEYS_MAX) {
                let keys: Vec<&str> = runs.iter().map(|(key, _)| key.as_str()).collect();
                let found: Result<Vec<Option<String>>, _> = once(&self.client).mget(keys).await;
                match found {
                    Ok(found) => {
                        for ((_, cancelled), _) in
                            runs.iter().zip(found).filter(|(_, f)| f.is_some())
                        {
                            cancelled.notify_one();
                        }
                    }
                    // The runs notice by themselves that Redis is away.
                    Err(error) => tracing::debug!(%error, "can't look for cancellations"),
                }
            }
        }
    }

    /// The map is consistent at every panic point.
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run that is watched.
#[derive(Debug)]
pub struct Watch {
    number: u64,
    cancelled: Arc<Notify>,
    cancellations: Cancellations,
}

impl Watch {
    /// Waits until somebody asks the run to stop.
    pub async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.cancellations.lock().runs.remove(&self.number);
    }
}
