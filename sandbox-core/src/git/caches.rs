//! Bare caches: cloned to a name of their own and renamed, fetched so that their branches move.

use std::io;
use std::path::{Path, PathBuf};

use super::credentials::TokenSocket;
use super::program::{Call, Place, Remote};
use super::references::{Head, read_branch, read_head};
use super::{LocalGit, disk, layout, listing, removal, said};
use crate::domain::{BaseRef, BranchName, CacheKey, CommitId, LocalPath};
use crate::ports::Answer;
use crate::ports::caches::{CacheFacts, CacheSource, GitError, RepoCacheProvider};

/// Everything that the origin has, where it has it, also backwards. Our own references are elsewhere.
const REFSPECS: [&str; 2] = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];

/// How often a fetch is tried that met another one: that holds only while a lock was lost.
const FETCHES_MAX: u32 = 5;

const CONFIG_BYTES_MAX: u64 = 64 * 1024;

impl RepoCacheProvider for LocalGit {
    fn path_of(&self, key: &CacheKey) -> LocalPath {
        layout::cache_path(key)
    }

    fn ensure<'a>(&'a self, source: CacheSource<'a>) -> Answer<'a, CacheFacts, GitError> {
        Box::pin(async move {
            let cache = source.path.under(&self.root);
            if self.is_repository(&cache).await? {
                return self.facts(&cache, false).await;
            }
            self.clone_to(&cache, &source).await?;
            self.facts(&cache, true).await
        })
    }

    fn fetch<'a>(&'a self, source: CacheSource<'a>) -> Answer<'a, CacheFacts, GitError> {
        Box::pin(async move {
            let cache = source.path.under(&self.root);
            self.needs_repository(&cache).await?;
            self.fetch_into(&cache, &source).await?;
            self.facts(&cache, true).await
        })
    }

    fn resolve<'a>(
        &'a self,
        cache: &'a LocalPath,
        base: &'a BaseRef,
    ) -> Answer<'a, CommitId, GitError> {
        Box::pin(async move { self.commit_of(&cache.under(&self.root), base).await })
    }

    fn has_saved_edits<'a>(&'a self, cache: &'a LocalPath) -> Answer<'a, bool, GitError> {
        Box::pin(async move {
            let saved = layout::saved_folder(&cache.under(&self.root));
            self.on_disk("looking for saved edits", saved, listing::has_saved)
                .await
        })
    }

    fn remove<'a>(&'a self, cache: &'a LocalPath) -> Answer<'a, (), GitError> {
        Box::pin(async move {
            let path = cache.under(&self.root);
            self.on_disk("removing a cache", path, removal::remove)
                .await
        })
    }

    fn list(&self) -> Answer<'_, Vec<LocalPath>, GitError> {
        Box::pin(async move {
            let root = self.root.clone();
            self.on_disk("listing caches", root, listing::caches).await
        })
    }
}

impl LocalGit {
    /// Does something that waits for the disk.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        doing: &'static str,
        path: PathBuf,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, GitError> {
        let pool = self.git.pool();
        pool.run(move || work(&path).map_err(disk::failed(doing, &path)))
            .await
    }

    /// Removes what is unfinished. If that fails it stays a leftover: the error before it matters more.
    pub(super) async fn clean_up(&self, unfinished: PathBuf) {
        if let Err(error) = self
            .on_disk("cleaning up", unfinished, removal::take_apart)
            .await
        {
            tracing::warn!(%error, "something unfinished was left behind");
        }
    }

    async fn is_repository(&self, cache: &Path) -> Result<bool, GitError> {
        let head = cache.join("HEAD");
        self.on_disk("looking for a cache", head, disk::is_there)
            .await
    }

    pub(super) async fn needs_repository(&self, cache: &Path) -> Result<(), GitError> {
        if self.is_repository(cache).await? {
            return Ok(());
        }
        Err(GitError::NotThere {
            path: cache.to_owned(),
        })
    }

