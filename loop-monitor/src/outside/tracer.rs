//! A proof from outside, by ptrace(2): every system call that an event loop's thread makes is
//! seen, and those that can block are named with their line. For Python, whose interpreter shares
//! its thread with the code that is to be proven, and for programs that can't be changed.
//!
//! The target runs on, slower. It is left as it was found on every way out, also when this
//! process is killed: the kernel lets go of what a dead tracer held. Attaching interrupts each
//! traced thread once, so that a wait for events returns early (`EINTR`) one time, which event
//! loops expect.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

pub use super::trace_event::{
    EventSink, OUTSIDE_REQUESTS, TraceEnd, TraceEvent, TracedThreads, WHOLE_LOOP, monotonic_ns,
};
use super::tracer_ledger::Ledger;
use super::tracer_python::{PythonStacks, maps_python};
use super::tracer_rest::Rests;
use super::tracer_routes::RouteMemory;
use super::tracer_session::Session;
use super::tracer_threads::waiting_threads;
use crate::certificate::Certificate;
use crate::process::{ProcessError, ProcessView};

/// For a loop to come to rest before a certificate is made: one that is held longer is told as it is.
const REST_WITHIN: Duration = Duration::from_secs(1);
/// While a trace attaches, this often it is asked whether it still should.
const OVER_LOOK: Duration = Duration::from_millis(50);

/// How to trace.
#[derive(Debug, Clone, Default)]
pub struct TraceOptions {
    /// Which threads.
    pub threads: TracedThreads,
    /// Shared by traces of one process, the later ones start sooner.
    pub memory: TraceMemory,
    /// Names of peers, by their address.
    pub names: Vec<(std::net::SocketAddr, String)>,
}

/// What a trace has learnt about its process' Python, for the next trace of the same process.
#[derive(Debug, Clone, Default)]
pub struct TraceMemory(pub(super) Arc<Mutex<Option<PythonStacks>>>);

/// Why a process can't be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It can't be read.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The kernel refuses to let it be traced.
    #[error(
        "process {pid} may not be traced ({source}): {advice}; without that right nothing is proven"
    )]
    Refused {
        /// The process.
        pid: u32,
        /// What the kernel said.
        source: Errno,
        /// What to do.
        advice: String,
    },
    /// Whoever asked for the trace gave it up.
    #[error("stopped before process {pid} was traced")]
    Stopped {
        /// The process.
        pid: u32,
    },
    /// Nothing that looks like an event loop.
    #[error(
        "process {pid} has no event loop that could be seen within {} s: no thread waits for \
         events (epoll) and none runs asyncio, uvloop, trio, Node or Tokio; is it the right \
         process of the service?", waited.as_secs()
    )]
    NoLoop {
        /// The process.
        pid: u32,
        /// For how long a loop was looked for.
        waited: Duration,
    },
    /// Python whose stacks can't be read.
    #[error("process {pid} is a Python, and {reason}; its calls would have no lines")]
    Python {
        /// The process.
        pid: u32,
        /// Why.
        reason: String,
    },
    /// Only Python's threads say whether they are inside a loop's step.
    #[error("process {pid} is no Python: trace its loops and not all of its threads")]
    NotPython {
        /// The process.
        pid: u32,
    },
    /// The tracing thread could not start, or died.
    #[error("the thread that traces can't go on: {0}")]
    Thread(std::io::Error),
}

/// `lseek(-1, MARKER_OFFSET, SEEK_SET)` by a traced thread ends the trace right there: a call that
/// fails, changes nothing, and comes in exact order among the others of its thread.
pub const MARKER_OFFSET: u64 = 0x0055_4e53_5441_4c4c;

/// The same with this offset begins it: with [`TracedThreads::All`] nothing counts before.
pub const BEGIN_MARKER_OFFSET: u64 = MARKER_OFFSET - 1;

/// What the tracing thread and its owner share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) ledger: Mutex<Ledger>,
    pub(super) rests: Rests,
    pub(super) is_stopped: AtomicBool,
    end: Mutex<Option<TraceEnd>>,
    has_ended: Condvar,
}

impl Shared {
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A ledger is whole between two calls of its methods, whoever panicked elsewhere.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that is traced. Dropping it ends the trace.
#[derive(Debug)]
pub struct Tracer {
    view: ProcessView,
    shared: Arc<Shared>,
    identity: Identity,
}

/// What a certificate says about the process, read when it was attached to.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) start_id: String,
    pub(super) commit: Option<String>,
    pub(super) not_covered: Vec<String>,
}

