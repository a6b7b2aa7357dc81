//! Normally distributed values, for whatever is made up.

use std::f64::consts::TAU;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

/// A standard normal value (Box and Muller).
pub(super) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    normal_pair(rng).0
}

/// Two of them, independent.
pub(super) fn normal_pair(rng: &mut ChaCha8Rng) -> (f64, f64) {
    let radius: f64 = 1.0 - rng.random::<f64>();
    let angle: f64 = rng.random();
    let (sine, cosine) = (TAU * angle).sin_cos();
    let length = (-2.0 * radius.ln()).sqrt();
    (length * cosine, length * sine)
}
