//! One request and its answer, with the stamps that every published time is made of.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::task::coop;
use tokio::time::Sleep;
use unstall_results::record::ErrorKind;
use unstall_scenarios::plan::{ClientBehaviour, Reuse};
use url::Url;

use super::answer::Answer;
use super::answer_body::AnswerBody;
use super::connection::Connection;
use super::cookies::Jar;
use super::failure::Failure;
use super::hosts::Hosts;
use super::redirect::{Chain, Hop};
use super::stamps::SocketStamps;
use super::streamed::StreamReader;
use super::target::Target;
use super::transport::Phases;
use super::wire::Wire;

/// Bodies are kept for the check up to this size; what is longer is only counted.
const CHECKED_BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// So much of a body that isn't checked is kept for messages: they quote less, but take secrets
/// out of it before they cut it.
const QUOTED_BODY_BYTES_MAX: usize = 16 * 1024;

/// One user's way to the services: a connection to each, opened when it is needed, and what a
/// client does around one exchange.
pub(super) struct Client {
    /// In the order of the hosts.
    ways: Vec<Way>,
    /// `None` where no redirect is followed and no cookie kept.
    hosts: Option<Arc<Hosts>>,
    reuse: Reuse,
    redirects_max: u32,
    jar: Option<Jar>,
    answer: Answer,
    stamps: SocketStamps,
    timer: Pin<Box<Sleep>>,
}

/// One user's way to one service.
struct Way {
    target: Arc<Target>,
    connection: Option<Connection>,
}

impl Way {
    fn to(target: &Arc<Target>) -> Self {
        Self {
            target: target.of_a_user(),
            connection: None,
        }
    }
}

/// When things happened to one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamps {
    /// When it was let go: the user and what it needed were free.
    pub(super) released: Instant,
    /// When its first byte was written, if one was.
    pub(super) written: Option<Instant>,
    /// When the answer was complete, or the failure known.
    pub(super) ended: Instant,
    /// True if the service answered with a head at least: it is alive.
    pub(super) answered: bool,
    /// What it paid for connections, if it opened any.
    pub(super) phases: Phases,
    /// Redirects that were followed; all the times above are of the whole way.
    pub(super) redirects: u32,
}

impl Stamps {
    /// Of a request that could not even be built.
    pub(super) fn unsent(now: Instant) -> Self {
        Self {
            released: now,
            written: None,
            ended: now,
            answered: false,
            phases: Phases::default(),
            redirects: 0,
        }
    }
}

/// What is done with the body of an answer.
pub(super) enum Reading<'r> {
    /// Its beginning is kept, for messages; the rest is counted and let go.
    Counted,
    /// It is kept whole, for the check.
    Kept,
    /// It is read item by item, if the head is a stream's; else it is counted.
    Streamed(&'r mut StreamReader),
}

/// How far an exchange has come, for the case that its deadline ends it.
#[derive(Default)]
struct Reached {
    /// Where the exchange is.
    service: usize,
    answered: bool,
    phases: Phases,
    redirects: u32,
}

impl Client {
    /// A client of one service, which keeps its connection.
    pub(super) fn new(target: &Arc<Target>, stamps: SocketStamps) -> Self {
        Self {
            ways: vec![Way::to(target)],
            hosts: None,
            reuse: Reuse::User,
            redirects_max: 0,
            jar: None,
            answer: Answer::default(),
            stamps,
            timer: Box::pin(tokio::time::sleep(Duration::from_secs(0))),
        }
    }

    /// A client of all the services of a scenario, which behaves as that says.
    pub(super) fn of_user(
        hosts: &Arc<Hosts>,
        behaviour: &ClientBehaviour,
        stamps: SocketStamps,
    ) -> Self {
        let travels = behaviour.redirects_max > 0 || behaviour.cookies;
        Self {
            ways: hosts
                .iter()
                .map(|service| Way::to(&service.target))
                .collect(),
            hosts: travels.then(|| Arc::clone(hosts)),
            reuse: behaviour.reuse,
            redirects_max: behaviour.redirects_max,
            jar: behaviour.cookies.then(Jar::default),
            ..Self::new(hosts.target(), stamps)
        }
    }

    /// Adds this user's cookies to a request that is about to be sent.
    ///
    /// # Errors
    /// They can't be sent.
    pub(super) fn dress(&self, wire: &mut Wire) -> Result<(), Failure> {
        let (Some(jar), Some(hosts)) = (&self.jar, &self.hosts) else {
            return Ok(());
        };
        wire.carry(&jar.header(&url_of(wire, hosts)?))
    }

    /// Values of cookies that are new since this was asked last.
    pub(super) fn take_new_secrets(&mut self) -> Vec<String> {
        let jar = self.jar.as_mut();
        jar.map_or_else(Vec::new, Jar::take_new_secrets)
    }

