//! Nothing is left behind, however a testbed's owner ends.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use unstall_testbed::{Guard, GuardedCommand, Options, StopSignal, Testbed};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long ends may take; far more than they do, since builds may be running beside.
const PATIENCE: Duration = Duration::from_mins(1);

/// A testbed in a process of its own, which can be killed.
struct Holder {
    process: Child,
    folder: PathBuf,
    guard: u32,
}

fn hold() -> Outcome<Holder> {
    // A shell ignores Ctrl-C for what it starts in the background, and so would all that comes of it.
    let mut process = Command::new("env")
        .arg("--default-signal=INT")
        .arg(env!("CARGO_BIN_EXE_unstall-testbed"))
        .env_remove("DATABASE_URL")
        .env_remove("REDIS_URL")
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let out = BufReader::new(process.stdout.take().ok_or("no output")?);
    let mut about = String::new();
    for line in out.lines().take(4) {
        about.push_str(&line?);
        about.push('\n');
    }
    let between = |from: &str, to: &str| -> Outcome<String> {
        let rest = about.split_once(from).ok_or_else(|| about.clone())?.1;
        Ok(rest
            .split_once(to)
            .ok_or_else(|| about.clone())?
            .0
            .to_owned())
    };
    Ok(Holder {
        folder: between("# folder ", ",")?.into(),
        guard: between("guard process ", "\n")?.parse()?,
        process,
    })
}

/// The living processes that have `text` on their command line or are called so, without zombies.
fn processes_with(text: &str) -> Vec<String> {
    let mut found = vec![];
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(command) = std::fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(text) {
            found.push(format!("{} {command}", entry.path().display()));
        }
    }
    found
}

fn is_running(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < limit, "still waiting for: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The servers' process ids, from what they wrote into their folder.
fn servers(holder: &Holder) -> Outcome<Vec<u32>> {
    let lock = std::fs::read_to_string(holder.folder.join("postgres/data/postmaster.pid"))?;
    let postmaster: u32 = lock.lines().next().ok_or("empty")?.parse()?;
    let mut all = vec![postmaster];
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(process) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let parent = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1))
            .map(str::to_owned);
        let is_ours = parent.as_deref() == Some(&holder.process.id().to_string())
            || parent.as_deref() == Some(&postmaster.to_string());
        if is_ours && process != holder.guard {
            all.push(process);
        }
    }
    Ok(all)
}

fn ends_cleanly_after(signal: Signal) -> Outcome {
    let mut holder = hold()?;
    let servers = servers(&holder)?;
    // Redis, the postmaster (twice: as a child and by its lock) and PostgreSQL's own workers.
    assert!(servers.len() >= 5, "{servers:?}");

    killpg(Pid::from_raw(holder.process.id().cast_signed()), signal)?;
    holder.process.wait()?;
    wait_until("the servers' end", || {
        !servers.iter().any(|process| is_running(*process))
    });
    wait_until("the folder's end", || !holder.folder.exists());
    wait_until("the guard's end", || !is_running(holder.guard));
    assert_eq!(
        processes_with(&holder.folder.display().to_string()),
        Vec::<String>::new()
    );
    Ok(())
}

#[test]
fn nothing_is_left_after_kill_9() -> Outcome {
    ends_cleanly_after(Signal::SIGKILL)
}

#[test]
fn nothing_is_left_after_ctrl_c() -> Outcome {
    ends_cleanly_after(Signal::SIGINT)
}

#[test]
fn nothing_is_left_after_sigterm() -> Outcome {
    ends_cleanly_after(Signal::SIGTERM)
}

#[test]
fn nothing_is_left_after_a_panic() {
    let panicked = thread::spawn(|| {
        let testbed = Testbed::start(&Options::default()).expect("servers are installed");
        std::panic::panic_any(testbed.folder().to_owned());
    });
    let payload = panicked.join().expect_err("it panics");
    let folder = payload.downcast_ref::<PathBuf>().expect("the folder");
    // A drop takes the guard's way and waits for it: no waiting here.
    assert!(!folder.exists());
    assert_eq!(
        processes_with(&folder.display().to_string()),
        Vec::<String>::new()
    );
}

/// A shell that ignores TERM, and a grandchild: a group that has to be killed.
fn stubborn(guard: &Guard, marker: &str) -> std::io::Result<Child> {
    let mut command = GuardedCommand::new("/bin/sh".as_ref());
    command.command().args([
        "-c",
        "trap '' TERM; sleep 1000 & while :; do sleep 1; done",
        marker,
    ]);
    guard.spawn(command, StopSignal::Term)
}

#[test]
fn a_group_that_ignores_term_is_killed_and_a_released_one_lives() -> Outcome {
    let guard = Guard::new()?;
    let mut watched = stubborn(&guard, "unstall-test-watched")?;
    let mut released = stubborn(&guard, "unstall-test-released")?;
    wait_until("both to run", || {
        processes_with("unstall-test-watched").len() == 1
            && processes_with("unstall-test-released").len() == 1
    });
    guard.release(released.id())?;
    drop(guard);

    assert!(!watched.wait()?.success());
    assert!(is_running(released.id()));
    killpg(Pid::from_raw(released.id().cast_signed()), Signal::SIGKILL)?;
    released.wait()?;
    Ok(())
}

#[test]
fn folders_are_removed_with_all_that_is_in_them() -> Outcome {
    let root = tempfile::tempdir()?;
    let guard = Guard::new()?;
    for name in ["go", "with blank", "last"] {
        std::fs::create_dir(root.path().join(name))?;
        std::fs::write(root.path().join(name).join("file"), name)?;
        guard.remove_dir(&root.path().join(name))?;
    }
    drop(guard);
    assert_eq!(std::fs::read_dir(root.path())?.count(), 0);
    Ok(())
}

#[test]
fn a_program_that_cannot_be_run_ends() -> Outcome {
    let guard = Guard::new()?;
    let mut command = GuardedCommand::new("/no/such/program".as_ref());
    command.command().stderr(Stdio::null());
    let mut child = guard.spawn(command, StopSignal::Term)?;
    assert_eq!(child.wait()?.code(), Some(127));
    Ok(())
}
