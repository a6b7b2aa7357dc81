//! How a block is driven: its users, its length, its warm-up and its patience.

use std::time::Duration;

use super::probe::ProbeSpec;

/// How a block is driven.
#[derive(Debug, Clone)]
pub struct BlockSpec {
    /// Users at the same time.
    pub level: u32,
    /// When the block is over.
    pub amount: Amount,
    /// What comes before the first measured request.
    pub warmup: Warmup,
    /// For random feeders of the scenario.
    pub seed: u64,
    /// Generator threads; `None`: half the cores that this process may use, at least 1.
    pub threads: Option<usize>,
    /// After a stop, or at the end of [`Amount::For`]: how long answers are awaited.
    pub grace: Duration,
    /// A service that has not answered at all for this long, and for 3 requests per
    /// user, ends the block.
    pub patience: Duration,
    /// The bystander probe beside the load, if there is to be one.
    pub probe: Option<ProbeSpec>,
    /// Whether the service's event loops are watched from outside meanwhile.
    pub watch: bool,
    /// Whether each second is kept for each endpoint by itself, too; a few kilobytes for each.
    pub by_endpoint: bool,
}

impl Default for BlockSpec {
    /// 20 users, 400 requests per endpoint, the warm-up and grace of this tool's definitions.
    fn default() -> Self {
        Self {
            level: 20,
            amount: Amount::PerEndpoint(400),
            warmup: Warmup::default(),
            seed: 0,
            threads: None,
            grace: Duration::from_secs(2),
            patience: Duration::from_secs(3),
            probe: None,
            watch: false,
            by_endpoint: false,
        }
    }
}

/// How much is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Exactly this many requests to each endpoint, over all users.
    PerEndpoint(u64),
    /// As many as fit into this time.
    For(Duration),
}

/// Load before the measured one, thrown away: whichever of the two is longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warmup {
    /// Rounds through the scenario per user.
    pub rounds_per_user: u32,
    /// Least time.
    pub lasting_at_least: Duration,
}

impl Default for Warmup {
    /// 5 rounds per user, 1 s.
    fn default() -> Self {
        Self {
            rounds_per_user: 5,
            lasting_at_least: Duration::from_secs(1),
        }
    }
}

impl BlockSpec {
    /// Requests of the whole block, where a number ends it.
    pub(super) fn requests(&self, endpoints: usize) -> Option<u64> {
        match self.amount {
            Amount::PerEndpoint(requests) => Some(requests * endpoints as u64),
            Amount::For(_) => None,
        }
    }
}
