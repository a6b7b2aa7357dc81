//! The observers at work: what each does before a canary's requests, and what it says after them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use unstall_loop_monitor::cause::Cause;
use unstall_loop_monitor::certificate::{Certificate, ProofMethod};
use unstall_loop_monitor::outside::tracer::{TraceOptions, Tracer, WHOLE_LOOP};
use unstall_loop_monitor::outside::{Watch, WatchOptions};
use unstall_loop_monitor::watched::{WatchSummary, WatchedCause};
use unstall_loop_monitor::wire::Snapshot;

use super::canary::Canary;
use super::child::{CanaryProgram, ChildError};
use super::column::{Column, Observer};
use super::judge::{Named, Observation};

/// What is shorter is not promised to be seen, and no alarm either.
const SLEEP_NS_MIN: u64 = 200_000;
/// The summary so far is of no interest.
const VIEW_EVERY: Duration = Duration::from_secs(3_600);

/// Who looks at one program.
pub(super) enum Eye {
    /// By asking the program's own monitor for its counters.
    Snapshot,
    /// By asking it for what its watcher named.
    Causes,
    /// By asking it for its certificate.
    Certificate,
    /// From this process, for one canary at a time.
    Outside(Option<Watching>),
    /// From this process, for as long as the program runs.
    Tracer {
        tracer: Tracer,
        /// What it had found before the canary.
        before: BTreeMap<Cause, u64>,
    },
}

/// Why a canary could not be observed.
#[derive(Debug, thiserror::Error)]
pub(super) enum EyeError {
    /// The program's fault.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The observer's.
    #[error("{0}")]
    Observer(String),
}

impl Eye {
    /// Gets ready to observe a program; the reason where it can't be observed here.
    pub(super) fn open(column: Column, program: &mut CanaryProgram) -> Result<Self, String> {
        match column.observer {
            Observer::Counters | Observer::FullSplit | Observer::Middleware => {
                let snapshot = program.snapshot().map_err(|error| error.to_string())?;
                if snapshot.mode.measures_blocked() {
                    return Ok(Self::Snapshot);
                }
                let mode = snapshot.mode;
                Err(format!(
                    "the monitor is in mode {mode:?} and measures no blocked time"
                ))
            }
            Observer::Watcher => match program.snapshot() {
                Ok(snapshot) if snapshot.causes.is_some() => Ok(Self::Causes),
                Ok(_) => Err("no watcher runs inside of programs on this system".to_owned()),
                Err(error) => Err(error.to_string()),
            },
            Observer::Dispatch => {
                let certificate = program.certificate().map_err(|error| error.to_string())?;
                match certificate.method {
                    ProofMethod::Unsupported { reason } => Err(reason),
                    _ => Ok(Self::Certificate),
                }
            }
            Observer::Outside => {
                // Once for nothing, to know whether this may be done here.
                Watching::start(program.pid())?.end()?;
                Ok(Self::Outside(None))
            }
            Observer::Tracer => {
                let options = TraceOptions::default();
                let tracer = Tracer::attach(program.pid(), options, Box::new(|_| {}));
                let tracer = tracer.map_err(|error| error.to_string())?;
                let before = BTreeMap::new();
                Ok(Self::Tracer { tracer, before })
            }
        }
    }

    /// Before a canary's first request.
    pub(super) fn begin(
        &mut self,
        program: &CanaryProgram,
        canary: Canary,
    ) -> Result<(), EyeError> {
        match self {
            Self::Snapshot | Self::Causes | Self::Certificate => {}
            Self::Outside(watching) => {
                let started = Watching::start(program.pid()).map_err(EyeError::Observer)?;
                *watching = Some(started);
            }
            Self::Tracer { tracer, before } => {
                *before = caught(&tracer.certificate(), canary);
            }
        }
        Ok(())
    }

    /// Whether the never-ending poll is told while it runs; `None` where it need not be.
    pub(super) fn reports_unfinished(
        &self,
        program: &mut CanaryProgram,
        column: Column,
    ) -> Result<Option<bool>, EyeError> {
        let endpoint = Canary::NeverEnding.endpoint();
        match column.observer {
            Observer::Counters | Observer::FullSplit => {
                let workers = program.snapshot()?.workers;
                Ok(Some(workers.iter().any(|worker| {
                    worker.endpoint.as_ref() == Some(&endpoint) && worker.poll_age_ns.is_some()
                })))
            }
            Observer::Watcher => {
                let causes = program.snapshot()?.causes.unwrap_or_default();
                Ok(Some(causes.iter().any(|watched| {
                    watched.cause.endpoint.as_ref() == Some(&endpoint)
                })))
            }
            _ => Ok(None),
        }
    }

