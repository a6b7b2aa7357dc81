//! Commits, made of git's parts and not by `git commit`: no hook, editor, signature or setting of a
//! repository has a say, and each step is either not seen or whole.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::LocalGit;
use super::caches::commit_from;
use super::layout::TreePlace;
use super::program::{Call, Place};
use super::status::{at, path_from};
use crate::domain::CommitId;
use crate::ports::caches::GitError;
use crate::ports::workspaces::CommitRequest;

/// A commit to be made of an index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draft<'a> {
    pub(super) index: &'a Path,
    pub(super) message: &'a str,
    pub(super) name: &'a str,
    pub(super) email: &'a str,
}

impl LocalGit {
    pub(super) async fn commit_in(
        &self,
        place: &TreePlace,
        request: CommitRequest<'_>,
    ) -> Result<CommitId, GitError> {
        check_paths(request.paths)?;
        let (git_dir, tree) = (place.git_dir(), place.tree());
        let at = at(&git_dir, &tree);
        let next = self.next_index(&git_dir).await?;
        let draft = Draft {
            index: next.path(),
            message: request.message,
            name: request.identity.name(),
            email: request.identity.email(),
        };
        let drafted = self.draft_commit(at, draft, request.paths).await;
        let (commit, parent) = match drafted {
            Ok(Some(drafted)) => drafted,
            Ok(None) => {
                self.give_up(next).await?;
                return Err(GitError::NothingToCommit { path: tree });
            }
            Err(error) => {
                self.give_up(next).await?;
                return Err(error);
            }
        };
        // The index first: between the two steps the changes are there and uncommitted, not undone.
        self.install(next).await?;
        let call = Call::new("moving a branch to its new commit", at);
        let call = call.args(["update-ref", "HEAD", commit.as_str(), parent.as_str()]);
        self.git.answer(call).await?;
        Ok(commit)
    }

    /// Adds changes to an index and makes a commit of it, which nothing names yet. Nothing if nothing
    /// differs from the last commit. Answers the commit and its parent.
    pub(super) async fn draft_commit(
        &self,
        at: Place<'_>,
        draft: Draft<'_>,
        paths: &[PathBuf],
    ) -> Result<Option<(CommitId, CommitId)>, GitError> {
        self.refuse_nested(at, draft.index, paths).await?;
        let call = Call::new("adding changes", at)
            .index(draft.index)
            .args(["add", "--all"]);
        let call = if paths.is_empty() {
            call
        } else {
            let list = paths
                .iter()
                .flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat());
            call.args(["--pathspec-from-file=-", "--pathspec-file-nul"])
                .stdin(list.collect())
        };
        self.git.answer(call).await?;
        let write = Call::new("writing a tree's object", at).index(draft.index);
        let tree = self.git.answer(write.args(["write-tree"])).await?;
        let tree = commit_from(&tree)?;
        let ask = Call::new("asking for the last commit", at);
        let ask = ask.args(["rev-parse", "HEAD^{commit}", "HEAD^{tree}"]);
        let answer = self.git.answer(ask).await?;
        let mut lines = answer.split(|byte| *byte == b'\n');
        let parent = commit_from(lines.next().unwrap_or_default())?;
        let committed = commit_from(lines.next().unwrap_or_default())?;
        if committed == tree {
            return Ok(None);
        }
        let mut message = draft.message.trim_end().as_bytes().to_vec();
        message.push(b'\n');
        let make = Call::new("making a commit", at)
            .args([
                "commit-tree",
                tree.as_str(),
                "-p",
                parent.as_str(),
                "-F",
                "-",
            ])
            .env("GIT_AUTHOR_NAME", draft.name)
            .env("GIT_AUTHOR_EMAIL", draft.email)
            .env("GIT_COMMITTER_NAME", draft.name)
            .env("GIT_COMMITTER_EMAIL", draft.email)
            .stdin(message);
        let commit = commit_from(&self.git.answer(make).await?)?;
        Ok(Some((commit, parent)))
    }

    /// Refuses a repository within the tree that git doesn't know: it would be committed as a mere
    /// pointer, and its files be lost.
    async fn refuse_nested(
        &self,
        at: Place<'_>,
        index: &Path,
        paths: &[PathBuf],
    ) -> Result<(), GitError> {
        for found in self.untracked(at, index).await? {
            if is_nested(&found) && is_chosen(&found, paths) {
                return Err(GitError::NestedRepository { path: found });
            }
        }
        Ok(())
    }

    /// The files that git doesn't know, without ignored ones. One that ends with a slash is a
    /// repository of its own.
    pub(super) async fn untracked(
        &self,
        at: Place<'_>,
        index: &Path,
    ) -> Result<Vec<PathBuf>, GitError> {
        let call = Call::new("listing new files", at).index(index);
        let call = call.args(["ls-files", "--others", "--exclude-standard", "-z"]);
        let answer = self.git.answer(call).await?;
        let names = answer
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        Ok(names.map(path_from).collect())
    }
}

/// Is an untracked path, as git lists it, a repository of its own?
pub(super) fn is_nested(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// Is a path among the chosen ones, within one of them, or around one of them?
fn is_chosen(path: &Path, chosen: &[PathBuf]) -> bool {
    chosen.is_empty()
        || chosen
            .iter()
            .any(|chosen| path.starts_with(chosen) || chosen.starts_with(path))
}

/// Paths must be relative, and lead nowhere out of the tree.
fn check_paths(paths: &[PathBuf]) -> Result<(), GitError> {
    for path in paths {
        let is_plain = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if path.as_os_str().is_empty() || !is_plain || path.as_os_str().as_bytes().contains(&0) {
            return Err(GitError::InvalidPath { path: path.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_of_the_tree_are_refused() {
        for path in ["", "/etc/passwd", "..", "a/../../b", "./a", "a\0b"] {
            assert!(check_paths(&[PathBuf::from(path)]).is_err(), "{path}");
        }
        for path in ["a", "a/b", "a..b", ":(top)x", "-x"] {
            assert!(check_paths(&[PathBuf::from(path)]).is_ok(), "{path}");
        }
    }

    #[test]
    fn a_nested_repository_matters_only_where_something_is_committed() {
        let nested = Path::new("vendor/thing/");
        assert!(is_nested(nested) && !is_nested(Path::new("vendor/thing")));
        let chosen = |path: &str| is_chosen(nested, &[PathBuf::from(path)]);
        assert!(chosen("vendor") && chosen("vendor/thing/x") && !chosen("src"));
        assert!(is_chosen(nested, &[]));
    }
}