    /// The commit that a base names in a cache. A branch, which most bases are, is read from its file.
    pub(super) async fn commit_of(
        &self,
        cache: &Path,
        base: &BaseRef,
    ) -> Result<CommitId, GitError> {
        let name = base.as_str();
        if !base.is_commit() {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name).to_owned();
            let read = move |cache: &Path| read_branch(cache, &branch);
            let found = self
                .on_disk("reading a branch", cache.to_owned(), read)
                .await?;
            if let Some(commit) = found {
                return Ok(commit);
            }
        }
        self.needs_repository(cache).await?;
        let full = if base.is_commit() || name.starts_with("refs/") {
            format!("{name}^{{commit}}")
        } else {
            format!("refs/tags/{name}^{{commit}}")
        };
        let call = Call::new("resolving a base", Place::Bare(cache));
        let call = call.args([
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &full,
        ]);
        match self.git.asks(call).await? {
            Some(answer) => commit_from(&answer),
            None => Err(GitError::NoSuchBase { base: base.clone() }),
        }
    }

    async fn clone_to(&self, cache: &Path, source: &CacheSource<'_>) -> Result<(), GitError> {
        let unfinished = layout::unfinished(cache);
        let folder = cache.parent().unwrap_or(cache).to_owned();
        let goal = cache.to_owned();
        // Whoever holds the cache's lock is the only one who makes it.
        let prepare = move |folder: &Path| {
            std::fs::create_dir_all(folder)?;
            removal::remove_leftovers(&goal)
        };
        self.on_disk("making a cache's folder", folder.clone(), prepare)
            .await?;
        let cloned = self.clone_and_settle(&folder, &unfinished, source).await;
        let goal = cache.to_owned();
        match cloned {
            Ok(()) => {
                let finish = move |unfinished: &Path| disk::rename_to_new(unfinished, &goal);
                self.on_disk("renaming a new cache", unfinished, finish)
                    .await
            }
            Err(error) => {
                self.clean_up(unfinished).await;
                Err(error)
            }
        }
    }

    async fn clone_and_settle(
        &self,
        folder: &Path,
        unfinished: &Path,
        source: &CacheSource<'_>,
    ) -> Result<(), GitError> {
        let socket = self.socket_for(source).await?;
        let call = Call::new("cloning", Place::Nowhere(folder))
            .args([
                "clone",
                "--bare",
                "--quiet",
                "--template=",
                "--no-recurse-submodules",
                "--",
            ])
            .args([source.url.as_str().as_ref(), unfinished.as_os_str()])
            .remote(Remote {
                url: source.url,
                credentials: socket.as_ref(),
            });
        self.git.answer(call).await?;
        let settle = |cache: &Path| {
            let format = object_format(cache)?;
            disk::write_file(&cache.join("config"), cache_config(format).as_bytes())
        };
        self.on_disk("configuring a cache", unfinished.to_owned(), settle)
            .await
    }

    async fn fetch_into(&self, cache: &Path, source: &CacheSource<'_>) -> Result<(), GitError> {
        let socket = self.socket_for(source).await?;
        let remote = Remote {
            url: source.url,
            credentials: socket.as_ref(),
        };
        let mut attempt = 1;
        loop {
            let fetch = Call::new("fetching", Place::Bare(cache))
                .args(["fetch", "--quiet", "--prune", "--no-tags"])
                .args(["--no-write-fetch-head", "--no-auto-maintenance"])
                .args(["--no-recurse-submodules", "--", source.url.as_str()])
                .args(REFSPECS)
                .remote(remote);
            match self.git.answer(fetch).await {
                Err(error) if attempt < FETCHES_MAX && said::is_of_another_writer(&error) => {
                    attempt += 1;
                }
                answer => break answer.map(drop)?,
            }
        }
        let ask = Call::new("asking for the default branch", Place::Bare(cache))
            .args(["ls-remote", "--symref", "--", source.url.as_str(), "HEAD"])
            .remote(remote);
        let answer = self.git.answer(ask).await?;
        let Some(branch) = default_branch_in(&answer) else {
            return Ok(());
        };
        let full = format!("refs/heads/{branch}");
        let set = Call::new("noting the default branch", Place::Bare(cache));
        self.git
            .answer(set.args(["symbolic-ref", "HEAD", &full]))
            .await?;
        Ok(())
    }

    async fn socket_for(&self, source: &CacheSource<'_>) -> Result<Option<TokenSocket>, GitError> {
        let Some(token) = source.token else {
            return Ok(None);
        };
        TokenSocket::open(self.git.pool(), self.socket_folder(), source.url, token)
            .await
            .map(Some)
    }

    async fn facts(&self, cache: &Path, was_fetched: bool) -> Result<CacheFacts, GitError> {
        let look = move |cache: &Path| {
            let size_bytes = was_fetched.then(|| size_of(cache)).transpose()?;
            let default_branch = match read_head(cache)? {
                Some(Head::Branch(name)) if read_branch(cache, &name)?.is_some() => {
                    BranchName::parse(&name).ok()
                }
                _ => None,
            };
            Ok(CacheFacts {
                default_branch,
                size_bytes,
                was_fetched,
            })
        };
        self.on_disk("looking at a cache", cache.to_owned(), look)
            .await
    }
}

