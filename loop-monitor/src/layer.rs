//! The tower layer: finds a request's endpoint once, then hands out measured futures.

use std::borrow::Cow;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::cells::Part;
use crate::monitor::Monitor;
use crate::polls::{Charged, MonitoredBody, MonitoredFuture};

/// Gives a request's route, a template such as `/users/{id}`; `None` when no route matched.
///
/// Implemented for closures `Fn(&Request<B>) -> String`.
pub trait RouteOf<B> {
    /// The route, without the method.
    fn route_of<'r>(&self, request: &'r Request<B>) -> Option<Cow<'r, str>>;
}

impl<B, F: Fn(&Request<B>) -> String> RouteOf<B> for F {
    fn route_of<'r>(&self, request: &'r Request<B>) -> Option<Cow<'r, str>> {
        Some(Cow::Owned(self(request)))
    }
}

/// The route that axum matched.
#[derive(Debug, Clone, Copy, Default)]
pub struct MatchedRoute;

impl<B> RouteOf<B> for MatchedRoute {
    #[cfg(feature = "axum")]
    fn route_of<'r>(&self, request: &'r Request<B>) -> Option<Cow<'r, str>> {
        let matched = request.extensions().get::<axum::extract::MatchedPath>()?;
        Some(Cow::Borrowed(matched.as_str()))
    }

    #[cfg(not(feature = "axum"))]
    fn route_of<'r>(&self, _: &'r Request<B>) -> Option<Cow<'r, str>> {
        None
    }
}

/// Wraps services so that their polls are measured; made by [`Monitor::layer`].
#[derive(Debug, Clone)]
pub struct MonitorLayer<R> {
    monitor: Monitor,
    route_of: R,
}

impl<R> MonitorLayer<R> {
    pub(crate) fn new(monitor: Monitor, route_of: R) -> Self {
        Self { monitor, route_of }
    }
}

impl<S, R: Clone> Layer<S> for MonitorLayer<R> {
    type Service = MonitorService<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        MonitorService {
            inner,
            monitor: self.monitor.clone(),
            route_of: self.route_of.clone(),
        }
    }
}

/// A service whose polls are measured.
#[derive(Debug, Clone)]
pub struct MonitorService<S, R> {
    inner: S,
    monitor: Monitor,
    route_of: R,
}

impl<S, R, B, C> Service<Request<B>> for MonitorService<S, R>
where
    S: Service<Request<B>, Response = Response<C>>,
    R: RouteOf<B>,
{
    type Response = Response<MonitoredBody<C>>;
    type Error = S::Error;
    type Future = MonitoredFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let route = self.route_of.route_of(&request);
        let registry = self.monitor.inner.meter.endpoints();
        let endpoint = registry.resolve(request.method(), route.as_deref());
        let mut charged = Charged::new(self.monitor.clone(), endpoint);
        charged.count_begun();
        // A service may work, or block, before it returns its future.
        let future = charged.measure(Part::Handler, || self.inner.call(request));
        MonitoredFuture::new(future, charged)
    }
}
