//! The few instructions that the kernel lets pass while calls are caught, and the bytes that it
//! reads to know whether they are.
//!
//! Syscall User Dispatch lets a system call pass if the address *after* its instruction lies in
//! one range of the program (Documentation/admin-guide/syscall-user-dispatch.rst). That range is
//! here and holds nothing else: the way back from a signal handler, and one stub per place from
//! which this program starts threads and processes. Those calls return in a second life with
//! another stack, so a handler can't make them for anybody; the stub makes them with the caller's
//! own registers and jumps back, and the kernel watches on, since it never stopped.
#![expect(
    unsafe_code,
    reason = "the kernel's interface is made of addresses and instructions"
)]

use std::arch::{asm, global_asm};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::scope::{Exempted, Scope};

/// Places in this program that start threads or processes: a C library has about six.
pub(super) const CLONE_SITES_MAX: usize = 16;
/// `syscall` has two bytes, an indirect jump six.
const STUB_BYTES: usize = 8;

macro_rules! stub {
    ($($site:literal)*) => {
        concat!($("syscall\n jmpq *unstall_prove_returns+8*", $site, "(%rip)\n",)*)
    };
}

global_asm!(
    ".pushsection .text.unstall_prove,\"ax\",@progbits",
    ".balign 64",
    ".globl unstall_prove_allowed_begin",
    ".hidden unstall_prove_allowed_begin",
    "unstall_prove_allowed_begin:",
    ".globl unstall_prove_restorer",
    ".hidden unstall_prove_restorer",
    "unstall_prove_restorer:",
    "movl $15, %eax", // rt_sigreturn
    "syscall",
    // Never reached: it keeps the address after the call inside the range.
    "ud2",
    ".balign 8",
    ".globl unstall_prove_stubs",
    ".hidden unstall_prove_stubs",
    "unstall_prove_stubs:",
    stub!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
    ".globl unstall_prove_allowed_end",
    ".hidden unstall_prove_allowed_end",
    "unstall_prove_allowed_end:",
    ".globl unstall_prove_this_thread",
    ".hidden unstall_prove_this_thread",
    "unstall_prove_this_thread:",
    "movq %fs:0, %rax",
    "addq unstall_prove_thread@gottpoff(%rip), %rax",
    "ret",
    ".popsection",
    ".pushsection .bss.unstall_prove,\"aw\",@nobits",
    ".balign 8",
    ".globl unstall_prove_returns",
    ".hidden unstall_prove_returns",
    "unstall_prove_returns:",
    ".zero 128",
    ".popsection",
    ".pushsection .tbss.unstall_prove,\"awT\",@nobits",
    ".balign 64",
    ".globl unstall_prove_thread",
    ".hidden unstall_prove_thread",
    "unstall_prove_thread:",
    ".zero 64",
    ".popsection",
    options(att_syntax)
);

unsafe extern "C" {
    fn unstall_prove_allowed_begin();
    fn unstall_prove_allowed_end();
    fn unstall_prove_restorer();
    fn unstall_prove_stubs();
    fn unstall_prove_this_thread() -> *const std::ffi::c_void;
    static unstall_prove_returns: [AtomicU64; CLONE_SITES_MAX];
}

/// Calls pass.
pub(super) const ALLOW: u8 = 0;
/// Calls are caught.
pub(super) const BLOCK: u8 = 1;

/// What a thread and its signal handler know of each other. The kernel reads the first byte.
///
/// In thread-local memory that exists, zeroed, from the thread's first instruction on: a signal
/// handler may use it, which it may not for memory that is made on first use. Atomics, because the
/// handler interrupts the very code that writes; all of one thread, hence relaxed.
#[repr(C, align(64))]
pub(super) struct ThreadState {
    pub(super) selector: AtomicU8,
    /// The kernel knows the selector.
    pub(super) is_registered: AtomicU8,
    /// Calls that can block, in the current poll: found, exempt or a log.
    pub(super) blocking_calls: AtomicU32,
    /// To whom calls are charged; alive for as long as the poll's guard.
    pub(super) scope: AtomicPtr<Scope>,
    /// Set inside an exemption; alive as long as its scope.
    pub(super) exempted: AtomicPtr<Exempted>,
    pub(super) stack_low: AtomicU64,
    pub(super) stack_high: AtomicU64,
}

