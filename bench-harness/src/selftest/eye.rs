//! The observers at work: what each does before a canary's requests, and what it says after them.

use std::collections::BTreeMap;

use unstall_loop_monitor::cause::Cause;
use unstall_loop_monitor::certificate::{Certificate, ProofMethod};
use unstall_loop_monitor::outside::tracer::{TraceOptions, Tracer, WHOLE_LOOP};
use unstall_loop_monitor::watched::WatchedCause;
use unstall_loop_monitor::wire::Snapshot;

use super::canary::Canary;
use super::child::{CanaryProgram, ChildError};
use super::column::{Column, Observer};
use super::judge::{Named, Observation};
use super::watching::Watching;

/// What is shorter is not promised to be seen, and no alarm either.
const SLEEP_NS_MIN: u64 = 200_000;

/// Who looks at one program.
pub(super) enum Eye {
    /// By asking the program's own monitor for its counters.
    Snapshot,
    /// By asking it for what its watcher named.
    Causes,
    /// By asking it for its certificate.
    Certificate,
    /// From this process, for as long as the program runs.
    Outside {
        watching: Watching,
        /// What it had named before the canary.
        before: Vec<WatchedCause>,
    },
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
                let watching = Watching::start(program.pid())?;
                let before = Vec::new();
                Ok(Self::Outside { watching, before })
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
    pub(super) fn begin(&mut self, canary: Canary) -> Result<(), EyeError> {
        match self {
            Self::Snapshot | Self::Causes | Self::Certificate => {}
            Self::Outside { watching, before } => {
                *before = watching.causes().map_err(EyeError::Observer)?;
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
                Ok(watched(&[], &causes))
            }
            Self::Certificate => {
                let found = caught(&program.certificate()?, canary);
                Ok(difference(&BTreeMap::new(), &found))
            }
            Self::Outside { watching, before } => {
                let after = watching.causes().map_err(EyeError::Observer)?;
                Ok(watched(before, &after))
            }
            Self::Tracer { tracer, before } => {
                let after = caught(&tracer.certificate(), canary);
                Ok(difference(before, &after))
            }
        }
    }
}

fn counted(snapshot: &Snapshot, canary: Canary) -> Observation {
    let endpoint = snapshot.endpoints.get(&canary.endpoint());
    Observation {
        blocking: endpoint.map_or(0, |endpoint| endpoint.blocked.events_over_200us),
        named: Vec::new(),
    }
}

/// What was named since.
fn watched(before: &[WatchedCause], after: &[WatchedCause]) -> Observation {
    let mut observed = Observation::default();
    for now in after {
        let then = before.iter().find(|then| then.cause == now.cause);
        let (count, total_ns) = then.map_or((0, 0), |then| (then.count, then.total_ns));
        let count = now.count.saturating_sub(count);
        if count == 0 {
            continue;
        }
        if now.cause.class.is_blocking() {
            // No more of them can have been long enough.
            let total_ns = now.total_ns.saturating_sub(total_ns);
            observed.blocking += count.min(total_ns / SLEEP_NS_MIN);
        }
        let cause = now.cause.clone();
        observed.named.push(Named { cause, count });
    }
    observed
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
