//! The rules, call by call, and on calls that nobody would write.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// A process on paper.
#[derive(Default)]
struct Paper {
    descriptors: HashMap<i32, Descriptor>,
    memory: HashMap<u64, Vec<u8>>,
}

const FILE: u64 = 10;
const FILE_NONBLOCKING: u64 = 11;
const SOCKET: u64 = 12;
const SOCKET_NONBLOCKING: u64 = 13;
const PIPE: u64 = 14;
const PIPE_NONBLOCKING: u64 = 15;
const NULL_DEVICE: u64 = 16;
const EVENT: u64 = 17;
const EVENT_NONBLOCKING: u64 = 18;
const LINGERING: u64 = 19;
const TERMINAL: u64 = 20;
const NOT_OPEN: u64 = 99;

const NO_TIME: u64 = 0x1000;
const SOME_TIME: u64 = 0x2000;
const EMPTY_PATH: u64 = 0x3000;
const A_PATH: u64 = 0x4000;
const THREAD_FLAGS: u64 = 0x5000;
const PROCESS_FLAGS: u64 = 0x6000;
const UNREADABLE: u64 = 0x7000;

impl CallFacts for Paper {
    fn descriptor(&mut self, descriptor: i32) -> Option<Descriptor> {
        self.descriptors.get(&descriptor).copied()
    }

    fn lingers(&mut self, descriptor: i32) -> bool {
        descriptor == LINGERING as i32
    }

    fn read_memory(&mut self, address: u64, into: &mut [u8]) -> bool {
        match self.memory.get(&address) {
            Some(bytes) if bytes.len() >= into.len() => {
                into.copy_from_slice(&bytes[..into.len()]);
                true
            }
            _ => false,
        }
    }
}

fn paper() -> Paper {
    use DescriptorKind as Kind;
    let descriptors = [
        (0, Kind::CharacterDevice, false),
        (1, Kind::Pipe, false),
        (2, Kind::File, false),
        (FILE, Kind::File, false),
        (FILE_NONBLOCKING, Kind::File, true),
        (SOCKET, Kind::Socket, false),
        (SOCKET_NONBLOCKING, Kind::Socket, true),
        (PIPE, Kind::Pipe, false),
        (PIPE_NONBLOCKING, Kind::Pipe, true),
        (NULL_DEVICE, Kind::MemoryDevice, false),
        (EVENT, Kind::Anonymous, false),
        (EVENT_NONBLOCKING, Kind::Anonymous, true),
        (LINGERING, Kind::Socket, true),
        (TERMINAL, Kind::CharacterDevice, false),
    ];
    let time = |seconds: u64| [seconds.to_ne_bytes(), [0; 8]].concat();
    Paper {
        descriptors: descriptors
            .into_iter()
            .map(|(number, kind, is_nonblocking)| {
                let descriptor = Descriptor {
                    kind,
                    is_nonblocking,
                };
                (i32::try_from(number).expect("small"), descriptor)
            })
            .collect(),
        memory: HashMap::from([
            (NO_TIME, time(0)),
            (SOME_TIME, time(1)),
            (EMPTY_PATH, vec![0]),
            (A_PATH, b"/etc/hosts\0".to_vec()),
            (
                THREAD_FLAGS,
                (libc::CLONE_THREAD as u64).to_ne_bytes().to_vec(),
            ),
            (
                PROCESS_FLAGS,
                (libc::CLONE_VFORK as u64).to_ne_bytes().to_vec(),
            ),
        ]),
    }
}

#[track_caller]
fn says(name: Sysno, arguments: &[u64], expected: Judgement) {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let call = Call {
        number: name.id() as u64,
        arguments: all,
    };
    let judged = judge(&call, &mut paper());
    assert_eq!(judged, expected, "{}({arguments:x?})", name.name());
}

