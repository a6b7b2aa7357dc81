//! The watcher inside: a poll that holds the loop is named while it runs, with this file's line.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::disallowed_methods,
    reason = "what holds the loop here is planted"
)]

mod watched_loop;

use std::io::Read;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use unstall_loop_monitor::cause::CauseClass;
use unstall_loop_monitor::watched::WatchedCause;
use watched_loop::{THRESHOLD, WAIT, WatchedLoop, blamed_line, shared, warnings_about};

fn assert_named(named: &WatchedCause, class: CauseClass, line: u32) {
    let cause = &named.cause;
    assert_eq!(cause.class, class, "{cause:#?}");
    assert_eq!(
        blamed_line(cause, "tests/watcher.rs"),
        Some(line),
        "{cause:#?}"
    );
    assert!(named.total_ns >= u64::try_from(THRESHOLD.as_nanos()).expect("small"));
    assert!(named.count >= 1 && named.longest_ns <= named.total_ns);
}

#[test]
fn a_sleep() {
    let watched = WatchedLoop::start();
    let line = line!() + 1;
    let named = watched.named("/sleep", || thread::sleep(WAIT));
    assert_named(&named, CauseClass::Sleep, line);
    assert_eq!(named.cause.syscall.as_deref(), Some("clock_nanosleep"));
}

/// The first names take their time: a hold that ends meanwhile has none.
#[test]
fn a_stall_has_the_line_that_it_was_last_seen_in() {
    let watched = WatchedLoop::start();
    let asked = Instant::now();
    loop {
        let line = line!() + 1;
        watched.handle("/stall", async || thread::sleep(WAIT));
        let stalls = watched.monitor.snapshot().stalls.expect("it tells them");
        let told = stalls.told.iter().rev();
        let named = told.filter_map(|stall| stall.line.as_deref()).next();
        if let Some(named) = named {
            let place = format!("tests/watcher.rs:{line}");
            assert!(named.ends_with(&place), "{named}");
            return;
        }
        assert!(asked.elapsed() < Duration::from_secs(60), "{stalls:#?}");
    }
}

#[test]
fn a_pipe() {
    let watched = WatchedLoop::start();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    thread::spawn(move || {
        thread::sleep(WAIT);
        drop(writer);
    });
    let line = line!() + 2;
    let named = watched.named("/pipe", || {
        reader.read_exact(&mut [0]).expect_err("closed");
    });
    assert_named(&named, CauseClass::Io, line);
    assert_eq!(named.cause.target.expect("a pipe").what, "pipe");
}

#[test]
fn a_datagram() {
    let watched = WatchedLoop::start();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(WAIT)).expect("a timeout");
    let line = line!() + 2;
    let named = watched.named("/datagram", || {
        socket.recv(&mut [0]).expect_err("nothing comes");
    });
    assert_named(&named, CauseClass::Io, line);
    assert_eq!(named.cause.syscall.as_deref(), Some("recvfrom"));
    let bound = socket.local_addr().expect("bound");
    let target = named.cause.target.expect("a socket");
    assert_eq!(target.what, format!("datagrams on {bound}"));
}

#[test]
fn a_lock() {
    let watched = WatchedLoop::start();
    let (lock, held) = shared(Mutex::new(()));
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let guard = held.lock().expect("not poisoned");
        tell.send(()).expect("heard");
        thread::sleep(WAIT);
        drop(guard);
    });
    told.recv().expect("held");
    let line = line!() + 2;
    let named = watched.named("/lock", || {
        drop(lock.lock().expect("not poisoned"));
    });
    assert_named(&named, CauseClass::Lock, line);
    assert_eq!(named.cause.syscall.as_deref(), Some("futex"));
}

#[test]
fn a_child() {
    let watched = WatchedLoop::start();
    let line = line!() + 2;
    let named = watched.named("/child", || {
        Command::new("sleep").arg("0.3").status().expect("sleeps");
    });
    assert_named(&named, CauseClass::Spawn, line);
}

