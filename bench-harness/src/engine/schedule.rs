//! When arrivals are due: a pure, seeded function from their index to an offset.
//!
//! What answers do has no part in it, so a slow service can't hold back the arrivals that would
//! meet it (*coordinated omission*). Every stage has a fixed number of arrivals, its rate times
//! its length, so that both versions of a comparison are offered the same number. Poisson
//! arrivals are those of a Poisson process that had so many within the stage: the sums of
//! exponential gaps, scaled to its length (L. Devroye, *Non-Uniform Random Variate Generation*,
//! 1986, V.2.2: so scaled, they are sorted uniform variates).
//!
//! Several threads need no shared counter: each walks the same schedule and takes every n-th.

use std::sync::Arc;
use std::time::Duration;

use unstall_scenarios::plan::{Arrivals, Stage};

/// More arrivals than any block needs. Walking a schedule takes time for each.
const ARRIVALS_MAX: u64 = 1 << 32;

/// Why a schedule can't be followed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// No stage at all.
    #[error("the open load has no stage; give a rate and a duration")]
    Empty,
    /// A rate that is none.
    #[error("a rate of {rate} per second can't be offered; use a number above 0, up to 1000000")]
    Rate {
        /// What was given.
        rate: f64,
    },
    /// A stage without length.
    #[error("a stage of {rate} per second lasts no time; give it a duration")]
    NoTime {
        /// Its rate.
        rate: f64,
    },
    /// Too short for a single arrival.
    #[error("{rate} per second over {seconds} s makes no arrival; make it longer or faster")]
    NoArrival {
        /// Mean rate.
        rate: f64,
        /// Whole length.
        seconds: f64,
    },
    /// Too long to be walked.
    #[error("{arrivals} arrivals in one block are too many; use a shorter duration")]
    TooMany {
        /// As many as were asked for.
        arrivals: f64,
    },
}

/// Highest rate that may be asked for, arrivals per second.
pub(super) const RATE_MAX: f64 = 1_000_000.0;

/// A block's arrivals. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schedule {
    stages: Arc<[Planned]>,
    arrivals: Arrivals,
    seed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Planned {
    begins: Duration,
    lasts: Duration,
    arrivals: u64,
    /// Sum of all of its exponential gaps, the one after the last arrival included.
    gaps: f64,
}

impl Schedule {
    /// The schedule of these stages, one after the other. The same for the same seed.
    ///
    /// # Errors
    /// [`ScheduleError`] if there is nothing to follow, with what to do.
    pub fn new(arrivals: Arrivals, stages: &[Stage], seed: u64) -> Result<Self, ScheduleError> {
        if stages.is_empty() {
            return Err(ScheduleError::Empty);
        }
        let mut gaps = Gaps::new(seed);
        let mut planned = Vec::with_capacity(stages.len());
        let (mut begins, mut wanted, mut so_far) = (Duration::ZERO, 0.0, 0);
        for stage in stages {
            let rate = stage.rate;
            // Also false for what is no number.
            if !(rate > 0.0 && rate <= RATE_MAX) {
                return Err(ScheduleError::Rate { rate });
            }
            if stage.duration.is_zero() {
                return Err(ScheduleError::NoTime { rate });
            }
            // Rounded over the whole, so that many short stages lose nothing.
            wanted += rate * stage.duration.as_secs_f64();
            if wanted > ARRIVALS_MAX as f64 {
                return Err(ScheduleError::TooMany { arrivals: wanted });
            }
            let arrived = (wanted + 0.5) as u64;
            let count = arrived - so_far;
            so_far = arrived;
            planned.push(Planned {
                begins,
                lasts: stage.duration,
                arrivals: count,
                gaps: match arrivals {
                    Arrivals::Poisson => (0..=count).map(|_| gaps.draw()).sum(),
                    Arrivals::Constant => 0.0,
                },
            });
            begins += stage.duration;
        }
        if so_far == 0 {
            let seconds = begins.as_secs_f64();
            let rate = wanted / seconds;
            return Err(ScheduleError::NoArrival { rate, seconds });
        }
        Ok(Self {
            stages: planned.into(),
            arrivals,
            seed,
        })
    }

