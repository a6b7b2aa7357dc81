//! What a record keeps of having been reduced to two of its arms.

use serde::{Deserialize, Serialize};

/// Two arms of a record of three, called `before` and `after` in the reduced one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contrast {
    /// What the reduced record's `before` is called in the whole one.
    pub from: String,
    /// What the reduced record's `after` is called in the whole one.
    pub to: String,
    /// Triples that were begun and left out, because a block of any of the three arms is missing
    /// or invalid.
    pub triples_left_out: u32,
}
