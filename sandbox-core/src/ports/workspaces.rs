//! The door to working trees: how one is made, looked at, saved and removed.
//!
//! **Who may call.** What makes or removes a tree is called under the write lock of its workspace;
//! `commit` and `save` under the write lock of its commands; what only looks under their read lock. The
//! cache's lock isn't needed: its objects only grow.
//!
//! **What holds.** What lies at a tree's path is whole: it is made elsewhere and renamed, and a removal
//! renames it away first. Each tree has a git directory of its own, outside of what commands in it can
//! write, so that nothing in a tree decides what git runs. Nothing of one tree is seen from another:
//! two may be on one branch.

use std::fmt;
use std::path::PathBuf;

use super::Answer;
use super::caches::GitError;
use crate::domain::{
    AuthToken, BaseRef, BranchName, CommitId, Invalid, LocalPath, PreparedTreeId, RepoUrl,
    WorkspaceId, WorkspaceKey, WorkspaceMode,
};

/// On which branch a tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchRule {
    /// On none: at the commit that the base names now.
    Detached,
    /// On this one: where the origin has it, if the origin has it; else at the base, if it may be made.
    On {
        /// The branch.
        branch: BranchName,
        /// May it be made?
        may_create: bool,
    },
}

/// Which tree to make.
#[derive(Debug, Clone, Copy)]
pub struct TreeRequest<'a> {
    /// Where, which also says of which cache: as [`WorkspaceProvider::path_of`] says.
    pub path: &'a LocalPath,
    /// From what it starts.
    pub base: &'a BaseRef,
    /// On which branch.
    pub branch: &'a BranchRule,
}

/// What a new tree is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTree {
    /// The commit that is checked out.
    pub head: CommitId,
    /// Was the branch made, as the origin has none of that name?
    pub is_new_branch: bool,
}

/// Where the parts of a tree are, as full paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeLocation {
    /// The working tree: what a runtime may get, for writing if its mode is such.
    pub tree: PathBuf,
    /// Its git directory. A runtime may get it for reading only; then git works in it for reading.
    pub git_dir: PathBuf,
    /// The objects that it shares with its cache, for reading only.
    pub shared_objects: PathBuf,
}

/// How a path differs from the last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// New to git.
    Untracked,
    /// New, and git knows it.
    Added,
    /// With another content, mode or type.
    Modified,
    /// No longer there.
    Deleted,
    /// Under another name.
    Renamed,
    /// With a conflict of a merge in it.
    Unmerged,
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// In which way.
    pub kind: ChangeKind,
    /// Which, relative to the tree; its bytes may be any but NUL.
    pub path: PathBuf,
    /// The name it had, if it was renamed.
    pub renamed_from: Option<PathBuf>,
}

/// How a tree differs from what others have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeStatus {
    /// Its last commit.
    pub head: CommitId,
    /// Its branch; none if it is on none.
    pub branch: Option<BranchName>,
    /// What differs from the last commit. Ignored files don't count.
    pub changes: Vec<Change>,
    /// Were there more changes than are listed?
    pub is_truncated: bool,
    /// Is the last commit in this tree only, neither fetched from the origin nor pushed there?
    pub has_unsaved_commits: bool,
}

impl TreeStatus {
    /// Would something be lost with the tree?
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        !self.changes.is_empty() || self.has_unsaved_commits
    }
}

/// With what a tree is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffBase {
    /// With its last commit.
    Head,
    /// With the last commit that it has in common with this base.
    ForkOf(BaseRef),
}

/// A difference as text. Files that git doesn't know are in it as new ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeDiff {
    /// The patch; bytes that aren't UTF-8 are replaced.
    pub text: String,
    /// Was its end cut off?
    pub is_truncated: bool,
}

/// By whom a commit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitIdentity {
    name: String,
    email: String,
}

