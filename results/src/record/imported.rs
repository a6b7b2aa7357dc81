//! What a record keeps of an import: which tool measured, and what it didn't tell.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Numbers of another tool. They come without blocks, so that nothing can be tested on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// The tool: `k6`, `wrk`, `wrk2`, `oha`, or `hlog` for whoever wrote an HdrHistogram log.
    pub tool: String,
    /// Name of the file, without its folder.
    pub file: String,
    /// From when to when its times run, as far as that is known: times of different spans aren't
    /// compared.
    pub times: Option<String>,
    /// What the tool didn't tell and a reader must know, one sentence each.
    pub missing: Vec<String>,
    /// How many requests the percentiles are of, where that is fewer than ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<u64>,
    /// Endpoint → the percentiles that the tool stated instead of its times, ascending; no entry
    /// where the times themselves are in the block.
    #[serde(default)]
    pub percentiles: BTreeMap<String, Vec<StatedPercentile>>,
}

/// One percentile that a tool stated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StatedPercentile {
    /// 0.95 for the 95th percentile, 1 for the longest, 0 for the shortest.
    pub share: f64,
    /// Time that this share of the requests took at most.
    pub us: f64,
}
