//! How a tree is made of what was saved of an earlier one, and when what was saved goes.
//!
//! The files are those of the saved edits, and the index is the last commit's: so what was uncommitted is
//! so again. Nothing is merged, since the tree starts where the saved one was, wherever its branch or base
//! is by now. The tree gets copies of the objects, and a note of whose edits it was made of; by that note
//! what was saved is dropped, once somebody has written down that the tree is whole.

use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::layout::TreePlace;
use super::making::write_git_dir;
use super::program::Call;
use super::references::{write_head, write_unborn_head};
use super::saving::{EVICTED, FETCH_FROM_FOLDER};
use super::status::at;
use super::{LocalGit, disk, layout, removal};
use crate::domain::{CommitId, LocalPath, WorkspaceId};
use crate::ports::caches::GitError;
use crate::ports::workspaces::SavedTree;

/// What names the edits in the git directory of the tree that was made of them.
const RESTORED: &str = "refs/sandbox/restored";

/// Bytes of a note: an id and more.
const NOTE_BYTES_MAX: u64 = 100;

impl LocalGit {
    pub(super) async fn make_of_saved(
        &self,
        path: &LocalPath,
        saved: &SavedTree,
    ) -> Result<CommitId, GitError> {
        let place = TreePlace::of(&self.root, path)?;
        self.needs_free(&place).await?;
        let unfinished = place.unfinished();
        let made = self.lay(&unfinished, saved).await;
        self.finish(&unfinished, &place, made).await?;
        Ok(saved.head.clone())
    }

    async fn lay(&self, unfinished: &TreePlace, saved: &SavedTree) -> Result<(), GitError> {
        let place = unfinished.clone();
        let lay_out = move |_: &Path| {
            write_git_dir(&place)?;
            write_unborn_head(&place.git_dir())
        };
        let folder = unfinished.folder.clone();
        self.on_disk("writing a git directory", folder, lay_out)
            .await?;
        let (git_dir, tree) = (unfinished.git_dir(), unfinished.tree());
        let at = at(&git_dir, &tree);
        let refspec = format!("+{}:{RESTORED}", saved.edits.reference);
        let fetch = Call::new("fetching saved edits", at)
            .args(FETCH_FROM_FOLDER)
            .args([saved.edits.store.as_os_str(), refspec.as_ref()]);
        self.git.answer(fetch).await?;
        let (branch, head) = (saved.branch.clone(), saved.head.clone());
        let enter = move |git_dir: &Path| write_head(git_dir, branch.as_ref(), &head);
        self.on_disk("entering a saved branch", git_dir.clone(), enter)
            .await?;
        self.check_out(unfinished, &saved.edits.commit).await?;
        if saved.edits.commit != saved.head {
            // Without `-u` the files stay, and what is the same keeps what the index knows of its file.
            let back = Call::new("taking an index back to its last commit", at);
            let back = back.args(["read-tree", "--reset", saved.head.as_str()]);
            self.git.answer(back).await?;
        }
        let note = format!("{}\n", saved.workspace);
        let write = move |path: &Path| disk::write_file(path, note.as_bytes());
        let path = layout::made_of(&unfinished.folder);
        self.on_disk("noting of what a tree was made", path, write)
            .await
    }

    /// Of whose saved edits a tree was made, if these weren't dropped since.
    pub(super) async fn made_of(&self, place: &TreePlace) -> Result<Option<WorkspaceId>, GitError> {
        let note = layout::made_of(&place.folder);
        self.on_disk("reading of what a tree was made", note, read_note)
            .await
    }

    /// Drops a store if a tree holds what is in it: it was made of it, or it was saved of this tree.
    pub(super) async fn drop_held(
        &self,
        place: &TreePlace,
        workspace: WorkspaceId,
        store: PathBuf,
    ) -> Result<bool, GitError> {
        let note = layout::made_of(&place.folder);
        let drop_held = move |note: &Path| {
            let made_of = read_note(note)?;
            let mut had_some = made_of.is_some();
            for held in made_of.into_iter().chain([workspace]) {
                // Looked at as a file, so that next to no time passes between the look and the rename.
                if disk::is_there(&store.join(format!("{EVICTED}{held}")))? {
                    removal::remove(&store)?;
                    had_some = true;
                }
            }
            // After the store: without the note nobody would drop that any more.
            disk::remove_file(note)?;
            Ok(had_some)
        };
        self.on_disk("dropping saved edits", note, drop_held).await
    }
}

fn read_note(note: &Path) -> io::Result<Option<WorkspaceId>> {
    let Some(bytes) = disk::read_file(note, NOTE_BYTES_MAX)? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    match Uuid::parse_str(text.trim()) {
        Ok(id) => Ok(Some(WorkspaceId::from_uuid(id))),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_a_workspace_or_is_damaged() {
        let folder = tempfile::tempdir().expect("a folder");
        let note = folder.path().join("note");
        assert_eq!(read_note(&note).expect("none"), None);
        let id = WorkspaceId::generate();
        disk::write_file(&note, format!("{id}\n").as_bytes()).expect("a file");
        assert_eq!(read_note(&note).expect("a note"), Some(id));
        disk::write_file(&note, b"").expect("a file");
        assert!(read_note(&note).is_err());
    }
}
