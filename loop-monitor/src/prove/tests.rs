//! The proof must not change what it watches: the calls that a handler can't simply make for
//! somebody else, and everything that can go wrong around them.
#![expect(
    unsafe_code,
    reason = "plants what the C library hides: forks, masks, handlers, single instructions"
)]
#![expect(clippy::disallowed_methods, reason = "blocking calls are the canaries")]

use std::arch::asm;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::{ptr, thread};

use super::arming::{exempt, let_allocator_ask, support};
use super::gate::{self, CLONE_SITES_MAX};
use super::slots;
use super::{Armed, Scope};

/// Runs `watched` as one poll, and wants that poll to be watched to its end.
fn poll<T>(watched: impl FnOnce() -> T) -> (Scope, T) {
    assert_eq!(support(), Ok(()), "these tests need a kernel that can");
    let scope = Scope::default();
    let armed = Armed::enter(&scope);
    let result = watched();
    let is_on = Armed::is_on();
    drop(armed);
    assert!(is_on, "watched to the end");
    assert!(!Armed::is_on());
    assert_eq!(scope.unwatched_polls.load(Relaxed), 0);
    (scope, result)
}

/// A call that can block and doesn't.
fn blocking_call() {
    // SAFETY: no pointers; the descriptor isn't open.
    unsafe { libc::fsync(-1) };
}

/// How often [`blocking_call`] was found.
fn found(scope: &Scope) -> u64 {
    let found = slots::of_scope(scope);
    let calls = found
        .iter()
        .filter(|(captured, _)| captured.number == libc::SYS_fsync as u64);
    calls.map(|(_, count)| count).sum()
}

fn mask() -> libc::sigset_t {
    let mut mask = MaybeUninit::zeroed();
    // SAFETY: only asks; the C library fills the set, for which zeroes are valid, too.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
        mask.assume_init()
    }
}

fn is_blocked(signal: i32) -> bool {
    let mask = mask();
    // SAFETY: a valid set.
    unsafe { libc::sigismember(&raw const mask, signal) == 1 }
}

fn change_mask(how: i32, fill: impl FnOnce(*mut libc::sigset_t)) {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    fill(set.as_mut_ptr());
    // SAFETY: a valid set.
    let failed = unsafe { libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut()) };
    assert_eq!(failed, 0);
}

#[test]
fn a_thread_is_started_and_its_starter_is_watched_on() {
    let (scope, result) = poll(|| {
        blocking_call();
        let child = thread::spawn(|| {
            blocking_call();
            assert!(!Armed::is_on());
            (is_blocked(libc::SIGUSR1), 42)
        });
        blocking_call();
        let result = child.join().expect("no panic");
        blocking_call();
        result
    });
    assert_eq!(result, (false, 42));
    assert_eq!(found(&scope), 3, "the starter's, and none of the child's");
}

#[test]
fn children_run_by_each_way_of_starting_them() {
    let shell = |text: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        command
    };
    let (scope, (spawned, forked, output)) = poll(|| {
        let spawned = shell("exit 3").status().expect("started");
        let mut command = shell("exit 4");
        // SAFETY: the closure does nothing; it makes the library fork.
        unsafe { command.pre_exec(|| Ok(())) };
        let forked = command.status().expect("started");
        let output = shell("echo out").output().expect("started");
        blocking_call();
        (spawned, forked, output)
    });
    assert_eq!((spawned.code(), forked.code()), (Some(3), Some(4)));
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(found(&scope), 1);
}

