//! What measuring costs, side by side in one run: bare, [`Mode::Counters`], [`Mode::FullSplit`],
//! and what tokio-metrics asks for its instrumentation of a task.
//!
//! - `poll`: a task yields to the scheduler between polls of a future that is ready at once,
//!   wrapped or not; so the absolute difference to `bare` is the price per poll. The promise is at
//!   most 100 ns in counters mode.
//! - `park`: what the hooks cost each time that a loop runs dry, at most 1 µs. Instrumented tasks
//!   cost nothing there: tokio-metrics has no hooks.
//! - `request`: what a whole request costs that needs one poll, with a body of one piece: finding
//!   the endpoint, and five measured stretches, from the call to the dropping of the body.

use std::convert::Infallible;
use std::hint::black_box;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use nix::time::ClockId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tower::{Layer, Service, service_fn};
use unstall_loop_monitor::{Mode, Monitor};

/// Polls per measured batch; enough that the two clock reads around it vanish.
const POLLS: u64 = 10_000;
/// Requests per measured batch.
const REQUESTS: u64 = 1_000;
/// Measured stretches of a request: the call, the handler's poll, the body's poll for its piece and
/// the one for its end, and its dropping.
const STRETCHES_PER_REQUEST: u64 = 5;
/// Parks per measured batch.
const PARKS: u64 = 1_000;

/// A future that is pending `POLLS` times, and asks at once to be polled again.
fn pending_often() -> impl Future<Output = Result<Response<String>, Infallible>> {
    let mut left = POLLS;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(Ok(Response::new(String::new())));
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

fn runtime(workers: usize, monitor: Option<&Monitor>) -> Runtime {
    let mut builder = if workers == 1 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    builder.worker_threads(workers).enable_all();
    if let Some(monitor) = monitor {
        monitor.install(&mut builder);
    }
    builder.build().expect("a runtime")
}

/// CPU time, per worker, for `batches` rounds of one task per worker, each polled [`POLLS`] times.
fn time<F>(runtime: &Runtime, workers: usize, batches: u64, mut task: impl FnMut() -> F) -> Duration
where
    F: Future<Output: Send> + Send + 'static,
{
    // Once through a park, so that the hooks have seen the threads.
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(2)).await });
    let begun = cpu_time();
    for _ in 0..batches {
        let tasks: Vec<_> = (0..workers).map(|_| runtime.spawn(task())).collect();
        runtime.block_on(async {
            for task in tasks {
                black_box(task.await.is_ok());
            }
        });
    }
    (cpu_time() - begun) / u32::try_from(workers).expect("one or two")
}

/// CPU time of the whole process: unlike the wall clock, it isn't stretched by other processes.
fn cpu_time() -> Duration {
    let time = ClockId::CLOCK_PROCESS_CPUTIME_ID.now();
    Duration::from(time.expect("a clock that every Linux has"))
}

/// With two workers, both write the counters of the same endpoint.
fn bench_polls(criterion: &mut Criterion) {
    for workers in [1, 2] {
        let mut group = criterion.benchmark_group(format!("poll/{workers}-loops"));
        // So that the report reads in time per poll of one loop.
        group.throughput(Throughput::Elements(POLLS));
        group.bench_function("bare", |bencher| {
            let runtime = runtime(workers, None);
            bencher.iter_custom(|batches| time(&runtime, workers, batches, pending_often));
        });
        for (name, mode) in [
            ("counters", Mode::Counters),
            ("full-split", Mode::FullSplit),
        ] {
            group.bench_function(name, |bencher| {
                let monitor = Monitor::builder().mode(mode).build();
                let runtime = runtime(workers, Some(&monitor));
                let layer = monitor.layer_by(|_: &Request<()>| "/".to_owned());
                let mut service = layer.layer(service_fn(|_: Request<()>| pending_often()));
                let mut task = || service.call(Request::new(()));
                bencher.iter_custom(|batches| time(&runtime, workers, batches, &mut task));
            });
        }
        group.bench_function("tokio-metrics", |bencher| {
            let runtime = runtime(workers, None);
            let monitor = tokio_metrics::TaskMonitor::new();
            let mut task = || monitor.instrument(pending_often());
            bencher.iter_custom(|batches| time(&runtime, workers, batches, &mut task));
        });
        group.finish();
    }
}

/// Asks a service again and again, and takes the whole body each time.
async fn request_often<S, B>(mut service: S) -> Result<(), Infallible>
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
    B: http_body::Body<Error: std::fmt::Debug>,
{
    for request in 0..REQUESTS {
        let response = service.call(Request::new(())).await?;
        let body = response.into_body().collect().await;
        black_box(body.expect("it is in memory").to_bytes());
        // A connection's task lets others go first now and then, too.
        if request % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

fn bench_requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("request");
    group.throughput(Throughput::Elements(REQUESTS));
    let service = service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"pong"))))
    });
    group.bench_function("bare", |bencher| {
        let runtime = runtime(1, None);
        let task = || request_often(service);
        bencher.iter_custom(|batches| time(&runtime, 1, batches, task));
    });
    group.bench_function("counters", |bencher| {
        let monitor = Monitor::builder().build();
        let runtime = runtime(1, Some(&monitor));
        let layer = monitor.layer_by(|_: &Request<()>| "/health".to_owned());
        let task = || request_often(layer.layer(service));
        bencher.iter_custom(|batches| time(&runtime, 1, batches, task));
        let endpoint = &monitor.snapshot().endpoints["GET /health"];
        assert_eq!(endpoint.polls, endpoint.requests * STRETCHES_PER_REQUEST);
    });
    group.finish();
}

/// Waits at an await whose event is there already, so that the loop parks and goes on at once.
async fn park_often() -> std::io::Result<()> {
    let (mut near, mut far) = tokio::net::UnixStream::pair()?;
    for _ in 0..PARKS {
        near.write_all(b"x").await?;
        // Room for more than there is: a full read would let the next one go ahead without a park.
        let read = far.read(&mut [0; 16]).await?;
        assert_eq!(read, 1);
    }
    Ok(())
}

/// What the hooks cost each time that a loop runs dry; no poll is monitored.
fn bench_parks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("park");
    group.throughput(Throughput::Elements(PARKS));
    let modes = [("bare", None), ("hooks", Some(Mode::Counters))];
    for (name, mode) in modes {
        group.bench_function(name, |bencher| {
            let monitor = mode.map(|mode| Monitor::builder().mode(mode).build());
            let runtime = runtime(1, monitor.as_ref());
            bencher.iter_custom(|batches| {
                let begun = cpu_time();
                for _ in 0..batches {
                    runtime.block_on(park_often()).expect("a pair of sockets");
                }
                cpu_time() - begun
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench_polls, bench_requests, bench_parks);
criterion_main!(benches);
