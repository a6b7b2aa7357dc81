//! The test behind every verdict: signs of whole pairs are flipped.
//!
//! If the arms do not differ, their order within a pair is a coin's toss (the
//! schedule tosses it), so each pair's difference may as well have the other
//! sign. The statistic T = mean ÷ standard error is computed anew for each flip,
//! standard error included: with a fixed one, an improvement in some cells would
//! hide a regression in others. The same flips serve all cells of a family, and
//! the largest T among them gives p values that hold for the family as a whole
//! (Westfall and Young's step-down maxT).

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Up to this many pairs all 2ᴾ flips are used.
const EXACT_PAIRS_MAX: usize = 12;
/// Beyond, this many random ones, the identity among them.
const RANDOM_FLIPS: usize = 10_000;
/// No level below it: the flips can tell no smaller p well, and none at all from a tenth of it on.
pub(crate) const ALPHA_MIN: f64 = 0.001;
/// The part of a level that a look needs at least.
pub(crate) const ALPHA_OF_LOOK_MIN: f64 = 2.0 / RANDOM_FLIPS as f64;
/// Ties are forgiven this much, relative to the values: sums in another order
/// must not decide.
const TIE: f64 = 1e-9;

/// A set of sign flips of `pairs` differences; the first is the identity.
#[derive(Debug, Clone)]
pub(crate) struct SignFlips {
    pairs: usize,
    count: usize,
    /// 1 or −1, all flips of the first pair, then of the second, …: sums over all flips
    /// at once are several times as fast as one flip after the other.
    signs: Vec<f64>,
    /// For each flip, how many differences change their sign: every bound asks for it.
    flipped: Vec<f64>,
}

/// One cell's differences, larger is worse.
#[derive(Debug, Clone)]
pub(crate) struct TestCell {
    /// One per pair, with the margin subtracted: "not worse" is ≤ 0.
    pub(crate) differences: Vec<f64>,
    /// The standard error is never below this: what the metric can resolve.
    pub(crate) standard_error_min: f64,
}

