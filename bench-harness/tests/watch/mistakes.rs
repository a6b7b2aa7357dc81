//! What a user is told when a process can't be watched, or ends meanwhile.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::program::{Service, python, summary_of, watch_command};

const IDLE_LOOP: &str = "import asyncio; asyncio.run(asyncio.sleep(100))";

#[test]
fn a_process_that_is_not_there_is_said_so() {
    let mut gone = Command::new("true").spawn().expect("starts");
    gone.wait().expect("ends");
    let output = watch_command(gone.id()).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains(&format!("process {} doesn't run", gone.id())),
        "{said}"
    );
}

#[test]
fn a_process_without_a_loop_is_said_to_have_none() {
    let service = Service::start(Command::new("sleep").arg("100"));
    let output = watch_command(service.pid()).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in [
        "no event loop was seen",
        "sleep 100",
        "in 5 s",
        "supervisor",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}

#[test]
fn a_process_that_ends_leaves_what_was_seen() {
    let service = Service::start(Command::new(python()).args(["-c", IDLE_LOOP]));
    thread::sleep(Duration::from_secs(1));
    let watch = watch_command(service.pid())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    thread::sleep(Duration::from_secs(2));
    drop(service);
    let output = watch.wait_with_output().expect("ends by itself");
    assert_eq!(output.status.code(), Some(0));
    let summary = summary_of(&output.stdout);
    assert!(
        summary
            .notes
            .iter()
            .any(|note| note.contains("The process ended")),
        "{:?}",
        summary.notes
    );
}

#[test]
fn ctrl_c_sums_up() {
    let service = Service::start(Command::new(python()).args(["-c", IDLE_LOOP]));
    thread::sleep(Duration::from_secs(1));
    let watch = watch_command(service.pid())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    thread::sleep(Duration::from_secs(2));
    let pid = Pid::from_raw(i32::try_from(watch.id()).expect("a pid"));
    kill(pid, Signal::SIGINT).expect("it runs");
    let output = watch.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0));
    let summary = summary_of(&output.stdout);
    assert_eq!(
        (summary.runtime.as_str(), summary.causes.len()),
        ("asyncio", 0)
    );
}
