//! The interval of a share that holds near 0 and 1 too.

/// Ends of the score interval (Wilson, 1927) of a share of `n`, `deviations` standard deviations on
/// either side. Without any the share may be whatever it wants.
pub(crate) fn wilson(share: f64, n: f64, deviations: f64) -> (f64, f64) {
    if n <= 0.0 {
        return (0.0, 1.0);
    }
    let squared = deviations * deviations;
    let middle = share + squared / (2.0 * n);
    let reach = (squared * (share * (1.0 - share) + squared / (4.0 * n)) / n).sqrt();
    let scale = 1.0 + squared / n;
    let low = (middle - reach) / scale;
    let high = (middle + reach) / scale;
    // Rounding must not take the share itself out of its interval.
    (low.clamp(0.0, share), high.clamp(share, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_the_published_ones() {
        // Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        for (count, n, low, high) in [
            (81.0, 263.0, 0.2553, 0.3662),
            (15.0, 148.0, 0.0624, 0.1605),
            (0.0, 20.0, 0.0, 0.1611),
            (1.0, 29.0, 0.0061, 0.1718),
        ] {
            let (found_low, found_high) = wilson(count / n, n, 1.959_964);
            assert!((found_low - low).abs() < 1e-4, "{found_low} {low}");
            assert!((found_high - high).abs() < 1e-4, "{found_high} {high}");
        }
        assert_eq!(wilson(0.0, 20.0, 1.96).0, 0.0);
        assert_eq!(wilson(1.0, 20.0, 1.96).1, 1.0);
        assert_eq!(wilson(0.0, 0.0, 1.96), (0.0, 1.0));
    }
}
