//! What the signal handler asks the kernel about a call: by raw calls only, without a lock, an
//! allocation or errno.
#![expect(
    unsafe_code,
    reason = "a signal handler may use nothing but raw system calls"
)]

use std::mem::MaybeUninit;
use std::ptr;

use super::gate::system_call;
use super::slots::{Captured, SUBJECT_BYTES, SubjectKind};
use crate::blocking_rules::{Call, CallFacts, Descriptor, DescriptorKind, Subject};

/// The calling thread's own process. To be used while calls pass.
pub(super) struct OwnProcess;

impl CallFacts for OwnProcess {
    fn descriptor(&mut self, descriptor: i32) -> Option<Descriptor> {
        let number = u64::from(descriptor.cast_unsigned());
        let mut status = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the kernel writes one `stat`, whose memory this is.
        let failed = unsafe {
            let address = status.as_mut_ptr() as u64;
            system_call(libc::SYS_fstat as u64, [number, address, 0, 0, 0, 0])
        };
        if failed == -i64::from(libc::EBADF) {
            return None;
        }
        if failed != 0 {
            // Its server is gone (ESTALE, ENOTCONN, EIO): just such a file waits.
            return Some(Descriptor::UNKNOWN);
        }
        // SAFETY: the call succeeded, so the kernel filled it.
        let status = unsafe { status.assume_init() };
        let get_flags = libc::F_GETFL as u64;
        // SAFETY: no pointers.
        let flags = unsafe { system_call(libc::SYS_fcntl as u64, [number, get_flags, 0, 0, 0, 0]) };
        // The descriptor exists; were the flags refused all the same, it can wait.
        let flags = u64::try_from(flags).unwrap_or(0);
        Some(Descriptor::from_status(
            status.st_mode,
            status.st_rdev,
            flags,
        ))
    }

    fn lingers(&mut self, descriptor: i32) -> bool {
        let mut linger = libc::linger {
            l_onoff: 0,
            l_linger: 0,
        };
        let mut length = size_of::<libc::linger>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `linger`, and the length back.
        let failed = unsafe {
            system_call(
                libc::SYS_getsockopt as u64,
                [
                    u64::from(descriptor.cast_unsigned()),
                    libc::SOL_SOCKET as u64,
                    libc::SO_LINGER as u64,
                    &raw mut linger as u64,
                    &raw mut length as u64,
                    0,
                ],
            )
        };
        failed == 0 && linger.l_onoff != 0 && linger.l_linger > 0
    }

    fn read_memory(&mut self, address: u64, into: &mut [u8]) -> bool {
        read_own(address, into) == into.len()
    }
}

/// Copies from an address that may be no memory at all, and returns how many bytes there were.
pub(super) fn read_own(address: u64, into: &mut [u8]) -> usize {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: ptr::without_provenance_mut(usize::try_from(address).unwrap_or(0)),
        iov_len: into.len(),
    };
    // SAFETY: no pointers; then the kernel writes at most `into.len()` bytes into `into`, and
    // reads from `address` as a stranger would, with an error instead of a fault.
    let copied = unsafe {
        let pid = system_call(libc::SYS_getpid as u64, [0; 6]) as u64;
        let vectors = [
            pid,
            &raw const local as u64,
            1,
            &raw const remote as u64,
            1,
            0,
        ];
        system_call(libc::SYS_process_vm_readv as u64, vectors)
    };
    usize::try_from(copied).unwrap_or(0)
}

/// Writes down what the call is about while it still is: descriptors are used again.
pub(super) fn capture_subject(call: &Call, captured: &mut Captured) {
    captured.subject_kind = SubjectKind::Nothing;
    captured.subject_length = 0;
    match Subject::of(call, &mut OwnProcess) {
        Subject::Nothing => {}
        Subject::Path(address) => capture_path(address, captured),
        Subject::Address { address, length } => {
            let length = usize::try_from(length).unwrap_or(0).min(SUBJECT_BYTES);
            captured.subject_length = read_own(address, &mut captured.subject[..length]);
            captured.subject_kind = SubjectKind::Address;
        }
        Subject::Descriptor(descriptor) => capture_descriptor(descriptor, captured),
    }
}

