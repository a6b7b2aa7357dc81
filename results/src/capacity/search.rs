//! Which rate to try next: a pure function of the rates that were tried.
//!
//! From a low rate the load is doubled until a block fails: that brackets the capacity. From
//! then on each block runs at the median of what is believed, which halves the belief whichever
//! way the block ends (probabilistic bisection: Horstein, 1963; Waeber, Frazier and Henderson,
//! 2013). A block that contradicts the others weighs against them and decides nothing alone, so
//! that no single hiccup leads the search astray.

use super::belief::Belief;

/// The level of intervals.
pub const CONFIDENCE: f64 = 0.95;
const TAIL: f64 = (1.0 - CONFIDENCE) / 2.0;
/// Fewer trials than this around the capacity aren't an estimate, however much they agree.
const TRIALS_OF_EACH_KIND_MIN: usize = 2;
/// Where the load generator gives up this close above a rate that held, there is no point in
/// going nearer.
const CEILING_RATIO: f64 = 1.2;

/// What a search may do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The first rate, per second.
    pub from: f64,
    /// No rate below this is tried.
    pub lowest: f64,
    /// No rate above this is tried.
    pub highest: f64,
    /// Half the interval's width that is aimed at, as a share: 0.05 for ±5 %.
    pub precision: f64,
    /// No more trials than this.
    pub trials_max: usize,
}

/// One block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Offered rate, per second.
    pub rate: f64,
    /// What came of it.
    pub end: TrialEnd,
}

/// What came of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialEnd {
    /// The service held its objective.
    Held,
    /// It did not.
    Failed,
    /// The load generator could not offer the rate: nothing is known of the service.
    Spoilt,
    /// Nothing that the objective is about was sent: alternatives that were not drawn.
    Idle,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Measure a block at this rate.
    Measure(f64),
    /// It is known well enough, or can't be known.
    Done(Capacity),
}

/// The highest rate at which an objective holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Capacity {
    /// Half of the blocks at `rate` would hold it; with probability [`CONFIDENCE`] that rate is
    /// between `low` and `high`.
    Found {
        /// Per second.
        rate: f64,
        /// Lower end of the interval.
        low: f64,
        /// Upper end.
        high: f64,
        /// Whether the interval is as narrow as was asked for.
        is_precise: bool,
    },
    /// It held at `rate`, and no more was tried.
    AtLeast {
        /// Per second.
        rate: f64,
        /// Why not.
        because: Ceiling,
    },
    /// It failed at the lowest rate that may be tried.
    Below {
        /// That rate, per second.
        rate: f64,
    },
    /// Stopped before anything can be said.
    Unknown,
}

/// Why a higher rate was not tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ceiling {
    /// [`Bounds::highest`].
    Asked,
    /// The search ended before: by its number of blocks, or because it was stopped.
    Ended,
    /// The load generator.
    Generator,
}

/// Blocks at a rate that have to be spoilt before the load generator is held to be unable to offer
/// it: two that were measured twice.
const SPOILT_MIN: usize = 4;
/// Rates whose logarithms are nearer than this are one.
const SAME: f64 = 0.01;

/// A search with what it has seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    bounds: Bounds,
    trials: Vec<Trial>,
    belief: Belief,
}

