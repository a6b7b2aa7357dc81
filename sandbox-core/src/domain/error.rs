//! What can go wrong, in the domain's words: each error says what failed, on what, and what to do.

use std::error::Error;
use std::fmt;

use jiff::Timestamp;
use thiserror::Error;

use super::{
    BaseRef, BranchName, CacheId, CacheKey, GitHost, Invalid, PreparedTreeId, RepoName, RuntimeId,
    RuntimeState, SchemeRefused, WorkspaceId, WorkspaceKey,
};

/// An adapter's own error, kept for the log. It must hold no secret.
pub type Cause = Box<dyn Error + Send + Sync>;

/// What a call was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A cache by its id.
    Cache(CacheId),
    /// A cache by its identity.
    CacheKey(Box<CacheKey>),
    /// A workspace by its id.
    Workspace(WorkspaceId),
    /// A workspace by its identity.
    WorkspaceKey(Box<WorkspaceKey>),
    /// A runtime by its id.
    Runtime(RuntimeId),
    /// The runtime that a workspace has.
    RuntimeOf(WorkspaceId),
    /// A prepared tree by its id.
    PreparedTree(PreparedTreeId),
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cache(id) => write!(out, "repository cache {id}"),
            Self::CacheKey(key) => write!(out, "the repository cache of {key}"),
            Self::Workspace(id) => write!(out, "workspace {id}"),
            Self::WorkspaceKey(key) => write!(out, "the workspace of {key}"),
            Self::Runtime(id) => write!(out, "runtime {id}"),
            Self::RuntimeOf(id) => write!(out, "the runtime of workspace {id}"),
            Self::PreparedTree(id) => write!(out, "prepared tree {id}"),
        }
    }
}

/// What there is a largest number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Countable {
    /// One user's workspaces.
    WorkspacesOfUser,
    /// All workspaces.
    Workspaces,
    /// All runtimes.
    Runtimes,
    /// Prepared trees of a base that nobody has claimed.
    PreparedTrees,
}

impl fmt::Display for Countable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::WorkspacesOfUser => "workspaces of this user",
            Self::Workspaces => "workspaces",
            Self::Runtimes => "runtimes",
            Self::PreparedTrees => "unclaimed prepared trees of this base",
        })
    }
}

/// Why a write met something else than its writer had seen.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConflictCause {
    /// Somebody has written it since it was read.
    #[error("it has version {found} by now, not {expected}; read it again and decide again")]
    Version {
        /// The version that the writer had read.
        expected: u64,
        /// The version that it has.
        found: u64,
    },
    /// The writer's lock was lost, and the next holder has written.
    #[error(
        "token {newest} has written since token {given}, so that lock was lost; stop, and acquire it anew"
    )]
    StaleToken {
        /// The writer's token.
        given: u64,
        /// The newest that has written.
        newest: u64,
    },
    /// It was used after it had been decided that nobody uses it.
    #[error("it was used at {at}, after it had been found idle; let it be")]
    UsedSince {
        /// When it was last used.
        at: Timestamp,
    },
    /// Its state doesn't allow it.
    #[error("it is {is} and can't become {wanted}; read it again and decide again")]
    State {
        /// The state that it has.
        is: &'static str,
        /// The state that it should have got.
        wanted: &'static str,
    },
    /// What it stands on isn't ready.
    #[error("{what} is {is}; try again once it is ready")]
    NotReady {
        /// On what it stands.
        what: Box<Subject>,
        /// The state that this has.
        is: &'static str,
    },
    /// Something still stands on it.
    #[error("{uses} workspaces, prepared trees or runtimes use it; end these first")]
    InUse {
        /// How many.
        uses: u64,
    },
    /// The workspace of that key is on another branch.
    #[error(
        "it is on branch {}, not on {asked}; release it, and ask with another conversation or task",
        .has.as_deref().map_or("none", BranchName::as_str)
    )]
    OtherBranch {
        /// The branch that it has.
        has: Option<Box<BranchName>>,
        /// The branch that was asked for.
        asked: Box<BranchName>,
    },
    /// The workspace of that key is one of another repository, or of other access to it.
    #[error("it belongs to repository cache {has}, not {asked}; ask with another project")]
    OtherRepository {
        /// The cache that it has.
        has: CacheId,
        /// The cache that was asked for.
        asked: CacheId,
    },
}

/// By what a runtime has seen that the lock of a command's holder is another's, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LockLoss {
    /// Somebody's command came who got the lock later.
    #[error("token {newest} came after its token {given}")]
    NewerToken {
        /// The token under which it was ordered.
        given: u64,
        /// The newer one.
        newest: u64,
    },
    /// Its lease ran out without having been prolonged.
    #[error("its lease ran out")]
    LeaseEnded,
}

