//! A counted share and what may be behind it, exactly: five sessions without an alarm say little,
//! and the interval is what says so.

use super::Share;

/// Each side's part of the 5 %.
const TAIL: f64 = 0.025;
/// Halvings of an interval from 0 to 1: below any digit that is shown.
const HALVINGS: u32 = 50;

/// A share with its exact 95 % interval: C. J. Clopper and E. S. Pearson, The use of confidence or
/// fiducial limits illustrated in the case of the binomial, Biometrika 26 (1934).
pub(super) fn share(count: u32, of: u32) -> Share {
    let count = count.min(of);
    let low = if count == 0 {
        0.0
    } else {
        // The chance of so many or more grows with the share.
        crossing(|share| 1.0 - at_most(count - 1, of, share) >= TAIL)
    };
    let high = if count == of {
        1.0
    } else {
        crossing(|share| at_most(count, of, share) <= TAIL)
    };
    Share {
        count,
        of,
        low,
        high,
    }
}

/// Where a condition that holds from some share on begins to hold.
fn crossing(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut below, mut from) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (below + from) / 2.0;
        if holds(middle) {
            from = middle;
        } else {
            below = middle;
        }
    }
    from
}

/// The chance of at most so many of `of`, each with this chance.
fn at_most(count: u32, of: u32, share: f64) -> f64 {
    let (yes, no) = (share.ln(), (1.0 - share).ln());
    let mut ln_ways = 0.0;
    let mut sum = 0.0;
    for index in 0..=count {
        if index > 0 {
            ln_ways += f64::from(of - index + 1).ln() - f64::from(index).ln();
        }
        sum += (ln_ways + f64::from(index) * yes + f64::from(of - index) * no).exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_published_ones() {
        // Newcombe (1998), table I, method 5: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        for (count, of, low, high) in [
            (81, 263, 0.2527, 0.3676),
            (15, 148, 0.0578, 0.1617),
            (0, 20, 0.0, 0.1684),
            (1, 29, 0.0009, 0.1776),
        ] {
            let found = share(count, of);
            assert!((found.low - low).abs() < 1e-4, "{found:?} {low}");
            assert!((found.high - high).abs() < 1e-4, "{found:?} {high}");
        }
    }

    #[test]
    fn the_ends_are_closed() {
        assert_eq!((share(0, 0).low, share(0, 0).high), (0.0, 1.0));
        assert_eq!(share(5, 5).high, 1.0);
        assert_eq!(share(9, 5).count, 5);
        assert!((share(5, 5).low - 0.478).abs() < 1e-3);
    }

    proptest::proptest! {
        #[test]
        fn the_share_is_inside(of in 1..400u32, part in 0.0..1.0f64) {
            let count = (f64::from(of) * part) as u32;
            let found = share(count, of);
            let seen = f64::from(count) / f64::from(of);
            proptest::prop_assert!(found.low <= seen && seen <= found.high, "{:?}", found);
        }
    }
}
