//! A workspace: a working tree on disk that is kept for whoever comes back.

use jiff::Timestamp;

use super::stored_word::stored_words;
use super::{
    BaseRef, BranchName, CacheId, Capabilities, ConflictCause, ConversationId, FencingToken,
    LocalPath, Purpose, SandboxError, Subject, TaskId, WorkspaceId, WorkspaceKey,
    to_the_microsecond,
};

/// How far a workspace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkspaceState {
    /// The intent to make it: its tree is in a temporary folder, partial, or not there yet, and nobody
    /// has edited it. After a crash that is removed, and made again or given up.
    Creating,
    /// Its tree is whole, and can be used.
    Ready,
    /// Its tree isn't where it should be, and nobody evicted it. Edits may be lost, so somebody is told.
    Missing,
    /// The intent to save what is uncommitted and to remove the tree. After a crash that is finished:
    /// saved again if the tree is still there, and removed.
    Evicting,
    /// What is uncommitted could not be saved, so the tree stays, and somebody is told.
    EvictionBlocked,
    /// Nothing of it is on disk. The row is history, and its key is free again.
    Deleted,
}

stored_words!(WorkspaceState, "state of a workspace", {
    Creating => "creating",
    Ready => "ready",
    Missing => "missing",
    Evicting => "evicting",
    EvictionBlocked => "eviction_blocked",
    Deleted => "deleted",
});

impl WorkspaceState {
    /// May it go from this state to that?
    ///
    /// - `Creating` → `Ready`; → `Deleted` when it is given up and nothing of it is on disk.
    /// - `Ready` → `Evicting`; → `Missing` when the reconciler doesn't find its tree.
    /// - `Missing` → `Ready` when the tree is there again (its disk wasn't mounted); → `Creating` when it
    ///   is made again from its branch; → `Evicting` when it is given up.
    /// - `Evicting` → `Deleted`; → `EvictionBlocked` when saving fails.
    /// - `EvictionBlocked` → `Evicting` to try again; → `Ready` when somebody came back to it.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Creating, Self::Ready | Self::Deleted)
                | (Self::Ready, Self::Evicting | Self::Missing)
                | (Self::Missing, Self::Ready | Self::Creating | Self::Evicting)
                | (Self::Evicting, Self::Deleted | Self::EvictionBlocked)
                | (Self::EvictionBlocked, Self::Evicting | Self::Ready)
        )
    }
}

/// A durable working tree: the truth about its uncommitted edits, installs and artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its id.
    pub id: WorkspaceId,
    /// The cache it was made from. It never changes.
    pub repo_cache_id: CacheId,
    /// Its identity, which never changes; of workspaces that aren't deleted, one has it.
    pub key: WorkspaceKey,
    /// The conversation it was first asked for in, also where that isn't its key.
    pub conversation_id: Option<ConversationId>,
    /// The task it was first asked for by, also where that isn't its key.
    pub task_id: Option<TaskId>,
    /// From what it started.
    pub base_ref: BaseRef,
    /// Its branch; an analysis has none.
    pub branch_name: Option<BranchName>,
    /// Where it lies.
    pub local_path: LocalPath,
    /// How far it is.
    pub state: WorkspaceState,
    /// May it hold what no commit holds? Said before a command that may write, and taken back only
    /// after git said so.
    pub dirty: bool,
    /// Until when it is not evicted, whatever happens.
    pub pinned_until: Option<Timestamp>,
    /// When it was last used. It only grows.
    pub last_used_at: Timestamp,
    /// What it takes on disk, once that was measured.
    pub size_bytes: Option<u64>,
    /// Grows by one with each write but a touch; the first is 1.
    pub version: u64,
    /// The newest token, of the workspace's lock, that has written it.
    pub token: FencingToken,
    /// The newest token, of the lock on its commands, under which somebody announced to write in it.
    pub commands_token: FencingToken,
    /// When the intent was written.
    pub created_at: Timestamp,
    /// When it was last written, as the writer said.
    pub updated_at: Timestamp,
}

impl Workspace {
    /// The intent to make a workspace, to be stored before anything is on disk. The request's parts
    /// other than its key are `None`, and set by whoever has them.
    #[must_use]
    pub fn intent(
        repo_cache_id: CacheId,
        key: WorkspaceKey,
        base_ref: BaseRef,
        branch_name: Option<BranchName>,
        local_path: LocalPath,
        token: FencingToken,
        now: Timestamp,
    ) -> Self {
        let now = to_the_microsecond(now);
        let (conversation_id, task_id) = match &key.purpose {
            Purpose::Conversation(id) => (Some(id.clone()), None),
            Purpose::Task(id) => (None, Some(id.clone())),
            Purpose::Analysis(_) | Purpose::Branch(_) => (None, None),
        };
        Self {
            id: WorkspaceId::generate(),
            repo_cache_id,
            key,
            conversation_id,
            task_id,
            base_ref,
            branch_name,
            local_path,
            state: WorkspaceState::Creating,
            dirty: false,
            pinned_until: None,
            last_used_at: now,
            size_bytes: None,
            version: 1,
            token,
            commands_token: FencingToken::new(0),
            created_at: now,
            updated_at: now,
        }
    }

