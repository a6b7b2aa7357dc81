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
use unstall_loop_monitor::process::{Activity, Namer, ProcessView};

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
    let line = line!() + 2;
    let cause = named(CauseClass::Io, move || {
        socket.recv(&mut [0]).expect_err("nothing comes");
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
    let line = line!() + 2;
    let cause = named(CauseClass::Io, move || {
        stream.read_exact(&mut [0]).expect_err("nothing comes");
    });
    assert_blames(&cause, line);
    assert_eq!(cause.syscall.as_deref(), Some("recvfrom"));
    assert_eq!(cause.target.expect("a peer").what, address.to_string());
}
