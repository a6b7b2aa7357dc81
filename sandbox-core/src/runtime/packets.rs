//! Packets with descriptors over a Unix socket, whose borders the kernel keeps.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair, sockopt,
};

use super::wire::PACKET_BYTES_MAX;

/// Descriptors that one packet carries at most: output, errors, input.
const DESCRIPTORS_MAX: usize = 3;

/// Bytes that a socket's buffer is asked to take, so that a packet of the largest size fits beside
/// smaller ones.
const BUFFER_BYTES: usize = 2 * PACKET_BYTES_MAX;

/// Two ends of a conversation in packets. None is inherited by a program that isn't handed it.
///
/// # Errors
/// When the system refuses.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    sockopt::set_socket_send_buffer_size(&ours, BUFFER_BYTES)?;
    sockopt::set_socket_send_buffer_size(&theirs, BUFFER_BYTES)?;
    Ok((ours, theirs))
}

/// Sends a packet, with copies of `descriptors`.
///
/// # Errors
/// When the other end is gone, or `WouldBlock` when its buffer is full and the socket doesn't wait.
pub(super) fn send(
    socket: impl AsFd,
    packet: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other(
            "a packet carries three descriptors at most",
        ));
    }
    let pieces = [IoSlice::new(packet)];
    sendmsg(socket, &pieces, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A packet that came.
pub(super) struct Received {
    /// How many bytes of the buffer it fills.
    pub(super) length: usize,
    /// What came along.
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Receives a packet into `buffer`; `None` when the other end is gone.
///
/// # Errors
/// When it doesn't fit, or `WouldBlock` when there is none and the socket doesn't wait.
pub(super) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<Received>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(buffer)];
    let message = recvmsg(socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    if message
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(io::Error::other("a packet is larger than any that we send"));
    }
    let length = message.bytes;
    let is_end = length == 0; // no message of ours is empty
    Ok((!is_end).then_some(Received {
        length,
        descriptors,
    }))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn the_largest_packet_arrives_whole_with_its_descriptors() {
        let (ours, theirs) = pair().expect("a pair");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let packet = vec![7; PACKET_BYTES_MAX];
        send(&ours, &packet, &[writer.as_fd()]).expect("it is sent");
        drop(writer);
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        let received = receive(&theirs, &mut buffer)
            .expect("it came")
            .expect("no end");
        assert_eq!(received.length, PACKET_BYTES_MAX);
        assert_eq!(buffer, packet);
        for descriptor in received.descriptors {
            std::fs::File::from(descriptor)
                .write_all(b"through")
                .expect("it writes");
        }
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("it is text");
        assert_eq!(text, "through");
    }

    #[test]
    fn the_end_of_the_other_is_told_apart_from_silence() {
        let (ours, theirs) = pair().expect("a pair");
        drop(ours);
        assert!(receive(&theirs, &mut [0; 8]).expect("an end").is_none());
    }
}
