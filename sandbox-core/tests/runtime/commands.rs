//! What holds for commands in any runtime.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use unstall_sandbox_core::domain::{RuntimeState, SandboxError};
use unstall_sandbox_core::ports::runtimes::{Environment, ExecEvent, ExecRequest, OutputStream};

use crate::machine::{
    LONG, Machine, mark, path, refused, run, says, shell, texts, wait_for_processes,
};

pub(crate) async fn a_command_answers_its_code_and_both_of_its_streams(machine: Machine) {
    let runtime = machine.runtime().await;
    let result = run(&*runtime, "printf out; printf err >&2; exit 3").await;
    assert_eq!(result.exit_code, 3);
    assert_eq!(result.stdout.text(), "out");
    assert_eq!(result.stderr.text(), "err");
    assert!(!result.timed_out && !result.truncated);
}

pub(crate) async fn a_signal_is_told_as_shells_tell_it(machine: Machine) {
    let runtime = machine.runtime().await;
    let result = run(&*runtime, "kill -TERM $$").await;
    assert_eq!(result.exit_code, 128 + 15);
}

pub(crate) async fn a_command_reads_its_input_and_then_its_end(machine: Machine) {
    let runtime = machine.runtime().await;
    let mut request = ExecRequest::new(["wc", "-c"]);
    request.stdin = Some(vec![b'a'; 300_000]); // more than a pipe holds
    let result = runtime.exec(request).await.expect("it runs");
    assert_eq!(result.stdout.text().trim(), "300000");
    let without = runtime.exec(ExecRequest::new(["wc", "-c"])).await;
    assert_eq!(without.expect("it runs").stdout.text().trim(), "0");
}

pub(crate) async fn input_that_nobody_reads_is_no_error(machine: Machine) {
    let runtime = machine.runtime().await;
    let mut request = ExecRequest::new(["true"]);
    request.stdin = Some(vec![b'a'; 1 << 20]);
    let result = runtime.exec(request).await.expect("it runs");
    assert_eq!(result.exit_code, 0);
}

pub(crate) async fn a_command_starts_where_it_is_told_and_has_its_environment(machine: Machine) {
    std::fs::create_dir(machine.tree().join("below")).expect("it is made");
    let mut spec = machine.spec();
    spec.env = Environment::default()
        .with("A", "runtime")
        .with("B", "runtime");
    let runtime = machine.make(&spec).await;
    let mut request = shell("pwd; echo $A $B");
    request.cwd = Some(path("below"));
    request.env = Environment::default().with("B", "command");
    let result = runtime.exec(request).await.expect("it runs");
    let below = machine.tree().join("below");
    let expected = format!("{}\nruntime command\n", below.display());
    assert_eq!(result.stdout.text(), expected);
    assert_eq!(
        says(&*runtime, "pwd").await,
        machine.tree().display().to_string()
    );
}

pub(crate) async fn a_command_that_cannot_begin_says_why(machine: Machine) {
    let runtime = machine.runtime().await;
    std::fs::write(machine.tree().join("plain"), "text").expect("it is written");
    let plain = machine.tree().join("plain");
    let mut with_nul = ExecRequest::new(["echo", "a\0b"]);
    with_nul.env = Environment::default().with("TOKEN", "secret");
    let cases = [
        (ExecRequest::new(["no-such-program"]), "no such program"),
        (ExecRequest::new([plain.as_os_str()]), "may not be executed"),
        (ExecRequest::new(Vec::<OsString>::new()), "no program"),
        (with_nul, "a NUL"),
    ];
    for (request, reason) in cases {
        let error = refused(&*runtime, request).await;
        assert!(
            matches!(error, SandboxError::CommandRejected { .. }),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.contains(reason) && !text.contains("secret"), "{text}");
    }
    assert_eq!(says(&*runtime, "echo still").await, "still");
}

pub(crate) async fn arguments_of_any_bytes_arrive_as_they_were(machine: Machine) {
    let runtime = machine.runtime().await;
    let odd = b"\xff\xfe -> \n\t'\"$(id)".to_vec();
    let mut cmd = texts(["printf", "%s"]);
    cmd.push(OsString::from_vec(odd.clone()));
    let result = runtime.exec(ExecRequest::new(cmd)).await.expect("it runs");
    assert_eq!(result.stdout.head, odd);
}

pub(crate) async fn a_command_that_takes_too_long_is_killed_with_its_group(machine: Machine) {
    let runtime = machine.runtime().await;
    let mark = mark();
    let mut request = shell(&format!("echo begun; sleep {mark} & sleep {mark}"));
    request.timeout = Duration::from_millis(300);
    let result = runtime.exec(request).await.expect("it runs");
    assert!(result.timed_out);
    assert_eq!(result.exit_code, 124);
    assert_eq!(result.stdout.text(), "begun\n");
    wait_for_processes(&mark, 0).await;
    assert_eq!(says(&*runtime, "echo still").await, "still");
}

