//! The conservation law of a thread's time, as pure arithmetic: wall = cpu + runqueue + blocked.
//!
//! `blocked` is what remains, hence an upper bound: time that a hypervisor stole or an interrupt
//! took lands there too. It counts only when the kernel vouches for a wait: the thread gave up
//! its core by itself (a voluntary switch) or took a major fault. A poll that merely computes, or
//! was preempted, has neither, whatever its wall time.

use crate::readings::Reading;

/// What happened on a thread between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    /// Time that passed.
    pub(crate) wall_ns: u64,
    /// Time the thread computed.
    pub(crate) cpu_ns: u64,
    /// Time it was ready and waited for a core.
    pub(crate) runqueue_ns: u64,
    /// Voluntary switches.
    pub(crate) sleeps: u64,
    /// Major faults.
    pub(crate) major_faults: u64,
}

/// Why a thread was blocked, as far as counters tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// It gave up its core: a system call, a lock, a sleep.
    Slept,
    /// It waited for pages from disk, and for nothing else.
    Fault,
}

impl Interval {
    /// From an earlier to a later reading of the same thread.
    pub(crate) fn between(from: &Reading, to: &Reading) -> Self {
        Self {
            wall_ns: to.wall_ns.saturating_sub(from.wall_ns),
            cpu_ns: to.cpu_ns.saturating_sub(from.cpu_ns),
            runqueue_ns: to.run_delay_ns.saturating_sub(from.run_delay_ns),
            sleeps: u64::try_from(to.sleeps - from.sleeps).unwrap_or(0),
            major_faults: u64::try_from(to.major_faults - from.major_faults).unwrap_or(0),
        }
    }

    /// Time for which nothing but waiting accounts; 0 when the thread neither slept nor faulted.
    pub(crate) fn blocked_ns(&self) -> u64 {
        if self.sleeps == 0 && self.major_faults == 0 {
            return 0;
        }
        self.wall_ns
            .saturating_sub(self.cpu_ns)
            .saturating_sub(self.runqueue_ns)
    }

    /// A fault that waits for the disk is also one voluntary switch, so a fault is the whole
    /// story only when there were no more switches than faults.
    pub(crate) fn class(&self) -> Class {
        if self.major_faults > 0 && self.sleeps <= self.major_faults {
            Class::Fault
        } else {
            Class::Slept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_long_computation_is_not_blocked() {
        let spin = Interval {
            wall_ns: 20 * MS,
            cpu_ns: 20 * MS,
            ..Interval::default()
        };
        assert_eq!(spin.blocked_ns(), 0);
    }

    #[test]
    fn a_preempted_or_robbed_computation_is_not_blocked() {
        let robbed = Interval {
            wall_ns: 20 * MS,
            cpu_ns: 9 * MS,
            runqueue_ns: 10 * MS,
            ..Interval::default()
        };
        assert_eq!(robbed.blocked_ns(), 0);
    }

    #[test]
    fn a_sleep_on_a_busy_machine_leaves_out_the_wait_for_a_core() {
        let slept = Interval {
            wall_ns: 20 * MS,
            cpu_ns: 3 * MS,
            runqueue_ns: 12 * MS,
            sleeps: 1,
            major_faults: 0,
        };
        assert_eq!(slept.blocked_ns(), 5 * MS);
        assert_eq!(slept.class(), Class::Slept);
    }

    #[test]
    fn faults_are_told_from_sleeps() {
        let fault = Interval {
            wall_ns: 2 * MS,
            sleeps: 2,
            major_faults: 2,
            ..Interval::default()
        };
        assert_eq!(fault.class(), Class::Fault);
        let both = Interval { sleeps: 3, ..fault };
        assert_eq!(both.class(), Class::Slept);
    }

    proptest! {
        #[test]
        fn blocked_never_exceeds_the_wall_and_needs_a_witness(
            wall_ns: u64, cpu_ns: u64, runqueue_ns: u64, sleeps in 0u64..3, major_faults in 0u64..3,
        ) {
            let interval = Interval { wall_ns, cpu_ns, runqueue_ns, sleeps, major_faults };
            prop_assert!(interval.blocked_ns() <= wall_ns);
            if sleeps + major_faults == 0 {
                prop_assert_eq!(interval.blocked_ns(), 0);
            }
        }
    }
}
