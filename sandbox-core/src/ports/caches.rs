//! The door to repositories' caches: bare mirrors on disk, from which working trees are made.
//!
//! **Who may call.** `ensure`, `fetch` and `remove` are called under the write lock of the cache;
//! nothing here takes a lock. `resolve` and everything in [`workspaces`](super::workspaces) may run
//! beside a fetch.
//!
//! **What holds.** What lies at a cache's path is whole: it is made elsewhere and renamed. Its objects
//! only grow until it is removed as a whole, so no tree ever misses one. A fetch moves the branches and
//! tags to where the origin has them, also backwards, and drops those that the origin dropped. The token
//! is in memory for the one call and nowhere else, and no error shows it.

use std::io;
use std::path::PathBuf;

use super::Answer;
use crate::domain::{
    AuthToken, BaseRef, BranchName, CacheKey, CommitId, GitHost, Invalid, LocalPath, RepoUrl,
};

/// What to fetch, from where, and into what.
#[derive(Debug, Clone, Copy)]
pub struct CacheSource<'a> {
    /// Where the cache lies: as [`RepoCacheProvider::path_of`] says.
    pub path: &'a LocalPath,
    /// From where it is fetched.
    pub url: &'a RepoUrl,
    /// With which access; it is shown to the URL's host only.
    pub token: Option<&'a AuthToken>,
}

/// What a cache has after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFacts {
    /// The branch that the origin's `HEAD` names; an empty repository has none.
    pub default_branch: Option<BranchName>,
    /// What it takes on disk, with what is saved beside it; measured only if the call fetched.
    pub size_bytes: Option<u64>,
    /// Did this call fetch from the origin?
    pub was_fetched: bool,
}

/// Keeps bare mirrors below one root.
pub trait RepoCacheProvider: Send + Sync {
    /// Where the cache of a key lies. Different keys have different paths.
    fn path_of(&self, key: &CacheKey) -> LocalPath;

    /// Clones, if there is no cache yet; else it only looks. A clone that fails leaves nothing.
    ///
    /// Errors: `AuthFailed`, `RepositoryNotFound`, `Unreachable`, `DiskFull`, `Timeout`.
    fn ensure<'a>(&'a self, source: CacheSource<'a>) -> Answer<'a, CacheFacts, GitError>;

    /// Moves all branches, tags and the default branch to where the origin has them.
    ///
    /// Errors: as [`ensure`](Self::ensure); `NotThere` when there is no cache.
    fn fetch<'a>(&'a self, source: CacheSource<'a>) -> Answer<'a, CacheFacts, GitError>;

    /// The commit that a base names now, as of the last fetch. A branch is preferred to a tag.
    ///
    /// Errors: `NoSuchBase`; `NotThere` when there is no cache.
    fn resolve<'a>(
        &'a self,
        cache: &'a LocalPath,
        base: &'a BaseRef,
    ) -> Answer<'a, CommitId, GitError>;

    /// Are edits saved beside it, of workspaces which went? These stand on its objects, so it must stay.
    /// They may be there when it isn't.
    fn has_saved_edits<'a>(&'a self, cache: &'a LocalPath) -> Answer<'a, bool, GitError>;

    /// Removes a cache, and what a clone of it may have left. Edits that are saved beside it stay. One
    /// that isn't there is removed already.
    fn remove<'a>(&'a self, cache: &'a LocalPath) -> Answer<'a, (), GitError>;

    /// The caches on disk, whole ones only, for the reconciler.
    fn list(&self) -> Answer<'_, Vec<LocalPath>, GitError>;
}

