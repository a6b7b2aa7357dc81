//! `unstall prove --pid`: a process that runs is traced, for people and for programs.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_unstall");

/// A loop that makes one call that can block in every turn.
const LOOP: &str = "
import asyncio, time
async def main():
    print('ready', flush=True)
    while True:
        time.sleep(0.0001)
        await asyncio.sleep(0.01)
asyncio.run(main())
";

struct Target(Child);

impl Target {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .args(["-c", LOOP])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("ready");
        Self(child)
    }

    fn prove(&self, more: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(["prove", "--pid", &self.0.id().to_string()])
            .args(more);
        command
    }

    fn is_traced(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        !status.expect("it runs").contains("TracerPid:\t0\n")
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn people_get_a_certificate_at_the_end() {
    let target = Target::start();
    let output = target
        .prove(&["--duration", "1s"])
        .output()
        .expect("it runs");
    let page = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.contains("Proof by tracing"), "{page}");
    assert!(page.contains("sleep in clock_nanosleep"), "{page}");
    assert!(page.contains("at <string>:6 (main)"), "{page}");
    assert!(!target.is_traced());
}

#[test]
fn programs_get_a_line_per_event() {
    let target = Target::start();
    let mut command = target.prove(&["--events", "--duration", "1s"]);
    let output = command.output().expect("it runs");
    let lines = String::from_utf8_lossy(&output.stdout);
    let events = lines.lines().map(|line| {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(event["mono_ns"].as_u64().is_some(), "{line}");
        event["event"].as_str().expect("a name").to_owned()
    });
    let events: Vec<String> = events.collect();
    assert_eq!(events.first().map(String::as_str), Some("ready"), "{lines}");
    assert_eq!(events.last().map(String::as_str), Some("end"), "{lines}");
    assert!(events.iter().any(|event| event == "finding"), "{lines}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_tracer_that_is_killed_leaves_the_process_running() {
    let target = Target::start();
    let mut command = target.prove(&["--events"]);
    let mut tracer = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    let output = tracer.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("ready");
    assert!(target.is_traced(), "{line}");
    tracer.kill().expect("it runs");
    tracer.wait().expect("it ends");
    while target.is_traced() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = target
        .prove(&["--duration", "1s"])
        .output()
        .expect("it runs");
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(page.contains("clock_nanosleep"), "it goes on: {page}");
}

#[test]
fn a_process_that_isn_t_there_is_a_mistake() {
    let target = Target::start();
    let mut gone = target.prove(&[]);
    drop(target);
    let output = gone.output().expect("it runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("doesn't run"), "{message}");
}

#[test]
fn whoever_interrupts_before_a_loop_was_found_is_not_kept_waiting() {
    let mut sleeper = Command::new("sleep").arg("100").spawn().expect("sleep");
    let pid = sleeper.id().to_string();
    let mut command = Command::new(PROGRAM);
    command
        .args(["prove", "--pid", &pid])
        .stderr(Stdio::piped());
    let mut tracer = command.spawn().expect("it runs");
    let id = nix::unistd::Pid::from_raw(tracer.id().cast_signed());
    // Once it catches the signal it says so, whenever that is.
    let mut words = BufReader::new(tracer.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !catches_interrupts(tracer.id()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).expect("it runs");
    std::io::Read::read_to_string(&mut words, &mut said).expect("it says something");
    assert_eq!(tracer.wait().expect("it ends").code(), Some(2), "{said}");
    assert!(said.contains("this is what was found"), "{said}");
    assert!(said.contains("stopped before"), "{said}");
    sleeper.kill().expect("it runs");
    sleeper.wait().expect("it ends");
}

/// SIGINT is the second bit of `SigCgt` in proc(5)'s status.
fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.expect("a mask").trim(), 16).expect("a mask");
    caught & 2 != 0
}
