//! Who is at the other end of a Unix socket: the kernel's tables don't say, its socket diagnosis
//! does (sock_diag(7)).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// `struct nlmsghdr` (netlink(7)).
const HEADER_BYTES: usize = 16;
/// `struct unix_diag_msg`.
const MESSAGE_BYTES: usize = 16;
/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` of linux/netlink.h.
const REQUEST: u16 = 1;
/// `UDIAG_SHOW_PEER` of linux/unix_diag.h.
const SHOW_PEER: u32 = 4;
/// `UNIX_DIAG_PEER` there.
const PEER: u16 = 2;

/// The inode of the socket that the Unix socket `inode` is connected to, in the caller's own
/// network namespace; `None` when it isn't connected.
///
/// # Errors
/// When the kernel has no such diagnosis, or knows no such socket.
pub(super) fn peer_of(inode: u64) -> io::Result<Option<u64>> {
    let inode = u32::try_from(inode).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
    let diagnosis = open()?;
    send(diagnosis.as_raw_fd(), &request(inode), MsgFlags::empty())?;
    let mut answer = [0; 512];
    // The answer is there when the request has been taken: nothing to wait for.
    let length = recv(diagnosis.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    parse(&answer[..length])
}

fn open() -> io::Result<OwnedFd> {
    Ok(socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?)
}

/// A header and a `struct unix_diag_req` for one socket in any state, with no cookie.
fn request(inode: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + 24);
    bytes.extend(40_u32.to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    // Sequence and port: one request per socket needs neither.
    bytes.extend([0; 8]);
    bytes.extend([1, 0, 0, 0]); // AF_UNIX, no protocol, padding
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(inode.to_ne_bytes());
    bytes.extend(SHOW_PEER.to_ne_bytes());
    bytes.extend([0xff; 8]);
    bytes
}

/// Attributes are a length, a type and a value, padded to four bytes.
fn parse(answer: &[u8]) -> io::Result<Option<u64>> {
    let half = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    if half(4) != Some(BY_FAMILY) {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    let mut at = HEADER_BYTES + MESSAGE_BYTES;
    while let (Some(length), Some(kind)) = (half(at), half(at + 2)) {
        if kind == PEER {
            return Ok(word(at + 4).map(u64::from).filter(|inode| *inode != 0));
        }
        if length < 4 {
            break;
        }
        at += usize::from(length).next_multiple_of(4);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    fn inode(stream: &UnixStream) -> u64 {
        let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
        #[expect(clippy::disallowed_methods, reason = "the test's thread is no loop")]
        std::fs::metadata(path).expect("open").ino()
    }

    #[test]
    fn both_ends_of_a_pair_find_each_other() {
        let (one, other) = UnixStream::pair().expect("a pair");
        match peer_of(inode(&one)) {
            Ok(peer) => assert_eq!(peer, Some(inode(&other))),
            Err(error) => eprintln!("skipped: this kernel has no diagnosis of sockets ({error})"),
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_too_strange(answer in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&answer);
        }
    }
}