pub(crate) async fn a_grandchild_that_holds_the_pipe_does_not_hold_the_answer(machine: Machine) {
    let runtime = machine.runtime().await;
    let mark = mark();
    let begun = Instant::now();
    let result = run(&*runtime, &format!("sleep {mark} & echo done")).await;
    assert_eq!(result.stdout.text(), "done\n");
    assert!(begun.elapsed() < LONG);
    wait_for_processes(&mark, 0).await;
}

pub(crate) async fn endless_output_is_drained_and_both_its_ends_are_kept(machine: Machine) {
    let runtime = machine.runtime().await;
    let mut request = shell("echo first; head -c 3000000 /dev/zero | tr '\\0' 'ä'; echo last");
    request.output_bytes_max = 1000;
    let result = runtime.exec(request).await.expect("it runs");
    assert!(result.truncated && result.stdout.is_truncated());
    assert!(!result.stderr.is_truncated());
    let text = result.stdout.text();
    assert!(
        text.starts_with("first\n") && text.ends_with("last\n"),
        "{text}"
    );
    assert!(text.contains("bytes left out"), "{text}");
    let mut request = ExecRequest::new(["yes"]);
    request.timeout = Duration::from_millis(300);
    request.output_bytes_max = 10;
    let result = runtime.exec(request).await.expect("it runs");
    assert!(result.timed_out && result.truncated);
}

pub(crate) async fn output_comes_while_the_command_runs(machine: Machine) {
    let runtime = machine.runtime().await;
    // It waits for the file, which is written only when its first output has come.
    let script = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two >&2; exit 5";
    let mut events = runtime.stream(shell(script)).await.expect("it begins");
    let first = events.next().await.expect("an event").expect("output");
    let ExecEvent::Chunk(chunk) = first else {
        panic!("{first:?} instead of output");
    };
    assert_eq!(
        (chunk.stream, &*chunk.data),
        (OutputStream::Stdout, &b"one\n"[..])
    );
    std::fs::write(machine.tree().join("go"), "").expect("it is written");
    let rest: Vec<_> = events.map(|event| event.expect("an event")).collect().await;
    let [ExecEvent::Chunk(chunk), ExecEvent::Ended(end)] = &rest[..] else {
        panic!("{rest:?}");
    };
    assert_eq!(
        (chunk.stream, &*chunk.data),
        (OutputStream::Stderr, &b"two\n"[..])
    );
    assert_eq!(end.exit_code, 5);
}

pub(crate) async fn a_stream_that_is_dropped_kills_its_command(machine: Machine) {
    let runtime = machine.runtime().await;
    let mark = mark();
    let script = format!("echo begun; sleep {mark}");
    let mut events = runtime.stream(shell(&script)).await.expect("it begins");
    assert!(events.next().await.is_some());
    wait_for_processes(&mark, 1).await;
    drop(events);
    wait_for_processes(&mark, 0).await;
}

pub(crate) async fn many_commands_run_at_a_time(machine: Machine) {
    let runtime = machine.runtime().await;
    let run_one = async |number: u32| {
        let said = says(&*runtime, &format!("sleep 0.05; echo {number}")).await;
        assert_eq!(said, number.to_string());
    };
    join_all((0..40).map(run_one)).await;
}

pub(crate) async fn a_runtime_is_found_by_its_labels_until_it_is_destroyed(machine: Machine) {
    let label = |value: &str| [("workspace".to_owned(), value.to_owned())].into();
    let (mut one, mut other) = (machine.spec(), machine.spec());
    one.labels = label("one");
    other.labels = label("other");
    let runtime = machine.make(&one).await;
    let beside = machine.make(&other).await;
    let again = machine.provider.create(&one).await;
    assert!(matches!(again, Err(SandboxError::AlreadyExists(_))));
    let found = machine.provider.list(&label("one")).await.expect("a list");
    let ids: Vec<_> = found.iter().map(|runtime| runtime.id()).collect();
    assert_eq!(ids, [one.id]);
    let all = machine.provider.list(&Default::default()).await;
    assert_eq!(all.expect("a list").len(), 2);

    let name = runtime.backend_id();
    assert_eq!(
        runtime.state().await.expect("a state"),
        RuntimeState::Running
    );
    machine
        .provider
        .destroy(name)
        .await
        .expect("it is destroyed");
    machine.provider.destroy(name).await.expect("so it stays");
    assert!(
        machine
            .provider
            .get(name)
            .await
            .expect("an answer")
            .is_none()
    );
    assert_eq!(
        runtime.state().await.expect("a state"),
        RuntimeState::Destroyed
    );
    let error = refused(&*runtime, ExecRequest::new(["true"])).await;
    assert!(
        matches!(error, SandboxError::NotRunning { .. }),
        "{error:?}"
    );
    assert!(runtime.start().await.is_err());
    assert_eq!(says(&*beside, "echo lives").await, "lives");
}