    /// After a canary's last request.
    pub(super) fn end(
        &mut self,
        program: &mut CanaryProgram,
        canary: Canary,
    ) -> Result<Observation, EyeError> {
        match self {
            Self::Snapshot => Ok(counted(&program.snapshot()?, canary)),
            Self::Causes => {
                let mut causes = program.snapshot()?.causes.unwrap_or_default();
                let endpoint = canary.endpoint();
                causes.retain(|watched| watched.cause.endpoint.as_ref() == Some(&endpoint));
                Ok(watched(&causes))
            }
            Self::Certificate => {
                let found = caught(&program.certificate()?, canary);
                Ok(difference(&BTreeMap::new(), &found))
            }
            Self::Outside(watching) => {
                let watching = watching.take();
                let none = || EyeError::Observer("nobody watched".to_owned());
                let summary = watching
                    .ok_or_else(none)?
                    .end()
                    .map_err(EyeError::Observer)?;
                Ok(watched(&summary.causes))
            }
            Self::Tracer { tracer, before } => {
                let after = caught(&tracer.certificate(), canary);
                Ok(difference(before, &after))
            }
        }
    }
}

/// A watch on a thread of its own, which its parts never leave.
pub(super) struct Watching {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Option<WatchSummary>>,
}

impl Watching {
    /// Watches from now on.
    fn start(pid: u32) -> Result<Self, String> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut watch = match Watch::attach(pid, WatchOptions::default()) {
                Ok(watch) => watch,
                Err(error) => {
                    // Whoever started this waits for it.
                    let _ = tell.send(Err(error.to_string()));
                    return None;
                }
            };
            // The same.
            let _ = tell.send(Ok(()));
            Some(watch.run(|| over.load(Ordering::Acquire), VIEW_EVERY, |_| {}))
        });
        let gone = |_| Err("the watch ended before it began".to_owned());
        told.recv().unwrap_or_else(gone)?;
        Ok(Self { is_over, thread })
    }

    fn end(self) -> Result<WatchSummary, String> {
        self.is_over.store(true, Ordering::Release);
        let summary = self.thread.join().ok().flatten();
        summary.ok_or_else(|| "the watch ended without a summary".to_owned())
    }
}

fn counted(snapshot: &Snapshot, canary: Canary) -> Observation {
    let endpoint = snapshot.endpoints.get(&canary.endpoint());
    Observation {
        blocking: endpoint.map_or(0, |endpoint| endpoint.blocked.events_over_200us),
        named: Vec::new(),
    }
}

fn watched(causes: &[WatchedCause]) -> Observation {
    let long = |watched: &&WatchedCause| {
        watched.cause.class.is_blocking() && watched.longest_ns >= SLEEP_NS_MIN
    };
    let named = causes.iter().map(|watched| Named {
        cause: watched.cause.clone(),
        count: watched.count,
    });
    Observation {
        blocking: causes
            .iter()
            .filter(long)
            .map(|watched| watched.count)
            .sum(),
        named: named.collect(),
    }
}

/// Findings on the canary's route, or on the loop where routes aren't known.
fn caught(certificate: &Certificate, canary: Canary) -> BTreeMap<Cause, u64> {
    let mut counts = BTreeMap::new();
    for route in [canary.endpoint().as_str(), WHOLE_LOOP] {
        for finding in certificate
            .routes
            .get(route)
            .into_iter()
            .flat_map(|it| &it.findings)
        {
            *counts.entry(finding.cause.clone()).or_default() += finding.count;
        }
    }
    counts
}

fn difference(before: &BTreeMap<Cause, u64>, after: &BTreeMap<Cause, u64>) -> Observation {
    let named = after.iter().filter_map(|(cause, count)| {
        let count = count - before.get(cause).copied().unwrap_or(0).min(*count);
        let cause = cause.clone();
        (count > 0).then_some(Named { cause, count })
    });
    let named: Vec<Named> = named.collect();
    let blocking = named.iter().filter(|named| named.cause.class.is_blocking());
    Observation {
        blocking: blocking.map(|named| named.count).sum(),
        named,
    }
}
