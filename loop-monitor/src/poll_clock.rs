//! The clock of polls: the processor's time stamp counter, set anew by the system's clock at each
//! reading of the thread.
//!
//! A poll reads the time twice, and that is most of its price. Where the kernel itself keeps time by
//! the counter, its own clock is the counter, too, with a conversion and a fence around it, and takes
//! twice as long to read. The kernel has then found that the counter ticks evenly, never stops and is
//! the same on all cores, and gives it up when it finds otherwise; everywhere else (another clock
//! source, another architecture, a sandbox that doesn't say) polls read the system's clock.
//!
//! The counter is trusted for little: a thread's clock is set at every reading, 10 ms apart at most
//! on a busy loop, and a poll that seems to have lasted for more than [`TRUSTED_NS_MAX`] asks the
//! system's clock. So neither a corrected system clock nor a virtual machine that was moved to
//! another host makes a hold that never was.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::readings::monotonic_ns;

/// The kernel's current clock source; documented in Documentation/timers/timekeeping.rst.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// What a poll lasted at most by the counter alone; as long as polls that are read after anyway.
const TRUSTED_NS_MAX: u64 = 100_000;
/// Between whose two ticks the system's clock took longer than this was interrupted there, and a
/// clock that it set would be as much too late.
const VAGUE_NS_MAX: u64 = 1_000;
/// Binary digits after the point of [`NS_PER_TICK`]: an error of 10⁻⁹ at the usual frequencies.
const FRACTION_BITS: u32 = 32;
/// Two moments tell the length of a tick when they are this many times further apart than they are
/// vague: then it is right to 0.02 %, which is 2 µs until the next reading.
const VAGUENESS_RATIO: u64 = 5_000;
/// A thread may lose its core between two clocks, but seldom always.
const ATTEMPTS: usize = 16;

/// Length of a tick, with [`FRACTION_BITS`]; 0 where polls read the system's clock.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);

/// A clock that was set by the system's clock, and goes on by the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PollClock {
    set_ticks: u64,
    set_ns: u64,
    /// As [`NS_PER_TICK`].
    ns_per_tick: u64,
}

impl PollClock {
    /// Reads the system's clock always.
    pub(crate) const SYSTEM: Self = Self {
        set_ticks: 0,
        set_ns: 0,
        ns_per_tick: 0,
    };

    /// What the system's clock shows, and a clock that is set to it.
    pub(crate) fn set() -> (u64, Self) {
        match NS_PER_TICK.load(Relaxed) {
            0 => (monotonic_ns(), Self::SYSTEM),
            ns_per_tick => {
                let now = Moment::try_now();
                (now.ns, Self::set_at(&now, ns_per_tick))
            }
        }
    }

    fn set_at(now: &Moment, ns_per_tick: u64) -> Self {
        // Lost its core between the clocks.
        if in_ns(now.vagueness, ns_per_tick) > VAGUE_NS_MAX {
            return Self::SYSTEM;
        }
        Self {
            set_ticks: now.ticks,
            set_ns: now.ns,
            ns_per_tick,
        }
    }

    /// On the same scale as [`monotonic_ns`].
    #[inline]
    pub(crate) fn now_ns(self) -> u64 {
        if self.ns_per_tick == 0 {
            return monotonic_ns();
        }
        // A counter that went back is none.
        self.at(ticks()).unwrap_or_else(monotonic_ns)
    }

    /// Now, at the end of a poll that began then.
    #[inline]
    pub(crate) fn end_ns(self, began_ns: u64) -> u64 {
        let now_ns = self.now_ns();
        if now_ns.saturating_sub(began_ns) > TRUSTED_NS_MAX {
            monotonic_ns()
        } else {
            now_ns
        }
    }

    /// `None` before it was set.
    #[inline]
    fn at(self, ticks: u64) -> Option<u64> {
        let passed = ticks.checked_sub(self.set_ticks)?;
        let passed_ns = in_ns(passed, self.ns_per_tick);
        Some(self.set_ns.saturating_add(passed_ns))
    }
}