/// Up to the terminating zero. Read in pieces that don't cross into an unmapped page.
fn capture_path(address: u64, captured: &mut Captured) {
    captured.subject_kind = SubjectKind::Path;
    while captured.subject_length < SUBJECT_BYTES {
        let begin = captured.subject_length;
        let at = address.wrapping_add(begin as u64);
        let to_page_end = 4_096 - (at % 4_096) as usize;
        let end = SUBJECT_BYTES.min(begin + to_page_end);
        let piece = &mut captured.subject[begin..end];
        let read = read_own(at, piece);
        let zero = piece[..read].iter().position(|byte| *byte == 0);
        captured.subject_length += zero.unwrap_or(read);
        if zero.is_some() || read == 0 {
            return;
        }
    }
}

/// A socket's peer, else what the descriptor's link says.
fn capture_descriptor(descriptor: i32, captured: &mut Captured) {
    let number = u64::from(descriptor.cast_unsigned());
    let kind = OwnProcess.descriptor(descriptor).map(|known| known.kind);
    if kind == Some(DescriptorKind::Socket) {
        let mut length = SUBJECT_BYTES as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `subject`, and the length back.
        let failed = unsafe {
            let address = captured.subject.as_mut_ptr() as u64;
            let arguments = [number, address, &raw mut length as u64, 0, 0, 0];
            system_call(libc::SYS_getpeername as u64, arguments)
        };
        if failed == 0 {
            captured.subject_length = (length as usize).min(SUBJECT_BYTES);
            captured.subject_kind = SubjectKind::Address;
            return;
        }
    }
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    write_decimal(descriptor, &mut path[14..25]);
    // SAFETY: the path ends with a zero, and the kernel writes at most that many bytes.
    let length = unsafe {
        let into = captured.subject.as_mut_ptr() as u64;
        let arguments = [path.as_ptr() as u64, into, SUBJECT_BYTES as u64, 0, 0, 0];
        system_call(libc::SYS_readlink as u64, arguments)
    };
    captured.subject_length = usize::try_from(length).unwrap_or(0);
    captured.subject_kind = SubjectKind::Link;
}

/// Formatting allocates nothing, but it may panic; this can't.
fn write_decimal(number: i32, into: &mut [u8]) {
    let mut digits = [0; 10];
    let mut rest = number.unsigned_abs();
    let mut length = 0;
    while length == 0 || (rest > 0 && length < digits.len()) {
        digits[length] = b'0' + (rest % 10) as u8;
        rest /= 10;
        length += 1;
    }
    for (place, digit) in into.iter_mut().zip(digits[..length].iter().rev()) {
        *place = *digit;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_are_what_the_kernel_says() {
        let (near, _far) = UnixStream::pair().expect("a pair");
        let socket = OwnProcess.descriptor(near.as_raw_fd()).expect("open");
        assert_eq!(socket.kind, DescriptorKind::Socket);
        assert!(!socket.is_nonblocking);
        near.set_nonblocking(true).expect("a socket");
        let socket = OwnProcess.descriptor(near.as_raw_fd()).expect("open");
        assert!(socket.is_nonblocking);
        assert_eq!(OwnProcess.descriptor(-1), None);
        assert!(!OwnProcess.lingers(near.as_raw_fd()));
        let file = tempfile_like();
        let kind = OwnProcess.descriptor(file.as_raw_fd()).map(|fd| fd.kind);
        assert_eq!(kind, Some(DescriptorKind::File));
    }

    #[expect(clippy::disallowed_methods, reason = "a test's thread is no loop")]
    fn tempfile_like() -> std::fs::File {
        std::fs::File::open(std::env::current_exe().expect("this program")).expect("readable")
    }

    #[test]
    fn memory_that_isn_t_there_is_no_fault() {
        let mut bytes = [0; 4];
        assert!(OwnProcess.read_memory(b"abcd".as_ptr() as u64, &mut bytes));
        assert_eq!(&bytes, b"abcd");
        assert!(!OwnProcess.read_memory(16, &mut bytes));
        assert!(!OwnProcess.read_memory(u64::MAX, &mut bytes));
    }

    #[test]
    fn numbers_are_written_in_full() {
        for (number, text) in [
            (0, "0"),
            (7, "7"),
            (1_234, "1234"),
            (i32::MAX, "2147483647"),
        ] {
            let mut into = [0; 11];
            write_decimal(number, &mut into);
            assert_eq!(&into[..text.len()], text.as_bytes());
            assert_eq!(into[text.len()], 0);
        }
    }
}
