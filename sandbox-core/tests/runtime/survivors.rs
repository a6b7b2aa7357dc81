//! Nothing that a command has started survives it, however it hides.

use std::time::Duration;

use tokio::time::timeout;

use crate::machine::{LONG, Machine, mark, processes_with, says, shell, wait_for_processes};

/// Runs a script until it is late, and finds nothing of it at the moment of the answer.
async fn leaves_nothing(script: impl Fn(&str) -> String) {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let mark = mark();
    let mut request = shell(&script(&mark));
    request.timeout = Duration::from_millis(400);
    let result = runtime.exec(request).await.expect("it runs");
    assert!(result.timed_out);
    assert_eq!(processes_with(&mark), 0, "something is left");
    assert_eq!(says(&*runtime, "echo still").await, "still");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grandchild_in_a_session_of_its_own_dies_with_the_command() {
    leaves_nothing(|mark| format!("setsid setsid sleep {mark} & sleep {mark}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_ignores_every_signal_it_can_dies_with_the_command() {
    leaves_nothing(|mark| {
        format!("trap '' TERM INT HUP QUIT; nohup sh -c \"trap '' TERM; sleep {mark}; sleep {mark}\" & while :; do sleep {mark}; done")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forks_during_the_kill_are_killed_too() {
    // Each starts two more in new sessions, and ends: whoever lists processes is always late.
    leaves_nothing(|mark| {
        format!(
            "f() {{ [ $1 -gt 0 ] && {{ (setsid sh -c 'sleep {mark}' &) ; (f $(($1 - 1)) &) ; (f $(($1 - 1)) &) ; }} ; }} ; f 6; sleep {mark}"
        )
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_leaves_behind_ends_when_it_ends() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let mark = mark();
    let script = format!("setsid nohup sleep {mark} >/dev/null 2>&1 & echo $!");
    assert!(!says(&*runtime, &script).await.is_empty());
    assert_eq!(processes_with(&mark), 0, "a daemon is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_after_a_dropped_one_begins_when_nothing_of_that_is_left() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    for _ in 0..20 {
        let mark = mark();
        let script = format!("setsid sh -c 'while :; do echo x >> log; done' & sleep {mark}");
        let dropped = timeout(Duration::from_millis(30), runtime.exec(shell(&script))).await;
        assert!(dropped.is_err(), "it was to be dropped");
        // Whatever still wrote would write between these.
        let script = "rm -f log; sleep 0.005; [ -e log ] && echo written || echo quiet";
        assert_eq!(says(&*runtime, script).await, "quiet");
        wait_for_processes(&mark, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_see_neither_each_other_nor_what_started_them() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let mark = mark();
    let beside = runtime
        .stream(shell(&format!("sleep {mark}")))
        .await
        .expect("it begins");
    wait_for_processes(&mark, 1).await;
    let seen = says(&*runtime, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await;
    assert!(!seen.contains(&mark), "{seen}");
    // Neither can it do anything to the first process of its own namespace.
    let script = "kill -9 1; [ -w /proc/1/mem ] && cat /proc/1/mem | head -c 1 | wc -c; \
                  cat /proc/1/environ 2>/dev/null | wc -c; echo alive";
    let said = says(&*runtime, script).await;
    assert!(said.ends_with("0\nalive"), "{said}");
    drop(beside);
    wait_for_processes(&mark, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_zombie_is_left_of_many_commands() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    for _ in 0..50 {
        says(&*runtime, "(true &); (setsid true &); true").await;
    }
    let zombies = || {
        let entries = std::fs::read_dir("/proc").expect("it is there").flatten();
        let stats =
            entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        let ours = std::process::id().to_string();
        let supervised: Vec<String> = stats.filter(|stat| stat.contains(") Z ")).collect();
        supervised
            .into_iter()
            .filter(|stat| {
                let parent = stat
                    .rsplit(") Z ")
                    .next()
                    .and_then(|rest| rest.split(' ').next());
                stat.contains("(unstall-sandbox") || parent == Some(&*ours)
            })
            .count()
    };
    let begun = std::time::Instant::now();
    while zombies() > 0 {
        assert!(begun.elapsed() < LONG, "zombies are left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
