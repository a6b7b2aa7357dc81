//! One proxied connection: its two ends with what is to be written to each, and its place in the
//! proxy's list.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};

use nix::sys::epoll::EpollFlags;

/// One end of a proxied connection. `to_send` came from the other end.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) stream: TcpStream,
    pub(crate) to_send: VecDeque<Vec<u8>>,
    /// How much of the first of `to_send` is written.
    sent_bytes: usize,
    /// Read at the other end and not written here yet, in transit included.
    pub(crate) in_flight_bytes: usize,
    /// The other end's half-close is due when `to_send` is empty.
    pub(crate) closing: bool,
    /// This end's sender has finished or failed.
    pub(crate) read_ended: bool,
    /// Nothing more will be written here.
    pub(crate) write_ended: bool,
    /// What epoll is asked for; `None` while it isn't registered.
    pub(crate) interest: Option<EpollFlags>,
}

impl End {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            to_send: VecDeque::new(),
            sent_bytes: 0,
            in_flight_bytes: 0,
            closing: false,
            read_ended: false,
            write_ended: false,
            interest: None,
        }
    }

    /// Writes what can be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(chunk) = self.to_send.front() {
            match self.stream.write(&chunk[self.sent_bytes..]) {
                Ok(count) => {
                    self.sent_bytes += count;
                    self.in_flight_bytes -= count;
                    if self.sent_bytes == chunk.len() {
                        self.to_send.pop_front();
                        self.sent_bytes = 0;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if self.closing && !self.write_ended {
            self.write_ended = true;
            self.stream.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Slot {
    /// Tells a late event or chunk of an older connection from this one's.
    pub(crate) generation: u32,
    pub(crate) ends: Option<[End; 2]>,
}

/// A connection's place and generation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) index: usize,
    pub(crate) generation: u32,
}

impl Key {
    pub(crate) fn token(self, end: usize) -> u64 {
        (u64::from(self.generation) << 32) | ((self.index as u64) << 1) | end as u64
    }

    pub(crate) fn from_token(token: u64) -> (Self, usize) {
        let low = token & u64::from(u32::MAX);
        let key = Self {
            index: (low >> 1) as usize,
            generation: (token >> 32) as u32,
        };
        (key, (low & 1) as usize)
    }
}

/// The connection's ends, unless it's over.
pub(crate) fn ends_of(slots: &mut [Slot], key: Key) -> Option<&mut [End; 2]> {
    let slot = slots.get_mut(key.index)?;
    if slot.generation == key.generation {
        slot.ends.as_mut()
    } else {
        None
    }
}
