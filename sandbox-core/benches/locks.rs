//! What an uncontended lock costs, beside the one round trip to Redis that nothing can do without: the
//! promise is under 1 ms for acquiring and releasing together.
//!
//! At the end the ratios are printed, of calls that took turns in one run.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::Builder;
use fred::types::config::Config;
use tokio::runtime::Runtime;
use unstall_sandbox_core::domain::WorkspaceId;
use unstall_sandbox_core::locks::{LeaseTimes, LocalLocks, RedisLocks};
use unstall_sandbox_core::ports::locks::{LockClass, LockManager, LockName};
use unstall_testbed::{Options, Testbed};

/// Rounds in which each contestant has its turn, for the ratios.
const ROUNDS: usize = 2_000;

/// What is compared.
struct Contest {
    ping: Client,
    redis: RedisLocks,
    local: LocalLocks,
    name: LockName,
}

impl Contest {
    async fn prepare(redis_url: &str) -> Self {
        let config = Config::from_url(redis_url).expect("a URL");
        let ping = Builder::from_config(config)
            .with_connection_config(|connection| connection.tcp.nodelay = Some(true))
            .build()
            .expect("a client");
        ping.init().await.expect("Redis answers");
        let redis = RedisLocks::connect(redis_url, LeaseTimes::default()).await;
        Self {
            ping,
            redis: redis.expect("Redis answers"),
            local: LocalLocks::new(),
            name: LockName::workspace_command(WorkspaceId::generate()),
        }
    }

    async fn ping(&self) {
        let answer: String = self.ping.ping(None).await.expect("Redis answers");
        black_box(answer);
    }

    async fn lock(&self, locks: &dyn LockManager) {
        let lease = locks
            .acquire(&self.name, LockClass::Write, Duration::ZERO)
            .await;
        let lease = black_box(lease.expect("it is free"));
        lease.release().await.expect("it was held until now");
    }
}

fn bench_uncontended(criterion: &mut Criterion) {
    let testbed = Testbed::start(&Options::default()).expect("private servers start");
    let runtime = Runtime::new().expect("a runtime");
    let contest = runtime.block_on(Contest::prepare(&testbed.redis_url()));
    let mut group = criterion.benchmark_group("uncontended");
    group.bench_function("a PING's round trip", |bencher| {
        bencher.iter(|| runtime.block_on(contest.ping()));
    });
    group.bench_function("Redis: acquire and release", |bencher| {
        bencher.iter(|| runtime.block_on(contest.lock(&contest.redis)));
    });
    group.bench_function("one process: acquire and release", |bencher| {
        bencher.iter(|| runtime.block_on(contest.lock(&contest.local)));
    });
    group.finish();
    runtime.block_on(print_ratios(&contest));
}

/// The three take turns, so that whatever the machine does meanwhile hits all alike.
async fn print_ratios(contest: &Contest) {
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        contest.ping().await;
        times[0].push(begun.elapsed());
        let begun = Instant::now();
        contest.lock(&contest.redis).await;
        times[1].push(begun.elapsed());
        let begun = Instant::now();
        contest.lock(&contest.local).await;
        times[2].push(begun.elapsed());
    }
    for times in &mut times {
        times.sort_unstable();
    }
    let median = |times: &[Duration]| times[ROUNDS / 2];
    let ping = median(&times[0]).as_secs_f64();
    for (name, times) in [("Redis", &times[1]), ("one process", &times[2])] {
        let ratio = median(times).as_secs_f64() / ping;
        let (p50, p99) = (median(times), times[ROUNDS * 99 / 100]);
        eprintln!(
            "{name}: acquire and release take {ratio:.2} times a PING's round trip (p50 {p50:?}, p99 {p99:?})"
        );
    }
}

criterion_group!(benches, bench_uncontended);
criterion_main!(benches);
