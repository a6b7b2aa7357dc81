//! The standard normal distribution function.

/// Φ(z), to 7.5 × 10⁻⁸ (Abramowitz and Stegun 26.2.17).
pub(super) fn distribution(z: f64) -> f64 {
    // Beyond this it is 0 or 1 to the same precision.
    if z.abs() > 6.0 {
        return if z < 0.0 { 0.0 } else { 1.0 };
    }
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let polynomial = t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let upper = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() * polynomial;
    if z < 0.0 { upper } else { 1.0 - upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        for (z, expected) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746),
            (-1.959_963_985, 0.025),
            (3.0, 0.998_650_102),
            (-40.0, 0.0),
        ] {
            assert!((distribution(z) - expected).abs() < 1e-7, "{z}");
        }
    }
}
