//! What lies below the root, for whoever compares it with what is known.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{disk, layout};
use crate::domain::{LocalPath, OWN_FOLDER};
use crate::ports::workspaces::{FoundKind, FoundTree};

/// The caches that are whole.
pub(super) fn caches(root: &Path) -> io::Result<Vec<LocalPath>> {
    let mut found = Vec::new();
    for repository in repositories(root)? {
        let text = format!("{repository}/{}", layout::CACHE);
        if disk::is_there(&root.join(&text).join("HEAD"))? {
            found.extend(LocalPath::parse(&text).ok());
        }
    }
    Ok(found)
}

/// All that lies where trees are, and what is left of saving edits.
pub(super) fn trees(root: &Path) -> io::Result<Vec<FoundTree>> {
    let mut found = Vec::new();
    for repository in repositories(root)? {
        for (folder, of_whole) in [
            (layout::WORKSPACES, Some(FoundKind::Workspace)),
            (layout::PREPARED, Some(FoundKind::Prepared)),
            (layout::SAVED, None),
        ] {
            let siblings = format!("{repository}/{folder}");
            for name in names(&root.join(&siblings))? {
                let Ok(path) = LocalPath::parse(&format!("{siblings}/{name}")) else {
                    continue;
                };
                let Some(age_s) = age_s(&path.under(root))? else {
                    continue;
                };
                let kind = if layout::is_leftover(&name) {
                    Some(FoundKind::Leftover)
                } else {
                    of_whole
                };
                let Some(kind) = kind else {
                    continue;
                };
                let made_of = layout::made_of(&path.under(root));
                let holds_saved_edits = kind == FoundKind::Workspace && disk::is_there(&made_of)?;
                found.push(FoundTree {
                    path,
                    kind,
                    age_s,
                    holds_saved_edits,
                });
            }
        }
    }
    Ok(found)
}

/// Is something saved in this folder?
pub(super) fn has_saved(folder: &Path) -> io::Result<bool> {
    let names = names(folder)?;
    Ok(names.iter().any(|name| !layout::is_leftover(name)))
}

/// `owner/repo`, `@host/owner/repo`: the folders that hold a repository's cache and trees.
fn repositories(root: &Path) -> io::Result<Vec<String>> {
    let mut owners = Vec::new();
    for name in names(root)? {
        if name == OWN_FOLDER {
            continue;
        }
        if name.starts_with('@') {
            let of_host = names(&root.join(&name))?;
            owners.extend(of_host.into_iter().map(|owner| format!("{name}/{owner}")));
        } else {
            owners.push(name);
        }
    }
    let mut repositories = Vec::new();
    for owner in owners {
        let of_owner = names(&root.join(&owner))?;
        repositories.extend(
            of_owner
                .into_iter()
                .map(|repository| format!("{owner}/{repository}")),
        );
    }
    Ok(repositories)
}

/// The names in a folder, in order. Ours are all UTF-8; what isn't was put there by somebody else.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let names = disk::names_in(folder)?;
    let mut names: Vec<String> = names
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// For how long nobody has renamed a folder or added something to it; nothing if it is gone by now.
fn age_s(path: &Path) -> io::Result<Option<u64>> {
    let entry = match path.symlink_metadata() {
        Ok(entry) => entry,
        Err(error) if disk::is_absence(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    // A rename counts as a change of the folder itself, which its time of modification doesn't show.
    let changed = Duration::from_secs(u64::try_from(entry.ctime()).unwrap_or(0));
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed);
    // A clock that was set back makes it young.
    Ok(Some(age.unwrap_or_default().as_secs()))
}
