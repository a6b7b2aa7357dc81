//! A worker that is stopped by SIGSTOP while its command runs: the command ends with the worker's lease,
//! before another worker's begins in the same tree.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::{SandboxError, WorkspaceId};
use unstall_sandbox_core::locks::{LeaseTimes, RedisLocks};
use unstall_sandbox_core::ports::locks::LockError;
use unstall_sandbox_core::service::ServiceError;
use unstall_sandbox_core::stores::SqliteStore;
use unstall_testbed::{Options, Testbed};
use uuid::Uuid;

use crate::bench::{Bench, run, shell, store_file, worker_in};

const FOLDER: &str = "UNSTALL_TEST_WORKER_FOLDER";
const REDIS: &str = "UNSTALL_TEST_WORKER_REDIS";
const WORKSPACE: &str = "UNSTALL_TEST_WORKER_WORKSPACE";
/// What the worker writes when its command was taken from it.
const LOST: &str = "worker: lost";

/// No test waits longer for what must come; none is decided by it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Leases that end within a test's patience, and not by a busy machine's hiccup.
async fn locks(redis_url: &str) -> Arc<RedisLocks> {
    let times = LeaseTimes::of_length(Duration::from_secs(3)).expect("a length in bounds");
    let connected = RedisLocks::connect(redis_url, times).await;
    Arc::new(connected.expect("Redis answers"))
}

/// The worker's process, killed when it is dropped.
struct Worker {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Worker {
    /// Starts this test program again, with nothing but the worker's part.
    fn start(folder: &Path, redis_url: &str, workspace: WorkspaceId) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let part = "paused::runs_a_command_until_that_is_taken_from_it";
        let mut child = Command::new(program)
            .args(["--ignored", "--exact", part, "--nocapture"])
            .env(FOLDER, folder)
            .env(REDIS, redis_url)
            .env(WORKSPACE, workspace.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("stderr is piped"));
        Self { child, lines }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("it is our child");
    }

    /// Waits until it says that its command was taken from it.
    fn has_lost(&mut self) {
        let mut said = String::new();
        while !said.ends_with(&format!("{LOST}\n")) {
            let count = self.lines.read_line(&mut said).expect("text");
            assert!(count > 0, "the worker ended: {said}");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Either may fail because it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

/// Run as a program of its own by the test below, which stops it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test below, which stops it"]
async fn runs_a_command_until_that_is_taken_from_it() {
    let said = [FOLDER, REDIS, WORKSPACE].map(std::env::var);
    let [Ok(folder), Ok(redis_url), Ok(workspace)] = said else {
        return;
    };
    let folder = Path::new(&folder);
    let store = SqliteStore::open(&store_file(folder)).await;
    let store = Arc::new(store.expect("the file is there"));
    let pool = BlockingPool::new(4).expect("threads");
    let worker = worker_in(folder, store, locks(&redis_url).await, pool, |_| {}).await;
    let id = WorkspaceId::from_uuid(Uuid::parse_str(&workspace).expect("an id"));
    let mut order = shell("setsid sh -c 'while :; do echo x >> log; sleep 0.02; done' & wait");
    order.request.timeout = 10 * PATIENCE;
    let ended = worker.exec(id, order).await;
    assert!(
        matches!(
            ended,
            Err(ServiceError::Lock(LockError::Lost { .. })
                | ServiceError::Sandbox(SandboxError::LockLost { .. }))
        ),
        "{ended:?}"
    );
    eprintln!("{LOST}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_workers_command_ends_before_another_workers_begins() {
    let testbed = Testbed::start(&Options::default()).expect("private servers start");
    let redis_url = testbed.redis_url();
    let bench = Bench::new().await;
    let other = bench
        .worker_on(locks(&redis_url).await, |settings| {
            settings.lock_wait = PATIENCE;
        })
        .await;
    let made = other.get_or_create_workspace(&bench.edits("c")).await;
    let made = made.expect("made");
    let log = other.tree_of(&made).expect("a path").join("log");
    let mut worker = Worker::start(bench.folder.path(), &redis_url, made.id);
    let begun = Instant::now();
    while length(&log) < 20 {
        assert!(begun.elapsed() < PATIENCE, "its command never began");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.signal(Signal::SIGSTOP);
    // One that ran on would write fifty times between these.
    let script = "wc -c < log; sleep 1; wc -c < log";
    let done = run(&other, made.id, script).await;
    let said = done.expect("a stopped worker's lease ends").stdout.text();
    let sizes: Vec<&str> = said.split_whitespace().collect();
    let left = length(&log);
    assert_eq!(sizes, [left.to_string(), left.to_string()], "it ran on");
    worker.signal(Signal::SIGCONT);
    worker.has_lost();
    assert_eq!(length(&log), left, "it wrote once it went on");
    other.close().await.expect("closed");
}
