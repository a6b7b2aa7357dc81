//! The tracing thread: one stop after the other, each answered so that the target goes on as if
//! nobody looked.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::unistd::{Pid, getpid, gettid};
use syscalls::Sysno;

use super::trace_event::{
    EventSink, OUTSIDE_REQUESTS, TraceEnd, TraceEvent, TracedThreads, monotonic_ns,
};
use super::tracer::{
    BEGIN_MARKER_OFFSET, Identity, MARKER_OFFSET, Shared, TraceError, TraceMemory, TraceOptions,
};
use super::tracer_judge::{Entry, Judge, Seen};
use super::tracer_ledger::{Owner, endpoint};
use super::tracer_python::PythonStacks;
use super::tracer_routes::{RouteMemory, Settled};
use super::tracer_threads::{self, LoopFinder, refused};
use crate::process::ProcessView;
use crate::prove::stops::{self, Stop};

/// How often new loops, new route memory and counts are looked for.
const LOOK_AROUND: Duration = Duration::from_millis(200);

/// Findings that are told only when their route is known; those beyond are told without it.
const UNTOLD_MAX: usize = 1_024;

/// Findings of requests whose route isn't known yet, for whoever listens to events.
#[derive(Debug, Default)]
struct Untold {
    by_request: BTreeMap<u64, Vec<TraceEvent>>,
    len: usize,
}

/// A process under trace.
pub(super) struct Session {
    view: ProcessView,
    judge: Judge,
    threads: BTreeSet<u32>,
    which: TracedThreads,
    /// The process, where it is a child of ours too.
    child: Option<Pid>,
    routes: Option<RouteMemory>,
    untold: Untold,
    finder: LoopFinder,
    looked_around: Instant,
    identity: Identity,
    has_ended: bool,
    /// The mark that begins a stretch has been seen, where one is waited for.
    has_begun: bool,
    memory: TraceMemory,
    sink: EventSink,
    shared: Arc<Shared>,
}

impl Session {
    /// Attaches to the process and comes back when each thread has stopped once.
    pub(super) fn attach(
        pid: u32,
        options: &TraceOptions,
        sink: EventSink,
        shared: Arc<Shared>,
    ) -> Result<Self, TraceError> {
        let view = ProcessView::of(pid)?;
        let remembered = options
            .memory
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut python = match remembered {
            Some(python) => Some(python),
            None => PythonStacks::open(pid).map_err(|reason| TraceError::Python { pid, reason })?,
        };
        let which = options.threads;
        if which == TracedThreads::All && python.is_none() {
            return Err(TraceError::NotPython { pid });
        }
        let started = Instant::now();
        let mut finder = LoopFinder::new(&view, &options.names, python.is_some())?;
        let loops = match which {
            TracedThreads::All => Vec::new(),
            TracedThreads::Loops => {
                let is_over = || shared.is_stopped.load(Ordering::Acquire);
                finder.find_first(python.as_mut(), is_over)?
            }
        };
        let descriptors = tracer_threads::descriptors(&view, options)?;
        let identity = tracer_threads::identity(&view, python.as_ref(), which)?;
        let loops_only = which == TracedThreads::Loops;
        let child = tracer_threads::is_child(&view, getpid())?;
        let mut session = Self {
            judge: Judge::new(&view, descriptors, python, loops_only),
            threads: BTreeSet::new(),
            which,
            child: child.then(|| process_id(pid)),
            routes: RouteMemory::find(&view),
            untold: Untold::default(),
            finder,
            looked_around: Instant::now(),
            identity,
            has_ended: false,
            has_begun: which == TracedThreads::Loops,
            memory: options.memory.clone(),
            sink,
            shared,
            view,
        };
        session.seize_all(&loops)?;
        if session.threads.is_empty() {
            let waited = started.elapsed();
            return Err(TraceError::NoLoop { pid, waited });
        }
        session.take_counts(true);
        session.tell_ready();
        Ok(session)
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity.clone()
    }