const _: () = assert!(size_of::<ThreadState>() == 64);
const _: () = assert!(CLONE_SITES_MAX == 16);

/// The calling thread's state.
pub(super) fn this_thread() -> &'static ThreadState {
    // SAFETY: the function returns the address of this thread's 64 zeroed bytes, aligned to 64;
    // zero is a valid value of every field, and all of them are atomics. The memory lives until
    // the thread has ended. No caller hands the reference to another thread (which would be
    // sound, but another thread's business).
    unsafe { &*unstall_prove_this_thread().cast() }
}

/// Start and length of the range in which calls pass.
pub(super) fn allowed_range() -> (usize, usize) {
    let begin = unstall_prove_allowed_begin as *const () as usize;
    let end = unstall_prove_allowed_end as *const () as usize;
    (begin, end - begin)
}

/// Where a signal handler returns to.
pub(super) fn restorer() -> usize {
    unstall_prove_restorer as *const () as usize
}

/// A stub that makes the call of which the caller expects the return at `address`; `None` when
/// there are more such places than stubs.
///
/// A place keeps its stub for ever, so that a child that is late to start still finds its way.
pub(super) fn stub_returning_to(address: u64) -> Option<usize> {
    // SAFETY: 128 zeroed bytes, aligned to 8, written through these atomics only.
    let returns = unsafe { &unstall_prove_returns };
    for (site, place) in returns.iter().enumerate() {
        let taken = place.compare_exchange(0, address, Relaxed, Relaxed);
        if taken.is_ok() || taken == Err(address) {
            return Some(unstall_prove_stubs as *const () as usize + site * STUB_BYTES);
        }
    }
    None
}

/// Makes a system call and touches no errno. Caught like any other, unless calls pass.
///
/// # Safety
/// That of the call: its pointers must be good for what the kernel does with them.
pub(super) unsafe fn system_call(number: u64, arguments: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the kernel keeps all registers but these (x86-64 psABI, appendix A.2.1); the rest
    // is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowed_range_holds_the_restorer_and_the_stubs_and_little_else() {
        let (begin, length) = allowed_range();
        assert_eq!(restorer(), begin);
        // The address after the restorer's call: 5 bytes of `mov`, 2 of `syscall`.
        assert!(restorer() + 7 < begin + length);
        let stubs = unstall_prove_stubs as *const () as usize;
        assert_eq!(stubs + CLONE_SITES_MAX * STUB_BYTES, begin + length);
        assert!(stubs - begin <= 16);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's thread is no loop")]
    fn each_thread_has_zeroed_state_of_its_own() {
        let here = std::ptr::from_ref(this_thread()) as usize;
        assert_eq!(here % 64, 0);
        let there = std::thread::spawn(|| {
            let state = this_thread();
            assert_eq!(state.selector.load(Relaxed), ALLOW);
            assert!(state.scope.load(Relaxed).is_null());
            std::ptr::from_ref(state) as usize
        });
        assert_ne!(here, there.join().expect("no panic"));
    }

    #[test]
    fn a_raw_call_returns_what_the_kernel_says() {
        // SAFETY: no pointers.
        let pid = unsafe { system_call(libc::SYS_getpid as u64, [0; 6]) };
        assert_eq!(pid, i64::from(std::process::id()));
        // SAFETY: no pointers; the descriptor isn't open.
        let refused = unsafe { system_call(libc::SYS_close as u64, [u64::MAX, 0, 0, 0, 0, 0]) };
        assert_eq!(refused, -i64::from(libc::EBADF));
    }
}
