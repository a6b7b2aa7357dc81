//! Calls are caught here and nowhere else: from the making of an [`Armed`] to its drop.
#![expect(
    unsafe_code,
    reason = "tells the kernel an address, and the handler a scope's"
)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use super::facts::OwnProcess;
use super::gate::{self, ALLOW, BLOCK, ThreadState};
use super::scope::{Exempted, Scope};
use super::{dispatch, sleeps_and_faults, slots, walk};
use crate::blocking_rules::CallFacts;

/// `linux/prctl.h`.
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const PR_SYS_DISPATCH_ON: u64 = 1;

/// Whether calls can be caught in this process; if not, why. Asked once, on a thread of its own,
/// by catching two.
#[expect(
    clippy::disallowed_methods,
    reason = "once in a process, while its monitor is built"
)]
pub(super) fn support() -> Result<(), &'static str> {
    static SUPPORT: OnceLock<Result<(), String>> = OnceLock::new();
    let support = SUPPORT.get_or_init(|| {
        dispatch::install_handler()
            .map_err(|error| format!("the kernel refuses a handler of SIGSYS (error {error})"))?;
        forget_in_children()?;
        let canary = std::thread::Builder::new()
            .name("unstall-prove".to_owned())
            .spawn(catch_two_calls)
            .map_err(|error| format!("no thread for a trial: {error}"))?;
        canary
            .join()
            .unwrap_or_else(|_| Err("the trial panicked".to_owned()))
    });
    match support {
        Ok(()) => Ok(()),
        Err(reason) => Err(reason),
    }
}

/// A child process is watched by nobody, whatever its memory says: it was told of its parent.
fn forget_in_children() -> Result<(), String> {
    extern "C" fn forget() {
        let thread = gate::this_thread();
        thread.selector.store(ALLOW, Relaxed);
        thread.is_registered.store(0, Relaxed);
    }
    // SAFETY: `forget` only stores to the child's own thread-local memory.
    match unsafe { libc::pthread_atfork(None, None, Some(forget)) } {
        0 => Ok(()),
        error => Err(format!(
            "the C library refuses a handler of fork (error {error})"
        )),
    }
}

/// Has the C library ask now what it would else ask once, on whichever thread first gives memory
/// back: glibc reads `/proc/sys/vm/overcommit_memory` the first time that it shrinks the heap of a
/// thread (`malloc/arena.c`, `shrink_heap`). In a poll that would be a finding, of no line's fault.
pub(super) fn let_allocator_ask() {
    /// Below the size from which memory is mapped apart (128 KiB), and together almost a whole heap
    /// (64 MiB): the free top from which one is shrunk is 128 KiB at first, and grows to twice the
    /// largest mapping that was ever given back (`mp_.trim_threshold`). Nothing is written to them,
    /// so that each costs the page of its header.
    const CHUNKS: usize = 600;
    const CHUNK_BYTES: usize = 100 * 1024;
    let chunks: Vec<Vec<u8>> = (0..CHUNKS)
        .map(|_| Vec::with_capacity(CHUNK_BYTES))
        .collect();
    drop(std::hint::black_box(chunks));
}

/// One harmless call and one that can block must both be seen, and told apart.
fn catch_two_calls() -> Result<(), String> {
    let_allocator_ask();
    let scope = Scope::default();
    register(gate::this_thread())?;
    let word = [7];
    let mut copied = [0];
    // Without it, rules about times and paths would take them for what they aren't.
    if !OwnProcess.read_memory(word.as_ptr() as u64, &mut copied) || copied != word {
        let reason = "process_vm_readv on the process itself is refused: allow it in the sandbox";
        return Err(reason.to_owned());
    }
    let mut wait = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1,
    };
    {
        let _armed = Armed::enter(&scope);
        // SAFETY: the kernel reads `wait`, and writes what was left of it there.
        unsafe {
            libc::syscall(libc::SYS_getppid);
            libc::syscall(libc::SYS_nanosleep, &raw const wait, &raw mut wait);
        }
    }
    let calls = scope.calls.load(Relaxed);
    let findings = slots::of_scope(&scope);
    match findings.as_slice() {
        [(found, 1)] if calls == 2 && found.number == libc::SYS_nanosleep as u64 => Ok(()),
        _ => Err(format!(
            "this kernel takes the request and doesn't keep to it: of 2 calls {calls} were \
             caught, and {} told as able to block; run on Linux itself, not on an emulation",
            findings.len()
        )),
    }
}

