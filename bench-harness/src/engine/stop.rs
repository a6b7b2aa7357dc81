//! The handle that ends a block early: once to wind down, twice to end at once.

use tokio::sync::watch;

/// Shared by the signal handler, the command and the engine. Clones are the same handle.
#[derive(Debug, Clone)]
pub struct Stop {
    sender: watch::Sender<Urgency>,
}

/// How far a stop has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Nobody asked.
    Running,
    /// Send nothing more, let answers arrive for a grace time.
    WindDown,
    /// Drop what is in flight.
    AtOnce,
}

impl Stop {
    /// A handle that nobody has used yet.
    pub fn new() -> Self {
        Self {
            sender: watch::Sender::new(Urgency::Running),
        }
    }

    /// Asks for a stop: the first call winds down, any later one ends at once.
    pub fn request(&self) {
        self.sender.send_modify(|urgency| {
            *urgency = match *urgency {
                Urgency::Running => Urgency::WindDown,
                Urgency::WindDown | Urgency::AtOnce => Urgency::AtOnce,
            };
        });
    }

    pub(crate) fn urgency(&self) -> Urgency {
        *self.sender.borrow()
    }

    /// True once anybody asked.
    pub fn is_requested(&self) -> bool {
        self.urgency() > Urgency::Running
    }

    /// Waits until the stop has reached `urgency`; for ever if nobody asks.
    pub(crate) async fn reached(&self, urgency: Urgency) {
        let mut receiver = self.sender.subscribe();
        // The sender lives in `self`, so waiting can't fail before the condition holds.
        if receiver
            .wait_for(|current| *current >= urgency)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_request_is_urgent() {
        let stop = Stop::new();
        assert!(!stop.is_requested());
        stop.clone().request();
        assert_eq!(stop.urgency(), Urgency::WindDown);
        stop.request();
        stop.request();
        assert_eq!(stop.urgency(), Urgency::AtOnce);
    }
}
