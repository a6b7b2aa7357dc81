//! Which system calls can block, by number, arguments and what their descriptors are.
//!
//! Pure: whoever asks brings the facts ([`CallFacts`]), so the same rules serve the proof inside
//! a process, which asks the kernel from a signal handler, and a tracer outside of it. They take
//! no lock and no memory, therefore.
//!
//! *Can block* is said of the call and not of this one time: a read of a cached file returns at
//! once today and waits for the disk tomorrow. What isn't known to be harmless can block: a new
//! kernel's calls are findings until somebody has looked at them.
//!
//! Source: the manual pages of section 2. Taken as harmless although a corner of them isn't:
//! `close`, `fstat` and `lseek` of a file on a network or FUSE file system (which ask their server,
//! and write back), `bind` of a Unix socket's path, `sched_yield`, and a stack or heap page that has
//! to come back from swap, which is no call at all.

mod harmless;
mod subject;

use syscalls::Sysno;

use crate::cause::CauseClass;

pub use subject::Subject;

/// One system call at its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its number on this architecture.
    pub number: u64,
    /// Its six arguments, used or not.
    pub arguments: [u64; 6],
}

/// What a descriptor refers to, as far as waiting goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptorKind {
    /// A file of a file system: it waits for the disk, whatever `O_NONBLOCK` says.
    File,
    /// A directory.
    Directory,
    /// A disk.
    BlockDevice,
    /// `/dev/null`, `/dev/zero`, `/dev/full`, `/dev/random`, `/dev/urandom`: never waits.
    MemoryDevice,
    /// A terminal or another character device.
    CharacterDevice,
    /// A pipe, with a name or without.
    Pipe,
    /// A socket.
    Socket,
    /// eventfd, timerfd, epoll, signalfd, …
    Anonymous,
}

/// One open descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// What it refers to.
    pub kind: DescriptorKind,
    /// It has `O_NONBLOCK`.
    pub is_nonblocking: bool,
}

impl Descriptor {
    /// Open, and nobody can say what it is: it may wait.
    pub const UNKNOWN: Self = Self {
        kind: DescriptorKind::File,
        is_nonblocking: false,
    };

    /// From `st_mode` and `st_rdev` of `fstat`, and the status flags (`F_GETFL`).
    #[must_use]
    pub fn from_status(mode: u32, device: u64, status_flags: u64) -> Self {
        let kind = match mode & libc::S_IFMT {
            libc::S_IFREG => DescriptorKind::File,
            libc::S_IFDIR => DescriptorKind::Directory,
            libc::S_IFBLK => DescriptorKind::BlockDevice,
            libc::S_IFIFO => DescriptorKind::Pipe,
            libc::S_IFSOCK => DescriptorKind::Socket,
            libc::S_IFCHR if is_memory_device(device) => DescriptorKind::MemoryDevice,
            libc::S_IFCHR => DescriptorKind::CharacterDevice,
            _ => DescriptorKind::Anonymous,
        };
        Self {
            kind,
            is_nonblocking: status_flags & libc::O_NONBLOCK as u64 != 0,
        }
    }

    /// A read or write of it may wait.
    fn transfer_waits(self) -> bool {
        use DescriptorKind as Kind;
        match self.kind {
            Kind::File | Kind::Directory | Kind::BlockDevice => true,
            Kind::MemoryDevice => false,
            Kind::CharacterDevice | Kind::Pipe | Kind::Socket | Kind::Anonymous => {
                !self.is_nonblocking
            }
        }
    }
}

/// Major 1: null 3, zero 5, full 7, random 8, urandom 9 (Documentation/admin-guide/devices.txt).
fn is_memory_device(device: u64) -> bool {
    libc::major(device) == 1 && matches!(libc::minor(device), 3 | 5 | 7 | 8 | 9)
}

/// What the rules ask about the process that makes a call.
pub trait CallFacts {
    /// What a descriptor is; `None` if it isn't open, and the call fails at once.
    fn descriptor(&mut self, descriptor: i32) -> Option<Descriptor>;
    /// Whether it is a socket whose `close` waits for its peer (`SO_LINGER` with a time); who
    /// can't know says no.
    fn lingers(&mut self, descriptor: i32) -> bool;
    /// Copies the process's memory; `false` if it can't be read.
    fn read_memory(&mut self, address: u64, into: &mut [u8]) -> bool;
}

/// What the rules say of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It returns without waiting for anybody.
    Harmless,
    /// It can wait, and for what.
    Blocking(CauseClass),
    /// It writes to standard output or error: advisory.
    Log,
}

