//! A server with exact delays that stamps its own truth: what a load engine measures against it can
//! be compared with what really happened.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::http_message::{Requests, json_answer};
use crate::peer::{Peer, lock, sleep_until, wake_on_time};

const DELAY_MS_MAX: u64 = 60_000;
const WORKERS_MAX: u64 = 1_000;
/// What the others take on a route on which one in N is slow.
const USUAL_MS: u64 = 1;

/// A server on a free loopback port, with the routes
/// - `/delay/{ms}`: answers after that many milliseconds;
/// - `/one-in/{n}/{ms}`: every n-th request takes that long, the others 1 ms;
/// - `/queue/{workers}/{ms}`: so many requests at a time take that long each, the others wait in the
///   order in which they came: it can take exactly `workers` × 1 000 ÷ `ms` per second, and works off
///   what it has accepted even if nobody waits for the answer;
/// - `/health`: answers at once, and isn't part of the truth;
/// - `/truth`: the truth as JSON, `{"/delay/5":{"count":1,"receive_to_send_ns":[5012345]}}`.
///
/// Any method will do. A thread per connection; meant for up to some 50 of them.
#[derive(Debug)]
pub struct ExactDelay {
    peer: Peer,
    truth: Arc<Truth>,
}

/// What happened on one route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteTruth {
    /// From the last byte of the request read to just before the answer is written, in the order
    /// of sending.
    pub receive_to_send_ns: Vec<u64>,
}

#[derive(Debug, Default)]
struct Truth {
    /// Times as long as routes say.
    slower: u32,
    routes: Mutex<BTreeMap<String, RouteTruth>>,
    /// Requests per route so far, for the one in N.
    turns: Mutex<BTreeMap<String, u64>>,
    /// When each worker of a queue will be free.
    queues: Mutex<BTreeMap<String, Vec<Instant>>>,
}

impl ExactDelay {
    /// Starts the server.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn start() -> io::Result<Self> {
        Self::start_slower(1)
    }

    /// Starts one on which everything takes so many times as long as its route says: the same
    /// service, and another version of it.
    ///
    /// # Errors
    /// As for [`ExactDelay::start`].
    pub fn start_slower(times: u32) -> io::Result<Self> {
        let truth = Arc::new(Truth {
            slower: times,
            ..Truth::default()
        });
        let for_handler = Arc::clone(&truth);
        let peer = Peer::start("exact-delay", move |_, stream| for_handler.serve(stream))?;
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

    /// What happened on a route (a path as requested, without the query) since the start or the
    /// last [`ExactDelay::reset_truth`]. An answer is part of it before its client can see it.
    #[must_use]
    pub fn truth(&self, route: &str) -> RouteTruth {
        lock(&self.truth.routes)
            .get(route)
            .cloned()
            .unwrap_or_default() // no request yet
    }

    /// Forgets what happened so far. The one in N keeps its turn.
    pub fn reset_truth(&self) {
        lock(&self.truth.routes).clear();
    }
}

impl Truth {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        wake_on_time()?;
        let mut requests = Requests::of(stream);
        let mut writer = stream;
        while let Some(request) = requests.next()? {
            let received = Instant::now();
            let answer = match request.path.as_str() {
                "/health" => json_answer("200 OK", r#"{"status":"ok"}"#),
                "/truth" => json_answer("200 OK", &self.to_json()),
                path => self.answer_late(path, received),
            };
            writer.write_all(answer.as_bytes())?;
            if !request.keep_alive {
                break;
            }
        }
        Ok(())
    }

    fn answer_late(&self, path: &str, received: Instant) -> String {
        let Some(delay) = self.delay(path, received) else {
            return json_answer(
                "404 Not Found",
                r#"{"error":"try /delay/{ms}, /one-in/{n}/{ms}, /queue/{workers}/{ms}, /health or /truth"}"#,
            );
        };
        let answer = json_answer(
            "200 OK",
            &format!(r#"{{"delay_ms":{}}}"#, delay.as_millis()),
        );
        sleep_until(received + delay);
        let mut routes = lock(&self.routes);
        let took = u64::try_from(received.elapsed().as_nanos()).unwrap_or(u64::MAX);
        routes
            .entry(path.to_owned())
            .or_default()
            .receive_to_send_ns
            .push(took);
        answer
    }

    /// How long this request on `path` takes, or `None` for an unknown route.
    fn delay(&self, path: &str, received: Instant) -> Option<Duration> {
        let number = |text: &str| text.parse::<u64>().ok().filter(|ms| *ms <= DELAY_MS_MAX);
        let words: Vec<&str> = path.split('/').skip(1).collect();
        let ms = match words[..] {
            ["delay", ms] => number(ms)?,
            ["queue", workers, ms] => {
                let workers = number(workers).filter(|n| (1..=WORKERS_MAX).contains(n))?;
                let took = Duration::from_millis(number(ms)?) * self.slower;
                return Some(self.queued(path, workers, took, received));
            }
            ["one-in", n, ms] => {
                let (n, ms) = (number(n).filter(|n| *n > 0)?, number(ms)?);
                let mut turns = lock(&self.turns);
                let turn = turns.entry(path.to_owned()).or_default();
                *turn += 1;
                if turn.is_multiple_of(n) { ms } else { USUAL_MS }
            }
            _ => return None,
        };
        Some(Duration::from_millis(ms) * self.slower)
    }

    /// How long a request waits for the worker that is free first, and is worked on.
    fn queued(&self, path: &str, workers: u64, took: Duration, received: Instant) -> Duration {
        let mut queues = lock(&self.queues);
        let queue = queues
            .entry(path.to_owned())
            .or_insert_with(|| (0..workers).map(|_| received).collect());
        let Some(free) = queue.iter_mut().min() else {
            return took;
        };
        *free = (*free).max(received) + took;
        *free - received
    }

    /// By hand: the routes that get here hold digits, letters, `-` and `/` only.
    fn to_json(&self) -> String {
        let mut text = String::from("{");
        for (route, truth) in lock(&self.routes).iter() {
            let times: Vec<String> = truth
                .receive_to_send_ns
                .iter()
                .map(u64::to_string)
                .collect();
            let comma = if text.len() > 1 { "," } else { "" };
            // Writing to a string can't fail.
            let _ = write!(
                text,
                r#"{comma}"{route}":{{"count":{},"receive_to_send_ns":[{}]}}"#,
                times.len(),
                times.join(",")
            );
        }
        text.push('}');
        text
    }
}
