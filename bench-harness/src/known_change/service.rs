//! The private service that blocks, fails or keeps threads as it is told: a small monitored program
//! of its own, this one in another role, started afresh for every block.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use http::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, Service, service_fn};
use unstall_loop_monitor::wire::SNAPSHOT_PATH;
use unstall_loop_monitor::{Mode, Monitor};

use crate::arguments::KnownChangeService;

/// The route that is measured.
pub(crate) const ROUTE: &str = "/work";
/// What a request takes anyway, without holding anybody up.
const WORK: Duration = Duration::from_millis(5);
/// Whatever it is asked for.
const BODY: &str = "{\"status\":\"ok\"}";
/// No head that this service is sent is longer.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// What every request needs.
#[derive(Debug)]
struct Told {
    block: Duration,
    fail_every: u64,
    requests: AtomicU64,
}

/// Serves until it is ended.
pub(crate) fn serve(arguments: &KnownChangeService) -> io::Result<()> {
    for _ in 0..arguments.threads {
        // Nobody wakes it, and it ends with the process.
        thread::Builder::new().name("idle".to_owned()).spawn(|| {
            loop {
                thread::park();
            }
        })?;
    }
    let monitor = Monitor::builder().mode(Mode::FullSplit).build();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    monitor.install(&mut builder);
    let told = Arc::new(Told {
        block: Duration::from_micros(arguments.block_us),
        fail_every: arguments.fail_every,
        requests: AtomicU64::new(0),
    });
    let port = arguments.port;
    builder.build()?.block_on(async move {
        // On the worker, where the monitor looks.
        tokio::spawn(accept(port, monitor, told)).await?
    })
}

async fn accept(port: u16, monitor: Monitor, told: Arc<Told>) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (monitor, told) = (monitor.clone(), Arc::clone(&told));
        tokio::spawn(async move {
            // A client that goes away ends its own connection only.
            let _ = connection(stream, monitor, told).await;
        });
    }
}

/// Requests without bodies, one after the other.
async fn connection(mut stream: TcpStream, monitor: Monitor, told: Arc<Told>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let inner = service_fn(move |_: Request<()>| answer(Arc::clone(&told)));
    let route_of = |request: &Request<()>| request.uri().path().to_owned();
    let mut service = monitor.layer_by(route_of).layer(inner);
    let mut head = Vec::new();
    while let Some(path) = next_path(&mut stream, &mut head).await? {
        let (status, body) = match path.as_str() {
            SNAPSHOT_PATH => (200, serde_json::to_string(&monitor.snapshot())?),
            ROUTE => {
                let mut request = Request::new(());
                *request.uri_mut() = http::Uri::from_static(ROUTE);
                let answer = service.call(request).await?;
                // The body is the same for all, and known.
                (answer.status().as_u16(), BODY.to_owned())
            }
            "/health" => (200, "{}".to_owned()),
            _ => (404, "{}".to_owned()),
        };
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).await?;
    }
    Ok(())
}

async fn answer(told: Arc<Told>) -> io::Result<Response<String>> {
    tokio::time::sleep(WORK).await;
    if !told.block.is_zero() {
        // On purpose: this is the blocked time that has to be found.
        thread::sleep(told.block);
    }
    let turn = told.requests.fetch_add(1, Ordering::Relaxed) + 1;
    let fails = told.fail_every > 0 && turn.is_multiple_of(told.fail_every);
    let mut answer = Response::new(BODY.to_owned());
    if fails {
        *answer.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
    }
    Ok(answer)
}

/// The path of the next request; `None` when the client has gone. What comes behind its head stays
/// for the next one.
async fn next_path(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let line = String::from_utf8_lossy(&read[..end]).into_owned();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            read.drain(..end + 4);
            return Ok(Some(path));
        }
        if read.len() > HEAD_BYTES_MAX || stream.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
}