/// What can go wrong with git and the disk under it. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// The code host refused the credentials, or wants some.
    #[error("{host} refused access to {url}; renew the token, and check what it may access")]
    AuthFailed {
        /// The code host.
        host: GitHost,
        /// The repository's URL.
        url: RepoUrl,
    },
    /// The code host has no such repository, or doesn't tell whoever asks.
    #[error(
        "there is no repository at {url}, or this access may not see it; check the name and the token"
    )]
    RepositoryNotFound {
        /// The repository's URL.
        url: RepoUrl,
    },
    /// The code host didn't answer as one.
    #[error("{url} can't be reached: {said}; try again once it answers")]
    Unreachable {
        /// The repository's URL.
        url: RepoUrl,
        /// What git said.
        said: String,
    },
    /// Nothing of that name was fetched.
    #[error(
        "there is no branch, tag or commit {base} in the cache; fetch, or start from another base"
    )]
    NoSuchBase {
        /// The base.
        base: BaseRef,
    },
    /// The branch has to be there, and isn't.
    #[error(
        "there is no branch {branch}, and it may not be made; name another, or allow to make it"
    )]
    NoSuchBranch {
        /// The branch.
        branch: BranchName,
    },
    /// There is something where something new should be.
    #[error("{} exists already; use it, or remove it first", path.display())]
    AlreadyThere {
        /// The full path.
        path: PathBuf,
    },
    /// There is nothing where something should be.
    #[error("{} isn't there; it was removed or never made, so make it anew", path.display())]
    NotThere {
        /// The full path.
        path: PathBuf,
    },
    /// The code host took nothing.
    #[error("{branch} was not pushed: {said}; fetch, bring the branch up to date, and push again")]
    PushRejected {
        /// The branch.
        branch: BranchName,
        /// What git said.
        said: String,
    },
    /// The tree is on no branch.
    #[error("{} is on no branch, so there is nothing to push; get a workspace that edits", path.display())]
    OnNoBranch {
        /// The working tree.
        path: PathBuf,
    },
    /// Nothing differs from the last commit.
    #[error("nothing in {} differs from its last commit, so none was made", path.display())]
    NothingToCommit {
        /// The working tree.
        path: PathBuf,
    },
    /// A repository within the tree, whose content no commit of the outer one would hold.
    #[error(
        "{} is a repository of its own, whose files a commit of the outer one can't hold; remove its .git, or keep it outside the tree",
        path.display()
    )]
    NestedRepository {
        /// Its path within the tree.
        path: PathBuf,
    },
    /// What was saved of a workspace isn't as we leave it. It is still there.
    #[error(
        "the edits that were saved in {} can't be read: {source}; see what is there by `git --git-dir={} for-each-ref`, and without that folder the next tree starts anew",
        store.display(),
        store.display()
    )]
    SavedUnreadable {
        /// The full path of the repository that they are in.
        store: PathBuf,
        /// What is wrong with it.
        source: Box<GitError>,
    },
    /// A path that leads out of the tree.
    #[error("the path {} can't be used: it must be relative, and lead nowhere out of the tree", path.display())]
    InvalidPath {
        /// The path as it was given.
        path: PathBuf,
    },
    /// Another git works on the tree.
    #[error("another git has held {} for {waited_ms} ms; wait for it, or end it", lock.display())]
    Locked {
        /// The lock's file.
        lock: PathBuf,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The disk, or a quota on it, is full.
    #[error("the disk is full while {doing}; evict workspaces, or make room")]
    DiskFull {
        /// Doing what.
        doing: &'static str,
    },
    /// It took too long, and was ended.
    #[error(
        "{doing} took longer than {limit_ms} ms and was ended; raise the limit, or look at the network"
    )]
    Timeout {
        /// Doing what.
        doing: &'static str,
        /// How long it had.
        limit_ms: u64,
    },
    /// Git failed in another way.
    #[error("git failed while {doing}, with exit code {code:?}: {said}")]
    Failed {
        /// Doing what.
        doing: &'static str,
        /// Its exit code; none if a signal ended it.
        code: Option<i32>,
        /// What it said, shortened.
        said: String,
    },
    /// Git can't be run at all.
    #[error(
        "git can't be run ({source}); install git 2.40 or later, and see that it is on the path"
    )]
    NoGit {
        /// Why.
        source: io::Error,
    },
    /// The system refused something.
    #[error("{doing} failed on {}: {source}; check the disk and the rights to it", path.display())]
    Io {
        /// Doing what.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something given, or found on disk, isn't what it should be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}
