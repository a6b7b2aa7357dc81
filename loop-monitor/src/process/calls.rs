//! System calls by name: what kind of wait each is, and which argument says on what.

use syscalls::Sysno;

use super::task::Syscall;
use crate::cause::CauseClass;

/// What kind of wait a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// For events on many descriptors at a time: how a loop waits when it has nothing to do. By
    /// itself it says nothing bad; within a poll it is a wait as any other.
    EventWait,
    /// For input, output, or a name.
    Io,
    /// For another thread.
    Lock,
    /// For time to pass.
    Sleep,
    /// For a child process, or for one to begin.
    Spawn,
    /// Not known to wait for anything nameable.
    Other,
}

impl CallKind {
    /// Why a thread in such a call, within a poll, can't go on.
    #[must_use]
    pub fn class(self) -> CauseClass {
        match self {
            Self::EventWait | Self::Io => CauseClass::Io,
            Self::Lock => CauseClass::Lock,
            Self::Sleep => CauseClass::Sleep,
            Self::Spawn => CauseClass::Spawn,
            Self::Other => CauseClass::Unknown,
        }
    }
}

/// Where a call says what it is about. Numbers are those of arguments, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DescriptorArgument {
    /// Nowhere.
    None,
    /// A descriptor.
    Descriptor(usize),
    /// `poll`: an array of `struct pollfd` and its length.
    PollList {
        /// The array's address.
        list: usize,
        /// How many.
        count: usize,
    },
    /// `select`: the number of bits, then three sets from the next argument on.
    SelectSets {
        /// The number of bits.
        count: usize,
    },
    /// A path's address.
    Path(usize),
    /// A descriptor, and a `struct sockaddr` that says whom it is for, with its length.
    Peer {
        /// The descriptor.
        descriptor: usize,
        /// The address' address.
        address: usize,
    },
    /// The process that is waited for.
    Process(usize),
    /// `clone`'s flags.
    CloneFlags(usize),
    /// The address of `clone3`'s arguments, which begin with the flags.
    CloneArguments(usize),
}

/// What is known of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    /// Its name in section 2 of the manual.
    pub name: &'static str,
    /// What kind of wait it is.
    pub kind: CallKind,
    /// Where it says what it is about.
    pub on: DescriptorArgument,
}

impl Call {
    /// The call of this number on this architecture; `None` for a number that the kernel's own
    /// list doesn't have.
    #[must_use]
    pub fn of(number: u64) -> Option<Self> {
        let number = usize::try_from(number).ok()?;
        let name = Sysno::new(number)?.name();
        let (kind, on) = meaning(name);
        Some(Self { name, kind, on })
    }

    /// The same, by what the call's arguments make of it: a poll of nothing is a sleep, and a
    /// mapping without a file no I/O.
    #[must_use]
    pub fn in_progress(syscall: &Syscall) -> Option<Self> {
        let mut call = Self::of(syscall.number)?;
        // No file: memory, of which the address space's lock is all that there is to wait for.
        if call.name == "mmap" && syscall.arguments[4] & 0x8000_0000 != 0 {
            (call.kind, call.on) = (CallKind::Lock, DescriptorArgument::None);
        }
        // Advice by which the file is read now, or its pages are made (madvise(2): WILLNEED,
        // POPULATE_READ, POPULATE_WRITE).
        if call.name == "madvise" && matches!(syscall.arguments[2] & 0xffff_ffff, 3 | 22 | 23) {
            call.kind = CallKind::Io;
        }
        let waits_for_nothing = match call.on {
            DescriptorArgument::PollList { count, .. }
            | DescriptorArgument::SelectSets { count } => {
                // Both counts are `int`s: the upper half of the register isn't theirs.
                syscall.arguments[count] & 0xffff_ffff == 0
            }
            _ => false,
        };
        if waits_for_nothing {
            (call.kind, call.on) = (CallKind::Sleep, DescriptorArgument::None);
        }
        Some(call)
    }
}