use Judgement::{Blocking, Harmless, Log};

/// Judges one call.
pub fn judge(call: &Call, facts: &mut impl CallFacts) -> Judgement {
    let Some(name) = usize::try_from(call.number).ok().and_then(Sysno::new) else {
        return Blocking(CauseClass::Unknown);
    };
    if harmless::is_always(name) {
        return Harmless;
    }
    judge_transfer(name, call, facts)
        .or_else(|| judge_wait(name, call, facts))
        .or_else(|| judge_memory_or_file(name, call, facts))
        .unwrap_or_else(|| Blocking(class_of(name)))
}

/// Blocks with `class` if it may.
fn blocking_if(may: bool, class: CauseClass) -> Judgement {
    if may { Blocking(class) } else { Harmless }
}

/// Descriptors are C's `int`: the upper half of the register means nothing.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the kernel truncates alike"
)]
fn int(argument: u64) -> i32 {
    argument as u32 as i32
}

fn has(argument: u64, flag: i32) -> bool {
    int(argument) & flag != 0
}

/// Calls that move bytes or take connections.
fn judge_transfer(name: Sysno, call: &Call, facts: &mut impl CallFacts) -> Option<Judgement> {
    let a = &call.arguments;
    let dont_wait = match name {
        Sysno::write | Sysno::writev | Sysno::pwrite64 | Sysno::pwritev | Sysno::pwritev2
            if matches!(int(a[0]), 1 | 2) =>
        {
            return Some(facts.descriptor(int(a[0])).map_or(Harmless, |_| Log));
        }
        Sysno::preadv2 | Sysno::pwritev2 => has(a[5], libc::RWF_NOWAIT),
        Sysno::recvfrom | Sysno::sendto | Sysno::recvmmsg | Sysno::sendmmsg => {
            has(a[3], libc::MSG_DONTWAIT)
        }
        Sysno::recvmsg | Sysno::sendmsg => has(a[2], libc::MSG_DONTWAIT),
        Sysno::read
        | Sysno::readv
        | Sysno::pread64
        | Sysno::preadv
        | Sysno::write
        | Sysno::writev
        | Sysno::pwrite64
        | Sysno::pwritev
        | Sysno::accept
        | Sysno::accept4
        | Sysno::connect
        | Sysno::mq_timedsend
        | Sysno::mq_timedreceive => false,
        Sysno::splice | Sysno::tee | Sysno::vmsplice | Sysno::sendfile => {
            return Some(judge_splice(name, a, facts));
        }
        _ => return None,
    };
    let waits = !dont_wait && transfer_waits(a[0], facts);
    Some(blocking_if(waits, CauseClass::Io))
}

fn transfer_waits(descriptor: u64, facts: &mut impl CallFacts) -> bool {
    let descriptor = facts.descriptor(int(descriptor));
    descriptor.is_some_and(Descriptor::transfer_waits)
}

/// `SPLICE_F_NONBLOCK` is about the pipe only; the other end goes by its own flag.
fn judge_splice(name: Sysno, a: &[u64; 6], facts: &mut impl CallFacts) -> Judgement {
    let (ends, pipes_dont_wait) = match name {
        Sysno::splice => ([a[0], a[2]], has(a[5], 2)),
        Sysno::tee => ([a[0], a[1]], has(a[3], 2)),
        Sysno::vmsplice => ([a[0], a[0]], has(a[3], 2)),
        _ => ([a[0], a[1]], false),
    };
    let waits = ends.iter().any(|end| {
        facts.descriptor(int(*end)).is_some_and(|end| {
            end.transfer_waits() && !(pipes_dont_wait && end.kind == DescriptorKind::Pipe)
        })
    });
    blocking_if(waits, CauseClass::Io)
}