impl Search {
    /// One that has seen nothing.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            trials: Vec::new(),
            belief: Belief::flat(bounds.lowest, bounds.highest, bounds.precision),
        }
    }

    /// Takes a trial into account.
    pub fn learn(&mut self, trial: Trial) {
        match trial.end {
            TrialEnd::Held => self.belief.learn(trial.rate, true),
            TrialEnd::Failed => self.belief.learn(trial.rate, false),
            TrialEnd::Spoilt | TrialEnd::Idle => {}
        }
        self.trials.push(trial);
    }

    /// All trials, in order.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The rate at which, or above, as many blocks held as it takes: the fastest may have held by
    /// chance.
    pub(super) fn surely_held(&self) -> Option<f64> {
        let mut held: Vec<f64> = self.rates(TrialEnd::Held).collect();
        held.sort_by(|left, right| right.total_cmp(left));
        held.get(TRIALS_OF_EACH_KIND_MIN - 1).copied()
    }

    /// What it believes, for a ratio.
    pub(super) fn belief(&self) -> &Belief {
        &self.belief
    }

    /// What to do next.
    pub fn step(&self) -> Step {
        match self.end() {
            Some(capacity) => Step::Done(capacity),
            None => Step::Measure(self.rate()),
        }
    }

    /// What is known when nothing more is measured.
    pub fn close(&self) -> Capacity {
        self.end().unwrap_or_else(|| self.estimate())
    }

    /// The rate of the next block, also of one that only makes the estimate better.
    pub fn rate(&self) -> f64 {
        let from = self.bounds.from;
        let held = self.fastest_held();
        let rate = match (held, self.slowest_failed()) {
            (None, None) => from,
            (Some(held), None) => 2.0 * held,
            (None, Some(failed)) => 0.5 * failed,
            // Never a leap: it would be an attack and not a question.
            (Some(held), Some(_)) => self.belief.quantile(0.5).min(2.0 * held),
        };
        let rate = self.bounds.offered(rate);
        match (self.ceiling(), held) {
            (Some(ceiling), Some(held)) if is_reached(ceiling, rate) => {
                self.bounds.offered((held * ceiling).sqrt())
            }
            (Some(ceiling), None) if is_reached(ceiling, rate) => {
                self.bounds.offered(0.5 * ceiling)
            }
            _ => rate,
        }
    }

    fn end(&self) -> Option<Capacity> {
        let Bounds {
            lowest,
            highest,
            trials_max,
            ..
        } = self.bounds;
        let held = self.fastest_held();
        if let Some(rate) = held.filter(|rate| is_reached(highest, *rate))
            && self.belief.at_least(rate) >= 1.0 - TAIL
        {
            let because = Ceiling::Asked;
            return Some(Capacity::AtLeast { rate, because });
        }
        match (held, self.ceiling()) {
            (Some(rate), Some(ceiling))
                if ceiling <= rate * CEILING_RATIO
                    && self.slowest_failed().is_none_or(|failed| failed > ceiling)
                    && self.belief.at_least(ceiling) >= 0.5 =>
            {
                let because = Ceiling::Generator;
                return Some(Capacity::AtLeast { rate, because });
            }
            (None, Some(ceiling)) if is_reached(ceiling, lowest) => {
                return Some(Capacity::Unknown);
            }
            _ => {}
        }
        if self.count(TrialEnd::Failed) >= TRIALS_OF_EACH_KIND_MIN
            && self.belief.at_least(lowest) <= TAIL
        {
            return Some(Capacity::Below { rate: lowest });
        }
        let estimate = self.estimate();
        let is_precise = matches!(
            estimate,
            Capacity::Found {
                is_precise: true,
                ..
            }
        );
        let enough = [TrialEnd::Held, TrialEnd::Failed]
            .into_iter()
            .all(|end| self.count(end) >= TRIALS_OF_EACH_KIND_MIN);
        (is_precise && enough || self.trials.len() >= trials_max).then_some(estimate)
    }

    /// The interval that the trials so far give.
    fn estimate(&self) -> Capacity {
        match (self.fastest_held(), self.slowest_failed()) {
            (Some(_), Some(_)) => self.interval(),
            (Some(rate), None) => Capacity::AtLeast {
                rate,
                because: match self.ceiling() {
                    Some(_) => Ceiling::Generator,
                    None if is_reached(self.bounds.highest, rate) => Ceiling::Asked,
                    None => Ceiling::Ended,
                },
            },
            // One block decides nothing.
            (None, Some(rate)) if self.count(TrialEnd::Failed) >= TRIALS_OF_EACH_KIND_MIN => {
                Capacity::Below { rate }
            }
            (None, _) => Capacity::Unknown,
        }
    }

    fn interval(&self) -> Capacity {
        let (low, high) = (self.belief.quantile(TAIL), self.belief.quantile(1.0 - TAIL));
        let rate = self.belief.quantile(0.5);
        let within = 1.0 + self.bounds.precision;
        Capacity::Found {
            rate,
            low,
            high,
            is_precise: high <= rate * within && low >= rate / within,
        }
    }

    fn count(&self, end: TrialEnd) -> usize {
        self.trials.iter().filter(|trial| trial.end == end).count()
    }

    fn rates(&self, end: TrialEnd) -> impl Iterator<Item = f64> {
        let trials = self.trials.iter().filter(move |trial| trial.end == end);
        trials.map(|trial| trial.rate)
    }

    fn fastest_held(&self) -> Option<f64> {
        self.rates(TrialEnd::Held).reduce(f64::max)
    }

    fn slowest_failed(&self) -> Option<f64> {
        self.rates(TrialEnd::Failed).reduce(f64::min)
    }

    /// The lowest rate that the load generator could not offer, above all that it could. One that
    /// was spoilt less often may have met a busy moment, and is tried again.
    fn ceiling(&self) -> Option<f64> {
        let offered = self.fastest_held().unwrap_or(0.0);
        let spoilt = || self.rates(TrialEnd::Spoilt);
        let times = |rate: f64| {
            spoilt()
                .filter(|other| (other / rate).ln().abs() < SAME)
                .count()
        };
        spoilt()
            .filter(|rate| *rate > offered && times(*rate) >= SPOILT_MIN)
            .reduce(f64::min)
    }
}

impl Bounds {
    /// A rate as it is offered: of three digits, and an end itself where it is as good as one.
    fn offered(&self, rate: f64) -> f64 {
        let rounded = rounded(rate);
        if is_reached(self.highest, rounded) {
            self.highest
        } else if is_reached(rounded, self.lowest) {
            self.lowest
        } else {
            rounded
        }
    }
}

/// Whether a rate is at least `goal`, or one that nobody would tell apart from it.
fn is_reached(goal: f64, rate: f64) -> bool {
    (goal / rate).ln() < SAME
}

/// Three digits: what nobody would tell apart is one rate.
fn rounded(rate: f64) -> f64 {
    let unit = 10f64.powf(rate.log10().floor() - 2.0);
    (rate / unit).round() * unit
}
