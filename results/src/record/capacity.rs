//! What a record keeps of a search for capacity: the question, and none of the answer.

use serde::{Deserialize, Serialize};

use crate::capacity::Bounds;

/// The question of `unstall capacity`. Its blocks are at rates of their own, one level each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityLoad {
    /// What had to hold, as [`crate::slo::Slo::parse`] reads it.
    pub slo: String,
    /// First rate, arrivals per second.
    pub from_per_second: f64,
    /// No rate below this was tried.
    pub lowest_per_second: f64,
    /// No rate above this was tried.
    pub highest_per_second: f64,
    /// Half the width of the interval that was aimed at, as a share.
    pub precision: f64,
    /// Blocks per version at most.
    pub blocks_max: u32,
}

impl CapacityLoad {
    /// The same for the search.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            from: self.from_per_second,
            lowest: self.lowest_per_second,
            highest: self.highest_per_second,
            precision: self.precision,
            trials_max: self.blocks_max as usize,
        }
    }
}
