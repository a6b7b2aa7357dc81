//! What a record keeps of a merge: which sessions it holds, and how often they may have been judged.

use serde::{Deserialize, Serialize};

/// Several sessions of one design in one record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Merged {
    /// In the order in which they were measured.
    pub sessions: Vec<MergedSession>,
    /// True when whoever merged them says that the number of sessions was settled before the
    /// first one was judged. Else each of them counts as a look at the result, and the record's
    /// [`looks`](super::Load::looks) say so.
    pub planned: bool,
    /// What differed between the sessions and doesn't forbid to merge them, one sentence each.
    pub differences: Vec<String>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedSession {
    /// Id of its own record.
    pub id: String,
    /// Label of its own record.
    pub label: String,
    /// When it started: RFC 3339, UTC.
    pub created_utc: String,
    /// Pairs of it that are in this record; of a record of one version, stretches of load.
    pub pairs: u32,
    /// Pairs left out, because the session was stopped before they were complete.
    pub pairs_left_out: u32,
}
