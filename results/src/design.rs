//! The design of a comparison: how many pairs, in which order, and what it
//! could not see.
//!
//! A pair is one block of each arm at every level. Which arm comes first is
//! random but balanced: a fixed order turns the machine's drift into a
//! difference, an alternating one turns any rhythm of it into one.
//!
//! A migration's step is measured in triples: the start of the migration runs beside the two
//! versions of the step.

use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::looks::alphas;
use crate::order_statistics::requests_needed;
use crate::signflip::{ALPHA_MIN, ALPHA_OF_LOOK_MIN};

/// One of the versions that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArmName {
    /// The version from which a migration started, beside the two of one of its steps.
    Start,
    /// The version before the change.
    Before,
    /// The version after it.
    After,
}

impl ArmName {
    /// Its key in [`crate::record::RunRecord::arms`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// A block that is to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedBlock {
    /// From 0.
    pub pair: u32,
    /// From 0: its turn in its pair, or triple, at its level.
    pub position: u32,
    /// What runs.
    pub arm: ArmName,
    /// Concurrency.
    pub level: u32,
}

/// Why a design can't work.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DesignError {
    /// No difference, however large, could be significant.
    #[error(
        "{pairs} pairs can never show a difference at α = {alpha}: with {pairs} pairs the smallest \
         possible p is {smallest_p:.3}; use --pairs {needed} or more"
    )]
    TooFewPairs {
        /// Pairs asked for.
        pairs: u32,
        /// Significance level.
        alpha: f64,
        /// 2⁻ᴾ.
        smallest_p: f64,
        /// Fewest pairs that can work.
        needed: u32,
    },
    /// α is not a probability that a test could use.
    #[error("α = {alpha} is not between {ALPHA_MIN} and 0.5; use 0.05")]
    Alpha {
        /// What was given.
        alpha: f64,
    },
    /// Looks that come too early, or in no order.
    #[error(
        "look {look} of {looks} is after {pairs} pairs and not after more than the {earlier} of \
         the look before; name them in ascending order, for example --looks 10,16,24"
    )]
    LooksOutOfOrder {
        /// Which look, from 1.
        look: usize,
        /// How many there are.
        looks: usize,
        /// After how many pairs it is.
        pairs: u32,
        /// After how many the one before is.
        earlier: u32,
    },
    /// A look at which no difference, however large, could be significant.
    #[error(
        "look {look} of {looks} comes after {pairs} pairs, which can never show a difference at \
         its part of α, {alpha:.4}; let it come after {needed} or more"
    )]
    LookTooEarly {
        /// Which look, from 1.
        look: usize,
        /// How many there are.
        looks: usize,
        /// After how many pairs it is.
        pairs: u32,
        /// Its significance level.
        alpha: f64,
        /// Fewest pairs that can work.
        needed: u32,
    },
    /// So many looks that a part of α is too small for any test.
    #[error(
        "{looks} looks leave α = {alpha:.5} for one of them, which no number of pairs can reach; \
         plan fewer looks"
    )]
    TooManyLooks {
        /// How many.
        looks: usize,
        /// The smallest part.
        alpha: f64,
    },
    /// Nothing to drive.
    #[error("no concurrency level given; use for example -c 20")]
    NoLevels,
    /// A level without users, or given twice.
    #[error("concurrency level {level} {problem}; give each level once, from 1")]
    Level {
        /// The level.
        level: u32,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Nothing to measure.
    #[error("0 requests per endpoint; use --requests 400 or more")]
    NoRequests,
}

/// How a comparison is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    pairs: u32,
    looks: Vec<u32>,
    levels: Vec<u32>,
    seed: u64,
    has_start: bool,
}

/// Fewest pairs with which a difference can be significant: 2⁻ᴾ ≤ α, 5 at .05
/// and 7 at .01.
pub fn pairs_min(alpha: f64) -> u32 {
    // α is above 0 in every design, so this ends at 1 074 at most.
    (1..1_075)
        .find(|pairs| 0.5f64.powi(*pairs) <= alpha * (1.0 + 1e-12))
        .map_or(1_075, |pairs| pairs as u32)
}

