//! What trials say of a capacity: a posterior over its logarithm.
//!
//! A block at rate `r` holds its objective with the probability
//! ε + (1 − 2ε)·Φ((ln capacity − ln r) ÷ spread): the psychometric function of threshold
//! estimation, upside down. The spread, how gradually holding turns into failing, is not known
//! and is integrated over. ε is the share of blocks that something else decided.
//! (Watson and Pelli, QUEST, 1983; with the spread unknown King-Smith and Rose, 1997.)

use super::normal;

/// Standard deviations of ln rate: from a service that fails all at once to one whose blocks
/// differ by a fifth.
const SPREADS: [f64; 6] = [0.005, 0.012, 0.03, 0.06, 0.11, 0.2];
/// How likely each is before the first trial: services that fail all at once are the rule.
const SPREADS_PRIOR: [f64; 6] = [0.24, 0.21, 0.18, 0.15, 0.12, 0.1];
/// ε: one block in fifty is decided by a hiccup, either way.
const LAPSE: f64 = 0.02;
/// Cells per interval that is asked for.
const CELLS_PER_PRECISION: f64 = 10.0;
/// How far the grid reaches beyond the rates that may be tried, as a factor.
const MARGIN: f64 = 4.0;
/// Weights below this share of all are left out of ratios.
const NEGLIGIBLE: f64 = 1e-9;

/// A posterior on a grid of equal steps of ln capacity.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Belief {
    ln_low: f64,
    step: f64,
    /// Of each capacity and each spread; they add up to 1.
    weights: Vec<[f64; SPREADS.len()]>,
}

impl Belief {
    /// Any capacity between these rates, and some beyond, is as likely as another.
    pub(super) fn flat(lowest: f64, highest: f64, precision: f64) -> Self {
        let ln_low = (lowest / MARGIN).ln();
        let ln_high = (highest * MARGIN).ln();
        let step = precision.ln_1p() / CELLS_PER_PRECISION;
        let cells = ((ln_high - ln_low) / step).ceil() as usize + 1;
        let even = SPREADS_PRIOR.map(|share| share / cells as f64);
        Self {
            ln_low,
            step,
            weights: vec![even; cells],
        }
    }

    /// Takes a block at `rate` into account.
    pub(super) fn learn(&mut self, rate: f64, held: bool) {
        let ln_rate = rate.ln();
        let mut sum = 0.0;
        for (cell, weights) in self.weights.iter_mut().enumerate() {
            let distance = self.ln_low + self.step * cell as f64 - ln_rate;
            for (weight, spread) in weights.iter_mut().zip(SPREADS) {
                let holds = LAPSE + (1.0 - 2.0 * LAPSE) * normal::distribution(distance / spread);
                *weight *= if held { holds } else { 1.0 - holds };
                sum += *weight;
            }
        }
        // ε keeps every factor above 0, so the sum is.
        for weight in self.weights.iter_mut().flatten() {
            *weight /= sum;
        }
    }

    /// The rate below which the capacity lies with probability `q`.
    pub(super) fn quantile(&self, q: f64) -> f64 {
        let mut below = 0.0;
        for (cell, weight) in self.capacities().enumerate() {
            if below + weight >= q {
                let within = if weight > 0.0 {
                    (q - below) / weight
                } else {
                    0.5
                };
                return (self.ln_low + self.step * (cell as f64 + within - 0.5)).exp();
            }
            below += weight;
        }
        (self.ln_low + self.step * self.weights.len() as f64).exp()
    }

    /// The probability that the capacity is at least `rate`.
    pub(super) fn at_least(&self, rate: f64) -> f64 {
        let edge = (rate.ln() - self.ln_low) / self.step;
        let cells = self.capacities().enumerate();
        cells
            .filter(|(cell, _)| *cell as f64 >= edge)
            .map(|(_, weight)| weight)
            .sum()
    }

    /// Quantiles of the other capacity ÷ this one, both taken as independent.
    pub(super) fn ratio_quantiles<const N: usize>(&self, other: &Self, q: [f64; N]) -> [f64; N] {
        // Both grids are of the same search's bounds, so that a ratio is a number of steps.
        let own_cells = self.weights.len();
        let mut by_steps = vec![0.0; own_cells + other.weights.len()];
        for (below, weight_below) in self.likely() {
            for (above, weight_above) in other.likely() {
                by_steps[above + own_cells - below] += weight_above * weight_below;
            }
        }
        let total: f64 = by_steps.iter().sum();
        q.map(|q| {
            let mut reached = 0.0;
            let found = by_steps.iter().position(|weight| {
                reached += weight;
                reached > 0.0 && reached >= q * total
            });
            let steps = found.map_or(0.0, |index| index as f64 - own_cells as f64);
            (steps * self.step + other.ln_low - self.ln_low).exp()
        })
    }

    /// Each capacity that matters, by its cell, with its weight.
    fn likely(&self) -> Vec<(usize, f64)> {
        let cells = self.capacities().enumerate();
        cells.filter(|(_, weight)| *weight > NEGLIGIBLE).collect()
    }

    /// The weight of each capacity, whatever the spread.
    fn capacities(&self) -> impl Iterator<Item = f64> {
        self.weights.iter().map(|spreads| spreads.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_trial_the_middle_is_the_middle() {
        let belief = Belief::flat(10.0, 1_000.0, 0.05);
        assert!((belief.quantile(0.5) / 100.0 - 1.0).abs() < 0.01);
        assert!((belief.at_least(100.0) - 0.5).abs() < 0.01);
        assert!(belief.quantile(0.0) <= belief.quantile(1.0));
    }

    #[test]
    fn trials_on_both_sides_enclose_it() {
        let mut belief = Belief::flat(10.0, 1_000.0, 0.05);
        for _ in 0..4 {
            belief.learn(190.0, true);
            belief.learn(210.0, false);
        }
        let (low, high) = (belief.quantile(0.025), belief.quantile(0.975));
        assert!(low > 170.0 && high < 235.0, "{low} {high}");
        // One that contradicts the others is taken for a hiccup.
        belief.learn(50.0, false);
        assert!((belief.quantile(0.5) - 200.0).abs() < 8.0);
    }

    #[test]
    fn twice_the_capacity_is_a_ratio_of_two() {
        let at = |capacity: f64| {
            let mut belief = Belief::flat(10.0, 1_000.0, 0.05);
            for _ in 0..3 {
                belief.learn(capacity * 0.97, true);
                belief.learn(capacity * 1.03, false);
            }
            belief
        };
        let same = at(100.0).ratio_quantiles(&at(100.0), [0.025, 0.5, 0.975]);
        assert!((same[1] - 1.0).abs() < 0.01 && (same[0] * same[2] - 1.0).abs() < 0.02);
        let [low, middle, high] = at(100.0).ratio_quantiles(&at(200.0), [0.025, 0.5, 0.975]);
        assert!((middle - 2.0).abs() < 0.02, "{middle}");
        assert!(
            low < 1.97 && high > 2.03 && low > 1.6 && high < 2.5,
            "{low} {high}"
        );
    }
}
