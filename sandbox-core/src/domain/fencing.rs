//! The number by which a late writer is recognised.

use std::fmt;

/// What a lock gives to whoever holds it: later holders have larger ones.
///
/// A row remembers the largest token that has written it, and refuses smaller ones; so does a runtime
/// with those under which commands came. So a holder that was paused beyond the end of its lease can't undo
/// what its successor did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token of that number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, out)
    }
}
