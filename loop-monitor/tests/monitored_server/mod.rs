//! A real axum server on a real runtime with the monitor in it, and a plain HTTP/1.1 client that
//! needs no runtime: the tests ask from threads of their own, so that nothing but the server's
//! loop is on the server's loop.

#![allow(
    dead_code,
    reason = "each test binary uses a part; expect would be wrong in the others"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http_body::Frame;
use tokio::sync::oneshot;
use unstall_loop_monitor::Monitor;
use unstall_loop_monitor::wire::Endpoint;

/// The runtimes that a service may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loops {
    /// A current-thread runtime.
    CurrentThread,
    /// A multi-thread runtime with this many workers.
    Workers(usize),
}

/// Serves until dropped.
pub(crate) struct MonitoredServer {
    pub(crate) address: SocketAddr,
    pub(crate) monitor: Monitor,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MonitoredServer {
    /// Serves `routes` under the monitor's layer, and the monitor's own routes beside.
    pub(crate) fn start(monitor: Monitor, loops: Loops, routes: Router) -> Self {
        let app = routes.layer(monitor.layer()).merge(monitor.router());
        let (stop, stopped) = oneshot::channel();
        let (tell_address, address) = std::sync::mpsc::channel();
        let monitor_of_server = monitor.clone();
        let thread = std::thread::spawn(move || {
            let mut builder = match loops {
                Loops::CurrentThread => tokio::runtime::Builder::new_current_thread(),
                Loops::Workers(workers) => {
                    let mut builder = tokio::runtime::Builder::new_multi_thread();
                    builder.worker_threads(workers);
                    builder
                }
            };
            builder.enable_all();
            monitor_of_server.install(&mut builder);
            let runtime = builder.build().expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
                    .await
                    .expect("a free port");
                tell_address
                    .send(listener.local_addr().expect("bound"))
                    .expect("the test waits for it");
                let service = app.into_make_service_with_connect_info::<SocketAddr>();
                tokio::select! {
                    served = async { axum::serve(listener, service).await } => served.expect("serves"),
                    _ = stopped => {}
                }
            });
            runtime.shutdown_timeout(Duration::from_secs(5));
        });
        let address = address
            .recv_timeout(Duration::from_secs(10))
            .expect("the server starts");
        Self {
            address,
            monitor,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Asks `count` times for `path`, one after the other, and wants 200 each time.
    pub(crate) fn get_times(&self, path: &str, count: u64) {
        for _ in 0..count {
            let answer = get(self.address, path);
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        }
    }

    /// Counters of one endpoint; all zero when nobody asked for it.
    pub(crate) fn endpoint(&self, key: &str) -> Endpoint {
        let mut snapshot = self.monitor.snapshot();
        snapshot.endpoints.remove(key).unwrap_or_default()
    }
}

impl Drop for MonitoredServer {
    #[expect(clippy::disallowed_methods, reason = "the test's thread is no loop")]
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // A server that died already has dropped the receiver; its panic is told below.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server's thread panicked");
        }
    }
}

/// The whole answer to one GET on a connection of its own; empty when the server hung up.
pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    send(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n"),
    )
}

/// The whole answer to raw bytes.
#[expect(clippy::disallowed_methods, reason = "the test's thread is no loop")]
pub(crate) fn send(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The body of an answer that isn't chunked.
pub(crate) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// A body that holds the loop before each of its items.
pub(crate) struct HoldingBody {
    pub(crate) items_left: u64,
    pub(crate) hold: Duration,
}

impl http_body::Body for HoldingBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    #[expect(clippy::disallowed_methods, reason = "the hold is planted")]
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.items_left == 0 {
            return Poll::Ready(None);
        }
        self.items_left -= 1;
        std::thread::sleep(self.hold);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"item")))))
    }
}
