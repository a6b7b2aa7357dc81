//! Where caches and trees lie below the root, and which names say that something is unfinished.

use std::path::{Path, PathBuf};

use crate::domain::{
    AuthScopeHash, CacheKey, LocalPath, PreparedTreeId, WorkspaceId, WorkspaceKey, WorkspaceMode,
};
use crate::ports::caches::GitError;

/// The host that isn't named in paths.
const USUAL_HOST: &str = "github.com";

/// Digits of an access scope that tell its caches from those of other scopes.
const SCOPE_DIGITS: usize = 16;

pub(super) const CACHE: &str = ".bare";
pub(super) const WORKSPACES: &str = "worktrees";
pub(super) const PREPARED: &str = "prepared";
/// Holds a repository for each workspace of which something was saved.
pub(super) const SAVED: &str = ".saved";
/// With these begins the name of what is being made, or removed.
const MAKING: &str = ".new-";
const REMOVING: &str = ".old-";

/// `owner/repo/.bare`; in front of it `@host`, and behind the repository `~scope`, where these aren't
/// the usual ones. No owner, repository or host begins with `@` or holds `~`.
pub(super) fn cache_path(key: &CacheKey) -> LocalPath {
    let mut text = String::new();
    if key.host().as_str() != USUAL_HOST {
        text = format!("@{}/", key.host());
    }
    text.push_str(key.repo().as_str());
    if key.auth_scope() != &AuthScopeHash::public() {
        text.push('~');
        text.push_str(&key.auth_scope().as_str()[..SCOPE_DIGITS]);
    }
    text.push('/');
    text.push_str(CACHE);
    LocalPath::parse(&text).expect("hosts and names have no character that a path can't have")
}

/// Where a workspace lies.
pub(super) fn workspace_path(cache: &LocalPath, mode: WorkspaceMode, id: WorkspaceId) -> LocalPath {
    beside(cache, WORKSPACES, &format!("{}-{id}", mode.as_str()))
}

/// Where a prepared tree lies.
pub(super) fn prepared_path(cache: &LocalPath, id: PreparedTreeId) -> LocalPath {
    beside(cache, PREPARED, &id.to_string())
}

fn beside(cache: &LocalPath, kind: &str, name: &str) -> LocalPath {
    let repository = cache.as_str().strip_suffix(CACHE).unwrap_or(cache.as_str());
    let repository = repository.trim_end_matches('/');
    LocalPath::parse(&format!("{repository}/{kind}/{name}"))
        .expect("a path below a cache's folder is as plain as the cache's")
}

/// The folder beside a cache in which edits are saved.
pub(super) fn saved_folder(cache: &Path) -> PathBuf {
    cache.with_file_name(SAVED)
}

/// The repository beside a cache in which the edits of a workspace of that key are saved.
pub(super) fn saved_store(cache: &Path, key: &WorkspaceKey) -> PathBuf {
    saved_folder(cache).join(key.fingerprint())
}

/// The file of a tree's folder that says of which workspace's saved edits it was made, until these are
/// dropped. No command in the tree can write it.
pub(super) fn made_of(folder: &Path) -> PathBuf {
    folder.join("git/made-of")
}

/// Where the parts of one tree are.
#[derive(Debug, Clone)]
pub(super) struct TreePlace {
    /// The folder that holds the tree and its git directory, and is renamed as a whole.
    pub(super) folder: PathBuf,
    /// The cache that is beside it.
    pub(super) cache: PathBuf,
    /// Where folders of its kind are.
    pub(super) siblings: PathBuf,
    pub(super) name: String,
}

impl TreePlace {
    /// The place of a path.
    ///
    /// # Errors
    /// `InvalidPath` when no tree can be there.
    pub(super) fn of(root: &Path, path: &LocalPath) -> Result<Self, GitError> {
        let is_tree = |kind: &str, _: &str| kind == WORKSPACES || kind == PREPARED;
        Self::where_kind(root, path, is_tree)
    }

    /// The place of something that is to be removed: also of what is left of saving, but not of what was
    /// saved.
    ///
    /// # Errors
    /// `InvalidPath` when nothing can be there that may be removed.
    pub(super) fn of_removable(root: &Path, path: &LocalPath) -> Result<Self, GitError> {
        let is_removable = |kind: &str, name: &str| {
            kind == WORKSPACES || kind == PREPARED || (kind == SAVED && is_leftover(name))
        };
        Self::where_kind(root, path, is_removable)
    }

    fn where_kind(
        root: &Path,
        path: &LocalPath,
        is_such: impl Fn(&str, &str) -> bool,
    ) -> Result<Self, GitError> {
        let invalid = || GitError::InvalidPath {
            path: path.as_str().into(),
        };
        let mut parts = path.as_str().rsplitn(3, '/');
        let (Some(name), Some(kind), Some(repository)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(invalid());
        };
        if !is_such(kind, name) {
            return Err(invalid());
        }
        let repository = root.join(repository);
        let siblings = repository.join(kind);
        Ok(Self {
            folder: siblings.join(name),
            cache: repository.join(CACHE),
            siblings,
            name: name.to_owned(),
        })
    }

