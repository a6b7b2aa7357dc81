//! Threads of this process that wait in planted ways are named, each with this file's own line.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::disallowed_methods,
    reason = "the waits are planted, on threads of their own"
)]

use std::io::Read;
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use unstall_loop_monitor::cause::{Cause, CauseClass};
use unstall_loop_monitor::process::peers::Peers;
use unstall_loop_monitor::process::{Activity, Namer, ProcessError, ProcessView};

/// Long against a look, short against a test's patience.
const WAIT: Duration = Duration::from_millis(400);

/// Names a thread that runs `plant` once it waits in a call of `class`.
fn named(class: CauseClass, plant: impl FnOnce() + Send + 'static) -> Cause {
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        tell.send(nix::unistd::gettid().as_raw()).expect("heard");
        plant();
    });
    let tid = u32::try_from(told.recv().expect("a number")).expect("positive");
    let view = ProcessView::own();
    let mut namer = Namer::new(&view).expect("readable");
    let task = view.task(tid).expect("runs");
    let cause = loop {
        let seen = namer.name(&task).expect("it still waits");
        if let Some(cause) = seen.filter(|cause| cause.class == class) {
            break cause;
        }
    };
    thread.join().expect("ends");
    cause
}

fn blamed_line(cause: &Cause) -> Option<u32> {
    let frame = cause.blamed()?;
    let is_here = frame.file.as_ref()?.ends_with("tests/naming.rs");
    frame.line.filter(|_| is_here && frame.is_own)
}

fn assert_blames(cause: &Cause, line: u32) {
    assert_eq!(blamed_line(cause), Some(line), "{cause:#?}");
}

#[test]
fn a_sleep_is_named_with_its_line() {
    let line = line!() + 1;
    let cause = named(CauseClass::Sleep, || thread::sleep(WAIT));
    assert_blames(&cause, line);
    assert_eq!(cause.syscall.as_deref(), Some("clock_nanosleep"));
}

#[test]
fn a_read_of_a_pipe_is_named_with_its_line() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    thread::spawn(move || {
        thread::sleep(WAIT);
        drop(writer);
    });
    let line = line!() + 2;
    let cause = named(CauseClass::Io, move || {
        reader.read_exact(&mut [0]).expect_err("closed");
    });
    assert_blames(&cause, line);
    assert_eq!(cause.syscall.as_deref(), Some("read"));
    assert_eq!(
        cause.target.map(|target| target.what).as_deref(),
        Some("pipe")
    );
}

#[test]
fn a_datagram_that_never_comes_is_named_with_its_line() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(WAIT)).expect("a timeout");
    let bound = socket.local_addr().expect("bound");
    // Stays open while its name is looked up.
    let receiver = socket.try_clone().expect("a second descriptor");
    let line = line!() + 2;
    let cause = named(CauseClass::Io, move || {
        receiver.recv(&mut [0]).expect_err("nothing comes");
    });
    assert_blames(&cause, line);
    let what = cause.target.expect("a socket").what;
    assert_eq!(what, format!("datagrams on {bound}"));
}

#[test]
fn a_contended_lock_is_named_with_its_line() {
    let lock = Arc::new(Mutex::new(()));
    let held = Arc::clone(&lock);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let guard = held.lock().expect("not poisoned");
        tell.send(()).expect("heard");
        thread::sleep(WAIT);
        drop(guard);
    });
    told.recv().expect("held");
    let line = line!() + 2;
    let cause = named(CauseClass::Lock, move || {
        drop(lock.lock().expect("not poisoned"));
    });
    assert_blames(&cause, line);
    assert_eq!(cause.syscall.as_deref(), Some("futex"));
}

#[test]
fn a_child_that_is_waited_for_is_named_with_its_line() {
    let line = line!() + 2;
    let cause = named(CauseClass::Spawn, || {
        Command::new("sleep").arg("0.4").status().expect("sleeps");
    });
    assert_blames(&cause, line);
}