    /// An iteration of the user is over.
    pub(super) fn end_iteration(&mut self) {
        if self.reuse != Reuse::User {
            self.disconnect();
        }
    }

    fn disconnect(&mut self) {
        for way in &mut self.ways {
            way.connection = None;
        }
    }

    /// Sends one request and reads its answer to the end, not beyond `timeout` after `intended`.
    /// After a success the answer is in [`Client::answer`].
    ///
    /// Opening a connection is part of the request. A failed connection is dropped, and so is one
    /// whose time was over; the next request opens another one.
    pub(super) async fn exchange(
        &mut self,
        wire: &Wire,
        reading: Reading<'_>,
        intended: Instant,
        timeout: Duration,
    ) -> (Stamps, Result<(), Failure>) {
        let released = Instant::now();
        self.stamps.written.begin();
        let is_streamed = matches!(reading, Reading::Streamed(_));
        self.stamps.reads.switch(is_streamed);
        self.answer.reset();
        let mut reached = Reached {
            service: wire.service,
            ..Reached::default()
        };
        let deadline = intended + timeout;
        let conversation = Conversation {
            ways: &mut self.ways,
            hosts: self.hosts.as_deref(),
            reuse: self.reuse,
            redirects_max: self.redirects_max,
            jar: self.jar.as_mut(),
            stamps: &self.stamps,
            answer: &mut self.answer,
            reached: &mut reached,
            deadline,
        };
        let work = conversation.run(wire, reading);
        let outcome = before(self.timer.as_mut(), deadline, work).await;
        let ended = Instant::now();
        let in_time = outcome.is_some();
        let outcome = outcome.unwrap_or_else(|| {
            Err(Failure::service(
                ErrorKind::Timeout,
                format!("no complete answer within {} ms", timeout.as_millis()),
            ))
        });
        if outcome.is_err() || self.answer.is_left {
            // Where nothing came in time, nobody knows whether anything ever will.
            let place = &mut self.ways[reached.service].connection;
            if let Some(mut connection) = place.take()
                && in_time
                && connection.outlives_its_answer().await
            {
                *place = Some(connection);
            }
        }
        if self.reuse == Reuse::Never {
            self.disconnect();
        }
        let stamps = Stamps {
            released,
            written: self.stamps.written.first(),
            ended,
            answered: reached.answered,
            phases: reached.phases,
            redirects: reached.redirects,
        };
        (stamps, outcome)
    }

    /// The last answer, or as much of one as had come before it failed.
    pub(super) fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Nothing was asked, so nothing was answered.
    pub(super) fn forget_answer(&mut self) {
        self.answer.reset();
    }
}

/// The full URL of a request.
fn url_of(wire: &Wire, hosts: &Hosts) -> Result<Url, Failure> {
    let url = hosts.at(wire.service).url(wire.parts().path);
    url.map_err(|error| {
        let message = format!("not sent: its path is none of a URL: {error}");
        Failure::service(ErrorKind::CheckFailed, message)
    })
}

/// What one exchange works on.
struct Conversation<'c> {
    ways: &'c mut [Way],
    hosts: Option<&'c Hosts>,
    reuse: Reuse,
    redirects_max: u32,
    jar: Option<&'c mut Jar>,
    stamps: &'c SocketStamps,
    answer: &'c mut Answer,
    reached: &'c mut Reached,
    deadline: Instant,
}

