//! A process under trace, through the public door: every call that can block is found with its
//! line, nothing else is, and the process goes on as if nobody looked.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::disallowed_methods,
    reason = "tests wait for the processes that they start"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use unstall_loop_monitor::certificate::{Certificate, RouteVerdict};
use unstall_loop_monitor::outside::tracer::{
    TraceEnd, TraceError, TraceEvent, TraceOptions, TracedThreads, Tracer, WHOLE_LOOP,
};
use unstall_loop_monitor::outside::{Watch, WatchOptions};

const PATIENCE: Duration = Duration::from_secs(60);

/// `tests/traced/loop.py`, running.
struct Target {
    child: Child,
    words: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Target {
    fn start(arguments: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traced/loop.py");
        let mut command = Command::new(python());
        command.arg(script).args(arguments);
        let mut target = Self::of(&mut command);
        assert_eq!(target.answer(), "ready");
        target
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let words = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Self {
            child,
            words,
            answers,
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn trace(&self) -> Tracer {
        Tracer::attach(self.pid(), TraceOptions::default(), Box::new(|_| {})).expect("traced")
    }

    /// Has it do something, and waits until that is done.
    fn perform(&mut self, words: &str) -> String {
        writeln!(self.words, "{words}").expect("it reads");
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }

    fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it runs");
        let after_name = stat.rsplit(") ").next().expect("a state");
        after_name.chars().next().expect("a state")
    }

    fn wait_for_state(&self, states: &[char]) {
        let since = Instant::now();
        while !states.contains(&self.state()) {
            assert!(since.elapsed() < PATIENCE, "it is {}", self.state());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_traced(&self) -> bool {
        let path = format!("/proc/{}/status", self.pid());
        let status = std::fs::read_to_string(path).expect("it runs");
        !status.contains("TracerPid:\t0\n")
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).expect("it runs");
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The environment that `./dev setup` makes beside the built tests, else the machine's.
fn python() -> PathBuf {
    let program = std::env::current_exe().expect("a path");
    let mut places = program
        .ancestors()
        .map(|folder| folder.join("python/bin/python"));
    places
        .find(|python| python.exists())
        .unwrap_or_else(|| PathBuf::from("python3"))
}

/// How often a function of the target made a call.
fn count(certificate: &Certificate, function: &str, syscall: &str) -> u64 {
    let findings = certificate
        .routes
        .values()
        .flat_map(|route| &route.findings);
    let of_it = findings.filter(|finding| {
        let blamed = finding.cause.blamed().expect("a line");
        blamed.function == function && finding.cause.syscall.as_deref() == Some(syscall)
    });
    of_it.map(|finding| finding.count).sum()
}

fn findings(certificate: &Certificate) -> Vec<String> {
    let findings = certificate
        .routes
        .values()
        .flat_map(|route| &route.findings);
    findings.map(|finding| finding.cause.to_string()).collect()
}

#[test]
fn every_call_that_can_block_is_found_however_quick_it_was() {
    let mut target = Target::start(&[]);
    let tracer = target.trace();
    let canaries = [
        ("sleeps", "clock_nanosleep", 800),
        ("reads_a_cached_file", "openat", 400),
        ("asks_a_quick_peer", "recvfrom", 400),
        ("looks_up_a_name", "openat", 400),
        ("syncs_a_file", "fsync", 400),
        ("starts_a_process", "wait4", 400),
        ("waits_for_a_lock", "futex", 400),
        ("polls", "pselect6", 400),
    ];
    for (canary, _, _) in canaries {
        assert_eq!(target.perform(&format!("{canary} 400")), canary);
    }
    let certificate = tracer.finish();
    assert_eq!(certificate.verdict(WHOLE_LOOP), RouteVerdict::Blocking);
    for (canary, syscall, times) in canaries {
        let seen = count(&certificate, canary, syscall);
        // Looking up a name opens what it reads once, besides.
        let is_right = seen == times || canary == "looks_up_a_name" && seen >= times;
        assert!(is_right, "{canary}: {seen} of {times} {syscall}");
    }
    let line = findings(&certificate)
        .into_iter()
        .find(|line| line.contains("fsync"));
    let line = line.expect("fsync is a finding");
    assert!(line.starts_with("I/O in fsync on /"), "{line}");
    assert!(line.contains("from syncs_a_file at "), "{line}");
}

#[test]
fn what_holds_nobody_is_no_finding() {
    for arguments in [&[][..], &["uvloop"]] {
        if arguments == ["uvloop"] && !has_uvloop() {
            skip();
            continue;
        }
        let mut target = Target::start(arguments);
        let tracer = target.trace();
        target.perform("computes 400");
        target.perform("awaits_a_sleep 400");
        target.perform("uses_a_thread 400");
        target.perform("logs 10");
        // From here on the loop waits for the interpreter lock again and again.
        target.perform("spinner");
        target.perform("awaits_a_sleep 40");
        target.perform("computes 40");
        let certificate = tracer.finish();
        assert_eq!(findings(&certificate), Vec::<String>::new());
        let whole = &certificate.routes[WHOLE_LOOP];
        assert!(whole.calls > 0 && whole.log_writes >= 10, "{whole:?}");
        assert!(
            !whole.exemptions.is_empty(),
            "threads are started: {whole:?}"
        );
        // Nobody counted its requests.
        assert_eq!((whole.requests, whole.polls > 0), (0, true));
        assert_eq!(certificate.verdict(WHOLE_LOOP), RouteVerdict::Unproven);
    }
}

#[test]
fn uvloop_s_steps_are_seen_too() {
    if !has_uvloop() {
        skip();
        return;
    }
    let mut target = Target::start(&["uvloop"]);
    let tracer = target.trace();
    target.perform("sleeps 40");
    target.perform("reads_a_cached_file 40");
    let certificate = tracer.finish();
    assert_eq!(count(&certificate, "sleeps", "clock_nanosleep"), 80);
    assert_eq!(count(&certificate, "reads_a_cached_file", "openat"), 40);
}

#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn skip() {
    println!("skipped: no uvloop for {}", python().display());
}

fn has_uvloop() -> bool {
    let status = Command::new(python())
        .args(["-c", "import uvloop"])
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn signals_reach_the_process_unchanged() {
    let mut target = Target::start(&[]);
    let tracer = target.trace();
    target.signal(Signal::SIGUSR1);
    // Real-time signals have no name in most libraries.
    let number = libc::SIGRTMIN() + 3;
    let status = Command::new("kill")
        .args([format!("-{number}"), target.pid().to_string()])
        .status();
    assert!(status.expect("kill").success());
    let expected = format!("computes {} {number}", libc::SIGUSR1);
    let since = Instant::now();
    while target.perform("computes 1") != expected {
        assert!(since.elapsed() < PATIENCE, "signals are lost");
    }
    drop(tracer);
}

#[test]
fn job_control_works_as_ever() {
    let mut target = Target::start(&[]);
    let tracer = target.trace();
    target.signal(Signal::SIGSTOP);
    target.wait_for_state(&['T', 't']);
    writeln!(target.words, "sleeps 5").expect("it reads later");
    thread::sleep(Duration::from_millis(50));
    assert!(
        findings(&tracer.certificate()).is_empty(),
        "it stands still"
    );
    target.signal(Signal::SIGCONT);
    assert_eq!(target.answer(), "sleeps");
    assert_eq!(
        count(&tracer.certificate(), "sleeps", "clock_nanosleep"),
        10
    );
}

#[test]
fn the_process_is_left_running_and_untraced() {
    let mut target = Target::start(&[]);
    let tracer = target.trace();
    assert!(target.is_traced());
    target.perform("thread");
    drop(tracer);
    // It is let go at its next call.
    target.perform("sleeps 1");
    let since = Instant::now();
    while target.is_traced() {
        target.perform("computes 1");
        assert!(since.elapsed() < PATIENCE, "it is still traced");
    }
    assert_eq!(target.perform("sleeps 3"), "sleeps");
    // And may be traced again.
    let tracer = target.trace();
    target.perform("sleeps 3");
    assert_eq!(count(&tracer.certificate(), "sleeps", "clock_nanosleep"), 6);
}

#[test]
fn an_end_is_told_and_left_to_whoever_waits_for_it() {
    let mut target = Target::start(&[]);
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let sink =
        Box::new(move |event: &TraceEvent| told.lock().expect("no panic").push(event.clone()));
    let tracer = Tracer::attach(target.pid(), TraceOptions::default(), sink).expect("traced");
    target.perform("sleeps 1");
    target.signal(Signal::SIGKILL);
    assert_eq!(tracer.wait_for_end(PATIENCE), Some(TraceEnd::Exited));
    let status = target.child.wait().expect("its parent hears of its end");
    assert!(!status.success());
    let events = events.lock().expect("no panic");
    assert!(matches!(events.first(), Some(TraceEvent::Ready { .. })));
    assert!(matches!(events.last(), Some(TraceEvent::End { .. })));
    let found = events
        .iter()
        .filter(|event| matches!(event, TraceEvent::Finding { .. }));
    assert_eq!(found.count(), 2);
}

#[test]
fn another_program_in_its_place_is_told_and_let_go() {
    for arguments in [&[][..], &["threads"]] {
        another_program_is_let_go(Target::start(arguments));
    }
}

/// The thread that becomes it needn't be the first one.
fn another_program_is_let_go(mut target: Target) {
    let tracer = target.trace();
    writeln!(target.words, "exec").expect("it reads");
    assert_eq!(tracer.wait_for_end(PATIENCE), Some(TraceEnd::OtherProgram));
    let since = Instant::now();
    while target.is_traced() {
        assert!(since.elapsed() < PATIENCE, "it is still traced");
        thread::sleep(Duration::from_millis(5));
    }
    target.wait_for_state(&['S']);
}

#[test]
fn a_loop_that_begins_after_the_last_one_ended_is_traced_too() {
    let mut target = Target::start(&["threads"]);
    let tracer = target.trace();
    let found = || {
        let certificate = tracer.certificate();
        let findings = certificate.routes[WHOLE_LOOP].findings.iter();
        findings.map(|finding| finding.count).sum::<u64>()
    };
    target.perform("sleeps 1");
    assert_eq!(found(), 2);
    assert_eq!(target.perform("end"), "ready");
    let since = Instant::now();
    while found() == 2 {
        assert!(since.elapsed() < PATIENCE, "the second loop isn't traced");
        target.perform("sleeps 1");
    }
    assert_eq!(tracer.wait_for_end(Duration::ZERO), None);
}

#[test]
fn what_can_t_be_traced_says_why() {
    let attach = |pid, threads| {
        let options = TraceOptions {
            threads,
            ..TraceOptions::default()
        };
        Tracer::attach(pid, options, Box::new(|_| {})).expect_err("not traced")
    };
    let nobody = attach(u32::MAX >> 1, TracedThreads::Loops);
    assert!(nobody.to_string().contains("doesn't run"), "{nobody}");

    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep");
    let no_python = attach(sleeper.id(), TracedThreads::All);
    assert!(
        matches!(no_python, TraceError::NotPython { .. }),
        "{no_python}"
    );
    let no_loop = attach(sleeper.id(), TracedThreads::Loops);
    assert!(no_loop.to_string().contains("no event loop"), "{no_loop}");
    let options = TraceOptions::default();
    let stopped = Tracer::attach_unless(sleeper.id(), options, Box::new(|_| {}), || true);
    let stopped = stopped.expect_err("given up");
    assert!(matches!(stopped, TraceError::Stopped { .. }), "{stopped}");
    sleeper.kill().expect("it runs");
    sleeper.wait().expect("it ends");

    let target = Target::start(&[]);
    let _first = target.trace();
    let second = attach(target.pid(), TracedThreads::Loops);
    assert!(second.to_string().contains("traces it already"), "{second}");
}

/// Set for the process that is traced: this program again, with one test.
const AS_TARGET: &str = "UNSTALL_TEST_TRACED_WORKERS";

#[test]
fn workers_of_tokio_are_traced_whether_they_wait_for_events_or_not() {
    if std::env::var_os(AS_TARGET).is_some() {
        return run_workers();
    }
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.env(AS_TARGET, "1").args([
        "--exact",
        "workers_of_tokio_are_traced_whether_they_wait_for_events_or_not",
        "--nocapture",
    ]);
    let mut target = Target::of(&mut command);
    while !target.answer().ends_with("ready") {}
    let tracer = target.trace();
    assert_eq!(target.perform("go"), "done");
    let certificate = tracer.finish();
    let sleeps = certificate.routes[WHOLE_LOOP].findings.iter();
    let sleeps = sleeps.filter(|it| it.cause.syscall.as_deref() == Some("clock_nanosleep"));
    let count: u64 = sleeps.map(|finding| finding.count).sum();
    assert_eq!(count, 4 * 25, "{:?}", findings(&certificate));
}

#[expect(clippy::print_stdout, reason = "a program for another test")]
fn run_workers() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime");
    println!("ready");
    let mut word = String::new();
    std::io::stdin().read_line(&mut word).expect("it is asked");
    // All at the same time, so that each has a worker of its own.
    let meeting = Arc::new(std::sync::Barrier::new(4));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let meeting = Arc::clone(&meeting);
            runtime.spawn(async move {
                meeting.wait();
                for _ in 0..25 {
                    thread::sleep(Duration::from_micros(10));
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).expect("no panic");
    }
    println!("done");
    // Until it is ended.
    std::io::stdin().read_line(&mut word).expect("it reads");
}

#[test]
fn a_process_in_a_namespace_of_its_own_is_traced_and_nobody_else() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traced/loop.py");
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--kill-child"])
        .arg(python())
        .arg(script);
    let mut target = Target::of(&mut command);
    if target.answer() != "ready" {
        skip_namespaces();
        return;
    }
    let parent = target.pid();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.expect("the kernel lists them");
    let pid: u32 = children.trim().parse().expect("one child");
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let sink =
        Box::new(move |event: &TraceEvent| told.lock().expect("no panic").push(event.clone()));
    // Its numbers there are 1 and a few more, which are somebody else's here.
    target.perform("thread");
    let tracer = Tracer::attach(pid, TraceOptions::default(), sink).expect("traced");
    target.perform("sleeps 5");
    let certificate = tracer.finish();
    assert_eq!(count(&certificate, "sleeps", "clock_nanosleep"), 10);
    let mut watch = Watch::attach(pid, &WatchOptions::default()).expect("its loop is found");
    assert_eq!(watch.summary().loops.len(), 1);
    let events = events.lock().expect("no panic");
    let Some(TraceEvent::Ready { threads, .. }) = events.first() else {
        panic!("it wasn't told when it was ready: {events:?}");
    };
    let of_it = |tid: &u32| std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
    assert!(
        !threads.is_empty() && threads.iter().all(of_it),
        "{threads:?}"
    );
}

#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn skip_namespaces() {
    println!("skipped: this user can't make a PID namespace (unshare --pid)");
}
