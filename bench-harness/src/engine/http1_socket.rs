//! The socket of an HTTP/1.1 connection, and the buffer into which all that comes out of it is read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stamps::SocketStamps;
use super::transport::Transport;

/// Enough for most answers; thousands of users have one each.
const BUFFER_BYTES_MIN: usize = 8 * 1024;
/// Up to here the buffer grows while reads fill it, since each read costs a call.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// What a connection reads from and writes to.
pub(super) trait Way: AsyncRead + AsyncWrite + Unpin {
    /// Reads what is there already; [`io::ErrorKind::WouldBlock`] if nothing is.
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl Way for Transport {
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The inherent method, which costs no call of the kernel where nothing has come.
        self.try_read(buffer)
    }
}

/// The socket, with its stamps.
pub(super) struct Socket<W> {
    pub(super) way: W,
    pub(super) stamps: SocketStamps,
}

/// What was read and not yet used.
#[derive(Default)]
pub(super) struct ReadBuffer {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
}

impl ReadBuffer {
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    pub(super) fn consume(&mut self, length: usize) {
        self.begin += length;
    }

    /// The last `length` bytes that were consumed.
    pub(super) fn consumed(&self, length: usize) -> &[u8] {
        &self.bytes[self.begin - length..self.begin]
    }

    /// Reads once; 0 at the end of the connection.
    pub(super) fn poll_fill<W: Way>(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket<W>,
    ) -> Poll<io::Result<usize>> {
        self.make_room();
        let room = self.bytes.len() - self.end;
        let mut into = ReadBuf::new(&mut self.bytes[self.end..]);
        let read = Pin::new(&mut socket.way).poll_read(cx, &mut into);
        let length = into.filled().len();
        ready!(read)?;
        socket.stamps.reads.stamp();
        self.end += length;
        if length == room && self.bytes.len() < BUFFER_BYTES_MAX {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        Poll::Ready(Ok(length))
    }

    fn make_room(&mut self) {
        if self.begin == self.end {
            self.begin = 0;
            self.end = 0;
        }
        if self.end < self.bytes.len() {
            return;
        }
        if self.begin > 0 {
            self.bytes.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        } else {
            // A head that doesn't fit, or nothing was read so far. Heads are bounded.
            let length = (self.bytes.len() * 2).max(BUFFER_BYTES_MIN);
            self.bytes.resize(length, 0);
        }
    }
}
