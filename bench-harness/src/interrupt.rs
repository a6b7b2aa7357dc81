//! Ctrl-C and TERM, turned into the engine's stop handle: once to wind down, twice at once.

use std::thread;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use unstall_bench_harness::engine::Stop;

use crate::console::to_stderr;

/// What a load test does when it is interrupted.
const WIND_DOWN: &str = "\nStopping: nothing more is sent, answers may still arrive, what there is \
                         gets saved. Once more to save at once.";

/// What shells make of a program that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// Listens from now on. The handle is shared: whoever works looks at it between two steps.
pub(crate) fn listen() -> anyhow::Result<Stop> {
    listen_then(WIND_DOWN, || {})
}

/// The same, with words of the caller's for the first interruption. At the second one the program
/// ends, whatever it waits for: for commands that have nothing to save.
pub(crate) fn listen_saying(first_words: &'static str) -> anyhow::Result<Stop> {
    #[expect(
        clippy::exit,
        reason = "whoever interrupts twice doesn't want to wait for anything; the kernel lets go \
                  of whom a tracer held"
    )]
    listen_then(first_words, || std::process::exit(INTERRUPTED))
}

fn listen_then(
    first_words: &'static str,
    at_second: impl Fn() + Send + 'static,
) -> anyhow::Result<Stop> {
    let stop = Stop::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("signals can't be waited for")?;
    let guard = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT can't be caught")?;
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM can't be caught")?;
    drop(guard);
    let handle = stop.clone();
    // Ends with the process: there is always someone to interrupt.
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    let first = !handle.is_requested();
                    handle.request();
                    to_stderr(if first {
                        first_words
                    } else {
                        "\nStopping at once."
                    });
                    if !first {
                        at_second();
                    }
                }
            });
        })
        .context("no thread for signals")?;
    Ok(stop)
}
