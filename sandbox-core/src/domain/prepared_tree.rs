//! A working tree made before anybody asks, so that whoever asks doesn't wait for git.

use jiff::Timestamp;

use super::stored_word::stored_words;
use super::{
    BaseRef, CacheId, CommitId, ConflictCause, LocalPath, PreparedTreeId, SandboxError, Subject,
    WorkerId, to_the_microsecond,
};

/// How far a prepared tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PreparedTreeState {
    /// The intent to make it. After a crash what is on disk is drained.
    Warming,
    /// It is whole, clean, and anybody's.
    Ready,
    /// A worker has it for the length of its lease. After that another may claim it, and has to look
    /// at what the first one left.
    Claimed,
    /// Its folder is a workspace's now, and no longer this row's to remove. The row is history.
    Adopted,
    /// The intent to remove it. After a crash that is finished.
    Draining,
    /// Nothing of it is on disk. The row is history.
    Terminated,
}

stored_words!(PreparedTreeState, "state of a prepared tree", {
    Warming => "warming",
    Ready => "ready",
    Claimed => "claimed",
    Adopted => "adopted",
    Draining => "draining",
    Terminated => "terminated",
});

impl PreparedTreeState {
    /// May it go from this state to that? What was claimed is adopted or drained, and never given back:
    /// somebody may have written in it.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Warming, Self::Ready | Self::Draining)
                | (Self::Ready, Self::Claimed | Self::Draining)
                | (Self::Claimed, Self::Adopted | Self::Draining)
                | (Self::Draining, Self::Terminated)
        )
    }

    /// Is the row history?
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Adopted | Self::Terminated)
    }
}

/// A tree that waits for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedTree {
    /// Its id.
    pub id: PreparedTreeId,
    /// The cache it is made from.
    pub repo_cache_id: CacheId,
    /// What it is prepared for.
    pub base_ref: BaseRef,
    /// The commit it has checked out, once it has.
    pub commit: Option<CommitId>,
    /// Where it lies, also after a workspace has adopted it.
    pub local_path: LocalPath,
    /// How far it is.
    pub state: PreparedTreeState,
    /// Who claimed it.
    pub claimed_by: Option<WorkerId>,
    /// Until when nobody else may.
    pub claimed_until: Option<Timestamp>,
    /// How often it was claimed. Above 1, an earlier claim ended without adoption.
    pub claims: u32,
    /// Grows by one with each write, claims among them; the first is 1. A claim is adopted by the
    /// version it got, so a later claim refuses the earlier one.
    pub version: u64,
    /// When the intent was written; its age counts from there.
    pub created_at: Timestamp,
    /// When it was last written, as the writer said.
    pub updated_at: Timestamp,
}

impl PreparedTree {
    /// The intent to make a tree, to be stored before anything is on disk.
    #[must_use]
    pub fn intent(
        repo_cache_id: CacheId,
        base_ref: BaseRef,
        local_path: LocalPath,
        now: Timestamp,
    ) -> Self {
        let now = to_the_microsecond(now);
        Self {
            id: PreparedTreeId::generate(),
            repo_cache_id,
            base_ref,
            commit: None,
            local_path,
            state: PreparedTreeState::Warming,
            claimed_by: None,
            claimed_until: None,
            claims: 0,
            version: 1,
            created_at: now,
            updated_at: now,
        }
    }

    /// The same in another state, to be written.
    ///
    /// # Errors
    /// A conflict when it can't go there from its state.
    pub fn moved_to(
        mut self,
        next: PreparedTreeState,
        now: Timestamp,
    ) -> Result<Self, SandboxError> {
        if !self.state.may_become(next) {
            let cause = ConflictCause::State {
                is: self.state.as_str(),
                wanted: next.as_str(),
            };
            return Err(SandboxError::conflict(
                Subject::PreparedTree(self.id),
                cause,
            ));
        }
        self.state = next;
        self.updated_at = to_the_microsecond(now);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_history_stays_so_and_all_else_can_be_drained() {
        for state in PreparedTreeState::ALL {
            assert_eq!(PreparedTreeState::from_stored(state.as_str()), Ok(*state));
            for next in PreparedTreeState::ALL {
                assert!(!(state.is_final() && state.may_become(*next)));
            }
            let can_drain = !state.is_final() && *state != PreparedTreeState::Draining;
            assert_eq!(state.may_become(PreparedTreeState::Draining), can_drain);
        }
    }
}
