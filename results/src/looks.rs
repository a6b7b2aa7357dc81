//! Looking at a comparison more than once, and paying for it.
//!
//! Who looks after 10 pairs, after 16 and after 24, and each time tests at .05, finds a
//! difference that isn't there far more often than one time in 20. So the looks are planned
//! before the first block and share one α: each has a part of its own, and the parts add up. By
//! Bonferroni's inequality all looks together are then wrong with at most α, whatever the data,
//! and wherever the session stops.
//!
//! The parts grow: of α a session with K looks has spent (i² + 1) ÷ (K² + 1) after its i-th look,
//! which makes .01, .015 and .025 of .05 for three. That is the quadratic member of the power
//! family of spending functions (Kim and DeMets, 1987), with one unit more for the first look,
//! whose part would otherwise be too small for few pairs to reach.

use crate::comparison::{Cell, Looks, Outcome};

/// The parts of `alpha` of `count` looks, in order. They add up to it.
pub fn alphas(count: usize, alpha: f64) -> Vec<f64> {
    let all = (count * count + 1) as f64;
    (1..=count)
        .map(|look| {
            let units = if look == 1 { 2 } else { 2 * look - 1 };
            alpha * units as f64 / all
        })
        .collect()
}

/// Where a session stands among its looks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Standing {
    /// Pairs that are judged: all that are complete, or those up to the look that was reached.
    pub(crate) pairs: usize,
    /// The level of every test and bound.
    pub(crate) alpha: f64,
    /// `None` where one look was planned, after all pairs.
    pub(crate) looks: Option<Looks>,
}

impl Standing {
    /// With `complete` pairs of a session that planned `looks` (empty: one, after all pairs).
    ///
    /// Between two looks it stands at the earlier one, with the pairs of that: who judged later
    /// pairs, too, would look once more than was planned.
    pub(crate) fn of(looks: &[u32], complete: usize, alpha: f64) -> Self {
        if looks.is_empty() {
            return Self {
                pairs: complete,
                alpha,
                looks: None,
            };
        }
        let alphas = alphas(looks.len(), alpha);
        let reached = looks.iter().rposition(|pairs| *pairs as usize <= complete);
        Self {
            pairs: reached.map_or(complete, |look| looks[look] as usize),
            alpha: alphas[reached.unwrap_or(0)],
            looks: Some(Looks {
                planned: looks.to_vec(),
                alphas,
                reached,
            }),
        }
    }

    /// Before the first look no cell says what its tests say: that would be a look.
    pub(crate) fn hold_back(&self, cells: &mut [Cell]) {
        let Some(looks) = self.looks.as_ref().filter(|looks| looks.reached.is_none()) else {
            return;
        };
        for cell in cells {
            if matches!(
                cell.outcome,
                Outcome::Regression | Outcome::Improvement | Outcome::WithinLimit
            ) {
                cell.outcome = Outcome::Inconclusive {
                    pairs_needed: looks.planned.first().copied(),
                };
            }
        }
    }
}

impl Looks {
    /// The number of the look at which a comparison stands, from 1; 0 before the first.
    pub fn number(&self) -> usize {
        self.reached.map_or(0, |look| look + 1)
    }

    /// True if no further look was planned.
    pub fn is_last(&self) -> bool {
        self.number() == self.planned.len()
    }

    /// α of all looks together.
    pub fn alpha_of_all(&self) -> f64 {
        self.alphas.iter().sum()
    }

    /// Where it stands, one sentence.
    pub fn sentence(&self) -> String {
        let Some(look) = self.reached else {
            let first = self.planned.first().copied().unwrap_or(0);
            return format!(
                "The first of {} looks comes after {first} pairs.",
                self.planned.len()
            );
        };
        format!(
            "Judged at look {} of {}, after {} pairs, at α = {}: all looks together have {}.",
            look + 1,
            self.planned.len(),
            self.planned[look],
            level(self.alphas[look]),
            level(self.alpha_of_all()),
        )
    }
}

/// A significance level with the digits that it needs: `0.05`, `0.015`.
pub(crate) fn level(alpha: f64) -> String {
    let text = format!("{alpha:.4}");
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_looks_split_alpha_as_documented() {
        let close = |found: Vec<f64>, expected: &[f64]| {
            assert_eq!(found.len(), expected.len());
            for (one, other) in found.iter().zip(expected) {
                assert!((one - other).abs() < 1e-12, "{found:?}");
            }
        };
        close(alphas(3, 0.05), &[0.01, 0.015, 0.025]);
        close(alphas(2, 0.05), &[0.02, 0.03]);
        close(alphas(1, 0.05), &[0.05]);
        for count in 1..20 {
            let parts = alphas(count, 0.05);
            assert!((parts.iter().sum::<f64>() - 0.05).abs() < 1e-12);
            assert!(parts.is_sorted(), "{parts:?}");
        }
    }

    #[test]
    fn a_session_stands_at_the_last_look_that_it_reached() {
        let at = |complete| {
            let standing = Standing::of(&[10, 16, 24], complete, 0.05);
            let number = standing.looks.expect("planned").number();
            (number, standing.pairs, (standing.alpha * 1e6).round() / 1e6)
        };
        assert_eq!(at(9), (0, 9, 0.01));
        assert_eq!(at(10), (1, 10, 0.01));
        assert_eq!(at(15), (1, 10, 0.01));
        assert_eq!(at(16), (2, 16, 0.015));
        assert_eq!(at(24), (3, 24, 0.025));
        let once = Standing::of(&[], 13, 0.05);
        assert_eq!((once.pairs, once.alpha, once.looks), (13, 0.05, None));
    }

    #[test]
    fn it_says_where_it_stands() {
        let sentence = |complete| {
            let standing = Standing::of(&[10, 16, 24], complete, 0.05);
            standing.looks.expect("planned").sentence()
        };
        insta::assert_snapshot!([3, 12, 16, 24].map(sentence).join("\n"), @r"
        The first of 3 looks comes after 10 pairs.
        Judged at look 1 of 3, after 10 pairs, at α = 0.01: all looks together have 0.05.
        Judged at look 2 of 3, after 16 pairs, at α = 0.015: all looks together have 0.05.
        Judged at look 3 of 3, after 24 pairs, at α = 0.025: all looks together have 0.05.
        ");
    }
}
