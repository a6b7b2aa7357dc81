//! What every manager must do. A case is given two workers that share locks.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::task::yield_now;
use unstall_sandbox_core::ports::locks::LockClass::{Read, Write};
use unstall_sandbox_core::ports::locks::{Lease, LockClass, LockError, LockName};

use super::managers::{PATIENCE, Worker, Workers, fresh_name};

/// Asks once.
async fn attempt(worker: &Worker, name: &LockName, class: LockClass) -> Result<Lease, LockError> {
    worker.acquire(name, class, Duration::ZERO).await
}

/// Takes what must be free.
async fn take(worker: &Worker, name: &LockName, class: LockClass) -> Lease {
    attempt(worker, name, class).await.expect("it is free")
}

/// Waits for what must become free.
async fn wait(worker: &Worker, name: &LockName, class: LockClass) -> Lease {
    let lease = worker.acquire(name, class, PATIENCE).await;
    lease.expect("its turn comes")
}

async fn release(lease: Lease) {
    lease.release().await.expect("it was held until now");
}

async fn assert_busy(worker: &Worker, name: &LockName, class: LockClass) {
    let outcome = attempt(worker, name, class).await;
    assert!(
        matches!(outcome, Err(LockError::Busy { .. })),
        "{outcome:?}"
    );
}

/// Returns once a reader is refused, so that somebody must wait for writing.
async fn until_readers_are_stopped(worker: &Worker, name: &LockName) {
    loop {
        match attempt(worker, name, Read).await {
            Ok(lease) => release(lease).await,
            Err(LockError::Busy { .. }) => return,
            Err(error) => panic!("{error}"),
        }
        yield_now().await;
    }
}

/// Has a future do what it does before it has to wait.
async fn begin<F: Future + ?Sized>(mut future: Pin<&mut F>) {
    std::future::poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending(), "it has to wait");
        Poll::Ready(())
    })
    .await;
}

pub(crate) async fn readers_share_a_lock_and_a_writer_has_it_alone(workers: Workers) {
    let Workers { first, second } = workers;
    let name = fresh_name();
    let one = take(&first, &name, Read).await;
    let two = take(&second, &name, Read).await;
    assert_busy(&first, &name, Write).await;
    release(one).await;
    assert_busy(&first, &name, Write).await;
    release(two).await;
    let writer = take(&first, &name, Write).await;
    assert_eq!((writer.name(), writer.class()), (&name, Write));
    assert!(!writer.is_lost());
    for class in [Read, Write] {
        assert_busy(&second, &name, class).await;
        assert_busy(&first, &name, class).await;
    }
    release(writer).await;
    release(take(&second, &name, Write).await).await;
}

pub(crate) async fn a_waiting_writer_stops_new_readers(workers: Workers) {
    let Workers { first, second } = workers;
    let name = fresh_name();
    let order = Arc::new(Mutex::new(Vec::new()));
    let turn = |worker: &Worker, class: LockClass| {
        let (worker, name, order) = (Arc::clone(worker), name.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            let lease = wait(&worker, &name, class).await;
            order.lock().expect("no panic").push(class);
            release(lease).await;
        })
    };
    let reader = take(&first, &name, Read).await;
    let writer = turn(&second, Write);
    until_readers_are_stopped(&first, &name).await;
    let late_reader = turn(&first, Read);
    // The late reader could share the lock, but the writer was there before it.
    assert_busy(&second, &name, Read).await;
    release(reader).await;
    writer.await.expect("the writer's turn comes");
    late_reader.await.expect("and then the reader's");
    assert_eq!(*order.lock().expect("no panic"), [Write, Read]);
}

pub(crate) async fn writers_are_served_in_the_order_of_their_arrival(workers: Workers) {
    let Workers { first, .. } = workers;
    let name = fresh_name();
    let order = Arc::new(Mutex::new(Vec::new()));
    let held = take(&first, &name, Write).await;
    let mut turns = Vec::new();
    for index in 0..8 {
        let (worker, name, order) = (Arc::clone(&first), name.clone(), Arc::clone(&order));
        let mut turn = Box::pin(async move {
            let lease = wait(&worker, &name, Write).await;
            order.lock().expect("no panic").push(index);
            release(lease).await;
        });
        begin(turn.as_mut()).await;
        turns.push(turn);
    }
    release(held).await;
    let turns: Vec<_> = turns.into_iter().map(tokio::spawn).collect();
    for turn in turns {
        turn.await.expect("its turn comes");
    }
    assert!(order.lock().expect("no panic").iter().copied().eq(0..8));
}

pub(crate) async fn a_dropped_lease_is_free_for_others(workers: Workers) {
    let Workers { first, second } = workers;
    let name = fresh_name();
    drop(take(&first, &name, Write).await);
    release(wait(&second, &name, Write).await).await;
}

