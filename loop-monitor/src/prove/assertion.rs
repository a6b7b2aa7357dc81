//! For people's tests: a future, or a route, that must make no call that can block.

use std::fmt::{self, Write as _};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{Armed, Resolver, Scope, kernel, sleeps_and_faults};
use crate::certificate::Finding;
use crate::kernel_canary;

/// Callers that a message shows of each finding.
const CALLERS_MAX: usize = 4;

/// Fails a test whose `future` makes a system call that can block, also one that returned at
/// once. Resolves to what the future resolves to.
///
/// Works on every runtime. Watched is the future itself, and its dropping: the tasks that it spawns
/// are not, and neither is what `spawn_blocking` runs.
///
/// Where calls can't be caught ([`method`](super::method)), a poll must not sleep or wait for a
/// page instead: calls that return at once are missed then. That is printed to standard error,
/// which Rust's test harness shows for failing tests only, or with `--show-output`; a test that
/// must not pass without a proof asserts what [`method`](super::method) returns.
///
/// # Panics
/// When the future is ready, or dropped, and has made such calls; the message names each with its
/// target and its line. At once, where neither calls can be caught nor sleeps be seen.
///
/// ```
/// use std::time::Duration;
/// use unstall_loop_monitor::prove::assert_never_blocks;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let answer = assert_never_blocks(async {
///     tokio::time::sleep(Duration::from_millis(1)).await;
///     42
/// })
/// .await;
/// assert_eq!(answer, 42);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// ```should_panic
/// # use unstall_loop_monitor::prove::assert_never_blocks;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// // Panics: a file's read can wait for the disk.
/// assert_never_blocks(async { std::fs::read_to_string("/proc/version") }).await
/// # }).unwrap();
/// # panic!("not caught: as where calls can't be caught");
/// ```
#[track_caller]
pub fn assert_never_blocks<F: Future>(future: F) -> AssertNeverBlocks<F> {
    AssertNeverBlocks::new("this future".to_owned(), future, Location::caller())
}

/// Sends one request to a service, a router say, and fails the test if its handler or its response
/// body makes a call that can block. Resolves to the response with its whole body.
///
/// As [`assert_never_blocks`] otherwise.
///
/// # Panics
/// Also when the service or its body fails.
///
/// ```
/// # use unstall_loop_monitor::prove::assert_route_never_blocks;
/// # #[cfg(feature = "axum")]
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use axum::{Router, body::Body, http::Request, routing::get};
///
/// let router: Router = Router::new().route("/health", get(|| async { "ok" }));
/// let request = Request::get("/health").body(Body::empty()).expect("a request");
/// let response = assert_route_never_blocks(router, request).await;
/// assert_eq!(response.body().as_ref(), b"ok");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn assert_route_never_blocks<S, B, C>(
    service: S,
    request: Request<B>,
) -> AssertNeverBlocks<impl Future<Output = Response<Bytes>>>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Error: fmt::Debug,
    C: Body,
    C::Error: fmt::Debug,
{
    let subject = format!("{} {}", request.method(), request.uri().path());
    let future = drive(service, request);
    AssertNeverBlocks::new(subject, future, Location::caller())
}

async fn drive<S, B, C>(mut service: S, request: Request<B>) -> Response<Bytes>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Error: fmt::Debug,
    C: Body,
    C::Error: fmt::Debug,
{
    let ready = std::future::poll_fn(|context| service.poll_ready(context)).await;
    ready.expect("the service is ready for a request");
    let answer = service.call(request).await;
    let (head, body) = answer.expect("the service answers").into_parts();
    let mut body = pin!(body);
    let mut bytes = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await
    {
        let frame = frame.expect("the response's body is complete");
        // Trailers carry no bytes.
        if let Ok(mut data) = frame.into_data() {
            let length = data.remaining();
            bytes.extend_from_slice(&data.copy_to_bytes(length));
        }
    }
    Response::from_parts(head, bytes.freeze())
}

pin_project! {
    /// The future of [`assert_never_blocks`]. When the asserted one is ready, it is dropped within
    /// its last poll, and this one is pending from then on.
    #[must_use = "a future does nothing unless it is awaited"]
    #[derive(Debug)]
    pub struct AssertNeverBlocks<F> {
        #[pin]
        future: Option<F>,
        watch: Watch,
    }

    impl<F> PinnedDrop for AssertNeverBlocks<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // A future that was given up has blocked as well, and its dropping may block.
            if this.future.is_some() {
                this.watch.poll(|| this.future.set(None));
            }
            // A second panic would end the test program without any message.
            if !std::thread::panicking() {
                this.watch.tell();
            }
        }
    }
}

impl<F> AssertNeverBlocks<F> {
    #[track_caller]
    fn new(subject: String, future: F, asserted_at: &'static Location<'static>) -> Self {
        let refused = kernel::support().err();
        if let Some(reason) = refused {
            match instead_of_proof(reason, sleeps_are_seen()) {
                Ok(notice) => eprintln!("unstall: {asserted_at}: {notice}"),
                Err(blind) => panic!("{subject} {blind}"),
            }
        }
        let watch = Watch {
            subject,
            asserted_at,
            catches: refused.is_none(),
            scope: Box::default(),
            slept_polls: 0,
            is_told: false,
        };
        let future = Some(future);
        Self { future, watch }
    }
}

/// Asked once: the answer is the kernel's.
fn sleeps_are_seen() -> bool {
    static SEEN: OnceLock<bool> = OnceLock::new();
    *SEEN.get_or_init(|| kernel_canary::probe().see_sleeps)
}

