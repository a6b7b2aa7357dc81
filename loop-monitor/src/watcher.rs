//! The watcher inside: a thread that sees a poll running too long while it runs, and names it.
//!
//! It looks at what threads say of their current polls once per threshold, so a poll is known
//! before its threshold is reached, and is looked at right then. It never touches a loop: an idle
//! one stays asleep. Once no poll has been seen for [`QUIET_MIN`], the watcher sleeps, too, until
//! the next poll begins: that poll finds [`Watch::poll_began`]'s flag up and wakes it, at most once
//! per quiet time; other polls pay for one relaxed load.

mod long_wait;
mod looks;
mod named_causes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use crate::cause::Cause;
use crate::monitor::MonitorState;
use crate::readings::{monotonic_ns, nanoseconds};
use crate::watched::WatchedCause;
use long_wait::LongWait;
use looks::{Looks, NamedPoll, WatchedPoll};
use named_causes::NamedCauses;

/// Shorter thresholds would make the watcher itself a load.
pub(crate) const THRESHOLD_MIN: Duration = Duration::from_millis(1);
/// [`Watch::poll_ended`] hears of no shorter polls.
const _: () = assert!(THRESHOLD_MIN.as_nanos() >= crate::stalls::THRESHOLD_NS as u128);
/// Without a poll for so long, and for some thresholds, the watcher goes to sleep.
const QUIET_MIN: Duration = Duration::from_secs(1);
/// In thresholds.
const QUIET_THRESHOLDS: u64 = 10;
/// Two warnings about one endpoint are at least so far apart.
const VOICE_PERIOD_NS: u64 = 1_000_000_000;

/// What the monitor and its watcher's thread share.
#[derive(Debug)]
pub(crate) struct Watch {
    threshold: Duration,
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
    causes: NamedCauses,
    troubles: Mutex<Vec<String>>,
}

impl Watch {
    pub(crate) fn new(threshold: Duration) -> Self {
        Self {
            threshold: threshold.max(THRESHOLD_MIN),
            asleep: AtomicBool::new(false),
            thread: OnceLock::new(),
            causes: NamedCauses::default(),
            troubles: Mutex::default(),
        }
    }

