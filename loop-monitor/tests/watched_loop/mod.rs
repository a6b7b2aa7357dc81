//! A current-thread runtime under a watching monitor, and what the watcher says of its polls.

#![allow(
    dead_code,
    reason = "each test binary uses a part; expect would be wrong in the others"
)]

use std::convert::Infallible;
use std::future::Future;
use std::io::Write;
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use http::{Request, Response};
use serde_json::Value;
use tower::{Layer, ServiceExt, service_fn};
use unstall_loop_monitor::Monitor;
use unstall_loop_monitor::cause::Cause;
use unstall_loop_monitor::watched::WatchedCause;

/// A poll older than this is named.
pub(crate) const THRESHOLD: Duration = Duration::from_millis(20);
/// How long planted waits are: against the threshold, and the first reading of debug information.
pub(crate) const WAIT: Duration = Duration::from_millis(200);
/// The first names of a process are slow in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static SUBSCRIBED: Once = Once::new();

/// Writes where all tests of the process read: the watcher's thread is nobody's own.
#[derive(Clone, Copy)]
struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Fields of all warnings about one route so far.
pub(crate) fn warnings_about(route: &str) -> Vec<Value> {
    let bytes = LOG.lock().expect("not poisoned").clone();
    let text = String::from_utf8(bytes).expect("UTF-8");
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("one event per line"));
    events
        .map(|event| event["fields"].clone())
        .filter(|fields| fields["endpoint"] == route)
        .collect()
}

/// A monitor that watches, on a current-thread runtime.
pub(crate) struct WatchedLoop {
    pub(crate) monitor: Monitor,
    runtime: tokio::runtime::Runtime,
}

impl WatchedLoop {
    pub(crate) fn start() -> Self {
        SUBSCRIBED.call_once(|| {
            tracing_subscriber::fmt().json().with_writer(|| Log).init();
        });
        let monitor = Monitor::builder()
            .watch(THRESHOLD)
            .warn_over(THRESHOLD)
            .build();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all();
        monitor.install(&mut builder);
        let runtime = builder.build().expect("a runtime");
        Self { monitor, runtime }
    }

    /// Runs a handler at `GET route`.
    pub(crate) fn handle<F>(&self, route: &'static str, handler: impl FnOnce() -> F)
    where
        F: Future<Output = ()>,
    {
        let mut handler = Some(handler);
        let answer = service_fn(move |_: Request<()>| {
            let handler = handler.take().expect("asked once");
            async move {
                handler().await;
                Ok::<_, Infallible>(Response::new(String::new()))
            }
        });
        let service = self
            .monitor
            .layer_by(move |_: &Request<()>| route.to_owned())
            .layer(answer);
        let request = Request::builder().uri(route).body(()).expect("a request");
        let answered = self.runtime.block_on(service.oneshot(request));
        answered.expect("infallible");
    }

    /// What was named at `GET route` so far.
    pub(crate) fn causes_of(&self, route: &str) -> Vec<WatchedCause> {
        let endpoint = format!("GET {route}");
        let causes = self.monitor.snapshot().causes.expect("it watches");
        let here = |cause: &WatchedCause| cause.cause.endpoint.as_deref() == Some(&endpoint);
        causes.into_iter().filter(here).collect()
    }

    /// Runs a handler that holds the loop once, and waits for its name: the watcher may still be
    /// looking it up.
    pub(crate) fn named(&self, route: &'static str, hold: impl FnOnce()) -> WatchedCause {
        self.handle(route, async || hold());
        let asked = Instant::now();
        loop {
            if let Some(cause) = self.causes_of(route).into_iter().next() {
                return cause;
            }
            let waited = asked.elapsed();
            let snapshot = self.monitor.snapshot();
            assert!(
                waited < PATIENCE,
                "never named: {:#?}",
                snapshot.not_covered
            );
            std::thread::yield_now();
        }
    }
}

/// The blamed line, if it is in this test's file.
pub(crate) fn blamed_line(cause: &Cause, file: &str) -> Option<u32> {
    let frame = cause.blamed()?;
    let is_here = frame.file.as_ref()?.ends_with(file);
    frame.line.filter(|_| is_here && frame.is_own)
}

/// Shared ownership for what a handler and its opponent both hold.
pub(crate) fn shared<T>(value: T) -> (Arc<T>, Arc<T>) {
    let value = Arc::new(value);
    (Arc::clone(&value), value)
}