#[test]
fn a_forked_child_is_watched_by_nobody_and_can_be_anew() {
    let (_, status) = poll(|| {
        // SAFETY: the child makes raw calls and atomics only, and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let was_on = Armed::is_on();
            let scope = Scope::default();
            let armed = Armed::enter(&scope);
            // SAFETY: no pointers.
            unsafe { libc::syscall(libc::SYS_getppid) };
            drop(armed);
            let is_fine = !was_on && scope.calls.load(Relaxed) == 1;
            // SAFETY: ends the child without the parent's destructors.
            unsafe { libc::_exit(if is_fine { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: one `int` to write.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        status
    });
    assert_eq!(ExitStatus::from_raw(status).code(), Some(7));
}

#[test]
fn a_mask_is_changed_for_good_but_for_sigsys() {
    let (scope, ()) = poll(|| {
        change_mask(libc::SIG_BLOCK, |set| {
            // SAFETY: a set.
            unsafe { libc::sigfillset(set) };
        });
        blocking_call();
        assert!(is_blocked(libc::SIGUSR1));
        assert!(!is_blocked(libc::SIGSYS));
    });
    assert_eq!(found(&scope), 1);
    assert!(is_blocked(libc::SIGUSR1));
    assert!(!is_blocked(libc::SIGSYS));
    poll(|| {
        change_mask(libc::SIG_SETMASK, |set| {
            // SAFETY: a set.
            unsafe { libc::sigemptyset(set) };
        });
    });
    assert!(!is_blocked(libc::SIGUSR1));
}

#[test]
fn a_thread_that_blocked_sigsys_before_is_watched() {
    let child = thread::spawn(|| {
        change_mask(libc::SIG_BLOCK, |set| {
            // SAFETY: a set.
            unsafe { libc::sigfillset(set) };
        });
        found(&poll(blocking_call).0)
    });
    assert_eq!(child.join().expect("no panic"), 1);
}

#[test]
fn an_alternate_stack_stays_as_it_was_set() {
    let asked = || {
        let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: only asks; zeroes are valid.
        unsafe {
            libc::sigaltstack(ptr::null(), stack.as_mut_ptr());
            stack.assume_init()
        }
    };
    let child = thread::spawn(move || {
        let before = asked();
        let mut memory = vec![0u8; 64 * 1024];
        let mine = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: memory.len(),
        };
        let (_, set) = poll(|| {
            // SAFETY: the memory outlives its use, which ends below.
            unsafe { libc::sigaltstack(&raw const mine, ptr::null_mut()) }
        });
        let after = asked();
        // SAFETY: what the thread had.
        unsafe { libc::sigaltstack(&raw const before, ptr::null_mut()) };
        assert_eq!(set, 0);
        assert_eq!((after.ss_sp, after.ss_size), (mine.ss_sp, mine.ss_size));
    });
    child.join().expect("no panic");
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);
static HANDLER_SAW_ON: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    // Handlers may keep errno by themselves; this one makes a call that fails.
    // SAFETY: errno of this thread; the descriptor isn't open.
    unsafe {
        let errno = *libc::__errno_location();
        libc::fsync(-1);
        *libc::__errno_location() = errno;
    }
    if Armed::is_on() {
        HANDLER_SAW_ON.fetch_add(1, SeqCst);
    }
    HANDLED.fetch_add(1, SeqCst);
}

/// Handles `signal` by [`count_signal`].
fn handle(signal: i32, flags: i32, handler: extern "C" fn(libc::c_int), block_all: bool) {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeroes are valid; the handler has the signature of one without SA_SIGINFO.
    unsafe {
        let action = &mut *action.as_mut_ptr();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        if block_all {
            libc::sigfillset(&raw mut action.sa_mask);
        }
        assert_eq!(libc::sigaction(signal, action, ptr::null_mut()), 0);
    }
}

/// The handlers and their counts belong to the process.
static SIGNALS: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn other_signals_are_handled_and_returned_from_in_a_watched_poll() {
    let _one = SIGNALS.lock().expect("no panic");
    // A handler that blocks everything, set before and within.
    handle(libc::SIGUSR1, libc::SA_RESTART, count_signal, true);
    let child = thread::spawn(|| {
        poll(|| {
            handle(libc::SIGUSR2, libc::SA_RESTART, count_signal, true);
            for signal in [libc::SIGUSR1, libc::SIGUSR2] {
                let before = HANDLED.load(SeqCst);
                // SAFETY: to this thread, which handles it.
                unsafe { libc::raise(signal) };
                assert_eq!(HANDLED.load(SeqCst), before + 1);
                blocking_call();
            }
        })
    });
    let (scope, ()) = child.join().expect("no panic");
    assert!(found(&scope) >= 2);
}

#[test]
fn signals_at_any_moment_change_nothing() {
    let _one = SIGNALS.lock().expect("no panic");
    handle(libc::SIGUSR1, libc::SA_RESTART, count_signal, false);
    let before = HANDLED.load(SeqCst);
    static TARGET: AtomicU64 = AtomicU64::new(0);
    static STOP: AtomicI32 = AtomicI32::new(0);
    STOP.store(0, SeqCst);
    let watched = thread::spawn(|| {
        // SAFETY: its own number.
        TARGET.store(unsafe { libc::pthread_self() }, SeqCst);
        let (scope, sum) = poll(|| {
            let mut sum = 0i64;
            for _ in 0..20_000 {
                // SAFETY: no pointers.
                sum += unsafe { libc::syscall(libc::SYS_getppid) };
            }
            blocking_call();
            STOP.store(1, SeqCst);
            sum
        });
        // Nobody signals a thread that is gone.
        while STOP.load(SeqCst) != 2 {
            thread::yield_now();
        }
        (scope, sum)
    });
    while TARGET.load(SeqCst) == 0 {
        thread::yield_now();
    }
    while STOP.load(SeqCst) == 0 {
        // SAFETY: the thread waits for the end of this loop.
        unsafe { libc::pthread_kill(TARGET.load(SeqCst), libc::SIGUSR1) };
        thread::yield_now();
    }
    STOP.store(2, SeqCst);
    let (scope, sum) = watched.join().expect("no panic");
    // SAFETY: no pointers.
    assert_eq!(sum, 20_000 * i64::from(unsafe { libc::getppid() }));
    assert!(found(&scope) >= 1);
    assert!(HANDLED.load(SeqCst) > before);
}

#[test]
fn errors_and_errno_are_the_kernel_s() {
    let (_, (failed, kept)) = poll(|| {
        // SAFETY: errno of this thread; the pointers are good or refused.
        unsafe {
            let failed = libc::close(-1);
            let failed = (failed, *libc::__errno_location());
            *libc::__errno_location() = 1_234;
            let ppid = libc::getppid();
            (failed, (ppid > 0, *libc::__errno_location()))
        }
    });
    assert_eq!(failed, (-1, libc::EBADF));
    assert_eq!(kept, (true, 1_234));
    let (_, error) = poll(|| {
        // SAFETY: the kernel refuses the address.
        unsafe {
            libc::stat(
                ptr::without_provenance(8),
                MaybeUninit::uninit().as_mut_ptr(),
            )
        };
        io::Error::last_os_error().raw_os_error()
    });
    assert_eq!(error, Some(libc::EFAULT));
}

#[test]
fn a_wait_is_interrupted_as_ever() {
    let _one = SIGNALS.lock().expect("no panic");
    handle(libc::SIGUSR1, 0, count_signal, false);
    let (mut near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
    static WAITS: AtomicU64 = AtomicU64::new(0);
    static WAS_TOLD: AtomicI32 = AtomicI32::new(0);
    WAITS.store(0, SeqCst);
    WAS_TOLD.store(0, SeqCst);
    let watched = thread::spawn(move || {
        // SAFETY: its own number.
        WAITS.store(unsafe { libc::pthread_self() }, SeqCst);
        let (_, read) = poll(|| near.read(&mut [0]).map_err(|error| error.kind()));
        WAS_TOLD.store(1, SeqCst);
        while WAS_TOLD.load(SeqCst) != 2 {
            thread::yield_now();
        }
        read
    });
    while WAITS.load(SeqCst) == 0 {
        thread::yield_now();
    }
    while WAS_TOLD.load(SeqCst) == 0 {
        // SAFETY: the thread waits for the end of this loop.
        unsafe { libc::pthread_kill(WAITS.load(SeqCst), libc::SIGUSR1) };
        thread::sleep(std::time::Duration::from_millis(1));
    }
    WAS_TOLD.store(2, SeqCst);
    drop(far);
    let read = watched.join().expect("no panic");
    assert_eq!(read, Err(io::ErrorKind::Interrupted));
}

#[test]
fn the_red_zone_and_the_registers_are_kept() {
    let (scope, (red, saved, vector)) = poll(|| {
        let (red, saved, vector): (u64, u64, u64);
        // SAFETY: getppid changes rax, rcx and r11 only; the word below the stack pointer is this
        // function's own by the ABI, since the block calls nothing.
        unsafe {
            asm!(
                "mov qword ptr [rsp - 8], 71",
                "mov r12, 72",
                "movq xmm7, r12",
                "syscall",
                "mov {red}, qword ptr [rsp - 8]",
                "mov {saved}, r12",
                "movq {vector}, xmm7",
                red = lateout(reg) red,
                saved = lateout(reg) saved,
                vector = lateout(reg) vector,
                inout("rax") libc::SYS_getppid => _,
                out("rcx") _,
                out("r11") _,
                out("r12") _,
                out("xmm7") _,
            );
        }
        (red, saved, vector)
    });
    assert_eq!((red, saved, vector), (71, 72, 72));
    assert_eq!(scope.calls.load(Relaxed), 1);
}

#[test]
fn a_panic_disarms_and_the_outer_poll_goes_on() {
    let (outer, ()) = poll(|| {
        let inner = Scope::default();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _armed = Armed::enter(&inner);
            blocking_call();
            std::panic::resume_unwind(Box::new("planted"));
        }));
        assert!(panicked.is_err());
        assert_eq!(found(&inner), 1);
        blocking_call();
        blocking_call();
    });
    assert_eq!(found(&outer), 2);
}