    /// What may be done with it.
    #[must_use]
    pub const fn capabilities(&self) -> Capabilities {
        Capabilities::from_mode(self.key.mode())
    }

    /// The same in another state, to be written.
    ///
    /// # Errors
    /// A conflict when it can't go there from its state.
    pub fn moved_to(mut self, next: WorkspaceState, now: Timestamp) -> Result<Self, SandboxError> {
        if !self.state.may_become(next) {
            let cause = ConflictCause::State {
                is: self.state.as_str(),
                wanted: next.as_str(),
            };
            return Err(SandboxError::conflict(Subject::Workspace(self.id), cause));
        }
        self.state = next;
        self.updated_at = to_the_microsecond(now);
        Ok(self)
    }

    /// Is it what a request asks for that has its key? A request without a branch takes any.
    ///
    /// # Errors
    /// A conflict when it is on another branch, or was made from another cache: nobody ever gets
    /// another branch's tree, or one that other access fetched.
    pub fn check_serves(
        &self,
        cache: CacheId,
        branch: Option<&BranchName>,
    ) -> Result<(), SandboxError> {
        let refuse = |cause| Err(SandboxError::conflict(Subject::Workspace(self.id), cause));
        if self.repo_cache_id != cache {
            return refuse(ConflictCause::OtherRepository {
                has: self.repo_cache_id,
                asked: cache,
            });
        }
        match branch {
            Some(asked) if self.branch_name.as_ref() != Some(asked) => {
                refuse(ConflictCause::OtherBranch {
                    has: self.branch_name.clone().map(Box::new),
                    asked: Box::new(asked.clone()),
                })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ProjectId, UserId};
    use super::*;

    fn workspace() -> Workspace {
        Workspace::intent(
            CacheId::generate(),
            WorkspaceKey {
                user_id: UserId::parse("u").expect("a user"),
                project_id: ProjectId::parse("p").expect("a project"),
                purpose: Purpose::Conversation(ConversationId::parse("c").expect("an id")),
            },
            BaseRef::parse("main").expect("a base"),
            Some(BranchName::parse("agent/edits-c").expect("a branch")),
            LocalPath::parse("o/r/worktrees/c").expect("a path"),
            FencingToken::new(1),
            Timestamp::UNIX_EPOCH,
        )
    }

    #[test]
    fn an_intent_takes_its_conversation_from_its_key() {
        let intent = workspace();
        assert_eq!(
            intent.conversation_id.map(|id| id.to_string()),
            Some("c".to_owned())
        );
        assert_eq!(
            (intent.state, intent.version),
            (WorkspaceState::Creating, 1)
        );
    }

    #[test]
    fn nothing_is_deleted_that_was_used_without_being_evicted() {
        for state in WorkspaceState::ALL {
            assert_eq!(WorkspaceState::from_stored(state.as_str()), Ok(*state));
            assert!(!WorkspaceState::Deleted.may_become(*state));
            assert!(!state.may_become(*state));
            let may_be_deleted =
                matches!(state, WorkspaceState::Creating | WorkspaceState::Evicting);
            assert_eq!(state.may_become(WorkspaceState::Deleted), may_be_deleted);
        }
    }

    #[test]
    fn a_move_that_is_not_allowed_is_a_conflict() {
        let ready = workspace()
            .moved_to(WorkspaceState::Ready, Timestamp::UNIX_EPOCH)
            .expect("what was made is ready");
        let refused = ready.moved_to(WorkspaceState::Deleted, Timestamp::UNIX_EPOCH);
        let text = refused.expect_err("not evicted").to_string();
        assert!(text.contains("is ready and can't become deleted"), "{text}");
    }

    #[test]
    fn another_branch_or_cache_is_a_conflict_and_no_branch_is_any() {
        let kept = workspace();
        let cache = kept.repo_cache_id;
        let other = BranchName::parse("other").expect("a branch");
        assert!(kept.check_serves(cache, None).is_ok());
        assert!(kept.check_serves(cache, kept.branch_name.as_ref()).is_ok());
        assert!(kept.check_serves(cache, Some(&other)).is_err());
        assert!(kept.check_serves(CacheId::generate(), None).is_err());
    }
}
