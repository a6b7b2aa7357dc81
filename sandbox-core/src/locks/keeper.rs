//! Keeps one lease alive: a task renews it while it is held, gives it back at its end, and says in time
//! when it may no longer be relied on.
//!
//! Two sides read the same moment, until which the lease may be relied on. The keeper moves it on with
//! each renewal. The holder compares it with the clock, so that nothing has to happen for a lease to
//! end: a keeper that is stuck, or gone with its runtime, can't make it last. Whoever does something for
//! the holder in another process is told that moment, and ends it by the same clock.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::clock::{Clock, sleep_until};
use super::lease_times::LeaseTimes;
use crate::domain::Cause;
use crate::ports::Answer;
use crate::ports::locks::{HeldLock, LockError, LockName, Reliance};

/// Where one lock is kept. Each call ends by itself within [`LeaseTimes::request_max`].
pub(super) trait LockHome: Send + Sync + 'static {
    /// Prolongs it by a lease's length from now. False if it isn't its holder's any more.
    fn renew(&self) -> impl Future<Output = Result<bool, Cause>> + Send;

    /// Gives it back. False if it wasn't its holder's any more.
    fn release(&self) -> impl Future<Output = Result<bool, Cause>> + Send;

    /// Completes when the home was away and is back, maybe without what it had kept.
    fn is_back(&self) -> impl Future<Output = ()> + Send;
}

/// Where the answer to a release goes.
type Reply = oneshot::Sender<Result<(), LockError>>;

/// The moment until which the lease may be relied on, by its clock. Zero: not any more.
#[derive(Debug)]
struct Relied(watch::Sender<Duration>);

impl Relied {
    /// The lease was prolonged. One that has ended already stays lost, since its holder may have noticed.
    fn prolong(&self, clock: &dyn Clock, until: Duration) {
        self.0.send_if_modified(|relied| {
            let is_held = clock.elapsed() < *relied;
            if is_held {
                *relied = until;
            }
            is_held
        });
    }

    fn end(&self) {
        self.0.send_replace(Duration::ZERO);
    }

    fn has_ended(&self, clock: &dyn Clock) -> bool {
        has_ended(&self.0.borrow(), clock)
    }
}

/// With the moment borrowed, so that no renewal comes between reading it and reading the clock.
fn has_ended(relied: &watch::Ref<'_, Duration>, clock: &dyn Clock) -> bool {
    clock.elapsed() >= **relied
}

/// A lease's keeper.
#[derive(Debug)]
struct Keeper<H> {
    home: H,
    name: LockName,
    times: LeaseTimes,
    clock: Arc<dyn Clock>,
    relied: Relied,
}

/// What the holder has of a lease that is kept.
#[derive(Debug)]
pub(super) struct KeptLock {
    name: LockName,
    times: LeaseTimes,
    clock: Arc<dyn Clock>,
    relied: watch::Receiver<Duration>,
    release: oneshot::Sender<Reply>,
}

/// Keeps a lease that was asked for by a request sent at `sent_at`, on a task of `runtime`.
pub(super) fn keep<H: LockHome>(
    home: H,
    name: LockName,
    times: LeaseTimes,
    clock: Arc<dyn Clock>,
    sent_at: Duration,
    runtime: &Handle,
) -> KeptLock {
    let (relied, watched) = watch::channel(times.relied_until(sent_at));
    let (release, released) = oneshot::channel();
    let kept = KeptLock {
        name: name.clone(),
        times,
        clock: Arc::clone(&clock),
        relied: watched,
        release,
    };
    let keeper = Keeper {
        home,
        name,
        times,
        clock,
        relied: Relied(relied),
    };
    runtime.spawn(keeper.keep(sent_at, released));
    kept
}

impl<H: LockHome> Keeper<H> {
    /// Renews until the holder has done with the lease, then gives it back.
    async fn keep(self, sent_at: Duration, mut released: oneshot::Receiver<Reply>) {
        let reply = tokio::select! {
            biased;
            reply = &mut released => reply.ok(),
            () = self.renew_while_held(sent_at) => {
                // Not given back yet: its holder stops only now what it does, and meanwhile the rest of
                // the lease keeps others out.
                released.await.ok()
            }
        };
        let was_lost = self.relied.has_ended(&*self.clock);
        self.relied.end();
        let outcome = self.home.release().await;
        match reply {
            Some(reply) => {
                // Who doesn't wait for the answer any more has no use for it.
                let _unread = reply.send(self.judge(was_lost, outcome));
            }
            None => self.log(outcome),
        }
    }

    /// Ends when the lease is lost.
    async fn renew_while_held(&self, sent_at: Duration) {
        let mut due = sent_at + self.times.renew_after();
        loop {
            tokio::select! {
                () = sleep_until(&*self.clock, due, self.times.look_every()) => {}
                () = self.home.is_back() => {}
            }
            if self.relied.has_ended(&*self.clock) {
                tracing::warn!(name = %self.name, "a lock was lost: it couldn't be renewed in time");
                return;
            }
            let sent_at = self.clock.elapsed();
            match self.home.renew().await {
                Ok(true) => {
                    let until = self.times.relied_until(sent_at);
                    self.relied.prolong(&*self.clock, until);
                    due = sent_at + self.times.renew_after();
                }
                Ok(false) => {
                    tracing::warn!(name = %self.name, "a lock was lost: it isn't known any more");
                    self.relied.end();
                    return;
                }
                Err(error) => {
                    tracing::debug!(name = %self.name, %error, "a lock wasn't renewed, and is tried again");
                    due = self.clock.elapsed() + self.times.retry_after();
                }
            }
        }
    }