impl CommitIdentity {
    /// Takes a name and an address.
    ///
    /// # Errors
    /// When one is empty, longer than 200 bytes, or has a control character, `<` or `>`, which would
    /// end it within a commit.
    pub fn new(name: &str, email: &str) -> Result<Self, Invalid> {
        for (kind, text) in [("name of an author", name), ("address of an author", email)] {
            let is_special = |c: char| c.is_control() || matches!(c, '<' | '>');
            if text.trim().is_empty() || text.len() > 200 || text.chars().any(is_special) {
                let reason = "it must have 1 to 200 bytes, no control characters, < or >";
                return Err(Invalid::new(kind, text, reason));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            email: email.to_owned(),
        })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address.
    #[must_use]
    pub fn email(&self) -> &str {
        &self.email
    }
}

/// What to commit.
#[derive(Debug, Clone, Copy)]
pub struct CommitRequest<'a> {
    /// The message.
    pub message: &'a str,
    /// These paths only, relative to the tree and taken literally; all changes if there are none.
    pub paths: &'a [PathBuf],
    /// By whom.
    pub identity: &'a CommitIdentity,
}

/// What was saved of a tree that goes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedEdits {
    /// The ref that names it: `refs/sandbox/evicted/<workspace id>`.
    pub reference: String,
    /// The commit that it names: all edits, on top of the tree's last commit.
    pub commit: CommitId,
    /// The full path of the bare repository that has the ref: beside the cache, for this workspace's key
    /// alone, and in no runtime.
    pub store: PathBuf,
}

impl fmt::Display for SavedEdits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} in {}", self.reference, self.store.display())
    }
}

/// What was saved of a workspace that went, as whoever comes back finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedTree {
    /// Of which workspace it was saved.
    pub workspace: WorkspaceId,
    /// Its edits.
    pub edits: SavedEdits,
    /// The branch that it was on; none if it was on none.
    pub branch: Option<BranchName>,
    /// Its last commit. What differs between this and the commit of its edits was uncommitted; they are
    /// one commit if nothing was.
    pub head: CommitId,
}

/// What was found on disk where trees are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FoundKind {
    /// A workspace's tree, which is whole.
    Workspace,
    /// A prepared tree, which is whole.
    Prepared,
    /// What was left of something that was being made or removed. Nobody uses it, unless a worker is
    /// at it right now: one that is older than the longest such work can be removed.
    Leftover,
}

/// Something on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTree {
    /// Where it is.
    pub path: LocalPath,
    /// What it is.
    pub kind: FoundKind,
    /// How long ago it was last renamed, or something was added to it, in seconds.
    pub age_s: u64,
    /// Was it made of saved edits that weren't dropped afterwards? See
    /// [`drop_saved`](WorkspaceProvider::drop_saved).
    pub holds_saved_edits: bool,
}

/// What was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Which branch.
    pub branch: BranchName,
    /// The commit that it has at the origin now.
    pub commit: CommitId,
}

/// Keeps working trees below one root, beside the caches they are made of.
pub trait WorkspaceProvider: Send + Sync {
    /// Where the tree of a workspace shall lie.
    fn path_of(&self, cache: &LocalPath, mode: WorkspaceMode, id: WorkspaceId) -> LocalPath;

    /// Where a prepared tree shall lie.
    fn prepared_path_of(&self, cache: &LocalPath, id: PreparedTreeId) -> LocalPath;

    /// Where the parts of a tree are, or will be.
    ///
    /// # Errors
    /// `InvalidPath` when no tree can be at that path.
    fn locate(&self, path: &LocalPath) -> Result<TreeLocation, GitError>;

    /// Makes a tree, of the cache that its path is beside.
    ///
    /// Errors: `AlreadyThere`, `NoSuchBase`, `NoSuchBranch`, `NotThere` when there is no cache, `DiskFull`.
    fn create<'a>(&'a self, request: TreeRequest<'a>) -> Answer<'a, NewTree, GitError>;