#[test]
fn exemptions_nest_end_with_their_closure_and_survive_a_panic() {
    let (scope, ()) = poll(|| {
        exempt("outer", || {
            blocking_call();
            exempt("inner", || {
                blocking_call();
                blocking_call();
            });
            blocking_call();
        });
        let panicked = catch_unwind(|| exempt("outer", || std::panic::resume_unwind(Box::new(()))));
        assert!(panicked.is_err());
        blocking_call();
    });
    assert_eq!(scope.exemptions(), [("outer", 2), ("inner", 2)]);
    assert_eq!(found(&scope), 1);
    assert_eq!(exempt("nobody watches", || 5), 5);
}

#[test]
fn what_a_call_is_about_is_kept_although_it_is_gone() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (scope, ()) = poll(|| {
        let stream = std::net::TcpStream::connect(address).expect("listens");
        // SAFETY: no bytes are sent.
        unsafe { libc::send(stream.as_raw_fd(), ptr::null(), 0, 0) };
        drop(stream);
    });
    let resolved = super::Resolver::new().resolve(&scope, None);
    let targets: Vec<_> = resolved
        .findings
        .iter()
        .map(|finding| finding.cause.target.clone().expect("a peer").what)
        .collect();
    assert_eq!(targets, [address.to_string(), address.to_string()]);
}

