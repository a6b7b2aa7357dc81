//! Proof by the loop monitor that running commands holds no loop: no system call of a poll can block.

use std::process::Command;
use std::time::Duration;

use futures_util::StreamExt;
use unstall_loop_monitor::certificate::ProofMethod;
use unstall_loop_monitor::prove::{assert_never_blocks, method};

use crate::machine::{Machine, says, shell};

/// Times that each call is made.
const ROUNDS: u32 = 20;

async fn use_all(machine: &Machine) {
    let runtime = machine.runtime().await;
    for _ in 0..ROUNDS {
        says(&*runtime, "head -c 200000 /dev/zero | tr '\\0' x").await;
        let mut request = shell("cat");
        request.stdin = Some(vec![b'a'; 200_000]);
        runtime.exec(request).await.expect("it runs");
        let events = runtime.stream(shell("echo out; echo err >&2")).await;
        events.expect("it begins").for_each(async |_| {}).await;
    }
    let mut late = shell("sleep 60");
    late.timeout = Duration::from_millis(50);
    assert!(runtime.exec(late).await.expect("it runs").timed_out);
    drop(runtime.stream(shell("sleep 60")).await.expect("it begins"));
    runtime.stop().await.expect("it stops");
    runtime.start().await.expect("it starts");
    let destroyed = machine.provider.destroy(runtime.backend_id()).await;
    destroyed.expect("it is destroyed");
}

/// Run as a program of its own by the test below: beside other tests, it would be told of waits for the
/// allocator's locks, which are theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test below, alone in its process"]
async fn uses_runtimes_under_proof() {
    assert_eq!(
        method(),
        ProofMethod::SyscallUserDispatch,
        "the kernel must catch calls"
    );
    let machine = Machine::bubblewrap().await;
    assert_never_blocks(use_all(&machine)).await;
}

#[test]
fn no_use_of_runtimes_makes_a_call_that_can_block() {
    let program = std::env::current_exe().expect("a path");
    let test = "proof::uses_runtimes_under_proof";
    let proved = Command::new(program)
        .args(["--ignored", "--exact", test, "--nocapture"])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&proved.stderr);
    assert!(proved.status.success(), "{said}");
    let counted = String::from_utf8_lossy(&proved.stdout);
    assert!(counted.contains("1 passed"), "{counted}");
}
