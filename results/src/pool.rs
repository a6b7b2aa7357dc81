//! What one endpoint did in one arm at one level, over the blocks that count: the unit in which
//! streams, connections and answers are told.

use std::collections::BTreeSet;

use crate::level::Level;
use crate::record::{Block, EndpointIdentity, EndpointSamples, RunRecord};

/// The samples of one endpoint, arm and level, a block each.
#[derive(Debug)]
pub(crate) struct Pool<'r> {
    /// Key of [`RunRecord::arms`].
    pub(crate) arm: &'r str,
    /// Level of the load.
    pub(crate) level: Level,
    /// Who was asked.
    pub(crate) endpoint: &'r EndpointIdentity,
    /// Never empty.
    pub(crate) samples: Vec<&'r EndpointSamples>,
}

/// Endpoints in the scenario's order, then level, then arm, `before` first. Invalid blocks are left
/// out, and so is what no block has samples of.
pub(crate) fn pools(record: &RunRecord) -> Vec<Pool<'_>> {
    let valid = || record.blocks.iter().filter(|block| block.validity.ok);
    let groups: BTreeSet<(u32, bool, &str)> = valid()
        .map(|block| (block.level, block.arm != "before", block.arm.as_str()))
        .collect();
    let mut pools = Vec::new();
    for endpoint in &record.scenario.endpoints {
        for &(level, _, arm) in &groups {
            let is_of_group = |block: &&Block| block.arm == arm && block.level == level;
            let samples: Vec<&EndpointSamples> = valid()
                .filter(is_of_group)
                .filter_map(|block| block.endpoints.get(&endpoint.name))
                .collect();
            if !samples.is_empty() {
                pools.push(Pool {
                    arm,
                    level: Level::of(&record.load, level),
                    endpoint,
                    samples,
                });
            }
        }
    }
    pools
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EndpointSpec, record};

    #[test]
    fn endpoints_keep_the_scenarios_order_and_before_comes_first() {
        let endpoints = ["GET z", "GET a"].map(|name| EndpointSpec::new(name, 5.0));
        let mut record = record(1, 5, 40, &endpoints);
        record.blocks[0].validity.ok = false;
        let spoilt = record.blocks[0].arm.clone();
        let pools = pools(&record);
        let found: Vec<(&str, &str)> = pools
            .iter()
            .map(|pool| (pool.endpoint.name.as_str(), pool.arm))
            .collect();
        let expected = [
            ("GET z", "before"),
            ("GET z", "after"),
            ("GET a", "before"),
            ("GET a", "after"),
        ];
        assert_eq!(found, expected);
        for pool in pools {
            let blocks = if pool.arm == spoilt { 4 } else { 5 };
            assert_eq!(pool.samples.len(), blocks, "{}", pool.arm);
        }
    }
}