const IO: Judgement = Blocking(CauseClass::Io);
const LOCK: Judgement = Blocking(CauseClass::Lock);
const SLEEP: Judgement = Blocking(CauseClass::Sleep);
const SPAWN: Judgement = Blocking(CauseClass::Spawn);
const FAULT: Judgement = Blocking(CauseClass::Fault);
const FOREVER: u64 = -1i64 as u64;

#[test]
fn reads_and_writes_go_by_what_the_descriptor_is() {
    let calls = [
        Sysno::read,
        Sysno::readv,
        Sysno::pread64,
        Sysno::preadv,
        Sysno::preadv2,
        Sysno::write,
        Sysno::writev,
        Sysno::pwrite64,
        Sysno::pwritev,
        Sysno::pwritev2,
    ];
    for call in calls {
        for waits in [FILE, FILE_NONBLOCKING, SOCKET, PIPE, EVENT, TERMINAL] {
            says(call, &[waits], IO);
        }
        let ready = [
            SOCKET_NONBLOCKING,
            PIPE_NONBLOCKING,
            EVENT_NONBLOCKING,
            NULL_DEVICE,
            NOT_OPEN,
        ];
        for doesnt in ready {
            says(call, &[doesnt], Harmless);
        }
    }
    let nowait = libc::RWF_NOWAIT as u64;
    says(Sysno::preadv2, &[FILE, 0, 0, 0, 0, nowait], Harmless);
    says(Sysno::pwritev2, &[FILE, 0, 0, 0, 0, nowait], Harmless);
}

#[test]
fn writes_to_standard_output_and_error_are_logs() {
    for call in [Sysno::write, Sysno::writev] {
        says(call, &[1], Log);
        says(call, &[2], Log);
    }
    says(Sysno::read, &[0], IO);
    says(Sysno::sendto, &[1], IO);
}

#[test]
fn the_upper_half_of_a_descriptor_means_nothing() {
    says(Sysno::read, &[SOCKET_NONBLOCKING | 1 << 32], Harmless);
    says(Sysno::read, &[SOCKET | 1 << 32], IO);
}

#[test]
fn sockets_may_be_told_not_to_wait() {
    let dont = libc::MSG_DONTWAIT as u64;
    for call in [
        Sysno::recvfrom,
        Sysno::sendto,
        Sysno::recvmmsg,
        Sysno::sendmmsg,
    ] {
        says(call, &[SOCKET], IO);
        says(call, &[SOCKET, 0, 0, dont], Harmless);
        says(call, &[SOCKET, 0, dont], IO);
        says(call, &[SOCKET_NONBLOCKING], Harmless);
    }
    for call in [Sysno::recvmsg, Sysno::sendmsg] {
        says(call, &[SOCKET], IO);
        says(call, &[SOCKET, 0, dont], Harmless);
        says(call, &[SOCKET, 0, 0, dont], IO);
        says(call, &[SOCKET_NONBLOCKING], Harmless);
    }
    for call in [Sysno::accept, Sysno::accept4, Sysno::connect] {
        says(call, &[SOCKET], IO);
        says(call, &[SOCKET_NONBLOCKING], Harmless);
    }
}

#[test]
fn splices_wait_at_either_end() {
    let flag = 2;
    says(Sysno::splice, &[PIPE, 0, SOCKET_NONBLOCKING], IO);
    says(
        Sysno::splice,
        &[PIPE, 0, SOCKET_NONBLOCKING, 0, 0, flag],
        Harmless,
    );
    says(Sysno::splice, &[PIPE, 0, SOCKET, 0, 0, flag], IO);
    says(Sysno::splice, &[FILE, 0, PIPE, 0, 0, flag], IO);
    says(
        Sysno::splice,
        &[SOCKET_NONBLOCKING, 0, PIPE_NONBLOCKING],
        Harmless,
    );
    says(Sysno::tee, &[PIPE, PIPE, 0, flag], Harmless);
    says(Sysno::tee, &[PIPE, PIPE_NONBLOCKING], IO);
    says(Sysno::vmsplice, &[PIPE], IO);
    says(Sysno::vmsplice, &[PIPE, 0, 0, flag], Harmless);
    says(Sysno::sendfile, &[SOCKET_NONBLOCKING, FILE], IO);
    says(Sysno::copy_file_range, &[FILE, 0, FILE], IO);
}

