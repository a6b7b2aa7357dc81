//! What a user's socket stamps: a request's first written byte and the reads of its answer. The
//! thread keeps the other end, for requests that are still out when the block ends.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::stream_times::ReadMark;
use super::turns;

/// When the first byte of the current request was written, shared with the socket.
#[derive(Debug, Clone, Default)]
pub(super) struct WriteStamp(Rc<Writes>);

#[derive(Debug, Default)]
struct Writes {
    /// Of the whole request, redirects and all.
    first: Cell<Option<Instant>>,
    /// Of what is being sent now.
    present: Cell<Option<Instant>>,
}

impl WriteStamp {
    /// Forgets the stamps: another request begins.
    pub(super) fn begin(&self) {
        self.0.first.set(None);
        self.arm();
    }

    /// Something of the request is about to be sent: its beginning, or its next hop.
    pub(super) fn arm(&self) {
        self.0.present.set(None);
    }

    /// The stamp, if a byte was written since [`WriteStamp::arm`].
    pub(super) fn get(&self) -> Option<Instant> {
        self.0.present.get()
    }

    /// The stamp, if a byte was written since [`WriteStamp::begin`].
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first.get()
    }

    /// Runs a write and stamps its beginning if it wrote anything and nothing did before.
    pub(super) fn around(
        &self,
        write: impl FnOnce() -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.get().is_some() {
            return write();
        }
        let begun = Instant::now();
        let result = write();
        if matches!(result, Poll::Ready(Ok(written)) if written > 0) {
            self.0.present.set(Some(begun));
            self.0.first.set(self.first().or(Some(begun)));
        }
        result
    }
}

/// The last read of a user's connection, shared with the socket: whatever items it brought
/// have its time. Off unless a stream is read, because nobody else asks.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadStamp(Rc<Reads>);

#[derive(Debug, Default)]
struct Reads {
    is_on: Cell<bool>,
    number: Cell<u64>,
    at: Cell<Option<Instant>>,
    lateness: Cell<Duration>,
    first_meaningful: Cell<Option<Instant>>,
}

impl ReadStamp {
    /// Switches the stamp for the request that is about to be sent.
    pub(super) fn switch(&self, is_on: bool) {
        self.0.is_on.set(is_on);
        self.0.first_meaningful.set(None);
    }

    /// Keeps when the stream's first meaningful item came, for the case that the block ends
    /// before the stream does.
    pub(super) fn keep_first_meaningful(&self, at: Option<Instant>) {
        self.0.first_meaningful.set(at);
    }

    /// When the present stream's first meaningful item came, if it did.
    pub(super) fn first_meaningful(&self) -> Option<Instant> {
        self.0.first_meaningful.get()
    }

    /// The last read.
    pub(super) fn last(&self) -> ReadMark {
        ReadMark {
            number: self.0.number.get(),
            at: self.0.at.get().unwrap_or_else(Instant::now),
            lateness: self.0.lateness.get(),
        }
    }

    /// A read has returned.
    pub(super) fn stamp(&self) {
        if self.0.is_on.get() {
            self.0.number.set(self.0.number.get() + 1);
            let now = Instant::now();
            self.0.at.set(Some(now));
            // Now, because what it brought may be looked at in a later turn.
            self.0.lateness.set(turns::lateness(now));
        }
    }
}

/// What the socket stamps.
#[derive(Debug, Clone, Default)]
pub(super) struct SocketStamps {
    /// The request's first written byte.
    pub(super) written: WriteStamp,
    /// The answer's reads.
    pub(super) reads: ReadStamp,
}
