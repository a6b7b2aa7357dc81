//! The timeline of a thread whose switches the kernel tells nobody: made of what the scheduler
//! counts (`schedstat`) and of what each look met.
//!
//! Between two looks the time on a core and the wait for one are known exactly; the rest was slept,
//! and is taken for the sleep that a look met at either end. A thread that ran at both ends and
//! slept between them did so at a place that nobody saw.

use super::ledger::{Ledger, Site};
use crate::process::SchedTimes;

/// What a look met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// On a core, or ready for one.
    Running,
    /// Asleep.
    Asleep(Site),
}

/// The last look, from which the next interval starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastLook {
    at_ns: u64,
    times: SchedTimes,
    met: Met,
    /// Booked as running before the scheduler's clock of this stretch was up to date.
    running_ahead_ns: u64,
}

impl LastLook {
    /// Opens the books.
    pub(super) fn first(at_ns: u64, times: SchedTimes, met: Met) -> (Self, Ledger) {
        let ledger = match met {
            Met::Running => Ledger::on_core(at_ns),
            Met::Asleep(site) => Ledger::asleep(at_ns, Some(site)),
        };
        let look = Self {
            at_ns,
            times,
            met,
            running_ahead_ns: 0,
        };
        (look, ledger)
    }

    /// Books the time since the look before.
    pub(super) fn next(&mut self, at_ns: u64, times: SchedTimes, met: Met, ledger: &mut Ledger) {
        let wall_ns = at_ns.saturating_sub(self.at_ns);
        let stayed = times.timeslices == self.times.timeslices && met == self.met;
        if stayed {
            // The scheduler's clock of a thread on a core is late by up to a tick.
            if met == Met::Running {
                self.running_ahead_ns += wall_ns;
                self.at_ns = at_ns;
            }
            return;
        }
        let delay_ns = times.run_delay_ns.saturating_sub(self.times.run_delay_ns);
        let delay_ns = delay_ns.min(wall_ns);
        let cpu_ns = times.cpu_ns.saturating_sub(self.times.cpu_ns);
        let cpu_ns = cpu_ns.saturating_sub(self.running_ahead_ns);
        let cpu_ns = cpu_ns.min(wall_ns - delay_ns);
        let slept_ns = wall_ns - delay_ns - cpu_ns;
        let begin_ns = self.at_ns;
        let slept_first = matches!(self.met, Met::Asleep(_));
        if slept_first || met == Met::Running {
            if !slept_first && slept_ns > 0 {
                ledger.sleeps(begin_ns, None);
            }
            // A sleep that goes on at both ends of the interval was two, of which the first ended
            // somewhere in it: it gets half of what was slept.
            let first_ns = if met == Met::Running {
                slept_ns
            } else {
                slept_ns / 2
            };
            if first_ns > 0 || slept_first {
                ledger.is_pushed_off(begin_ns + first_ns);
            }
            ledger.runs(begin_ns + first_ns + delay_ns);
            if let Met::Asleep(site) = met {
                ledger.sleeps(begin_ns + first_ns + delay_ns + cpu_ns, Some(site));
            }
        } else if let Met::Asleep(site) = met {
            ledger.is_pushed_off(begin_ns);
            ledger.runs(begin_ns + delay_ns);
            ledger.sleeps(begin_ns + delay_ns + cpu_ns, Some(site));
        }
        *self = Self {
            at_ns,
            times,
            met,
            running_ahead_ns: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::{Charge, Totals};
    use super::*;

    const MS: u64 = 1_000_000;
    const SITE: Site = Site { pc: 1, argument: 2 };

    fn times(cpu_ms: u64, delay_ms: u64, timeslices: u64) -> SchedTimes {
        SchedTimes {
            cpu_ns: cpu_ms * MS,
            run_delay_ns: delay_ms * MS,
            timeslices,
        }
    }

    fn slept_ms(totals: &Totals) -> u64 {
        totals
            .sleeps
            .iter()
            .map(|(_, tally)| tally.total_ns)
            .sum::<u64>()
            / MS
    }

    #[test]
    fn a_sleep_that_looks_meet_is_one_however_many_they_are() {
        let (mut look, mut ledger) = LastLook::first(0, times(0, 0, 1), Met::Asleep(SITE));
        for at_ms in 1..=9 {
            look.next(at_ms * MS, times(0, 0, 1), Met::Asleep(SITE), &mut ledger);
        }
        look.next(12 * MS, times(1, 1, 2), Met::Running, &mut ledger);
        let totals = ledger.totals(12 * MS);
        assert_eq!(totals.sleeps.len(), 1);
        assert_eq!(totals.sleeps[0].1.count, 1);
        assert_eq!(slept_ms(&totals), 10);
        assert_eq!((totals.running_ns, totals.runqueue_ns), (MS, MS));
    }

    #[test]
    fn a_sleep_between_two_looks_has_no_place() {
        let (mut look, mut ledger) = LastLook::first(0, times(0, 0, 1), Met::Running);
        look.next(10 * MS, times(6, 1, 3), Met::Running, &mut ledger);
        let totals = ledger.totals(10 * MS);
        assert_eq!(totals.sleeps[0].0, Charge::Unknown);
        assert_eq!(slept_ms(&totals), 3);
        assert_eq!(totals.all_ns(), 10 * MS);
    }

    #[test]
    fn a_scheduler_clock_that_is_late_does_not_make_a_computation_longer() {
        let (mut look, mut ledger) = LastLook::first(0, times(0, 0, 1), Met::Running);
        look.next(2 * MS, times(0, 0, 1), Met::Running, &mut ledger);
        look.next(3 * MS, times(0, 0, 1), Met::Running, &mut ledger);
        look.next(5 * MS, times(4, 0, 2), Met::Asleep(SITE), &mut ledger);
        let totals = ledger.totals(5 * MS);
        assert_eq!(totals.running_ns, 4 * MS);
        assert_eq!(slept_ms(&totals), 1);
    }
}
