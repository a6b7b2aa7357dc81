//! How much of a report Markdown shows, so that it fits where it goes.
//!
//! Nothing is ever cut off: a report that doesn't fit is written again with less of it, worst first,
//! and says how much it leaves out.

/// Where the Markdown goes, which decides how long it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// A file: everything.
    None,
    /// A comment in a code review. GitHub takes 65 536 characters, GitLab a million; what a bot
    /// adds of its own has room, too.
    Comment,
    /// The summary of a step on GitHub, which takes 1 MiB, of which so many bytes are taken.
    StepSummary {
        /// What earlier commands of the step wrote there.
        bytes_taken: u64,
    },
}

/// What a comment may hold beside what a bot adds: GitHub counts 65 536 characters.
const COMMENT_CHARS_MAX: usize = 65_536 - 1_536;

/// GitHub's limit for what one step writes.
const STEP_SUMMARY_BYTES_MAX: u64 = 1_048_576;

impl Limit {
    /// Whether a text may go there.
    pub(super) fn holds(self, text: &str) -> bool {
        match self {
            Self::None => true,
            // However a host counts characters, this is not less.
            Self::Comment => text.encode_utf16().count() <= COMMENT_CHARS_MAX,
            Self::StepSummary { bytes_taken } => {
                let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
                bytes_taken.saturating_add(bytes) <= STEP_SUMMARY_BYTES_MAX
            }
        }
    }
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detail {
    /// Measurements.
    pub(super) entries: usize,
    /// Rows per table.
    pub(super) rows: usize,
    /// Items per list.
    pub(super) items: usize,
    /// What is shown and not judged.
    pub(super) beside: bool,
}

/// Rows of a table that stand open; the others are folded below them.
pub(super) const ROWS_OPEN: usize = 25;

const ALL: usize = usize::MAX;

/// From everything to the mere answer of the worst measurement.
pub(super) const LADDER: [Detail; 12] = [
    step(ALL, ALL, ALL, true),
    step(ALL, 1_000, 100, true),
    step(ALL, 300, 25, true),
    step(ALL, 100, 25, true),
    step(ALL, 50, 25, true),
    step(ALL, 25, 10, true),
    step(ALL, 10, 5, false),
    step(ALL, 3, 3, false),
    step(100, 1, 1, false),
    step(30, 1, 1, false),
    step(10, 1, 1, false),
    step(1, 1, 1, false),
];

const fn step(entries: usize, rows: usize, items: usize, beside: bool) -> Detail {
    Detail {
        entries,
        rows,
        items,
        beside,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rung_shows_no_more_than_the_one_before() {
        for pair in LADDER.windows(2) {
            let [more, less] = [pair[0], pair[1]];
            assert!(less.entries <= more.entries && less.rows <= more.rows);
            assert!(less.items <= more.items && less.beside <= more.beside);
            assert_ne!(less, more);
        }
    }

    #[test]
    fn limits_are_those_of_the_hosts() {
        assert!(Limit::Comment.holds(&"é".repeat(64_000)));
        assert!(!Limit::Comment.holds(&"é".repeat(64_001)));
        // Beyond the basic plane a character may count twice.
        assert!(!Limit::Comment.holds(&"𝕏".repeat(32_001)));
        let rest = Limit::StepSummary {
            bytes_taken: 1_048_000,
        };
        assert!(rest.holds(&"é".repeat(288)));
        assert!(!rest.holds(&"é".repeat(289)));
        assert!(Limit::None.holds(&"x".repeat(2_000_000)));
    }
}
