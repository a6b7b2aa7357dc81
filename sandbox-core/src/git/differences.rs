//! The difference between a tree and a commit as a patch, with files that git doesn't know yet.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::caches::commit_from;
use super::commits::is_nested;
use super::layout::TreePlace;
use super::program::{Call, Place};
use super::status::at;
use super::{LocalGit, disk};
use crate::domain::{BaseRef, CommitId};
use crate::ports::caches::GitError;
use crate::ports::workspaces::{DiffBase, TreeDiff};

impl LocalGit {
    pub(super) async fn difference(
        &self,
        place: &TreePlace,
        base: &DiffBase,
        bytes_max: usize,
    ) -> Result<TreeDiff, GitError> {
        let (git_dir, tree) = (place.git_dir(), place.tree());
        let at = at(&git_dir, &tree);
        let from = match base {
            DiffBase::Head => self.head_of(at).await?,
            DiffBase::ForkOf(base) => self.fork_of(place, at, base).await?,
        };
        // An index of its own, so that others who look don't see the new files as known ones. One that
        // is left behind goes with the next commit.
        let number = rand::random::<u64>();
        let index = git_dir.join(format!("index.for-diff.{number:016x}"));
        let copied_from = git_dir.join("index");
        let copy = move |index: &Path| disk::copy_to_new(&copied_from, index).map(drop);
        self.on_disk("copying an index", index.clone(), copy)
            .await?;
        let compared = self.compare(at, &index, &from, bytes_max).await;
        self.on_disk("removing an index", index, disk::remove_file)
            .await?;
        let (patch, is_truncated) = compared?;
        Ok(TreeDiff {
            text: text_of(patch, is_truncated),
            is_truncated,
        })
    }

    async fn compare(
        &self,
        at: Place<'_>,
        index: &Path,
        from: &CommitId,
        bytes_max: usize,
    ) -> Result<(Vec<u8>, bool), GitError> {
        let new = self.untracked(at, index).await?;
        let files = new.iter().filter(|path| !is_nested(path));
        let list: Vec<u8> = files
            .flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat())
            .collect();
        if !list.is_empty() {
            let note = Call::new("noting new files", at)
                .index(index)
                .args([
                    "add",
                    "--intent-to-add",
                    "--pathspec-from-file=-",
                    "--pathspec-file-nul",
                ])
                .stdin(list);
            self.git.answer(note).await?;
        }
        let call = Call::new("comparing a tree", at)
            .index(index)
            .args([
                "diff",
                "--no-ext-diff",
                "--no-textconv",
                "--no-color",
                "--ignore-submodules=all",
            ])
            .args(["--find-renames", from.as_str(), "--"])
            .first_bytes(bytes_max);
        self.git.beginning(call).await
    }

    async fn fork_of(
        &self,
        place: &TreePlace,
        at: Place<'_>,
        base: &BaseRef,
    ) -> Result<CommitId, GitError> {
        let base_commit = self.commit_of(&place.cache, base).await?;
        let call = Call::new("looking for a common commit", at);
        let call = call.args(["merge-base", "HEAD", base_commit.as_str()]);
        match self.git.asks(call).await? {
            Some(answer) => commit_from(&answer),
            None => Err(GitError::NoSuchBase { base: base.clone() }),
        }
    }
}

/// The patch as text. A character that was cut in the middle is left out, not replaced.
fn text_of(mut patch: Vec<u8>, is_truncated: bool) -> String {
    if is_truncated
        && let Err(error) = str::from_utf8(&patch)
        && error.error_len().is_none()
    {
        patch.truncate(error.valid_up_to());
    }
    String::from_utf8_lossy(&patch).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_character_is_left_out_and_other_bytes_are_replaced() {
        let cut = "aä".as_bytes()[..2].to_vec();
        assert_eq!(text_of(cut.clone(), true), "a");
        assert_eq!(text_of(cut, false), "a\u{fffd}");
        assert_eq!(text_of(b"a\xffb".to_vec(), true), "a\u{fffd}b");
    }
}
