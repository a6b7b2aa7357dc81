//! Reads a streamed body item by item, and says what is wrong with it.
//!
//! A stream is a success when all its bytes decode, each item passes, and what makes it
//! complete is there. What isn't one is counted by kind:
//! - `decode`: bytes that the decoder can't cut into items, or an item that isn't JSON;
//! - `check_failed`: an item that fails `each`;
//! - `truncated`: too few items, no meaningful one, a last one that isn't the last, no end
//!   marker, or a connection that ended after the first byte of the body (before that byte it
//!   is a `reset`, as everywhere);
//! - `timeout`: a silence longer than `idle_timeout`, or an end beyond the request's timeout.
//!
//! The first fault ends the reading, and the connection with it. So does the scenario where it
//! leaves a stream before its end, which then has nothing to complete.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::coop;
use tokio::time::Sleep;
use unstall_results::record::ErrorKind;
use unstall_scenarios::check::{CheckFailure, CheckKind, Values};
use unstall_scenarios::plan;

use super::answer::Head;
use super::answer_body::AnswerBody;
use super::exchange::before;
use super::failure::{Cause, Failure};
use super::prepared::from_check;
use super::stamps::ReadStamp;
use super::stream_times::{ReadMark, StreamTimes};
use crate::stream::{DecodeError, ITEM_BYTES_MAX, ItemDecoder, Rest};

/// A stream that was read as far as the scenario wants it.
pub(super) struct Read {
    pub(super) body_bytes: u64,
    /// More may come: the connection is of no use any more.
    pub(super) is_left: bool,
}

/// One user's reader of one request's streams.
pub(super) struct StreamReader {
    decoder: ItemDecoder,
    items: Items,
    idle: Pin<Box<Sleep>>,
}

impl StreamReader {
    /// A reader for one of the plan's requests; `None` if its answer is no stream.
    pub(super) fn of(plan: &Arc<plan::Plan>, index: usize) -> Option<Self> {
        let stream = plan.requests[index].stream.as_ref()?;
        Some(Self {
            decoder: ItemDecoder::new(stream.decoder, ITEM_BYTES_MAX),
            items: Items {
                plan: Arc::clone(plan),
                index,
                times: StreamTimes::default(),
                last: Vec::new(),
                takes_items: plan.requests[index].takes_items(),
                taken: Values::new(),
                is_ended: false,
            },
            idle: Box::pin(tokio::time::sleep(Duration::ZERO)),
        })
    }

    /// What the last stream was like; to be counted only if it was complete.
    pub(super) fn times(&self) -> &StreamTimes {
        &self.items.times
    }

    /// What the last stream's items have brought for later requests.
    pub(super) fn taken(&mut self) -> &mut Values {
        &mut self.items.taken
    }

    /// Whether an answer with this head has the stream as its body.
    ///
    /// # Errors
    /// The status is right and a header is not. With a wrong status there is no stream, and
    /// what is wrong is for the check of whole answers to say.
    pub(super) fn expects(&self, head: &Head) -> Result<bool, Failure> {
        let expect = &self.items.request().expect;
        match expect.check_head(head.status(), head.fields(), &[]) {
            Ok(()) => Ok(true),
            Err(failure) if failure.kind == CheckKind::Status => Ok(false),
            Err(failure) => Err(from_check(&failure)),
        }
    }

    /// Reads a body to its end, or until the scenario leaves it.
    ///
    /// # Errors
    /// What is wrong with the stream.
    pub(super) async fn read(
        &mut self,
        body: &mut AnswerBody<'_>,
        reads: &ReadStamp,
    ) -> Result<Read, Failure> {
        self.decoder.reset();
        self.items.reset();
        let silence_max = self.items.stream().idle_timeout;
        let mut heard = Instant::now();
        let mut body_bytes = 0;
        loop {
            // As for a plain body: tiny parts without end must let others have their turn.
            coop::consume_budget().await;
            let part = before(self.idle.as_mut(), heard + silence_max, body.chunk());
            let Some(part) = part.await else {
                return Err(self.silence(silence_max));
            };
            let part = part.map_err(|failure| self.broken(failure, body_bytes))?;
            let Some(data) = part else { break };
            let read = reads.last();
            heard = read.at;
            body_bytes += data.len() as u64;
            self.take(data, read)?;
            reads.keep_first_meaningful(self.items.times.first_meaningful);
            if self.items.are_enough() {
                self.items.check_taken()?;
                let is_left = true;
                return Ok(Read {
                    body_bytes,
                    is_left,
                });
            }
        }
        self.finish(reads.last())?;
        let is_left = false;
        Ok(Read {
            body_bytes,
            is_left,
        })
    }

    /// Takes what one read has brought.
    fn take(&mut self, mut bytes: &[u8], read: ReadMark) -> Result<(), Failure> {
        while let Some(item) = self
            .decoder
            .next(&mut bytes)
            .map_err(|error| self.items.undecoded(&error))?
        {
            self.items.take(item, read)?;
        }
        Ok(())
    }

