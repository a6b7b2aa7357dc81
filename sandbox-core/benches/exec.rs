//! What a command costs in a live runtime, beside a plain process and beside `bwrap` for each command:
//! the promise is a median under 3 ms.
//!
//! At the end the ratios are printed, of calls that took turns in one run.

#![expect(
    clippy::disallowed_methods,
    reason = "a plain process is what commands are compared with"
)]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::{ImageName, RuntimeId};
use unstall_sandbox_core::ports::runtimes::{
    Environment, ExecRequest, Labels, LiveRuntime, Mount, Network, Resources, RuntimeProvider,
    RuntimeSpec,
};
use unstall_sandbox_core::runtime::{
    Bubblewrap, BubblewrapSettings, Subprocesses, SupervisorProgram,
};

/// Rounds in which each contestant has its turn, for the ratios.
const ROUNDS: usize = 300;

/// The command is as small as any, so that what is measured is what it takes to run it.
const COMMAND: &str = "/usr/bin/true";

/// What is compared.
struct Contest {
    provider: Bubblewrap,
    live: Arc<dyn LiveRuntime>,
    plain: Arc<dyn LiveRuntime>,
    tree: TempDir,
}

impl Contest {
    async fn prepare() -> Self {
        let program = SupervisorProgram::at(env!("CARGO_BIN_EXE_unstall-sandbox"));
        let pool = BlockingPool::new(2).expect("two threads");
        let settings = BubblewrapSettings::new(program);
        let provider = Bubblewrap::probe(settings, pool.clone()).await;
        let provider = provider.expect("bwrap makes a runtime here");
        let tree = tempfile::tempdir().expect("a folder");
        let live = provider.create(&spec(&tree)).await;
        let plain = Subprocesses::for_tests(pool).expect("a kind");
        let plain = plain.create(&spec(&tree)).await;
        Self {
            live: live.expect("a runtime"),
            plain: plain.expect("a runtime"),
            provider,
            tree,
        }
    }

    async fn create_and_destroy(&self) {
        let runtime = self.provider.create(&spec(&self.tree)).await;
        let runtime = runtime.expect("a runtime");
        let destroyed = self.provider.destroy(runtime.backend_id()).await;
        destroyed.expect("it is destroyed");
    }
}

fn spec(tree: &TempDir) -> RuntimeSpec {
    RuntimeSpec {
        id: RuntimeId::generate(),
        image: ImageName::parse("machine").expect("a name"),
        workdir: tree.path().to_path_buf(),
        mounts: vec![Mount {
            source: tree.path().to_path_buf(),
            target: tree.path().to_path_buf(),
            writable: true,
        }],
        env: Environment::default(),
        resources: Resources::default(),
        network: Network::None,
        labels: Labels::new(),
    }
}

async fn exec(runtime: &dyn LiveRuntime) {
    let result = runtime.exec(ExecRequest::new([COMMAND])).await;
    assert_eq!(result.expect("it runs").exit_code, 0);
}

/// A process by the standard library, on this thread, its output collected.
fn fork_and_exec() {
    let output = Command::new(COMMAND).stdin(Stdio::null()).output();
    assert!(output.expect("it runs").status.success());
}

/// The same namespaces and mounts for one command, as is usual without a supervisor.
fn bwrap() {
    let output = Command::new("/usr/bin/bwrap")
        .args(["--unshare-all", "--die-with-parent", "--new-session"])
        .args(["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"])
        .args([
            "--symlink",
            "usr/lib",
            "/lib",
            "--symlink",
            "usr/lib64",
            "/lib64",
        ])
        .args([
            "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", COMMAND,
        ])
        .stdin(Stdio::null())
        .output();
    assert!(output.expect("it runs").status.success());
}

fn bench_exec(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let contest = runtime.block_on(Contest::prepare());
    let mut group = criterion.benchmark_group("exec");
    group.bench_function("fork and exec", |bencher| bencher.iter(fork_and_exec));
    group.bench_function("bwrap for each command", |bencher| bencher.iter(bwrap));
    group.bench_function("plain subprocess runtime", |bencher| {
        bencher.iter(|| runtime.block_on(exec(&*contest.plain)));
    });
    group.bench_function("live bubblewrap runtime", |bencher| {
        bencher.iter(|| runtime.block_on(exec(&*contest.live)));
    });
    group.bench_function("create and destroy a runtime", |bencher| {
        bencher.iter(|| runtime.block_on(contest.create_and_destroy()));
    });
    group.finish();
    print_ratios(&runtime, &contest);
}

/// All take turns, so that whatever the machine does meanwhile hits all alike.
fn print_ratios(runtime: &Runtime, contest: &Contest) {
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        fork_and_exec();
        times[0].push(begun.elapsed());
        let begun = Instant::now();
        runtime.block_on(exec(&*contest.live));
        times[1].push(begun.elapsed());
        let begun = Instant::now();
        bwrap();
        times[2].push(begun.elapsed());
        let begun = Instant::now();
        runtime.block_on(contest.create_and_destroy());
        times[3].push(begun.elapsed());
    }
    for times in &mut times {
        times.sort_unstable();
    }
    let median = |times: &[Duration]| times[ROUNDS / 2];
    let floor = median(&times[0]).as_secs_f64();
    let names = [
        "fork and exec",
        "exec in a live runtime",
        "bwrap for each command",
        "creating and destroying a runtime",
    ];
    for (name, times) in names.into_iter().zip(&times) {
        let ratio = median(times).as_secs_f64() / floor;
        let (p50, p99) = (median(times), times[ROUNDS * 99 / 100]);
        eprintln!("{name}: {ratio:.2} times a fork and exec (p50 {p50:?}, p99 {p99:?})");
    }
}

criterion_group!(benches, bench_exec);
criterion_main!(benches);