/// What is judged where calls can't be caught; an error if nothing can be.
fn instead_of_proof(reason: &str, sleeps_are_seen: bool) -> Result<String, String> {
    if sleeps_are_seen {
        Ok(format!(
            "calls can't be caught here ({reason}); only polls that sleep or wait for a page are \
             found"
        ))
    } else {
        Err(format!(
            "can't be judged here: calls can't be caught ({reason}), and this kernel's counters \
             don't show sleeps; run the test on Linux itself, or leave it out here"
        ))
    }
}

impl<F: Future> Future for AssertNeverBlocks<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let polled = this.watch.poll(|| {
            let Some(future) = this.future.as_mut().as_pin_mut() else {
                return Poll::Pending;
            };
            let output = ready!(future.poll(context));
            this.future.set(None);
            Poll::Ready(output)
        });
        let output = ready!(polled);
        this.watch.tell();
        Poll::Ready(output)
    }
}

/// What is known of one asserted future.
#[derive(Debug)]
struct Watch {
    subject: String,
    asserted_at: &'static Location<'static>,
    catches: bool,
    /// Boxed: while it is polled, the handler has its address.
    scope: Box<Scope>,
    slept_polls: u64,
    is_told: bool,
}

impl Watch {
    fn poll<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        if self.catches {
            let _armed = Armed::enter(&self.scope);
            return poll();
        }
        let before = sleeps_and_faults();
        let polled = poll();
        if before != sleeps_and_faults() {
            self.slept_polls += 1;
        }
        polled
    }

    /// Panics, once, if there is a reason.
    fn tell(&mut self) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let Self {
            subject,
            asserted_at,
            ..
        } = self;
        assert!(
            self.slept_polls == 0,
            "{subject} slept, or waited for a page, in {} polls (asserted at {asserted_at}); in \
             which call can't be told here",
            self.slept_polls
        );
        let findings = Resolver::new().resolve(&self.scope, None).findings;
        let lost = self.scope.lost.load(Relaxed);
        assert!(
            findings.is_empty() && lost == 0,
            "{}",
            message(subject, asserted_at, &findings, lost)
        );
        let unwatched = self.scope.unwatched_polls.load(Relaxed);
        assert!(
            unwatched == 0,
            "{subject} can't be judged (asserted at {asserted_at}): the kernel didn't watch the \
             thread of {unwatched} polls"
        );
    }
}

fn message(subject: &str, asserted_at: &Location<'_>, findings: &[Finding], lost: u64) -> String {
    let mut text =
        format!("{subject} makes calls that can block its loop (asserted at {asserted_at}):\n");
    for finding in findings {
        describe(&mut text, finding);
    }
    if lost > 0 {
        // Writing to a String can't fail; so below.
        let _ = writeln!(text, "  and {lost} calls from further places");
    }
    text.push_str(
        "Await an async call instead, or move it to `tokio::task::spawn_blocking`. What may block \
         all the same is said by `unstall_loop_monitor::prove::exempt(\"why\", || …)`.",
    );
    text
}

fn describe(text: &mut String, finding: &Finding) {
    let times = match finding.count {
        1 => String::new(),
        count => format!(" ({count} times)"),
    };
    let _ = writeln!(text, "  {}{times}", finding.cause);
    let blamed = finding.cause.blamed();
    let callers = finding
        .cause
        .frames
        .iter()
        .filter(|frame| frame.is_own && Some(*frame) != blamed);
    for caller in callers.take(CALLERS_MAX) {
        let _ = writeln!(text, "      called by {caller}");
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::Waker;

    use super::*;

    /// As where calls can't be caught.
    #[track_caller]
    fn by_sleeps<F: Future>(future: F) -> AssertNeverBlocks<F> {
        let mut asserted = assert_never_blocks(future);
        asserted.watch.catches = false;
        asserted
    }

    fn polled<F: Future>(future: F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the sleep is the canary")]
    fn without_a_proof_a_poll_that_slept_is_found() {
        let sleeper = by_sleeps(async { std::thread::sleep(std::time::Duration::from_millis(2)) });
        let panic = catch_unwind(AssertUnwindSafe(|| polled(sleeper)));
        let panic = panic.expect_err("it slept");
        let text = panic.downcast_ref::<String>().expect("a text");
        assert!(text.starts_with("this future slept"), "{text}");
        assert!(text.contains("assertion.rs"), "{text}");
    }

    #[test]
    fn without_a_proof_a_poll_that_stays_awake_passes() {
        assert_eq!(polled(by_sleeps(async { 7 })), Poll::Ready(7));
    }

    #[test]
    fn where_nothing_can_be_seen_nothing_passes() {
        let notice = instead_of_proof("no kernel", true).expect("sleeps tell");
        assert!(
            notice.contains("(no kernel); only polls that sleep"),
            "{notice}"
        );
        let blind = instead_of_proof("no kernel", false).expect_err("nothing tells");
        assert!(blind.starts_with("can't be judged here"), "{blind}");
        assert!(sleeps_are_seen(), "these tests run where they are");
    }

    #[test]
    fn a_message_tells_counts_and_what_to_do() {
        let at = Location::caller();
        let text = message("GET /x", at, &[], 3);
        assert!(
            text.starts_with("GET /x makes calls that can block"),
            "{text}"
        );
        assert!(text.contains("and 3 calls from further places"), "{text}");
        assert!(text.contains("prove::exempt("), "{text}");
    }
}
