//! When the pieces of an answer come: a pure function of seed, run and number.

use std::time::Duration;

/// A rhythm of pieces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Pieces per second; more than 0.
    pub rate: f64,
    /// By how much of a gap a piece may come late, 0 to 1. How late is drawn evenly for each
    /// piece on its own, so the mean rate stays as stated.
    pub jitter: f64,
    /// Makes the same lateness again for the same run.
    pub seed: u64,
}

impl Pace {
    /// When the `n`th piece of a run is due, from its start on. The first comes one gap after
    /// the start. A piece never overtakes the one before.
    #[must_use]
    pub fn due(&self, run_key: &str, n: usize) -> Duration {
        let late = if self.jitter > 0.0 {
            self.jitter * unit(self.draw(run_key, n))
        } else {
            0.0
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "an answer has fewer pieces than 2^52"
        )]
        let beats = (n + 1) as f64 + late;
        Duration::from_secs_f64(beats / self.rate)
    }

    fn draw(&self, run_key: &str, n: usize) -> u64 {
        let run = run_key
            .bytes()
            .fold(self.seed, |state, byte| mix(state ^ u64::from(byte)));
        mix(run ^ n as u64)
    }
}

/// SplitMix64's step (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number from 0 up to 1, of the upper 53 bits.
#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are what a double holds exactly"
)]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_jitter_pieces_keep_the_beat() {
        let pace = Pace {
            rate: 50.0,
            jitter: 0.0,
            seed: 1,
        };
        assert_eq!(pace.due("r", 0), Duration::from_millis(20));
        assert_eq!(pace.due("r", 499), Duration::from_secs(10));
    }

    #[test]
    fn jitter_is_bounded_ordered_and_repeatable() {
        let pace = Pace {
            rate: 10.0,
            jitter: 1.0,
            seed: 7,
        };
        let mut before = Duration::ZERO;
        let mut late_sum = 0.0;
        for n in 0..1000 {
            let due = pace.due("chat:stream:c:r", n);
            let beats = due.as_secs_f64() * pace.rate;
            let late = beats - (n + 1) as f64;
            assert!((-1e-6..1.0 + 1e-6).contains(&late), "{n}: {late}");
            assert!(due >= before, "{n}");
            assert_eq!(due, pace.due("chat:stream:c:r", n));
            before = due;
            late_sum += late;
        }
        let mean = late_sum / 1000.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
        let other = Pace { seed: 8, ..pace };
        assert_ne!(pace.due("r", 0), other.due("r", 0));
        assert_ne!(pace.due("r", 0), pace.due("s", 0));
    }
}