impl Design {
    /// A design with `requests` measured requests per endpoint and block.
    ///
    /// # Errors
    /// [`DesignError`] when it could not show anything.
    pub fn new(
        pairs: u32,
        levels: Vec<u32>,
        alpha: f64,
        seed: u64,
        requests: u64,
    ) -> Result<Self, DesignError> {
        if !(ALPHA_MIN..=0.5).contains(&alpha) {
            return Err(DesignError::Alpha { alpha });
        }
        let needed = pairs_min(alpha);
        if pairs < needed {
            return Err(DesignError::TooFewPairs {
                pairs,
                alpha,
                smallest_p: 0.5f64.powi(pairs as i32),
                needed,
            });
        }
        if levels.is_empty() {
            return Err(DesignError::NoLevels);
        }
        for (index, level) in levels.iter().enumerate() {
            let problem = match *level {
                0 => "has no users",
                _ if levels[..index].contains(level) => "is given twice",
                _ => continue,
            };
            return Err(DesignError::Level {
                level: *level,
                problem,
            });
        }
        if requests == 0 {
            return Err(DesignError::NoRequests);
        }
        Ok(Self {
            pairs,
            looks: Vec::new(),
            levels,
            seed,
            has_start: false,
        })
    }

    /// The same with a block of [`ArmName::Start`] in each pair, which makes it a triple.
    pub fn with_start(mut self) -> Self {
        self.has_start = true;
        self
    }

    /// The same with a look after each of these numbers of pairs, the last one after all: they
    /// replace the pairs of the design and share `alpha` ([`crate::looks::alphas`]).
    ///
    /// # Errors
    /// [`DesignError::LooksOutOfOrder`], or [`DesignError::LookTooEarly`] if one could not show
    /// anything.
    pub fn with_looks(mut self, looks: Vec<u32>, alpha: f64) -> Result<Self, DesignError> {
        let count = looks.len();
        let mut earlier = 0;
        for (index, (pairs, alpha)) in looks.iter().zip(alphas(count, alpha)).enumerate() {
            let (look, pairs) = (index + 1, *pairs);
            if pairs <= earlier {
                return Err(DesignError::LooksOutOfOrder {
                    look,
                    looks: count,
                    pairs,
                    earlier,
                });
            }
            if alpha < ALPHA_OF_LOOK_MIN {
                return Err(DesignError::TooManyLooks {
                    looks: count,
                    alpha,
                });
            }
            let needed = pairs_min(alpha);
            if pairs < needed {
                return Err(DesignError::LookTooEarly {
                    look,
                    looks: count,
                    pairs,
                    alpha,
                    needed,
                });
            }
            earlier = pairs;
        }
        self.pairs = looks.last().copied().unwrap_or(self.pairs);
        self.looks = looks;
        Ok(self)
    }

    /// Pairs of blocks at each level.
    pub fn pairs(&self) -> u32 {
        self.pairs
    }

    /// Pairs after which it may be judged and ended; empty: once, after all.
    pub fn looks(&self) -> &[u32] {
        &self.looks
    }

    /// Concurrency levels.
    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    /// The blocks in the order in which they run; the same for the same seed.
    ///
    /// Of all pairs, or of those between two looks, half (±1) begin with each arm; of triples this
    /// holds for any two of the arms. Within a pair the levels come in random order, each with its
    /// blocks next to each other, and all levels of a pair have the same order of arms: the test
    /// flips whole pairs.
    pub fn schedule(&self) -> Vec<PlannedBlock> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut orders = Vec::new();
        let mut begun = 0;
        for pairs in self.looks.iter().copied().chain([self.pairs]) {
            orders.extend(self.orders(pairs - begun, &mut rng));
            begun = pairs;
        }
        let mut levels = self.levels.clone();
        let mut blocks = Vec::with_capacity(orders.len() * levels.len() * 3);
        for (pair, order) in (0..).zip(orders) {
            levels.shuffle(&mut rng);
            for level in &levels {
                for (position, arm) in (0..).zip(&order) {
                    blocks.push(PlannedBlock {
                        pair,
                        position,
                        arm: *arm,
                        level: *level,
                    });
                }
            }
        }
        blocks
    }

    fn orders(&self, pairs: u32, rng: &mut ChaCha8Rng) -> Vec<Vec<ArmName>> {
        if self.has_start {
            return balanced_orders(pairs, rng);
        }
        let first_arms = balanced_first_arms(pairs, rng);
        let orders = first_arms.into_iter().map(|first| match first {
            ArmName::After => vec![ArmName::After, ArmName::Before],
            ArmName::Start | ArmName::Before => vec![ArmName::Before, ArmName::After],
        });
        orders.collect()
    }
}