impl Conversation<'_> {
    /// Opens a connection if there is none, sends, reads.
    async fn run(mut self, wire: &Wire, reading: Reading<'_>) -> Result<(), Failure> {
        match self.hosts {
            None => self.send(wire).await?,
            Some(hosts) => self.travel(wire, hosts).await?,
        }
        let (answer, stamps) = (&mut *self.answer, self.stamps);
        let connection = self.ways[self.reached.service].connection.as_mut();
        read(connection.expect(JUST_USED), stamps, answer, reading).await
    }

    /// Sends a request, and what redirects make of it, up to the head of an answer that is none.
    async fn travel(&mut self, first: &Wire, hosts: &Hosts) -> Result<(), Failure> {
        let mut chain = Chain::default();
        let mut next: Option<Wire> = None;
        loop {
            let wire = next.as_ref().unwrap_or(first);
            let url = url_of(wire, hosts)?;
            self.send(wire).await?;
            if let Some(jar) = &mut self.jar {
                jar.take(&self.answer.head, &url);
            }
            let parts = wire.parts();
            let status = self.answer.head.status();
            if self.redirects_max == 0 {
                return Ok(());
            }
            let Some(hop) = Hop::of(&self.answer.head, parts.method, &url)? else {
                return Ok(());
            };
            chain.push(status, &hop);
            let begin = || format!("{} {}", first.parts().method, url_path(first));
            if chain.len() > self.redirects_max {
                return Err(chain.too_long(&begin(), self.redirects_max));
            }
            let Some(service) = hosts.serving(&hop.url, wire.service) else {
                return Err(chain.astray(&begin(), &hop.url));
            };
            self.drain().await?;
            self.answer.reset();
            let mut redirected = wire.redirected(&hop, service, &hosts.at(service).target)?;
            if let Some(jar) = &self.jar {
                redirected.carry(&jar.header(&hop.url))?;
            }
            self.reached.service = service;
            self.reached.redirects += 1;
            next = Some(redirected);
        }
    }

    /// Reads a body that nobody looks at, so that the connection is free for the next hop.
    async fn drain(&mut self) -> Result<(), Failure> {
        let connection = self.ways[self.reached.service].connection.as_mut();
        let connection = connection.expect(JUST_USED);
        while connection.chunk().await?.is_some() {
            coop::consume_budget().await;
        }
        Ok(())
    }

    async fn send(&mut self, wire: &Wire) -> Result<(), Failure> {
        self.stamps.written.arm();
        let way = &mut self.ways[wire.service];
        if self.reuse == Reuse::Never {
            way.connection = None;
        }
        if let Some(idle) = way.connection.as_mut() {
            if idle.is_usable().await {
                match idle.send(wire, &mut self.answer.head).await {
                    Ok(()) => {
                        self.reached.answered = true;
                        return Ok(());
                    }
                    Err(failed) if !failed.is_unsent => return Err(failed.failure),
                    // The service closed the idle connection in this very moment, before anything
                    // was written: sending on a new one repeats nothing.
                    Err(_) => {}
                }
            }
            way.connection = None;
        }
        let phases = &mut self.reached.phases;
        let opened = Connection::open(&way.target, self.stamps, self.deadline, phases).await;
        let connection = way.connection.insert(opened?);
        let sent = connection.send(wire, &mut self.answer.head).await;
        sent.map_err(|failed| failed.failure)?;
        self.reached.answered = true;
        Ok(())
    }
}

const JUST_USED: &str = "the connection has just been used";

/// The path of a request without its query, for messages.
fn url_path(wire: &Wire) -> &str {
    let path = wire.parts().path;
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// Reads the body to its end, so that the connection is free again.
async fn read(
    connection: &mut Connection,
    stamps: &SocketStamps,
    answer: &mut Answer,
    reading: Reading<'_>,
) -> Result<(), Failure> {
    let is_looked_at = !matches!(reading, Reading::Counted);
    let mut body = AnswerBody::new(connection, &answer.head, is_looked_at)?;
    let kept_bytes_max = match reading {
        Reading::Kept => CHECKED_BODY_BYTES_MAX,
        Reading::Streamed(reader) if reader.expects(&answer.head)? => {
            let read = reader.read(&mut body, &stamps.reads).await?;
            answer.body_bytes = read.body_bytes;
            answer.encoded_bytes = body.encoded_bytes;
            answer.is_left = read.is_left;
            return Ok(());
        }
        Reading::Counted | Reading::Streamed(_) => QUOTED_BODY_BYTES_MAX,
    };
    while let Some(part) = body.chunk().await? {
        answer.body_bytes += part.len() as u64;
        let room = kept_bytes_max - answer.body.len();
        if room < part.len() && kept_bytes_max == CHECKED_BODY_BYTES_MAX {
            return Err(Failure::service(
                ErrorKind::CheckFailed,
                format!(
                    "the body is longer than {CHECKED_BODY_BYTES_MAX} bytes, too long to check"
                ),
            ));
        }
        answer.body.extend_from_slice(&part[..part.len().min(room)]);
        // One read may bring thousands of tiny parts, and only reads yield by themselves.
        coop::consume_budget().await;
    }
    answer.encoded_bytes = body.encoded_bytes;
    Ok(())
}

/// Runs `work` until `deadline`; `None` when that came first.
///
/// One timer per user is enough: it is moved only when it has fired early or
/// stands too late, so a request that ends in time costs no timer operation.
pub(super) async fn before<F: Future>(
    mut timer: Pin<&mut Sleep>,
    deadline: Instant,
    work: F,
) -> Option<F::Output> {
    let mut work = pin!(work);
    let deadline = tokio::time::Instant::from_std(deadline);
    poll_fn(move |cx| {
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        expired(timer.as_mut(), deadline, cx).map(|()| None)
    })
    .await
}

fn expired(
    mut timer: Pin<&mut Sleep>,
    deadline: tokio::time::Instant,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if timer.deadline() > deadline {
        timer.as_mut().reset(deadline);
    }
    // Even when the budget of this turn is spent: a peer that never pauses spends it always,
    // and a timer that had to keep to it would never fire.
    while pin!(coop::unconstrained(timer.as_mut()))
        .poll(cx)
        .is_ready()
    {
        if tokio::time::Instant::now() >= deadline {
            return Poll::Ready(());
        }
        timer.as_mut().reset(deadline);
    }
    Poll::Pending
}
