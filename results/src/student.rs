//! Means of few blocks, and Student's distribution, which says how far off they may be.

use std::f64::consts::FRAC_PI_2;

/// Halvings of a quarter turn: below any digit that matters.
const HALVINGS: u32 = 60;

/// 0 of no values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The value that Student's distribution doesn't exceed with probability `p`, at least ½. Exact, by
/// halving: the angle whose tangent is t ÷ √freedom lies in a quarter turn.
pub(crate) fn student_quantile(p: f64, freedom: u32) -> f64 {
    let freedom = freedom.max(1);
    let (mut below, mut above) = (0.0, FRAC_PI_2);
    for _ in 0..HALVINGS {
        let middle = (below + above) / 2.0;
        if within(middle, freedom) < 2.0 * p - 1.0 {
            below = middle;
        } else {
            above = middle;
        }
    }
    f64::from(freedom).sqrt() * above.tan()
}

/// P(|T| ≤ t) of the angle of t: a finite sum for whole degrees of freedom (Abramowitz and Stegun,
/// 26.7.3 and 26.7.4).
fn within(angle: f64, freedom: u32) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    // One term for each second power of the cosine, up to freedom − 2.
    let mut power = if is_odd { 1 } else { 0 };
    while power + 2 <= freedom {
        sum += term;
        power += 2;
        let index = f64::from(power);
        term *= (index - 1.0) / index * cosine * cosine;
    }
    match is_odd {
        true => (angle + sine * sum) / FRAC_PI_2,
        false => sine * sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, freedom, published) in [
            (0.95, 1, 6.314),
            (0.95, 2, 2.920),
            (0.95, 4, 2.132),
            (0.95, 5, 2.015),
            (0.95, 9, 1.833),
            (0.95, 18, 1.734),
            (0.975, 9, 2.262),
            (0.995, 4, 4.604),
            (0.9995, 3, 12.924),
            (0.9995, 4, 8.610),
            (0.9995, 9, 4.781),
            (0.95, 199, 1.6525),
        ] {
            let found = student_quantile(p, freedom);
            assert!(
                (found - published).abs() < 0.001,
                "{p} {freedom}: {found} for {published}"
            );
        }
        assert!(student_quantile(0.5, 7).abs() < 1e-9);
    }
}