/// A computation is no blocking, whatever it takes; that it holds the loop is said all the same.
#[test]
fn a_computation() {
    let watched = WatchedLoop::start();
    let first = line!();
    let named = watched.named("/spin", || {
        let begun = Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed() < 2 * WAIT {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    });
    let last = line!();
    // On a busy machine it may have been seen waiting for a core; never blocking.
    for named in watched.causes_of("/spin") {
        assert!(!named.cause.class.is_blocking(), "{named:#?}");
    }
    if named.cause.class == CauseClass::Cpu {
        let perf_is_refused = watched
            .monitor
            .snapshot()
            .not_covered
            .iter()
            .any(|sentence| sentence.contains("perf_event_open"));
        let line = blamed_line(&named.cause, "tests/watcher.rs");
        let is_here = line.is_some_and(|line| (first..last).contains(&line));
        assert!(is_here || perf_is_refused, "{named:#?}");
    }
}

#[test]
fn a_poll_that_never_ends_is_reported_while_it_runs_and_again_as_it_grows_older() {
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let looping = thread::spawn(move || {
        let watched = WatchedLoop::start();
        tell.send(watched.monitor.clone()).expect("heard");
        watched.handle("/for-ever", async || ended.recv().expect("ends at last"));
    });
    let monitor = told.recv().expect("started");
    let warnings = loop {
        let warnings = warnings_about("/for-ever");
        if warnings.len() >= 2 {
            break warnings;
        }
        thread::yield_now();
    };
    let snapshot = monitor.snapshot();
    let causes = snapshot.causes.expect("it watches");
    assert_eq!(causes[0].cause.endpoint.as_deref(), Some("GET /for-ever"));
    assert_eq!(causes[0].cause.class, CauseClass::Lock, "{causes:#?}");
    end.send(()).expect("still there");
    looping.join().expect("ends");
    let ages: Vec<f64> = warnings
        .iter()
        .map(|fields| fields["age_ms"].as_f64().expect("while it ran"))
        .collect();
    assert!(ages[0] >= 20.0 && ages[1] >= 2.0 * ages[0], "{ages:?}");
    assert_eq!(warnings[0]["class"], "lock");
    assert_eq!(warnings[0]["syscall"], "futex");
    let line = warnings[0]["line"].as_str().expect("a line");
    assert!(line.contains("tests/watcher.rs:"), "{line}");
}

#[test]
fn the_warning_after_the_poll_says_what_it_was_seen_in() {
    let watched = WatchedLoop::start();
    // The first names of a process may come too late.
    watched.named("/warm", || thread::sleep(WAIT));
    watched.named("/after", || thread::sleep(2 * WAIT));
    let told = warnings_about("/after");
    let after = told.iter().find(|fields| fields.get("hold_ms").is_some());
    let after = after.expect("a warning after the poll");
    assert_eq!(after["class"], "sleep", "{told:#?}");
    let message = after["message"].as_str().expect("a text");
    assert!(
        message.contains("last seen in sleep in clock_nanosleep, from"),
        "{message}"
    );
}

#[test]
fn an_awaited_call_is_never_named_nor_warned_about() {
    let watched = WatchedLoop::start();
    watched.handle("/awaited", async || {
        tokio::time::sleep(5 * THRESHOLD).await;
        let pool = tokio::task::spawn_blocking(|| thread::sleep(5 * THRESHOLD));
        pool.await.expect("sleeps");
    });
    assert_eq!(watched.causes_of("/awaited"), []);
    assert_eq!(warnings_about("/awaited"), Vec::<serde_json::Value>::new());
}

/// What a loop waits for while it fills the blocking pool are locks, its own or the kernel's.
#[test]
fn many_jobs_for_the_pool_are_no_io() {
    let watched = WatchedLoop::start();
    watched.handle("/jobs", async || {
        let jobs: Vec<_> = (0..2_000)
            .map(|_| tokio::task::spawn_blocking(|| thread::sleep(Duration::from_micros(200))))
            .collect();
        for job in jobs {
            job.await.expect("sleeps");
        }
    });
    for named in watched.causes_of("/jobs") {
        let class = named.cause.class;
        assert!(
            !matches!(class, CauseClass::Io | CauseClass::Spawn),
            "{named:#?}"
        );
    }
}

/// Runs in a process that the kernel keeps its own /proc files from.
#[test]
#[ignore = "a child of the test below"]
fn child_that_may_not_read_itself() {
    let watched = WatchedLoop::start();
    let kept = |watched: &WatchedLoop| -> Vec<String> {
        let sentences = watched.monitor.snapshot().not_covered.into_iter();
        sentences
            .filter(|sentence| sentence.contains("The watcher can't name"))
            .collect()
    };
    // Until it has looked, and then for many looks, at polls of two threads.
    while kept(&watched).is_empty() {
        watched.handle("/refused", async || thread::sleep(2 * THRESHOLD));
    }
    let other = watched.monitor.clone();
    let other = thread::spawn(move || {
        let task = other.task("refused too", async { thread::sleep(4 * THRESHOLD) });
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(task);
    });
    watched.handle("/refused", async || thread::sleep(4 * THRESHOLD));
    other.join().expect("no panic");
    let kept = kept(&watched);
    assert_eq!(kept.len(), 1, "{kept:#?}");
    assert!(kept[0].contains("prctl(PR_SET_DUMPABLE, 1)"), "{kept:?}");
    assert_eq!(watched.causes_of("/refused"), []);
}

#[test]
fn a_process_that_may_not_read_itself_says_so_once() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    // A program that its user may run and not read: such a process isn't dumpable.
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its owner");
    let program = folder.path().join("watcher");
    fs::copy(std::env::current_exe().expect("this program"), &program).expect("copied");
    fs::set_permissions(&program, Permissions::from_mode(0o111)).expect("its owner");
    let mut command = Command::new(&program);
    command.args(["--exact", "--ignored", "--nocapture"]);
    command
        .arg("child_that_may_not_read_itself")
        .current_dir("/");
    if nix::unistd::geteuid().is_root() {
        const NOBODY: u32 = 65_534;
        command.uid(NOBODY).gid(NOBODY);
    }
    let child = command.output().expect("started");
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(
        child.status.success() && text.contains("1 passed"),
        "{child:?}"
    );
}

#[test]
fn a_watcher_ends_with_its_monitor() {
    let watched = WatchedLoop::start();
    watched.handle("/once", async || {});
    let tids = || {
        let view = unstall_loop_monitor::process::ProcessView::own();
        let tasks = view.task_ids().expect("readable");
        let names = tasks.into_iter().filter_map(|tid| {
            // Other tests' threads end all the time.
            let name = view.task(tid).ok()?.name().ok()?;
            (name == "unstall-watch").then_some(tid)
        });
        names.collect::<Vec<u32>>()
    };
    let before = tids();
    drop(watched);
    // Its own is among those that were there, and one of them ends.
    while before.iter().all(|tid| tids().contains(tid)) {
        thread::yield_now();
    }
}
