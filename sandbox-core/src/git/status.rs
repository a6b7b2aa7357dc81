//! How a tree differs from its last commit, read from git's machine-readable status.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::layout::TreePlace;
use super::program::{Call, Place};
use super::references::{Head, read_head};
use super::{LocalGit, disk};
use crate::domain::{BranchName, CommitId};
use crate::ports::caches::GitError;
use crate::ports::workspaces::{Change, ChangeKind, TreeStatus};

/// Bytes of a status that are read: some ten thousand changes.
const STATUS_BYTES_MAX: usize = 1024 * 1024;

impl LocalGit {
    pub(super) async fn status_of(&self, place: &TreePlace) -> Result<TreeStatus, GitError> {
        let (git_dir, tree) = (place.git_dir(), place.tree());
        // What a nested repository says of itself is never asked: git would go there and run the
        // filters that its configuration names.
        let call = Call::new("looking at a tree", at(&git_dir, &tree))
            .args([
                "status",
                "--porcelain=v2",
                "-z",
                "--branch",
                "--no-ahead-behind",
            ])
            .args([
                "--untracked-files=normal",
                "--ignored=no",
                "--ignore-submodules=all",
            ])
            .first_bytes(STATUS_BYTES_MAX);
        let (answer, is_truncated) = self.git.beginning(call).await?;
        let read = Read::from(&answer, is_truncated);
        let Some(head) = read.head else {
            return Err(GitError::Failed {
                doing: "looking at a tree",
                code: Some(0),
                said: "its branch has no commit".to_owned(),
            });
        };
        // Git's own answer can't be told from a branch that is called `(detached)`.
        let branch = match self.on_disk("reading a branch", git_dir, read_head).await? {
            Some(Head::Branch(name)) => Some(BranchName::parse(&name)?),
            _ => None,
        };
        Ok(TreeStatus {
            has_unsaved_commits: self.is_only_here(place, &head).await?,
            head,
            branch,
            changes: read.changes,
            is_truncated,
        })
    }

    /// Is a commit of this tree not in its cache? Most trees have no objects of their own, which is seen
    /// without asking git.
    async fn is_only_here(&self, place: &TreePlace, commit: &CommitId) -> Result<bool, GitError> {
        let objects = place.git_dir().join("objects");
        let has_own = |objects: &Path| {
            let own = disk::names_in(objects)?.len() > 2;
            Ok(own || !disk::names_in(&objects.join("pack"))?.is_empty())
        };
        if !self
            .on_disk("looking at a tree's objects", objects, has_own)
            .await?
        {
            return Ok(false);
        }
        let call = Call::new(
            "looking for a commit in the cache",
            Place::Bare(&place.cache),
        );
        let call = call.args(["cat-file", "-e", commit.as_str()]);
        Ok(self.git.asks(call).await?.is_none())
    }
}

/// A tree as git is told of it.
pub(super) fn at<'a>(git_dir: &'a Path, tree: &'a Path) -> Place<'a> {
    Place::Tree { git_dir, tree }
}

/// Bytes as a path: on Linux all bytes but NUL are.
pub(super) fn path_from(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

/// What a status says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    head: Option<CommitId>,
    changes: Vec<Change>,
}

impl Read {
    /// Reads `--porcelain=v2 -z --branch`: records that end with NUL, a renamed one's former name being
    /// a record of its own.
    fn from(answer: &[u8], is_truncated: bool) -> Self {
        let mut read = Self::default();
        let mut records: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
        // After the last NUL there is nothing, or what was cut off.
        let rest = records.pop();
        debug_assert!(is_truncated || rest.is_none_or(<[u8]>::is_empty));
        let mut records = records.into_iter();
        while let Some(record) = records.next() {
            match record.first() {
                Some(b'#') => read.take_header(record),
                Some(b'1') => read.take_change(record, 8, None),
                // A former name that was cut off leaves a new name.
                Some(b'2') => read.take_change(record, 9, records.next()),
                Some(b'u') => read.push(ChangeKind::Unmerged, after_fields(record, 10), None),
                Some(b'?') => read.push(ChangeKind::Untracked, after_fields(record, 1), None),
                _ => {}
            }
        }
        read
    }

    fn take_header(&mut self, record: &[u8]) {
        let text = String::from_utf8_lossy(record);
        if let Some(id) = text.strip_prefix("# branch.oid ") {
            self.head = CommitId::parse(id).ok();
        }
    }

    fn take_change(&mut self, record: &[u8], fields: usize, former: Option<&[u8]>) {
        let states = record.get(2..4).unwrap_or_default();
        let kind = if former.is_some() {
            ChangeKind::Renamed
        } else if states.contains(&b'D') {
            ChangeKind::Deleted
        } else if states.contains(&b'A') {
            ChangeKind::Added
        } else {
            ChangeKind::Modified
        };
        self.push(kind, after_fields(record, fields), former);
    }

    fn push(&mut self, kind: ChangeKind, path: Option<&[u8]>, former: Option<&[u8]>) {
        self.changes.extend(path.map(|path| Change {
            kind,
            path: path_from(path),
            renamed_from: former.map(path_from),
        }));
    }
}

/// What comes after so many fields, which spaces end; a path may have spaces itself.
fn after_fields(record: &[u8], fields: usize) -> Option<&[u8]> {
    let mut rest = record;
    for _ in 0..fields {
        let at = rest.iter().position(|byte| *byte == b' ')?;
        rest = &rest[at + 1..];
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: &str) -> String {
        digit.repeat(40)
    }

    fn record(states: &str, path: &[u8]) -> Vec<u8> {
        let mut record = format!(
            "1 {states} N... 100644 100644 100644 {} {} ",
            id("1"),
            id("2")
        )
        .into_bytes();
        record.extend(path);
        record.push(0);
        record
    }

    #[test]
    fn strange_names_are_read_as_they_are() {
        let mut answer = format!("# branch.oid {}\0# branch.head agent/x\0", id("a")).into_bytes();
        answer.extend(record(".M", b"a -> b \xff\n"));
        answer.extend(record(".D", b"gone"));
        answer.extend(b"? new file\0? folder/\0");
        let read = Read::from(&answer, false);
        assert_eq!(read.head.map(|head| head.to_string()), Some(id("a")));
        let found: Vec<_> = read
            .changes
            .iter()
            .map(|change| (change.kind, change.path.as_os_str().as_bytes()))
            .collect();
        assert_eq!(
            found,
            [
                (ChangeKind::Modified, &b"a -> b \xff\n"[..]),
                (ChangeKind::Deleted, b"gone"),
                (ChangeKind::Untracked, b"new file"),
                (ChangeKind::Untracked, b"folder/"),
            ]
        );
    }

    #[test]
    fn a_renamed_path_has_its_former_name() {
        let renamed = format!(
            "# branch.oid {}\0# branch.head (detached)\x002 R. N... 1 1 1 {} {} R100 new name\0old name\0? x\0",
            id("a"),
            id("1"),
            id("2")
        );
        let read = Read::from(renamed.as_bytes(), false);
        assert_eq!(read.changes[0].kind, ChangeKind::Renamed);
        assert_eq!(read.changes[0].path, Path::new("new name"));
        assert_eq!(
            read.changes[0].renamed_from.as_deref(),
            Some(Path::new("old name"))
        );
        assert_eq!(read.changes.len(), 2);
    }

    #[test]
    fn what_was_cut_off_is_left_out() {
        let mut answer = record(".M", b"whole");
        answer.extend(&record(".M", b"cut")[..30]);
        assert_eq!(Read::from(&answer, true).changes.len(), 1);
    }
}
