//! A server that streams by a stated clock and stamps what it really did: what a load engine
//! measures of a stream can be compared with that.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::http_message::{Requests, json_answer};

use crate::peer::{Peer, lock, sleep_until, wake_on_time};
use crate::stream_format::{LAST_CHUNK, StreamFormat, chunk};

/// When the items of each stream are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamClock {
    /// From the request to the first item.
    pub first: Duration,
    /// From each item to the next.
    pub gap: Duration,
    /// How many items.
    pub items: u32,
    /// Instead of the usual gap: before which item (from 0, not the first), and how long.
    pub stall: Option<(u32, Duration)>,
}

impl StreamClock {
    /// How long after the item before this one is due, or after the request for the first.
    fn after(&self, item: u32) -> Duration {
        match self.stall {
            _ if item == 0 => self.first,
            Some((at, stall)) if at == item => stall,
            _ => self.gap,
        }
    }
}

/// What one stream really did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamTruth {
    /// From the last byte of the request read to just before each item was written.
    pub receive_to_item_ns: Vec<u64>,
}

impl StreamTruth {
    /// From each item to the next.
    pub fn gaps_ns(&self) -> impl Iterator<Item = u64> {
        let items = self.receive_to_item_ns.windows(2);
        items.map(|pair| pair[1] - pair[0])
    }
}

/// A server on a free loopback port that answers any request with a stream, `/health` with a
/// plain 200. An item is one HTTP chunk, written at once. A thread per connection; meant for
/// up to some 50 of them.
#[derive(Debug)]
pub struct ExactStream {
    peer: Peer,
    truth: Arc<Mutex<Vec<StreamTruth>>>,
}

impl ExactStream {
    /// Starts the server.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn start(format: StreamFormat, clock: StreamClock) -> io::Result<Self> {
        let truth = Arc::new(Mutex::default());
        let for_handler = Arc::clone(&truth);
        let peer = Peer::start("exact-stream", move |_, stream| {
            serve(stream, format, &clock, &for_handler)
        })?;
        Ok(Self { peer, truth })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.peer.address()
    }

    /// `http://…` without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// The streams that ended since the start or the last call, which forgets them. A stream is
    /// among them before its client can see its end.
    #[must_use]
    pub fn take_truth(&self) -> Vec<StreamTruth> {
        std::mem::take(&mut lock(&self.truth))
    }
}

fn serve(
    stream: &TcpStream,
    format: StreamFormat,
    clock: &StreamClock,
    truth: &Mutex<Vec<StreamTruth>>,
) -> io::Result<()> {
    wake_on_time()?;
    let mut requests = Requests::of(stream);
    let mut writer = stream;
    while let Some(request) = requests.next()? {
        let received = Instant::now();
        if request.path == "/health" {
            writer.write_all(json_answer("200 OK", r#"{"status":"ok"}"#).as_bytes())?;
        } else {
            writer.write_all(format.head().as_bytes())?;
            let done = write_items(writer, format, clock, received)?;
            lock(truth).push(done);
            writer.write_all(LAST_CHUNK)?;
        }
        if !request.keep_alive {
            break;
        }
    }
    Ok(())
}

fn write_items(
    mut writer: &TcpStream,
    format: StreamFormat,
    clock: &StreamClock,
    received: Instant,
) -> io::Result<StreamTruth> {
    let mut truth = StreamTruth::default();
    let mut due = received;
    for item in 0..clock.items {
        let text = format!(r#"{{"message":"item {item} "}}"#);
        let bytes = chunk(format.framed(&text).as_bytes());
        due += clock.after(item);
        sleep_until(due);
        let took = u64::try_from(received.elapsed().as_nanos()).unwrap_or(u64::MAX);
        truth.receive_to_item_ns.push(took);
        writer.write_all(&bytes)?;
    }
    Ok(truth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_has_one_stall() {
        let clock = StreamClock {
            first: Duration::from_millis(50),
            gap: Duration::from_millis(20),
            items: 4,
            stall: Some((2, Duration::from_millis(500))),
        };
        let ms: Vec<u128> = (0..4).map(|item| clock.after(item).as_millis()).collect();
        assert_eq!(ms, [50, 20, 500, 20]);
    }
}
