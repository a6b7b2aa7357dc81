//! How edits outlive their tree: as a commit in the cache, under a name that no fetch touches.

use std::path::{Path, PathBuf};

use super::commits::Draft;
use super::layout::TreePlace;
use super::program::{Call, Place};
use super::status::{at, path_from};
use super::{LocalGit, disk};
use crate::domain::{CommitId, WorkspaceId};
use crate::ports::caches::GitError;
use crate::ports::workspaces::SavedEdits;

/// What names the commit in the tree's own git directory, until the cache has it.
const HANDED_OVER: &str = "refs/sandbox/handed-over";

/// Who commits what nobody has committed.
const NAME: &str = "Unstall sandbox";
const EMAIL: &str = "sandbox@unstall.invalid";

impl LocalGit {
    pub(super) async fn save_all(
        &self,
        place: &TreePlace,
        workspace: WorkspaceId,
    ) -> Result<SavedEdits, GitError> {
        let (git_dir, tree) = (place.git_dir(), place.tree());
        let at = at(&git_dir, &tree);
        self.refuse_filled_submodules(at, &tree).await?;
        // The lock keeps every other git from the tree; the index itself stays as it is.
        let next = self.next_index(&git_dir).await?;
        let message = format!("Edits of workspace {workspace}, saved before its tree was removed");
        let draft = Draft {
            index: next.path(),
            message: &message,
            name: NAME,
            email: EMAIL,
        };
        let drafted = self.draft_commit(at, draft, &[]).await;
        self.give_up(next).await?;
        let commit = match drafted? {
            Some((commit, _)) => commit,
            None => self.head_of(at).await?,
        };
        let reference = format!("refs/sandbox/evicted/{workspace}");
        self.hand_over(place, &commit, Some(&reference)).await?;
        Ok(SavedEdits { reference, commit })
    }

    /// Gives a commit of a tree, and all that it stands on, to the cache; under a name if there is one.
    pub(super) async fn hand_over(
        &self,
        place: &TreePlace,
        commit: &CommitId,
        reference: Option<&str>,
    ) -> Result<(), GitError> {
        let (git_dir, tree) = (place.git_dir(), place.tree());
        let name = Call::new("naming a commit", at(&git_dir, &tree));
        let name = name.args(["update-ref", HANDED_OVER, commit.as_str()]);
        self.git.answer(name).await?;
        let refspec = match reference {
            Some(reference) => format!("+{HANDED_OVER}:{reference}"),
            None => HANDED_OVER.to_owned(),
        };
        let fetch = Call::new(
            "handing a commit over to the cache",
            Place::Bare(&place.cache),
        )
        .args([
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
        ])
        .args(["--no-recurse-submodules", "--"])
        .args([git_dir.as_os_str(), refspec.as_ref()]);
        self.git.answer(fetch).await?;
        Ok(())
    }

    pub(super) async fn head_of(&self, at: Place<'_>) -> Result<CommitId, GitError> {
        let call = Call::new("asking for the last commit", at);
        let call = call.args(["rev-parse", "--verify", "HEAD^{commit}"]);
        super::caches::commit_from(&self.git.answer(call).await?)
    }

    /// Refuses submodules that somebody has filled: a commit holds only a pointer to them. We never
    /// fill one.
    async fn refuse_filled_submodules(&self, at: Place<'_>, tree: &Path) -> Result<(), GitError> {
        let call = Call::new("listing submodules", at);
        let answer = self
            .git
            .answer(call.args(["ls-files", "--stage", "-z"]))
            .await?;
        let submodules: Vec<PathBuf> = answer
            .split(|byte| *byte == 0)
            .filter(|entry| entry.starts_with(b"160000 "))
            .filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1))
            .map(path_from)
            .collect();
        if submodules.is_empty() {
            return Ok(());
        }
        let look = move |tree: &Path| {
            for path in submodules {
                if !disk::names_in(&tree.join(&path))?.is_empty() {
                    return Ok(Some(path));
                }
            }
            Ok(None)
        };
        match self
            .on_disk("looking into submodules", tree.to_owned(), look)
            .await?
        {
            Some(path) => Err(GitError::NestedRepository { path }),
            None => Ok(()),
        }
    }
}