/// Which arm begins each pair: half of them (±1) each, in random order.
pub(crate) fn balanced_first_arms(pairs: u32, rng: &mut ChaCha8Rng) -> Vec<ArmName> {
    let odd_one = u32::from(rng.random::<bool>());
    let mut arms: Vec<ArmName> = (0..pairs)
        .map(|pair| match (pair + odd_one) % 2 {
            0 => ArmName::Before,
            _ => ArmName::After,
        })
        .collect();
    arms.shuffle(rng);
    arms
}

/// The order of the arms in each triple, at random: each of the six as often as the others (±1),
/// and of any two arms each comes before the other as often (±1), because an order is followed by
/// its reverse before they are shuffled.
fn balanced_orders(triples: u32, rng: &mut ChaCha8Rng) -> Vec<Vec<ArmName>> {
    let mut turns = [ArmName::Start, ArmName::Before, ArmName::After];
    turns.shuffle(rng);
    let mut orders = Vec::new();
    while orders.len() < triples as usize {
        // The three that no turning makes of each other, up to their reverse.
        for _ in 0..3 {
            turns.rotate_left(1);
            let (order, mut reverse) = (turns.to_vec(), turns.to_vec());
            reverse.reverse();
            let mut both = [order, reverse];
            both.shuffle(rng);
            orders.extend(both);
        }
    }
    orders.truncate(triples as usize);
    orders.shuffle(rng);
    orders
}

