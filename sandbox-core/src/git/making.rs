//! How a tree comes to be: under a name of its own, with a git directory written here and the files by
//! git, and by a rename as its last step. A prepared tree is renamed away first, which only one can do.

use std::io;
use std::path::Path;

use super::caches::object_format;
use super::layout::TreePlace;
use super::program::{Call, Place};
use super::references::{read_branch, write_head};
use super::{LocalGit, disk, removal};
use crate::domain::{BaseRef, BranchName, CommitId, LocalPath};
use crate::ports::caches::GitError;
use crate::ports::workspaces::{BranchRule, NewTree, TreeRequest};

/// From a tree's `git/objects` to its cache's. It is relative, so that the root may move.
const SHARED_OBJECTS: &str = "../../../../.bare/objects\n";

/// What git and other tools look for in a tree. Our own calls don't: a command may have changed it.
const LINK_TO_GIT_DIR: &str = "gitdir: ../git\n";

/// Where a tree starts.
#[derive(Debug, Clone)]
struct Start {
    commit: CommitId,
    branch: Option<BranchName>,
    is_new_branch: bool,
}

impl LocalGit {
    pub(super) async fn make(&self, request: TreeRequest<'_>) -> Result<NewTree, GitError> {
        let place = TreePlace::of(&self.root, request.path)?;
        let start = self.start_of(&place, request.base, request.branch).await?;
        self.needs_free(&place).await?;
        let unfinished = place.unfinished();
        let made = self.fill(&unfinished, &start).await;
        self.finish(&unfinished, &place, made).await?;
        Ok(start.into())
    }

    pub(super) async fn make_from(
        &self,
        prepared: &LocalPath,
        request: TreeRequest<'_>,
    ) -> Result<NewTree, GitError> {
        let place = TreePlace::of(&self.root, request.path)?;
        let prepared = TreePlace::of(&self.root, prepared)?;
        if prepared.cache != place.cache {
            return Err(GitError::InvalidPath {
                path: prepared.folder,
            });
        }
        let start = self.start_of(&place, request.base, request.branch).await?;
        self.needs_free(&place).await?;
        let unfinished = place.unfinished();
        let goal = unfinished.folder.clone();
        let siblings = place.siblings.clone();
        // Whoever comes second finds nothing to rename.
        let take = move |folder: &Path| {
            std::fs::create_dir_all(siblings)?;
            disk::rename_to_new(folder, &goal)
        };
        let taken = self
            .on_disk("taking a prepared tree", prepared.folder.clone(), take)
            .await;
        if let Err(GitError::Io { source, .. }) = &taken
            && disk::is_absence(source)
        {
            return Err(GitError::NotThere {
                path: prepared.folder,
            });
        }
        taken?;
        let made = self.bring_along(&unfinished, &start).await;
        self.finish(&unfinished, &place, made).await?;
        Ok(start.into())
    }

    async fn start_of(
        &self,
        place: &TreePlace,
        base: &BaseRef,
        rule: &BranchRule,
    ) -> Result<Start, GitError> {
        let BranchRule::On { branch, may_create } = rule else {
            return Ok(Start {
                commit: self.commit_of(&place.cache, base).await?,
                branch: None,
                is_new_branch: false,
            });
        };
        let name = branch.as_str().to_owned();
        let read = move |cache: &Path| read_branch(cache, &name);
        let found = self
            .on_disk("reading a branch", place.cache.clone(), read)
            .await?;
        let is_new_branch = found.is_none();
        let commit = match found {
            Some(commit) => commit,
            None if *may_create => self.commit_of(&place.cache, base).await?,
            None => {
                self.needs_repository(&place.cache).await?;
                return Err(GitError::NoSuchBranch {
                    branch: branch.clone(),
                });
            }
        };
        Ok(Start {
            commit,
            branch: Some(branch.clone()),
            is_new_branch,
        })
    }