/// What a cache takes on disk, with the edits that are saved beside it.
fn size_of(cache: &Path) -> io::Result<u64> {
    let saved = layout::saved_folder(cache);
    let saved_bytes = if disk::is_there(&saved)? {
        disk::size_of(&saved)?
    } else {
        0
    };
    Ok(disk::size_of(cache)? + saved_bytes)
}

/// The one commit that git answered.
pub(super) fn commit_from(answer: &[u8]) -> Result<CommitId, GitError> {
    Ok(CommitId::parse(String::from_utf8_lossy(answer).trim())?)
}

/// With which hash a repository names its objects.
pub(super) fn object_format(git_dir: &Path) -> io::Result<&'static str> {
    let config = disk::read_file(&git_dir.join("config"), CONFIG_BYTES_MAX)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&config).to_ascii_lowercase();
    let is_sha256 = text.lines().any(|line| {
        let mut parts = line.split('=').map(str::trim);
        parts.next() == Some("objectformat") && parts.next() == Some("sha256")
    });
    Ok(if is_sha256 { "sha256" } else { "sha1" })
}

/// What a cache's own file says: that its objects are needed elsewhere, so that even a person's
/// `git gc` or `git prune` in it drops none.
pub(super) fn cache_config(format: &str) -> String {
    format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = true\n\tlogallrefupdates = false\n\
         [extensions]\n\tpreciousObjects = true\n\tobjectFormat = {format}\n\
         [gc]\n\tauto = 0\n\tpruneExpire = never\n[maintenance]\n\tauto = false\n"
    )
}

/// `ref: refs/heads/trunk<tab>HEAD`, in what `ls-remote --symref` answers.
fn default_branch_in(answer: &[u8]) -> Option<BranchName> {
    let text = String::from_utf8_lossy(answer);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("ref: refs/heads/"))?;
    BranchName::parse(line.strip_suffix("\tHEAD")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_branch_is_read_from_gits_answer() {
        let name = |answer: &str| default_branch_in(answer.as_bytes()).map(|name| name.to_string());
        assert_eq!(
            name("ref: refs/heads/trunk\tHEAD\nabc\tHEAD\n"),
            Some("trunk".to_owned())
        );
        assert_eq!((name("abc\tHEAD\n"), name("")), (None, None));
    }

    #[test]
    fn the_hash_is_read_back_from_a_caches_configuration() {
        let folder = tempfile::tempdir().expect("a folder");
        for format in ["sha1", "sha256"] {
            let config = cache_config(format);
            disk::write_file(&folder.path().join("config"), config.as_bytes()).expect("a file");
            assert_eq!(object_format(folder.path()).expect("a format"), format);
        }
    }
}
