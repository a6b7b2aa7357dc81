//! One watch from its beginning to its end: find the loops, follow them, look, add up.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::budget::Budget;
use super::error::WatchError;
use super::finder::Finder;
use super::judge::{Judge, Seen};
use super::ledger::{Charge, Site};
use super::pace::Pace;
use super::program::Program;
use super::summary::Parts;
use super::watched_thread::{WatchedThread, site};
use crate::process::{Activity, ProcessError, ProcessView};
use crate::readings::{monotonic_ns, nanoseconds};
use crate::watched::WatchSummary;

/// A sleep that is younger may be over before the look is.
const SLEEP_AGE_MIN: Duration = Duration::from_micros(50);
/// New loops are searched for this often; before the first one was found, more often.
const SEARCH_EVERY: Duration = Duration::from_secs(1);
const SEARCH_EVERY_AT_FIRST: Duration = Duration::from_millis(10);
/// After the first loop was found, others may just have been busy.
const SEARCH_ON_FOR: Duration = Duration::from_millis(200);

/// How to watch.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// Names of peers, before all that is found out: `127.0.0.1:6379` → `redis`.
    pub peers: Vec<(SocketAddr, String)>,
    /// How long to wait for a first event loop.
    pub loop_within: Duration,
    /// See sleeps by looking only, even where the kernel would tell each of them.
    pub by_looks: bool,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            peers: Vec::new(),
            loop_within: Duration::from_secs(5),
            by_looks: false,
        }
    }
}

/// Watches the event loops of one process.
pub struct Watch {
    view: ProcessView,
    command: String,
    program: Program,
    peers: Vec<(SocketAddr, String)>,
    judge: Judge,
    finder: Finder,
    threads: Vec<WatchedThread>,
    began_ns: u64,
    began: Instant,
    next_search: Instant,
    pace: Pace,
    budget: Budget,
    by_looks: bool,
    ended: Option<String>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (view, threads) = (&self.view, self.threads.len());
        let mut debug = formatter.debug_struct("Watch");
        debug.field("view", view).field("threads", &threads);
        debug.finish_non_exhaustive()
    }
}

impl Watch {
    /// Finds the loops of a process and begins to watch them.
    ///
    /// # Errors
    /// When the process doesn't run, may not be read, is of another architecture, or has no event
    /// loop within [`WatchOptions::loop_within`].
    pub fn attach(pid: u32, options: &WatchOptions) -> Result<Self, WatchError> {
        Self::attach_unless(pid, options, || false)
    }

    /// [`Watch::attach`], given up as soon as `is_over` says so.
    ///
    /// # Errors
    /// As [`Watch::attach`], or [`WatchError::Stopped`].
    pub fn attach_unless(
        pid: u32,
        options: &WatchOptions,
        is_over: impl Fn() -> bool,
    ) -> Result<Self, WatchError> {
        if pid == std::process::id() {
            return Err(WatchError::Itself { pid });
        }
        let view = ProcessView::of(pid)?;
        let program = Program::of(&view)?;
        let judge = Judge::new(&view, &options.peers)?;
        let now = Instant::now();
        let mut watch = Self {
            command: view.command()?,
            program,
            peers: options.peers.clone(),
            view,
            judge,
            finder: Finder::default(),
            threads: Vec::new(),
            began_ns: monotonic_ns(),
            began: now,
            next_search: now,
            pace: Pace::new(),
            budget: Budget::new(),
            by_looks: options.by_looks,
            ended: None,
        };
        watch.find_first(options.loop_within, is_over)?;
        Ok(watch)
    }

    fn find_first(
        &mut self,
        within: Duration,
        is_over: impl Fn() -> bool,
    ) -> Result<(), WatchError> {
        let (begin, mut first) = (Instant::now(), None);
        loop {
            self.search()?;
            let now = Instant::now();
            if !self.threads.is_empty() {
                let first = *first.get_or_insert(now);
                self.round();
                if now.duration_since(first) >= SEARCH_ON_FOR {
                    return Ok(());
                }
            } else if now.duration_since(begin) >= within {
                return Err(self.no_loop(within));
            }
            if is_over() {
                return Err(WatchError::Stopped {
                    pid: self.view.pid(),
                });
            }
            pause(SEARCH_EVERY_AT_FIRST);
        }
    }

