//! Commands: who may run what where, with whom, and in which runtime.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use unstall_sandbox_core::domain::{CommandKind, RuntimeState, SandboxError, WorkspaceError};
use unstall_sandbox_core::ports::Answer;
use unstall_sandbox_core::ports::locks::{
    HeldLock, Lease, LockClass, LockError, LockManager, LockName, Reliance,
};
use unstall_sandbox_core::ports::runtimes::{ExecRequest, Labels};
use unstall_sandbox_core::ports::store::SandboxStore;
use unstall_sandbox_core::service::{CommandOrder, ServiceError};

use crate::bench::{Bench, run, shell};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_said_to_read_cannot_write() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let mut order = shell("cat read.me; echo no > read.me");
    order.kind = Some(CommandKind::Read);
    let done = worker.exec(made.id, order).await.expect("it runs");
    assert_eq!(done.stdout.text(), "one\n");
    assert_ne!(done.exit_code, 0, "{done:?}");
    assert!(!bench.row(made.id).await.dirty);
    let done = run(&worker, made.id, "echo two > read.me")
        .await
        .expect("it runs");
    assert_eq!(done.exit_code, 0, "{done:?}");
    assert!(bench.row(made.id).await.dirty);
    worker.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_limits_when_nobody_names_any() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let resources = worker.settings().resources;
    assert_eq!(
        (resources.cpu_milli, resources.memory_mb),
        (Some(2000), Some(4096))
    );
    let made = worker.get_or_create_workspace(&bench.edits("c")).await;
    let id = made.expect("made").id;
    let done = run(&worker, id, "ulimit -f").await.expect("it runs");
    // 10 GB, in the blocks of 512 bytes in which POSIX has shells count.
    assert_eq!(done.stdout.text(), "20971520\n");
    worker.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_one_reads_only_nothing_else_is_run() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let made = worker
        .get_or_create_workspace(&bench.reading())
        .await
        .expect("made");
    let request = ExecRequest::new(["git", "log", "--oneline"]);
    let order = CommandOrder {
        request,
        kind: None,
    };
    let done = worker.exec(made.id, order).await.expect("it reads");
    assert!(done.stdout.text().contains("read.me"), "{done:?}");
    let mut claimed = shell("echo no > read.me");
    claimed.kind = Some(CommandKind::Read);
    for order in [shell("ls"), claimed] {
        let refused = worker.exec(made.id, order).await;
        assert!(
            matches!(
                refused,
                Err(ServiceError::Sandbox(SandboxError::CommandRejected { .. }))
            ),
            "{refused:?}"
        );
    }
    let order = unstall_sandbox_core::service::CommitOrder {
        message: "no".to_owned(),
        paths: Vec::new(),
        identity: crate::bench::client(&worker).1,
    };
    assert!(worker.commit(made.id, &order).await.is_err());
    worker.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_run_together_and_writers_alone() {
    let bench = Bench::new().await;
    let worker = bench
        .worker_with(|settings| settings.lock_wait = Duration::from_millis(200))
        .await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let id = made.id;
    let reading = |line: &str| {
        let mut order = shell(line);
        order.kind = Some(CommandKind::Read);
        let worker = Arc::clone(&worker);
        tokio::spawn(async move { worker.exec(id, order).await })
    };
    // Each waits for the other's mark, which only those see who run at the same time: readers share
    // the runtime's /tmp.
    let meet = |mine: &str, other: &str| {
        format!(
            "touch /tmp/{mine}; for i in $(seq 100); do [ -e /tmp/{other} ] && exit 0; sleep 0.1; done; exit 9"
        )
    };
    let one = reading(&meet("one", "two"));
    let two = reading(&meet("two", "one"));
    for done in [one, two] {
        let done = done.await.expect("no panic").expect("it runs");
        assert_eq!(done.exit_code, 0, "{done:?}");
    }
    let long = reading("sleep 60");
    // Until it has begun, a writer is let in.
    let refused = loop {
        match run(&worker, id, "true").await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(refused) => break refused,
        }
    };
    assert!(
        matches!(
            refused,
            ServiceError::Workspace(WorkspaceError::Locked { .. })
        ),
        "{refused:?}"
    );
    long.abort();
    worker.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_command_frees_the_workspace() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let began = Instant::now();
    let short = Duration::from_secs(2);
    let dropped = tokio::time::timeout(short, run(&worker, made.id, "sleep 60; touch late")).await;
    assert!(dropped.is_err(), "it was cut short");
    let done = run(&worker, made.id, "ls").await.expect("it runs");
    assert_eq!(done.stdout.text(), "read.me\n");
    assert!(began.elapsed() < Duration::from_secs(55));
    worker.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_sleeps_is_woken_and_one_that_died_is_replaced() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let first = worker.get_or_create_runtime(made.id).await.expect("made");
    assert_eq!(first.state, RuntimeState::Running);
    worker.hibernate_runtime(made.id).await.expect("stopped");
    worker
        .hibernate_runtime(made.id)
        .await
        .expect("stopped already");
    let row = bench
        .store
        .find_runtime(first.id)
        .await
        .expect("asked")
        .expect("live");
    assert_eq!(row.state, RuntimeState::Stopped);
    let done = run(&worker, made.id, "echo awake").await.expect("it runs");
    assert_eq!(done.stdout.text(), "awake\n");
    let again = worker.get_or_create_runtime(made.id).await.expect("there");
    assert_eq!(again.id, first.id);
    // Behind the service's back, as a crash of it would be.
    let backend = again.backend_runtime_id.expect("it has one");
    worker
        .adapters()
        .runtimes
        .destroy(&backend)
        .await
        .expect("gone");
    let done = run(&worker, made.id, "echo anew").await.expect("it runs");
    assert_eq!(done.stdout.text(), "anew\n");
    worker.destroy_runtime(made.id).await.expect("destroyed");
    assert!(worker.all_runtimes().await.expect("listed").is_empty());
    let live = worker
        .adapters()
        .runtimes
        .list(&Labels::new())
        .await
        .expect("listed");
    assert!(live.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_workers_runtime_is_taken_over_once_nothing_runs_in_it() {
    let bench = Bench::new().await;
    let (one, other) = (bench.worker().await, bench.worker().await);
    let made = one
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let first = one.get_or_create_runtime(made.id).await.expect("made");
    let done = run(&other, made.id, "echo mine").await.expect("it runs");
    assert_eq!(done.stdout.text(), "mine\n");
    let now = other.all_runtimes().await.expect("listed");
    assert_eq!(now.len(), 1);
    assert_ne!(now[0].id, first.id);
    one.sweep(Timestamp::now()).await.expect("swept");
    let live = one
        .adapters()
        .runtimes
        .list(&Labels::new())
        .await
        .expect("listed");
    assert!(
        live.is_empty(),
        "the first worker sees that its runtime is nobody's"
    );
    other.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_is_not_idle() {
    let bench = Bench::new().await;
    let worker = bench
        .worker_with(|settings| settings.limits.runtime_idle_ms = 1000)
        .await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let id = made.id;
    let running = {
        let worker = Arc::clone(&worker);
        let line = "touch begun; sleep 3; echo done";
        tokio::spawn(async move { run(&worker, id, line).await })
    };
    let tree = worker.tree_of(&made).expect("a path");
    while !tree.join("begun").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Long idle by the clock of the pass, but within the command's time of 120 s.
    let later = Timestamp::now() + SignedDuration::from_mins(1);
    let report = worker.evict(later, false).await.expect("a pass");
    assert!(
        report.decisions.iter().all(|(_, outcome)| {
            *outcome == unstall_sandbox_core::service::EvictionOutcome::Kept
        })
    );
    let done = running.await.expect("no panic").expect("it runs");
    assert_eq!(done.stdout.text(), "done\n");
    let later = Timestamp::now() + SignedDuration::from_mins(10);
    worker.evict(later, false).await.expect("a pass");
    let row = bench
        .store
        .find_runtime_of_workspace(made.id)
        .await
        .expect("asked");
    assert_eq!(row.expect("live").state, RuntimeState::Stopped);
    worker.close().await.expect("closed");
}

/// Locks of which the one that is held can be lost.
#[derive(Clone)]
struct Losable {
    inner: unstall_sandbox_core::locks::LocalLocks,
    loss: tokio::sync::watch::Sender<bool>,
}

/// A lock that is lost when the test says so.
struct Held {
    lost: tokio::sync::watch::Receiver<bool>,
    /// Given back when this is dropped.
    _lease: Lease,
}

impl HeldLock for Held {
    fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut lost = self.lost.clone();
        Box::pin(async move {
            if lost.wait_for(|lost| *lost).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    /// Only this process sees the loss.
    fn reliance(&self) -> Option<Reliance> {
        None
    }

    fn release(self: Box<Self>) -> Answer<'static, (), LockError> {
        Box::pin(async { Ok(()) })
    }
}

impl LockManager for Losable {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        class: LockClass,
        wait_max: Duration,
    ) -> Answer<'a, Lease, LockError> {
        Box::pin(async move {
            let lease = self.inner.acquire(name, class, wait_max).await?;
            let token = lease.token();
            let held = Held {
                lost: self.loss.subscribe(),
                _lease: lease,
            };
            Ok(Lease::new(name.clone(), class, token, Box::new(held)))
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_ends_the_command_before_the_next_one_begins() {
    let bench = Bench::new().await;
    let locks = Losable {
        inner: bench.locks.clone(),
        loss: tokio::sync::watch::Sender::new(false),
    };
    let worker = bench.worker_on(Arc::new(locks.clone()), |_| {}).await;
    let made = worker.get_or_create_workspace(&bench.edits("c")).await;
    let id = made.expect("made").id;
    let line = "touch begun; sleep 5; touch late";
    let running = {
        let worker = Arc::clone(&worker);
        tokio::spawn(async move { run(&worker, id, line).await })
    };
    let tree = worker.tree_of(&bench.row(id).await).expect("a path");
    while !tree.join("begun").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    locks.loss.send_replace(true);
    let ended = running.await.expect("no panic");
    assert!(
        matches!(ended, Err(ServiceError::Lock(LockError::Lost { .. }))),
        "{ended:?}"
    );
    locks.loss.send_replace(false);
    let done = run(&worker, id, "sleep 6; ls").await.expect("it runs");
    assert_eq!(done.stdout.text(), "begun\nread.me\n");
    worker.close().await.expect("closed");
}
