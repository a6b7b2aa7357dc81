//! Draws by seed: pure functions of a seed, a turn and a salt, so that two versions of a service
//! are asked for the same things, and a run can be repeated.

use std::time::Duration;

use serde_json::Value as Json;

use crate::plan::{RandomKind, Think};

const LETTERS_AND_DIGITS: &[u8; 62] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A row of draws that belong together.
#[derive(Debug, Clone)]
pub(crate) struct Draws {
    state: u64,
}

impl Draws {
    /// The row of one turn; different salts give unrelated rows.
    pub(crate) fn new(seed: u64, turn: u64, salt: u64) -> Self {
        Self {
            state: mixed(seed ^ mixed(turn ^ mixed(salt))),
        }
    }

    /// The next 64 bits: SplitMix64.
    fn bits(&mut self) -> u64 {
        let bits = mixed(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits
    }

    /// The next number from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        // 53 bits are what a double holds.
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next whole number below `end`, each as likely (Lemire's multiplication, whose bias of
    /// `end` in 2⁶⁴ no run is long enough to see).
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    fn between(&mut self, min: i64, max: i64) -> i64 {
        let span = max.wrapping_sub(min) as u64;
        let offset = match span.checked_add(1) {
            Some(numbers) => self.below(numbers),
            // All 2⁶⁴ of them.
            None => self.bits(),
        };
        min.wrapping_add(offset as i64)
    }

    /// A random variable's value.
    pub(crate) fn value(&mut self, kind: &RandomKind) -> Json {
        match kind {
            RandomKind::Uuid => Json::String(self.uuid()),
            RandomKind::Int { min, max } => Json::from(self.between(*min, *max)),
            RandomKind::Text { length } => {
                let letter = |_| {
                    let index = self.below(LETTERS_AND_DIGITS.len() as u64) as usize;
                    char::from(LETTERS_AND_DIGITS[index])
                };
                Json::String((0..*length).map(letter).collect())
            }
            RandomKind::Choice(of) => {
                let index = self.below(of.len() as u64) as usize;
                // Nothing to choose from is refused at load.
                of.get(index).cloned().unwrap_or(Json::Null)
            }
        }
    }

    /// Version 4 of RFC 9562: random but for its version and variant.
    fn uuid(&mut self) -> String {
        let (high, low) = (self.bits(), self.bits());
        let (time, version) = (high >> 16, (high & 0x0fff) | 0x4000);
        let variant = ((low >> 48) & 0x3fff) | 0x8000;
        format!(
            "{:08x}-{:04x}-{version:04x}-{variant:04x}-{:012x}",
            time >> 16,
            time & 0xffff,
            low & 0xffff_ffff_ffff
        )
    }
}

impl Think {
    /// A pause.
    pub(crate) fn draw(self, draws: &mut Draws) -> Duration {
        match self {
            Self::Fixed(pause) => pause,
            Self::Uniform { min, max } => min + max.saturating_sub(min).mul_f64(draws.unit()),
            // The unit is below 1, so the logarithm is finite: at most 37.
            Self::Exponential { mean } => mean.mul_f64(-(1.0 - draws.unit()).ln()),
        }
    }
}

/// SplitMix64's finaliser (Steele, Lea, Flood 2014): neighbouring values get unrelated ones.
pub(crate) fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_stay_between_their_ends(seed: u64, turn: u64, a: i64, b: i64) {
            let (min, max) = (a.min(b), a.max(b));
            let mut draws = Draws::new(seed, turn, 1);
            for _ in 0..20 {
                prop_assert!((min..=max).contains(&draws.between(min, max)));
                prop_assert!((0.0..1.0).contains(&draws.unit()));
            }
        }

        #[test]
        fn equal_rows_are_equal_and_others_are_not(seed: u64, turn: u64, salt: u64) {
            let bits = |seed, turn, salt| Draws::new(seed, turn, salt).bits();
            prop_assert_eq!(bits(seed, turn, salt), bits(seed, turn, salt));
            prop_assert_ne!(bits(seed, turn, salt), bits(seed, turn ^ 1, salt));
            prop_assert_ne!(bits(seed, turn, salt), bits(seed, turn, salt ^ 1));
        }

        #[test]
        fn uniform_pauses_stay_between_their_ends(seed: u64, min in 0u64..1_000, more in 0u64..1_000) {
            let (min, max) = (Duration::from_millis(min), Duration::from_millis(min + more));
            let pause = Think::Uniform { min, max }.draw(&mut Draws::new(seed, 0, 0));
            prop_assert!(min <= pause && pause <= max);
        }
    }

    #[test]
    fn exponential_pauses_have_their_mean_and_their_spread() {
        let think = Think::Exponential {
            mean: Duration::from_millis(100),
        };
        let pauses: Vec<f64> = (0..20_000)
            .map(|turn| think.draw(&mut Draws::new(7, turn, 3)).as_secs_f64())
            .collect();
        let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
        assert!((0.098..0.102).contains(&mean), "{mean}");
        // Of an exponential distribution, 1/e lies beyond the mean.
        let beyond = pauses.iter().filter(|pause| **pause > 0.1).count();
        assert!((7_150..7_560).contains(&beyond), "{beyond}");
    }

    #[test]
    fn every_number_and_choice_comes_about_as_often() {
        let mut counts = [0_u32; 5];
        for turn in 0..10_000 {
            let number = Draws::new(1, turn, 9).between(-2, 2);
            counts[usize::try_from(number + 2).unwrap()] += 1;
        }
        assert!(
            counts.iter().all(|count| (1_880..2_120).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn uuids_are_of_version_4_and_differ() {
        let uuid = |turn| Draws::new(5, turn, 0).uuid();
        let all: std::collections::BTreeSet<String> = (0..1_000).map(uuid).collect();
        assert_eq!(all.len(), 1_000);
        for uuid in all {
            let bytes = uuid.as_bytes();
            assert_eq!(uuid.len(), 36);
            assert_eq!(bytes[14], b'4');
            assert!(b"89ab".contains(&bytes[19]), "{uuid}");
            let dashes = [8, 13, 18, 23].map(|at| bytes[at]);
            assert_eq!(dashes, *b"----");
        }
    }
}