#[test]
fn a_futex_is_waited_for_or_woken() {
    for flags in [0, 128, 256, 128 | 256] {
        for wait in [0, 6, 9, 11, 13] {
            says(Sysno::futex, &[0x10, wait | flags], LOCK);
        }
        // wake, requeue, cmp_requeue, wake_op, unlock_pi, trylock_pi, wake_bitset, cmp_requeue_pi
        for other in [1, 3, 4, 5, 7, 8, 10, 12] {
            says(Sysno::futex, &[0x10, other | flags], Harmless);
        }
    }
    says(Sysno::futex, &[0x10, 0, 0, NO_TIME], Harmless);
    says(Sysno::futex, &[0x10, 0, 0, SOME_TIME], LOCK);
    says(Sysno::futex_wait, &[], LOCK);
    says(Sysno::futex_waitv, &[], LOCK);
    says(Sysno::futex_wake, &[], Harmless);
    says(Sysno::futex_requeue, &[], Harmless);
}

#[test]
fn waits_for_events_go_by_their_time() {
    for call in [Sysno::epoll_wait, Sysno::epoll_pwait] {
        says(call, &[EVENT, 0, 8, 0], Harmless);
        says(call, &[EVENT, 0, 8, FOREVER], IO);
        says(call, &[EVENT, 0, 8, 5], IO);
    }
    says(Sysno::epoll_pwait2, &[EVENT, 0, 8, 0], IO);
    says(Sysno::epoll_pwait2, &[EVENT, 0, 8, NO_TIME], Harmless);
    says(Sysno::epoll_pwait2, &[EVENT, 0, 8, SOME_TIME], IO);
    says(Sysno::poll, &[0x10, 1, 0], Harmless);
    says(Sysno::poll, &[0x10, 1, FOREVER], IO);
    says(Sysno::poll, &[0, 0, 5], SLEEP);
    says(Sysno::ppoll, &[0x10, 1, NO_TIME], Harmless);
    says(Sysno::ppoll, &[0x10, 1, 0], IO);
    says(Sysno::ppoll, &[0x10, 1, UNREADABLE], Harmless);
    for call in [Sysno::select, Sysno::pselect6] {
        says(call, &[3, 0x10, 0, 0, NO_TIME], Harmless);
        says(call, &[3, 0x10, 0, 0, SOME_TIME], IO);
        says(call, &[3, 0x10, 0, 0, 0], IO);
        says(call, &[0, 0, 0, 0, SOME_TIME], SLEEP);
    }
    says(Sysno::rt_sigtimedwait, &[0, 0, NO_TIME], Harmless);
    says(Sysno::rt_sigtimedwait, &[0, 0, 0], SLEEP);
}

#[test]
fn rings_wait_only_when_asked_to() {
    says(Sysno::io_uring_enter, &[5, 1, 0, 0], Harmless);
    says(Sysno::io_uring_enter, &[5, 1, 0, 1], Harmless);
    says(Sysno::io_uring_enter, &[5, 1, 1, 0], Harmless);
    says(Sysno::io_uring_enter, &[5, 1, 1, 1], IO);
    says(Sysno::io_uring_enter, &[5, 1, 0, 4], IO);
    says(Sysno::io_uring_register, &[5, 2], Harmless);
    says(Sysno::io_uring_register, &[5, 24], IO);
    says(Sysno::io_uring_register, &[5, 24 | 1 << 31], IO);
    says(Sysno::io_getevents, &[5, 0, 9], Harmless);
    says(Sysno::io_getevents, &[5, 1, 9], IO);
    says(Sysno::io_getevents, &[5, 1, 9, 0, NO_TIME], Harmless);
    says(Sysno::io_submit, &[5], IO);
}