    /// Answers stops until the end.
    pub(super) fn run(&mut self) -> TraceEnd {
        loop {
            match stops::wait(self.child) {
                Ok((tid, stop)) => {
                    if self.shared.is_stopped.load(Ordering::Acquire) {
                        self.let_go(tid, stop);
                        return self.end(TraceEnd::Asked);
                    }
                    if let Some(end) = self.answer(tid, stop) {
                        return end;
                    }
                }
                // No traced thread is left.
                Err(_) if self.has_ended || self.which == TracedThreads::All || !self.lives() => {
                    return self.end(TraceEnd::Exited);
                }
                Err(_) if self.shared.is_stopped.load(Ordering::Acquire) => {
                    return self.end(TraceEnd::Asked);
                }
                // Its loops have ended and it goes on: another one may begin.
                Err(_) => {
                    #[expect(clippy::disallowed_methods, reason = "a thread of the tracer's own")]
                    std::thread::sleep(LOOK_AROUND);
                    self.look_around();
                }
            }
        }
    }

    /// It has a program still, which a zombie has not.
    fn lives(&self) -> bool {
        std::fs::read_link(self.view.root().join("exe")).is_ok()
    }

    /// Attaches to threads until no new ones appear: those that traced ones start come by
    /// themselves.
    fn seize_all(&mut self, loops: &[u32]) -> Result<(), TraceError> {
        // Those that have ended meanwhile are not tried again.
        let mut tried = BTreeSet::new();
        loop {
            let wanted = match self.which {
                TracedThreads::All => self.view.task_ids()?,
                TracedThreads::Loops => loops.to_vec(),
            };
            let new: Vec<u32> = wanted
                .into_iter()
                .filter(|tid| !self.threads.contains(tid) && !tried.contains(tid))
                .collect();
            // After an `exec` nobody is left to trace, which the run that follows tells.
            if new.is_empty() || self.has_ended {
                return Ok(());
            }
            for tid in new {
                if self.shared.is_stopped.load(Ordering::Acquire) {
                    let pid = self.view.pid();
                    return Err(TraceError::Stopped { pid });
                }
                tried.insert(tid);
                // It may have come by itself while another one was waited for.
                if !self.threads.contains(&tid) {
                    self.seize(tid)?;
                }
            }
        }
    }

    /// Attaches to one thread and waits until it has stopped for it.
    fn seize(&mut self, tid: u32) -> Result<(), TraceError> {
        let mut options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACEEXEC;
        if self.which == TracedThreads::All {
            options |= Options::PTRACE_O_TRACECLONE;
        }
        let thread = process_id(tid);
        match ptrace::seize(thread, options).and_then(|()| ptrace::interrupt(thread)) {
            Ok(()) => {}
            // It has ended meanwhile.
            Err(Errno::ESRCH) => return Ok(()),
            // A thread that came by itself, as the child of a traced one.
            Err(Errno::EPERM) if self.is_traced_by_us(tid) => {}
            Err(source) => return Err(refused(&self.view, source)),
        }
        self.threads.insert(tid);
        while let Ok((stopped, stop)) = stops::wait(self.child) {
            // An end is told again by the run that follows, which finds nobody left.
            if self.answer(stopped, stop).is_some() || stopped == thread {
                break;
            }
        }
        Ok(())
    }

