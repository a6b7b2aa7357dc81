//! Which of a call's arguments says what it is about.

use syscalls::Sysno;

use super::{Call, CallFacts, harmless, int};

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// No argument tells.
    Nothing,
    /// An open descriptor.
    Descriptor(i32),
    /// A path at this address, ended by a zero.
    Path(u64),
    /// A socket address.
    Address {
        /// Where it is.
        address: u64,
        /// How long it is.
        length: u64,
    },
}

impl Subject {
    /// Finds it; of a list of descriptors, the first.
    pub fn of(call: &Call, facts: &mut impl CallFacts) -> Self {
        let Some(name) = usize::try_from(call.number).ok().and_then(Sysno::new) else {
            return Self::Nothing;
        };
        let a = &call.arguments;
        match name {
            Sysno::connect => Self::Address {
                address: a[1],
                length: a[2],
            },
            Sysno::sendto if a[4] != 0 => Self::Address {
                address: a[4],
                length: a[5],
            },
            // The descriptor that is read, and not the one that is written.
            Sysno::sendfile => Self::Descriptor(int(a[1])),
            Sysno::mmap => Self::Descriptor(int(a[4])),
            Sysno::poll | Sysno::ppoll => first_polled(a, facts),
            _ if harmless::is_path_at_call(name) => Self::Path(a[1]),
            _ if harmless::is_path_call(name) => Self::Path(a[0]),
            _ if takes_descriptor(name) => Self::Descriptor(int(a[0])),
            _ => Self::Nothing,
        }
    }
}

/// `struct pollfd` begins with the descriptor.
fn first_polled(a: &[u64; 6], facts: &mut impl CallFacts) -> Subject {
    let mut descriptor = [0; 4];
    if int(a[1]) != 0 && facts.read_memory(a[0], &mut descriptor) {
        Subject::Descriptor(i32::from_ne_bytes(descriptor))
    } else {
        Subject::Nothing
    }
}

/// Its first argument is a descriptor.
fn takes_descriptor(name: Sysno) -> bool {
    matches!(
        name,
        Sysno::read
            | Sysno::readv
            | Sysno::pread64
            | Sysno::preadv
            | Sysno::preadv2
            | Sysno::write
            | Sysno::writev
            | Sysno::pwrite64
            | Sysno::pwritev
            | Sysno::pwritev2
            | Sysno::recvfrom
            | Sysno::recvmsg
            | Sysno::recvmmsg
            | Sysno::sendto
            | Sysno::sendmsg
            | Sysno::sendmmsg
            | Sysno::accept
            | Sysno::accept4
            | Sysno::splice
            | Sysno::tee
            | Sysno::vmsplice
            | Sysno::close
            | Sysno::lseek
            | Sysno::fcntl
            | Sysno::flock
            | Sysno::ioctl
            | Sysno::fadvise64
            | Sysno::epoll_wait
            | Sysno::epoll_pwait
            | Sysno::epoll_pwait2
            | Sysno::io_uring_enter
            | Sysno::mq_timedsend
            | Sysno::mq_timedreceive
    ) || (harmless::is_file_call(name)
        && !matches!(name, Sysno::sync | Sysno::io_submit | Sysno::io_destroy))
}
