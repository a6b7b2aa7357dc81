//! One user's own connection, whatever protocol it speaks.
//!
//! A shared pool would retry silently and hide which request paid for a new connection; a driver
//! task of its own would cost a wake-up per request. So a connection belongs to one user, is
//! driven by the task that waits for it, and stamps the moment of a request's first written byte.
//!
//! How one is used: [`Connection::is_usable`] before a request on a connection that has been idle,
//! [`Connection::send`] up to the head of the final answer, then [`Connection::chunk`] until it
//! gives none. One that failed, or whose body wasn't read to its end, is dropped.

use super::answer::Head;
use super::failure::Failure;
use super::http1::Http1;
use super::stamps::SocketStamps;
use super::target::Target;
use super::transport::{self, Phases};
use super::wire::Wire;

/// An open connection.
pub(super) enum Connection {
    Http1(Http1),
}

/// A request that got no head of an answer.
#[derive(Debug)]
pub(super) struct SendFailure {
    pub(super) failure: Failure,
    /// Nothing of the request has reached the service: sending it again repeats nothing.
    pub(super) is_unsent: bool,
}

impl Connection {
    /// Opens a connection to a target; what that took is the opening request's to pay.
    pub(super) async fn open(
        target: &Target,
        stamps: &SocketStamps,
    ) -> Result<(Self, Phases), Failure> {
        let opened = transport::open(target).await?;
        let connection = Self::Http1(Http1::new(opened.transport, stamps.clone()));
        Ok((connection, opened.phases))
    }

    /// Whether another request may be sent on it: the service said nothing against it and didn't
    /// close it, as far as this side can know by now.
    #[expect(
        clippy::unused_async,
        reason = "a protocol with frames of its own has to be driven to know"
    )]
    pub(super) async fn is_usable(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_usable(),
        }
    }

    /// Sends a request and reads up to the end of its final answer's head, 1xx passed over.
    pub(super) async fn send(&mut self, wire: &Wire, head: &mut Head) -> Result<(), SendFailure> {
        match self {
            Self::Http1(connection) => connection.send(wire, head).await,
        }
    }

    /// The next part of the answer's body, lent, never empty; `None` at its end. A part lies
    /// within one chunk of the protocol and one read.
    pub(super) async fn chunk(&mut self) -> Result<Option<&[u8]>, Failure> {
        match self {
            Self::Http1(connection) => connection.chunk().await,
        }
    }
}