pub(crate) async fn a_waiter_that_is_cancelled_hinders_nobody(workers: Workers) {
    let Workers { first, second } = workers;
    let name = fresh_name();
    let reader = take(&first, &name, Read).await;
    let writer = tokio::spawn({
        let name = name.clone();
        async move { wait(&second, &name, Write).await }
    });
    until_readers_are_stopped(&first, &name).await;
    writer.abort();
    let ended = writer.await.expect_err("it was cancelled while it waited");
    assert!(ended.is_cancelled());
    release(wait(&first, &name, Read).await).await;
    release(reader).await;
}

pub(crate) async fn a_waiter_whose_time_is_over_hinders_nobody(workers: Workers) {
    let Workers { first, second } = workers;
    let name = fresh_name();
    let reader = take(&first, &name, Read).await;
    let wait_max = Duration::from_millis(30);
    let outcome = second.acquire(&name, Write, wait_max).await;
    assert!(
        matches!(outcome, Err(LockError::Busy { waited_ms: 30, .. })),
        "{outcome:?}"
    );
    release(wait(&first, &name, Read).await).await;
    release(reader).await;
}

pub(crate) async fn tokens_strictly_grow(workers: Workers) {
    let Workers { first, second } = workers;
    let names = [fresh_name(), fresh_name()];
    let mut last = 0;
    for round in 0..10 {
        for (name, class) in [(&names[0], Write), (&names[1], Read), (&names[0], Read)] {
            let worker = if round % 2 == 0 { &first } else { &second };
            let lease = take(worker, name, class).await;
            let token = lease.token().get();
            assert!(token > last, "{token} came after {last}");
            last = token;
            release(lease).await;
        }
    }
    let one = take(&first, &names[0], Read).await;
    let two = take(&second, &names[0], Read).await;
    assert!(last < one.token().get() && one.token() < two.token());
}

pub(crate) async fn other_names_are_other_locks(workers: Workers) {
    let Workers { first, second } = workers;
    let one = take(&first, &fresh_name(), Write).await;
    let two = take(&second, &fresh_name(), Write).await;
    release(one).await;
    release(two).await;
}

pub(crate) async fn work_is_done_while_the_lock_is_held(workers: Workers) {
    let Workers { first, second } = workers;
    let name = fresh_name();
    let lease = take(&first, &name, Write).await;
    let work = async {
        assert_busy(&second, &name, Read).await;
        7
    };
    assert!(matches!(lease.run(work).await, Ok(7)));
    release(lease).await;
}

/// What a lock guards in the case below.
#[derive(Default)]
struct Guarded {
    /// Written in two steps between which others have their turns: an update is lost unless writers
    /// exclude each other.
    count: AtomicU64,
    /// 2^32 for each writer, 1 for each reader that is inside.
    inside: AtomicU64,
    last_token: AtomicU64,
}

impl Guarded {
    async fn read(&self) {
        let before = self.inside.fetch_add(1, Ordering::SeqCst);
        assert!(before < 1 << 32, "a reader met a writer");
        let count = self.count.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(
            count,
            self.count.load(Ordering::SeqCst),
            "written under a reader"
        );
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    async fn write(&self, token: u64) {
        let before = self.inside.fetch_add(1 << 32, Ordering::SeqCst);
        assert_eq!(before, 0, "a writer wasn't alone");
        let last = self.last_token.swap(token, Ordering::SeqCst);
        assert!(last < token, "{token} came after {last}");
        let count = self.count.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.count.store(count + 1, Ordering::SeqCst);
        self.inside.fetch_sub(1 << 32, Ordering::SeqCst);
    }
}

pub(crate) async fn a_thousand_tasks_on_fifty_names_exclude_each_other(workers: Workers) {
    const NAMES: usize = 50;
    const TASKS_PER_NAME: usize = 20;
    let places: Vec<(LockName, Arc<Guarded>)> =
        (0..NAMES).map(|_| (fresh_name(), Arc::default())).collect();
    let mut tasks = Vec::new();
    for task in 0..NAMES * TASKS_PER_NAME {
        let (name, guarded) = places[task % NAMES].clone();
        // Half of a name's tasks write, and each worker has some of both kinds.
        let turn = task / NAMES;
        let class = if turn.is_multiple_of(2) { Write } else { Read };
        let worker = if turn % 4 < 2 {
            Arc::clone(&workers.first)
        } else {
            Arc::clone(&workers.second)
        };
        tasks.push(tokio::spawn(async move {
            let lease = wait(&worker, &name, class).await;
            match class {
                Read => guarded.read().await,
                Write => guarded.write(lease.token().get()).await,
            }
            release(lease).await;
        }));
    }
    for task in tasks {
        task.await.expect("it had its turn");
    }
    for (name, guarded) in places {
        let count = guarded.count.load(Ordering::SeqCst);
        assert_eq!(count, TASKS_PER_NAME as u64 / 2, "{name}");
    }
}
