//! The pool of 40 threads that streams and sessions share until step 6.
//!
//! The original's server runs whatever is synchronous on at most 40 threads: the generator
//! behind a streamed answer, and the opening of a database session. So idle streams keep
//! everybody waiting who needs a session. Here a slot is a permit, and its thread comes from
//! the runtime's pool.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Threads of the original's server.
pub const THREADS_MAX: usize = 40;

/// The pool. Who waits for a slot gets one in order.
#[derive(Debug, Clone)]
pub struct ThreadSlots(Arc<Semaphore>);

impl Default for ThreadSlots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(THREADS_MAX)))
    }
}

impl ThreadSlots {
    /// Waits for a slot. It is free again when what is given is dropped.
    pub async fn take(&self) -> OwnedSemaphorePermit {
        let slots = Arc::clone(&self.0);
        slots
            .acquire_owned()
            .await
            .expect("nobody closes the semaphore")
    }

    /// What opening a database session takes: a slot, a way to its thread and back.
    pub async fn open_session(&self) {
        let slot = self.take().await;
        // It can only fail as the runtime ends, and this request with it.
        drop(tokio::task::spawn_blocking(move || drop(slot)).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn forty_streams_keep_a_session_waiting() {
        let slots = ThreadSlots::default();
        let mut streams = Vec::new();
        for _ in 0..THREADS_MAX {
            streams.push(slots.take().await);
        }
        let session = slots.open_session();
        tokio::pin!(session);
        let waits = std::future::poll_fn(|context| {
            std::task::Poll::Ready(session.as_mut().poll(context).is_pending())
        });
        assert!(waits.await);
        streams.pop();
        session.await;
        assert_eq!(slots.0.available_permits(), 1);
    }
}
