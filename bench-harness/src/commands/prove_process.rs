//! `unstall prove --pid`: trace the event loops of a process that runs, while somebody else sends
//! it requests; for people a certificate at the end, for programs one line per event.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::{Duration, Instant};

use anyhow::Context;
use unstall_bench_harness::engine::Stop;
use unstall_bench_harness::proof::{self, Evidence};
use unstall_loop_monitor::certificate::Certificate;
use unstall_loop_monitor::outside::tracer::{
    EventSink, TraceEnd, TraceEvent, TraceOptions, TracedThreads, Tracer, monotonic_ns,
};

use super::prove::write;
use crate::arguments::ProveArguments;
use crate::console::{Console, Outcome, to_stderr, to_stdout};
use crate::document::proof::ProofDocument;
use crate::document::{Content, FileDocument, FileKind};
use crate::{interrupt, proof_text};

/// How often the end of the time and Ctrl-C are looked for.
const TICK: Duration = Duration::from_millis(50);

const DIED: &str = "the thread that traces died, so nothing is proven: its last words are above; this \
                    is a fault of unstall";

pub(crate) fn execute(
    pid: u32,
    arguments: &ProveArguments,
    console: &Console,
) -> anyhow::Result<Outcome> {
    if arguments.stretches {
        return trace_stretches(pid);
    }
    let stop = interrupt::listen_saying("\nStopping; this is what was found.")?;
    let sink: EventSink = if arguments.events {
        Box::new(tell)
    } else {
        Box::new(|_| {})
    };
    let is_stopped = || stop.is_requested();
    let tracer = Tracer::attach_unless(pid, TraceOptions::default(), sink, is_stopped)?;
    if !arguments.events {
        console.note(format!(
            "Tracing process {pid}: send it requests now. Ctrl-C ends."
        ));
    }
    let before = tracer.certificate();
    let end = wait(&tracer, arguments.duration, &stop);
    anyhow::ensure!(end != Some(TraceEnd::Failed), DIED);
    let after = tracer.finish();
    if arguments.events {
        return Ok(end_of_events(end, after));
    }
    if end == Some(TraceEnd::OtherProgram) {
        console.note(format!(
            "Process {pid} has become another program, which isn't traced."
        ));
    }
    certify(arguments, console, &before, &after)
}

/// Until the time is over, somebody asks, or the trace ends by itself.
fn wait(tracer: &Tracer, duration: Option<Duration>, stop: &Stop) -> Option<TraceEnd> {
    let started = Instant::now();
    loop {
        let left = duration.map(|duration| duration.saturating_sub(started.elapsed()));
        let end = tracer.wait_for_end(left.map_or(TICK, |left| left.min(TICK)));
        if end.is_some() || stop.is_requested() || left.is_some_and(|left| left.is_zero()) {
            return end;
        }
    }
}

fn certify(
    arguments: &ProveArguments,
    console: &Console,
    before: &Certificate,
    after: &Certificate,
) -> anyhow::Result<Outcome> {
    let routes = proof::judge(Evidence {
        before,
        after,
        demanded: &arguments.routes,
        driven: &[],
        waits: &BTreeMap::new(),
    });
    let style = proof_text::Style {
        colour: console.colour,
        // Without it paths are shown as they are.
        folder: std::env::current_dir().ok(),
    };
    let mut outcome = Outcome {
        verdict: None,
        status: None,
        text: proof_text::render(after, &routes, false, style),
        content: Content {
            proof: Some(ProofDocument::new(after, &routes, false)),
            ..Content::default()
        },
    };
    if let Some(path) = &arguments.out {
        write(path, after)?;
        let file = FileDocument::new(FileKind::Certificate, path);
        outcome.content.files.push(file);
    }
    Ok(outcome)
}

/// The tracer tells its own end unless it was this command that ended; then it's told here.
fn end_of_events(end: Option<TraceEnd>, certificate: Certificate) -> Outcome {
    if end.is_none() {
        tell(&TraceEvent::End {
            mono_ns: monotonic_ns(),
            reason: TraceEnd::Asked,
            certificate: Box::new(certificate),
        });
    }
    Outcome::default()
}

/// One trace after the other, as whoever started us asks for them; until that one is gone.
fn trace_stretches(pid: u32) -> anyhow::Result<Outcome> {
    let options = TraceOptions {
        threads: TracedThreads::All,
        ..TraceOptions::default()
    };
    for line in std::io::stdin().lock().lines() {
        let line = line.context("standard input can't be read any more")?;
        anyhow::ensure!(
            line.trim() == "begin",
            "`{line}` is no word of --stretches: write `begin`"
        );
        // Whoever reads may stand still between two events: only the first and the last are told.
        let sink: EventSink = Box::new(|event| {
            if matches!(event, TraceEvent::Ready { .. } | TraceEvent::End { .. }) {
                tell(event);
            }
        });
        let tracer = Tracer::attach(pid, options.clone(), sink)?;
        let end = loop {
            if let Some(end) = tracer.wait_for_end(Duration::from_secs(3_600)) {
                break end;
            }
        };
        anyhow::ensure!(end != TraceEnd::Failed, DIED);
    }
    Ok(Outcome::default())
}

/// One line. A reader that is gone wants no more of them.
fn tell(event: &TraceEvent) {
    match serde_json::to_string(event) {
        // Nothing is lost that somebody waits for.
        Ok(line) => drop(to_stdout(&format!("{line}\n"))),
        Err(error) => to_stderr(&format!("an event is no JSON, a fault of unstall: {error}")),
    }
}