/// Tells the kernel this thread's selector, and this module its stack.
fn register(thread: &ThreadState) -> Result<(), String> {
    if thread.is_registered.load(Relaxed) != 0 {
        return Ok(());
    }
    dispatch::unblock_in_handlers();
    walk::learn_executable_memory();
    let (low, high) = stack_bounds();
    thread.stack_low.store(low, Relaxed);
    thread.stack_high.store(high, Relaxed);
    let (begin, length) = gate::allowed_range();
    // SAFETY: the selector is a byte of this thread's own memory, which exists until the thread
    // has ended; the range is this program's code.
    let result = unsafe {
        gate::system_call(
            libc::SYS_prctl as u64,
            [
                PR_SET_SYSCALL_USER_DISPATCH,
                PR_SYS_DISPATCH_ON,
                begin as u64,
                length as u64,
                thread.selector.as_ptr() as u64,
                0,
            ],
        )
    };
    if result != 0 {
        return Err(format!(
            "the kernel has no Syscall User Dispatch (prctl 59: error {}): it needs Linux 5.11 or \
             later on x86-64, and no sandbox that emulates or filters system calls",
            -result
        ));
    }
    thread.is_registered.store(1, Relaxed);
    Ok(())
}

/// Lowest and one past the highest address of the calling thread's stack; nothing if unknown.
fn stack_bounds() -> (u64, u64) {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut low, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the C library fills the attributes, which are read and destroyed only then.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return (0, 0);
        }
        let known = libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if known != 0 {
            return (0, 0);
        }
    }
    (low as u64, low as u64 + size as u64)
}

/// Catches the calling thread's calls for a scope until dropped, also by a panic. Nests.
#[derive(Debug)]
pub(crate) struct Armed<'scope> {
    /// `None` on a thread that the kernel refused, or where SIGSYS is another's by now.
    before: Option<Before>,
    scope: PhantomData<&'scope Scope>,
}

/// What was before, and comes back.
#[derive(Debug)]
struct Before {
    selector: u8,
    scope: *mut Scope,
    exempted: *mut Exempted,
    blocking_calls: u32,
    usage: Option<(i64, i64)>,
}

impl<'scope> Armed<'scope> {
    /// Begins a poll of `scope`. To be called only where [`support`] is given.
    pub(crate) fn enter(scope: &'scope Scope) -> Self {
        let thread = gate::this_thread();
        let selector = thread.selector.swap(ALLOW, Relaxed);
        compiler_fence(SeqCst);
        scope.polls.fetch_add(1, Relaxed);
        if register(thread).is_err() || !dispatch::is_installed() {
            scope.unwatched_polls.fetch_add(1, Relaxed);
            return Self {
                before: None,
                scope: PhantomData,
            };
        }
        dispatch::unblock();
        let before = Before {
            selector,
            scope: thread.scope.swap(ptr::from_ref(scope).cast_mut(), Relaxed),
            exempted: thread.exempted.swap(ptr::null_mut(), Relaxed),
            blocking_calls: thread.blocking_calls.swap(0, Relaxed),
            usage: sleeps_and_faults(),
        };
        compiler_fence(SeqCst);
        thread.selector.store(BLOCK, Relaxed);
        Self {
            before: Some(before),
            scope: PhantomData,
        }
    }

    /// Whether the calling thread's calls are caught now.
    pub(crate) fn is_on() -> bool {
        gate::this_thread().selector.load(Relaxed) == BLOCK
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        let thread = gate::this_thread();
        thread.selector.store(ALLOW, Relaxed);
        compiler_fence(SeqCst);
        let Some(before) = self.before.take() else {
            return;
        };
        let scope = thread.scope.swap(before.scope, Relaxed);
        thread.exempted.store(before.exempted, Relaxed);
        let blocking_calls = thread.blocking_calls.swap(before.blocking_calls, Relaxed);
        // SAFETY: `enter` put the scope there that this guard borrows, and guards are dropped in
        // the reverse of their order, since each is a local of one poll.
        if let Some(scope) = unsafe { scope.as_ref() }
            && let (Some(begin), Some(end)) = (before.usage, sleeps_and_faults())
        {
            if end.0 > begin.0 && blocking_calls == 0 {
                scope.slept_polls.fetch_add(1, Relaxed);
            }
            if end.1 > begin.1 {
                scope.faulted_polls.fetch_add(1, Relaxed);
            }
        }
        compiler_fence(SeqCst);
        thread.selector.store(before.selector, Relaxed);
    }
}

/// Calls that `allowed` makes on this thread are counted under `reason` and are no findings.
pub(super) fn exempt<T>(reason: &'static str, allowed: impl FnOnce() -> T) -> T {
    struct Restore(*mut Exempted);
    impl Drop for Restore {
        fn drop(&mut self) {
            gate::this_thread().exempted.store(self.0, Relaxed);
        }
    }
    if !Armed::is_on() {
        return allowed();
    }
    let thread = gate::this_thread();
    // The list of reasons has a lock, which is nobody's finding.
    thread.selector.store(ALLOW, Relaxed);
    compiler_fence(SeqCst);
    // SAFETY: calls are caught, so a guard on this thread borrows the scope.
    let exempted = unsafe { thread.scope.load(Relaxed).as_ref() }
        .map_or(ptr::null(), |scope| scope.exempted(reason));
    let _restore = Restore(thread.exempted.swap(exempted.cast_mut(), Relaxed));
    compiler_fence(SeqCst);
    thread.selector.store(BLOCK, Relaxed);
    allowed()
}
