//! One user's own connection, whatever protocol it speaks.
//!
//! A shared pool would retry silently and hide which request paid for a new connection; a driver
//! task of its own would cost a wake-up per request. So a connection belongs to one user, is
//! driven by the task that waits for it, and stamps the moment of a request's first written byte.
//!
//! How one is used: [`Connection::is_usable`] before a request on a connection that has been idle,
//! [`Connection::send`] up to the head of the final answer, then [`Connection::chunk`] until it
//! gives none. One that failed, or whose body wasn't read to its end, is dropped, unless its
//! protocol can let go of an answer ([`Connection::outlives_its_answer`]).

use std::time::Instant;

use super::answer::Head;
use super::failure::Failure;
use super::http1::Http1;
use super::http2::Http2;
use super::stamps::SocketStamps;
use super::target::Target;
use super::transport::{self, Phases, Protocol};
use super::wire::Wire;

/// An open connection.
pub(super) enum Connection {
    Http1(Http1),
    Http2(Box<Http2>),
}

/// A request that got no head of an answer.
#[derive(Debug)]
pub(super) struct SendFailure {
    pub(super) failure: Failure,
    /// Nothing of the request has reached the service: sending it again repeats nothing.
    pub(super) is_unsent: bool,
}

impl Connection {
    /// Opens a connection to a target; what that took, or took until it failed, is the opening
    /// request's to pay, and `deadline` is that request's.
    pub(super) async fn open(
        target: &Target,
        stamps: &SocketStamps,
        deadline: Instant,
        phases: &mut Phases,
    ) -> Result<Self, Failure> {
        let opened = transport::open(target, deadline, phases).await?;
        let stamps = stamps.clone();
        Ok(match opened.protocol {
            Protocol::Http1 => Self::Http1(Http1::new(opened.transport, stamps)),
            Protocol::Http2 => {
                let connection = Http2::open(opened.transport, target.scheme(), stamps);
                Self::Http2(Box::new(connection.await?))
            }
        })
    }

    /// Whether another request may be sent on it: the service said nothing against it and didn't
    /// close it, as far as this side can know by now.
    pub(super) async fn is_usable(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_usable(),
            Self::Http2(connection) => connection.is_usable().await,
        }
    }

    /// Sends a request and reads up to the end of its final answer's head, 1xx passed over.
    pub(super) async fn send(&mut self, wire: &Wire, head: &mut Head) -> Result<(), SendFailure> {
        match self {
            Self::Http1(connection) => connection.send(wire, head).await,
            Self::Http2(connection) => connection.send(wire, head).await,
        }
    }

    /// The next part of the answer's body, lent, never empty; `None` at its end. A part lies
    /// within one chunk of the protocol and one read.
    pub(super) async fn chunk(&mut self) -> Result<Option<&[u8]>, Failure> {
        match self {
            Self::Http1(connection) => connection.chunk().await,
            Self::Http2(connection) => connection.chunk().await,
        }
    }

    /// Lets go of an answer that failed, or that nobody wants the rest of; true if the connection
    /// may still be of use, which [`Connection::is_usable`] will tell.
    pub(super) async fn outlives_its_answer(&mut self) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Http2(connection) => {
                connection.leave().await;
                true
            }
        }
    }
}
