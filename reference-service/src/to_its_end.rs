//! Work that a request begins and that must not stop half-way when its client leaves.
//!
//! A server drops a handler at its next await once the client is gone. A blocking store never
//! awaits, so its work always ended, as in the original; an awaited store must not leave a run
//! half handed over or half stopped.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::stores::{StoreError, StoreFuture};

/// Works whose clients have left, and that go on.
static GOING_ON: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// One of them, until it is dropped.
struct GoingOn;

impl GoingOn {
    fn one_more() -> Self {
        GOING_ON.send_modify(|works| *works += 1);
        Self
    }
}

impl Drop for GoingOn {
    fn drop(&mut self) {
        GOING_ON.send_modify(|works| *works -= 1);
    }
}

/// Waits until no work goes on whose client has left: a service that ends before it would leave it
/// half-way after all.
pub async fn all_have_ended() {
    let mut going_on = GOING_ON.subscribe();
    // The sender is never dropped: there is no error.
    drop(going_on.wait_for(|works| *works == 0).await);
}

/// Work on the stores that ends also if nobody waits for it any longer.
///
/// It is polled where it is awaited, so that its time is the request's; dropped before its end,
/// it goes on as a task of its own, whose failure goes to the log.
pub struct ToItsEnd<T: Send + 'static> {
    /// `None` once it has ended.
    work: Option<StoreFuture<'static, T>>,
}

impl<T: Send + 'static> ToItsEnd<T> {
    /// Begins when it is first polled; dropped before, it is done all the same.
    pub fn new(work: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Self {
        Self {
            work: Some(Box::pin(work)),
        }
    }
}

impl<T: Send + 'static> Future for ToItsEnd<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Taken out, so that work that panics isn't polled again by whoever drops this.
        let mut work = self.work.take().expect("polled after its end");
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for ToItsEnd<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else {
            return;
        };
        let going_on = GoingOn::one_more();
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                let _until_the_end = going_on;
                if let Err(error) = work.await {
                    tracing::warn!(%error, "work whose client has left failed");
                }
            })),
            Err(error) => tracing::warn!(%error, "work whose client has left can't go on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Work of two parts, between which it waits; it tells which it has done.
    fn two_parts(go_on: oneshot::Receiver<()>) -> (ToItsEnd<()>, mpsc::UnboundedReceiver<u32>) {
        let (done, parts) = mpsc::unbounded_channel();
        let work = ToItsEnd::new(async move {
            done.send(1).expect("the test listens");
            go_on.await.expect("the test goes on");
            done.send(2).expect("the test listens");
            Ok(())
        });
        (work, parts)
    }

    #[tokio::test]
    async fn what_is_dropped_half_way_goes_on() {
        let (go_on, told) = oneshot::channel();
        let (mut work, mut parts) = two_parts(told);
        tokio::select! {
            biased;
            ended = &mut work => panic!("it waits: {ended:?}"),
            part = parts.recv() => assert_eq!(part, Some(1)),
        }
        drop(work);
        let all_ended = all_have_ended();
        tokio::pin!(all_ended);
        tokio::select! {
            biased;
            () = &mut all_ended => panic!("it goes on"),
            () = tokio::task::yield_now() => (),
        }
        go_on.send(()).expect("it still listens");
        assert_eq!(parts.recv().await, Some(2));
        all_ended.await;
    }

    #[tokio::test]
    async fn what_is_awaited_is_done_once() {
        let (go_on, told) = oneshot::channel();
        let (work, mut parts) = two_parts(told);
        go_on.send(()).expect("it listens");
        work.await.expect("it ends");
        let mut done = Vec::new();
        while let Some(part) = parts.recv().await {
            done.push(part);
        }
        assert_eq!(done, [1, 2]);
    }
}