impl SignFlips {
    /// All flips up to 12 pairs, else 10 000 seeded ones.
    pub(crate) fn new(pairs: usize, seed: u64) -> Self {
        let sign = |flipped: bool| if flipped { -1.0 } else { 1.0 };
        if pairs <= EXACT_PAIRS_MAX {
            let count = 1usize << pairs;
            let signs = (0..pairs)
                .flat_map(|pair| (0..count).map(move |flip| sign(flip >> pair & 1 == 1)))
                .collect();
            return Self::of_signs(pairs, count, signs);
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut signs = Vec::with_capacity(pairs * RANDOM_FLIPS);
        for _ in 0..pairs {
            signs.push(1.0);
            signs.extend((1..RANDOM_FLIPS).map(|_| sign(rng.random())));
        }
        Self::of_signs(pairs, RANDOM_FLIPS, signs)
    }

    fn of_signs(pairs: usize, count: usize, signs: Vec<f64>) -> Self {
        let mut flips = Self {
            pairs,
            count,
            signs,
            flipped: Vec::new(),
        };
        // Kept minus flipped is the sum of the signs.
        let kept_more = flips.sums(&vec![1.0; pairs]).into_iter();
        flips.flipped = kept_more.map(|more| (pairs as f64 - more) / 2.0).collect();
        flips
    }

    /// How many flips there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// For each flip the sum of the differences with its signs.
    fn sums(&self, differences: &[f64]) -> Vec<f64> {
        assert_eq!(differences.len(), self.pairs, "one difference per pair");
        let mut sums = vec![0.0; self.count];
        for (signs, difference) in self.signs.chunks_exact(self.count).zip(differences) {
            for (sum, sign) in sums.iter_mut().zip(signs) {
                *sum += sign * difference;
            }
        }
        sums
    }

    /// Step-down maxT adjusted, one-sided p values of "this cell's mean
    /// difference is not above 0", valid for all cells together.
    ///
    /// # Panics
    /// If a cell has another number of differences than there are pairs.
    pub(crate) fn test(&self, cells: &[TestCell]) -> Vec<f64> {
        let statistics: Vec<Vec<f64>> = cells.iter().map(|cell| self.statistics(cell)).collect();
        let mut order: Vec<usize> = (0..cells.len()).collect();
        // Least significant first: the running maximum then covers exactly the cells
        // that a step-down still has to consider.
        order.sort_by(|a, b| statistics[*a][0].total_cmp(&statistics[*b][0]));
        let mut largest = vec![f64::NEG_INFINITY; self.count()];
        let mut p = vec![1.0; cells.len()];
        for cell in &order {
            for (best, t) in largest.iter_mut().zip(&statistics[*cell]) {
                *best = best.max(*t);
            }
            let observed = statistics[*cell][0];
            let reached = observed - TIE * observed.abs().max(1.0);
            let as_large = largest.iter().filter(|t| **t >= reached).count();
            p[*cell] = as_large as f64 / largest.len() as f64;
        }
        for pair in order.windows(2).rev() {
            p[pair[0]] = p[pair[0]].max(p[pair[1]]);
        }
        p
    }

    /// The T that a lone cell must reach at α given its family's noise: the upper α
    /// point of the largest T when every cell is centred at its mean.
    ///
    /// # Panics
    /// As [`Self::test`].
    pub(crate) fn critical_t(&self, cells: &[TestCell], alpha: f64) -> f64 {
        let mut largest = vec![f64::NEG_INFINITY; self.count()];
        for cell in cells {
            let mean = cell.differences.iter().sum::<f64>() / self.pairs.max(1) as f64;
            let centred = TestCell {
                differences: cell.differences.iter().map(|d| d - mean).collect(),
                standard_error_min: cell.standard_error_min,
            };
            for (best, t) in largest.iter_mut().zip(self.statistics(&centred)) {
                *best = best.max(t);
            }
        }
        largest.sort_by(f64::total_cmp);
        let above = (alpha * largest.len() as f64).floor() as usize;
        largest[largest.len() - 1 - above.min(largest.len() - 1)]
    }

    /// T of every flip, the observed one first.
    fn statistics(&self, cell: &TestCell) -> Vec<f64> {
        let n = self.pairs.max(1) as f64;
        let squares: f64 = cell.differences.iter().map(|d| d * d).sum();
        let mut statistics = self.sums(&cell.differences);
        for statistic in &mut statistics {
            let mean = *statistic / n;
            // Squares do not change with their sign, so the variance needs the mean only.
            let variance = (squares - n * mean * mean).max(0.0) / (n - 1.0).max(1.0);
            let error = (variance / n)
                .sqrt()
                .max(cell.standard_error_min)
                .max(f64::MIN_POSITIVE);
            *statistic = mean / error;
        }
        statistics
    }

    /// T of every flip with the standard error of the unflipped differences: what must not be
    /// done, for whoever shows why.
    #[cfg(any(test, feature = "synthetic"))]
    pub(crate) fn statistics_of_fixed_error(&self, cell: &TestCell) -> Vec<f64> {
        let observed = self.statistics(cell)[0];
        let mut sums = self.sums(&cell.differences);
        let error = (sums[0] / observed).abs().max(f64::MIN_POSITIVE);
        for sum in &mut sums {
            *sum /= error;
        }
        sums
    }

    /// One-sided lower confidence bound at `alpha` of the mean difference: all
    /// values below it are rejected by this very test.
    ///
    /// For one cell T grows with the mean of the flipped differences, so the
    /// test rejects a value θ exactly when fewer than α of the flips have a mean
    /// of their *flipped* pairs at or below θ: the bound is an order statistic of
    /// those means, no search is needed and nothing is approximated. `None` with
    /// too few pairs (2⁻ᴾ > α).
    pub(crate) fn lower_bound(&self, differences: &[f64], alpha: f64) -> Option<f64> {
        let allowed = (alpha * self.count as f64 * (1.0 + TIE)).floor() as usize;
        if allowed == 0 || differences.is_empty() {
            return None;
        }
        let total: f64 = differences.iter().sum();
        let sums = self.sums(differences);
        let mut means: Vec<f64> = sums
            .iter()
            .zip(&self.flipped)
            .filter(|(_, flipped)| **flipped > 0.5)
            // Kept minus flipped is known of the values, as of their number.
            .map(|(sum, flipped)| (total - sum) / 2.0 / flipped)
            .collect();
        let position = allowed.min(means.len()) - 1;
        let (_, bound, _) = means.select_nth_unstable_by(position, f64::total_cmp);
        Some(*bound)
    }

    /// The same on the other side.
    pub(crate) fn upper_bound(&self, differences: &[f64], alpha: f64) -> Option<f64> {
        let mirrored: Vec<f64> = differences.iter().map(|d| -d).collect();
        self.lower_bound(&mirrored, alpha).map(|bound| -bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cell(differences: &[f64]) -> TestCell {
        TestCell {
            differences: differences.to_vec(),
            standard_error_min: 1e-6,
        }
    }

    fn p_of(differences: &[f64]) -> f64 {
        SignFlips::new(differences.len(), 1).test(&[cell(differences)])[0]
    }

    #[test]
    fn small_cases_by_hand() {
        assert_eq!(p_of(&[1.0, 2.0, 3.0]), 1.0 / 8.0);
        assert_eq!(p_of(&[-1.0, 2.0, 3.0]), 2.0 / 8.0);
        assert_eq!(p_of(&[0.0, 0.0]), 1.0);
        assert_eq!(p_of(&[]), 1.0);
        // All five up: the least that five pairs can give.
        assert_eq!(p_of(&[1.0; 5]), 1.0 / 32.0);
    }

    #[test]
    fn darwins_plants() {
        // Fisher, The Design of Experiments, §21: 863 of 32 768 flips have a sum as
        // large as that of Darwin's 15 pairs, 26.3‰; sampled here.
        let maize = [
            49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0,
            -48.0,
        ];
        let p = p_of(&maize);
        assert!((p - 863.0 / 32_768.0).abs() < 0.006, "{p}");
    }

    #[test]
    fn other_cells_that_improve_do_not_hide_a_regression() {
        let worse: Vec<f64> = (0..10).map(|i| 0.1 + 0.01 * f64::from(i % 3)).collect();
        let better: Vec<f64> = (0..10).map(|i| -0.9 - 0.1 * f64::from(i % 4)).collect();
        let cells = [cell(&better), cell(&worse), cell(&better)];
        let adjusted = SignFlips::new(10, 1).test(&cells);
        assert!(adjusted[1] <= 0.01, "{adjusted:?}");
        assert_eq!(adjusted[0], 1.0);
    }

    #[test]
    fn beside_an_improvement_it_takes_a_pair_more() {
        for (pairs, smallest) in [(5, 2.0 / 32.0), (6, 2.0 / 64.0)] {
            let cells = [cell(&vec![-1.0; pairs]), cell(&vec![0.5; pairs])];
            assert_eq!(SignFlips::new(pairs, 1).test(&cells)[1], smallest);
        }
    }

    #[test]
    fn bounds_exist_from_five_pairs() {
        let four = SignFlips::new(4, 1);
        assert_eq!(four.lower_bound(&[1.0; 4], 0.05), None);
        let five = SignFlips::new(5, 1);
        assert_eq!(
            five.lower_bound(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.05),
            Some(1.0)
        );
        assert_eq!(
            five.upper_bound(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.05),
            Some(5.0)
        );
    }

    proptest! {
        #[test]
        fn bounds_agree_with_the_test(differences in prop::collection::vec(-1.0..1.0f64, 5..10)) {
            let flips = SignFlips::new(differences.len(), 1);
            let bound = flips.lower_bound(&differences, 0.05).unwrap();
            let p_against = |value: f64| {
                let shifted: Vec<f64> = differences.iter().map(|d| d - value).collect();
                flips.test(&[cell(&shifted)])[0]
            };
            prop_assert!(p_against(bound - 1e-4) <= 0.05);
            prop_assert!(p_against(bound + 1e-4) > 0.05);
        }

        #[test]
        fn adjusted_p_is_never_below_the_lone_one(
            first in prop::collection::vec(-1.0..1.0f64, 8),
            second in prop::collection::vec(-1.0..1.0f64, 8),
        ) {
            let flips = SignFlips::new(8, 1);
            let both = flips.test(&[cell(&first), cell(&second)]);
            prop_assert!(both[0] >= p_of(&first) - 1e-12);
            prop_assert!(both[1] >= p_of(&second) - 1e-12);
        }
    }
}
