//! The calls that never wait, by name, and those that work on files and always can.

use syscalls::Sysno;

/// Never waits for anybody, whatever its arguments.
pub(super) fn is_always(name: Sysno) -> bool {
    is_about_memory(name)
        || is_about_descriptors(name)
        || is_about_signals_and_time(name)
        || is_about_processes(name)
}

fn is_about_memory(name: Sysno) -> bool {
    matches!(
        name,
        Sysno::brk
            | Sysno::munmap
            | Sysno::mprotect
            | Sysno::mremap
            | Sysno::mincore
            | Sysno::munlock
            | Sysno::munlockall
            | Sysno::memfd_create
            | Sysno::pkey_mprotect
            | Sysno::pkey_alloc
            | Sysno::pkey_free
            | Sysno::mseal
            | Sysno::get_mempolicy
            | Sysno::set_mempolicy
            | Sysno::shmget
            | Sysno::shmat
            | Sysno::shmdt
            | Sysno::shmctl
    )
}

fn is_about_descriptors(name: Sysno) -> bool {
    matches!(
        name,
        Sysno::fstat
            | Sysno::getcwd
            | Sysno::umask
            | Sysno::dup
            | Sysno::pipe
            | Sysno::pipe2
            | Sysno::eventfd
            | Sysno::eventfd2
            | Sysno::signalfd
            | Sysno::signalfd4
            | Sysno::timerfd_create
            | Sysno::timerfd_settime
            | Sysno::timerfd_gettime
            | Sysno::epoll_create
            | Sysno::epoll_create1
            | Sysno::epoll_ctl
            | Sysno::inotify_init
            | Sysno::inotify_init1
            | Sysno::inotify_rm_watch
            | Sysno::io_uring_setup
            | Sysno::io_setup
            | Sysno::io_cancel
            | Sysno::socket
            | Sysno::socketpair
            | Sysno::bind
            | Sysno::listen
            | Sysno::shutdown
            | Sysno::getsockname
            | Sysno::getpeername
            | Sysno::getsockopt
            | Sysno::setsockopt
            | Sysno::mq_notify
            | Sysno::mq_getsetattr
            | Sysno::perf_event_open
    )
}

fn is_about_signals_and_time(name: Sysno) -> bool {
    matches!(
        name,
        Sysno::rt_sigaction
            | Sysno::rt_sigprocmask
            | Sysno::rt_sigreturn
            | Sysno::rt_sigpending
            | Sysno::rt_sigqueueinfo
            | Sysno::rt_tgsigqueueinfo
            | Sysno::sigaltstack
            | Sysno::kill
            | Sysno::tkill
            | Sysno::tgkill
            | Sysno::pidfd_open
            | Sysno::pidfd_send_signal
            | Sysno::restart_syscall
            | Sysno::alarm
            | Sysno::getitimer
            | Sysno::setitimer
            | Sysno::timer_create
            | Sysno::timer_settime
            | Sysno::timer_gettime
            | Sysno::timer_getoverrun
            | Sysno::timer_delete
            | Sysno::clock_gettime
            | Sysno::clock_getres
            | Sysno::gettimeofday
            | Sysno::time
            | Sysno::times
            | Sysno::futex_wake
            | Sysno::futex_requeue
            | Sysno::sched_yield
    )
}

fn is_about_processes(name: Sysno) -> bool {
    matches!(
        name,
        Sysno::getpid
            | Sysno::gettid
            | Sysno::getppid
            | Sysno::getpgrp
            | Sysno::getpgid
            | Sysno::getsid
            | Sysno::setpgid
            | Sysno::setsid
            | Sysno::getuid
            | Sysno::geteuid
            | Sysno::getgid
            | Sysno::getegid
            | Sysno::getgroups
            | Sysno::getresuid
            | Sysno::getresgid
            | Sysno::getrlimit
            | Sysno::setrlimit
            | Sysno::prlimit64
            | Sysno::getrusage
            | Sysno::getpriority
            | Sysno::setpriority
            | Sysno::ioprio_get
            | Sysno::ioprio_set
            | Sysno::sched_getaffinity
            | Sysno::sched_setaffinity
            | Sysno::sched_getparam
            | Sysno::sched_setparam
            | Sysno::sched_getscheduler
            | Sysno::sched_setscheduler
            | Sysno::sched_get_priority_max
            | Sysno::sched_get_priority_min
            | Sysno::sched_rr_get_interval
            | Sysno::sched_getattr
            | Sysno::sched_setattr
            | Sysno::getcpu
            | Sysno::uname
            | Sysno::sysinfo
            | Sysno::capget
            | Sysno::prctl
            | Sysno::arch_prctl
            | Sysno::rseq
            | Sysno::set_tid_address
            | Sysno::set_robust_list
            | Sysno::get_robust_list
            | Sysno::exit
            | Sysno::exit_group
    )
}

