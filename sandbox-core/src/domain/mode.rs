//! What a workspace is for, and what follows from that.

use super::stored_word::stored_words;

/// What a workspace is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkspaceMode {
    /// To read a branch or commit. Nobody writes in it.
    Analysis,
    /// To edit in a conversation; the tree is the source of truth until it is pushed.
    Edit,
    /// To do one task beside a conversation, and bring its result back.
    Task,
}

stored_words!(WorkspaceMode, "workspace mode", {
    Analysis => "analysis",
    Edit => "edit",
    Task => "task",
});

/// What may be done with a workspace. Adapters fill it by [`Capabilities::from_mode`] and not otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// Files may be changed; else the tree is mounted read-only.
    pub writable: bool,
    /// Its branch is of its own, and its result is merged or picked from there.
    pub isolated: bool,
    /// What is written in it is kept until its eviction, and then saved.
    pub persistent: bool,
}

impl Capabilities {
    /// The only source of capabilities.
    #[must_use]
    pub const fn from_mode(mode: WorkspaceMode) -> Self {
        match mode {
            WorkspaceMode::Analysis => Self {
                writable: false,
                isolated: false,
                persistent: false,
            },
            WorkspaceMode::Edit => Self {
                writable: true,
                isolated: false,
                persistent: true,
            },
            WorkspaceMode::Task => Self {
                writable: true,
                isolated: true,
                persistent: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_words_lead_back_to_their_mode() {
        for mode in WorkspaceMode::ALL {
            assert_eq!(WorkspaceMode::from_stored(mode.as_str()), Ok(*mode));
        }
        assert!(WorkspaceMode::from_stored("Edit").is_err());
    }

    #[test]
    fn only_analysis_is_read_only_and_what_is_writable_is_kept() {
        for mode in WorkspaceMode::ALL {
            let capabilities = Capabilities::from_mode(*mode);
            assert_eq!(capabilities.writable, *mode != WorkspaceMode::Analysis);
            assert_eq!(capabilities.writable, capabilities.persistent);
        }
    }
}