/// At most 584 years.
#[inline]
fn in_ns(ticks: u64, ns_per_tick: u64) -> u64 {
    let ns = (u128::from(ticks) * u128::from(ns_per_tick)) >> FRACTION_BITS;
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Learns how long a tick is, from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Calibration {
    /// None when there is nothing to learn.
    from: Option<Moment>,
}

impl Calibration {
    /// Reads one small file that isn't on a disk.
    pub(crate) fn begin() -> Self {
        let wanted = NS_PER_TICK.load(Relaxed) == 0 && kernel_keeps_time_by_ticks();
        Self {
            from: wanted.then(Moment::now),
        }
    }

    /// A millisecond later, say. Where the two moments don't tell, the system's clock stays.
    pub(crate) fn end(self) {
        if let Some(from) = self.from
            && let Some(ns_per_tick) = ns_per_tick(&from, &Moment::now())
        {
            NS_PER_TICK.store(ns_per_tick, Relaxed);
        }
    }
}

/// One moment by both clocks.
#[derive(Debug, Clone, Copy)]
struct Moment {
    ticks: u64,
    ns: u64,
    /// Ticks between which the system's clock was read.
    vagueness: u64,
}

impl Moment {
    fn now() -> Self {
        let mut best = Self::try_now();
        for _ in 1..ATTEMPTS {
            let other = Self::try_now();
            if other.vagueness < best.vagueness {
                best = other;
            }
        }
        best
    }

    fn try_now() -> Self {
        let (before, ns, after) = (ticks(), monotonic_ns(), ticks());
        let vagueness = after.saturating_sub(before);
        Self {
            ticks: before.saturating_add(vagueness / 2),
            ns,
            vagueness,
        }
    }
}

/// `None` when the moments are too vague, or the counter doesn't count.
fn ns_per_tick(from: &Moment, to: &Moment) -> Option<u64> {
    let passed = to.ticks.checked_sub(from.ticks)?;
    let vagueness = from.vagueness.saturating_add(to.vagueness).max(1);
    if passed / VAGUENESS_RATIO < vagueness {
        return None;
    }
    let passed_ns = u128::from(to.ns.checked_sub(from.ns)?);
    u64::try_from((passed_ns << FRACTION_BITS) / u128::from(passed)).ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a file of sysfs, in memory, read once before the loop"
)]
fn kernel_keeps_time_by_ticks() -> bool {
    cfg!(target_arch = "x86_64")
        // Absent in some sandboxes, which read the counter by themselves, if at all.
        && std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|source| source.trim_end() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    safe_arch::read_timestamp_counter()
}

