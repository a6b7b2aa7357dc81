//! One loop's thread while it is watched: how it is followed, and its books.

use std::time::Duration;

use super::finder::Found;
use super::ledger::{Ledger, Site, Totals};
use super::switches::{Switch, Switches};
use super::times::{LastLook, Met};
use crate::process::{Activity, ProcessError, ProcessView, Task};
use crate::readings::{monotonic_ns, nanoseconds};

/// The ways from sleeps to a core are booked so often: under one cause each time, mostly.
const SETTLE_EVERY: Duration = Duration::from_millis(10);
/// A reading of the kernel's counts that takes longer was interrupted, and is made again.
const READING_TIME_MAX: Duration = Duration::from_micros(50);
/// So many in a row are rare.
const READINGS_MAX: usize = 4;

/// How a thread is followed.
enum Follow {
    /// The kernel tells each switch.
    Switches(Box<Switches>),
    /// By looking.
    Looks(LastLook),
}

/// One loop's thread.
pub(super) struct WatchedThread {
    pub(super) task: Task,
    pub(super) name: String,
    /// The descriptor on which it waits when it has nothing to do, once that is known.
    pub(super) own_events: Option<u64>,
    pub(super) ledger: Ledger,
    /// Records that the kernel couldn't keep.
    pub(super) lost: u64,
    /// Why the kernel doesn't tell its switches, where it was asked.
    pub(super) refusal: Option<std::io::Error>,
    follow: Follow,
    opened_ns: u64,
    ended_ns: Option<u64>,
    /// What of its waits for a core is in the books, and when that was read.
    run_delay_ns: u64,
    settled_ns: u64,
    lost_settled: u64,
}

impl WatchedThread {
    /// Follows a thread from now on.
    pub(super) fn open(
        view: &ProcessView,
        found: Found,
        by_looks: bool,
    ) -> Result<Self, ProcessError> {
        let task = view.task(found.tid)?;
        let name = task.name()?;
        // Refused where the kernel is told to: then there are looks, and a note says so.
        let told = i32::try_from(found.tid).ok().filter(|_| !by_looks);
        let switches = told.map(Switches::of_thread);
        let opened_ns = monotonic_ns();
        let times = task.times()?;
        let met = met(&task.activity()?);
        let (first, ledger) = LastLook::first(opened_ns, times, met);
        let (follow, refusal) = match switches {
            Some(Ok(switches)) => (Follow::Switches(Box::new(switches)), None),
            Some(Err(error)) => (Follow::Looks(first), Some(error)),
            None => (Follow::Looks(first), None),
        };
        let mut thread = Self {
            task,
            name,
            own_events: found.events,
            ledger,
            lost: 0,
            refusal,
            follow,
            opened_ns,
            ended_ns: None,
            run_delay_ns: times.run_delay_ns,
            settled_ns: opened_ns,
            lost_settled: 0,
        };
        thread.follow_first();
        Ok(thread)
    }

    /// The first switch tells better than a look what went before it.
    fn follow_first(&mut self) {
        let Follow::Switches(switches) = &mut self.follow else {
            return;
        };
        let (ledger, opened_ns) = (&mut self.ledger, self.opened_ns);
        let mut is_first = true;
        switches.drain(|switch| {
            match switch {
                Switch::Runs { .. } if is_first => *ledger = Ledger::asleep(opened_ns, None),
                Switch::FellAsleep { .. } | Switch::PushedOff { .. } if is_first => {
                    *ledger = Ledger::on_core(opened_ns);
                }
                _ => {}
            }
            is_first = false;
            enter(ledger, switch, opened_ns);
        });
    }

    /// Whether the kernel tells its switches.
    pub(super) fn is_told(&self) -> bool {
        matches!(self.follow, Follow::Switches(_))
    }

    /// Whether each sleep comes with its place.
    pub(super) fn is_told_places(&self) -> bool {
        matches!(&self.follow, Follow::Switches(switches) if switches.tell_registers())
    }

    /// How full the kernel's ring was when it was read last; 0 where there is none.
    pub(super) fn ring_fill(&self) -> f64 {
        match &self.follow {
            Follow::Switches(switches) => switches.fill(),
            Follow::Looks(_) => 0.0,
        }
    }

