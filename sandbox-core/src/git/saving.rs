//! How edits outlive their tree: in a repository of their own beside the cache, until a new tree is made
//! of them (`restoring.rs`).
//!
//! That repository, the *store*, is named by the workspace's key, so that whoever comes back finds it
//! without a search. Its `HEAD` is the branch that the tree was on, at the tree's last commit, and its
//! one hidden ref is a commit of all edits on top of that. It borrows the cache's objects. No runtime is
//! given it: the cache is mounted wherever the repository is worked on, by whoever.

use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::caches::{cache_config, object_format};
use super::commits::Draft;
use super::layout::TreePlace;
use super::program::{Call, Place};
use super::references::{Head, read_branch, read_head, write_head, write_unborn_head};
use super::status::{at, path_from};
use super::{LocalGit, disk, layout, removal};
use crate::domain::{BranchName, CommitId, WorkspaceId, WorkspaceKey};
use crate::ports::caches::GitError;
use crate::ports::workspaces::{SavedEdits, SavedTree};

/// What names the commit in the tree's own git directory, until somebody else has it.
const HANDED_OVER: &str = "refs/sandbox/handed-over";

/// What names saved edits, before the workspace's id.
pub(super) const EVICTED: &str = "refs/sandbox/evicted/";

/// From a store's `objects` to its cache's. It is relative, so that the root may move.
const SHARED_OBJECTS: &str = "../../../.bare/objects\n";

/// A fetch from a folder of ours, before its path.
pub(super) const FETCH_FROM_FOLDER: [&str; 7] = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
    "--",
];

/// Who commits what nobody has committed.
const NAME: &str = "Unstall sandbox";
const EMAIL: &str = "sandbox@unstall.invalid";

const READING: &str = "reading saved edits";

impl LocalGit {
    pub(super) async fn save_all(
        &self,
        place: &TreePlace,
        workspace: WorkspaceId,
        key: &WorkspaceKey,
    ) -> Result<SavedEdits, GitError> {
        let (git_dir, tree) = (place.git_dir(), place.tree());
        let at = at(&git_dir, &tree);
        let store = layout::saved_store(&place.cache, key);
        self.refuse_foreign(place, &store, workspace).await?;
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
        let (commit, head) = match drafted? {
            Some(drafted) => drafted,
            None => {
                let head = self.head_of(at).await?;
                (head.clone(), head)
            }
        };
        let edits = SavedEdits {
            reference: format!("{EVICTED}{workspace}"),
            commit,
            store,
        };
        self.keep(place, &edits, &head).await?;
        Ok(edits)
    }

    /// Refuses to take the place of edits that the tree doesn't hold. Who goes by the locks never meets
    /// such: then somebody else had a hand in it, and shall look.
    async fn refuse_foreign(
        &self,
        place: &TreePlace,
        store: &Path,
        workspace: WorkspaceId,
    ) -> Result<(), GitError> {
        let Some(found) = self.saved_in(store).await? else {
            return Ok(());
        };
        let is_held =
            found.workspace == workspace || self.made_of(place).await? == Some(found.workspace);
        if is_held {
            return Ok(());
        }
        Err(GitError::AlreadyThere {
            path: store.to_owned(),
        })
    }

    /// Puts edits into a store, which takes the place of an earlier one of that key.
    async fn keep(
        &self,
        place: &TreePlace,
        edits: &SavedEdits,
        head: &CommitId,
    ) -> Result<(), GitError> {
        let unfinished = layout::unfinished(&edits.store);
        let filled = self.fill_store(place, edits, head, &unfinished).await;
        let named = match filled {
            Ok(()) => {
                let store = edits.store.clone();
                let name = move |unfinished: &Path| put_in_place(unfinished, &store);
                self.on_disk("naming saved edits", unfinished.clone(), name)
                    .await
            }
            Err(error) => Err(error),
        };
        if named.is_err() {
            self.clean_up(unfinished).await;
        }
        named
    }

    async fn fill_store(
        &self,
        place: &TreePlace,
        edits: &SavedEdits,
        head: &CommitId,
        unfinished: &Path,
    ) -> Result<(), GitError> {
        let (git_dir, store) = (place.git_dir(), edits.store.clone());
        let lay_out = move |unfinished: &Path| {
            removal::remove_leftovers(&store)?;
            write_store(unfinished, object_format(&git_dir)?)
        };
        self.on_disk("making a store of edits", unfinished.to_owned(), lay_out)
            .await?;
        self.hand_over(place, &edits.commit, unfinished, Some(&edits.reference))
            .await?;
        let (git_dir, head) = (place.git_dir(), head.clone());
        let enter = move |unfinished: &Path| {
            let branch = match read_head(&git_dir)? {
                Some(Head::Branch(name)) => Some(branch_named(&name)?),
                _ => None,
            };
            write_head(unfinished, branch.as_ref(), &head)
        };
        self.on_disk("entering a saved branch", unfinished.to_owned(), enter)
            .await
    }

