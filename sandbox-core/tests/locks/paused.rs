//! A holder that is paused beyond its lease, by SIGSTOP: a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use unstall_sandbox_core::domain::WorkspaceId;
use unstall_sandbox_core::locks::{BootClock, Clock};
use unstall_sandbox_core::ports::locks::LockClass::Write;
use unstall_sandbox_core::ports::locks::{LockError, LockManager, LockName};
use uuid::Uuid;

use super::managers::{PATIENCE, connect, shared_testbed, short_times};

const REDIS: &str = "UNSTALL_TEST_HOLDER_REDIS";
const WORKSPACE: &str = "UNSTALL_TEST_HOLDER_WORKSPACE";
/// Begins each line that the holder writes for its observer.
const MARK: &str = "holder:";

/// The holder's process, killed when it is dropped.
struct Holder {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Holder {
    /// Starts this test program again, with nothing but the holder's part.
    fn start(redis_url: &str, workspace: WorkspaceId) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["--exact", "paused::the_holders_part", "--nocapture"])
            .env(REDIS, redis_url)
            .env(WORKSPACE, workspace.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("stderr is piped"));
        Self { child, lines }
    }

    /// The number that the holder says next.
    fn says(&mut self, what: &str) -> u64 {
        let mut line = String::new();
        loop {
            line.clear();
            let count = self.lines.read_line(&mut line).expect("text");
            assert!(count > 0, "the holder ended without having said {what}");
            if let Some(said) = line.trim_end().strip_prefix(MARK) {
                let number = said.strip_prefix(what).expect("it says what is due");
                return number.trim().parse().expect("a number");
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("it is our child");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Either may fail because it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn now_us() -> u64 {
    u64::try_from(BootClock.elapsed().as_micros()).expect("a short time")
}

/// What the holder's process does; without its variables, in the ordinary run, nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holders_part() {
    let (Ok(redis_url), Ok(workspace)) = (std::env::var(REDIS), std::env::var(WORKSPACE)) else {
        return;
    };
    let workspace = WorkspaceId::from_uuid(Uuid::parse_str(&workspace).expect("an id"));
    let locks = connect(&redis_url, short_times()).await;
    let name = LockName::workspace_command(workspace);
    let lease = locks.acquire(&name, Write, PATIENCE).await;
    let lease = lease.expect("it is free");
    let mut last_us = 0;
    let work = async {
        for _ in 0_u64.. {
            last_us = now_us();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    eprintln!("{MARK}holds {}", lease.token());
    let outcome: Result<(), LockError> = lease.run(work).await;
    assert!(
        matches!(outcome, Err(LockError::Lost { .. })),
        "{outcome:?}"
    );
    eprintln!("{MARK}stopped {last_us}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_holder_does_nothing_after_another_has_the_lock() {
    let redis_url = shared_testbed().redis_url();
    let workspace = WorkspaceId::generate();
    let mut holder = Holder::start(&redis_url, workspace);
    let its_token = holder.says("holds");
    let locks = connect(&redis_url, short_times()).await;
    holder.signal(Signal::SIGSTOP);
    let name = LockName::workspace_command(workspace);
    let lease = locks.acquire(&name, Write, PATIENCE).await;
    let lease = lease.expect("a paused holder's lease ends");
    let taken_us = now_us();
    assert!(lease.token().get() > its_token);
    holder.signal(Signal::SIGCONT);
    let last_us = holder.says("stopped");
    assert!(
        last_us < taken_us,
        "it worked on {} µs later",
        last_us - taken_us
    );
    assert!(!lease.is_lost());
    lease
        .release()
        .await
        .expect("the other one's end gave nothing back");
}