#[test]
fn threads_may_be_started_and_processes_may_not() {
    let thread = libc::CLONE_THREAD as u64;
    says(Sysno::clone, &[thread], Harmless);
    says(Sysno::clone, &[libc::CLONE_VFORK as u64], SPAWN);
    says(Sysno::clone3, &[THREAD_FLAGS], Harmless);
    says(Sysno::clone3, &[PROCESS_FLAGS], SPAWN);
    says(Sysno::clone3, &[UNREADABLE], SPAWN);
    for call in [Sysno::fork, Sysno::vfork, Sysno::execve] {
        says(call, &[], SPAWN);
    }
    let nohang = libc::WNOHANG as u64;
    says(Sysno::wait4, &[FOREVER, 0, 0], SPAWN);
    says(Sysno::wait4, &[FOREVER, 0, nohang], Harmless);
    says(Sysno::waitid, &[0, 0, 0, nohang | 4], Harmless);
    says(Sysno::waitid, &[0, 0, 0, 4], SPAWN);
}

#[test]
fn files_and_paths_always_can() {
    let calls = [
        Sysno::open,
        Sysno::openat,
        Sysno::stat,
        Sysno::lstat,
        Sysno::rename,
        Sysno::renameat2,
        Sysno::unlink,
        Sysno::unlinkat,
        Sysno::mkdir,
        Sysno::mkdirat,
        Sysno::access,
        Sysno::readlink,
        Sysno::getdents64,
        Sysno::fsync,
        Sysno::fdatasync,
        Sysno::sync,
        Sysno::ftruncate,
        Sysno::fallocate,
        Sysno::inotify_add_watch,
    ];
    for call in calls {
        says(call, &[FILE_NONBLOCKING, A_PATH], IO);
    }
    let empty = libc::AT_EMPTY_PATH as u64;
    says(Sysno::fstat, &[FILE], Harmless);
    says(Sysno::newfstatat, &[FILE, EMPTY_PATH, 0, empty], Harmless);
    says(Sysno::newfstatat, &[FILE, A_PATH, 0, empty], IO);
    says(Sysno::newfstatat, &[FILE, A_PATH, 0, 0], IO);
    says(Sysno::newfstatat, &[FILE, UNREADABLE, 0, empty], IO);
    says(Sysno::statx, &[FILE, EMPTY_PATH, empty], Harmless);
    says(Sysno::statx, &[FILE, 0, empty], Harmless);
    says(Sysno::statx, &[FILE, A_PATH, empty], IO);
    says(Sysno::lseek, &[FILE, 0, libc::SEEK_END as u64], Harmless);
    says(Sysno::lseek, &[FILE, 0, libc::SEEK_DATA as u64], IO);
}

#[test]
fn a_close_waits_only_for_a_lingering_socket() {
    for harmless in [FILE, SOCKET, SOCKET_NONBLOCKING, PIPE, NOT_OPEN] {
        says(Sysno::close, &[harmless], Harmless);
    }
    says(Sysno::close, &[LINGERING], IO);
}

#[test]
fn whatever_closes_a_lingering_socket_waits_for_it() {
    for call in [Sysno::dup2, Sysno::dup3] {
        says(call, &[FILE, LINGERING], IO);
        says(call, &[FILE, SOCKET], Harmless);
        says(call, &[LINGERING, NOT_OPEN], Harmless);
        says(call, &[LINGERING, LINGERING], Harmless);
    }
    says(Sysno::close_range, &[LINGERING, LINGERING], IO);
    says(Sysno::close_range, &[FILE, TERMINAL], IO);
    says(Sysno::close_range, &[FILE, EVENT], Harmless);
    says(Sysno::close_range, &[TERMINAL, TERMINAL + 2_000], IO);
    says(Sysno::close_range, &[TERMINAL, u64::from(u32::MAX)], IO);
    says(Sysno::close_range, &[FILE, TERMINAL, 4], Harmless);
    says(Sysno::close_range, &[TERMINAL, FILE], Harmless);
}

