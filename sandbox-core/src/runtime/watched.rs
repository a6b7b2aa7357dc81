//! Descriptors that the event loop watches for us.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Has the event loop watch a descriptor, which must not wait by itself.
///
/// # Errors
/// When the system refuses one more.
#[expect(unsafe_code, reason = "no safe way is left to have a descriptor watched")]
pub(super) fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: it is owned, so open, by what is given away here. `AsyncFd` hands out no way to replace
    // it, and `OwnedFd` always answers the same number, until it is dropped with the watch.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}