    /// How many arrivals there are.
    pub fn count(&self) -> u64 {
        self.stages.iter().map(|stage| stage.arrivals).sum()
    }

    /// How long it lasts: no arrival is due later.
    pub fn duration(&self) -> Duration {
        self.stages.iter().map(|stage| stage.lasts).sum()
    }

    /// When each arrival is due after the barrier, in order.
    pub fn offsets(&self) -> Offsets {
        Offsets {
            schedule: self.clone(),
            gaps: Gaps::new(self.seed),
            stage: 0,
            within: 0,
            sum: 0.0,
        }
    }
}

/// An iterator over the offsets of a [`Schedule`]. It never ends early and keeps no list.
#[derive(Debug, Clone)]
pub struct Offsets {
    schedule: Schedule,
    gaps: Gaps,
    stage: usize,
    /// Arrivals of this stage so far.
    within: u64,
    /// Gaps of this stage so far.
    sum: f64,
}

impl Iterator for Offsets {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let poisson = self.schedule.arrivals == Arrivals::Poisson;
        let stage = loop {
            let stage = *self.schedule.stages.get(self.stage)?;
            if self.within < stage.arrivals {
                break stage;
            }
            if poisson {
                // The gap after its last arrival.
                self.gaps.draw();
            }
            self.stage += 1;
            (self.within, self.sum) = (0, 0.0);
        };
        let share = if poisson {
            self.sum += self.gaps.draw();
            self.sum / stage.gaps
        } else {
            self.within as f64 / stage.arrivals as f64
        };
        self.within += 1;
        // Rounding must not carry it into the next stage.
        Some(stage.begins + stage.lasts.mul_f64(share.min(1.0)).min(stage.lasts))
    }
}

/// Exponential gaps of mean 1, the same for the same seed on every machine: SplitMix64 (Steele, Lea,
/// Flood, *Fast splittable pseudorandom number generators*, 2014), which is one number and can be
/// copied, and inversion.
#[derive(Debug, Clone, Copy)]
struct Gaps(u64);