/// What can go wrong with workspaces, runtimes and the stores that keep them.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// There is no such thing, or it has been deleted.
    #[error("{0} doesn't exist, or no longer; ask for it again, and it is made anew")]
    NotFound(Subject),
    /// Whoever asks may not.
    #[error("access to {subject} was refused: {reason}; ask as somebody who may")]
    Unauthorized {
        /// To what.
        subject: Subject,
        /// Why, without any secret.
        reason: &'static str,
    },
    /// It took too long.
    #[error("{doing} took longer than {limit_ms} ms; raise the limit, or find out what holds it")]
    Timeout {
        /// What: `acquiring the lock`.
        doing: &'static str,
        /// How long it had.
        limit_ms: u64,
    },
    /// It is not as the caller thought. Nothing was changed.
    #[error("{subject} was left as it is: {cause}")]
    Conflict {
        /// What.
        subject: Subject,
        /// In which way.
        cause: ConflictCause,
    },
    /// A server, or what runs something, doesn't answer.
    #[error("{service} is unavailable while {doing}: {source}; try again once it answers")]
    Unavailable {
        /// Which: `the store`.
        service: &'static str,
        /// Doing what: `reading a workspace`.
        doing: &'static str,
        /// What it said.
        source: Cause,
    },
    /// A limit on resources was reached.
    #[error("{resource} has reached its limit of {limit} {unit}; use less, or raise the limit")]
    ResourceLimit {
        /// Which resource: `memory`.
        resource: &'static str,
        /// The limit.
        limit: u64,
        /// Its unit: `MB`.
        unit: &'static str,
    },
    /// The command may not run there.
    #[error("the command {command:?} was not run: {reason}")]
    CommandRejected {
        /// The program, without its arguments, which may hold a secret.
        command: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// The lock under which a command ran, or was to run, was lost. Nothing of it runs any more; what it
    /// had written is there.
    #[error(
        "the command {command:?} was ended, or never begun, since its lock was lost: {loss}; acquire it anew, and look at what is there before going on"
    )]
    LockLost {
        /// The program, without its arguments, which may hold a secret.
        command: String,
        /// By what that was seen.
        loss: LockLoss,
    },
    /// The runtime can't run anything now.
    #[error("runtime {runtime} is {state}; start it first, or get a new one")]
    NotRunning {
        /// Which.
        runtime: RuntimeId,
        /// The state that it has.
        state: RuntimeState,
    },
    /// There is one already, which isn't deleted.
    #[error("{0} exists already; use that one")]
    AlreadyExists(Subject),
    /// There are as many as there may be.
    #[error("there are {limit} {what} already, as many as allowed; end some, or raise the limit")]
    TooMany {
        /// Of what.
        what: Countable,
        /// How many there may be.
        limit: u32,
    },
    /// A stored row can't be read. It isn't touched.
    #[error("the row of {subject} is damaged: {source}; repair it before it is used again")]
    Damaged {
        /// Whose row.
        subject: Subject,
        /// What is wrong with it.
        source: Invalid,
    },
    /// Something given isn't what it should be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The repository is reached by a scheme that isn't allowed here.
    #[error(transparent)]
    Scheme(#[from] SchemeRefused),
}

impl SandboxError {
    /// A conflict about `subject`.
    #[must_use]
    pub const fn conflict(subject: Subject, cause: ConflictCause) -> Self {
        Self::Conflict { subject, cause }
    }
}

