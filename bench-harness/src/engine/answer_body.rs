//! The body of an answer as its reader wants it: decoded, where the service has coded it, and
//! counted in both sizes.

use unstall_results::record::ErrorKind;

use super::answer::Head;
use super::coding::{Coding, CodingFault, Decoder};
use super::connection::Connection;
use super::failure::Failure;

/// A body that is being read.
pub(super) struct AnswerBody<'c> {
    connection: &'c mut Connection,
    decoder: Option<Decoder>,
    /// As it came.
    pub(super) encoded_bytes: u64,
}

impl<'c> AnswerBody<'c> {
    /// The body behind a head. What can't be decoded here is only a fault where `is_looked_at`.
    pub(super) fn new(
        connection: &'c mut Connection,
        head: &Head,
        is_looked_at: bool,
    ) -> Result<Self, Failure> {
        let coding = match Coding::of(head) {
            Ok(coding) => coding,
            Err(_) if !is_looked_at => None,
            Err(fault) => return Err(undecoded(&fault)),
        };
        Ok(Self {
            connection,
            decoder: coding.map(Decoder::new),
            encoded_bytes: 0,
        })
    }

    /// The next part of the body, lent, never empty; `None` at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<&[u8]>, Failure> {
        let Some(decoder) = &mut self.decoder else {
            let part = self.connection.chunk().await?;
            self.encoded_bytes += part.map_or(0, <[u8]>::len) as u64;
            return Ok(part);
        };
        loop {
            let length = decoder.decode().map_err(|fault| undecoded(&fault))?;
            if length > 0 {
                return Ok(Some(decoder.decoded(length)));
            }
            let Some(part) = self.connection.chunk().await? else {
                decoder.finish().map_err(|fault| undecoded(&fault))?;
                return Ok(None);
            };
            self.encoded_bytes += part.len() as u64;
            decoder.feed(part);
        }
    }
}

fn undecoded(fault: &CodingFault) -> Failure {
    Failure::service(ErrorKind::Decode, fault.to_string())
}