    fn no_loop(&self, within: Duration) -> WatchError {
        let pid = self.view.pid();
        // The kernel keeps this list for the main thread's children; a hint, and no more.
        let children = self.view.read_text(&format!("task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children: Vec<&str> = children.split_ascii_whitespace().collect();
        WatchError::NoLoop {
            pid,
            command: self.command.clone(),
            seconds: within.as_secs(),
            threads: self.finder.threads,
            children: if children.is_empty() {
                String::new()
            } else {
                format!(": {}", children.join(", "))
            },
        }
    }

    /// Forgets what was seen so far and keeps what was found out: the loops, and what their places
    /// mean. For who attaches early and wants to know of what comes now.
    pub fn restart(&mut self) {
        self.threads.retain(|thread| !thread.has_ended());
        for thread in &mut self.threads {
            if thread.restart().is_err() {
                thread.end();
            }
        }
        self.began_ns = monotonic_ns();
    }

    /// Watches until `is_over` says so or the process ends, and sums up. `on_view` gets the
    /// summary so far every `view_every`.
    ///
    /// A process that ends, or that may not be read any more, ends the watch; what was seen until
    /// then is there, and a note says why it is no longer.
    pub fn run(
        &mut self,
        is_over: impl Fn() -> bool,
        view_every: Duration,
        mut on_view: impl FnMut(&WatchSummary),
    ) -> WatchSummary {
        let mut next_view = Instant::now() + view_every;
        while self.ended.is_none() && !is_over() {
            self.round();
            let now = Instant::now();
            if now >= self.next_search {
                if let Err(error) = self.search() {
                    self.end(&error);
                }
                self.next_search = now + SEARCH_EVERY;
            }
            if now >= next_view {
                on_view(&self.summary());
                next_view = now + view_every;
            }
            pause(self.pause_before_next(now));
        }
        self.summary()
    }

    /// What was seen so far.
    pub fn summary(&mut self) -> WatchSummary {
        if let Err(error) = self.judge.look_again() {
            self.end(&error.into());
        }
        for thread in self.threads.iter_mut().filter(|thread| !thread.has_ended()) {
            if thread.settle().is_err() {
                thread.end();
            }
        }
        for thread in &mut self.threads {
            for site in thread.ledger.untold() {
                tell(thread, &mut self.judge, site);
            }
        }
        Parts {
            pid: self.view.pid(),
            command: &self.command,
            duration_ns: monotonic_ns().saturating_sub(self.began_ns),
            threads: &self.threads,
            judge: &mut self.judge,
            ended: self.ended.as_deref(),
        }
        .summary()
    }

    fn pause_before_next(&mut self, now: Instant) -> Duration {
        let threads = || self.threads.iter().filter(|thread| !thread.has_ended());
        let is_told = threads().all(WatchedThread::is_told_places);
        let fill = threads().map(WatchedThread::ring_fill).fold(0.0, f64::max);
        self.pace.next(now, is_told, fill)
    }

    /// Looks for loops that weren't there before, for the process' end, and for another program in
    /// its place.
    fn search(&mut self) -> Result<(), WatchError> {
        self.check_program()?;
        self.judge.look_again()?;
        let threads = &self.threads;
        let known = |tid| {
            let mut living = threads.iter().filter(|thread| !thread.has_ended());
            living.any(|thread| thread.task.tid() == tid)
        };
        let found = self.finder.find(&self.view, &mut self.judge, known)?;
        for found in found {
            self.judge.warm(found.tid)?;
            match WatchedThread::open(&self.view, found, self.by_looks) {
                Ok(thread) => {
                    if self.threads.is_empty() {
                        (self.began, self.began_ns) = (Instant::now(), monotonic_ns());
                    }
                    self.threads.push(thread);
                }
                Err(ProcessError::TaskEnded { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let has_ended = self.view.task(self.view.pid())?.look()?;
        if has_ended.is_some_and(|look| matches!(look.state, 'Z' | 'X')) {
            let pid = self.view.pid();
            return Err(ProcessError::Ended { pid }.into());
        }
        for thread in self.threads.iter_mut().filter(|thread| !thread.has_ended()) {
            if thread.settle().is_err() {
                thread.end();
            }
        }
        Ok(())
    }

    /// Before a first loop was found the process may become what it is to be, as when a shell or a
    /// launcher starts it; after that it is another one.
    fn check_program(&mut self) -> Result<(), WatchError> {
        let program = Program::of(&self.view)?;
        if program == self.program {
            return Ok(());
        }
        if !self.threads.is_empty() {
            let pid = self.view.pid();
            return Err(WatchError::OtherProgram { pid });
        }
        self.judge = Judge::new(&self.view, &self.peers)?;
        self.finder = Finder::default();
        self.command = self.view.command()?;
        self.program = program;
        Ok(())
    }

    /// One round over all loops.
    fn round(&mut self) {
        for index in 0..self.threads.len() {
            if self.threads[index].has_ended() {
                continue;
            }
            match self.visit(index) {
                Ok(()) => {}
                Err(ProcessError::TaskEnded { .. }) => self.threads[index].end(),
                Err(error) => self.end(&error.into()),
            }
        }
    }

    /// Places at which the loop slept since the last round, and nobody knows that they are
    /// harmless: unless their call tells that they are, something keeps it.
    fn meet_strangers(&mut self, index: usize) {
        let thread = &mut self.threads[index];
        for site in thread.ledger.take_strangers() {
            match self.judge.harmless_at(site, thread.own_events) {
                Some(_) => thread.ledger.befriend(site),
                None => {
                    self.pace.keep(Instant::now());
                    tell(thread, &mut self.judge, site);
                }
            }
        }
    }

    /// Looks at a loop that sleeps, if what it waits for isn't known yet.
    fn visit(&mut self, index: usize) -> Result<(), ProcessError> {
        self.threads[index].catch_up()?;
        self.meet_strangers(index);
        let thread = &mut self.threads[index];
        let Some(sleep) = thread.ledger.sleep().copied() else {
            return Ok(());
        };
        let age_ns = monotonic_ns().saturating_sub(sleep.since_ns);
        if sleep.charge.is_some() || age_ns < nanoseconds(SLEEP_AGE_MIN) {
            return Ok(());
        }
        if let Some((site, charge)) = sleep.site.and_then(|site| {
            let known = thread.ledger.known(site);
            let harmless = known.filter(|known| known.is_harmless());
            harmless.map(|charge| (site, charge))
        }) {
            thread.ledger.see(site, Some(charge));
            return Ok(());
        }
        let activity = self.judge.look(&thread.task)?;
        let Some(place) = site(&activity) else {
            return Ok(()); // It woke up.
        };
        let harmless = match &activity {
            Activity::Call(call) => self.judge.harmless(thread.own_events, call),
            Activity::Running | Activity::Fault { .. } => None,
        };
        if harmless.is_some() {
            return self.note_sleep(index, sleep.since_ns, place, harmless);
        }
        self.name(index, sleep.since_ns, place)
    }

    /// Something keeps a loop: name it, if there is time left for names.
    fn name(&mut self, index: usize, since_ns: u64, place: Site) -> Result<(), ProcessError> {
        let now = Instant::now();
        let thread = &self.threads[index];
        // Without knowing where a loop waits for events nothing is idle: that is worth any price.
        let is_needed = thread.own_events.is_none();
        if !is_needed && !self.budget.allows(now.duration_since(self.began)) {
            self.pace.keep(now);
            return self.note_sleep(index, since_ns, place, None);
        }
        let seen = self.judge.name(&thread.task, thread.own_events);
        self.budget.spend(now.elapsed());
        match seen? {
            Seen::Moved => Ok(()),
            Seen::OwnEvents(place, events) => {
                self.threads[index].own_events = Some(events);
                self.note_sleep(index, since_ns, place, Some(Charge::Idle))
            }
            Seen::Waiting(place, charge) => {
                if !charge.is_harmless() {
                    self.pace.keep(now);
                }
                self.note_sleep(index, since_ns, place, Some(charge))
            }
        }
    }

    /// Books what was seen, if the thread still sleeps as it did before the look.
    fn note_sleep(
        &mut self,
        index: usize,
        since_ns: u64,
        place: Site,
        charge: Option<Charge>,
    ) -> Result<(), ProcessError> {
        let thread = &mut self.threads[index];
        if thread.is_told() {
            thread.catch_up()?;
        }
        if thread
            .ledger
            .sleep()
            .is_some_and(|sleep| sleep.since_ns == since_ns)
        {
            thread.ledger.see(place, charge);
        }
        Ok(())
    }

    fn end(&mut self, error: &WatchError) {
        for thread in &mut self.threads {
            thread.end();
        }
        self.ended.get_or_insert_with(|| match error {
            WatchError::Process(ProcessError::Ended { .. } | ProcessError::TaskEnded { .. }) => {
                "The process ended while it was watched; this is what was seen until then."
                    .to_owned()
            }
            WatchError::OtherProgram { .. } => {
                "The process runs another program now; this is what was seen until then.".to_owned()
            }
            error => format!("The watch ended early: {error}"),
        });
    }
}

/// Finds out what the call of a place is on where nobody ever looked in time, as soon as can be:
/// descriptors are closed, and then are others.
fn tell(thread: &mut WatchedThread, judge: &mut Judge, site: Site) {
    if thread.ledger.is_untold(site)
        && let Charge::Cause(number) = judge.charge_of(site, thread.own_events)
    {
        thread.ledger.tell(site, number);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a watch has a thread of its own, and no loop's"
)]
fn pause(time: Duration) {
    thread::sleep(time);
}
