//! The handler of SIGSYS: looks at a caught call, makes it, and goes back as if nothing had been.
//!
//! It runs on the stack of the code that it interrupts, in the middle of anything: no allocation,
//! no lock, no errno, no panic. While it runs, calls pass, so signals that arrive meanwhile are
//! handled as ever. These calls can't be made for somebody else, and are treated apart:
//!
//! - `rt_sigprocmask`: on the way back the kernel restores the mask that was saved before the
//!   handler, so the new one is written there. SIGSYS is left out of it: glibc blocks all signals
//!   around the start of a thread, and a blocked SIGSYS ends the process at the next call.
//! - `sigaltstack`: likewise.
//! - `clone`, `clone3`, `fork`, `vfork`: they return twice, see [`gate`].
//! - `rt_sigreturn`: it is the way back of another signal's handler, whose frame is on the stack
//!   below ours.
//! - `rt_sigaction` of SIGSYS: read only, or calls would end the process.
#![expect(
    unsafe_code,
    reason = "a signal handler gets addresses and changes registers"
)]

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, compiler_fence};

use super::gate::{self, ALLOW, ThreadState, system_call};
use super::walk::{self, Registers};
use super::{facts, slots};
use crate::blocking_rules::{Call, Judgement, judge};

/// `si_code` of a call caught by Syscall User Dispatch (`asm-generic/siginfo.h`).
const SYS_USER_DISPATCH: i32 = 2;
/// `si_code` of a call that a seccomp filter refused.
const SYS_SECCOMP: i32 = 1;
/// Length of the instruction.
const SYSCALL_BYTES: i64 = 2;
const SIGSYS_BIT: u64 = 1 << (libc::SIGSYS - 1);
/// Bytes of the kernel's signal mask.
const MASK_BYTES: u64 = 8;

/// What was done about SIGSYS before: `sa_handler` and `sa_flags`.
static PREVIOUS_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static PREVIOUS_FLAGS: AtomicU64 = AtomicU64::new(0);

/// The kernel's own `struct sigaction`; the C library's has another order and its own restorer.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// The C library refuses to tell it: it always gives a restorer itself.
const SA_RESTORER: u64 = 0x0400_0000;

/// Asks for the action of a signal, and sets another if there is one.
fn set_action(
    signal: libc::c_int,
    action: Option<&KernelAction>,
    previous: &mut KernelAction,
) -> i64 {
    let new = action.map_or(0, |action| std::ptr::from_ref(action) as u64);
    let old = std::ptr::from_mut(previous) as u64;
    let arguments = [signal as u64, new, old, MASK_BYTES, 0, 0];
    // SAFETY: both are null or one `KernelAction`; the handler it names is `on_sigsys`, whose
    // signature is that of SA_SIGINFO, or what the process had before.
    unsafe { system_call(libc::SYS_rt_sigaction as u64, arguments) }
}

/// Makes this module the process's handler of SIGSYS, unless it is already.
pub(super) fn install_handler() -> Result<(), i64> {
    let ours = KernelAction {
        handler: on_sigsys as *const () as usize,
        // Not deferred: a signal that arrives in the handler may be handled armed, after it.
        flags: (libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART) as u64 | SA_RESTORER,
        restorer: gate::restorer(),
        mask: 0,
    };
    let mut previous = KernelAction::default();
    let asked = set_action(libc::SIGSYS, None, &mut previous);
    if asked == 0 && previous.handler == ours.handler {
        return Ok(());
    }
    PREVIOUS_HANDLER.store(previous.handler, Relaxed);
    PREVIOUS_FLAGS.store(previous.flags, Relaxed);
    match set_action(libc::SIGSYS, Some(&ours), &mut previous) {
        0 => Ok(()),
        error => Err(-error),
    }
}

/// Whether SIGSYS still comes here: a library that the program loads may take it, a crash reporter
/// say, and would get the next call of a watched poll.
pub(super) fn is_installed() -> bool {
    let mut action = KernelAction::default();
    let asked = set_action(libc::SIGSYS, None, &mut action);
    asked == 0 && action.handler == on_sigsys as *const () as usize
}

/// Highest signal number (`_NSIG` of the kernel).
const SIGNALS: libc::c_int = 64;

/// No handler of this process blocks SIGSYS while it runs: its first call, or its return, would
/// end the process if it interrupts a watched poll.
pub(super) fn unblock_in_handlers() {
    for signal in 1..=SIGNALS {
        unblock_in_handler(signal);
    }
}

/// Another thread may set an action between the question and the answer. What was replaced tells
/// it, and then comes back, likewise without SIGSYS; for some instructions it wasn't there.
fn unblock_in_handler(signal: libc::c_int) {
    let mut action = KernelAction::default();
    let asked = set_action(signal, None, &mut action);
    if asked == 0 && action.mask & SIGSYS_BIT != 0 {
        replace(action, |mended| {
            let mut replaced = KernelAction::default();
            // It was accepted before, so it is now.
            set_action(signal, Some(mended), &mut replaced);
            replaced
        });
    }
}