    /// Gives a commit of a tree, and all that it stands on, to another repository; under a name if there
    /// is one.
    pub(super) async fn hand_over(
        &self,
        place: &TreePlace,
        commit: &CommitId,
        to: &Path,
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
        let fetch = Call::new("handing a commit over", Place::Bare(to))
            .args(FETCH_FROM_FOLDER)
            .args([git_dir.as_os_str(), refspec.as_ref()]);
        self.git.answer(fetch).await?;
        Ok(())
    }

    /// What a store holds, if there is one.
    pub(super) async fn saved_in(&self, store: &Path) -> Result<Option<SavedTree>, GitError> {
        if !self
            .on_disk("looking for saved edits", store.to_owned(), disk::is_there)
            .await?
        {
            return Ok(None);
        }
        let read = self.read_store(store).await;
        read.map(Some).map_err(|error| GitError::SavedUnreadable {
            store: store.to_owned(),
            source: Box::new(error),
        })
    }

    async fn read_store(&self, store: &Path) -> Result<SavedTree, GitError> {
        let damaged = |said: &str| GitError::Failed {
            doing: READING,
            code: Some(0),
            said: said.to_owned(),
        };
        let call = Call::new(READING, Place::Bare(store));
        let call = call.args(["for-each-ref", "--format=%(objectname) %(refname)", EVICTED]);
        let answer = self.git.answer(call).await?;
        let (workspace, reference, commit) =
            the_one_in(&answer).ok_or_else(|| damaged("there isn't one saved commit"))?;
        let read = |store: &Path| {
            Ok(match read_head(store)? {
                Some(Head::Branch(name)) => {
                    let head = read_branch(store, &name)?;
                    head.map(|head| branch_named(&name).map(|branch| (Some(branch), head)))
                        .transpose()?
                }
                Some(Head::Commit(head)) => Some((None, head)),
                None => None,
            })
        };
        let found = self.on_disk(READING, store.to_owned(), read).await?;
        let (branch, head) = found.ok_or_else(|| damaged("its branch has no commit"))?;
        let edits = SavedEdits {
            reference,
            commit,
            store: store.to_owned(),
        };
        Ok(SavedTree {
            workspace,
            edits,
            branch,
            head,
        })
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

/// A bare repository that borrows its cache's objects, and has nothing yet.
fn write_store(store: &Path, format: &str) -> io::Result<()> {
    for folder in ["objects/info", "objects/pack", "refs/heads"] {
        std::fs::create_dir_all(store.join(folder))?;
    }
    let shared = store.join("objects/info/alternates");
    disk::write_file(&shared, SHARED_OBJECTS.as_bytes())?;
    disk::write_file(&store.join("config"), cache_config(format).as_bytes())?;
    write_unborn_head(store)
}

/// Gives a store its name. An earlier one is renamed away first: between the two steps the tree is still
/// there, and is saved again.
fn put_in_place(unfinished: &Path, store: &Path) -> io::Result<()> {
    match disk::rename_to_new(store, &layout::removed(store)) {
        Err(error) if !disk::is_absence(&error) => return Err(error),
        _ => {}
    }
    disk::rename_to_new(unfinished, store)?;
    removal::remove_leftovers(store)
}

fn branch_named(name: &str) -> io::Result<BranchName> {
    BranchName::parse(name).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The one saved commit of a store, with its reference and the workspace that it was saved of.
fn the_one_in(answer: &[u8]) -> Option<(WorkspaceId, String, CommitId)> {
    let text = String::from_utf8_lossy(answer);
    let mut lines = text.lines();
    let (commit, reference) = lines.next()?.split_once(' ')?;
    if lines.next().is_some() {
        return None;
    }
    let id = Uuid::parse_str(reference.strip_prefix(EVICTED)?).ok()?;
    let commit = CommitId::parse(commit).ok()?;
    Some((WorkspaceId::from_uuid(id), reference.to_owned(), commit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_one_saved_commit_or_is_damaged() {
        let (id, commit) = (WorkspaceId::generate(), "a".repeat(40));
        let line = format!("{commit} {EVICTED}{id}\n");
        let (workspace, reference, found) = the_one_in(line.as_bytes()).expect("one");
        assert_eq!((workspace, found.as_str()), (id, commit.as_str()));
        assert_eq!(reference, format!("{EVICTED}{id}"));
        let other = format!("{commit} {EVICTED}not-an-id\n");
        for damaged in ["", &line.repeat(2), &other, "x y\n"] {
            assert!(the_one_in(damaged.as_bytes()).is_none(), "{damaged}");
        }
    }

    #[test]
    fn a_store_takes_the_place_of_an_earlier_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("key");
        for text in ["one", "two"] {
            let unfinished = layout::unfinished(&store);
            std::fs::create_dir(&unfinished).expect("a folder");
            disk::write_file(&unfinished.join("file"), text.as_bytes()).expect("a file");
            put_in_place(&unfinished, &store).expect("it has its name");
            let kept = disk::read_file(&store.join("file"), 100).expect("a file");
            assert_eq!(kept.as_deref(), Some(text.as_bytes()));
        }
        assert_eq!(disk::names_in(folder.path()).expect("names"), ["key"]);
    }
}