/// By name, since numbers differ between architectures.
fn meaning(name: &str) -> (CallKind, DescriptorArgument) {
    use CallKind::{EventWait, Io, Lock, Other, Sleep, Spawn};
    use DescriptorArgument::{
        CloneArguments, CloneFlags, Descriptor, None, Path, Peer, PollList, Process, SelectSets,
    };
    match name {
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "io_uring_enter" | "io_getevents"
        | "io_pgetevents" => (EventWait, Descriptor(0)),
        "poll" | "ppoll" => (EventWait, PollList { list: 0, count: 1 }),
        "select" | "pselect6" | "_newselect" => (EventWait, SelectSets { count: 0 }),

        "futex" | "futex_wait" | "futex_waitv" | "futex_time64" => (Lock, None),
        "semop" | "semtimedop" => (Lock, None),
        "flock" => (Lock, Descriptor(0)),
        // They wait for nothing but the lock of the address space, which page faults and other
        // threads' mappings hold.
        "munmap" | "mprotect" | "madvise" | "mremap" | "brk" => (Lock, None),

        "nanosleep" | "clock_nanosleep" | "pause" | "rt_sigsuspend" | "rt_sigtimedwait" => {
            (Sleep, None)
        }

        "wait4" => (Spawn, Process(0)),
        "waitid" => (Spawn, Process(1)),
        "clone" => (Spawn, CloneFlags(0)),
        "clone3" => (Spawn, CloneArguments(0)),
        "fork" | "vfork" | "execve" | "execveat" => (Spawn, None),

        "connect" => (
            Io,
            Peer {
                descriptor: 0,
                address: 1,
            },
        ),
        "sendto" => (
            Io,
            Peer {
                descriptor: 0,
                address: 4,
            },
        ),

        "read" | "write" | "readv" | "writev" | "pread64" | "pwrite64" | "preadv" | "pwritev"
        | "preadv2" | "pwritev2" | "recvfrom" | "recvmsg" | "recvmmsg" | "sendmsg" | "sendmmsg"
        | "accept" | "accept4" | "shutdown" | "close" | "fsync" | "fdatasync"
        | "sync_file_range" | "syncfs" | "ftruncate" | "fallocate" | "getdents64" | "getdents"
        | "lseek" | "fstat" | "ioctl" | "fcntl" | "fadvise64" | "readahead" | "fchmod"
        | "fchown" | "fgetxattr" | "fsetxattr" | "splice" | "tee" | "vmsplice"
        | "copy_file_range" | "signalfd4" => (Io, Descriptor(0)),
        // Out, in: what holds it up is mostly the one written to.
        "sendfile" | "sendfile64" => (Io, Descriptor(0)),
        "mmap" => (Io, Descriptor(4)),

        "open" | "creat" | "stat" | "lstat" | "newstat" | "access" | "unlink" | "mkdir"
        | "rmdir" | "rename" | "chmod" | "chown" | "lchown" | "truncate" | "readlink" | "link"
        | "symlink" | "statfs" | "chdir" | "mknod" | "utime" | "utimes" | "getxattr"
        | "setxattr" | "umount2" | "mount" => (Io, Path(0)),
        "openat" | "openat2" | "newfstatat" | "fstatat64" | "statx" | "faccessat"
        | "faccessat2" | "unlinkat" | "mkdirat" | "renameat" | "renameat2" | "fchmodat"
        | "fchownat" | "readlinkat" | "linkat" | "mknodat" | "utimensat" | "name_to_handle_at" => {
            (Io, Path(1))
        }

        "sync" | "msync" | "getrandom" | "mq_timedsend" | "mq_timedreceive" | "msgrcv"
        | "msgsnd" => (Io, None),
        _ => (Other, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: i64) -> u64 {
        u64::try_from(number).expect("positive")
    }

    #[test]
    fn calls_have_their_manual_s_names_and_a_kind() {
        let kinds = [
            (libc::SYS_recvfrom, "recvfrom", CauseClass::Io),
            (libc::SYS_futex, "futex", CauseClass::Lock),
            (
                libc::SYS_clock_nanosleep,
                "clock_nanosleep",
                CauseClass::Sleep,
            ),
            (libc::SYS_wait4, "wait4", CauseClass::Spawn),
            (libc::SYS_epoll_pwait, "epoll_pwait", CauseClass::Io),
            (libc::SYS_getpid, "getpid", CauseClass::Unknown),
        ];
        for (call, name, class) in kinds {
            let call = Call::of(number(call)).expect("known");
            assert_eq!((call.name, call.kind.class()), (name, class));
        }
        assert_eq!(Call::of(1 << 40), None);
    }

    #[test]
    fn only_waits_for_many_are_event_waits() {
        for call in [
            libc::SYS_epoll_pwait,
            libc::SYS_io_uring_enter,
            libc::SYS_ppoll,
        ] {
            assert_eq!(
                Call::of(number(call)).map(|call| call.kind),
                Some(CallKind::EventWait)
            );
        }
        for call in [libc::SYS_read, libc::SYS_futex, libc::SYS_accept4] {
            assert_ne!(
                Call::of(number(call)).map(|call| call.kind),
                Some(CallKind::EventWait)
            );
        }
    }

    #[test]
    fn a_poll_of_nothing_is_a_sleep() {
        let poll = |count| {
            let syscall = Syscall {
                number: number(libc::SYS_ppoll),
                arguments: [0, count, 0, 0, 0, 0],
                sp: 0,
                pc: 0,
            };
            Call::in_progress(&syscall).map(|call| call.kind)
        };
        assert_eq!(poll(1), Some(CallKind::EventWait));
        assert_eq!(poll(0), Some(CallKind::Sleep));
        assert_eq!(poll(7 << 32), Some(CallKind::Sleep));
    }
}