#[test]
fn locks_of_files_may_be_tried() {
    says(Sysno::flock, &[FILE, libc::LOCK_EX as u64], LOCK);
    says(
        Sysno::flock,
        &[FILE, (libc::LOCK_SH | libc::LOCK_NB) as u64],
        Harmless,
    );
    says(Sysno::flock, &[FILE, libc::LOCK_UN as u64], Harmless);
    says(Sysno::fcntl, &[FILE, libc::F_SETLKW as u64], LOCK);
    says(Sysno::fcntl, &[FILE, libc::F_OFD_SETLKW as u64], LOCK);
    for command in [
        libc::F_SETLK,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_DUPFD_CLOEXEC,
    ] {
        says(Sysno::fcntl, &[FILE, command as u64], Harmless);
    }
}

#[test]
fn memory_waits_where_it_is_a_file() {
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    says(Sysno::mmap, &[0, 4096, 3, anonymous, FOREVER], Harmless);
    says(
        Sysno::mmap,
        &[0, 4096, 3, libc::MAP_PRIVATE as u64, FILE],
        IO,
    );
    says(
        Sysno::mmap,
        &[0, 4096, 3, libc::MAP_SHARED as u64, EVENT],
        Harmless,
    );
    says(Sysno::msync, &[0, 0, libc::MS_SYNC as u64], IO);
    says(Sysno::msync, &[0, 0, libc::MS_ASYNC as u64], Harmless);
    says(
        Sysno::madvise,
        &[0, 0, libc::MADV_DONTNEED as u64],
        Harmless,
    );
    says(Sysno::madvise, &[0, 0, libc::MADV_WILLNEED as u64], FAULT);
    says(
        Sysno::madvise,
        &[0, 0, libc::MADV_POPULATE_READ as u64],
        FAULT,
    );
    says(Sysno::mlock, &[], FAULT);
    let willneed = libc::POSIX_FADV_WILLNEED as u64;
    says(Sysno::fadvise64, &[FILE, 0, 0, willneed], IO);
    says(
        Sysno::fadvise64,
        &[FILE, 0, 0, libc::POSIX_FADV_RANDOM as u64],
        Harmless,
    );
}

#[test]
fn small_questions_to_the_kernel_are_harmless() {
    says(Sysno::ioctl, &[SOCKET, libc::FIONBIO], Harmless);
    says(Sysno::ioctl, &[SOCKET, libc::FIONREAD], Harmless);
    says(Sysno::ioctl, &[SOCKET, libc::SIOCGIFCONF], IO);
    says(Sysno::ioctl, &[TERMINAL, libc::TIOCGWINSZ], Harmless);
    says(Sysno::ioctl, &[TERMINAL, libc::TCSBRK], IO);
    says(Sysno::getrandom, &[0, 16, 0], Harmless);
    says(
        Sysno::getrandom,
        &[0, 16, libc::GRND_NONBLOCK.into()],
        Harmless,
    );
    says(Sysno::getrandom, &[0, 16, libc::GRND_RANDOM.into()], IO);
    says(Sysno::membarrier, &[1], LOCK);
    says(Sysno::membarrier, &[8], Harmless);
    for call in [
        Sysno::getppid,
        Sysno::epoll_ctl,
        Sysno::socket,
        Sysno::sched_yield,
    ] {
        says(call, &[], Harmless);
    }
    let nowait = libc::IPC_NOWAIT as u64;
    says(Sysno::msgsnd, &[1, 0, 0, nowait], Harmless);
    says(Sysno::msgrcv, &[1, 0, 0, 0, 0], IO);
    says(Sysno::nanosleep, &[SOME_TIME], SLEEP);
    says(Sysno::clock_nanosleep, &[0, 0, SOME_TIME], SLEEP);
    says(Sysno::pause, &[], SLEEP);
}

