//! The wrapped future and body: each of their polls is one stretch in which the loop does nothing else.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::cells::{EndpointCells, Part};
use crate::monitor::Monitor;

/// To whom a request's polls are charged, and what they came to.
#[derive(Debug, Clone)]
pub(crate) struct Charged {
    pub(crate) monitor: Monitor,
    pub(crate) endpoint: Arc<EndpointCells>,
    /// Sum of the polls so far; goes on from the handler's future to the body.
    pub(crate) hold_ns: u64,
}

impl Charged {
    pub(crate) fn measure<T>(&mut self, part: Part, poll: impl FnOnce() -> T) -> T {
        let state = &self.monitor.inner;
        state.measure(&self.endpoint, part, &mut self.hold_ns, poll)
    }
}

pin_project! {
    /// A handler's future, each poll measured; resolves to a response with a [`MonitoredBody`].
    #[derive(Debug)]
    pub struct MonitoredFuture<F> {
        #[pin]
        future: F,
        charged: Charged,
    }
}

impl<F> MonitoredFuture<F> {
    pub(crate) fn new(future: F, charged: Charged) -> Self {
        Self { future, charged }
    }
}

impl<F, B, E> Future for MonitoredFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<MonitoredBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = this
            .charged
            .measure(Part::Handler, || this.future.poll(context));
        let response = ready!(polled)?;
        let charged = this.charged.clone();
        Poll::Ready(Ok(response.map(|body| MonitoredBody { body, charged })))
    }
}

pin_project! {
    /// A response's body, each poll measured.
    #[derive(Debug)]
    pub struct MonitoredBody<B> {
        #[pin]
        body: B,
        charged: Charged,
    }
}

impl<B: Body> Body for MonitoredBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        this.charged
            .measure(Part::Body, || this.body.poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
