//! Requests beside the load, each on a connection of its own: whether a target can be reached, and
//! what its monitor says. They take the very way that the load takes.

use std::io;
use std::time::{Duration, Instant};

use unstall_scenarios::render::RenderedRequest;

use super::answer::Head;
use super::connection::Connection;
use super::error::ReachError;
use super::failure::Failure;
use super::generator;
use super::stamps::SocketStamps;
use super::target::Target;
use super::transport::{self, Phases};
use super::wire::Wire;

/// Opens a connection to a target, up to the end of a TLS handshake, and closes it.
///
/// # Errors
/// [`ReachError`] says why there is none within that time.
pub fn reach(target: &Target, within: Duration) -> Result<(), ReachError> {
    let deadline = Instant::now() + within;
    let open = async {
        let mut phases = Phases::default();
        let open = transport::open(target, deadline, &mut phases);
        match tokio::time::timeout_at(deadline.into(), open).await {
            Ok(opened) => opened.map(drop).map_err(|failure| failure.message),
            Err(_) => Err(format!("no connection within {} s", within.as_secs_f64())),
        }
    };
    generator::block_on(open)
        .map_err(ReachError::Start)?
        .map_err(ReachError::NoConnection)
}

/// Status and body of an answer.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Asks for a path with some more headers; the inner error says why there is no answer.
///
/// # Errors
/// It can't be asked at all.
pub(crate) fn get(
    target: &Target,
    path: &str,
    headers: Vec<(String, String)>,
    within: Duration,
    body_bytes_max: usize,
) -> io::Result<Result<Told, String>> {
    let deadline = Instant::now() + within;
    let asking = ask(target, path, headers, deadline, body_bytes_max);
    generator::block_on(async {
        match tokio::time::timeout_at(deadline.into(), asking).await {
            Ok(told) => told
                .map_err(|failure| failure.message)?
                .ok_or_else(|| format!("the answer is longer than {body_bytes_max} bytes")),
            Err(_) => Err(format!(
                "no complete answer within {} ms",
                within.as_millis()
            )),
        }
    })
}

/// `None` if the body is too long.
async fn ask(
    target: &Target,
    path: &str,
    headers: Vec<(String, String)>,
    deadline: Instant,
    body_bytes_max: usize,
) -> Result<Option<Told>, Failure> {
    let request = RenderedRequest {
        method: "GET".to_owned(),
        path_and_query: path.to_owned(),
        headers,
        body: Vec::new(),
    };
    let wire = Wire::new(request, target)?;
    let stamps = SocketStamps::default();
    let mut phases = Phases::default();
    let mut connection = Connection::open(target, &stamps, deadline, &mut phases).await?;
    let mut head = Head::default();
    let sent = connection.send(&wire, &mut head).await;
    sent.map_err(|failed| failed.failure)?;
    let mut body = Vec::new();
    while let Some(part) = connection.chunk().await? {
        if body.len() + part.len() > body_bytes_max {
            return Ok(None);
        }
        body.extend_from_slice(part);
    }
    let status = head.status();
    Ok(Some(Told { status, body }))
}