impl Gaps {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // 53 bits, above 0 and up to 1, so that the logarithm exists.
        let uniform = ((mixed >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stage(rate: f64, ms: u64) -> Stage {
        Stage {
            rate,
            duration: Duration::from_millis(ms),
        }
    }

    fn schedule(arrivals: Arrivals, stages: &[Stage], seed: u64) -> Schedule {
        Schedule::new(arrivals, stages, seed).expect("a schedule")
    }

    #[test]
    fn constant_arrivals_have_equal_gaps() {
        let five = schedule(Arrivals::Constant, &[stage(5.0, 1_000)], 1);
        let offsets: Vec<u128> = five.offsets().map(|offset| offset.as_millis()).collect();
        assert_eq!(offsets, [0, 200, 400, 600, 800]);
        // One per second stays one per second.
        let slow = schedule(Arrivals::Constant, &[stage(1.0, 3_000)], 1);
        let offsets: Vec<u64> = slow.offsets().map(|offset| offset.as_secs()).collect();
        assert_eq!(offsets, [0, 1, 2]);
    }

    #[test]
    fn stages_follow_each_other() {
        let stages = [stage(10.0, 500), stage(40.0, 500)];
        let ramp = schedule(Arrivals::Constant, &stages, 1);
        assert_eq!(
            (ramp.count(), ramp.duration()),
            (25, Duration::from_secs(1))
        );
        let half = Duration::from_millis(500);
        assert_eq!(ramp.offsets().filter(|offset| *offset < half).count(), 5);
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        // Of exponential gaps with mean 1, the share above 1 is 1/e, and their variance is 1.
        let many = schedule(Arrivals::Poisson, &[stage(1_000.0, 50_000)], 7);
        let offsets: Vec<f64> = many.offsets().map(|offset| offset.as_secs_f64()).collect();
        let gaps: Vec<f64> = offsets
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) * 1_000.0)
            .collect();
        let count = gaps.len() as f64;
        let long = gaps.iter().filter(|gap| **gap > 1.0).count() as f64 / count;
        assert!((long - 1.0f64.exp().recip()).abs() < 0.01, "{long}");
        let variance = gaps.iter().map(|gap| (gap - 1.0).powi(2)).sum::<f64>() / count;
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn what_can_not_be_offered_is_refused() {
        let refused = |stages: &[Stage]| {
            Schedule::new(Arrivals::Constant, stages, 0)
                .expect_err("no schedule")
                .to_string()
        };
        assert!(refused(&[]).contains("no stage"));
        assert!(refused(&[stage(0.0, 100)]).contains("above 0"));
        assert!(refused(&[stage(f64::NAN, 100)]).contains("above 0"));
        assert!(refused(&[stage(2e6, 100)]).contains("1000000"));
        assert!(refused(&[stage(5.0, 0)]).contains("no time"));
        assert!(refused(&[stage(0.1, 1_000)]).contains("no arrival"));
        assert!(refused(&[stage(1e6, 10_000_000)]).contains("too many"));
    }

    fn stages() -> impl Strategy<Value = Vec<Stage>> {
        let one = (0.5f64..2_000.0, 1u64..2_000).prop_map(|(rate, ms)| stage(rate, ms));
        prop::collection::vec(one, 1..5)
    }

    fn kinds() -> impl Strategy<Value = Arrivals> {
        prop_oneof![Just(Arrivals::Constant), Just(Arrivals::Poisson)]
    }

    proptest! {
        #[test]
        fn schedules_are_monotone_and_have_the_rate_asked_for(
            arrivals in kinds(), stages in stages(), seed: u64,
        ) {
            let Ok(schedule) = Schedule::new(arrivals, &stages, seed) else {
                // Too short for one arrival.
                return Ok(());
            };
            let offsets: Vec<Duration> = schedule.offsets().collect();
            prop_assert_eq!(offsets.len() as u64, schedule.count());
            prop_assert!(offsets.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert!(offsets.iter().all(|offset| *offset <= schedule.duration()));
            // Within one arrival of the exact number, at each stage's end.
            let (mut begins, mut wanted) = (Duration::ZERO, 0.0);
            for stage in &stages {
                begins += stage.duration;
                wanted += stage.rate * stage.duration.as_secs_f64();
                let came = offsets.iter().filter(|offset| **offset < begins).count() as f64;
                prop_assert!((came - wanted).abs() <= 1.5, "{came} of {wanted}");
            }
        }

        #[test]
        fn equal_seeds_make_equal_schedules(stages in stages(), seed: u64) {
            let Ok(schedule) = Schedule::new(Arrivals::Poisson, &stages, seed) else {
                return Ok(());
            };
            let again = Schedule::new(Arrivals::Poisson, &stages, seed).expect("as before");
            prop_assert!(schedule.offsets().eq(again.offsets()));
            let other = Schedule::new(Arrivals::Poisson, &stages, !seed).expect("as before");
            prop_assert!(!schedule.offsets().eq(other.offsets()));
        }

        #[test]
        fn threads_share_a_schedule_without_a_counter(
            stages in stages(), seed: u64, threads in 1usize..5,
        ) {
            let Ok(schedule) = Schedule::new(Arrivals::Poisson, &stages, seed) else {
                return Ok(());
            };
            let mut joined: Vec<Duration> = (0..threads)
                .flat_map(|thread| schedule.offsets().skip(thread).step_by(threads))
                .collect();
            joined.sort();
            prop_assert!(joined.into_iter().eq(schedule.offsets()));
        }
    }
}
