//! What a record keeps of an open load: how arrivals came, and what became of them.
//!
//! It holds counts only. Whether they mean that the service was saturated is
//! [`crate::saturation`]'s to say, so that an old record can be judged by a better rule.

use serde::{Deserialize, Serialize};

/// Arrivals at their own times, whatever the answers do. One arrival is one pass through the
/// scenario's requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenLoad {
    /// `poisson` (as independent clients come) or `constant` (equal gaps).
    pub arrivals: String,
    /// What each block offers, one stage after the other. A block at one rate has one stage,
    /// and then a level of its own for each rate.
    pub stages: Vec<OpenStage>,
    /// Arrivals served at the same time; those beyond wait, and their wait counts.
    pub in_flight_max: u32,
}

/// One stretch of an open load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenStage {
    /// Arrivals per second; `None` where each level has its own.
    pub rate_per_second: Option<f64>,
    /// How long.
    pub duration_ms: u64,
}

/// What became of one block's arrivals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenBlock {
    /// Arrivals that were due.
    pub arrivals: u64,
    /// Of those, the ones that got a user before the block was over.
    pub begun: u64,
    /// Of those, the ones whose last request had ended when the schedule ended, well or badly.
    pub ended_in_time: u64,
    /// Length of the schedule, as far as it was followed.
    pub duration_ms: u64,
    /// The cap on arrivals that are served at once.
    pub in_flight_max: u32,
    /// Most that were served at once; of several generator threads, the sum of each one's most.
    pub in_flight_most: u64,
    /// Arrivals that still waited for a user when the block was over.
    pub queued_at_end: u64,
    /// Least number of unfinished arrivals that any arrival in the third quarter of the schedule
    /// met.
    pub backlog_least_third_quarter: u64,
    /// The same of the fourth quarter.
    pub backlog_least_fourth_quarter: u64,
    /// Arrivals due in the fourth quarter.
    pub arrivals_fourth_quarter: u64,
}

impl OpenBlock {
    /// Arrivals per second that ended within the schedule; `None` without time.
    pub fn ended_per_second(&self) -> Option<f64> {
        (self.duration_ms > 0)
            .then(|| self.ended_in_time as f64 * 1_000.0 / self.duration_ms as f64)
    }

    /// Arrivals per second that were due; `None` without time.
    pub fn offered_per_second(&self) -> Option<f64> {
        (self.duration_ms > 0).then(|| self.arrivals as f64 * 1_000.0 / self.duration_ms as f64)
    }
}