    /// The working tree.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// The git directory.
    pub(super) fn git_dir(&self) -> PathBuf {
        self.folder.join("git")
    }

    /// The same while it is being made.
    pub(super) fn unfinished(&self) -> Self {
        Self {
            folder: unfinished(&self.folder),
            ..self.clone()
        }
    }
}

/// The name of something while it is being made.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    beside_path(path, MAKING)
}

/// The name of something while it is being removed.
pub(super) fn removed(path: &Path) -> PathBuf {
    beside_path(path, REMOVING)
}

/// `.new-NAME.0123456789abcdef`, another each time.
fn beside_path(path: &Path, prefix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = rand::random::<u64>();
    path.with_file_name(format!("{prefix}{name}.{number:016x}"))
}

/// Is this the name of something that is being made or removed?
pub(super) fn is_leftover(name: &str) -> bool {
    name.starts_with(MAKING) || name.starts_with(REMOVING)
}

/// Is this what is left of making or removing the thing of that name?
pub(super) fn is_leftover_of(name: &str, of: &str) -> bool {
    let rest = name
        .strip_prefix(MAKING)
        .or_else(|| name.strip_prefix(REMOVING));
    rest.and_then(|rest| rest.strip_prefix(of))
        .is_some_and(|number| number.len() == 17 && number.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ConversationId, GitHost, ProjectId, Purpose, RepoName, UserId};

    fn path(host: &str, repo: &str, scope: AuthScopeHash) -> LocalPath {
        let host = GitHost::parse(host).expect(host);
        cache_path(&CacheKey::new(
            host,
            &RepoName::parse(repo).expect(repo),
            scope,
        ))
    }

    #[test]
    fn the_usual_host_and_scope_are_not_named() {
        let public = AuthScopeHash::public;
        assert_eq!(
            path("github.com", "octo/hello", public()).as_str(),
            "octo/hello/.bare"
        );
        let other = path("git.example.org:8443", "octo/hello", AuthScopeHash::of("7"));
        let text = other.as_str();
        assert!(
            text.starts_with("@git.example.org:8443/octo/hello~"),
            "{text}"
        );
        assert!(text.ends_with("/.bare"));
        assert_ne!(
            path("github.com", "octo/hello", AuthScopeHash::of("a")),
            path("github.com", "octo/hello", AuthScopeHash::of("b"))
        );
    }

    #[test]
    fn a_tree_lies_beside_its_cache() {
        let cache = path("github.com", "octo/hello", AuthScopeHash::public());
        let id = WorkspaceId::generate();
        let tree = workspace_path(&cache, WorkspaceMode::Edit, id);
        assert_eq!(tree.as_str(), format!("octo/hello/worktrees/edit-{id}"));
        let place = TreePlace::of(Path::new("/srv"), &tree).expect("a tree's path");
        assert_eq!(place.cache, cache.under(Path::new("/srv")));
        assert_eq!(
            place.tree(),
            Path::new("/srv").join(tree.as_str()).join("tree")
        );
        for wrong in [
            "octo/hello/.bare",
            "octo",
            "worktrees/x",
            "octo/hello/worktrees",
        ] {
            let wrong = LocalPath::parse(wrong).expect(wrong);
            assert!(TreePlace::of(Path::new("/srv"), &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_saved_lies_beside_its_cache_and_is_not_to_be_removed_by_its_path() {
        let cache = Path::new("/srv/octo/hello/.bare");
        let key = WorkspaceKey {
            user_id: UserId::parse("u").expect("a user"),
            project_id: ProjectId::parse("p").expect("a project"),
            purpose: Purpose::Conversation(ConversationId::parse("../c").expect("an id")),
        };
        let store = saved_store(cache, &key);
        assert_eq!(store.parent(), Some(Path::new("/srv/octo/hello/.saved")));
        let below = |name: &str| {
            let path = LocalPath::parse(&format!("octo/hello/.saved/{name}")).expect(name);
            let root = Path::new("/srv");
            let is_removable = TreePlace::of_removable(root, &path).is_ok();
            (TreePlace::of(root, &path).is_ok(), is_removable)
        };
        assert_eq!(below(&key.fingerprint()), (false, false));
        assert_eq!(below(".new-x.0123456789abcdef"), (false, true));
    }

    #[test]
    fn leftovers_are_known_by_their_names_and_of_whom_they_are() {
        let name = |path: PathBuf| {
            path.file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        for left in [
            unfinished(Path::new("/w/edit-1")),
            removed(Path::new("/w/edit-1")),
        ] {
            let left = name(left).expect("a name");
            assert!(
                is_leftover(&left) && is_leftover_of(&left, "edit-1"),
                "{left}"
            );
            assert!(!is_leftover_of(&left, "edit-12") && !is_leftover_of(&left, "edit"));
        }
        assert!(!is_leftover("edit-1"));
    }
}
