//! What a runtime may use, and that it is no more.

use unstall_sandbox_core::ports::runtimes::{ExecRequest, LiveRuntime, Resources};

use crate::machine::{LONG, Machine, run, says};

async fn python(runtime: &dyn LiveRuntime, script: &str) -> (i32, String) {
    let mut request = ExecRequest::new(["python3", "-c", script]);
    request.timeout = LONG;
    let result = runtime.exec(request).await.expect("it runs");
    (
        result.exit_code,
        result.stdout.text() + &result.stderr.text(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_all_commands_is_limited_and_the_runtime_survives_it() {
    let machine = Machine::bubblewrap().await;
    let mut spec = machine.spec();
    spec.resources = Resources {
        memory_mb: Some(96),
        ..Resources::default()
    };
    let runtime = machine.make(&spec).await;
    assert_eq!(
        python(&*runtime, "print(len(bytearray(10 << 20)))").await.0,
        0
    );
    let (exit_code, said) = python(&*runtime, "print(len(bytearray(300 << 20)))").await;
    assert_ne!(exit_code, 0, "{said}");
    assert_eq!(says(&*runtime, "echo still").await, "still");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_are_limited_so_that_a_fork_bomb_is_only_its_own_trouble() {
    let machine = Machine::bubblewrap().await;
    if !machine.provider.capabilities().isolation.cgroup {
        eprintln!("skipped: no control groups can be made here");
        return;
    }
    let mut spec = machine.spec();
    spec.resources = Resources {
        processes_max: Some(20),
        ..Resources::default()
    };
    let runtime = machine.make(&spec).await;
    let script = "import os, time\nmade = 0\ntry:\n  while made < 200:\n    if os.fork() == 0:\n      time.sleep(60)\n    made += 1\nexcept OSError:\n  pass\nprint(made)";
    let (exit_code, said) = python(&*runtime, script).await;
    assert_eq!(exit_code, 0, "{said}");
    let made: u32 = said.trim().parse().expect("a number");
    assert!(made < 20, "{made} processes");
    assert_eq!(says(&*runtime, "echo still").await, "still");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processor_time_is_limited_where_it_is_said_to_be() {
    let machine = Machine::bubblewrap().await;
    if !machine.provider.capabilities().isolation.cpu {
        eprintln!("skipped: no control group limits processor time here");
        return;
    }
    let mut spec = machine.spec();
    spec.resources = Resources {
        cpu_milli: Some(200),
        ..Resources::default()
    };
    let runtime = machine.make(&spec).await;
    let script = "import time\nbegan = time.monotonic()\nwhile time.monotonic() - began < 2:\n  pass\nprint(time.process_time() / (time.monotonic() - began))";
    let (exit_code, said) = python(&*runtime, script).await;
    assert_eq!(exit_code, 0, "{said}");
    let share: f64 = said.trim().parse().expect("a number");
    assert!(share < 0.5, "{share} of a processor instead of 0.2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_core_dumps_are_limited() {
    let machine = Machine::bubblewrap().await;
    assert!(machine.provider.capabilities().isolation.file_size);
    let mut spec = machine.spec();
    spec.resources = Resources {
        file_mb: Some(1),
        ..Resources::default()
    };
    let runtime = machine.make(&spec).await;
    let result = run(&*runtime, "head -c 3000000 /dev/zero > big").await;
    assert_ne!(result.exit_code, 0);
    let size = std::fs::metadata(machine.tree().join("big")).map(|big| big.len());
    assert_eq!(size.ok(), Some(1 << 20));
    assert_eq!(says(&*runtime, "ulimit -c; ulimit -Hc").await, "0\n0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destroyed_runtime_leaves_no_control_group() {
    let machine = Machine::bubblewrap().await;
    let mut spec = machine.spec();
    spec.resources = Resources {
        cpu_milli: Some(500),
        memory_mb: Some(200),
        processes_max: Some(50),
        file_mb: None,
    };
    let groups = || {
        let name = spec.id.to_string();
        let trees = std::fs::read_dir("/sys/fs/cgroup")
            .into_iter()
            .flatten()
            .flatten();
        let folders = trees.flat_map(|tree| walk(&tree.path(), 3));
        folders.filter(|folder| folder.ends_with(&name)).count()
    };
    let runtime = machine.make(&spec).await;
    says(&*runtime, "true").await;
    if machine.provider.capabilities().isolation.cgroup {
        assert!(groups() > 0);
    }
    machine
        .provider
        .destroy(runtime.backend_id())
        .await
        .expect("it is destroyed");
    assert_eq!(groups(), 0);
}

fn walk(folder: &std::path::Path, depth: u32) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names = Vec::new();
    for entry in folders {
        names.push(entry.file_name().to_string_lossy().into_owned());
        if depth > 0 {
            names.extend(walk(&entry.path(), depth - 1));
        }
    }
    names
}
