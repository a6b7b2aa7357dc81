//! What a block keeps of the moments at which the service's loop was held.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Pairs of culprit and victim that a block keeps, the longest in sum first.
pub const BLAMES_MAX: usize = 200;

/// Holds of the service's event loops, as its monitor told them with their times, and whom they
/// kept waiting.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Shorter holds aren't told one by one.
    pub threshold_us: u64,
    /// Event loops of the process. With several, a request that was under way may have been
    /// another one's, and nobody was kept waiting for certain.
    pub loops: u64,
    /// Holds whose times are known, and that lie in the block.
    pub placed: u64,
    /// Holds that were counted, but of which the times are lost, or of no use here because the
    /// service has another clock.
    pub unplaced: u64,
    /// From when on in the block holds are known, µs: the monitor keeps the newest ones only. What
    /// is said of the block's holds and requests is said of the time since then.
    #[serde(default)]
    pub known_from_us: u64,
    /// Per second since the block began: time in which at least one loop was held. Empty where no
    /// hold could be placed because the service has another clock.
    pub by_second_us: Vec<u64>,
    /// Who kept whom waiting; at most [`BLAMES_MAX`].
    pub blame: Vec<Blame>,
    /// What is beyond that number, together.
    pub blame_others_us: u64,
    /// Endpoint of the scenario → how long its requests were under way, for shares and rates.
    pub victims: BTreeMap<String, UnderWay>,
    /// Requests of which no times were kept, so that nobody is blamed for them.
    pub requests_untold: u64,
}

/// One route's holds, and one endpoint's requests that were under way meanwhile.
///
/// The request that held the loop isn't its own victim: of its endpoint's requests, one is left out
/// of each hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blame {
    /// Scenario endpoint whose requests held the loop; `METHOD route` where that is none or
    /// several of them, `TASK name` where it was a task.
    pub culprit: String,
    /// Where in the service's sources, if that is known.
    pub line: Option<String>,
    /// Endpoint of the scenario whose requests were under way.
    pub victim: String,
    /// Requests of the victim that at least one of the holds overlapped.
    pub requests: u64,
    /// For how long, in sum over requests.
    pub overlapped_us: u64,
}

/// The requests of one endpoint whose times were kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// How many there were, whatever became of them.
    pub requests: u64,
    /// From their first written byte to their end, in sum.
    pub under_way_us: u64,
}
