//! A repository's cache: a bare mirror on disk from which working trees are made.

use jiff::Timestamp;

use super::stored_word::stored_words;
use super::{
    CacheId, CacheKey, ConflictCause, FencingToken, LocalPath, ProviderKind, RepoName, RepoUrl,
    SandboxError, Subject, to_the_microsecond,
};

/// How far a cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RepoCacheState {
    /// The intent to make it: what is on disk is partial, in a temporary folder, or not there yet.
    /// After a crash it is removed from disk, and cloned again or given up.
    Creating,
    /// It is whole on disk, and can be fetched into and used.
    Ready,
    /// The intent to remove it. After a crash the removal is finished.
    Evicting,
    /// Nothing of it is on disk. The row is history, and its key is free again.
    Deleted,
}

stored_words!(RepoCacheState, "state of a repository cache", {
    Creating => "creating",
    Ready => "ready",
    Evicting => "evicting",
    Deleted => "deleted",
});

impl RepoCacheState {
    /// May it go from this state to that?
    ///
    /// `Ready` goes back to `Creating` when the mirror is gone or damaged and is cloned anew: it holds
    /// nothing that its origin doesn't.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Creating, Self::Ready | Self::Deleted)
                | (Self::Ready, Self::Creating | Self::Evicting)
                | (Self::Evicting, Self::Deleted)
        )
    }
}

/// A durable bare mirror. It never holds uncommitted edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoCache {
    /// Its id.
    pub id: CacheId,
    /// Its identity; of caches that aren't deleted, one has it.
    pub key: CacheKey,
    /// The repository as it was first asked for.
    pub repo_name: RepoName,
    /// From where it is fetched.
    pub repo_url: RepoUrl,
    /// What kind of code host that is.
    pub provider: ProviderKind,
    /// Where it lies.
    pub local_path: LocalPath,
    /// When it was last fetched, if ever.
    pub last_fetched_at: Option<Timestamp>,
    /// When it was last used. It only grows.
    pub last_used_at: Timestamp,
    /// What it takes on disk, once that was measured.
    pub size_bytes: Option<u64>,
    /// How far it is.
    pub state: RepoCacheState,
    /// Grows by one with each write but a touch; the first is 1.
    pub version: u64,
    /// The newest token, of the cache's lock, that has written it.
    pub token: FencingToken,
    /// When the intent was written.
    pub created_at: Timestamp,
    /// When it was last written, as the writer said.
    pub updated_at: Timestamp,
}

impl RepoCache {
    /// The intent to make a cache, to be stored before anything is on disk.
    #[must_use]
    pub fn intent(
        key: CacheKey,
        repo_name: RepoName,
        repo_url: RepoUrl,
        provider: ProviderKind,
        local_path: LocalPath,
        token: FencingToken,
        now: Timestamp,
    ) -> Self {
        let now = to_the_microsecond(now);
        Self {
            id: CacheId::generate(),
            key,
            repo_name,
            repo_url,
            provider,
            local_path,
            last_fetched_at: None,
            last_used_at: now,
            size_bytes: None,
            state: RepoCacheState::Creating,
            version: 1,
            token,
            created_at: now,
            updated_at: now,
        }
    }

    /// The same in another state, to be written.
    ///
    /// # Errors
    /// A conflict when it can't go there from its state.
    pub fn moved_to(mut self, next: RepoCacheState, now: Timestamp) -> Result<Self, SandboxError> {
        if !self.state.may_become(next) {
            let cause = ConflictCause::State {
                is: self.state.as_str(),
                wanted: next.as_str(),
            };
            return Err(SandboxError::conflict(Subject::Cache(self.id), cause));
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
    fn every_state_leads_to_deleted_and_nothing_leads_back_from_there() {
        for state in RepoCacheState::ALL {
            assert_eq!(RepoCacheState::from_stored(state.as_str()), Ok(*state));
            assert!(!RepoCacheState::Deleted.may_become(*state));
            assert!(!state.may_become(*state));
        }
        assert!(!RepoCacheState::Ready.may_become(RepoCacheState::Deleted));
    }
}