    /// Brings the books up to date.
    pub(super) fn catch_up(&mut self) -> Result<(), ProcessError> {
        if monotonic_ns().saturating_sub(self.settled_ns) >= nanoseconds(SETTLE_EVERY) {
            return self.settle();
        }
        match &mut self.follow {
            Follow::Switches(_) => self.drain(),
            Follow::Looks(_) => self.look()?,
        }
        Ok(())
    }

    /// The same, with the waits for a core until now. Read before the switches, so that none that
    /// is waited for lacks among them; the books know those that came after.
    pub(super) fn settle(&mut self) -> Result<(), ProcessError> {
        if matches!(self.follow, Follow::Looks(_)) {
            self.settled_ns = monotonic_ns();
            return self.look();
        }
        let counted = self.read_run_delay();
        // What it did is told when it is no more, too.
        self.drain();
        let (until_ns, run_delay_ns) = counted?;
        // After another thread's `exec` its files are that one's, whose delay may be less.
        let since_ns = run_delay_ns.saturating_sub(self.run_delay_ns);
        self.ledger.settle(until_ns, since_ns);
        if self.lost > self.lost_settled {
            self.ledger.forget_wakes();
            self.lost_settled = self.lost;
        }
        (self.settled_ns, self.run_delay_ns) = (until_ns, run_delay_ns);
        Ok(())
    }

    /// How long it waited for cores, and a moment until which that is sure.
    fn read_run_delay(&self) -> Result<(u64, u64), ProcessError> {
        for _ in 1..READINGS_MAX {
            let until_ns = monotonic_ns();
            let times = self.task.times()?;
            if monotonic_ns().saturating_sub(until_ns) <= nanoseconds(READING_TIME_MAX) {
                return Ok((until_ns, times.run_delay_ns));
            }
        }
        Ok((monotonic_ns(), self.task.times()?.run_delay_ns))
    }

    fn drain(&mut self) {
        let Follow::Switches(switches) = &mut self.follow else {
            return;
        };
        let (ledger, lost, opened_ns) = (&mut self.ledger, &mut self.lost, self.opened_ns);
        switches.drain(|switch| match switch {
            Switch::Lost(records) => *lost += records,
            switch => enter(ledger, switch, opened_ns),
        });
    }

    fn look(&mut self) -> Result<(), ProcessError> {
        let Follow::Looks(last) = &mut self.follow else {
            return Ok(());
        };
        let before = self.task.times()?;
        let activity = self.task.activity()?;
        let times = self.task.times()?;
        let moved = before.timeslices != times.timeslices;
        let met = if moved { Met::Running } else { met(&activity) };
        last.next(monotonic_ns(), times, met, &mut self.ledger);
        // Booked with this look.
        self.ledger.forget_wakes();
        Ok(())
    }

    /// Opens its books anew: what was known of its sleeps' places is learnt again.
    pub(super) fn restart(&mut self) -> Result<(), ProcessError> {
        self.settle()?;
        self.opened_ns = monotonic_ns();
        self.ledger = self.ledger.reopened(self.opened_ns);
        (self.lost, self.lost_settled) = (0, 0);
        Ok(())
    }

    /// It is no more.
    pub(super) fn end(&mut self) {
        self.ended_ns.get_or_insert_with(monotonic_ns);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended_ns.is_some()
    }

    /// Everything so far.
    pub(super) fn totals(&self) -> Totals {
        let until_ns = self.ended_ns.unwrap_or_else(monotonic_ns);
        self.ledger.totals(until_ns)
    }
}

fn met(activity: &Activity) -> Met {
    match site(activity) {
        Some(site) => Met::Asleep(site),
        None => Met::Running,
    }
}

/// Where a thread sleeps; `None` when it runs.
pub(super) fn site(activity: &Activity) -> Option<Site> {
    match activity {
        Activity::Running => None,
        Activity::Call(call) => Some(Site {
            pc: call.pc,
            argument: call.arguments[0],
        }),
        Activity::Fault { pc, .. } => Some(Site {
            pc: *pc,
            argument: 0,
        }),
    }
}

/// A switch from before the books were opened belongs to nobody's time.
fn enter(ledger: &mut Ledger, switch: Switch, opened_ns: u64) {
    match switch {
        Switch::FellAsleep { at_ns, site } => ledger.sleeps(at_ns.max(opened_ns), site),
        Switch::PushedOff { at_ns } => ledger.is_pushed_off(at_ns.max(opened_ns)),
        Switch::Runs { at_ns } => ledger.runs(at_ns.max(opened_ns)),
        Switch::Lost(_) => {}
    }
}