#[test]
fn a_call_s_subject_is_the_argument_that_says_most() {
    let subject = |name: Sysno, arguments: [u64; 6]| {
        let number = name.id() as u64;
        Subject::of(&Call { number, arguments }, &mut paper())
    };
    let a = [7, A_PATH, 2, 9, 0x80, 16];
    assert_eq!(subject(Sysno::read, a), Subject::Descriptor(7));
    assert_eq!(subject(Sysno::fsync, a), Subject::Descriptor(7));
    assert_eq!(subject(Sysno::open, a), Subject::Path(7));
    assert_eq!(subject(Sysno::openat, a), Subject::Path(A_PATH));
    let (address, length) = (A_PATH, 2);
    assert_eq!(
        subject(Sysno::connect, a),
        Subject::Address { address, length }
    );
    let (address, length) = (0x80, 16);
    assert_eq!(
        subject(Sysno::sendto, a),
        Subject::Address { address, length }
    );
    assert_eq!(
        subject(Sysno::sendto, [7; 6].map(|_| 0)),
        Subject::Descriptor(0)
    );
    assert_eq!(
        subject(Sysno::poll, [SOME_TIME, 1, 0, 0, 0, 0]),
        Subject::Descriptor(1)
    );
    assert_eq!(subject(Sysno::poll, [0; 6]), Subject::Nothing);
    assert_eq!(subject(Sysno::futex, a), Subject::Nothing);
    assert_eq!(subject(Sysno::nanosleep, a), Subject::Nothing);
}

#[test]
fn what_nobody_has_looked_at_can_block() {
    says(Sysno::mount, &[], Blocking(CauseClass::Unknown));
    for number in [512, 100_000, u64::MAX] {
        let call = Call {
            number,
            arguments: [0; 6],
        };
        let judged = judge(&call, &mut paper());
        assert_eq!(judged, Blocking(CauseClass::Unknown), "{number}");
    }
}

#[test]
fn descriptors_are_told_apart_by_their_status() {
    let kind = |mode, device| Descriptor::from_status(mode, device, 0).kind;
    assert_eq!(kind(libc::S_IFREG | 0o644, 0), DescriptorKind::File);
    assert_eq!(kind(libc::S_IFSOCK, 0), DescriptorKind::Socket);
    assert_eq!(kind(0o600, 0), DescriptorKind::Anonymous);
    assert_eq!(
        kind(libc::S_IFCHR, libc::makedev(1, 3)),
        DescriptorKind::MemoryDevice
    );
    assert_eq!(
        kind(libc::S_IFCHR, libc::makedev(136, 0)),
        DescriptorKind::CharacterDevice
    );
    let nonblocking = (libc::O_RDWR | libc::O_NONBLOCK) as u64;
    assert!(Descriptor::from_status(libc::S_IFIFO, 0, nonblocking).is_nonblocking);
    assert!(!Descriptor::from_status(libc::S_IFIFO, 0, 2).is_nonblocking);
}

proptest! {
    /// Whatever a program passes, the rules answer, ask only about memory that the call names,
    /// and never call a plain file's transfer harmless.
    #[test]
    fn any_call_is_judged(number in 0u64..1_000, arguments in any::<[u64; 6]>()) {
        let call = Call { number, arguments };
        let once = judge(&call, &mut paper());
        prop_assert_eq!(once, judge(&call, &mut paper()));
    }

    #[test]
    fn a_file_s_bytes_always_can_block(
        name in prop::sample::select(vec![Sysno::read, Sysno::write, Sysno::pread64, Sysno::readv]),
        rest in any::<[u64; 5]>(),
    ) {
        for file in [FILE, FILE_NONBLOCKING] {
            let arguments = [file, rest[0], rest[1], rest[2], rest[3], rest[4]];
            let call = Call { number: name.id() as u64, arguments };
            prop_assert_eq!(judge(&call, &mut paper()), IO);
        }
    }
}