    /// The place must be free. What earlier attempts left there is removed: their lock is ours now.
    pub(super) async fn needs_free(&self, place: &TreePlace) -> Result<(), GitError> {
        let look = |folder: &Path| {
            removal::remove_leftovers(folder)?;
            disk::is_there(folder)
        };
        let folder = place.folder.clone();
        if self
            .on_disk("looking for room for a tree", folder, look)
            .await?
        {
            return Err(GitError::AlreadyThere {
                path: place.folder.clone(),
            });
        }
        Ok(())
    }

    async fn fill(&self, unfinished: &TreePlace, start: &Start) -> Result<(), GitError> {
        let (place, begun) = (unfinished.clone(), start.clone());
        let lay_out = move |_: &Path| {
            write_git_dir(&place)?;
            write_head(&place.git_dir(), begun.branch.as_ref(), &begun.commit)
        };
        self.on_disk(
            "writing a git directory",
            unfinished.folder.clone(),
            lay_out,
        )
        .await?;
        self.check_out(unfinished, &start.commit).await
    }

    /// Puts a prepared tree on its branch, and brings along what has changed since it was prepared.
    async fn bring_along(&self, unfinished: &TreePlace, start: &Start) -> Result<(), GitError> {
        let (git_dir, begun) = (unfinished.git_dir(), start.clone());
        let enter = move |_: &Path| {
            let prepared = disk::read_file(&git_dir.join("HEAD"), 4096)?;
            write_head(&git_dir, begun.branch.as_ref(), &begun.commit)?;
            Ok(prepared.is_some_and(|head| head.trim_ascii() == begun.commit.as_str().as_bytes()))
        };
        let folder = unfinished.folder.clone();
        if self
            .on_disk("entering a prepared tree", folder, enter)
            .await?
        {
            return Ok(());
        }
        self.check_out(unfinished, &start.commit).await
    }

    pub(super) async fn check_out(
        &self,
        unfinished: &TreePlace,
        commit: &CommitId,
    ) -> Result<(), GitError> {
        let (git_dir, tree) = (unfinished.git_dir(), unfinished.tree());
        let place = Place::Tree {
            git_dir: &git_dir,
            tree: &tree,
        };
        let call = Call::new("checking out", place);
        let call = call.args(["read-tree", "--reset", "-u", commit.as_str()]);
        self.git.answer(call).await?;
        Ok(())
    }

    /// Gives what was made its name, or removes it.
    pub(super) async fn finish(
        &self,
        unfinished: &TreePlace,
        place: &TreePlace,
        made: Result<(), GitError>,
    ) -> Result<(), GitError> {
        let goal = place.folder.clone();
        let folder = unfinished.folder.clone();
        let named = match made {
            Ok(()) => {
                let rename = move |folder: &Path| disk::rename_to_new(folder, &goal);
                self.on_disk("naming a new tree", folder.clone(), rename)
                    .await
            }
            Err(error) => Err(error),
        };
        if named.is_err() {
            self.clean_up(folder).await;
        }
        named
    }
}

impl From<Start> for NewTree {
    fn from(start: Start) -> Self {
        Self {
            head: start.commit,
            is_new_branch: start.is_new_branch,
        }
    }
}

/// A git directory, as gitrepository-layout(5) says, that borrows its cache's objects. Its `HEAD` is for
/// the caller to write.
pub(super) fn write_git_dir(place: &TreePlace) -> io::Result<()> {
    let format = object_format(&place.cache)?;
    let git_dir = place.git_dir();
    std::fs::create_dir_all(place.tree())?;
    for folder in ["objects/info", "objects/pack", "refs/heads"] {
        std::fs::create_dir_all(git_dir.join(folder))?;
    }
    let shared = git_dir.join("objects/info/alternates");
    disk::write_file(&shared, SHARED_OBJECTS.as_bytes())?;
    disk::write_file(&git_dir.join("config"), tree_config(format).as_bytes())?;
    disk::write_file(&place.tree().join(".git"), LINK_TO_GIT_DIR.as_bytes())
}

fn tree_config(format: &str) -> String {
    format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tfilemode = true\n\
         \tlogallrefupdates = false\n[extensions]\n\tobjectFormat = {format}\n\
         [gc]\n\tauto = 0\n\tpruneExpire = never\n[maintenance]\n\tauto = false\n"
    )
}
