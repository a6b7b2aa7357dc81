//! What a user is told who lacks a right: another user's process, a container's seccomp profile, a
//! `/proc` that hides others. This program starts itself with fewer rights and reads what it says.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::disallowed_methods,
    reason = "processes are started and waited for, and no loop is held"
)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use unstall_loop_monitor::outside::tracer::{TraceOptions, Tracer};
use unstall_loop_monitor::outside::{Watch, WatchOptions};
use unstall_loop_monitor::prove;

const LOOP: &str = "
import asyncio, time
async def main():
    print('ready', flush=True)
    while True:
        time.sleep(0.02)
        await asyncio.sleep(0.02)
asyncio.run(main())
";
/// Tells the program that was started with fewer rights whom to look at.
const WHOM: &str = "UNSTALL_TEST_WHOM";
/// A user who has nothing, on every Linux.
const NOBODY: [&str; 4] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

/// A loop that blocks, of the user who runs this test.
struct Target(Child);

impl Target {
    fn start() -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", LOOP]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("ready");
        Self(child)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What one of the ignored tests below says when a launcher starts it.
fn said(launcher: &[&str], test: &str) -> String {
    let target = Target::start();
    // Where it was built may be closed to others.
    let folder = tempfile::tempdir().expect("a folder");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("set");
    let program = folder.path().join("fewer-rights");
    std::fs::copy(std::env::current_exe().expect("a path"), &program).expect("copied");
    let mut command = Command::new(launcher[0]);
    command
        .args(&launcher[1..])
        .arg(&program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(WHOM, target.0.id().to_string())
        .current_dir(folder.path());
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{launcher:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{output:?}");
    said
}

fn forbidding(call: &str, test: &str) -> String {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fewer_rights/forbid.py");
    said(&["python3", &script.to_string_lossy(), call], test)
}

fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can start programs with the rights of others");
    }
    is_root
}

#[track_caller]
fn assert_says(said: &str, words: &[&str]) {
    for words in words {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}

fn whom() -> u32 {
    let whom = std::env::var(WHOM).expect("started by a test here");
    whom.parse().expect("a number")
}

/// To whoever started this program.
fn say(words: &str) {
    let said = std::io::stdout().write_all(words.as_bytes());
    said.expect("somebody reads");
}

#[test]
#[ignore = "started by others with fewer rights"]
fn looks() {
    let watch = match Watch::attach(whom(), &WatchOptions::default()) {
        Err(error) => error.to_string(),
        Ok(mut watch) => {
            let until = Instant::now() + Duration::from_secs(1);
            let is_over = || Instant::now() >= until;
            let summary = watch.run(is_over, Duration::from_secs(9), |_| {});
            format!("{summary:?}")
        }
    };
    let traced = Tracer::attach(whom(), TraceOptions::default(), Box::new(|_| {}));
    let traced = traced.map_or_else(|error| error.to_string(), |_| "traced".to_owned());
    let proves = prove::method();
    say(&format!(
        "watch: {watch}\ntrace: {traced}\nprove: {proves:?}\n"
    ));
}

#[test]
fn another_user_is_told_to_be_the_same_or_to_have_the_right() {
    if !is_root() {
        return;
    }
    let said = said(&NOBODY, "looks");
    let words = ["run as the same user", "CAP_SYS_PTRACE", "--cap-add"];
    for line in ["watch: process", "trace: process"] {
        let line = said.lines().find(|said| said.starts_with(line));
        assert_says(line.unwrap_or(&said), &words);
    }
}

#[test]
fn the_same_user_with_less_privileges_is_not_told_to_be_the_same() {
    if !is_root() {
        return;
    }
    let launcher = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let said = said(&launcher, "looks");
    assert_says(
        &said,
        &["privileges that this program lacks", "CAP_SYS_PTRACE"],
    );
    assert!(!said.contains("run as the same user"), "{said}");
}

#[test]
fn a_process_that_proc_hides_has_not_ended() {
    if !is_root() {
        return;
    }
    let hides = "mount -t proc -o hidepid=2 proc /proc && exec \"$@\"";
    let mut launcher = vec!["unshare", "--mount", "sh", "-c", hides, "sh"];
    launcher.extend(NOBODY);
    let said = said(&launcher, "looks");
    assert_says(&said, &["/proc hides it", "hidepid"]);
    assert!(!said.contains("doesn't run"), "{said}");
}

#[test]
fn a_sandbox_that_forbids_tracing_is_named() {
    let said = forbidding("ptrace", "looks");
    assert_says(
        &said,
        &["may not be traced", "seccomp", "nothing is proven"],
    );
    // Which is no trouble for watching.
    assert_says(&said, &["watch: WatchSummary", "clock_nanosleep"]);
}

#[test]
fn a_sandbox_that_forbids_perf_events_leaves_looks() {
    let said = forbidding("perf_event_open", "looks");
    let words = [
        "sleeps_by: Looks",
        "clock_nanosleep",
        "seccomp profile must allow perf_event_open",
    ];
    assert_says(&said, &words);
}

#[test]
fn a_sandbox_that_forbids_to_dispatch_calls_proves_nothing_and_says_so() {
    let said = forbidding("prctl-59", "looks");
    assert_says(&said, &["Unsupported", "prctl 59: error 1", "no sandbox"]);
}

/// By the file of its memory, then.
#[test]
fn a_sandbox_that_forbids_reading_memory_hides_no_line() {
    let said = forbidding("process_vm_readv", "names_a_sleep");
    assert_says(
        &said,
        &["sleep in clock_nanosleep", "tests/fewer_rights.rs"],
    );
}

#[test]
#[ignore = "started by others with fewer rights"]
fn names_a_sleep() {
    use unstall_loop_monitor::cause::CauseClass;
    use unstall_loop_monitor::process::{Namer, ProcessView};
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        tell.send(nix::unistd::gettid().as_raw()).expect("heard");
        // Until the process ends.
        std::thread::sleep(Duration::from_secs(60));
    });
    let tid = u32::try_from(told.recv().expect("a number")).expect("positive");
    let view = ProcessView::own();
    let task = view.task(tid).expect("runs");
    let mut namer = Namer::new(&view).expect("readable");
    let cause = loop {
        let seen = namer.name(&task).expect("it still waits");
        if let Some(cause) = seen.filter(|cause| cause.class == CauseClass::Sleep) {
            break cause;
        }
    };
    say(&format!("{cause}\n"));
}