/// What can go wrong within a working tree.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// There is no such workspace, or it has been deleted.
    #[error("workspace {0} doesn't exist, or no longer; ask for it again, and it is made anew")]
    NotFound(WorkspaceId),
    /// Somebody else changes it.
    #[error(
        "workspace {workspace} was locked by somebody else for {waited_ms} ms; try again later"
    )]
    Locked {
        /// Which.
        workspace: WorkspaceId,
        /// How long was waited.
        waited_ms: u64,
    },
    /// It has changes that would be lost.
    #[error("workspace {0} has uncommitted changes; commit them, or ask for them to be saved")]
    Dirty(WorkspaceId),
    /// It should go, and what it holds can't be saved.
    #[error("workspace {workspace} stays, because its changes can't be saved: {reason}")]
    EvictionBlocked {
        /// Which.
        workspace: WorkspaceId,
        /// Why they can't, and what to do.
        reason: String,
    },
    /// Its tree isn't where it should be, and edits were in it that nobody has saved.
    #[error(
        "the tree at {path} with uncommitted changes is gone; put it back there, or give it up by \
         `unstall-sandbox evict {workspace}` and ask again"
    )]
    TreeLost {
        /// Which.
        workspace: WorkspaceId,
        /// Where its tree should be.
        path: String,
    },
    /// What was saved of it when its tree went can't be laid over a new one. It is still there.
    #[error(
        "the edits that were saved as {reference} can't be laid over a new tree: {source}; \
         `git fetch {store} {reference}` gets them into any clone, and without {store} the next tree starts anew"
    )]
    SavedEditsUnusable {
        /// The hidden ref that names them.
        reference: String,
        /// The full path of the repository that has it.
        store: String,
        /// Why they can't.
        source: Cause,
    },
    /// Its repository's cache can't be used.
    #[error("the repository cache of {key} is unavailable for {base}: {source}; try again later")]
    RepoCacheUnavailable {
        /// Which.
        key: Box<CacheKey>,
        /// What was wanted of it.
        base: BaseRef,
        /// What went wrong.
        source: Cause,
    },
    /// The code host refused the credentials.
    #[error(
        "{host} refused the credentials for {repo}; renew them, and check what they may access"
    )]
    RepoAuthFailed {
        /// The code host.
        host: GitHost,
        /// The repository.
        repo: RepoName,
    },
    /// A path that leads elsewhere, or nowhere.
    #[error("the path {path:?} can't be used: {reason}")]
    InvalidPath {
        /// The path as it was given, shortened by whoever shows it.
        path: String,
        /// Why, and what to do.
        reason: &'static str,
    },
}

/// What can go wrong with a code host.
#[derive(Debug, Error)]
pub enum PlatformError {
    /// The pull request was not made.
    #[error(
        "no pull request of {branch} was made in {repo}: {reason}; the branch is pushed, so try again"
    )]
    PullRequestFailed {
        /// Where.
        repo: RepoName,
        /// Of which branch.
        branch: BranchName,
        /// What the code host said, without any secret.
        reason: String,
    },
    /// Nothing is configured for that code host.
    #[error("no access to {0} is configured; configure an app, a sign-in or a token for it")]
    NotConfigured(GitHost),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_failed_on_what_and_what_to_do() {
        let id = WorkspaceId::generate();
        let cause = ConflictCause::StaleToken {
            given: 3,
            newest: 5,
        };
        assert_eq!(
            SandboxError::conflict(Subject::Workspace(id), cause).to_string(),
            format!(
                "workspace {id} was left as it is: token 5 has written since token 3, so that lock was \
                 lost; stop, and acquire it anew"
            )
        );
        let unavailable = SandboxError::Unavailable {
            service: "the store",
            doing: "reading a workspace",
            source: "connection refused".into(),
        };
        assert_eq!(
            unavailable.to_string(),
            "the store is unavailable while reading a workspace: connection refused; try again once it \
             answers"
        );
        assert!(Error::source(&unavailable).is_some());
        let loss = LockLoss::NewerToken {
            given: 3,
            newest: 5,
        };
        let lost = SandboxError::LockLost {
            command: "make".to_owned(),
            loss,
        };
        let text = lost.to_string();
        assert!(text.contains("\"make\"") && text.contains("token 5 came after its token 3"));
    }

    #[test]
    fn another_branch_is_named_beside_the_one_asked_for() {
        let asked = Box::new(BranchName::parse("b").expect("a branch"));
        for (has, word) in [(Some(asked.clone()), "branch b,"), (None, "branch none,")] {
            let cause = ConflictCause::OtherBranch {
                has,
                asked: asked.clone(),
            };
            assert!(cause.to_string().contains(word), "{cause}");
        }
    }

    #[test]
    fn what_was_saved_and_cannot_be_used_is_named_with_the_way_to_get_it() {
        let unusable = WorkspaceError::SavedEditsUnusable {
            reference: "refs/sandbox/evicted/1".to_owned(),
            store: "/srv/o/r/.saved/1".to_owned(),
            source: "an object is missing".into(),
        };
        let told = unusable.to_string();
        assert!(
            told.contains("missing; `git fetch /srv/o/r/.saved/1 refs/sandbox/evicted/1`"),
            "{told}"
        );
    }

    #[test]
    fn errors_stay_small_enough_to_return() {
        assert!(size_of::<SandboxError>() <= 128);
        assert!(size_of::<WorkspaceError>() <= 128);
        assert!(size_of::<PlatformError>() <= 128);
    }
}
