//! Runtimes end when they are told to, when nobody has them any more, and when whoever made them dies.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use unstall_sandbox_core::domain::{RuntimeState, SandboxError};

use crate::machine::{LONG, Machine, mark, processes_with, says, shell, wait_for_processes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_runtime_runs_nothing_and_starts_again_with_its_tree() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    says(&*runtime, "echo kept > file; echo gone > /tmp/file").await;
    let mark = mark();
    let command = shell(&format!("sleep {mark}"));
    let (ended, ()) = tokio::join!(runtime.exec(command), async {
        wait_for_processes(&mark, 1).await;
        runtime.stop().await.expect("it stops");
        assert_eq!(
            processes_with(&mark),
            0,
            "something runs in a stopped runtime"
        );
    });
    assert!(
        matches!(ended, Err(SandboxError::NotRunning { .. })),
        "{ended:?}"
    );
    assert_eq!(
        runtime.state().await.expect("a state"),
        RuntimeState::Stopped
    );
    let refused = runtime.exec(shell("true")).await;
    assert!(matches!(refused, Err(SandboxError::NotRunning { .. })));
    runtime.start().await.expect("it starts");
    runtime.start().await.expect("it runs already");
    assert_eq!(
        says(&*runtime, "cat file; cat /tmp/file 2>/dev/null || echo new").await,
        "kept\nnew"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_was_killed_says_so_and_can_be_started_again() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let mark = mark();
    let events = runtime
        .stream(shell(&format!("sleep {mark}")))
        .await
        .expect("it begins");
    wait_for_processes(&mark, 1).await;
    // Its first process is the grandparent of the command: command, first of its namespace, supervisor.
    let supervisor = ancestor(&mark, 2);
    kill(Pid::from_raw(supervisor), Signal::SIGKILL).expect("it is killed");
    wait_for_processes(&mark, 0).await;
    let begun = Instant::now();
    while runtime.state().await.expect("a state") != RuntimeState::Failed {
        assert!(begun.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(events);
    runtime.start().await.expect("it starts");
    assert_eq!(says(&*runtime, "echo again").await, "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_prepared_for_the_next_command_may_be_killed() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let mark = mark();
    let script = format!("sleep {mark}");
    let events = runtime.stream(shell(&script)).await.expect("it begins");
    wait_for_processes(&mark, 1).await;
    let supervisor = ancestor(&mark, 2);
    drop(events);
    wait_for_processes(&mark, 0).await;
    assert_eq!(says(&*runtime, "echo before").await, "before");
    let begun = Instant::now();
    let prepared = loop {
        if let [prepared] = children(supervisor)[..] {
            break prepared;
        }
        assert!(begun.elapsed() < LONG, "nothing is prepared");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    kill(Pid::from_raw(prepared), Signal::SIGKILL).expect("it is killed");
    while !children(supervisor).is_empty() {
        assert!(begun.elapsed() < LONG, "it isn't waited for");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(says(&*runtime, "echo after").await, "after");
    assert_eq!(says(&*runtime, "echo and").await, "and");
}

fn children(parent: i32) -> Vec<i32> {
    let listed = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let listed = listed.expect("it runs");
    let numbers = listed.split_whitespace();
    numbers
        .map(|number| number.parse().expect("a number"))
        .collect()
}

/// The parent's parent, and so on, of the process with this argument.
fn ancestor(argument: &str, generations: u32) -> i32 {
    let entries = std::fs::read_dir("/proc").expect("it is there").flatten();
    let mut found = entries.filter_map(|entry| {
        let arguments = std::fs::read(entry.path().join("cmdline")).ok()?;
        let has = arguments
            .split(|byte| *byte == 0)
            .any(|part| part == argument.as_bytes());
        has.then(|| entry.file_name().to_string_lossy().parse::<i32>().ok())
            .flatten()
    });
    let mut pid = found.next().expect("it runs");
    let parent = |pid: i32| -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let (_, rest) = stat.rsplit_once(") ").expect("its name ends");
        rest.split(' ')
            .nth(1)
            .and_then(|parent| parent.parse().ok())
            .expect("a number")
    };
    // The shell may have become the sleep itself, or have it as a child.
    if std::fs::read(format!("/proc/{}/cmdline", parent(pid)))
        .is_ok_and(|line| line.starts_with(b"sh\0"))
    {
        pid = parent(pid);
    }
    for _ in 0..generations {
        pid = parent(pid);
    }
    pid
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_nobody_has_any_more_ends() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let mark = mark();
    let events = runtime
        .stream(shell(&format!("sleep {mark}")))
        .await
        .expect("it begins");
    wait_for_processes(&mark, 1).await;
    drop(machine);
    drop(runtime);
    wait_for_processes(&mark, 0).await;
    drop(events);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_is_dropped_while_it_is_made_leaves_nothing() {
    let machine = Machine::bubblewrap().await;
    for delay_ms in 0..15 {
        let mut spec = machine.spec();
        let mark = mark();
        spec.mounts[0].target = format!("/mnt/{mark}").into();
        spec.workdir = spec.mounts[0].target.clone();
        let making = machine.provider.create(&spec);
        let made = tokio::time::timeout(Duration::from_millis(delay_ms), making).await;
        if let Ok(made) = made {
            let name = made.expect("it is made").backend_id().clone();
            machine
                .provider
                .destroy(&name)
                .await
                .expect("it is destroyed");
        }
        // The target is an argument of bwrap.
        wait_for_processes(&format!("/mnt/{mark}"), 0).await;
    }
    assert!(
        machine
            .provider
            .list(&Default::default())
            .await
            .expect("a list")
            .is_empty()
    );
}

/// Run as a program of its own by the test below: makes a runtime, starts a command, and waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test below, which kills it"]
async fn holds_a_runtime_until_it_is_killed() {
    let Ok(mark) = std::env::var("UNSTALL_TEST_MARK") else {
        return;
    };
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let script = format!("setsid sleep {mark} & sleep {mark}");
    let _events = runtime.stream(shell(&script)).await.expect("it begins");
    wait_for_processes(&mark, 2).await;
    eprintln!("begun");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runtimes_die_with_the_process_that_made_them() {
    let mark = mark();
    let program = std::env::current_exe().expect("a path");
    let mut worker = Command::new(program)
        .args([
            "--ignored",
            "--exact",
            "lifecycle::holds_a_runtime_until_it_is_killed",
            "--nocapture",
        ])
        .env("UNSTALL_TEST_MARK", &mark)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let said = BufReader::new(worker.stderr.take().expect("a pipe"));
    let begun = said
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("begun"));
    assert!(begun, "the worker never began");
    worker.kill().expect("it is killed");
    worker.wait().expect("it ends");
    wait_for_processes(&mark, 0).await;
    // The next start finds and removes the groups of the one that is gone.
    let _machine = Machine::bubblewrap().await;
    let own = format!("unstall-sandbox-{}-", worker.id());
    let left = std::fs::read_dir("/sys/fs/cgroup/memory")
        .into_iter()
        .flatten()
        .flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own));
    assert_eq!(left.count(), 0);
}

/// Run as a program of its own by the test below: makes runtimes and ends them, for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test below, which kills it"]
async fn makes_runtimes_until_it_is_killed() {
    let Ok(mark) = std::env::var("UNSTALL_TEST_MARK") else {
        return;
    };
    let machine = Machine::bubblewrap().await;
    eprintln!("begun");
    loop {
        let mut spec = machine.spec();
        spec.mounts[0].target = format!("/mnt/{mark}").into(); // an argument of bwrap
        spec.workdir = spec.mounts[0].target.clone();
        let runtime = machine.make(&spec).await;
        says(&*runtime, &format!("sleep {mark} & true")).await;
        let destroyed = machine.provider.destroy(runtime.backend_id()).await;
        destroyed.expect("it is destroyed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_at_any_moment_leaves_no_process() {
    let program = std::env::current_exe().expect("a path");
    for round in 0..20 {
        let mark = mark();
        let mut worker = Command::new(&program)
            .args([
                "--ignored",
                "--exact",
                "lifecycle::makes_runtimes_until_it_is_killed",
                "--nocapture",
            ])
            .env("UNSTALL_TEST_MARK", &mark)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = BufReader::new(worker.stderr.take().expect("a pipe"));
        let mut line = String::new();
        while !line.contains("begun") {
            line.clear();
            assert_ne!(said.read_line(&mut line).expect("it reads"), 0, "it ended");
        }
        // Some rounds end within the making of the first runtime, others later.
        tokio::time::sleep(Duration::from_micros(round * 1700)).await;
        worker.kill().expect("it is killed");
        worker.wait().expect("it ends");
        wait_for_processes(&format!("/mnt/{mark}"), 0).await;
        wait_for_processes(&mark, 0).await;
    }
}
