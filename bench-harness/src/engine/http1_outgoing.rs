//! A request on its way out: as much of it at a time as the socket takes, also while its answer is
//! being read already.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::http1_head;
use super::http1_socket::{Socket, Way};
use super::wire::Wire;

/// A request on its way out.
pub(super) struct Outgoing<'w> {
    request: Cow<'w, [u8]>,
    /// So many bytes of it are with the kernel.
    written: usize,
    /// All of it is, and nothing waits on the way there.
    is_done: bool,
    /// Why the rest can't be written. The service may have answered all the same.
    pub(super) broken: Option<io::Error>,
    pub(super) asks_head: bool,
    /// Bytes of the answer's head that are known not to hold its end.
    pub(super) seen: usize,
}

impl<'w> Outgoing<'w> {
    pub(super) fn of(wire: &'w Wire) -> Self {
        Self {
            request: wire.http1().into(),
            written: 0,
            is_done: false,
            broken: None,
            asks_head: wire.is_head(),
            seen: 0,
        }
    }

    /// Nothing more of it has to be written.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// What the socket hasn't taken yet, to be written while the answer is read: many a service
    /// answers while it reads. `None` if there is nothing left, or nobody to take it.
    pub(super) fn rest(&self) -> Option<Outgoing<'static>> {
        if self.is_done || self.broken.is_some() {
            return None;
        }
        Some(Outgoing {
            request: self.request[self.written..].to_vec().into(),
            written: 0,
            is_done: false,
            broken: None,
            asks_head: self.asks_head,
            seen: 0,
        })
    }

    /// Writes what the socket takes.
    pub(super) fn poll_write<W: Way>(&mut self, cx: &mut Context<'_>, socket: &mut Socket<W>) {
        while !self.is_done && self.broken.is_none() {
            let way = Pin::new(&mut socket.way);
            let rest = &self.request[self.written..];
            let written = if rest.is_empty() {
                way.poll_flush(cx).map_ok(|()| {
                    self.is_done = true;
                    0
                })
            } else {
                let written = &socket.stamps.written;
                written.around(|| match way.poll_write(cx, rest) {
                    Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => written,
                })
            };
            match written {
                Poll::Ready(Ok(written)) => self.written += written,
                Poll::Ready(Err(error)) => self.broken = Some(error),
                Poll::Pending => return,
            }
        }
    }

    /// Whether it's worth while to look for the end of a head: one that comes byte by byte would
    /// be read again for each.
    pub(super) fn may_end_a_head(&self, unread: &[u8]) -> bool {
        match self.seen {
            0 => !unread.is_empty(),
            seen => unread.len() > http1_head::HEAD_BYTES_MAX || unread[seen..].contains(&b'\n'),
        }
    }
}
