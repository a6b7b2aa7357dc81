//! The door to locks: who may use a cache or a workspace now, and how a holder learns that it is over.
//!
//! A lock is held by a *lease*, which may end before its holder is done: its process was paused, or
//! whoever keeps the locks couldn't be reached. Two things guard against what a late holder would do
//! then. [`Lease::run`] drops the work when its lease is lost, and each lease has a [`FencingToken`],
//! larger than all before, by which stores and runtimes refuse what comes too late all the same. A command
//! goes on in another process while its holder is stopped, so it takes a [`Hold`] along, and what it runs in
//! ends it with the lease.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;

use super::Answer;
use crate::domain::{CacheKey, Cause, FencingToken, WorkspaceId, WorkspaceKey};

/// What is locked. Things that may be used at the same time have different names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(String);

impl LockName {
    /// A repository's cache: clones and fetches write, making working trees of it reads.
    #[must_use]
    pub fn cache(key: &CacheKey) -> Self {
        Self(format!("cache:{key}"))
    }

    /// A workspace by what makes it the same workspace: creating and destroying write.
    #[must_use]
    pub fn workspace(key: &WorkspaceKey) -> Self {
        // The key's own text is for people, and different keys may share it.
        Self(format!("workspace:{}", key.fingerprint()))
    }

    /// The commands in a workspace: those that change it write, others read.
    #[must_use]
    pub fn workspace_command(workspace: WorkspaceId) -> Self {
        Self(format!("workspace-command:{workspace}"))
    }

    /// The name as text, which is the same for every worker.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// With whom a lock may be shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockClass {
    /// With others who read.
    Read,
    /// With nobody.
    Write,
}

/// Gives out locks. Waiting is fair: nobody who came later and can't share the lock gets it earlier,
/// so that neither readers nor writers starve.
///
/// Locks aren't re-entrant: who holds one and asks for it again waits for itself.
pub trait LockManager: Send + Sync {
    /// Waits for a lock, for `wait_max` at most; zero asks once. Dropping the answer gives the place in
    /// the queue up.
    ///
    /// # Errors
    /// [`LockError::Busy`] if others held it all the time, [`LockError::Unavailable`] if whoever keeps
    /// the locks can't be asked.
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        class: LockClass,
        wait_max: Duration,
    ) -> Answer<'a, Lease, LockError>;
}

/// What a [`LockManager`] puts into a [`Lease`]. Dropping it gives the lock back as soon as that can be.
pub trait HeldLock: Send + Sync {
    /// May the lock no longer be relied on, at this moment? Once true it stays so.
    fn is_lost(&self) -> bool;

    /// Completes when the lock may no longer be relied on: some time before others can have it.
    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Until when the lock may be relied on, for those who go on while this process is stopped. `None` if
    /// it can't be lost as long as this process is there.
    fn reliance(&self) -> Option<Reliance>;

    /// Gives the lock back.
    ///
    /// # Errors
    /// [`LockError::Lost`] if it wasn't held until now, [`LockError::Unavailable`] if that can't be told.
    fn release(self: Box<Self>) -> Answer<'static, (), LockError>;
}

/// Until when a lock may be relied on: a moment of Linux' `CLOCK_BOOTTIME`, as the time since the machine
/// was started. It moves on with each renewal, and is zero once the lock was lost or given back.
#[derive(Debug, Clone)]
pub struct Reliance(watch::Receiver<Duration>);

impl Reliance {
    /// For lock managers, which say the moments.
    #[must_use]
    pub fn new(said: watch::Receiver<Duration>) -> Self {
        Self(said)
    }

    /// The moment, as it was said last.
    #[must_use]
    pub fn until(&self) -> Duration {
        *self.0.borrow()
    }

    /// Waits until another moment is said, and answers that. `None` when nobody says one any more: then
    /// the last one stands.
    pub async fn changed(&mut self) -> Option<Duration> {
        self.0.changed().await.ok()?;
        Some(*self.0.borrow_and_update())
    }
}

/// What there is to say of a lock to whoever checks it: a copy of it is none of the lock.
#[derive(Debug, Clone)]
pub struct Hold {
    /// With whom it is shared.
    pub class: LockClass,
    /// Its holder's token.
    pub token: FencingToken,
    /// Until when it may be relied on. `None` if it can't be lost as long as its holder's process is there.
    pub reliance: Option<Reliance>,
}

/// A lock that is held. It is prolonged by itself until it is released, dropped or lost.
#[must_use = "the lock is given back when its lease is dropped"]
pub struct Lease {
    name: LockName,
    class: LockClass,
    token: FencingToken,
    held: Box<dyn HeldLock>,
}

impl Lease {
    /// For lock managers.
    pub fn new(
        name: LockName,
        class: LockClass,
        token: FencingToken,
        held: Box<dyn HeldLock>,
    ) -> Self {
        Self {
            name,
            class,
            token,
            held,
        }
    }

    /// What is locked.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// With whom it is shared.
    #[must_use]
    pub fn class(&self) -> LockClass {
        self.class
    }

    /// What to hand to the store with each write under this lock.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// What to hand to a runtime with each command under this lock.
    #[must_use]
    pub fn hold(&self) -> Hold {
        Hold {
            class: self.class,
            token: self.token,
            reliance: self.held.reliance(),
        }
    }