/// The percentiles that `requests` per endpoint and block do not suffice for,
/// and what few pairs mean.
pub(crate) fn blind_spots(requests: u64, pairs: Option<u32>, alpha: f64) -> Vec<String> {
    let mut spots = Vec::new();
    for (name, q) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        let needed = requests_needed(q);
        if requests < needed {
            spots.push(format!(
                "{name} is not judged: it takes {} requests per endpoint and block, there are {}.",
                crate::wording::count(needed),
                crate::wording::count(requests)
            ));
        }
    }
    let needed = pairs_min(alpha);
    if let Some(pairs) = pairs.filter(|pairs| (needed..needed + 5).contains(pairs)) {
        spots.push(format!(
            "With {pairs} pairs only a worsening that shows in nearly every pair is found; \
             a small or irregular one takes more pairs."
        ));
    }
    // Flipping every pair makes the best cell the worst one, so beside a clear improvement the
    // smallest adjusted p of another cell is 2 · 2⁻ᴾ.
    if let Some(pairs) = pairs.filter(|pairs| (needed..pairs_min(alpha / 2.0)).contains(pairs)) {
        spots.push(format!(
            "With {pairs} pairs nothing that gets worse is found beside something of its family that \
             clearly gets better: it takes {}.",
            pairs_min(alpha / 2.0)
        ));
    }
    spots
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn design(pairs: u32, seed: u64, levels: &[u32]) -> Design {
        Design::new(pairs, levels.to_vec(), 0.05, seed, 400).unwrap()
    }

    #[test]
    fn designs_that_can_never_fire_are_refused() {
        assert_eq!(pairs_min(0.05), 5);
        assert_eq!(pairs_min(0.01), 7);
        assert_eq!(pairs_min(0.5), 1);
        let refused = |pairs, levels: &[u32], alpha, requests| {
            Design::new(pairs, levels.to_vec(), alpha, 1, requests)
                .unwrap_err()
                .to_string()
        };
        insta::assert_snapshot!(
            [
                refused(4, &[20], 0.05, 400),
                refused(6, &[20], 0.01, 400),
                refused(10, &[], 0.05, 400),
                refused(10, &[20, 0], 0.05, 400),
                refused(10, &[20, 10, 20], 0.05, 400),
                refused(10, &[20], f64::NAN, 400),
                refused(20, &[20], 0.000_05, 400),
                refused(10, &[20], 0.05, 0),
            ]
            .join("\n")
        );
    }

    #[test]
    fn so_many_looks_that_none_can_fire_are_refused() {
        let looks = |count: u32| (1..=count).map(|look| 20 * look).collect();
        let plan = |count| design(20, 1, &[20]).with_looks(looks(count), 0.001);
        assert!(plan(2).is_ok());
        let refused = plan(4).unwrap_err();
        assert!(matches!(
            refused,
            DesignError::TooManyLooks { looks: 4, .. }
        ));
    }

    #[test]
    fn blind_spots_name_what_it_takes() {
        insta::assert_snapshot!(blind_spots(200, Some(7), 0.05).join("\n"));
        assert_eq!(blind_spots(2_000, Some(10), 0.05), Vec::<String>::new());
        let spots = blind_spots(2_000, Some(5), 0.05);
        assert!(spots[1].contains("it takes 6"), "{spots:?}");
    }

    proptest! {
        #[test]
        fn schedules_are_complete_balanced_and_repeatable(
            pairs in 5..40u32,
            seed in any::<u64>(),
            levels in prop::sample::subsequence(vec![1u32, 10, 20, 50], 1..4),
        ) {
            let plan = design(pairs, seed, &levels);
            let blocks = plan.schedule();
            prop_assert_eq!(&blocks, &plan.schedule());
            prop_assert_eq!(blocks.len(), pairs as usize * levels.len() * 2);
            let mut first: BTreeMap<u32, Vec<ArmName>> = BTreeMap::new();
            for two in blocks.chunks(2) {
                prop_assert_eq!((two[0].pair, two[0].level), (two[1].pair, two[1].level));
                prop_assert_eq!((two[0].position, two[1].position), (0, 1));
                prop_assert_ne!(two[0].arm, two[1].arm);
                first.entry(two[0].pair).or_default().push(two[0].arm);
            }
            prop_assert!(first.values().all(|arms| arms.iter().all(|arm| *arm == arms[0])));
            let before = first.values().filter(|arms| arms[0] == ArmName::Before).count() as i64;
            prop_assert!((2 * before - i64::from(pairs)).abs() <= 1);
            for level in levels {
                let count = blocks.iter().filter(|block| block.level == level).count();
                prop_assert_eq!(count, pairs as usize * 2);
            }
        }
    }

    proptest! {
        #[test]
        fn triples_are_balanced_between_any_two_arms(pairs in 5..40u32, seed in any::<u64>()) {
            let plan = design(pairs, seed, &[10, 20]).with_start();
            let blocks = plan.schedule();
            prop_assert_eq!(&blocks, &plan.schedule());
            prop_assert_eq!(blocks.len(), pairs as usize * 2 * 3);
            let mut orders: BTreeMap<u32, Vec<ArmName>> = BTreeMap::new();
            for three in blocks.chunks(3) {
                let order: Vec<ArmName> = three.iter().map(|block| block.arm).collect();
                let positions: Vec<u32> = three.iter().map(|block| block.position).collect();
                prop_assert_eq!(positions, [0, 1, 2]);
                prop_assert!(three.iter().all(|of| (of.pair, of.level) == (three[0].pair, three[0].level)));
                let known = orders.entry(three[0].pair).or_insert_with(|| order.clone());
                prop_assert_eq!(&*known, &order);
            }
            let (start, before, after) = (ArmName::Start, ArmName::Before, ArmName::After);
            for (one, other) in [(start, before), (before, after), (start, after)] {
                let place = |order: &[ArmName], arm| order.iter().position(|of| *of == arm);
                let first = orders.values().filter(|of| place(of, one) < place(of, other)).count();
                prop_assert!((2 * first as i64 - i64::from(pairs)).abs() <= 1);
            }
            let mut counts: BTreeMap<&[ArmName], u32> = BTreeMap::new();
            for order in orders.values() {
                *counts.entry(order).or_default() += 1;
            }
            let most = counts.values().max().copied().unwrap_or(0);
            let least = if counts.len() < 6 { 0 } else { counts.values().min().copied().unwrap_or(0) };
            prop_assert!(most - least <= 1, "{:?}", counts);
        }
    }

    #[test]
    fn each_pair_begins_with_either_arm_equally_often() {
        for pair in 0..5 {
            let before = (0..400u64)
                .filter(|seed| design(5, *seed, &[20]).schedule()[pair * 2].arm == ArmName::Before)
                .count();
            assert!((150..250).contains(&before), "pair {pair}: {before} of 400");
        }
    }
}