/// Never asked: [`kernel_keeps_time_by_ticks`] says no.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ticks that pass in a time, rounded down.
    fn ticks_in(ns: u64, khz: u64) -> u64 {
        u64::try_from(u128::from(ns) * u128::from(khz) / 1_000_000)
            .expect("a test's times are short")
    }

    proptest! {
        #[test]
        fn time_by_the_counter_is_right_to_a_thousandth(
            khz in 200_000_u64..10_000_000,
            learnt_ns in 1_000_000_u64..50_000_000,
            vague in (0.0..1.0, 0.0..1.0),
            wrong in (-0.5..0.5, -0.5..0.5),
            later_ns in 0_u64..10_000_000_000_000,
        ) {
            let learnt = ticks_in(learnt_ns, khz);
            // Both together as vague as may be.
            let vagueness_max = (learnt / VAGUENESS_RATIO / 3) as f64;
            let moment = |ns: u64, vague: f64, wrong: f64| {
                let vagueness = vagueness_max * vague;
                let ticks = 1_000_000_000 + ticks_in(ns, khz);
                Moment {
                    ticks: ticks.saturating_add_signed((vagueness * wrong) as i64),
                    ns: 77 + ns,
                    vagueness: vagueness as u64,
                }
            };
            let from = moment(0, vague.0, wrong.0);
            let to = moment(learnt_ns, vague.1, wrong.1);
            let ns_per_tick = ns_per_tick(&from, &to).expect("clear moments");
            let clock = PollClock { set_ticks: 5, set_ns: 1_000, ns_per_tick };
            let told_ns = clock.at(5 + ticks_in(later_ns, khz)).expect("after it was set") - 1_000;
            // One tick of 200 MHz is five nanoseconds.
            prop_assert!(told_ns.abs_diff(later_ns) <= 6 + later_ns / 1_000, "{told_ns} for {later_ns}");
        }

        #[test]
        fn it_never_runs_backwards_and_never_overflows(
            set_ticks: u64, set_ns: u64, ns_per_tick: u64, one: u64, other: u64,
        ) {
            let clock = PollClock { set_ticks, set_ns, ns_per_tick };
            let (earlier, later) = (one.min(other), one.max(other));
            prop_assert!(clock.at(earlier) <= clock.at(later));
            prop_assert!(clock.at(later).is_none_or(|ns| ns >= set_ns));
            prop_assert_eq!(clock.at(later).is_none(), later < set_ticks);
        }
    }

    #[test]
    fn moments_that_say_nothing_leave_the_system_s_clock() {
        let moment = |ticks, ns, vagueness| Moment {
            ticks,
            ns,
            vagueness,
        };
        let from = moment(1_000_000, 5_000, 100);
        let length = |to| ns_per_tick(&from, &to);
        assert_eq!(
            length(moment(3_000_000, 1_005_000, 100)),
            Some(1 << (FRACTION_BITS - 1))
        );
        assert_eq!(length(moment(3_000_000, 1_005_000, 400)), None, "vague");
        assert_eq!(length(moment(1_000_000, 1_005_000, 0)), None, "it stands");
        assert_eq!(
            length(moment(900_000, 1_005_000, 100)),
            None,
            "it went back"
        );
        assert_eq!(
            length(moment(3_000_000, 4_000, 100)),
            None,
            "the other went back"
        );
    }

    #[test]
    fn who_was_interrupted_between_the_clocks_sets_none() {
        let ns_per_tick = 1 << (FRACTION_BITS - 1);
        let set = |vagueness| {
            let now = Moment {
                ticks: 7,
                ns: 70,
                vagueness,
            };
            PollClock::set_at(&now, ns_per_tick)
        };
        assert_eq!(set(2 * VAGUE_NS_MAX).at(9), Some(71));
        assert_eq!(set(2 * VAGUE_NS_MAX + 2), PollClock::SYSTEM);
    }

    #[test]
    fn without_a_counter_it_is_the_system_s_clock() {
        let before_ns = monotonic_ns();
        let now_ns = PollClock::SYSTEM.now_ns();
        assert!((before_ns..=monotonic_ns()).contains(&now_ns));
    }

    #[test]
    fn a_counter_that_went_back_isn_t_asked() {
        let began_ns = monotonic_ns();
        let behind = PollClock {
            set_ticks: u64::MAX,
            set_ns: 0,
            ns_per_tick: 1 << FRACTION_BITS,
        };
        for now_ns in [behind.now_ns(), behind.end_ns(began_ns)] {
            assert!((began_ns..=monotonic_ns()).contains(&now_ns));
        }
    }

    #[test]
    fn a_counter_that_leapt_ahead_makes_no_hold() {
        let began_ns = monotonic_ns();
        // Each tick a second: whatever the counter is at, it seems to have run for ages.
        let ahead = PollClock {
            set_ticks: 0,
            set_ns: began_ns,
            ns_per_tick: 1_000_000_000 << FRACTION_BITS,
        };
        let end_ns = ahead.end_ns(began_ns);
        assert!((began_ns..=monotonic_ns()).contains(&end_ns));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "time must pass")]
    fn the_counter_of_this_machine_tells_the_system_s_time() {
        if !kernel_keeps_time_by_ticks() {
            eprintln!("skipped: the kernel doesn't keep time by the time stamp counter here");
            return;
        }
        let moments = [(); 3].map(|()| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            Moment::now()
        });
        let [first, second, third] = &moments;
        let ns_per_tick = ns_per_tick(first, second).expect("20 ms are enough");
        let clock = PollClock {
            set_ticks: second.ticks,
            set_ns: second.ns,
            ns_per_tick,
        };
        let told_ns = clock.at(third.ticks).expect("it goes on");
        let vague_ns = in_ns(second.vagueness + third.vagueness, ns_per_tick);
        let passed_ns = third.ns - second.ns;
        assert!(
            told_ns.abs_diff(third.ns) <= vague_ns + passed_ns / 1_000,
            "{moments:?}"
        );
    }
}
