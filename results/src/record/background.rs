//! Streams that were held open beside the load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ErrorKind, LocalFault};

/// What became of the users who held streams open beside a block's load. It never enters the
/// load's own counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundSamples {
    /// Users that there were, each with one stream at a time.
    pub users: u32,
    /// Those whose stream was open when the load began: its first meaningful item had come.
    pub open_at_begin: u32,
    /// Those whose stream was open when the load was over.
    pub open_at_end: u32,
    /// Streams that came to their end, and whose users opened another one.
    pub ended: u64,
    /// Failures of the service or the network, by kind, those before the load included.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Faults of this side, by kind: any makes the block invalid.
    pub local_faults: BTreeMap<LocalFault, u64>,
}