/// Calls whose purpose is to wait, and those that start others.
fn judge_wait(name: Sysno, call: &Call, facts: &mut impl CallFacts) -> Option<Judgement> {
    let a = &call.arguments;
    let judgement = match name {
        Sysno::futex => judge_futex(a, facts),
        Sysno::epoll_wait | Sysno::epoll_pwait => blocking_if(int(a[3]) != 0, CauseClass::Io),
        Sysno::epoll_pwait2 => blocking_if(!is_zero_time(a[3], facts), CauseClass::Io),
        Sysno::poll => blocking_if(int(a[2]) != 0, wait_class(a[1])),
        Sysno::ppoll => blocking_if(!is_zero_time(a[2], facts), wait_class(a[1])),
        Sysno::select | Sysno::pselect6 => {
            blocking_if(!is_zero_time(a[4], facts), wait_class(a[0]))
        }
        Sysno::rt_sigtimedwait => blocking_if(!is_zero_time(a[2], facts), CauseClass::Sleep),
        Sysno::wait4 => blocking_if(!has(a[2], libc::WNOHANG), CauseClass::Spawn),
        Sysno::waitid => blocking_if(!has(a[3], libc::WNOHANG), CauseClass::Spawn),
        Sysno::clone => blocking_if(!starts_thread(a[0]), CauseClass::Spawn),
        Sysno::clone3 => {
            let flags = read_u64(a[0], facts);
            blocking_if(!flags.is_some_and(starts_thread), CauseClass::Spawn)
        }
        Sysno::io_uring_enter => {
            let flags = a[3];
            let waits_for_events = flags & IORING_ENTER_GETEVENTS != 0 && int(a[2]) != 0;
            let waits = waits_for_events || flags & IORING_ENTER_SQ_WAIT != 0;
            blocking_if(waits, CauseClass::Io)
        }
        Sysno::io_getevents | Sysno::io_pgetevents => {
            let waits = a[1] != 0 && !is_zero_time(a[4], facts);
            blocking_if(waits, CauseClass::Io)
        }
        Sysno::getrandom => {
            // Without a flag it waits once, after boot, before there is a program to prove.
            let waits = has(a[2], 2) && !has(a[2], 1);
            blocking_if(waits, CauseClass::Io)
        }
        Sysno::io_uring_register => {
            let waits = int(a[1]) & IORING_REGISTER_OPCODES == IORING_REGISTER_SYNC_CANCEL;
            blocking_if(waits, CauseClass::Io)
        }
        Sysno::membarrier => blocking_if(has(a[0], 1), CauseClass::Lock),
        _ => return None,
    };
    Some(judgement)
}

/// `linux/io_uring.h`.
const IORING_ENTER_GETEVENTS: u64 = 1;
const IORING_ENTER_SQ_WAIT: u64 = 4;
/// The rest is `IORING_REGISTER_USE_REGISTERED_RING`.
const IORING_REGISTER_OPCODES: i32 = i32::MAX;
const IORING_REGISTER_SYNC_CANCEL: i32 = 24;

/// Without a descriptor it is a sleep.
fn wait_class(descriptors: u64) -> CauseClass {
    if int(descriptors) == 0 {
        CauseClass::Sleep
    } else {
        CauseClass::Io
    }
}

fn starts_thread(clone_flags: u64) -> bool {
    clone_flags & libc::CLONE_THREAD as u64 != 0
}

/// `linux/futex.h`: the command is what remains without the flags 128 (private) and 256 (clock).
fn judge_futex(a: &[u64; 6], facts: &mut impl CallFacts) -> Judgement {
    let waits = match int(a[1]) & 0x7f {
        // Its time is relative, so that 0 asks and doesn't wait.
        libc::FUTEX_WAIT => a[3] == 0 || !is_zero_time(a[3], facts),
        libc::FUTEX_WAIT_BITSET
        | libc::FUTEX_LOCK_PI
        | libc::FUTEX_LOCK_PI2
        | libc::FUTEX_WAIT_REQUEUE_PI => true,
        _ => false,
    };
    blocking_if(waits, CauseClass::Lock)
}

fn read_u64(address: u64, facts: &mut impl CallFacts) -> Option<u64> {
    let mut bytes = [0; 8];
    facts
        .read_memory(address, &mut bytes)
        .then(|| u64::from_ne_bytes(bytes))
}

/// Two words of zero (`timespec`, `timeval`). No pointer is no limit; what can't be read fails.
fn is_zero_time(address: u64, facts: &mut impl CallFacts) -> bool {
    let mut time = [0xff; 16];
    if address == 0 {
        return false;
    }
    !facts.read_memory(address, &mut time) || time == [0; 16]
}