impl Tracer {
    /// Attaches to a process and returns when its threads are traced.
    ///
    /// # Errors
    /// When it can't be traced: no right, no loop, no such process, another architecture.
    pub fn attach(pid: u32, options: TraceOptions, sink: EventSink) -> Result<Self, TraceError> {
        Self::attach_unless(pid, options, sink, || false)
    }

    /// [`Tracer::attach`], given up as soon as `is_over` says so. A thread that doesn't stop for a
    /// tracer (it waits for a disk that doesn't answer) keeps one waiting without end.
    ///
    /// # Errors
    /// As [`Tracer::attach`], or [`TraceError::Stopped`].
    pub fn attach_unless(
        pid: u32,
        options: TraceOptions,
        sink: EventSink,
        is_over: impl Fn() -> bool,
    ) -> Result<Self, TraceError> {
        let view = ProcessView::of(pid)?;
        let shared = Arc::new(Shared::default());
        let (send, attached) = mpsc::channel();
        let tracing = Arc::clone(&shared);
        // The kernel ties tracees to the thread that attached: all of it happens on one.
        thread::Builder::new()
            .name("unstall-tracer".to_owned())
            .spawn(move || trace(pid, &options, sink, &tracing, &send))
            .map_err(TraceError::Thread)?;
        let identity = loop {
            match attached.recv_timeout(OVER_LOOK) {
                Ok(answer) => break answer?,
                Err(RecvTimeoutError::Timeout) if is_over() => {
                    shared.is_stopped.store(true, Ordering::Release);
                    return Err(TraceError::Stopped { pid });
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Only a panic ends the thread without an answer.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(TraceError::Thread(std::io::Error::other("it died")));
                }
            }
        };
        Ok(Self {
            view,
            shared,
            identity,
        })
    }

    /// What was found so far: all of it whose answers were out before this was called. Waits for
    /// that until each loop has gone to rest, for a second at most.
    #[must_use]
    pub fn certificate(&self) -> Certificate {
        // A loop that is held, or never out of work, is told as far as it has come.
        let has_rested = self.shared.rests.wait(REST_WITHIN);
        let routes = RouteMemory::find(&self.view);
        let mut ledger = self.shared.ledger();
        if let Some(routes) = &routes {
            ledger.take_counts(routes.endpoints(), false);
        }
        let mut certificate = ledger.certificate(&self.identity, |serial| {
            routes.as_ref()?.endpoint_of(serial).name()
        });
        if !has_rested {
            let words =
                "a loop was still at work when this was made: what its steps did after that";
            certificate.not_covered.push(words.to_owned());
        }
        certificate
    }

    /// Why the trace has ended, if it has by then.
    #[must_use]
    pub fn wait_for_end(&self, timeout: Duration) -> Option<TraceEnd> {
        let deadline = Instant::now() + timeout;
        let mut end = self
            .shared
            .end
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while end.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            let waited = self.shared.has_ended.wait_timeout(end, left);
            end = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *end
    }

    /// Gives what was found, and lets go of the process at its next system call or signal.
    #[must_use]
    pub fn finish(self) -> Certificate {
        self.certificate()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
    }
}

/// Those of these processes that are a Python in which a thread waits for events.
#[must_use]
pub fn python_loops(pids: &[u32]) -> Vec<u32> {
    let runs_loop = |pid: &&u32| {
        // Who has ended or can't be read runs no loop that could be traced.
        let waiting = ProcessView::of(**pid).and_then(|view| waiting_threads(&view));
        maps_python(**pid) && waiting.is_ok_and(|threads| !threads.is_empty())
    };
    pids.iter().filter(runs_loop).copied().collect()
}

/// Whether one of these processes is a Python, whatever it does now.
#[must_use]
pub fn runs_python(pids: &[u32]) -> bool {
    pids.iter().any(|pid| maps_python(*pid))
}

/// The whole life of the tracing thread.
fn trace(
    pid: u32,
    options: &TraceOptions,
    sink: EventSink,
    shared: &Arc<Shared>,
    attached: &mpsc::Sender<Result<Identity, TraceError>>,
) {
    let mut session = match Session::attach(pid, options, sink, Arc::clone(shared)) {
        Ok(session) => session,
        Err(error) => {
            // Whoever asked waits for it.
            let _ = attached.send(Err(error));
            return;
        }
    };
    // The same.
    let _ = attached.send(Ok(session.identity()));
    let mut ending = Ending {
        shared,
        end: TraceEnd::Failed,
    };
    ending.end = session.run();
}

/// Tells the end on every way out, also a panic's.
struct Ending<'a> {
    shared: &'a Shared,
    end: TraceEnd,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.shared.rests.all_ended();
        *self
            .shared
            .end
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(self.end);
        self.shared.has_ended.notify_all();
    }
}
