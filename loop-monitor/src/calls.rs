//! The tower layer for services that don't speak HTTP: any request, any response.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::cells::Part;
use crate::monitor::Monitor;
use crate::polls::{Charged, MonitoredCall};

impl Monitor {
    /// A tower layer for any service: `name_of` gives a request's name, under which it is counted
    /// as the endpoint `CALL name`. For HTTP there are [`layer`](Monitor::layer) and
    /// [`layer_by`](Monitor::layer_by), which measure the response's body, too.
    ///
    /// The name must be one of few, never one with an id in it: beyond the cap, names share
    /// [`OTHER_ENDPOINT`](crate::OTHER_ENDPOINT).
    #[must_use]
    pub fn service_layer<R, N: Fn(&R) -> String>(&self, name_of: N) -> CallLayer<N> {
        CallLayer {
            monitor: self.clone(),
            name_of,
        }
    }
}

/// Wraps services so that their calls are measured; made by [`Monitor::service_layer`].
#[derive(Debug, Clone)]
pub struct CallLayer<N> {
    monitor: Monitor,
    name_of: N,
}

impl<S, N: Clone> Layer<S> for CallLayer<N> {
    type Service = CallService<S, N>;

    fn layer(&self, inner: S) -> Self::Service {
        CallService {
            inner,
            monitor: self.monitor.clone(),
            name_of: self.name_of.clone(),
        }
    }
}

/// A service whose calls are measured.
#[derive(Debug, Clone)]
pub struct CallService<S, N> {
    inner: S,
    monitor: Monitor,
    name_of: N,
}

impl<S, N, R> Service<R> for CallService<S, N>
where
    S: Service<R>,
    N: Fn(&R) -> String,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = MonitoredCall<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let name = (self.name_of)(&request);
        let endpoint = self.monitor.inner.meter.endpoints().resolve_call(&name);
        let mut charged = Charged::new(self.monitor.clone(), endpoint);
        charged.count_begun();
        // A service may work, or block, before it returns its future.
        let future = charged.measure(Part::Handler, || self.inner.call(request));
        MonitoredCall::new(future, charged)
    }
}