/// Runs one of the tests below in a process of its own, whose handlers and stubs it may spoil.
fn in_child(test: &str) -> std::process::Output {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--ignored", "--nocapture", test])
        .output()
        .expect("started")
}

/// Fails unless that test ran there, and passed.
fn passes_in_child(test: &str) {
    let child = in_child(test);
    let has_passed = String::from_utf8_lossy(&child.stdout).contains("1 passed");
    assert!(child.status.success() && has_passed, "{child:?}");
}

static OTHERS: AtomicI32 = AtomicI32::new(0);

extern "C" fn others(signal: libc::c_int) {
    OTHERS.store(signal, SeqCst);
}

#[test]
#[ignore = "a child of the test below"]
fn child_with_a_handler_of_sigsys() {
    handle(libc::SIGSYS, 0, others, false);
    let (scope, ()) = poll(|| {
        // SAFETY: to this thread, which handles it.
        unsafe { libc::raise(libc::SIGSYS) };
        blocking_call();
        // What the program sets now would end it: it is asked for and not done.
        handle(libc::SIGSYS, 0, others, false);
        blocking_call();
    });
    assert_eq!(OTHERS.load(SeqCst), libc::SIGSYS);
    assert_eq!(found(&scope), 2);
}

#[test]
#[ignore = "a child of the test below"]
fn child_without_a_handler_of_sigsys() {
    poll(|| {
        // SAFETY: ends the process.
        unsafe { libc::raise(libc::SIGSYS) };
    });
    unreachable!("it has ended by the signal");
}

