//! Branches read from and written to the files that git keeps them in, where asking git would take
//! longer than everything else together.
//!
//! Only where nothing else can be meant: a cache is written by git alone and has no other form of
//! references, and a tree's git directory is written here before anybody knows of it.

use std::io;
use std::path::Path;

use super::disk;
use crate::domain::{BranchName, CommitId};

/// Bytes of a packed-refs file: a million branches.
const PACKED_BYTES_MAX: u64 = 128 * 1024 * 1024;
const LOOSE_BYTES_MAX: u64 = 4096;

/// On what a repository is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Head {
    /// On a branch.
    Branch(String),
    /// On a commit.
    Commit(CommitId),
}

/// The commit of a branch, if there is one.
pub(super) fn read_branch(git_dir: &Path, branch: &str) -> io::Result<Option<CommitId>> {
    let name = format!("refs/heads/{branch}");
    // A folder of that name has branches below it, and is none.
    if let Some(bytes) = disk::read_file(&git_dir.join(&name), LOOSE_BYTES_MAX)? {
        return commit_in(&bytes).map(Some);
    }
    let Some(packed) = disk::read_file(&git_dir.join("packed-refs"), PACKED_BYTES_MAX)? else {
        return Ok(None);
    };
    for line in packed.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b' ') else {
            continue;
        };
        if &line[at + 1..] == name.as_bytes() {
            return commit_in(&line[..at]).map(Some);
        }
    }
    Ok(None)
}

/// On what a repository is; nothing if there is no repository.
pub(super) fn read_head(git_dir: &Path) -> io::Result<Option<Head>> {
    let Some(bytes) = disk::read_file(&git_dir.join("HEAD"), LOOSE_BYTES_MAX)? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    match text.trim().strip_prefix("ref: refs/heads/") {
        Some(branch) => Ok(Some(Head::Branch(branch.to_owned()))),
        None => commit_in(&bytes).map(|commit| Some(Head::Commit(commit))),
    }
}

/// Makes a git directory one that git takes for such, before it has a commit: on a branch that isn't
/// there.
pub(super) fn write_unborn_head(git_dir: &Path) -> io::Result<()> {
    disk::write_file(&git_dir.join("HEAD"), b"ref: refs/heads/unborn\n")
}

/// Puts a git directory that nobody else knows yet on a commit, or on a branch at that commit.
pub(super) fn write_head(
    git_dir: &Path,
    branch: Option<&BranchName>,
    commit: &CommitId,
) -> io::Result<()> {
    let Some(branch) = branch else {
        return disk::write_file(&git_dir.join("HEAD"), format!("{commit}\n").as_bytes());
    };
    let file = git_dir.join("refs/heads").join(branch.as_str());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    disk::write_file(&file, format!("{commit}\n").as_bytes())?;
    disk::write_file(
        &git_dir.join("HEAD"),
        format!("ref: refs/heads/{branch}\n").as_bytes(),
    )
}

fn commit_in(bytes: &[u8]) -> io::Result<CommitId> {
    let text = String::from_utf8_lossy(bytes);
    CommitId::parse(text.trim()).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loose_branches_come_before_packed_ones_and_folders_are_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let git_dir = folder.path();
        let id = |digit: &str| CommitId::parse(&digit.repeat(40)).expect("an id");
        let packed = format!(
            "# pack-refs with: peeled\n{} refs/heads/a\n{} refs/heads/feature\n{} refs/tags/b\n^{}\n",
            id("1"),
            id("2"),
            id("3"),
            id("4")
        );
        std::fs::create_dir_all(git_dir.join("refs/heads/feature")).expect("a folder");
        disk::write_file(&git_dir.join("packed-refs"), packed.as_bytes()).expect("a file");
        let read = |branch: &str| read_branch(git_dir, branch).expect("it can be read");
        assert_eq!(read("a"), Some(id("1")));
        assert_eq!(read("feature"), Some(id("2")));
        assert_eq!((read("b"), read("feature/x")), (None, None));

        let branch = BranchName::parse("feature/x").expect("a branch");
        write_head(git_dir, Some(&branch), &id("5")).expect("it can be written");
        assert_eq!(read("feature/x"), Some(id("5")));
        assert_eq!(
            read_head(git_dir).expect("a head"),
            Some(Head::Branch("feature/x".to_owned()))
        );
        write_head(git_dir, None, &id("6")).expect("it can be written");
        assert_eq!(
            read_head(git_dir).expect("a head"),
            Some(Head::Commit(id("6")))
        );
    }

    #[test]
    fn what_is_no_commit_is_an_error_and_no_repository_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(read_head(folder.path()).expect("none"), None);
        disk::write_file(&folder.path().join("HEAD"), b"what?").expect("a file");
        assert!(read_head(folder.path()).is_err());
    }
}
