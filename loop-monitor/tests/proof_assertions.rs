//! What people's tests say when something can block: the call, its target, and the line to mend.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::disallowed_methods,
    reason = "the blocking calls are the canaries"
)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::get;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use tower::{Layer, Service, ServiceExt, service_fn};
use unstall_loop_monitor::Monitor;
use unstall_loop_monitor::certificate::{CERTIFICATE_PATH, Certificate, ProofMethod, RouteVerdict};
use unstall_loop_monitor::prove::{Proof, assert_never_blocks, assert_route_never_blocks, exempt};

/// Runs it on a loop of its own; what it panicked with, if it did.
fn panic_of<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(future)));
    ended.map_err(|panic| {
        let text = panic.downcast_ref::<String>();
        text.cloned().unwrap_or_else(|| "no text".to_owned())
    })
}

fn load_hosts() -> usize {
    std::fs::read("/etc/hosts").map_or(0, |hosts| hosts.len())
}

/// The line of its read.
const READ_LINE: u32 = line!() - 4;

#[test]
fn a_future_that_blocks_fails_and_the_message_names_call_target_and_lines() {
    let line = line!() + 1;
    let text = panic_of(assert_never_blocks(async { load_hosts() })).expect_err("it reads a file");
    let expected = [
        "this future makes calls that can block".to_owned(),
        format!("tests/proof_assertions.rs:{line}:"),
        "I/O in openat on /etc/hosts, from proof_assertions::load_hosts at ".to_owned(),
        "I/O in read on /etc/hosts".to_owned(),
        format!("proof_assertions.rs:{READ_LINE}"),
        "called by proof_assertions::a_future_that_blocks".to_owned(),
        "spawn_blocking".to_owned(),
    ];
    for part in expected {
        assert!(text.contains(&part), "{part:?} is missing in:\n{text}");
    }
}

#[test]
fn a_future_that_leaves_the_loop_to_others_passes_with_its_output() {
    let output = panic_of(assert_never_blocks(async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let pooled = tokio::task::spawn_blocking(load_hosts).await;
        exempt("in memory", || std::fs::read("/proc/version")).expect("readable");
        pooled.expect("no panic") > 0
    }));
    assert_eq!(output, Ok(true));
}

#[test]
fn a_future_that_is_given_up_has_blocked_all_the_same() {
    let given_up = std::panic::catch_unwind(|| {
        let mut future = pin!(assert_never_blocks(async {
            load_hosts();
            std::future::pending::<()>().await;
        }));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(future.as_mut().poll(&mut context), Poll::Pending);
    });
    assert!(given_up.is_err());
}

/// Does what a guard, a connection or a temporary folder may do when it is dropped.
struct LoadsWhenDropped;

impl Drop for LoadsWhenDropped {
    fn drop(&mut self) {
        load_hosts();
    }
}

#[test]
fn what_a_future_does_when_it_is_dropped_is_its_own() {
    let kept = LoadsWhenDropped;
    let text = panic_of(assert_never_blocks(std::future::poll_fn(move |_| {
        // Kept until the future itself is dropped, after it was ready.
        let _ = &kept;
        Poll::Ready(7)
    })));
    assert!(text.expect_err("it reads a file").contains("load_hosts"));
    let given_up = std::panic::catch_unwind(|| {
        let kept = LoadsWhenDropped;
        let mut future = pin!(assert_never_blocks(async move {
            std::future::pending::<()>().await;
            drop(kept);
        }));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(future.as_mut().poll(&mut context), Poll::Pending);
    });
    assert!(given_up.is_err());
    // Also one that was never polled.
    let never_begun = std::panic::catch_unwind(|| {
        let kept = LoadsWhenDropped;
        drop(assert_never_blocks(async move { drop(kept) }));
    });
    assert!(never_begun.is_err());
}

#[test]
fn a_panic_within_stays_the_message() {
    let text = panic_of(assert_never_blocks(async {
        load_hosts();
        std::panic::resume_unwind(Box::new("planted".to_owned()));
    }));
    assert_eq!(text, Err("planted".to_owned()));
}

