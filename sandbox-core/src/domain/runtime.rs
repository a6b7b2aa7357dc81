//! A runtime: what commands of a workspace run in. It can go without the workspace's tree going.

use jiff::Timestamp;

use super::stored_word::stored_words;
use super::{
    BackendKind, BackendRuntimeId, ConflictCause, FencingToken, ImageName, RuntimeId, SandboxError,
    Subject, WorkspaceId, to_the_microsecond,
};

/// How far a runtime is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuntimeState {
    /// The intent to make it. After a crash its backend is asked for what carries its id, and that is
    /// taken or destroyed.
    Creating,
    /// It runs, and takes commands.
    Running,
    /// It was stopped, and can be started again.
    Stopped,
    /// Its backend says that it isn't healthy, or no longer knows it.
    Failed,
    /// The intent to destroy it. After a crash that is finished.
    Destroying,
    /// Its backend has nothing of it. The row is history.
    Destroyed,
}

stored_words!(RuntimeState, "state of a runtime", {
    Creating => "creating",
    Running => "running",
    Stopped => "stopped",
    Failed => "failed",
    Destroying => "destroying",
    Destroyed => "destroyed",
});

impl RuntimeState {
    /// May it go from this state to that? One that failed is only destroyed; the workspace gets a new
    /// one.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (
                Self::Creating,
                Self::Running | Self::Failed | Self::Destroying
            ) | (
                Self::Running,
                Self::Stopped | Self::Failed | Self::Destroying
            ) | (
                Self::Stopped,
                Self::Running | Self::Failed | Self::Destroying
            ) | (Self::Failed, Self::Destroying)
                | (Self::Destroying, Self::Destroyed)
        )
    }
}

/// What a workspace's commands run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Its id, which its backend keeps beside it, so that it is found again.
    pub id: RuntimeId,
    /// Whose commands it runs. Of a workspace's runtimes, one isn't destroyed.
    pub workspace_id: WorkspaceId,
    /// What kind of backend has it.
    pub backend_kind: BackendKind,
    /// By what name the backend knows it, once it does.
    pub backend_runtime_id: Option<BackendRuntimeId>,
    /// From what it is made.
    pub image: ImageName,
    /// How far it is.
    pub state: RuntimeState,
    /// When it was last started, if ever.
    pub last_started_at: Option<Timestamp>,
    /// When it was last used. It only grows.
    pub last_used_at: Timestamp,
    /// The end of the lease that keeps idleness from ending it: a command that runs moves it on. It
    /// only grows.
    pub expires_at: Option<Timestamp>,
    /// Grows by one with each write but a touch; the first is 1.
    pub version: u64,
    /// The newest token, of its workspace's lock, that has written it.
    pub token: FencingToken,
    /// When the intent was written.
    pub created_at: Timestamp,
    /// When it was last written, as the writer said.
    pub updated_at: Timestamp,
}

impl Runtime {
    /// The intent to make a runtime, to be stored before its backend is asked.
    #[must_use]
    pub fn intent(
        workspace_id: WorkspaceId,
        backend_kind: BackendKind,
        image: ImageName,
        token: FencingToken,
        now: Timestamp,
    ) -> Self {
        let now = to_the_microsecond(now);
        Self {
            id: RuntimeId::generate(),
            workspace_id,
            backend_kind,
            backend_runtime_id: None,
            image,
            state: RuntimeState::Creating,
            last_started_at: None,
            last_used_at: now,
            expires_at: None,
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
    pub fn moved_to(mut self, next: RuntimeState, now: Timestamp) -> Result<Self, SandboxError> {
        if !self.state.may_become(next) {
            let cause = ConflictCause::State {
                is: self.state.as_str(),
                wanted: next.as_str(),
            };
            return Err(SandboxError::conflict(Subject::Runtime(self.id), cause));
        }
        self.state = next;
        self.updated_at = to_the_microsecond(now);
        if next == RuntimeState::Running {
            self.last_started_at = Some(self.updated_at);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_but_the_last_can_be_destroyed_by_way_of_its_intent() {
        for state in RuntimeState::ALL {
            assert_eq!(RuntimeState::from_stored(state.as_str()), Ok(*state));
            let is_ending = matches!(state, RuntimeState::Destroying | RuntimeState::Destroyed);
            assert_eq!(state.may_become(RuntimeState::Destroying), !is_ending);
            let is_intent = *state == RuntimeState::Destroying;
            assert_eq!(state.may_become(RuntimeState::Destroyed), is_intent);
            assert!(!RuntimeState::Destroyed.may_become(*state));
        }
    }

    #[test]
    fn a_start_is_dated() {
        let runtime = Runtime::intent(
            WorkspaceId::generate(),
            BackendKind::parse("bubblewrap").expect("a kind"),
            ImageName::parse("agent-sandbox").expect("an image"),
            FencingToken::new(1),
            Timestamp::UNIX_EPOCH,
        );
        let later = Timestamp::from_second(7).expect("a moment");
        let running = runtime
            .moved_to(RuntimeState::Running, later)
            .expect("what was made runs");
        assert_eq!(running.last_started_at, Some(later));
    }
}
