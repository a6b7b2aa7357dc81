//! What becomes of leases when Redis, the way to it, the holder or the clock fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fred::interfaces::ClientLike;
use fred::types::config::Config;
use fred::types::{Builder, ClusterHash, CustomCommand};
use tokio::time::{sleep, timeout};
use unstall_sandbox_core::locks::{BootClock, Clock, ConnectError, LeaseTimes, RedisLocks};
use unstall_sandbox_core::ports::locks::LockClass::{Read, Write};
use unstall_sandbox_core::ports::locks::{Lease, LockError, LockManager, LockName};

use super::gate::Gate;
use super::managers::{PATIENCE, connect, fresh_name, own_testbed, shared_testbed, short_times};

async fn take(locks: &RedisLocks, name: &LockName) -> Lease {
    let lease = locks.acquire(name, Write, Duration::ZERO).await;
    lease.expect("it is free")
}

async fn wait(locks: &RedisLocks, name: &LockName) -> Lease {
    let lease = locks.acquire(name, Write, PATIENCE).await;
    lease.expect("its turn comes")
}

async fn assert_lost(lease: Lease) {
    timeout(PATIENCE, lease.lost()).await.expect("it is lost");
    assert!(lease.is_lost());
    let done = lease.run(std::future::pending::<()>()).await;
    assert!(matches!(done, Err(LockError::Lost { .. })), "{done:?}");
    let released = lease.release().await;
    assert!(
        matches!(released, Err(LockError::Lost { .. })),
        "{released:?}"
    );
}