/// A body whose second piece is read from a file.
struct Pieces(u8);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0 += 1;
        Poll::Ready(match self.0 {
            1 => Some(Ok(Frame::data(Bytes::from_static(b"one ")))),
            2 => Some(Ok(Frame::data(load_hosts().to_string().into()))),
            _ => None,
        })
    }
}

fn router() -> Router {
    Router::new()
        .route("/clean", get(|| async { "clean" }))
        .route("/read/{name}", get(|| async { load_hosts().to_string() }))
        .route("/body", get(|| async { Body::new(Pieces(0)) }))
}

fn request(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).expect("a request")
}

#[test]
fn a_route_is_asserted_with_its_body() {
    let clean = assert_route_never_blocks(router(), request("/clean"));
    let response = panic_of(clean).expect("clean");
    assert_eq!(response.status(), 200);
    assert_eq!(response.body().as_ref(), b"clean");
    for path in ["/read/7", "/body"] {
        let text = panic_of(assert_route_never_blocks(router(), request(path)));
        let text = text.expect_err("it reads a file");
        let begin = format!("GET {path} makes calls that can block");
        assert!(text.starts_with(&begin), "{text}");
        assert!(text.contains("load_hosts"), "{text}");
    }
}

#[test]
fn a_proof_within_an_assertion_is_the_assertion_s() {
    let monitor = Monitor::builder().prove(Proof::SystemCalls).build();
    let layer = monitor.layer_by(|_: &Request<()>| "/inner".to_owned());
    let mut service = layer.layer(service_fn(|_: Request<()>| async {
        load_hosts();
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let text = panic_of(assert_never_blocks(service.call(Request::new(()))));
    assert!(text.expect_err("it reads a file").contains("load_hosts"));
    // Its call was before, and watched by nobody else.
    let certificate = monitor.certificate();
    let inner = &certificate.routes["GET /inner"];
    assert!(inner.findings.is_empty(), "{inner:?}");
}

/// What a proving service answers to those that ask from this machine.
#[test]
fn a_service_serves_its_certificate_and_only_to_this_machine() {
    let monitor = Monitor::builder().prove(Proof::SystemCalls).build();
    monitor.declare_route(&http::Method::GET, "/rare");
    let app = router().layer(monitor.layer()).merge(monitor.router());
    let ask = |path: &'static str, peer: Option<SocketAddr>| {
        let app = app.clone();
        panic_of(async move {
            let mut request = request(path);
            if let Some(peer) = peer {
                request.extensions_mut().insert(ConnectInfo(peer));
            }
            let response = app.oneshot(request).await.expect("infallible");
            let status = response.status();
            let body = http_body_util::BodyExt::collect(response.into_body()).await;
            (status, body.expect("whole").to_bytes())
        })
        .expect("answers")
    };
    for _ in 0..3 {
        assert_eq!(ask("/clean", None).0, 200);
        assert_eq!(ask("/read/7", None).0, 200);
    }
    let loopback = Some(SocketAddr::from(([127, 0, 0, 1], 9)));
    let (status, body) = ask(CERTIFICATE_PATH, loopback);
    assert_eq!(status, 200);
    let certificate: Certificate = serde_json::from_slice(&body).expect("a certificate");
    assert_eq!(certificate.method, ProofMethod::SyscallUserDispatch);
    assert_eq!(certificate.verdict("GET /clean"), RouteVerdict::Proven);
    assert_eq!(certificate.verdict("GET /rare"), RouteVerdict::Unproven);
    assert_eq!(
        certificate.verdict("GET /read/{name}"),
        RouteVerdict::Blocking
    );
    let read = &certificate.routes["GET /read/{name}"];
    assert_eq!(read.requests, 3);
    for finding in &read.findings {
        assert!(finding.count >= 3, "{finding:?}");
        assert_eq!(finding.cause.endpoint.as_deref(), Some("GET /read/{name}"));
    }
    let (status, _) = ask(CERTIFICATE_PATH, None);
    assert_eq!(status, 403);
}
