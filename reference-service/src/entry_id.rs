//! The id of a stream's entry: when it was written, and which of that millisecond it is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Orders entries as Redis does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntryId {
    ms: u64,
    sequence: u64,
}

impl EntryId {
    /// Before every entry; no entry has it.
    pub const START: Self = Self { ms: 0, sequence: 0 };

    /// The id just before this one: what comes after it begins with this one. Nothing is before
    /// [`Self::START`].
    #[must_use]
    pub fn before(self) -> Self {
        let Self { ms, sequence } = self;
        if sequence > 0 {
            let sequence = sequence - 1;
            Self { ms, sequence }
        } else if ms > 0 {
            let (ms, sequence) = (ms - 1, u64::MAX);
            Self { ms, sequence }
        } else {
            self
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.sequence)
    }
}

/// A text that is no id.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no id of a stream's entry; one looks like `1700000000000-0`")]
pub struct NoEntryId(String);

impl FromStr for EntryId {
    type Err = NoEntryId;

    /// As Redis reads the start of a range: without a sequence it is the millisecond's first.
    fn from_str(text: &str) -> Result<Self, NoEntryId> {
        let (ms, sequence) = text.split_once('-').unwrap_or((text, "0"));
        match (ms.parse(), sequence.parse()) {
            (Ok(ms), Ok(sequence)) => Ok(Self { ms, sequence }),
            _ => Err(NoEntryId(text.to_owned())),
        }
    }
}

impl TryFrom<String> for EntryId {
    type Error = NoEntryId;

    fn try_from(text: String) -> Result<Self, NoEntryId> {
        text.parse()
    }
}

impl From<EntryId> for String {
    fn from(id: EntryId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> EntryId {
        text.parse().expect(text)
    }

    #[test]
    fn ids_are_ordered_by_number_and_not_by_text() {
        let mut ids = ["10-0", "9-2", "9-10", "9"].map(id);
        ids.sort();
        assert_eq!(ids.map(|id| id.to_string()), ["9-0", "9-2", "9-10", "10-0"]);
        assert!(EntryId::START < id("0-1"));
    }

    #[test]
    fn an_id_is_the_next_after_the_one_before() {
        assert_eq!(id("7-3").before(), id("7-2"));
        assert_eq!(id("7-0").before(), id("6-18446744073709551615"));
        assert_eq!(id("0-1").before(), EntryId::START);
        assert_eq!(EntryId::START.before(), EntryId::START);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "-", "1-", "-1", "$", "1-2-3", "18446744073709551616"] {
            assert!(text.parse::<EntryId>().is_err(), "{text}");
        }
    }
}