    fn is_traced_by_us(&self, tid: u32) -> bool {
        // A thread that can't be read has ended.
        let status = self.view.read_text(&format!("task/{tid}/status"));
        let status = status.unwrap_or_default();
        let tracer = status
            .lines()
            .find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() == gettid().to_string())
    }

    /// Answers one stop; the end of the trace, if this is it.
    fn answer(&mut self, tid: Pid, stop: Stop) -> Option<TraceEnd> {
        let number = tid.as_raw().unsigned_abs();
        let answered = match stop {
            Stop::Ended => {
                self.threads.remove(&number);
                self.shared.rests.ended(number);
                if let Some(routes) = &mut self.routes {
                    routes.forget(number);
                }
                return (number == self.view.pid()).then(|| self.end(TraceEnd::Exited));
            }
            Stop::Exec => {
                self.let_go(tid, stop);
                return Some(self.end(TraceEnd::OtherProgram));
            }
            Stop::Signal(signal) => stops::go_on(tid, signal),
            Stop::Group => {
                self.shared.rests.rests(number);
                stops::stay_stopped(tid)
            }
            Stop::Other => self.welcome(tid),
            Stop::Syscall => match self.answer_call(tid) {
                Ok(true) => {
                    // First, so that whoever reads the end isn't held by us meanwhile.
                    self.let_go(tid, stop);
                    return Some(self.end(TraceEnd::Marked));
                }
                Ok(false) => stops::go_on(tid, 0),
                Err(errno) => Err(errno),
            },
        };
        match answered {
            // ESRCH: it was killed while it stood still; the wait tells its end.
            Ok(()) | Err(_) => None,
        }
    }

    /// A thread that stops for us the first time, or for an interrupt.
    fn welcome(&mut self, tid: Pid) -> nix::Result<()> {
        let number = tid.as_raw().unsigned_abs();
        if self.threads.contains(&number) {
            return stops::go_on(tid, 0);
        }
        // `clone` makes processes, too; they are nobody's loop here.
        let is_thread = self.view.task_ids().is_ok_and(|ids| ids.contains(&number));
        if !is_thread {
            return stops::release(tid, 0);
        }
        self.threads.insert(number);
        stops::go_on(tid, 0)
    }

    /// Looks at a call at its entry; `true` for the mark that ends the trace.
    fn answer_call(&mut self, tid: Pid) -> nix::Result<bool> {
        let Some(entry) = Entry::of(tid)? else {
            self.shared.rests.works(tid.as_raw().unsigned_abs());
            return Ok(false);
        };
        if usize::try_from(entry.number) == Ok(Sysno::lseek as usize) {
            match entry.arguments[1] {
                MARKER_OFFSET => return Ok(true),
                BEGIN_MARKER_OFFSET => self.has_begun = true,
                _ => {}
            }
        }
        if !self.has_begun {
            return Ok(false);
        }
        let request = self
            .routes
            .as_mut()
            .and_then(|routes| routes.current(entry.tid));
        let seen = self.judge.look(&entry);
        if std::mem::take(&mut self.judge.unread_stacks) > 0 {
            let words =
                "lines of calls whose Python stacks could not be read: they count all the same";
            self.shared.ledger().doubt(words.to_owned());
        }
        if seen == Seen::OwnWait {
            self.shared.ledger().count_turn();
            self.settle(false);
            self.look_around();
            self.shared.rests.rests(entry.tid);
        } else {
            self.count(request, entry.tid, seen);
        }
        Ok(false)
    }

    fn count(&mut self, request: Option<u64>, tid: u32, seen: Seen) {
        let owner = match (request, &self.routes) {
            (Some(serial), _) => Owner::Request(serial),
            (None, Some(_)) => Owner::OutsideRequests,
            (None, None) => Owner::WholeLoop,
        };
        self.shared.ledger().add(owner, &seen);
        let (mono_ns, thread) = (monotonic_ns(), tid);
        match seen {
            Seen::Harmless | Seen::OwnWait | Seen::Log => {}
            Seen::Exempt(reason) => (self.sink)(&TraceEvent::Exempt {
                mono_ns,
                thread,
                reason: reason.to_owned(),
            }),
            Seen::Finding(cause) => {
                let event = TraceEvent::Finding {
                    mono_ns,
                    thread,
                    cause,
                };
                match request {
                    Some(serial) if self.untold.len < UNTOLD_MAX => {
                        self.untold.len += 1;
                        let events = self.untold.by_request.entry(serial).or_default();
                        events.push(event);
                    }
                    _ => (self.sink)(&event),
                }
            }
        }
    }

    /// Gives what was seen of requests to their routes, as far as those are known by now.
    fn settle(&mut self, is_end: bool) {
        let Some(routes) = &self.routes else { return };
        let open = self.shared.ledger().open_requests();
        for serial in open {
            let route = match routes.endpoint_of(serial) {
                Settled::NotYet if !is_end => continue,
                Settled::As(name) => name,
                Settled::NotYet | Settled::Never => OUTSIDE_REQUESTS.to_owned(),
            };
            self.shared.ledger().settle(serial, &route);
            let untold = self.untold.by_request.remove(&serial).unwrap_or_default();
            self.untold.len -= untold.len();
            for mut event in untold {
                if let TraceEvent::Finding { cause, .. } = &mut event {
                    cause.endpoint = endpoint(&route).map(str::to_owned);
                }
                (self.sink)(&event);
            }
        }
    }

    /// Now and then: new loops, the middleware's memory, its counts.
    fn look_around(&mut self) {
        if self.looked_around.elapsed() < LOOK_AROUND {
            return;
        }
        self.looked_around = Instant::now();
        if self.routes.is_none() {
            self.routes = RouteMemory::find(&self.view);
        }
        self.take_counts(false);
        if self.which == TracedThreads::Loops {
            let loops = match self.finder.look(&self.threads) {
                Ok(loops) => loops,
                Err(error) => {
                    // Of one that has ended, the wait tells.
                    if self.lives() {
                        self.shared
                            .ledger()
                            .doubt(format!("event loops that began later: {error}"));
                    }
                    Vec::new()
                }
            };
            for tid in loops {
                // Seized only: it stops by itself for the interrupt, and goes on then.
                let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACEEXEC;
                let thread = process_id(tid);
                match ptrace::seize(thread, options).and_then(|()| ptrace::interrupt(thread)) {
                    Ok(()) => {
                        self.threads.insert(tid);
                    }
                    // It has ended meanwhile.
                    Err(Errno::ESRCH) => {}
                    Err(errno) => self.shared.ledger().doubt(format!(
                        "the event loop of thread {tid}, which may not be traced ({errno}): what \
                         ran there is not proven"
                    )),
                }
            }
        }
    }

    fn take_counts(&self, is_start: bool) {
        if let Some(routes) = &self.routes {
            let counts = routes.endpoints();
            self.shared.ledger().take_counts(counts, is_start);
        }
    }

    fn tell_ready(&mut self) {
        let event = TraceEvent::Ready {
            mono_ns: monotonic_ns(),
            pid: self.view.pid(),
            threads: self.threads.iter().copied().collect(),
            not_covered: self.identity.not_covered.clone(),
        };
        (self.sink)(&event);
    }

    /// The last word.
    fn end(&mut self, reason: TraceEnd) -> TraceEnd {
        if self.has_ended {
            return reason;
        }
        self.has_ended = true;
        self.take_counts(false);
        self.settle(true);
        // All requests are settled.
        let certificate = self.shared.ledger().certificate(&self.identity, |_| None);
        let event = TraceEvent::End {
            mono_ns: monotonic_ns(),
            reason,
            certificate: Box::new(certificate),
        };
        *self.memory.0.lock().unwrap_or_else(PoisonError::into_inner) = self.judge.take_python();
        (self.sink)(&event);
        reason
    }

    /// Leaves every thread running and untraced. `tid` stands in `stop` now.
    fn let_go(&mut self, tid: Pid, stop: Stop) {
        let mut traced = std::mem::take(&mut self.threads);
        traced.remove(&tid.as_raw().unsigned_abs());
        // First: after an `exec` the old number of the thread that made it never comes again, and
        // the wait below only tells so once nobody is traced any more.
        release(tid, stop);
        for other in &traced {
            // Already ended, or about to stop by itself: both are told by the wait.
            let _ = ptrace::interrupt(process_id(*other));
        }
        while !traced.is_empty() {
            // Nobody left to wait for: they have ended.
            let Ok((other, stop)) = stops::wait(self.child) else {
                break;
            };
            release(other, stop);
            traced.remove(&other.as_raw().unsigned_abs());
            if stop == Stop::Ended && Some(other) == self.child {
                break;
            }
        }
    }
}

/// Detaches a thread that stands in `stop`; a signal on its way is delivered.
fn release(tid: Pid, stop: Stop) {
    let signal: c_int = match stop {
        Stop::Signal(signal) => signal,
        Stop::Ended => return,
        Stop::Syscall | Stop::Group | Stop::Other | Stop::Exec => 0,
    };
    // ESRCH: killed while it stood still, which lets go of it as well.
    let _ = stops::release(tid, signal);
}

/// Linux hands out no number above 2²².
fn process_id(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap_or(i32::MAX))
}