#[test]
fn a_computation_is_sampled_with_its_line() {
    let (tell, told) = mpsc::channel();
    let (begin, end) = (line!(), line!() + 9);
    let thread = thread::spawn(move || {
        tell.send(nix::unistd::gettid().as_raw()).expect("heard");
        let begun = Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed() < WAIT {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    });
    let tid = u32::try_from(told.recv().expect("a number")).expect("positive");
    let view = ProcessView::own();
    let mut namer = Namer::new(&view).expect("readable");
    let task = view.task(tid).expect("runs");
    let look = loop {
        if let Some(look) = task.look().expect("readable")
            && look.activity == Activity::Running
        {
            break look;
        }
    };
    let Ok(Some(sighting)) = namer.sample_running(&task, look, WAIT) else {
        eprintln!("skipped: perf_event_open is refused here (kernel.perf_event_paranoid)");
        thread.join().expect("ends");
        return;
    };
    let cause = namer.resolve(&sighting).expect("readable");
    thread.join().expect("ends");
    assert_eq!(cause.class, CauseClass::Cpu);
    let line = blamed_line(&cause);
    assert!(
        line.is_some_and(|line| (begin..end).contains(&line)),
        "{cause:#?}"
    );
}

#[test]
fn a_peer_is_named_while_it_is_waited_for() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(WAIT)).expect("a timeout");
    let _stays_open = stream.try_clone().expect("a second descriptor");
    let line = line!() + 2;
    let cause = named(CauseClass::Io, move || {
        stream.read_exact(&mut [0]).expect_err("nothing comes");
    });
    assert_blames(&cause, line);
    assert_eq!(cause.syscall.as_deref(), Some("recvfrom"));
    assert_eq!(cause.target.expect("a peer").what, address.to_string());
}

/// Fills the stack below its caller with frames that look as good as real ones.
#[inline(never)]
fn leaves_remains(depth: usize) -> usize {
    let filled = std::hint::black_box([depth; 16]);
    if depth == 0 {
        return filled[0];
    }
    std::hint::black_box(leaves_remains(depth - 1) + filled[1])
}

/// Keeps those remains among its locals while it sleeps.
#[inline(never)]
fn sleeps_above_remains() {
    let never_written = std::mem::MaybeUninit::<[u8; 8192]>::uninit();
    std::hint::black_box(&never_written);
    thread::sleep(WAIT);
    std::hint::black_box(&never_written);
}

#[test]
fn remains_of_earlier_calls_are_on_no_stack() {
    let cause = named(CauseClass::Sleep, || {
        std::hint::black_box(leaves_remains(40));
        sleeps_above_remains();
    });
    let functions: Vec<&str> = cause
        .frames
        .iter()
        .map(|frame| frame.function.as_str())
        .collect();
    let has = |name: &str| functions.iter().any(|function| function.contains(name));
    assert!(
        has("sleeps_above_remains") && has("naming::named"),
        "{functions:#?}"
    );
    assert!(!has("leaves_remains"), "{functions:#?}");
}

#[test]
fn another_process_is_named_with_its_own_environment() {
    let mut child = Command::new("sleep")
        .arg("60")
        .env("REDIS_URL", "redis://:secret@localhost:44551/0")
        .spawn()
        .expect("sleeps");
    let cause = loop {
        // Until it has become `sleep`, it is still this program, or not yet asleep.
        let view = ProcessView::of(child.id()).expect("may be read");
        let task = view.task(child.id()).expect("runs");
        let cause = Namer::new(&view)
            .expect("readable")
            .name(&task)
            .expect("readable");
        if let Some(cause) = cause.filter(|cause| cause.class == CauseClass::Sleep) {
            break cause;
        }
    };
    assert_eq!(cause.syscall.as_deref(), Some("clock_nanosleep"));
    assert!(!cause.frames.is_empty());
    let view = ProcessView::of(child.id()).expect("may be read");
    assert_eq!(view.command().expect("readable"), "sleep 60");
    let mut peers = Peers::of(&view).expect("readable");
    let address = "127.0.0.1:44551".parse().expect("an address");
    assert_eq!(
        peers.name(address, None).as_deref(),
        Some("redis (REDIS_URL)")
    );
    child.kill().expect("ends");
    child.wait().expect("ends");
    let error = ProcessView::of(child.id()).expect_err("it has ended");
    assert!(matches!(error, ProcessError::Ended { .. }), "{error}");
}
