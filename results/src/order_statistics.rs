//! What a sample's size allows to say about a percentile, whatever the
//! distribution: its confidence interval, and whether it may be judged at all.

/// Beyond this many values the normal approximation is exact to the last rank
/// or two, and the exact sum would take long.
const EXACT_N_MAX: u64 = 10_000_000;

/// Requests per endpoint and block from which the `q`-quantile is judged:
/// 20 ÷ (1 − q), so that 20 requests are expected beyond it.
pub(crate) fn requests_needed(q: f64) -> u64 {
    // Lowered slightly first: 20 ÷ (1 − 0.95) must be 400 and not 401.
    let exact = 20.0 / (1.0 - q.clamp(0.0, 1.0 - 1e-9));
    (exact * (1.0 - 1e-9)).ceil() as u64
}

/// The smallest sample in which the `q`-quantile has an interval, see [`interval_ranks`].
pub(crate) fn interval_needed(q: f64) -> u64 {
    // Half the sample of a judged percentile is far more than enough, and bounds the search.
    let most = requests_needed(q);
    (1..most)
        .find(|n| interval_ranks(q, *n).is_some())
        .unwrap_or(most)
}

/// Ranks (from 1) of the order statistics that enclose the `q`-quantile with
/// 95 % confidence, 2.5 % on each side (David and Nagaraja, *Order Statistics*,
/// §7.1). `None` when `n` is too small: below 72 at p95, below 368 at p99.
pub(crate) fn interval_ranks(q: f64, n: u64) -> Option<(u64, u64)> {
    let (low, high) = ranks(q, n)?;
    (low >= 1 && high <= n).then_some((low, high))
}

/// The lower of these ranks alone: there is one long before there is an upper one.
pub(crate) fn lower_rank(q: f64, n: u64) -> Option<u64> {
    let (low, _) = ranks(q, n)?;
    (low >= 1).then_some(low)
}

/// 0 or n + 1 where there is none.
fn ranks(q: f64, n: u64) -> Option<(u64, u64)> {
    if n == 0 || !(0.0..1.0).contains(&q) || q == 0.0 {
        return None;
    }
    Some(if n <= EXACT_N_MAX {
        exact_ranks(q, n)
    } else {
        let middle = q * n as f64;
        let reach = 1.959_964 * (middle * (1.0 - q)).sqrt();
        let high = ((middle + reach).ceil() as u64).saturating_add(1);
        ((middle - reach).floor().max(0.0) as u64, high)
    })
}

/// The largest `l` with P(X ≤ l − 1) ≤ 2.5 % and the smallest `u` with
/// P(X ≤ u − 1) ≥ 97.5 % for X ~ Binomial(n, q); 0 or n + 1 when there is none.
fn exact_ranks(q: f64, n: u64) -> (u64, u64) {
    let middle = q * n as f64;
    // 40 standard deviations hold everything that a 64-bit float can tell from 0.
    let reach = 40.0 * (middle * (1.0 - q)).sqrt() + 40.0;
    let first = (middle - reach).max(0.0) as u64;
    let mut log_mass =
        log_binomial(n, first) + first as f64 * q.ln() + (n - first) as f64 * (-q).ln_1p();
    let odds = (q / (1.0 - q)).ln();
    let mut below = 0.0;
    let mut low = 0;
    for successes in first..=n {
        below += log_mass.exp();
        if below <= 0.025 {
            low = successes + 1;
        }
        if below >= 0.975 {
            return (low, successes + 1);
        }
        log_mass += odds + ((n - successes) as f64).ln() - ((successes + 1) as f64).ln();
    }
    (low, n + 1)
}

fn log_binomial(n: u64, k: u64) -> f64 {
    log_factorial(n) - log_factorial(k) - log_factorial(n - k)
}

/// ln n!, by the sum for small n and Stirling's series beyond.
fn log_factorial(n: u64) -> f64 {
    if n < 32 {
        return (2..=n).map(|factor| (factor as f64).ln()).sum();
    }
    let x = n as f64;
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1_260.0 * x.powi(5));
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_from_which_a_percentile_is_judged() {
        assert_eq!(requests_needed(0.5), 40);
        assert_eq!(requests_needed(0.95), 400);
        assert_eq!(requests_needed(0.99), 2_000);
        assert_eq!(requests_needed(0.999), 20_000);
    }

    #[test]
    fn sizes_from_which_an_interval_exists() {
        assert_eq!(interval_ranks(0.95, 71), None);
        assert!(interval_ranks(0.95, 72).is_some());
        assert_eq!(interval_ranks(0.99, 367), None);
        assert!(interval_ranks(0.99, 368).is_some());
        assert_eq!(interval_ranks(0.5, 5), None);
        assert_eq!(
            [0.5, 0.9, 0.95, 0.99].map(interval_needed),
            [6, 36, 72, 368]
        );
        assert_eq!(interval_ranks(0.5, 6), Some((1, 6)));
        for q in [0.0, 1.0, f64::NAN, -1.0, 2.0] {
            assert_eq!(interval_ranks(q, 1_000), None, "{q}");
        }
        assert_eq!(interval_ranks(0.5, 0), None);
    }

    #[test]
    fn ranks_of_the_median_match_published_tables() {
        // Conover, Practical Nonparametric Statistics: sign-test intervals of the median.
        assert_eq!(interval_ranks(0.5, 10), Some((2, 9)));
        assert_eq!(interval_ranks(0.5, 20), Some((6, 15)));
        assert_eq!(interval_ranks(0.5, 100), Some((40, 61)));
    }

    #[test]
    fn exact_and_normal_ranks_agree_where_they_meet() {
        let (low, high) = exact_ranks(0.95, EXACT_N_MAX);
        let (near_low, near_high) = interval_ranks(0.95, EXACT_N_MAX + 1).unwrap();
        assert!(low.abs_diff(near_low) <= 3, "{low} {near_low}");
        assert!(high.abs_diff(near_high) <= 3, "{high} {near_high}");
        assert!(interval_ranks(0.5, u64::MAX / 2).is_some());
    }
}
