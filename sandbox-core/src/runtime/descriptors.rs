//! Descriptors: those that the event loop watches for us, and those that must not come along.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Has the event loop watch a descriptor, which must not wait by itself.
///
/// # Errors
/// When the system refuses one more.
#[expect(
    unsafe_code,
    reason = "no safe way is left to have a descriptor watched"
)]
pub(super) fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: it is owned, so open, by what is given away here. `AsyncFd` hands out no way to replace
    // it, and `OwnedFd` always answers the same number, until it is dropped with the watch.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

/// Closes whatever came along beside the three standard streams: a library elsewhere in the process
/// that made the runtime, or whoever started that, may have left descriptors open to its children.
///
/// Call it first in a program, when it has opened nothing itself.
///
/// # Errors
/// When the system refuses.
#[expect(
    unsafe_code,
    reason = "no safe wrapper closes descriptors that nobody owns"
)]
pub(super) fn close_inherited() -> io::Result<()> {
    let (first, last, flags): (libc::c_uint, libc::c_uint, libc::c_uint) =
        (3, libc::c_uint::MAX, 0);
    // SAFETY: only numbers are passed. By the caller's word nothing in this program has opened a
    // descriptor yet, so that no owner of one is left with a number that means nothing, or another.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
