//! A plan's requests in the form in which they are sent: built once where nothing varies.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::http::header::{HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::{Method, Request, Uri};
use unstall_results::record::ErrorKind;
use unstall_scenarios::check::{CheckFailure, CheckKind};
use unstall_scenarios::plan;
use unstall_scenarios::render::{RenderedRequest, Variation};
use unstall_scenarios::scope::Scope;

use super::exchange::{Answer, Reading};
use super::failure::Failure;
use super::stream_times::StreamTimes;
use super::streamed::StreamReader;
use super::target::Target;

/// What this generator calls itself, where the scenario doesn't say.
pub(super) const AGENT: &str = concat!("unstall/", env!("CARGO_PKG_VERSION"));

/// One user's form of one request of the plan.
pub(super) struct Prepared {
    plan: Arc<plan::Plan>,
    place: Place,
    target: Arc<Target>,
    variation: Variation,
    built: Option<Request<Full<Bytes>>>,
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
    pub(super) fn new(plan: &Arc<plan::Plan>, place: Place, target: &Arc<Target>) -> Self {
        let request = find(plan, place);
        Self {
            place,
            target: Arc::clone(target),
            variation: request.variation(plan),
            built: None,
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

    /// What is done with the answer's body.
    pub(super) fn reading(&mut self) -> Reading<'_> {
        match &mut self.stream {
            Some(reader) => Reading::Streamed(reader),
            None if self.keep_body => Reading::Kept,
            None => Reading::Counted,
        }
    }

    /// The times of the last answer, if this request reads streams.
    pub(super) fn stream_times(&self) -> Option<&StreamTimes> {
        self.stream.as_ref().map(StreamReader::times)
    }

    /// The request to send now.
    pub(super) fn build(&mut self, scope: &Scope) -> Result<Request<Full<Bytes>>, Failure> {
        if let Some(built) = &self.built {
            return Ok(built.clone());
        }
        let rendered = self.request().render(scope).map_err(|error| {
            Failure::service(ErrorKind::CheckFailed, format!("not sent: {error}"))
        })?;
        let built = into_http(rendered, &self.target)?;
        if self.variation < Variation::Iteration {
            self.built = Some(built.clone());
        }
        Ok(built)
    }

    /// The functional check; on success, what later requests need from the answer.
    pub(super) fn accept(&mut self, answer: &Answer, scope: &mut Scope) -> Result<(), Failure> {
        let headers = answer
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        let mut values = self
            .request()
            .accept(scope, answer.status, headers, &answer.body)
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

/// Into hyper's form, with what only the engine knows: the target.
fn into_http(rendered: RenderedRequest, target: &Target) -> Result<Request<Full<Bytes>>, Failure> {
    let unusable = |what: &str, error: &dyn std::fmt::Display| {
        Failure::service(ErrorKind::CheckFailed, format!("not sent: {what}: {error}"))
    };
    let path = format!("{}{}", target.base_path(), rendered.path_and_query);
    let uri: Uri = path
        .parse()
        .map_err(|error| unusable("its path and query are no request target", &error))?;
    let method = Method::from_bytes(rendered.method.as_bytes())
        .map_err(|error| unusable("its method is none", &error))?;
    let mut request = Request::new(Full::new(Bytes::from(rendered.body)));
    *request.uri_mut() = uri;
    *request.method_mut() = method;
    let headers = request.headers_mut();
    for (name, value) in rendered.headers {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|error| unusable("a header's name", &error))?;
        let value =
            HeaderValue::try_from(value).map_err(|error| unusable("a header's value", &error))?;
        headers.append(name, value);
    }
    if !headers.contains_key(HOST) {
        let host = HeaderValue::try_from(target.host_header())
            .map_err(|error| unusable("the target's host", &error))?;
        headers.insert(HOST, host);
    }
    if !headers.contains_key(USER_AGENT) {
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    }
    Ok(request)
}
