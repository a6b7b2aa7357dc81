//! What measuring a poll costs, side by side: bare, [`Mode::Counters`], [`Mode::FullSplit`].
//!
//! The same task yields to the scheduler between polls of a future that is ready at once, wrapped
//! or not; so the absolute difference to `bare` is the monitor's price per poll, parks and hooks
//! apart. The promise is at most 100 ns in counters mode.

use std::convert::Infallible;
use std::hint::black_box;
use std::task::Poll;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use http::{Request, Response};
use tokio::runtime::Runtime;
use tower::{Layer, Service, service_fn};
use unstall_loop_monitor::{Mode, Monitor};

/// Polls per measured batch; enough that the two clock reads around it vanish.
const POLLS: u64 = 10_000;

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

fn runtime(monitor: Option<&Monitor>) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all();
    if let Some(monitor) = monitor {
        monitor.install(&mut builder);
    }
    builder.build().expect("a runtime")
}

fn bench_polls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("poll");
    // So that the report reads in time per poll.
    group.throughput(criterion::Throughput::Elements(POLLS));
    group.bench_function("bare", |bencher| {
        let runtime = runtime(None);
        bencher.iter_custom(|batches| {
            let begun = Instant::now();
            for _ in 0..batches {
                let task = runtime.spawn(pending_often());
                black_box(runtime.block_on(task).expect("no panic").is_ok());
            }
            begun.elapsed()
        });
    });
    for (name, mode) in [
        ("counters", Mode::Counters),
        ("full-split", Mode::FullSplit),
    ] {
        group.bench_function(name, |bencher| {
            let monitor = Monitor::builder().mode(mode).build();
            let runtime = runtime(Some(&monitor));
            let layer = monitor.layer_by(|_: &Request<()>| "/".to_owned());
            let mut service = layer.layer(service_fn(|_: Request<()>| pending_often()));
            // Once through a park, so that the hooks have seen the thread.
            runtime
                .block_on(async { tokio::time::sleep(std::time::Duration::from_millis(2)).await });
            bencher.iter_custom(|batches| {
                let begun = Instant::now();
                for _ in 0..batches {
                    let task = runtime.spawn(service.call(Request::new(())));
                    black_box(runtime.block_on(task).expect("no panic").is_ok());
                }
                begun.elapsed()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench_polls);
criterion_main!(benches);
