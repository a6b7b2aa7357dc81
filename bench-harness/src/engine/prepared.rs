//! A plan's requests in the form in which they are sent: built once where nothing varies.

use std::sync::Arc;

use unstall_results::record::ErrorKind;
use unstall_scenarios::check::{CheckFailure, CheckKind};
use unstall_scenarios::plan::{self, ClientBehaviour, Reuse};
use unstall_scenarios::render::Variation;
use unstall_scenarios::scope::Scope;

use super::answer::Answer;
use super::coding;
use super::exchange::Reading;
use super::failure::Failure;
use super::hosts::Hosts;
use super::stream_times::StreamTimes;
use super::streamed::StreamReader;
use super::target::Target;
use super::wire::Wire;

/// One user's form of one request of the plan.
pub(super) struct Prepared {
    plan: Arc<plan::Plan>,
    place: Place,
    target: Arc<Target>,
    /// What the client adds where the scenario has nothing of that name.
    added: Vec<(&'static str, &'static str)>,
    variation: Variation,
    wire: Wire,
    /// What is in `wire` is good for the next request, too.
    is_built: bool,
    keep_body: bool,
    stream: Option<StreamReader>,
}

/// Where a request stands in its plan.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Setup(usize),
    Measured(usize),
}

impl Prepared {
    pub(super) fn new(plan: &Arc<plan::Plan>, place: Place, hosts: &Hosts) -> Self {
        let request = find(plan, place);
        let service = hosts.index_of(request.host.as_deref());
        Self {
            place,
            target: Arc::clone(&hosts.at(service).target),
            added: added(&plan.client),
            variation: request.variation(plan),
            wire: Wire::to(service),
            is_built: false,
            stream: match place {
                Place::Measured(index) => StreamReader::of(plan, index),
                Place::Setup(_) => None,
            },
            // A body that nobody looks at is counted and let go.
            keep_body: request.reads_body(),
            plan: Arc::clone(plan),
        }
    }

    /// The request as the scenario has it.
    pub(super) fn request(&self) -> &plan::Request {
        find(&self.plan, self.place)
    }

    /// The request as it was built last, and what is done with the answer's body.
    pub(super) fn parts(&mut self) -> (&mut Wire, Reading<'_>) {
        let reading = match &mut self.stream {
            Some(reader) => Reading::Streamed(reader),
            None if self.keep_body => Reading::Kept,
            None => Reading::Counted,
        };
        (&mut self.wire, reading)
    }

    /// The times of the last answer, if this request reads streams.
    pub(super) fn stream_times(&self) -> Option<&StreamTimes> {
        self.stream.as_ref().map(StreamReader::times)
    }

    /// Makes the request that is to be sent now.
    pub(super) fn build(&mut self, scope: &Scope) -> Result<(), Failure> {
        if self.is_built {
            return Ok(());
        }
        let mut rendered = self.request().render(scope).map_err(|error| {
            Failure::service(ErrorKind::CheckFailed, format!("not sent: {error}"))
        })?;
        for (name, value) in &self.added {
            if !rendered.headers.iter().any(|(own, _)| own == name) {
                rendered
                    .headers
                    .push(((*name).to_owned(), (*value).to_owned()));
            }
        }
        self.wire.replace(rendered, &self.target)?;
        self.is_built = self.variation < Variation::Iteration;
        Ok(())
    }

    /// The functional check; on success, what later requests need from the answer.
    pub(super) fn accept(&mut self, answer: &Answer, scope: &mut Scope) -> Result<(), Failure> {
        let head = &answer.head;
        let mut values = self
            .request()
            .accept(scope, head.status(), head.fields(), &answer.body)
            .map_err(|failure| from_check(&failure))?;
        if let Some(reader) = &mut self.stream {
            values.append(reader.taken());
        }
        if !values.is_empty() {
            match self.place {
                Place::Setup(_) => scope.prepare(values),
                Place::Measured(_) => scope.answer(values),
            }
        }
        Ok(())
    }
}

/// The headers by which a client says how it behaves.
fn added(client: &ClientBehaviour) -> Vec<(&'static str, &'static str)> {
    let mut added = Vec::new();
    if client.compression {
        added.push(("accept-encoding", coding::OFFER));
    }
    if client.reuse == Reuse::Never {
        // As clients that never reuse a connection say it; over HTTP/2 there is no such header.
        added.push(("connection", "close"));
    }
    added
}

fn find(plan: &plan::Plan, place: Place) -> &plan::Request {
    match place {
        Place::Setup(index) => &plan.setup[index].request,
        Place::Measured(index) => &plan.requests[index],
    }
}

pub(super) fn from_check(failure: &CheckFailure) -> Failure {
    let kind = match failure.kind {
        CheckKind::Status => ErrorKind::Status,
        CheckKind::Check => ErrorKind::CheckFailed,
        CheckKind::Decode => ErrorKind::Decode,
    };
    Failure::service(kind, failure.message.clone())
}
