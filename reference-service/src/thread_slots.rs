//! The pool of 40 threads that streams and sessions share until step 6.
//!
//! The original's server runs whatever is synchronous on at most 40 threads: the generator
//! behind a streamed answer, and the opening of a database session. So idle streams keep
//! everybody waiting who needs a session. Here a slot is a permit. A stream's thread comes from
//! the runtime's pool; sessions take turns on one thread of their own, since each needs it for
//! microseconds, and with more of them the number of threads would be a matter of luck.

use std::io;
use std::sync::Arc;
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Threads of the original's server.
pub const THREADS_MAX: usize = 40;

/// The pool's slots. Who waits for one gets it in order.
#[derive(Debug, Clone)]
pub struct ThreadSlots {
    slots: Arc<Semaphore>,
}

impl ThreadSlots {
    /// All of them free.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a default would hide that each pool is another one"
    )]
    pub fn new() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(THREADS_MAX)),
        }
    }

    /// Waits for a slot. It is free again when what is given is dropped.
    pub async fn take(&self) -> OwnedSemaphorePermit {
        let slots = Arc::clone(&self.slots);
        slots
            .acquire_owned()
            .await
            .expect("nobody closes the semaphore")
    }

    /// A slot, if one is free now and nobody waits for it.
    #[must_use]
    pub fn take_free(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed: no permit is the only reason.
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }
}

/// Where database sessions are opened: in a slot, on the sessions' thread.
#[derive(Debug, Clone)]
pub struct Sessions {
    slots: ThreadSlots,
    asked: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

impl Sessions {
    /// Starts their thread; it ends with the last clone of what is given.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(slots: ThreadSlots) -> io::Result<Self> {
        let (asked, mut requests) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
        thread::Builder::new()
            .name("sessions".to_owned())
            .spawn(move || {
                while let Some(opened) = requests.blocking_recv() {
                    // Who asked may be gone.
                    let _gone = opened.send(());
                }
            })?;
        Ok(Self { slots, asked })
    }

    /// What opening one takes: a slot, and a way to a thread and back.
    pub async fn open(&self) {
        let slot = self.slots.take().await;
        let (opened, session) = oneshot::channel();
        let asked = self.asked.send(opened);
        asked.expect("the thread lives as long as somebody can ask it");
        session.await.expect("it answers whoever asks");
        drop(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn forty_streams_keep_a_session_waiting() {
        let slots = ThreadSlots::new();
        let sessions = Sessions::start(slots.clone()).expect("a thread");
        let mut streams = Vec::new();
        for _ in 0..THREADS_MAX {
            streams.push(slots.take().await);
        }
        let session = sessions.open();
        tokio::pin!(session);
        let waits = std::future::poll_fn(|context| {
            std::task::Poll::Ready(session.as_mut().poll(context).is_pending())
        });
        assert!(waits.await);
        streams.pop();
        session.await;
        assert_eq!(slots.slots.available_permits(), 1);
    }
}