    /// What to tell whoever released it.
    fn judge(&self, was_lost: bool, outcome: Result<bool, Cause>) -> Result<(), LockError> {
        let name = self.name.clone();
        match outcome {
            Ok(true) if !was_lost => Ok(()),
            Err(source) if !was_lost => Err(LockError::Unavailable { name, source }),
            Ok(_) | Err(_) => Err(LockError::Lost { name }),
        }
    }

    /// Nobody waits for the outcome of a dropped lease.
    fn log(&self, outcome: Result<bool, Cause>) {
        if let Err(error) = outcome {
            tracing::debug!(name = %self.name, %error, "a lock wasn't given back, and ends by itself");
        }
    }
}

impl HeldLock for KeptLock {
    fn is_lost(&self) -> bool {
        has_ended(&self.relied.borrow(), &*self.clock)
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut relied = self.relied.clone();
        let clock = Arc::clone(&self.clock);
        let look_every = self.times.look_every();
        Box::pin(async move {
            loop {
                let until = *relied.borrow_and_update();
                tokio::select! {
                    () = sleep_until(&*clock, until, look_every) => {}
                    changed = relied.changed() => {
                        if changed.is_err() {
                            // The keeper is gone, and nobody renews it any more.
                            sleep_until(&*clock, until, look_every).await;
                        }
                    }
                }
                if has_ended(&relied.borrow(), &*clock) {
                    return;
                }
            }
        })
    }

    fn reliance(&self) -> Option<Reliance> {
        Some(Reliance::new(self.relied.clone()))
    }

    fn release(self: Box<Self>) -> Answer<'static, (), LockError> {
        Box::pin(async move {
            let Self { name, release, .. } = *self;
            let (reply, answer) = oneshot::channel();
            let lost = LockError::Lost { name };
            if release.send(reply).is_err() {
                return Err(lost);
            }
            // A keeper that goes without an answer went with its runtime.
            answer.await.unwrap_or(Err(lost))
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Notify, mpsc};
    use tokio::time::timeout;

    use super::*;
    use crate::domain::WorkspaceId;
    use crate::locks::clock::tests::HandClock;

    /// No test waits longer; none is decided by it.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// What a keeper asks of a home that the test plays.
    enum Asked {
        Renew(oneshot::Sender<Result<bool, Cause>>),
        Release(oneshot::Sender<Result<bool, Cause>>),
    }

    struct PlayedHome {
        asked: mpsc::UnboundedSender<Asked>,
        is_back: Arc<Notify>,
    }

    impl PlayedHome {
        async fn ask(
            &self,
            kind: fn(oneshot::Sender<Result<bool, Cause>>) -> Asked,
        ) -> Result<bool, Cause> {
            let (answer, answered) = oneshot::channel();
            self.asked.send(kind(answer)).map_err(|_| "nobody plays")?;
            answered.await?
        }
    }

    impl LockHome for PlayedHome {
        async fn renew(&self) -> Result<bool, Cause> {
            self.ask(Asked::Renew).await
        }

        async fn release(&self) -> Result<bool, Cause> {
            self.ask(Asked::Release).await
        }

        async fn is_back(&self) {
            self.is_back.notified().await;
        }
    }

    /// A lease, and the test's side of its home.
    struct Played {
        lock: Box<KeptLock>,
        asked: mpsc::UnboundedReceiver<Asked>,
        is_back: Arc<Notify>,
        clock: Arc<HandClock>,
        times: LeaseTimes,
    }

    /// Lets the keeper do all that it can before the clock goes on: a test's runtime has one thread.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    impl Played {
        fn begin() -> Self {
            let (sender, asked) = mpsc::unbounded_channel();
            let is_back = Arc::new(Notify::new());
            let home = PlayedHome {
                asked: sender,
                is_back: Arc::clone(&is_back),
            };
            let clock = Arc::new(HandClock::new());
            // Looks at the clock every 30 ms.
            let times = LeaseTimes::of_length(Duration::from_millis(300)).expect("in bounds");
            let name = LockName::workspace_command(WorkspaceId::generate());
            let now = clock.elapsed();
            let shared: Arc<dyn Clock> = clock.clone();
            let lock = keep(home, name, times, shared, now, &Handle::current());
            Self {
                lock: Box::new(lock),
                asked,
                is_back,
                clock,
                times,
            }
        }

        async fn renewal(&mut self) -> oneshot::Sender<Result<bool, Cause>> {
            match timeout(PATIENCE, self.asked.recv()).await {
                Ok(Some(Asked::Renew(answer))) => answer,
                _ => panic!("the keeper didn't renew"),
            }
        }

        async fn given_back(
            asked: &mut mpsc::UnboundedReceiver<Asked>,
            answer: Result<bool, Cause>,
        ) {
            match timeout(PATIENCE, asked.recv()).await {
                Ok(Some(Asked::Release(reply))) => reply.send(answer).expect("the keeper waits"),
                _ => panic!("the keeper didn't give the lock back"),
            }
        }

        /// Lets a third of the length pass, and answers the renewal that is then due.
        async fn renewed(&mut self, answer: Result<bool, Cause>) {
            self.clock.forward(self.times.renew_after());
            let reply = self.renewal().await;
            reply.send(answer).expect("the keeper waits");
            settle().await;
        }

        async fn lost(&self) {
            timeout(PATIENCE, self.lock.lost())
                .await
                .expect("it is lost");
            assert!(self.lock.is_lost());
        }
    }

