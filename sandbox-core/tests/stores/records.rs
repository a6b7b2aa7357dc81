//! Records to store, and what is expected of refusals.

use std::fmt::Debug;

use jiff::Timestamp;
use unstall_sandbox_core::domain::{
    AuthScopeHash, BackendKind, BaseRef, BranchName, CacheKey, ConflictCause, ConversationId,
    FencingToken, ImageName, LocalPath, PreparedTree, PreparedTreeState, ProjectId, ProviderKind,
    Purpose, RepoCache, RepoCacheState, RepoName, RepoUrl, Runtime, SandboxError, Subject, TaskId,
    UserId, Workspace, WorkspaceKey, WorkspaceState,
};
use unstall_sandbox_core::ports::store::{Page, Precondition, SandboxStore, WorkspaceQuota};

/// More than any case needs.
pub(crate) const PLENTY: WorkspaceQuota = WorkspaceQuota {
    per_user_max: 10_000,
    total_max: 10_000,
};

/// A moment, in seconds since some time in 2026.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 + second).expect("a moment")
}

/// All that fits into one page.
pub(crate) fn all<Id>() -> Page<Id> {
    Page {
        after: None,
        rows_max: 1_000,
    }
}

/// The token of that number.
pub(crate) fn token(number: u64) -> FencingToken {
    FencingToken::new(number)
}

/// What a writer has read, and the token that it holds.
pub(crate) fn when(version: u64, token: u64) -> Precondition {
    Precondition {
        version,
        token: FencingToken::new(token),
        unused_since: None,
    }
}

/// The intent to make a cache, with token 1 at second 0.
pub(crate) fn cache(repo: &str) -> RepoCache {
    let repo_name = RepoName::parse(repo).expect(repo);
    let repo_url = RepoUrl::github(&repo_name);
    let scope = AuthScopeHash::public();
    RepoCache::intent(
        CacheKey::new(repo_url.host().clone(), &repo_name, scope),
        repo_name,
        repo_url,
        ProviderKind::parse("github").expect("a kind"),
        LocalPath::parse(&format!("{repo}/.bare")).expect(repo),
        FencingToken::new(1),
        at(0),
    )
}

/// A ready cache, kept by the store.
pub(crate) async fn kept_cache(store: &dyn SandboxStore, repo: &str) -> RepoCache {
    let mut cache = cache(repo);
    cache.state = RepoCacheState::Ready;
    store.insert_cache(&cache).await.expect("it is kept");
    cache
}

pub(crate) fn base(name: &str) -> BaseRef {
    BaseRef::parse(name).expect(name)
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::parse(name).expect(name)
}

pub(crate) fn conversation(id: &str) -> Purpose {
    Purpose::Conversation(ConversationId::parse(id).expect(id))
}

pub(crate) fn task(id: &str) -> Purpose {
    Purpose::Task(TaskId::parse(id).expect(id))
}

/// The key of a purpose, in project `p`.
pub(crate) fn key(user: &str, purpose: Purpose) -> WorkspaceKey {
    WorkspaceKey {
        user_id: UserId::parse(user).expect(user),
        project_id: ProjectId::parse("p").expect("a project"),
        purpose,
    }
}

/// The intent to make a workspace, with token 1 at second 0.
pub(crate) fn workspace(cache: &RepoCache, key: WorkspaceKey) -> Workspace {
    let (base_ref, branch_name) = match &key.purpose {
        Purpose::Analysis(base) => (base.clone(), None),
        Purpose::Conversation(id) => (base("main"), Some(BranchName::for_edits(id))),
        Purpose::Branch(branch) => (base("main"), Some(branch.clone())),
        Purpose::Task(id) => (base("main"), Some(BranchName::for_task(id))),
    };
    Workspace::intent(
        cache.id,
        key,
        base_ref,
        branch_name,
        LocalPath::parse("o/r/worktrees/w").expect("a path"),
        FencingToken::new(1),
        at(0),
    )
}

/// A ready workspace of user `u`, kept by the store.
pub(crate) async fn kept_workspace(
    store: &dyn SandboxStore,
    cache: &RepoCache,
    purpose: Purpose,
) -> Workspace {
    let mut workspace = workspace(cache, key("u", purpose));
    workspace.state = WorkspaceState::Ready;
    let kept = store.insert_workspace(&workspace, PLENTY).await;
    kept.expect("it is kept");
    workspace
}

/// The intent to make a runtime, with token 1 at second 0.
pub(crate) fn runtime(workspace: &Workspace) -> Runtime {
    Runtime::intent(
        workspace.id,
        BackendKind::parse("bubblewrap").expect("a kind"),
        ImageName::parse("agent-sandbox").expect("an image"),
        FencingToken::new(1),
        at(0),
    )
}

/// A ready tree of `main`, made at that second.
pub(crate) fn ready_tree(cache: &RepoCache, second: i64) -> PreparedTree {
    let path = LocalPath::parse("o/r/prepared/t").expect("a path");
    let mut tree = PreparedTree::intent(cache.id, base("main"), path, at(second));
    tree.state = PreparedTreeState::Ready;
    tree
}

/// Why a write was refused as a conflict.
pub(crate) fn conflict<T: Debug>(result: Result<T, SandboxError>) -> ConflictCause {
    match result {
        Err(SandboxError::Conflict { cause, .. }) => cause,
        other => panic!("expected a conflict, not {other:?}"),
    }
}

/// What is there already.
pub(crate) fn existing<T: Debug>(result: Result<T, SandboxError>) -> Subject {
    match result {
        Err(SandboxError::AlreadyExists(subject)) => subject,
        other => panic!("expected that it exists, not {other:?}"),
    }
}

/// What isn't there.
pub(crate) fn missing<T: Debug>(result: Result<T, SandboxError>) -> Subject {
    match result {
        Err(SandboxError::NotFound(subject)) => subject,
        other => panic!("expected that it is missing, not {other:?}"),
    }
}

/// Are there as many as there may be?
pub(crate) fn is_full<T: Debug>(result: &Result<T, SandboxError>) -> bool {
    matches!(result, Err(SandboxError::TooMany { .. }))
}
