//! What a command may do to its tree, by which it is locked and mounted.

/// What a command may do to its workspace's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// Looks only: `rg`, `grep`, `cat`, `ls`. It runs where the tree is mounted read-only, beside others
    /// that read.
    Read,
    /// Changes files or the repository: edits, checkouts, commits, formatters. Also whatever nobody has
    /// classified.
    Write,
    /// Installs packages.
    Install,
    /// Runs tests, which may write anything.
    Test,
}

impl CommandKind {
    /// May it change the tree, so that it must run alone in it?
    #[must_use]
    pub const fn is_mutating(self) -> bool {
        !matches!(self, Self::Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reads_run_together() {
        assert!(!CommandKind::Read.is_mutating());
        for kind in [CommandKind::Write, CommandKind::Install, CommandKind::Test] {
            assert!(kind.is_mutating());
        }
    }
}
