//! The files of a tree as a search sees them: without what the tree's ignore files name, without git's
//! own, and without ever leaving the tree.
//!
//! The rules are ripgrep's, by its crate; the walk is ours, as theirs goes by paths, follows what is
//! swapped into them, and would wait for ever on a pipe that is called `.gitignore`.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::Override;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::root::{Links, Names, TreeRoot, kind_of, names_in, stat_at};
use super::system_error::of_system;
use crate::domain::TreePath;
use crate::ports::files::{EntryKind, FilesError};

/// Files with rules, in the order in which they win: the last one that says something.
const RULES: [&[u8]; 2] = [b".gitignore", b".ignore"];
/// Bytes of a file of rules that are read: more would be no file of rules.
const RULES_BYTES_MAX: u64 = 256 * 1024;

/// Goes through a tree's files, folder by folder, by name.
pub(super) struct Walk<'a> {
    root: &'a TreeRoot,
    glob: Override,
    /// Folders and files still to come, the next one last.
    to_come: Vec<Step>,
    /// Folders that couldn't be read, or not whole.
    pub(super) folders_skipped: u64,
}

struct Step {
    path: TreePath,
    is_folder: bool,
    rules: Option<Rc<Rules>>,
}

/// The rules of a folder and of those that it is in.
struct Rules {
    of_folder: Gitignore,
    outer: Option<Rc<Rules>>,
}

impl<'a> Walk<'a> {
    /// All files below `start`, which is a folder or a file itself.
    pub(super) fn new(
        root: &'a TreeRoot,
        start: &TreePath,
        glob: Override,
    ) -> Result<Self, FilesError> {
        let entry = root.stat(start)?;
        if !matches!(entry.kind, EntryKind::Folder | EntryKind::File) {
            return Err(super::root::wrong_kind(
                start,
                entry.kind,
                "a folder or a file",
            ));
        }
        let mut walk = Self {
            root,
            glob,
            to_come: Vec::new(),
            folders_skipped: 0,
        };
        // What is named is searched, whatever rules say; in it the rules from the root on hold.
        let mut rules = None;
        let mut outer = TreePath::root();
        for part in start.parts() {
            rules = walk.rules_in(&outer, rules);
            outer = outer.join(part);
        }
        walk.to_come.push(Step {
            path: start.clone(),
            is_folder: entry.kind == EntryKind::Folder,
            rules,
        });
        Ok(walk)
    }

    /// The next file, or a folder (`None`) that was gone into, so that the caller can stop in between.
    pub(super) fn next(&mut self) -> Option<Option<TreePath>> {
        let step = self.to_come.pop()?;
        if !step.is_folder {
            return Some(Some(step.path));
        }
        if self.enter(&step).is_err() {
            self.folders_skipped += 1;
        }
        Some(None)
    }

    fn enter(&mut self, folder: &Step) -> Result<(), FilesError> {
        let opened = self.root.open_folder(&folder.path, Links::Refused)?;
        let failed = |errno| of_system("listing", &folder.path, errno);
        let Names { names, is_cut } = names_in(&opened).map_err(failed)?;
        self.folders_skipped += u64::from(is_cut);
        let has_rules = names
            .iter()
            .any(|(name, _)| RULES.contains(&name.as_slice()));
        let rules = if has_rules {
            self.rules_in(&folder.path, folder.rules.clone())
        } else {
            folder.rules.clone()
        };
        for (name, said) in names.iter().rev() {
            if name.eq_ignore_ascii_case(b".git") {
                continue;
            }
            let is_folder = match said {
                FileType::Directory => true,
                FileType::RegularFile => false,
                // Some file systems don't say it while listing.
                FileType::Unknown => match stat_at(&opened, name).map(|stat| kind_of(&stat)) {
                    Ok(EntryKind::Folder) => true,
                    Ok(EntryKind::File) => false,
                    Ok(EntryKind::Link | EntryKind::Other) | Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(failed(errno)),
                },
                _ => continue,
            };
            let path = folder.path.join(name);
            if self.is_wanted(&path, is_folder, rules.as_deref()) {
                self.to_come.push(Step {
                    path,
                    is_folder,
                    rules: rules.clone(),
                });
            }
        }
        Ok(())
    }

    fn is_wanted(&self, path: &TreePath, is_folder: bool, rules: Option<&Rules>) -> bool {
        let full = path.below_slash();
        let full = Path::new(OsStr::from_bytes(&full));
        match self.glob.matched(full, is_folder) {
            Match::Ignore(_) => return false,
            // As with ripgrep, a glob that names a file outdoes the rules that ignore it.
            Match::Whitelist(_) => return true,
            Match::None => {}
        }
        let mut next = rules;
        while let Some(rules) = next {
            match rules.of_folder.matched(full, is_folder) {
                Match::Ignore(_) => return false,
                Match::Whitelist(_) => return true,
                Match::None => next = rules.outer.as_deref(),
            }
        }
        true
    }

    /// The rules that hold in `folder`, being those of its own files beside the `outer` ones.
    fn rules_in(&self, folder: &TreePath, outer: Option<Rc<Rules>>) -> Option<Rc<Rules>> {
        let full = folder.below_slash();
        let mut builder = GitignoreBuilder::new(OsStr::from_bytes(&full));
        for name in RULES {
            let Ok((file, _)) = self.root.open_file(&folder.join(name), Links::Refused) else {
                continue; // there is none, or it is no plain file, and git doesn't follow it either
            };
            let mut text = Vec::new();
            if file.take(RULES_BYTES_MAX).read_to_end(&mut text).is_err() {
                continue;
            }
            for line in String::from_utf8_lossy(&text).lines() {
                // A line that is no rule holds nothing back, as with git.
                let _ = builder.add_line(None, line).is_ok();
            }
        }
        match builder.build() {
            Ok(of_folder) if !of_folder.is_empty() => Some(Rc::new(Rules { of_folder, outer })),
            Ok(_) | Err(_) => outer,
        }
    }
}