/// Sets the action that was found, without SIGSYS, and then whatever newer one that has replaced.
fn replace(found: KernelAction, mut set: impl FnMut(&KernelAction) -> KernelAction) {
    let (mut there, mut wanted) = (found, found);
    for _ in 0..REPLACEMENTS_MAX {
        let mended = KernelAction {
            mask: wanted.mask & !SIGSYS_BIT,
            ..wanted
        };
        let replaced = set(&mended);
        if replaced == there {
            return;
        }
        (there, wanted) = (mended, replaced);
    }
}

/// Threads that set the action of one signal at one moment; more of them are no program's.
const REPLACEMENTS_MAX: usize = 8;

/// The calling thread's signal mask without SIGSYS, which is never blocked where calls are caught.
pub(super) fn unblock() {
    let bit = SIGSYS_BIT;
    let unblock = libc::SIG_UNBLOCK as u64;
    let arguments = [unblock, &raw const bit as u64, 0, MASK_BYTES, 0, 0];
    // SAFETY: the kernel reads one mask.
    let result = unsafe { system_call(libc::SYS_rt_sigprocmask as u64, arguments) };
    debug_assert_eq!(result, 0, "a fixed call with a good pointer");
}

extern "C" fn on_sigsys(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let thread = gate::this_thread();
    let selector = thread.selector.swap(ALLOW, Relaxed);
    compiler_fence(SeqCst);
    // SAFETY: SA_SIGINFO: the kernel passes the signal's information and the interrupted context,
    // which is restored from here when the handler returns, and nobody else has them.
    let (info, context) = unsafe { (&mut *info, &mut *context.cast::<libc::ucontext_t>()) };
    if info.si_code == SYS_USER_DISPATCH {
        let registers = Registers::of(context);
        let call = registers.call();
        look(thread, &call, &registers);
        if !perform(&call, context) {
            // Calls pass until the next poll, which therefore isn't one that was watched.
            unwatched(thread);
            return;
        }
    } else {
        forward(signal, info, context);
    }
    compiler_fence(SeqCst);
    thread.selector.store(selector, Relaxed);
}

#[cold]
fn unwatched(thread: &ThreadState) {
    // SAFETY: as in `look`.
    if let Some(scope) = unsafe { thread.scope.load(Relaxed).as_ref() } {
        scope.unwatched_polls.fetch_add(1, Relaxed);
    }
}

/// Judges a call and writes down what is worth it.
fn look(thread: &ThreadState, call: &Call, registers: &Registers) {
    let scope = thread.scope.load(Relaxed);
    // SAFETY: set by the guard whose poll this is, which borrows the scope for as long.
    let Some(scope) = (unsafe { scope.as_ref() }) else {
        return;
    };
    scope.calls.fetch_add(1, Relaxed);
    let class = match judge(call, &mut facts::OwnProcess) {
        Judgement::Harmless => return,
        Judgement::Log => {
            thread.blocking_calls.fetch_add(1, Relaxed);
            scope.log_writes.fetch_add(1, Relaxed);
            return;
        }
        Judgement::Blocking(class) => class,
    };
    thread.blocking_calls.fetch_add(1, Relaxed);
    // SAFETY: set by the guard of the exemption that this is in, to a cell of that scope.
    if let Some(exempted) = unsafe { thread.exempted.load(Relaxed).as_ref() } {
        exempted.calls.fetch_add(1, Relaxed);
        return;
    }
    let stack = walk::ThreadStack::of(thread, registers);
    let mut returns = [0; slots::RETURNS_MAX];
    let (key, returns_length) = stack.place(scope.id, call, registers, &mut returns);
    let call_key = walk::call_key(scope.id, call, registers);
    let counted = slots::count(scope, (key, call_key), |captured| {
        captured.class = class;
        captured.number = call.number;
        captured.is_of_many = false;
        captured.arguments = call.arguments;
        (captured.ip, captured.sp, captured.bp) = (registers.ip, registers.sp, registers.bp);
        captured.returns = returns;
        captured.returns_length = returns_length;
        captured.stack_length = stack.copy(registers, &mut captured.stack);
        facts::capture_subject(call, captured);
    });
    if !counted {
        scope.lost.fetch_add(1, Relaxed);
    }
}

