//! The ways from the end of a sleep to a core.
//!
//! A switch tells when a loop got its core back, not when it became ready for one. The kernel counts
//! the wait between the two, in sum, with the time in which the loop was pushed off (`run_delay` of
//! `schedstat`); the latter the switches tell, and the rest is shared by the sleeps that ended
//! meanwhile. A share that was given stays: what was told of a sleep must not change by what the
//! machine does long after it.

use super::ledger::{Charge, Site};

/// A sleep that has ended, as the books have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slept {
    pub(super) site: Option<Site>,
    pub(super) charge: Option<Charge>,
    pub(super) length_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Absence {
    ended_ns: u64,
    length_ns: u64,
    /// None: it was pushed off.
    slept: Option<Slept>,
}

/// The times off the core whose ways back to it aren't known yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Absences {
    /// Oldest first.
    ended: Vec<Absence>,
    /// Counted and not shared out; below zero where a push lasted longer than its count, which
    /// leaves out the switches themselves.
    left_ns: i64,
}

impl Absences {
    /// The loop was pushed off its core for so long, until then.
    pub(super) fn was_pushed_off(&mut self, ended_ns: u64, length_ns: u64) {
        self.ended.push(Absence {
            ended_ns,
            length_ns,
            slept: None,
        });
    }

    /// It slept until then.
    pub(super) fn has_slept(&mut self, ended_ns: u64, slept: Slept) {
        self.ended.push(Absence {
            ended_ns,
            length_ns: slept.length_ns,
            slept: Some(slept),
        });
    }

    /// Shares out what was counted since the last time over the sleeps that have ended until a
    /// moment, each as much and none more than it has; `each` gets them with their shares. What
    /// they can't give belongs to sleeps that end later.
    pub(super) fn settle(
        &mut self,
        until_ns: u64,
        run_delay_ns: u64,
        mut each: impl FnMut(Slept, u64),
    ) {
        let due = self
            .ended
            .partition_point(|absence| absence.ended_ns <= until_ns);
        let (mut pushed_ns, mut sleeps) = (0_u64, Vec::new());
        for absence in self.ended.drain(..due) {
            match absence.slept {
                Some(slept) => sleeps.push(slept),
                None => pushed_ns += absence.length_ns,
            }
        }
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        self.left_ns = self
            .left_ns
            .saturating_add(signed(run_delay_ns))
            .saturating_sub(signed(pushed_ns));
        // The shortest first: what they can't give, the others do.
        sleeps.sort_unstable_by_key(|slept| slept.length_ns);
        let mut others = sleeps.len() as u64;
        for slept in sleeps {
            let left_ns = u64::try_from(self.left_ns).unwrap_or(0);
            let share_ns = (left_ns / others).min(slept.length_ns);
            self.left_ns -= signed(share_ns);
            others -= 1;
            each(slept, share_ns);
        }
    }

    /// What was counted until now has no sleep here: it is booked otherwise, or switches are missing.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slept(length_ns: u64) -> Slept {
        Slept {
            site: None,
            charge: None,
            length_ns,
        }
    }

    fn shares(absences: &mut Absences, until_ns: u64, run_delay_ns: u64) -> Vec<u64> {
        let mut shares = Vec::new();
        absences.settle(until_ns, run_delay_ns, |_, share_ns| shares.push(share_ns));
        shares
    }

    #[test]
    fn sleeps_share_alike_and_give_no_more_than_they_have() {
        let mut absences = Absences::default();
        for (ended_ns, length_ns) in [(100, 90), (200, 10), (300, 50)] {
            absences.has_slept(ended_ns, slept(length_ns));
        }
        absences.was_pushed_off(400, 1_000);
        assert_eq!(shares(&mut absences, 400, 1_000 + 70), [10, 30, 30]);
        assert!(shares(&mut absences, 500, 0).is_empty());
    }

    #[test]
    fn a_way_counted_before_its_sleep_was_told_is_that_sleep_s() {
        let mut absences = Absences::default();
        absences.has_slept(100, slept(90));
        absences.has_slept(210, slept(80));
        assert_eq!(shares(&mut absences, 200, 20), [20]);
        assert!(shares(&mut absences, 200, 30).is_empty());
        assert_eq!(shares(&mut absences, 300, 0), [30]);
    }
}