    /// May the lock no longer be relied on, at this moment? Once true it stays so.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.is_lost()
    }

    /// Completes when the lock may no longer be relied on: some time before others can have it, so that
    /// there is time to stop what is done under it.
    pub async fn lost(&self) {
        self.held.lost().await;
    }

    /// Does `work` while the lock is held. When it is lost the work is dropped, before this returns, and
    /// isn't polled again.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock was lost before the work was done.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        let mut lost = self.held.lost();
        let mut work = pin!(work);
        poll_fn(|context| {
            // The clock is asked first: after a pause the work may be woken before the lease's watch.
            if self.held.is_lost() || lost.as_mut().poll(context).is_ready() {
                let name = self.name.clone();
                return Poll::Ready(Err(LockError::Lost { name }));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Gives the lock back, and tells whether it was held until now. What was written under it with its
    /// token is safe either way.
    ///
    /// # Errors
    /// [`LockError::Lost`] if it wasn't, [`LockError::Unavailable`] if that can't be told: then it ends
    /// by itself.
    pub async fn release(self) -> Result<(), LockError> {
        self.held.release().await
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Lease")
            .field("name", &self.name)
            .field("class", &self.class)
            .field("token", &self.token)
            .field("is_lost", &self.is_lost())
            .finish()
    }
}

/// Why a lock isn't held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Others held it for as long as the caller would wait.
    #[error(
        "others held the lock {name} for all of the {waited_ms} ms that it was waited for: try again later, or wait longer"
    )]
    Busy {
        /// What is locked.
        name: LockName,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// Whoever keeps the locks can't be asked.
    #[error(
        "the lock {name} can't be had or given back, as whoever keeps the locks doesn't answer ({source}): see that it runs and can be reached, and try again"
    )]
    Unavailable {
        /// What was to be locked.
        name: LockName,
        /// What was tried and how it failed.
        source: Cause,
    },
    /// It was held, and was lost before its holder was done.
    #[error(
        "the lock {name} was lost before its holder was done, and others may have it: acquire it again and look at what is there before going on"
    )]
    Lost {
        /// What was locked.
        name: LockName,
    },
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::domain::{AuthScopeHash, GitHost, RepoName};

    /// A lock that is lost when the test says so, and that nobody watches.
    struct Switch(Arc<AtomicBool>);

    impl HeldLock for Switch {
        fn is_lost(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(pending())
        }

        fn reliance(&self) -> Option<Reliance> {
            None
        }

        fn release(self: Box<Self>) -> Answer<'static, (), LockError> {
            Box::pin(ready(Ok(())))
        }
    }

    fn lease() -> (Lease, Arc<AtomicBool>) {
        let is_lost = Arc::new(AtomicBool::new(false));
        let held = Box::new(Switch(Arc::clone(&is_lost)));
        let name = LockName::workspace_command(WorkspaceId::generate());
        let token = FencingToken::new(1);
        (Lease::new(name, LockClass::Write, token, held), is_lost)
    }

    #[tokio::test]
    async fn work_that_is_woken_after_the_loss_is_not_polled() {
        let (lease, is_lost) = lease();
        let mut polls = 0;
        let work = poll_fn(|context| {
            polls += 1;
            // The machine sleeps here, and the work's own wake-up comes first.
            is_lost.store(true, Ordering::Relaxed);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let outcome = lease.run(work).await;
        assert!(
            matches!(outcome, Err(LockError::Lost { .. })),
            "{outcome:?}"
        );
        assert_eq!(polls, 1);
    }

    #[tokio::test]
    async fn work_under_a_lock_that_is_lost_already_never_begins() {
        let (lease, is_lost) = lease();
        is_lost.store(true, Ordering::Relaxed);
        let work = poll_fn(|_| -> Poll<()> { panic!("it was polled") });
        let outcome = lease.run(work).await;
        assert!(matches!(outcome, Err(LockError::Lost { .. })));
    }

    #[tokio::test]
    async fn what_the_work_answers_is_handed_on() {
        let (lease, _) = lease();
        assert!(matches!(lease.run(ready(7)).await, Ok(7)));
    }

    #[test]
    fn names_say_what_they_lock_and_differ_between_kinds() {
        let host = GitHost::parse("github.com").expect("a host");
        let repo = RepoName::parse("octo/hello").expect("a name");
        let cache = CacheKey::new(host, &repo, AuthScopeHash::public());
        let name = LockName::cache(&cache);
        assert!(name.as_str().starts_with("cache:github.com/octo/hello#"));
        let id = WorkspaceId::generate();
        assert_eq!(
            LockName::workspace_command(id).to_string(),
            format!("workspace-command:{id}")
        );
    }

    #[test]
    fn an_error_names_the_lock_and_what_to_do() {
        let name = LockName::workspace_command(WorkspaceId::generate());
        let busy = LockError::Busy {
            name: name.clone(),
            waited_ms: 20,
        };
        let text = busy.to_string();
        assert!(
            text.contains(name.as_str()) && text.contains("20 ms") && text.contains("try again")
        );
    }
}