    /// Makes a tree ahead of time, of the commit that is answered.
    ///
    /// Errors: as [`create`](Self::create).
    fn prepare<'a>(
        &'a self,
        path: &'a LocalPath,
        base: &'a BaseRef,
    ) -> Answer<'a, CommitId, GitError>;

    /// Makes a prepared tree the one that is asked for. Where the base or the branch has moved on, the
    /// files that differ are brought along. Of two calls for one prepared tree, one gets it.
    ///
    /// Errors: `NotThere` when somebody else got it; then take another or create. Else as
    /// [`create`](Self::create), and the prepared tree is gone.
    fn adopt<'a>(
        &'a self,
        prepared: &'a LocalPath,
        request: TreeRequest<'a>,
    ) -> Answer<'a, NewTree, GitError>;

    /// How a tree differs from what others have. Takes no lock, and changes nothing.
    ///
    /// Errors: `NotThere`.
    fn status<'a>(&'a self, path: &'a LocalPath) -> Answer<'a, TreeStatus, GitError>;

    /// The difference as a patch, of `bytes_max` at most.
    ///
    /// Errors: `NotThere`, `NoSuchBase`.
    fn diff<'a>(
        &'a self,
        path: &'a LocalPath,
        base: &'a DiffBase,
        bytes_max: usize,
    ) -> Answer<'a, TreeDiff, GitError>;

    /// Commits changes, also files that git doesn't know yet, but no ignored ones.
    ///
    /// Errors: `NotThere`, `NothingToCommit`, `NestedRepository`, `InvalidPath`, `Locked`, `DiskFull`.
    fn commit<'a>(
        &'a self,
        path: &'a LocalPath,
        request: CommitRequest<'a>,
    ) -> Answer<'a, CommitId, GitError>;

    /// Pushes the tree's branch to the branch of that name at the origin, never by force.
    ///
    /// Errors: `NotThere`, `OnNoBranch`, `PushRejected`, and those of a fetch.
    fn push<'a>(
        &'a self,
        path: &'a LocalPath,
        url: &'a RepoUrl,
        token: Option<&'a AuthToken>,
    ) -> Answer<'a, Pushed, GitError>;

    /// Saves all that would be lost with the tree beside its cache, under its workspace's key: its branch
    /// with its commits, changes, and files that git doesn't know. What git ignores isn't saved, nor are
    /// folders without files: builds and installs are made anew. The tree stays as it is. Saving again
    /// replaces what was saved.
    ///
    /// Errors: `NotThere`, `NestedRepository`, `DiskFull`, `AlreadyThere` when something else was saved
    /// under that key, which the tree wasn't made of: then nothing may be removed.
    fn save<'a>(
        &'a self,
        path: &'a LocalPath,
        workspace: WorkspaceId,
        key: &'a WorkspaceKey,
    ) -> Answer<'a, SavedEdits, GitError>;

    /// What was saved under a workspace's key, beside the cache of a tree that is or will be at that
    /// path.
    ///
    /// Errors: `SavedUnreadable`.
    fn find_saved<'a>(
        &'a self,
        path: &'a LocalPath,
        key: &'a WorkspaceKey,
    ) -> Answer<'a, Option<SavedTree>, GitError>;

    /// Makes a tree of what was saved: on its branch at its last commit, with its changes uncommitted,
    /// wherever the branch or base is by now. What was saved stays, and the tree says that it holds it.
    /// Answers the last commit.
    ///
    /// Errors: `AlreadyThere`, `NotThere`, `DiskFull`, `Failed` when an object is missing.
    fn restore<'a>(
        &'a self,
        path: &'a LocalPath,
        saved: &'a SavedTree,
    ) -> Answer<'a, CommitId, GitError>;

    /// Drops what was saved under a workspace's key, if the tree was made of it, or if it was saved of
    /// this very tree, which is still there: then the tree is the truth. To be called once a record says
    /// that the tree is whole. Answers whether there was something to drop.
    ///
    /// Errors: `NotThere` when the tree isn't there, so that what was saved may be all there is.
    fn drop_saved<'a>(
        &'a self,
        path: &'a LocalPath,
        workspace: WorkspaceId,
        key: &'a WorkspaceKey,
    ) -> Answer<'a, bool, GitError>;

    /// Removes a tree, a prepared one, or a leftover, whatever is in it. One that isn't there is removed
    /// already, and what an earlier call may have left of it is removed.
    fn remove<'a>(&'a self, path: &'a LocalPath) -> Answer<'a, (), GitError>;

    /// What it takes on disk, its git directory included, in bytes.
    ///
    /// Errors: `NotThere`.
    fn size_of<'a>(&'a self, path: &'a LocalPath) -> Answer<'a, u64, GitError>;

    /// All that lies where trees are, and what is left of saving, for the reconciler: of every cache, also
    /// of one that is gone. What was saved is whole and waits for its owner, so it isn't in the list.
    fn list(&self) -> Answer<'_, Vec<FoundTree>, GitError>;
}