/// The keys that Redis has of a lock.
async fn keys_of(name: &LockName) -> Vec<String> {
    let config = Config::from_url(&shared_testbed().redis_url()).expect("a URL");
    let client = Builder::from_config(config).build().expect("a client");
    client.init().await.expect("Redis answers");
    let keys = CustomCommand::new_static("KEYS", ClusterHash::Random, false);
    let pattern = format!("*{name}*");
    let found: Vec<String> = client.custom(keys, vec![pattern]).await.expect("keys");
    client.quit().await.expect("it is connected");
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_renewed_beyond_its_length() {
    let url = shared_testbed().redis_url();
    let times = short_times();
    let (first, second) = (connect(&url, times).await, connect(&url, times).await);
    let name = fresh_name();
    let lease = take(&first, &name).await;
    sleep(times.length() * 2).await;
    let refused = second.acquire(&name, Read, Duration::ZERO).await;
    assert!(
        matches!(refused, Err(LockError::Busy { .. })),
        "{refused:?}"
    );
    lease.release().await.expect("it was held until now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_lock_that_nobody_wants() {
    let url = shared_testbed().redis_url();
    let locks = connect(&url, LeaseTimes::default()).await;
    let name = fresh_name();
    let lease = take(&locks, &name).await;
    assert!(!keys_of(&name).await.is_empty());
    let soon = Duration::from_millis(10);
    let refused = locks.acquire(&name, Write, soon).await;
    assert!(
        matches!(refused, Err(LockError::Busy { .. })),
        "{refused:?}"
    );
    lease.release().await.expect("it was held until now");
    let all_gone = async {
        while !keys_of(&name).await.is_empty() {
            sleep(soon).await;
        }
    };
    timeout(PATIENCE, all_gone).await.expect("all keys go");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_workers_lock_is_free_after_its_lease() {
    let url = shared_testbed().redis_url();
    let name = fresh_name();
    let (theirs, worker_url) = (name.clone(), url.clone());
    let dead = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let token = runtime.block_on(async {
            let locks = connect(&worker_url, short_times()).await;
            let lease = take(&locks, &theirs).await;
            let token = lease.token();
            // As of a process that was killed: nobody gives it back.
            std::mem::forget(lease);
            std::mem::forget(locks);
            token
        });
        runtime.shutdown_background();
        token
    });
    let dead = dead.await.expect("it had the lock");
    let locks = connect(&url, short_times()).await;
    let lease = wait(&locks, &name).await;
    assert!(lease.token() > dead);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_ends_leases_in_time_and_tokens_grow_beyond_its_loss() {
    let mut testbed = own_testbed();
    let locks = connect(&testbed.redis_url(), short_times()).await;
    let name = fresh_name();
    let lease = take(&locks, &name).await;
    let before = lease.token();
    testbed.kill_redis().expect("it is private");
    let refused = locks.acquire(&name, Read, Duration::from_millis(200)).await;
    assert!(
        matches!(refused, Err(LockError::Unavailable { .. })),
        "{refused:?}"
    );
    assert_lost(lease).await;
    testbed.revive_redis().expect("it comes up, empty");
    let lease = wait(&locks, &name).await;
    assert!(lease.token() > before);
    lease.release().await.expect("it was held until now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_back_empty_ends_leases() {
    let mut testbed = own_testbed();
    // Long leases: what ends them is the answer of the new Redis, not the time.
    let locks = connect(&testbed.redis_url(), LeaseTimes::default()).await;
    let lease = take(&locks, &fresh_name()).await;
    testbed.restart_redis().expect("it is private");
    assert_lost(lease).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_at_the_start_is_an_error_that_says_so() {
    let mut testbed = own_testbed();
    let url = testbed.redis_url();
    testbed.kill_redis().expect("it is private");
    let refused = RedisLocks::connect(&url, LeaseTimes::default()).await;
    assert!(
        matches!(refused, Err(ConnectError::Unavailable { .. })),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_is_replaced_and_its_leases_are_kept() {
    let testbed = shared_testbed();
    let gate = Gate::before(testbed.redis_address()).await;
    let times = short_times();
    let locks = connect(&testbed.redis_url_through(gate.address()), times).await;
    let lease = take(&locks, &fresh_name()).await;
    gate.cut();
    sleep(times.length() * 2).await;
    assert!(!lease.is_lost());
    lease.release().await.expect("it was held until now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_cannot_renew_knows_before_another_has_the_lock() {
    let testbed = shared_testbed();
    let gate = Gate::before(testbed.redis_address()).await;
    let cut_off = connect(&testbed.redis_url_through(gate.address()), short_times()).await;
    let other = connect(&testbed.redis_url(), short_times()).await;
    let name = fresh_name();
    let lost = take(&cut_off, &name).await;
    gate.fall_silent();
    let work = std::future::pending::<()>();
    let (stopped, next) = tokio::join!(lost.run(work), async {
        let next = wait(&other, &name).await;
        assert!(lost.is_lost(), "two holders at the same time");
        next
    });
    assert!(
        matches!(stopped, Err(LockError::Lost { .. })),
        "{stopped:?}"
    );
    assert!(next.token() > lost.token());
    drop(lost);
    // What the silent connection held back reaches Redis late, and changes nothing.
    gate.open();
    let again = wait(&cut_off, &fresh_name()).await;
    again.release().await.expect("the connection works again");
    assert!(!next.is_lost());
    next.release().await.expect("it was held until now");
}

/// The boot clock of a machine that was suspended for a while.
#[derive(Debug, Default)]
struct SuspendedClock {
    suspended_ms: AtomicU64,
}

impl Clock for SuspendedClock {
    fn elapsed(&self) -> Duration {
        BootClock.elapsed() + Duration::from_millis(self.suspended_ms.load(Ordering::SeqCst))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_machine_finds_its_leases_lost() {
    let url = shared_testbed().redis_url();
    let clock = Arc::new(SuspendedClock::default());
    let shared: Arc<dyn Clock> = clock.clone();
    let locks = RedisLocks::connect_with_clock(&url, LeaseTimes::default(), shared).await;
    let locks = locks.expect("Redis answers");
    let name = fresh_name();
    let lease = take(&locks, &name).await;
    assert!(!lease.is_lost());
    clock.suspended_ms.store(3_600_000, Ordering::SeqCst);
    assert!(lease.is_lost(), "without anybody having been woken");
    assert_lost(lease).await;
    // It was given back all the same, and is had anew.
    wait(&locks, &name)
        .await
        .release()
        .await
        .expect("it was held until now");
}
