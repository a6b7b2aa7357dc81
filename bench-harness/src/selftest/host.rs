//! The program that holds the canaries: a monitored Tokio runtime that serves one canary's
//! requests after the other, and says what it and its monitor know.
//!
//! The main thread only reads orders and writes replies, so that it can ask the monitor while the
//! loop is kept by a poll that doesn't end.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response};
use tokio::runtime::Runtime;
use tower::{Layer, Service, service_fn};
use unstall_loop_monitor::prove::Proof;
use unstall_loop_monitor::{Mode, Monitor};

use super::canary::Nature;
use super::planted::{self, Soil};
use super::protocol::{Finished, Order, Reply, Run};
use super::truth::Truth;

/// Between two requests, so that the loop goes to sleep and wakes up as a service's does.
const PAUSE: Duration = Duration::from_micros(500);
/// What takes longer is named; a fraction of the sleeps that are planted for it.
const WATCH_OVER: Duration = Duration::from_millis(2);
/// What the loop may still do when there are no more orders.
const SHUTDOWN: Duration = Duration::from_secs(2);

/// How the program's monitor is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HostMonitor {
    /// Kernel counters at parks and after long polls.
    Counters,
    /// Kernel counters around every poll.
    FullSplit,
    /// Counters, and a thread that names what takes long.
    Watcher,
    /// Counters, and a proof.
    Proof,
}

/// Everything a request needs.
struct Garden {
    soil: Soil,
    /// Calls in which the thread slept, by its own account.
    slept: AtomicU64,
}

/// Serves orders until there are no more.
pub(crate) fn serve(kind: HostMonitor) -> io::Result<()> {
    let monitor = build_monitor(kind);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    monitor.install(&mut builder);
    let runtime = builder.build()?;
    let garden = Arc::new(Garden {
        soil: Soil::prepare()?,
        slept: AtomicU64::new(0),
    });
    say(&Reply::Ready)?;
    let served = serve_orders(&runtime, &monitor, &garden);
    garden.soil.release();
    runtime.shutdown_timeout(SHUTDOWN);
    served
}

fn build_monitor(kind: HostMonitor) -> Monitor {
    let builder = Monitor::builder();
    match kind {
        HostMonitor::Counters => builder.mode(Mode::Counters),
        HostMonitor::FullSplit => builder.mode(Mode::FullSplit),
        HostMonitor::Watcher => builder.watch(WATCH_OVER),
        HostMonitor::Proof => builder.prove(Proof::SystemCalls),
    }
    .build()
}

fn serve_orders(runtime: &Runtime, monitor: &Monitor, garden: &Arc<Garden>) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        match serde_json::from_str(&line?)? {
            Order::Run(run) => {
                let requests = serve_requests(monitor.clone(), Arc::clone(garden), run);
                runtime.spawn(async move {
                    // Nobody is left to be told when stdout has gone; stdin ends then, too.
                    let _ = say(&Reply::Finished(requests.await));
                });
            }
            Order::Snapshot => say(&Reply::Snapshot(Box::new(monitor.snapshot())))?,
            Order::Certificate => say(&Reply::Certificate(Box::new(monitor.certificate())))?,
            Order::Release => garden.soil.release(),
        }
    }
    Ok(())
}

/// One request after the other, each in a task of its own, as a server does it.
async fn serve_requests(monitor: Monitor, garden: Arc<Garden>, run: Run) -> Finished {
    let of_requests = Arc::clone(&garden);
    let inner =
        service_fn(move |request: Request<Run>| answer(Arc::clone(&of_requests), *request.body()));
    let route_of = |request: &Request<Run>| request.uri().path().to_owned();
    let mut service = monitor.layer_by(route_of).layer(inner);
    garden.slept.store(0, Ordering::Relaxed);
    let mut finished = Finished {
        canary: run.canary,
        calls: 0,
        slept: 0,
        error: None,
    };
    let block = Duration::from_micros(run.block_us);
    let warm = planted::warm_up(&garden.soil).await;
    finished.error = warm.err().map(|error| error.to_string());
    for _ in 0..run.count {
        let mut request = Request::new(run);
        match format!("/{}", run.canary.name()).parse() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => finished.error = Some(format!("no path: {error}")),
        }
        if let Err(error) = garden.soil.prepare_call(run.canary, block) {
            finished.error = Some(error.to_string());
        }
        match tokio::spawn(service.call(request)).await {
            Ok(Ok(_)) => finished.calls += 1,
            Ok(Err(error)) => finished.error = Some(error.to_string()),
            Err(error) => finished.error = Some(error.to_string()),
        }
        if finished.error.is_some() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    finished.slept = garden.slept.load(Ordering::Relaxed);
    finished
}

async fn answer(garden: Arc<Garden>, run: Run) -> io::Result<Response<String>> {
    let block = Duration::from_micros(run.block_us);
    if run.canary.nature() == Nature::Clean && !run.canary.is_long() {
        planted::awaited(&garden.soil, run.canary, block).await?;
    } else if run.count_sleeps {
        let before = Truth::read()?;
        garden.soil.call(run.canary, block)?;
        if before.has_slept_since()? {
            garden.slept.fetch_add(1, Ordering::Relaxed);
        }
    } else {
        garden.soil.call(run.canary, block)?;
    }
    Ok(Response::new(String::new()))
}

/// One line on stdout, whole also when the loop and the main thread speak at once.
fn say(reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_string(reply)?;
    line.push('\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}