#[test]
fn a_sigsys_of_others_goes_where_it_went_before() {
    passes_in_child("prove::tests::child_with_a_handler_of_sigsys");
    let ended = in_child("prove::tests::child_without_a_handler_of_sigsys");
    assert_eq!(ended.status.signal(), Some(libc::SIGSYS), "{ended:?}");
}

#[test]
#[ignore = "a child of the test below"]
fn child_whose_library_takes_sigsys() {
    let (scope, ()) = poll(blocking_call);
    assert_eq!(found(&scope), 1);
    handle(libc::SIGSYS, 0, others, false);
    let armed = Armed::enter(&scope);
    assert!(!Armed::is_on());
    blocking_call();
    drop(armed);
    assert_eq!(OTHERS.load(SeqCst), 0);
    assert_eq!(found(&scope), 1);
    assert_eq!(scope.polls.load(Relaxed), 2);
    assert_eq!(scope.unwatched_polls.load(Relaxed), 1);
}

#[test]
fn whose_sigsys_is_taken_is_watched_no_longer_and_lives() {
    passes_in_child("prove::tests::child_whose_library_takes_sigsys");
}

#[test]
#[ignore = "a child of the test below"]
fn child_without_stubs() {
    assert_eq!(support(), Ok(()));
    for site in 0..CLONE_SITES_MAX as u64 {
        // No address of code: nobody returns there.
        gate::stub_returning_to(8 + site);
    }
    let scope = Scope::default();
    let armed = Armed::enter(&scope);
    let result = thread::spawn(|| 42).join().expect("no panic");
    drop(armed);
    assert_eq!(result, 42);
    assert_eq!(scope.unwatched_polls.load(Relaxed), 1);
}

#[test]
fn without_a_stub_left_a_thread_is_started_and_nothing_is_proven() {
    passes_in_child("prove::tests::child_without_stubs");
}

#[test]
#[ignore = "a child of the test below"]
fn child_with_many_places() {
    assert_eq!(support(), Ok(()));
    let scopes: Vec<Scope> = (0..slots::SLOTS_MAX as u64 / slots::PLACES_OF_SCOPE_MAX)
        .map(|_| Scope::default())
        .collect();
    let keys = |place: u64| (0xfeed_0000_0000_0000 | place, 0xbeef_0000_0000_0000 | place);
    for place in 0..slots::SLOTS_MAX as u64 {
        let scope = &scopes[(place / slots::PLACES_OF_SCOPE_MAX) as usize];
        assert!(slots::count(scope, keys(place), |_| ()));
    }
    assert!(!slots::count(&scopes[0], keys(1 << 32), |_| ()));
    let (other, ()) = poll(blocking_call);
    assert_eq!((found(&other), other.lost.load(Relaxed)), (0, 1));
    drop(scopes);
    assert_eq!(found(&poll(blocking_call).0), 1);
}

#[test]
fn calls_of_more_places_than_there_are_slots_are_counted() {
    passes_in_child("prove::tests::child_with_many_places");
}

#[test]
#[ignore = "a child of the test below"]
fn child_that_gave_much_back() {
    // Mapped apart, so that giving it back makes the allocator keep more than it did.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(4 << 20)));
    assert_eq!(support(), Ok(()));
    // Only a thread of its own has a heap that shrinks by giving pages back.
    let (scope, ()) = thread::spawn(|| poll(let_allocator_ask))
        .join()
        .expect("no panic");
    assert!(scope.calls.load(Relaxed) > 0, "memory was given back");
    assert_eq!(slots::of_scope(&scope).len(), 0);
}

#[test]
fn what_the_allocator_asks_once_is_asked_before_anything_is_watched() {
    passes_in_child("prove::tests::child_that_gave_much_back");
}