    /// A poll has begun, and its thread's slot says so.
    ///
    /// Relaxed, though a poll that begins just as the watcher goes to sleep may miss the flag: the
    /// watcher looks once more after raising it.
    pub(crate) fn poll_began(&self) {
        if self.asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.asleep.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// A poll of the calling thread, begun then, has ended: what it was last seen in, if it was
    /// named while it ran.
    pub(crate) fn poll_ended(&self, began_ns: u64, hold_ns: u64) -> Option<Cause> {
        if hold_ns < nanoseconds(self.threshold) {
            return None;
        }
        let thread_id = nix::unistd::gettid().as_raw().unsigned_abs();
        self.causes.finish(thread_id, began_ns, hold_ns)
    }

    /// What was named so far.
    pub(crate) fn causes(&self) -> Vec<WatchedCause> {
        self.causes.to_wire()
    }

    /// What keeps the watcher from naming, in sentences.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let troubles = self.troubles.lock();
        troubles.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Told once to the log, and in every snapshot.
    ///
    /// A trouble is known by its words: they must name no thread.
    fn note_trouble(&self, trouble: String) {
        if !self.troubles().contains(&trouble) {
            tracing::warn!(target: "unstall", "{trouble}");
            let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
            troubles.push(trouble);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It finds that the monitor is gone, and ends.
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Starts the thread, once per monitor.
pub(crate) fn start(state: &Arc<MonitorState>) {
    let Some(watch) = &state.watch else { return };
    if watch.thread.get().is_some() {
        return;
    }
    // Weak: the thread ends when the last clone of the monitor is dropped.
    let watched = Arc::downgrade(state);
    let spawned = std::thread::Builder::new()
        .name("unstall-watch".to_owned())
        .spawn(move || run(&watched));
    match spawned {
        Ok(handle) => {
            // Of two installations at once, one thread is woken and the other looks on time.
            let _ = watch.thread.set(handle.thread().clone());
        }
        Err(error) => watch.note_trouble(format!(
            "The watcher's thread could not be started ({error}): nothing is named."
        )),
    }
}

fn run(state: &Weak<MonitorState>) {
    let mut watcher = Watcher::default();
    while let Some(state) = state.upgrade() {
        let Some(watch) = &state.watch else { return };
        let rest = watcher.turn(&state, watch);
        drop(state);
        match rest {
            Rest::For(duration) => std::thread::park_timeout(duration),
            Rest::UntilWoken => std::thread::park(),
        }
    }
}

/// Until when nothing has to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    For(Duration),
    UntilWoken,
}

/// The thread's own state.
#[derive(Debug, Default)]
struct Watcher {
    looks: Looks,
    tracked: HashMap<u32, Tracked>,
    voices: HashMap<String, Voice>,
    quiet: Quiet,
}

/// A poll that goes on.
#[derive(Debug)]
struct Tracked {
    began_ns: u64,
    next_look_ns: u64,
    /// Its age when it was last warned about.
    warned_age_ns: Option<u64>,
}

/// When an endpoint was last warned about, and what was kept back since.
#[derive(Debug, Default)]
struct Voice {
    last_ns: Option<u64>,
    suppressed: u64,
}

impl Watcher {
    fn turn(&mut self, state: &MonitorState, watch: &Watch) -> Rest {
        let threshold_ns = nanoseconds(watch.threshold);
        let polls = looks::current_polls(state);
        let now_ns = monotonic_ns();
        self.track(&polls, threshold_ns);
        let due: Vec<WatchedPoll> = polls
            .iter()
            .filter(|poll| {
                let tracked = self.tracked.get(&poll.thread_id);
                tracked.is_some_and(|tracked| tracked.next_look_ns <= now_ns)
            })
            .cloned()
            .collect();
        self.look_later(&due, now_ns, threshold_ns);
        if !due.is_empty() {
            for named in self.looks.name(state, watch, due) {
                self.tell(watch, &named, threshold_ns);
            }
        }
        self.rest(watch, !polls.is_empty(), threshold_ns)
    }

    /// Sets when polls are looked at next, if they aren't named now: what can't be read isn't asked
    /// for without a rest. Seldomer as a poll grows older: one that never ends is looked at for ever.
    fn look_later(&mut self, due: &[WatchedPoll], now_ns: u64, threshold_ns: u64) {
        for poll in due {
            if let Some(tracked) = self.tracked.get_mut(&poll.thread_id) {
                let age_ns = now_ns.saturating_sub(poll.began_ns);
                tracked.next_look_ns = now_ns + threshold_ns.max(age_ns / 2);
            }
        }
    }

    /// Forgets what ended and meets what began.
    fn track(&mut self, polls: &[WatchedPoll], threshold_ns: u64) {
        self.tracked.retain(|thread_id, tracked| {
            polls
                .iter()
                .any(|poll| poll.thread_id == *thread_id && poll.began_ns == tracked.began_ns)
        });
        for poll in polls {
            self.tracked.entry(poll.thread_id).or_insert(Tracked {
                began_ns: poll.began_ns,
                next_look_ns: poll.began_ns + threshold_ns,
                warned_age_ns: None,
            });
        }
    }

    fn tell(&mut self, watch: &Watch, named: &NamedPoll, threshold_ns: u64) {
        let NamedPoll {
            poll,
            cause,
            seen_ns: now_ns,
        } = named;
        let age_ns = now_ns.saturating_sub(poll.began_ns);
        watch
            .causes
            .record(poll.thread_id, poll.began_ns, cause, age_ns);
        let Some(tracked) = self.tracked.get_mut(&poll.thread_id) else {
            return;
        };
        // From the look on, which may have taken its time.
        tracked.next_look_ns = now_ns + threshold_ns.max(age_ns / 2);
        let voice = self.voices.entry(poll.endpoint.key()).or_default();
        let is_told = tracked.warned_age_ns.is_some();
        if tracked.warned_age_ns.is_some_and(|age| age_ns < 2 * age) {
            return;
        }
        if voice
            .last_ns
            .is_some_and(|last_ns| now_ns - last_ns < VOICE_PERIOD_NS)
        {
            voice.suppressed += u64::from(!is_told);
            tracked.warned_age_ns.get_or_insert(age_ns);
            return;
        }
        LongWait {
            method: poll.endpoint.method,
            route: &poll.endpoint.route,
            cause,
            age: Duration::from_nanos(age_ns),
            suppressed: std::mem::take(&mut voice.suppressed),
        }
        .warn();
        voice.last_ns = Some(*now_ns);
        tracked.warned_age_ns = Some(age_ns);
    }

    /// Until the next look is due, and no longer than a threshold, so that no poll that begins
    /// meanwhile is met late.
    fn rest(&mut self, watch: &Watch, polls_run: bool, threshold_ns: u64) -> Rest {
        let now_ns = monotonic_ns();
        let quiet_ns = nanoseconds(QUIET_MIN).max(QUIET_THRESHOLDS * threshold_ns);
        let flag_is_up = watch.asleep.load(Ordering::Acquire);
        match self.quiet.next(polls_run, flag_is_up, now_ns, quiet_ns) {
            Next::Sleep => Rest::UntilWoken,
            Next::RaiseFlag => {
                watch.asleep.store(true, Ordering::SeqCst);
                Rest::For(watch.threshold)
            }
            Next::StayAwake => {
                watch.asleep.store(false, Ordering::Release);
                let next = self.tracked.values().map(|tracked| tracked.next_look_ns);
                let next_ns = next.min().unwrap_or(u64::MAX);
                let rest_ns = next_ns.saturating_sub(now_ns).min(threshold_ns);
                Rest::For(Duration::from_nanos(rest_ns))
            }
        }
    }
}

/// Whether there has been anything to watch lately.
#[derive(Debug, Default)]
struct Quiet {
    /// The flag was raised, and nothing found at that look.
    raised: bool,
    /// None before the first look.
    last_poll_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    StayAwake,
    /// And look once more, for polls that began before they could see it.
    RaiseFlag,
    Sleep,
}

impl Quiet {
    /// A raised flag that is down again was lowered by a poll's begin, as good as a poll seen.
    fn next(&mut self, polls_run: bool, flag_is_up: bool, now_ns: u64, quiet_ns: u64) -> Next {
        let woken = self.raised && !flag_is_up;
        let last_ns = *self.last_poll_ns.get_or_insert(now_ns);
        if polls_run || woken {
            self.raised = false;
            self.last_poll_ns = Some(now_ns);
            Next::StayAwake
        } else if self.raised {
            Next::Sleep
        } else if now_ns.saturating_sub(last_ns) > quiet_ns {
            self.raised = true;
            Next::RaiseFlag
        } else {
            Next::StayAwake
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_that_can_t_be_named_is_looked_at_again_later() {
        let endpoints = crate::endpoints::EndpointRegistry::new(8);
        let poll = WatchedPoll {
            thread_id: 7,
            began_ns: 1_000,
            endpoint: endpoints.resolve(&http::Method::GET, Some("/a")),
        };
        let mut watcher = Watcher::default();
        watcher.track(std::slice::from_ref(&poll), 100);
        assert_eq!(watcher.tracked[&7].next_look_ns, 1_100);
        watcher.look_later(std::slice::from_ref(&poll), 1_110, 100);
        assert_eq!(watcher.tracked[&7].next_look_ns, 1_210);
        watcher.look_later(std::slice::from_ref(&poll), 5_000, 100);
        assert_eq!(watcher.tracked[&7].next_look_ns, 7_000);
    }

    #[test]
    fn the_watcher_sleeps_after_two_empty_looks_and_stays_awake_once_woken() {
        let mut quiet = Quiet::default();
        assert_eq!(quiet.next(false, false, 1_000, 100), Next::StayAwake);
        assert_eq!(quiet.next(false, false, 1_100, 100), Next::StayAwake);
        assert_eq!(quiet.next(true, false, 1_150, 100), Next::StayAwake);
        assert_eq!(quiet.next(false, false, 1_251, 100), Next::RaiseFlag);
        assert_eq!(quiet.next(false, true, 1_260, 100), Next::Sleep);
        // A wake-up that nobody asked for.
        assert_eq!(quiet.next(false, true, 5_000, 100), Next::Sleep);
        // A short poll woke it and has ended: awake for the whole quiet time, so that the next
        // polls needn't wake it.
        assert_eq!(quiet.next(false, false, 6_000, 100), Next::StayAwake);
        assert_eq!(quiet.next(false, false, 6_100, 100), Next::StayAwake);
        assert_eq!(quiet.next(false, false, 6_101, 100), Next::RaiseFlag);
        // A poll that began before it could see the flag.
        assert_eq!(quiet.next(true, true, 6_110, 100), Next::StayAwake);
    }
}
