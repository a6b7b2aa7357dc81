//! The calls of ptrace(2) that the tracer needs and nix can't make: any signal is handed on, also
//! a real-time one, a stopped process may stay stopped, and waiting is for one's own tracees only.
//!
//! They are unsafe by type alone: none of them reads or writes this process's memory but for the
//! status word of a wait.

#![expect(
    unsafe_code,
    reason = "nix knows no real-time signals and no PTRACE_LISTEN, and would lose the signals of \
              the process that is traced"
)]

use std::ffi::c_int;
use std::mem;
use std::ptr;

use nix::errno::Errno;
use nix::unistd::Pid;

/// `PTRACE_EVENT_STOP` of `<sys/ptrace.h>`: a group stop, an interrupt, or a new tracee's first.
const EVENT_STOP: c_int = 128;
/// What `PTRACE_O_TRACESYSGOOD` adds to SIGTRAP.
const SYSCALL_MARK: c_int = 0x80;

/// What happened to a tracee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It enters a system call, or leaves one.
    Syscall,
    /// A signal is about to be delivered; it is lost unless it is handed on.
    Signal(c_int),
    /// Its process was stopped by a job-control signal, and stays so until it is continued.
    Group,
    /// It was asked to stop, has begun to be traced, or made a thread.
    Other,
    /// Its process is about to run another program.
    Exec,
    /// It is gone.
    Ended,
}

/// Waits until something happens to a tracee of this thread. `leader` is a process that is also a
/// child of this one: its end is told and left for whoever waits for it as a child.
///
/// # Errors
/// `ECHILD` when none is left.
pub(crate) fn wait(leader: Option<Pid>) -> nix::Result<(Pid, Stop)> {
    loop {
        if let Some(leader) = leader
            && peek()? == Some(leader)
        {
            return Ok((leader, Stop::Ended));
        }
        let mut status: c_int = 0;
        // SAFETY: the kernel writes one c_int to `status`, which lives until the call returns.
        // `__WNOTHREAD` keeps away from children that other threads of this process wait for.
        let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        match Errno::result(tid) {
            Ok(tid) => return Ok((Pid::from_raw(tid), decode(status))),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Waits and takes nothing away: who has ended, if the next thing to tell is an end.
fn peek() -> nix::Result<Option<Pid>> {
    let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: a siginfo_t of zeros is one, and the kernel writes one to where it lives.
    let (answer, info) = unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        (libc::waitid(libc::P_ALL, 0, &raw mut info, flags), info)
    };
    match Errno::result(answer) {
        Ok(_) if matches!(info.si_code, libc::CLD_STOPPED | libc::CLD_TRAPPED) => Ok(None),
        // SAFETY: waitid fills the field of a child's end.
        Ok(_) => Ok(Some(Pid::from_raw(unsafe { info.si_pid() }))),
        Err(Errno::EINTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Lets a stopped tracee go on to its next system call, and delivers `signal` (0 for none).
///
/// # Errors
/// `ESRCH` when it was killed meanwhile.
pub(crate) fn go_on(tid: Pid, signal: c_int) -> nix::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, signal)
}

/// Lets a tracee in a group stop stay stopped, so that SIGCONT works on it as ever.
///
/// # Errors
/// `ESRCH` when it was killed meanwhile.
pub(crate) fn stay_stopped(tid: Pid) -> nix::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0)
}

/// Lets a stopped tracee go on untraced, and delivers `signal` (0 for none).
///
/// # Errors
/// `ESRCH` when it was killed meanwhile.
pub(crate) fn release(tid: Pid, signal: c_int) -> nix::Result<()> {
    request(libc::PTRACE_DETACH, tid, signal)
}

fn request(request: libc::c_uint, tid: Pid, signal: c_int) -> nix::Result<()> {
    let no_address = ptr::null_mut::<libc::c_void>();
    let data = libc::c_long::from(signal);
    // SAFETY: these requests ignore the address and take the signal's number as data, by value:
    // the kernel touches no memory of this process. A wrong tid is answered with ESRCH.
    let answer = unsafe { libc::ptrace(request, tid.as_raw(), no_address, data) };
    Errno::result(answer).map(drop)
}

fn decode(status: c_int) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Ended;
    }
    let signal = libc::WSTOPSIG(status);
    match (status >> 16, signal) {
        (0, signal) if signal == libc::SIGTRAP | SYSCALL_MARK => Stop::Syscall,
        (0, signal) => Stop::Signal(signal),
        (EVENT_STOP, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => Stop::Group,
        (libc::PTRACE_EVENT_EXEC, _) => Stop::Exec,
        _ => Stop::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel builds the status of a stop.
    fn stopped(event: c_int, signal: c_int) -> c_int {
        (event << 16) | (signal << 8) | 0x7f
    }

    #[test]
    fn every_kind_of_stop_is_told_apart() {
        let trap = libc::SIGTRAP;
        for (status, stop) in [
            (stopped(0, trap | 0x80), Stop::Syscall),
            (stopped(0, trap), Stop::Signal(trap)),
            (stopped(0, libc::SIGTERM), Stop::Signal(libc::SIGTERM)),
            (stopped(0, 40), Stop::Signal(40)),
            (stopped(0, libc::SIGTSTP), Stop::Signal(libc::SIGTSTP)),
            (stopped(EVENT_STOP, libc::SIGTSTP), Stop::Group),
            (stopped(EVENT_STOP, trap), Stop::Other),
            (stopped(libc::PTRACE_EVENT_CLONE, trap), Stop::Other),
            (stopped(libc::PTRACE_EVENT_EXEC, trap), Stop::Exec),
            (0x0100, Stop::Ended),
            (9, Stop::Ended),
        ] {
            assert_eq!(decode(status), stop, "{status:#x}");
        }
    }

    #[test]
    fn who_traces_nobody_is_told_so() {
        // On a thread of its own: it has neither children nor tracees.
        let answer = std::thread::spawn(|| wait(None));
        #[expect(clippy::disallowed_methods, reason = "a test's own thread")]
        let answer = answer.join().expect("the wait returns");
        assert_eq!(answer, Err(Errno::ECHILD));
        let nobody = Pid::from_raw(i32::MAX);
        assert_eq!(go_on(nobody, 0), Err(Errno::ESRCH));
        assert_eq!(stay_stopped(nobody), Err(Errno::ESRCH));
        assert_eq!(release(nobody, 0), Err(Errno::ESRCH));
    }
}
