//! What the stubs of upstream services share: every answer leaves after a stated latency, and every
//! request is counted.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http_message::{Request, Requests, json_answer};
use crate::peer::{Peer, lock, sleep_until, wake_on_time};

/// What a stub answers, and under which route it counts the request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) route: &'static str,
    pub(crate) status: &'static str,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn new(route: &'static str, status: &'static str, body: Value) -> Self {
        Self {
            route,
            status,
            body,
        }
    }
}

/// A running stub. A thread per connection.
#[derive(Debug)]
pub(crate) struct Stub {
    peer: Peer,
    counts: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

impl Stub {
    /// Starts it on a free loopback port. The latency runs from the request's last byte to the
    /// answer's first.
    pub(crate) fn start<A>(name: &'static str, latency: Duration, answer: A) -> io::Result<Self>
    where
        A: Fn(&Request) -> Reply + Send + Sync + 'static,
    {
        let counts = Arc::new(Mutex::new(BTreeMap::new()));
        let for_handler = Arc::clone(&counts);
        let peer = Peer::start(name, move |_, stream| {
            serve(stream, latency, &answer, &for_handler)
        })?;
        Ok(Self { peer, counts })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.peer.address()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Requests on a route so far; one is counted before its client can see the answer.
    pub(crate) fn requests(&self, route: &str) -> u64 {
        lock(&self.counts).get(route).copied().unwrap_or_default() // never requested
    }
}

fn serve(
    mut stream: &TcpStream,
    latency: Duration,
    answer: &impl Fn(&Request) -> Reply,
    counts: &Mutex<BTreeMap<&'static str, u64>>,
) -> io::Result<()> {
    wake_on_time()?;
    let mut requests = Requests::of(stream);
    while let Some(request) = requests.next()? {
        let received = Instant::now();
        let reply = answer(&request);
        *lock(counts).entry(reply.route).or_default() += 1;
        let text = json_answer(reply.status, &reply.body.to_string());
        sleep_until(received + latency);
        stream.write_all(text.as_bytes())?;
        if !request.keep_alive {
            break;
        }
    }
    Ok(())
}
