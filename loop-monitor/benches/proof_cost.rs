//! What a proof costs, side by side: a poll that is caught or not, and each kind of call within it.
//!
//! All of one group is measured in one run; the absolute difference to `off` is the price.

use std::convert::Infallible;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::task::{Context, Poll, Waker};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::{Request, Response};
use tower::{Layer, Service, service_fn};
use unstall_loop_monitor::Monitor;
use unstall_loop_monitor::prove::Proof;

/// Calls, or polls, per measured round.
const TIMES: u64 = 1_000;

const PROOFS: [(&str, Proof); 2] = [("off", Proof::Off), ("on", Proof::SystemCalls)];

/// Polls, to its end, a future that makes `polls` polls and calls `each` in every one.
fn run(proof: Proof, polls: u64, each: impl Fn() + Copy, round: &mut dyn FnMut(&mut dyn FnMut())) {
    let monitor = Monitor::builder().prove(proof).build();
    let layer = monitor.layer_by(|_: &Request<()>| "/".to_owned());
    let mut service = layer.layer(service_fn(move |_: Request<()>| {
        let mut left = polls;
        std::future::poll_fn(move |_| {
            each();
            left -= 1;
            if left == 0 {
                Poll::Ready(Ok::<_, Infallible>(Response::new(String::new())))
            } else {
                Poll::Pending
            }
        })
    }));
    round(&mut || {
        let mut future = Box::pin(service.call(Request::new(())));
        let mut context = Context::from_waker(Waker::noop());
        while black_box(future.as_mut().poll(&mut context)).is_pending() {}
    });
}

fn bench(criterion: &mut Criterion, name: &str, polls: u64, each: impl Fn() + Copy) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(TIMES));
    for (label, proof) in PROOFS {
        group.bench_function(label, |bencher| {
            run(proof, polls, each, &mut |round| bencher.iter(&mut *round));
        });
    }
    group.finish();
}

fn bench_proof(criterion: &mut Criterion) {
    bench(criterion, "proof/poll", TIMES, || ());
    bench(criterion, "proof/harmless-call", 1, || {
        for _ in 0..TIMES {
            black_box(nix::unistd::getppid());
        }
    });
    let null = tempfile::tempfile().expect("a file");
    bench(criterion, "proof/call-that-can-block", 1, || {
        for _ in 0..TIMES {
            let mut byte = [0; 1];
            black_box(nix::unistd::read(null.as_fd(), &mut byte).expect("readable"));
        }
    });
}

criterion_group!(benches, bench_proof);
criterion_main!(benches);
