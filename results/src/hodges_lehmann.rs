//! The typical paired difference and its interval, without assuming a
//! distribution beyond symmetry (Hodges and Lehmann, 1963).

/// Up to here the signed-rank distribution is counted exactly.
const EXACT_PAIRS_MAX: usize = 64;

/// A Hodges–Lehmann estimate with its signed-rank interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HodgesLehmann {
    /// Median of the Walsh averages.
    pub(crate) estimate: f64,
    /// Lower end.
    pub(crate) low: f64,
    /// Upper end.
    pub(crate) high: f64,
    /// What the interval really covers: at least what was asked for, unless
    /// there are too few differences; then all that they can give.
    pub(crate) confidence: f64,
}

/// The estimate of the centre of `differences` with a two-sided interval of
/// `confidence`. `None` without differences.
pub(crate) fn hodges_lehmann(differences: &[f64], confidence: f64) -> Option<HodgesLehmann> {
    if differences.is_empty() {
        return None;
    }
    let walsh = walsh_averages(differences);
    let (cut, tail) = cut_off(differences.len(), (1.0 - confidence) / 2.0);
    Some(HodgesLehmann {
        estimate: median_of_sorted(&walsh),
        low: walsh[cut],
        high: walsh[walsh.len() - 1 - cut],
        confidence: 1.0 - 2.0 * tail,
    })
}

/// Means of all pairs of values, each with itself too, ascending.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages: Vec<f64> = values
        .iter()
        .enumerate()
        .flat_map(|(index, left)| {
            values[index..]
                .iter()
                .map(move |right| f64::midpoint(*left, *right))
        })
        .collect();
    averages.sort_by(f64::total_cmp);
    averages
}

/// The middle of ascending values, which must not be empty.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// How many Walsh averages lie outside on each side, and the probability of that:
/// the largest k with P(W ≤ k) ≤ `tail` under the signed-rank distribution. With
/// fewer pairs than that takes, k = 0 and the probability is what it is.
fn cut_off(pairs: usize, tail: f64) -> (usize, f64) {
    if pairs > EXACT_PAIRS_MAX {
        let n = pairs as f64;
        let mean = n * (n + 1.0) / 4.0;
        let sd = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let cut = (mean - normal_quantile(1.0 - tail) * sd).floor().max(0.0);
        return (cut as usize, tail);
    }
    let mut counts = vec![0.0; pairs * (pairs + 1) / 2 + 1];
    counts[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (rank..counts.len()).rev() {
            counts[sum] += counts[sum - rank];
        }
    }
    let total = 2f64.powi(i32::try_from(pairs).expect("at most 64"));
    let mut below = counts[0] / total;
    let mut cut = 0;
    while below + counts[cut + 1] / total <= tail {
        cut += 1;
        below += counts[cut] / total;
    }
    (cut, below)
}

/// Quantile of the standard normal distribution, to about 4.5 × 10⁻⁴
/// (Abramowitz and Stegun 26.2.23): for approximations only.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    let (tail, sign) = if p > 0.5 { (1.0 - p, 1.0) } else { (p, -1.0) };
    let t = (-2.0 * tail.max(f64::MIN_POSITIVE).ln()).sqrt();
    let upper = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let lower = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    sign * (t - upper / lower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_critical_values() {
        // Wilcoxon's table, two-sided 5 %: reject at W ≤ 8 for n = 10, ≤ 52 for n = 20.
        assert_eq!(cut_off(10, 0.025).0, 8);
        assert_eq!(cut_off(20, 0.025).0, 52);
        assert_eq!(cut_off(6, 0.025).0, 0);
        let (cut, tail) = cut_off(5, 0.025);
        assert_eq!((cut, tail), (0, 1.0 / 32.0));
    }

    #[test]
    fn exact_and_normal_cut_offs_meet() {
        let (exact, _) = cut_off(64, 0.025);
        let (normal, _) = cut_off(65, 0.025);
        assert!((exact..exact + 40).contains(&normal), "{exact} {normal}");
    }

    #[test]
    fn depression_scores() {
        // Hollander and Wolfe, example 3.1: nine paired differences, estimate −0.46,
        // 96 % interval −0.786 to −0.010.
        let differences = [
            -0.952, 0.147, -1.022, -0.430, -0.620, -0.590, -0.490, 0.080, -0.010,
        ];
        let found = hodges_lehmann(&differences, 0.96).unwrap();
        assert!((found.estimate + 0.46).abs() < 1e-9, "{found:?}");
        assert!((found.low + 0.786).abs() < 1e-9, "{found:?}");
        assert!((found.high + 0.010).abs() < 1e-9, "{found:?}");
    }

    proptest! {
        #[test]
        fn it_moves_with_the_data(values in prop::collection::vec(-5.0..5.0f64, 1..30), shift in -9.0..9.0f64) {
            let base = hodges_lehmann(&values, 0.95).unwrap();
            let moved: Vec<f64> = values.iter().map(|value| value + shift).collect();
            let moved = hodges_lehmann(&moved, 0.95).unwrap();
            prop_assert!((moved.estimate - base.estimate - shift).abs() < 1e-9);
            prop_assert!(base.low <= base.estimate && base.estimate <= base.high);
        }
    }
}
