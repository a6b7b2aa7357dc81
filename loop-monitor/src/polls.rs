//! The wrapped futures and the wrapped body: each of their polls is one stretch in which the loop
//! does nothing else, and so is the dropping of one that hasn't ended.

use std::mem::needs_drop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::cells::{EndpointCells, Part};
use crate::monitor::Monitor;
use crate::thread_state;

/// To whom polls are charged, and what those of this request, or task, came to.
#[derive(Debug, Clone)]
pub(crate) struct Charged {
    pub(crate) monitor: Monitor,
    pub(crate) endpoint: Arc<EndpointCells>,
    /// Sum of the polls so far; goes on from the handler's future to the body.
    pub(crate) hold_ns: u64,
}

impl Charged {
    pub(crate) fn new(monitor: Monitor, endpoint: Arc<EndpointCells>) -> Self {
        Self {
            monitor,
            endpoint,
            hold_ns: 0,
        }
    }

    #[inline]
    pub(crate) fn measure<T>(&mut self, part: Part, poll: impl FnOnce() -> T) -> T {
        let state = &self.monitor.inner;
        state.measure(&self.endpoint, part, &mut self.hold_ns, poll)
    }

    /// Counts a request or task, unless it begins within a poll that is measured already: then it
    /// is a part of that one, seen by a second wrapper.
    pub(crate) fn count_begun(&self) -> bool {
        let outermost = !thread_state::in_poll();
        if outermost {
            self.endpoint.count_request(thread_state::place());
        }
        outermost
    }
}

pin_project! {
    /// Any future, measured. When it has ended it is dropped within its last poll, and is pending
    /// from then on.
    #[derive(Debug)]
    struct Measured<F> {
        #[pin]
        future: Option<F>,
        charged: Charged,
    }

    impl<F> PinnedDrop for Measured<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if needs_drop::<F>() && this.future.is_some() {
                this.charged.measure(Part::After, || this.future.set(None));
            }
        }
    }
}

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        this.charged.measure(Part::Handler, || {
            let Some(future) = this.future.as_mut().as_pin_mut() else {
                return Poll::Pending;
            };
            // Spelt so that a pending future's room for its output isn't copied about.
            match future.poll(context) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(output) => {
                    this.future.set(None);
                    Poll::Ready(output)
                }
            }
        })
    }
}

pin_project! {
    /// A handler's future, each poll measured; resolves to a response with a [`MonitoredBody`].
    #[derive(Debug)]
    pub struct MonitoredFuture<F> {
        #[pin]
        measured: Measured<F>,
    }
}

impl<F> MonitoredFuture<F> {
    pub(crate) fn new(future: F, charged: Charged) -> Self {
        let future = Some(future);
        let measured = Measured { future, charged };
        Self { measured }
    }
}

impl<F, B, E> Future for MonitoredFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<MonitoredBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let response = ready!(this.measured.as_mut().poll(context))?;
        let charged = this.measured.charged.clone();
        Poll::Ready(Ok(response.map(|body| MonitoredBody {
            body: Some(body),
            ended: false,
            charged,
        })))
    }
}

pin_project! {
    /// The future of a call to a service that doesn't speak HTTP, each poll measured.
    #[derive(Debug)]
    pub struct MonitoredCall<F> {
        #[pin]
        measured: Measured<F>,
    }
}

impl<F> MonitoredCall<F> {
    pub(crate) fn new(future: F, charged: Charged) -> Self {
        let future = Some(future);
        let measured = Measured { future, charged };
        Self { measured }
    }
}

impl<F: Future> Future for MonitoredCall<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.project().measured.poll(context)
    }
}

pin_project! {
    /// A task's future, each poll measured; made by [`Monitor::task`].
    #[derive(Debug)]
    pub struct MonitoredTask<F> {
        #[pin]
        measured: Measured<F>,
        counted: bool,
    }
}

impl<F> MonitoredTask<F> {
    pub(crate) fn new(future: F, charged: Charged) -> Self {
        let future = Some(future);
        let measured = Measured { future, charged };
        Self {
            measured,
            counted: false,
        }
    }
}

impl<F: Future> Future for MonitoredTask<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if !*this.counted {
            // Only here does it show whether it is a task of its own.
            *this.counted = this.measured.charged.count_begun();
        }
        this.measured.poll(context)
    }
}

pin_project! {
    /// A response's body, each poll measured, and its dropping.
    #[derive(Debug)]
    pub struct MonitoredBody<B> {
        #[pin]
        body: Option<B>,
        // It has said that nothing more will come.
        ended: bool,
        charged: Charged,
    }

    impl<B> PinnedDrop for MonitoredBody<B> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if needs_drop::<B>() {
                this.charged.measure(Part::After, || this.body.set(None));
            }
        }
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
        let part = if *this.ended { Part::After } else { Part::Body };
        // There is a body until it is dropped, and none has nothing more to say.
        let Some(body) = this.body.as_pin_mut() else {
            return Poll::Ready(None);
        };
        let polled = this.charged.measure(part, || body.poll_frame(context));
        if let Poll::Ready(None | Some(Err(_))) = polled {
            *this.ended = true;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