    /// The body is over: is the stream complete?
    fn finish(&mut self, read: ReadMark) -> Result<(), Failure> {
        let items = &mut self.items;
        let rest = self.decoder.rest();
        match rest {
            Rest::Partial => return Err(truncated("it ended in the middle of an item")),
            Rest::Line(line) if items.is_whole(line) => items.take(line, read)?,
            Rest::Line(_) => return Err(truncated("its last line is cut short")),
            Rest::Nothing | Rest::Discarded => {}
        }
        match items.lacks() {
            None => items.check_taken(),
            Some(lack) if rest == Rest::Discarded => Err(truncated(&format!(
                "{lack} (its last event has no blank line behind it, so it doesn't count)"
            ))),
            Some(lack) => Err(truncated(&lack)),
        }
    }

    /// The connection or the HTTP of the body broke.
    fn broken(&self, failure: Failure, body_bytes: u64) -> Failure {
        if failure.cause != Cause::Service(ErrorKind::Reset) || body_bytes == 0 {
            return failure;
        }
        let message = format!("the stream broke after {}", counted(self.items.times.items));
        Failure::service(
            ErrorKind::Truncated,
            format!("{message}: {}", failure.message),
        )
    }

    fn silence(&self, silence_max: Duration) -> Failure {
        Failure::service(
            ErrorKind::Timeout,
            format!(
                "the stream was silent for {} ms after {}",
                silence_max.as_millis(),
                counted(self.items.times.items)
            ),
        )
    }
}

/// One stream's items as they come.
struct Items {
    plan: Arc<plan::Plan>,
    /// Which of the plan's requests.
    index: usize,
    times: StreamTimes,
    /// A copy of the last item, where the scenario tests it.
    last: Vec<u8>,
    /// Later requests take something from its items.
    takes_items: bool,
    /// What they have taken.
    taken: Values,
    /// The end marker was read.
    is_ended: bool,
}

impl Items {
    fn request(&self) -> &plan::Request {
        &self.plan.requests[self.index]
    }

    fn stream(&self) -> &plan::Stream {
        let stream = self.request().stream.as_ref();
        stream.expect("a reader is made for streams only")
    }

    /// Forgets the stream before; memory is kept.
    fn reset(&mut self) {
        self.times.reset();
        self.last.clear();
        self.taken.clear();
        self.is_ended = false;
    }

    fn take(&mut self, item: &[u8], read: ReadMark) -> Result<(), Failure> {
        if self.is_ended {
            let message = "an item came after the end marker";
            return Err(Failure::service(ErrorKind::Decode, message));
        }
        if self.stream().is_end_marker(item) {
            self.is_ended = true;
            return Ok(());
        }
        self.times.item(read);
        let asks_meaning = self.times.first_meaningful.is_none();
        let meaningful = self
            .request()
            .accept_item(item, asks_meaning)
            .map_err(|failure| {
                let failure = from_check(&failure);
                let message = format!("item {}: {}", self.times.items, failure.message);
                Failure { message, ..failure }
            })?;
        if asks_meaning && meaningful {
            self.times.first_meaningful = Some(read.at);
        }
        if self.takes_items {
            let request = &self.plan.requests[self.index];
            request.take_item(item, &mut self.taken);
        }
        if self.stream().last.is_some() {
            self.last.clear();
            self.last.extend_from_slice(item);
        }
        Ok(())
    }

    /// Whether a last line without its line feed is whole: the marker, or JSON.
    fn is_whole(&self, line: &[u8]) -> bool {
        let is_cut = |failure: CheckFailure| failure.kind == CheckKind::Decode;
        self.stream().is_end_marker(line)
            || !self.request().accept_item(line, false).is_err_and(is_cut)
    }

    /// Whether the scenario leaves the stream here.
    fn are_enough(&self) -> bool {
        let wanted = self.stream().leave_after;
        wanted.is_some_and(|wanted| self.times.items >= wanted)
            && self.times.first_meaningful.is_some()
    }

    /// What the ended stream lacks to be complete, if anything.
    fn lacks(&self) -> Option<String> {
        let (items, min) = (self.times.items, self.stream().items_min);
        if let Some(wanted) = self.stream().leave_after.filter(|wanted| items < *wanted) {
            let had = counted(items);
            return Some(format!("it had {had}, expected {wanted} before leaving it"));
        }
        if items < min {
            return Some(format!(
                "it had {}, expected {min} at least",
                counted(items)
            ));
        }
        if self.stream().end_marker.is_some() && !self.is_ended {
            return Some("its end marker never came".to_owned());
        }
        if let Some(lack) = self.stream().lacks_in_last(&self.last) {
            return Some(lack);
        }
        let meaningless = self.times.first_meaningful.is_none();
        meaningless.then(|| "it had no meaningful item".to_owned())
    }

    fn check_taken(&self) -> Result<(), Failure> {
        if !self.takes_items {
            return Ok(());
        }
        let taken = self.request().check_taken(&self.taken);
        taken.map_err(|failure| from_check(&failure))
    }

    fn undecoded(&self, error: &DecodeError) -> Failure {
        let message = format!("after {}: {error}", counted(self.times.items));
        Failure::service(ErrorKind::Decode, message)
    }
}

fn truncated(why: &str) -> Failure {
    let message = format!("the stream isn't complete: {why}");
    Failure::service(ErrorKind::Truncated, message)
}

fn counted(items: u64) -> String {
    match items {
        1 => "1 item".to_owned(),
        _ => format!("{items} items"),
    }
}