/// Calls about memory, files and locks of files whose arguments decide.
fn judge_memory_or_file(name: Sysno, call: &Call, facts: &mut impl CallFacts) -> Option<Judgement> {
    let a = &call.arguments;
    let judgement = match name {
        Sysno::close => blocking_if(facts.lingers(int(a[0])), CauseClass::Io),
        // They close what the new number was.
        Sysno::dup2 | Sysno::dup3 => {
            let waits = int(a[0]) != int(a[1]) && facts.lingers(int(a[1]));
            blocking_if(waits, CauseClass::Io)
        }
        Sysno::close_range => blocking_if(range_lingers(a, facts), CauseClass::Io),
        // An empty path is the descriptor itself, whose inode is in memory.
        Sysno::newfstatat => blocking_if(!is_of_descriptor(a[1], a[3], facts), CauseClass::Io),
        Sysno::statx => blocking_if(!is_of_descriptor(a[1], a[2], facts), CauseClass::Io),
        Sysno::lseek => {
            let searches = matches!(int(a[2]), libc::SEEK_DATA | libc::SEEK_HOLE);
            blocking_if(searches, CauseClass::Io)
        }
        Sysno::fcntl => {
            let waits = matches!(int(a[1]), libc::F_SETLKW | libc::F_OFD_SETLKW);
            blocking_if(waits, CauseClass::Lock)
        }
        Sysno::flock => {
            let waits = !has(a[1], libc::LOCK_NB | libc::LOCK_UN);
            blocking_if(waits, CauseClass::Lock)
        }
        Sysno::ioctl => blocking_if(!harmless::is_ioctl(a[1]), CauseClass::Io),
        // Its pages come from disk, by faults that are no calls: this is the only sign of them.
        Sysno::mmap => {
            let of_file = !has(a[3], libc::MAP_ANONYMOUS)
                && facts.descriptor(int(a[4])).is_some_and(|mapped| {
                    use DescriptorKind as Kind;
                    matches!(mapped.kind, Kind::File | Kind::BlockDevice)
                });
            blocking_if(of_file, CauseClass::Io)
        }
        Sysno::msync => blocking_if(has(a[2], libc::MS_SYNC), CauseClass::Io),
        Sysno::madvise => blocking_if(!harmless::is_advice(int(a[2])), CauseClass::Fault),
        Sysno::fadvise64 => {
            let reads_or_writes = [libc::POSIX_FADV_WILLNEED, libc::POSIX_FADV_DONTNEED];
            blocking_if(reads_or_writes.contains(&int(a[3])), CauseClass::Io)
        }
        Sysno::msgsnd => blocking_if(!has(a[3], libc::IPC_NOWAIT), CauseClass::Io),
        Sysno::msgrcv => blocking_if(!has(a[4], libc::IPC_NOWAIT), CauseClass::Io),
        _ => return None,
    };
    Some(judgement)
}

/// Descriptors of one `close_range` that are looked at.
const RANGE_MAX: i32 = 1_024;

/// Whether one of a range lingers; of a long one nobody knows.
fn range_lingers(a: &[u64; 6], facts: &mut impl CallFacts) -> bool {
    if has(a[2], CLOSE_RANGE_CLOEXEC) {
        return false;
    }
    // The numbers are unsigned to the kernel; those that can be open are positive to us, too.
    let (first, last) = (int(a[0]), int(a[1]));
    match last.checked_sub(first) {
        Some(more) if first >= 0 && last >= 0 => {
            more >= RANGE_MAX || (first..=last).any(|descriptor| facts.lingers(descriptor))
        }
        // To the highest number there is, or an error.
        _ => first >= 0,
    }
}

/// `linux/close_range.h`: they are closed by a later `execve`.
const CLOSE_RANGE_CLOEXEC: i32 = 4;

/// `AT_EMPTY_PATH` with no path: the call is about the open descriptor.
fn is_of_descriptor(path: u64, flags: u64, facts: &mut impl CallFacts) -> bool {
    let mut first = [1];
    has(flags, libc::AT_EMPTY_PATH)
        && (path == 0 || (facts.read_memory(path, &mut first) && first == [0]))
}

/// What a call that always can block waits for.
fn class_of(name: Sysno) -> CauseClass {
    match name {
        Sysno::nanosleep | Sysno::clock_nanosleep | Sysno::pause | Sysno::rt_sigsuspend => {
            CauseClass::Sleep
        }
        Sysno::fork | Sysno::vfork | Sysno::execve | Sysno::execveat => CauseClass::Spawn,
        Sysno::futex_wait | Sysno::futex_waitv | Sysno::semop | Sysno::semtimedop => {
            CauseClass::Lock
        }
        Sysno::mlock | Sysno::mlock2 | Sysno::mlockall => CauseClass::Fault,
        _ if harmless::is_file_call(name) => CauseClass::Io,
        _ => CauseClass::Unknown,
    }
}

#[cfg(test)]
mod tests;