/// Works on a file, a directory or the disk.
pub(super) fn is_file_call(name: Sysno) -> bool {
    is_path_call(name)
        || matches!(
            name,
            Sysno::fsync
                | Sysno::fdatasync
                | Sysno::sync
                | Sysno::syncfs
                | Sysno::sync_file_range
                | Sysno::readahead
                | Sysno::ftruncate
                | Sysno::fallocate
                | Sysno::getdents
                | Sysno::getdents64
                | Sysno::fchmod
                | Sysno::fchown
                | Sysno::fchdir
                | Sysno::fstatfs
                | Sysno::fgetxattr
                | Sysno::fsetxattr
                | Sysno::flistxattr
                | Sysno::fremovexattr
                | Sysno::copy_file_range
                | Sysno::cachestat
                | Sysno::io_submit
                | Sysno::io_destroy
        )
}

/// Looks a path up.
pub(super) fn is_path_call(name: Sysno) -> bool {
    let plain = matches!(
        name,
        Sysno::open
            | Sysno::creat
            | Sysno::stat
            | Sysno::lstat
            | Sysno::access
            | Sysno::truncate
            | Sysno::chdir
            | Sysno::rename
            | Sysno::mkdir
            | Sysno::rmdir
            | Sysno::link
            | Sysno::unlink
            | Sysno::symlink
            | Sysno::readlink
            | Sysno::chmod
            | Sysno::chown
            | Sysno::lchown
            | Sysno::utime
            | Sysno::utimes
            | Sysno::mknod
            | Sysno::statfs
            | Sysno::getxattr
            | Sysno::lgetxattr
            | Sysno::setxattr
            | Sysno::lsetxattr
            | Sysno::listxattr
            | Sysno::llistxattr
            | Sysno::removexattr
            | Sysno::lremovexattr
            | Sysno::execve
    );
    plain || is_path_at_call(name)
}

/// Looks a path up from a directory's descriptor: the path is the second argument.
pub(super) fn is_path_at_call(name: Sysno) -> bool {
    matches!(
        name,
        Sysno::openat
            | Sysno::openat2
            | Sysno::newfstatat
            | Sysno::statx
            | Sysno::faccessat
            | Sysno::faccessat2
            | Sysno::readlinkat
            | Sysno::renameat
            | Sysno::renameat2
            | Sysno::mkdirat
            | Sysno::mknodat
            | Sysno::unlinkat
            | Sysno::linkat
            | Sysno::fchmodat
            | Sysno::fchmodat2
            | Sysno::fchownat
            | Sysno::futimesat
            | Sysno::utimensat
            | Sysno::inotify_add_watch
            | Sysno::execveat
            | Sysno::name_to_handle_at
    )
}

/// Asks or sets what is in memory: `FIONBIO`, `FIONREAD`, `FIOCLEX`, `FIONCLEX`, `FIOASYNC`,
/// `SIOCATMARK`, `SIOCOUTQ` (which is `TIOCOUTQ`), `TCGETS`, `TIOCGWINSZ`, `TIOCGPGRP`.
pub(super) fn is_ioctl(request: u64) -> bool {
    matches!(
        request & 0xffff_ffff,
        0x5421 | 0x541b | 0x5451 | 0x5450 | 0x5452 | 0x8905 | 0x5411 | 0x5401 | 0x5413 | 0x540f
    )
}

/// Advice that neither reads nor writes pages.
pub(super) fn is_advice(advice: i32) -> bool {
    matches!(
        advice,
        libc::MADV_NORMAL
            | libc::MADV_RANDOM
            | libc::MADV_SEQUENTIAL
            | libc::MADV_DONTNEED
            | libc::MADV_FREE
            | libc::MADV_DONTFORK
            | libc::MADV_DOFORK
            | libc::MADV_MERGEABLE
            | libc::MADV_UNMERGEABLE
            | libc::MADV_HUGEPAGE
            | libc::MADV_NOHUGEPAGE
            | libc::MADV_DONTDUMP
            | libc::MADV_DODUMP
            | libc::MADV_WIPEONFORK
            | libc::MADV_KEEPONFORK
            // The guard pages of newer allocators and thread stacks.
            | 102
            | 103
    )
}
