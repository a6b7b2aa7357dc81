//! The measurements: names, and the thread of the watcher.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]
#![expect(
    clippy::disallowed_methods,
    reason = "waits are planted, on threads of their own"
)]

use std::convert::Infallible;
use std::io::Read;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use http::{Request, Response};
use tower::{Layer, Service, service_fn};
use unstall_loop_monitor::Monitor;
use unstall_loop_monitor::process::{Namer, ProcessView};

/// Of a service that wants to know of stalls of a tenth of a second.
const THRESHOLD: Duration = Duration::from_millis(100);
const MEASURED: Duration = Duration::from_secs(5);
const NAMES: usize = 1_000;

pub(crate) fn measure() {
    time_names();
    time_watcher();
}

/// A thread that waits in a read of a pipe is named again and again.
fn time_names() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let (tell, told) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        tell.send(nix::unistd::gettid().as_raw()).expect("heard");
        reader.read_exact(&mut [0]).expect_err("closed");
    });
    let tid = u32::try_from(told.recv().expect("a number")).expect("positive");
    let view = ProcessView::own();
    let task = view.task(tid).expect("runs");
    while task.activity().expect("readable").is_running() {}

    let begun = Instant::now();
    let mut namer = Namer::new(&view).expect("readable");
    let cause = namer.name(&task).expect("readable").expect("it waits");
    println!("cold: {:?} for {cause}", begun.elapsed());
    let mut sights = Vec::with_capacity(NAMES);
    let mut names = Vec::with_capacity(NAMES);
    for _ in 0..NAMES {
        let begun = Instant::now();
        let sighting = namer.sight(&task).expect("readable").expect("it waits");
        sights.push(begun.elapsed());
        namer.resolve(&sighting).expect("readable");
        names.push(begun.elapsed());
    }
    println!(
        "warm, of {NAMES}: copy {}; whole name {}",
        spread(sights),
        spread(names)
    );
    drop(writer);
    waiting.join().expect("ends");
}

fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    format!(
        "p50 {:?}, p99 {:?}",
        times[NAMES / 2],
        times[NAMES * 99 / 100]
    )
}

/// An idle loop, one that polls without a pause, and one that asks at intervals.
fn time_watcher() {
    let monitor = Monitor::builder().watch(THRESHOLD).build();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all();
    monitor.install(&mut builder);
    let runtime = builder.build().expect("a runtime");
    let mut service = monitor
        .layer_by(|_: &Request<()>| "/".to_owned())
        .layer(service_fn(async |_: Request<()>| {
            Ok::<_, Infallible>(Response::new(String::new()))
        }));
    let mut ask = async || {
        let answer = service.call(Request::new(())).await;
        answer.expect("infallible");
    };
    runtime.block_on(async {
        ask().await;
        // Until the watcher sleeps, too.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = watcher_usage();
        tokio::time::sleep(MEASURED).await;
        print_usage("idle loop", before);

        let before = watcher_usage();
        let begun = Instant::now();
        while begun.elapsed() < MEASURED {
            ask().await;
            tokio::task::yield_now().await;
        }
        print_usage("busy loop", before);

        let before = watcher_usage();
        let begun = Instant::now();
        while begun.elapsed() < MEASURED {
            ask().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        print_usage("a request every 5 ms", before);
    });
}

/// CPU time and wake-ups of the watcher's thread.
fn watcher_usage() -> (u64, u64) {
    let view = ProcessView::own();
    let tasks = view.task_ids().expect("readable").into_iter();
    let mut threads = tasks.filter_map(|tid| view.task(tid).ok());
    let watcher = threads.find(|task| task.name().is_ok_and(|name| name == "unstall-watch"));
    let times = watcher.expect("it runs").times().expect("readable");
    (times.cpu_ns, times.timeslices)
}

fn print_usage(what: &str, before: (u64, u64)) {
    let (cpu_ns, timeslices) = watcher_usage();
    let cpu = Duration::from_nanos(cpu_ns - before.0);
    let percent = 100.0 * cpu.as_secs_f64() / MEASURED.as_secs_f64();
    let wakes = timeslices - before.1;
    println!(
        "watcher, {what}: {cpu:?} of {MEASURED:?} ({percent:.4} % of a core), {wakes} wake-ups"
    );
}