/// Makes the call for its caller, or has the caller make it; `false` if calls must pass for that.
fn perform(call: &Call, context: &mut libc::ucontext_t) -> bool {
    let number = libc::c_long::from_ne_bytes(call.number.to_ne_bytes());
    let result = match number {
        libc::SYS_rt_sigreturn => {
            set_register(context, libc::REG_RIP, gate::restorer() as i64);
            return true;
        }
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
            return begin_second_life(context);
        }
        libc::SYS_rt_sigprocmask => change_mask(call, context),
        libc::SYS_sigaltstack => change_alternate_stack(call, context),
        libc::SYS_rt_sigaction if call.arguments[0] == libc::SIGSYS as u64 => {
            let mut arguments = call.arguments;
            arguments[1] = 0;
            // SAFETY: the caller's own call, with one pointer fewer.
            unsafe { system_call(call.number, arguments) }
        }
        libc::SYS_rt_sigaction => {
            // SAFETY: the caller's own call.
            let result = unsafe { system_call(call.number, call.arguments) };
            if result == 0 && call.arguments[1] != 0 {
                // The kernel took it for a signal, so it is one of 64.
                unblock_in_handler(call.arguments[0] as libc::c_int);
            }
            result
        }
        // SAFETY: the caller's own call.
        _ => unsafe { system_call(call.number, call.arguments) },
    };
    set_register(context, libc::REG_RAX, result);
    true
}

fn set_register(context: &mut libc::ucontext_t, register: libc::c_int, value: i64) {
    // The constants are small and positive.
    context.uc_mcontext.gregs[register as usize] = value;
}

/// Goes on in the stub that belongs to the caller's place. Without a stub left, the caller makes
/// the call itself, once more and unwatched.
fn begin_second_life(context: &mut libc::ucontext_t) -> bool {
    let address = context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let stub = gate::stub_returning_to(address as u64);
    let goes_on_at = stub.map_or(address - SYSCALL_BYTES, |stub| stub as i64);
    set_register(context, libc::REG_RIP, goes_on_at);
    stub.is_some()
}

/// The kernel changes this thread's mask, which the way back would undo: so it is told there, too.
fn change_mask(call: &Call, context: &mut libc::ucontext_t) -> i64 {
    let mut mask = 0u64;
    let asked = [
        libc::SIG_BLOCK as u64,
        0,
        &raw mut mask as u64,
        MASK_BYTES,
        0,
        0,
    ];
    // SAFETY: the caller's own call; then the kernel writes one mask.
    let (result, read) = unsafe {
        (
            system_call(call.number, call.arguments),
            system_call(call.number, asked),
        )
    };
    if result == 0 && read == 0 {
        let saved = (&raw mut context.uc_sigmask).cast::<u64>();
        // SAFETY: the kernel's mask is the first 8 bytes of the C library's longer one.
        unsafe { saved.write(mask & !SIGSYS_BIT) };
    }
    result
}

fn change_alternate_stack(call: &Call, context: &mut libc::ucontext_t) -> i64 {
    let saved = &raw mut context.uc_stack as u64;
    // SAFETY: the caller's own call; then the kernel writes one `stack_t`.
    unsafe {
        let result = system_call(call.number, call.arguments);
        if result == 0 {
            // It can't fail: the address is that of the frame which the kernel wrote.
            system_call(call.number, [0, saved, 0, 0, 0, 0]);
        }
        result
    }
}

/// A SIGSYS that isn't ours: somebody sent it, or a seccomp filter refused a call.
fn forward(signal: libc::c_int, info: &mut libc::siginfo_t, context: &mut libc::ucontext_t) {
    let handler = PREVIOUS_HANDLER.load(Relaxed);
    match handler {
        libc::SIG_IGN if info.si_code != SYS_SECCOMP => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            let default = KernelAction {
                flags: SA_RESTORER,
                restorer: gate::restorer(),
                ..KernelAction::default()
            };
            set_action(libc::SIGSYS, Some(&default), &mut KernelAction::default());
            // SAFETY: no pointers. The process ends by this signal, as it would have.
            unsafe {
                let process = system_call(libc::SYS_getpid as u64, [0; 6]) as u64;
                let thread = system_call(libc::SYS_gettid as u64, [0; 6]) as u64;
                let arguments = [process, thread, libc::SIGSYS as u64, 0, 0, 0];
                system_call(libc::SYS_tgkill as u64, arguments);
            }
        }
        handler if PREVIOUS_FLAGS.load(Relaxed) & libc::SA_SIGINFO as u64 != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: the process gave the kernel this address as a handler with SA_SIGINFO.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, std::ptr::from_mut(context).cast());
        }
        handler => {
            // SAFETY: the process gave the kernel this address as a handler.
            let handler =
                unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_that_is_set_meanwhile_comes_back_without_sigsys() {
        let action = |handler, mask| KernelAction {
            handler,
            mask,
            ..KernelAction::default()
        };
        let found = action(8, SIGSYS_BIT | 1);
        let mut set = Vec::new();
        replace(found, |mended| {
            set.push(*mended);
            found
        });
        assert_eq!(set, [action(8, 1)], "nobody was in between");
        // Somebody else's was there at the first answer; then what was set by it.
        let theirs = action(16, SIGSYS_BIT | 2);
        let mut set: Vec<KernelAction> = Vec::new();
        replace(found, |mended| {
            let there = set.last().copied().unwrap_or(theirs);
            set.push(*mended);
            there
        });
        assert_eq!(set, [action(8, 1), action(16, 2)]);
    }
}
