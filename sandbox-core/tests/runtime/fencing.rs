//! Commands under the lock on their tree: an older holder's are refused or ended, and none outlives its
//! lease, be whoever ordered it stopped or stuck.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::watch;
use unstall_sandbox_core::domain::{FencingToken, LockLoss, SandboxError};
use unstall_sandbox_core::locks::{BootClock, Clock};
use unstall_sandbox_core::ports::locks::LockClass::{self, Read, Write};
use unstall_sandbox_core::ports::locks::{Hold, Reliance};
use unstall_sandbox_core::ports::runtimes::{ExecRequest, ExecResult};

use crate::machine::{LONG, Machine, mark, processes_with, says, shell, wait_for_processes};

/// A script under a lock that can't be lost but to somebody with a newer token.
fn under(class: LockClass, token: u64, script: &str) -> ExecRequest {
    let mut request = shell(script);
    request.hold = Some(Hold {
        class,
        token: FencingToken::new(token),
        reliance: None,
    });
    request
}

/// A script under a lease that ends after that time, unless another end is said.
fn leased(left: Duration, script: &str) -> (watch::Sender<Duration>, ExecRequest) {
    let (lease, said) = watch::channel(BootClock.elapsed() + left);
    let mut request = under(Write, 1, script);
    if let Some(hold) = &mut request.hold {
        hold.reliance = Some(Reliance::new(said));
    }
    (lease, request)
}

/// Two processes that nobody but their namespace's end would end.
fn two_sleepers(mark: &str) -> String {
    format!("setsid sleep {mark} & sleep {mark}")
}

fn loss(result: Result<ExecResult, SandboxError>) -> LockLoss {
    match result {
        Err(SandboxError::LockLost { loss, .. }) => loss,
        other => panic!("expected a lost lock, not {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_holders_command_is_refused() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let exec = async |class: LockClass, token: u64| {
        runtime.exec(under(class, token, "echo ran >> log")).await
    };
    let newer = |given, newest| LockLoss::NewerToken { given, newest };
    exec(Write, 5).await.expect("nobody came before");
    exec(Write, 5).await.expect("it is the same holder's");
    assert_eq!(loss(exec(Write, 4).await), newer(4, 5));
    assert_eq!(loss(exec(Read, 4).await), newer(4, 5));
    exec(Read, 9).await.expect("it came later");
    exec(Read, 8).await.expect("readers share the lock");
    assert_eq!(loss(exec(Write, 6).await), newer(6, 9));
    // Whoever needs no lock is nobody's successor.
    assert_eq!(says(&*runtime, "wc -l < log").await.trim(), "4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_writers_command_begins_when_nothing_of_an_older_holders_is_left() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    for (number, class) in [(1, Write), (3, Read)] {
        let mark = mark();
        let script = format!("setsid sh -c 'while :; do echo x >> log; done' & sleep {mark}");
        let older = runtime.exec(under(class, number, &script));
        let (ended, next) = tokio::join!(older, async {
            wait_for_processes(&mark, 1).await;
            // Whatever still wrote would write between these.
            let script = "rm -f log; sleep 0.05; [ -e log ] && echo written || echo quiet";
            let next = runtime.exec(under(Write, number + 1, script)).await;
            assert_eq!(processes_with(&mark), 0, "something is left");
            next
        });
        assert_eq!(next.expect("it runs").stdout.text(), "quiet\n");
        let expected = LockLoss::NewerToken {
            given: number,
            newest: number + 1,
        };
        assert_eq!(loss(ended), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_reader_ends_older_writers_and_lets_readers_be() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let (writing, reading) = (mark(), mark());
    let write = runtime.exec(under(Write, 1, &two_sleepers(&writing)));
    let (ended, read) = tokio::join!(write, async {
        wait_for_processes(&writing, 2).await;
        let read = runtime.stream(under(Read, 2, &two_sleepers(&reading)));
        let read = read.await.expect("it begins");
        wait_for_processes(&reading, 2).await;
        assert_eq!(processes_with(&writing), 0, "something is left");
        read
    });
    let expected = LockLoss::NewerToken {
        given: 1,
        newest: 2,
    };
    assert_eq!(loss(ended), expected);
    let beside = runtime.exec(under(Read, 3, "echo beside")).await;
    assert_eq!(beside.expect("it runs").stdout.text(), "beside\n");
    assert_eq!(processes_with(&reading), 2, "readers share the lock");
    drop(read);
    wait_for_processes(&reading, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_ends_with_its_lease() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let mark = mark();
    let (lease, request) = leased(Duration::from_secs(1), &two_sleepers(&mark));
    let ended = runtime.exec(request).await;
    assert_eq!(loss(ended), LockLoss::LeaseEnded);
    assert_eq!(processes_with(&mark), 0, "something is left");
    // The next one's has time, though whoever says how much is gone.
    drop(lease);
    let (lease, request) = leased(LONG, "echo next");
    drop(lease);
    let next = runtime.exec(request).await.expect("it runs");
    assert_eq!(next.stdout.text(), "next\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_ends_with_its_lease_though_nobody_looks_at_it() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let mark = mark();
    let (_lease, request) = leased(Duration::from_secs(5), &two_sleepers(&mark));
    let events = runtime.stream(request).await.expect("it begins");
    wait_for_processes(&mark, 2).await;
    wait_for_processes(&mark, 0).await;
    let last = events.collect::<Vec<_>>().await.pop();
    let last = last.expect("it is told");
    assert!(
        matches!(
            last,
            Err(SandboxError::LockLost {
                loss: LockLoss::LeaseEnded,
                ..
            })
        ),
        "{last:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_prolonged_lets_its_command_run_until_it_is_lost() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let mark = mark();
    let first_end = BootClock.elapsed() + Duration::from_secs(5);
    let (lease, request) = leased(Duration::from_secs(4), &two_sleepers(&mark));
    // Nobody reads it meanwhile.
    let events = runtime.stream(request).await.expect("it begins");
    lease.send_replace(BootClock.elapsed() + 10 * LONG);
    wait_for_processes(&mark, 2).await;
    while BootClock.elapsed() < first_end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(processes_with(&mark), 2, "its lease was prolonged");
    lease.send_replace(Duration::ZERO);
    wait_for_processes(&mark, 0).await;
    drop(events);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_never_begins_after_its_lease() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let (_lease, request) = leased(Duration::ZERO, "touch begun");
    assert_eq!(loss(runtime.exec(request).await), LockLoss::LeaseEnded);
    assert_eq!(says(&*runtime, "echo still").await, "still");
    assert!(!machine.tree().join("begun").exists());
}