    #[tokio::test]
    async fn a_lease_outlives_its_length_as_long_as_it_is_renewed() {
        let mut played = Played::begin();
        for _ in 0..9 {
            played.renewed(Ok(true)).await;
        }
        assert!(!played.lock.is_lost());
    }

    #[tokio::test]
    async fn each_renewal_and_the_loss_are_told_to_those_who_go_on_by_themselves() {
        let mut played = Played::begin();
        let reliance = played.lock.reliance();
        let mut reliance = reliance.expect("it can be lost");
        let first = reliance.until();
        assert_eq!(first, played.times.relied_until(played.clock.elapsed()));
        played.renewed(Ok(true)).await;
        let told = timeout(PATIENCE, reliance.changed()).await;
        let next = told.expect("it is told").expect("it is kept");
        assert_eq!(next, first + played.times.renew_after());
        played.renewed(Ok(false)).await;
        played.lost().await;
        assert_eq!(reliance.until(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_refused_renewal_is_a_loss_at_once() {
        let mut played = Played::begin();
        played.renewed(Ok(false)).await;
        played.lost().await;
        assert!(played.clock.elapsed() < Duration::from_secs(1000) + played.times.length());
    }

    #[tokio::test]
    async fn failed_renewals_are_tried_again_and_end_the_lease_by_the_clock() {
        let mut played = Played::begin();
        played.renewed(Err("no connection".into())).await;
        assert!(!played.lock.is_lost());
        played.clock.forward(played.times.retry_after());
        let unanswered = played.renewal().await;
        assert!(!played.lock.is_lost());
        played.clock.forward(played.times.length() / 2);
        played.lost().await;
        drop(unanswered);
    }

    #[tokio::test]
    async fn an_answer_that_comes_too_late_does_not_bring_a_lease_back() {
        let mut played = Played::begin();
        played.clock.forward(played.times.renew_after());
        let late = played.renewal().await;
        played.clock.forward(played.times.length());
        played.lost().await;
        late.send(Ok(true)).expect("the keeper waits");
        let Played {
            lock, mut asked, ..
        } = played;
        let (told, ()) = tokio::join!(lock.release(), Played::given_back(&mut asked, Ok(true)));
        assert!(matches!(told, Err(LockError::Lost { .. })), "{told:?}");
    }

    #[tokio::test]
    async fn a_machine_that_slept_finds_its_leases_lost() {
        let played = Played::begin();
        let lost = played.lock.lost();
        played.clock.forward(Duration::from_secs(3600));
        assert!(played.lock.is_lost(), "without anybody having been woken");
        timeout(PATIENCE, lost).await.expect("it is noticed");
    }

    #[tokio::test]
    async fn a_home_that_is_back_is_asked_at_once() {
        let mut played = Played::begin();
        played.is_back.notify_one();
        let reply = played.renewal().await;
        reply.send(Ok(false)).expect("the keeper waits");
        played.lost().await;
    }

    #[tokio::test]
    async fn a_dropped_lease_is_given_back() {
        let Played {
            lock, mut asked, ..
        } = Played::begin();
        drop(lock);
        Played::given_back(&mut asked, Ok(true)).await;
    }

    #[tokio::test]
    async fn a_lost_lease_is_not_given_back_before_its_holder_is_done() {
        let mut played = Played::begin();
        played.renewed(Ok(false)).await;
        played.lost().await;
        settle().await;
        assert!(played.asked.try_recv().is_err(), "it was given back early");
        drop(played.lock);
        Played::given_back(&mut played.asked, Ok(false)).await;
    }

    #[tokio::test]
    async fn a_release_tells_what_became_of_the_lease() {
        let cases = [
            (Ok(true), "given back"),
            (Ok(false), "lost"),
            (Err("no connection".into()), "unavailable"),
        ];
        for (answer, right) in cases {
            let Played {
                lock, mut asked, ..
            } = Played::begin();
            let (told, ()) = tokio::join!(lock.release(), Played::given_back(&mut asked, answer));
            let word = match &told {
                Ok(()) => "given back",
                Err(LockError::Lost { .. }) => "lost",
                Err(LockError::Unavailable { .. }) => "unavailable",
                Err(LockError::Busy { .. }) => "busy",
            };
            assert_eq!(word, right, "{told:?}");
        }
    }
}
