//! Before a trace: which threads run loops, who may be traced, and what to say of it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::finder::Finder;
use super::judge::Judge;
use super::tracer::{Identity, TraceError, TraceOptions, TracedThreads};
use super::tracer_python::PythonStacks;
use crate::process::descriptors::Descriptors;
use crate::process::peers::Peers;
use crate::process::refusal;
use crate::process::{Activity, Call, CallKind, ProcessError, ProcessView};

/// A loop that is kept by something is seen when it waits again.
const LOOP_WAIT_MAX: Duration = Duration::from_secs(5);
const LOOP_WAIT_STEP: Duration = Duration::from_millis(5);

/// In machine code, workers that compute right now are met a moment later.
const LOOK_ON_FOR: Duration = Duration::from_millis(200);

/// Finds the threads of a process that run event loops.
pub(super) struct LoopFinder {
    view: ProcessView,
    /// For programs in machine code, where a loop that is busy is known by its stack.
    machine_code: Option<(Finder, Judge)>,
}

impl LoopFinder {
    pub(super) fn new(
        view: &ProcessView,
        names: &[(SocketAddr, String)],
        is_python: bool,
    ) -> Result<Self, ProcessError> {
        let machine_code = if is_python {
            None
        } else {
            Some((Finder::default(), Judge::new(view, names)?))
        };
        Ok(Self {
            view: view.clone(),
            machine_code,
        })
    }

    /// Loops that can be seen now, without those that are known.
    pub(super) fn look(&mut self, known: &BTreeSet<u32>) -> Result<Vec<u32>, TraceError> {
        let Some((finder, judge)) = &mut self.machine_code else {
            let mut waiting = waiting_threads(&self.view)?;
            waiting.retain(|tid| !known.contains(tid));
            return Ok(waiting);
        };
        let found = finder.find(&self.view, judge, |tid| known.contains(&tid))?;
        Ok(found.into_iter().map(|found| found.tid).collect())
    }

    /// Those that are seen within five seconds.
    pub(super) fn find_first(
        &mut self,
        mut python: Option<&mut PythonStacks>,
        is_over: impl Fn() -> bool,
    ) -> Result<Vec<u32>, TraceError> {
        let (started, pid) = (Instant::now(), self.view.pid());
        let mut loops = BTreeSet::new();
        let mut first = None;
        loop {
            loops.extend(self.look(&loops)?);
            if let Some(python) = python.as_deref_mut() {
                loops.extend(running_loops(&self.view, python));
            }
            if !loops.is_empty() {
                let first = *first.get_or_insert_with(Instant::now);
                if self.machine_code.is_none() || first.elapsed() >= LOOK_ON_FOR {
                    return Ok(loops.into_iter().collect());
                }
            } else if started.elapsed() > LOOP_WAIT_MAX {
                let waited = LOOP_WAIT_MAX;
                return Err(TraceError::NoLoop { pid, waited });
            }
            if is_over() {
                return Err(TraceError::Stopped { pid });
            }
            #[expect(clippy::disallowed_methods, reason = "a thread of the tracer's own")]
            thread::sleep(LOOP_WAIT_STEP);
        }
    }
}

/// Loops of Python, whatever they do. Before 3.11 Python knows only its own ids of threads; a loop
/// that is kept then is on the first thread, as servers have it. Since, it tells the number in its
/// own namespace, which is somebody else's here: one that is nobody's is not taken.
fn running_loops(view: &ProcessView, python: &mut PythonStacks) -> Vec<u32> {
    let running = python.looping_threads().into_iter();
    let known = running.filter_map(|(_, inner)| match inner {
        Some(inner) => view.tid_of_inner(inner),
        None => Some(view.pid()),
    });
    known.collect()
}

/// Threads that wait for events now.
pub(super) fn waiting_threads(view: &ProcessView) -> Result<Vec<u32>, ProcessError> {
    let mut waiting = Vec::new();
    for tid in view.task_ids()? {
        // A thread that has ended waits for nothing.
        let Ok(activity) = view.task(tid).and_then(|task| task.activity()) else {
            continue;
        };
        if let Activity::Call(syscall) = activity
            && Call::of(syscall.number).is_some_and(|call| {
                call.kind == CallKind::EventWait && call.name.starts_with("epoll")
            })
        {
            waiting.push(tid);
        }
    }
    Ok(waiting)
}

/// Names of descriptors and peers, those that were given first.
pub(super) fn descriptors(
    view: &ProcessView,
    options: &TraceOptions,
) -> Result<Descriptors, ProcessError> {
    let mut peers = Peers::of(view)?;
    for (address, name) in &options.names {
        peers.give(*address, name.clone());
    }
    Ok(Descriptors::new(view, peers))
}

/// What the certificate says of the process.
pub(super) fn identity(
    view: &ProcessView,
    python: Option<&PythonStacks>,
    which: TracedThreads,
) -> Result<Identity, ProcessError> {
    let stat = view.read_text("stat")?;
    // Field 22, counted after the name in parentheses, which may hold anything.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let start_ticks = after_name.split_ascii_whitespace().nth(19).unwrap_or("0");
    let environment = view.read_text("environ")?;
    let mut settings = environment.split('\0');
    let commit = settings.find_map(|line| line.strip_prefix("UNSTALL_COMMIT="));
    Ok(Identity {
        start_id: format!("{}-{start_ticks}", view.pid()),
        commit: commit.map(str::to_owned),
        not_covered: not_covered(python, which),
    })
}

fn not_covered(python: Option<&PythonStacks>, which: TracedThreads) -> Vec<String> {
    let mut lines = vec![
        "pages that have to come from disk (no system call tells them)".to_owned(),
        "reads of clocks through the vDSO, which don't wait".to_owned(),
        "SO_LINGER: a close of a socket counts as harmless".to_owned(),
    ];
    match python {
        Some(python) => lines.push(format!(
            "Python {}: a lock that was free when it was taken makes no system call",
            python.version()
        )),
        None => lines.extend([
            "a lock that was free when it was taken makes no system call".to_owned(),
            "a loop that neither waited for events nor showed Tokio or Node on its stack: workers \
             that are busy all the time are known by their symbols only"
                .to_owned(),
        ]),
    }
    if which == TracedThreads::Loops {
        lines.push("threads that run no event loop".to_owned());
    }
    lines
}

/// Whether the process was started by this one, which then waits for its end elsewhere.
pub(super) fn is_child(view: &ProcessView, of: Pid) -> Result<bool, ProcessError> {
    let stat = view.read_text("stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let parent = after_name.split_ascii_whitespace().nth(1);
    Ok(parent.is_some_and(|parent| parent == of.to_string()))
}

/// Why the kernel refused, and what to do.
pub(super) fn refused(view: &ProcessView, source: Errno) -> TraceError {
    let status = view.read_text("status").unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    let tracer = tracer.map(str::trim).filter(|tracer| *tracer != "0");
    let advice = match tracer {
        Some(tracer) => format!(
            "process {tracer} traces it already (a debugger, strace, or another proof); end that"
        ),
        // Whoever may read it as this program did may trace it, too, but for a sandbox.
        None => format!(
            "a sandbox's seccomp profile may forbid ptrace, or {}",
            refusal::advice(view.pid())
        ),
    };
    TraceError::Refused {
        pid: view.pid(),
        source,
        advice,
    }
}
