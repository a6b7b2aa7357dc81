//! Repositories' caches: cloned once, fetched when they are stale, by one at a time.

use jiff::Timestamp;

use super::disk::Spared;
use super::{FaultPoint, SandboxService, ServiceError, as_read};
use crate::domain::{
    AuthScopeHash, AuthToken, BranchName, CacheKey, FencingToken, RepoCache, RepoCacheState,
    RepoName, RepoUrl, SandboxError, Subject, UserId, WorkspaceKey, WorkspaceRequest,
    to_the_microsecond,
};
use crate::ports::caches::{CacheFacts, CacheSource, GitError};
use crate::ports::locks::{LockClass, LockName};

/// Which repository is wanted, and with which access.
#[derive(Debug)]
pub struct CacheRequest<'a> {
    key: CacheKey,
    repo_name: &'a RepoName,
    url: RepoUrl,
    token: Option<&'a AuthToken>,
    /// For which workspace, if for one: that doesn't go when room is made for the cache.
    workspace: Option<WorkspaceKey>,
}

impl<'a> CacheRequest<'a> {
    /// What a request for a workspace needs.
    ///
    /// # Errors
    /// When the request's URL leads to another repository than its name.
    pub fn of(request: &'a WorkspaceRequest) -> Result<Self, ServiceError> {
        let token = request.auth_token.as_ref();
        let url = request.url()?;
        Ok(Self {
            // Without a conversation, branch or task it is for no workspace yet.
            workspace: request.key().ok(),
            ..Self::new(&request.user_id, &request.repo_name, url, token)
        })
    }

    /// A repository for a user. What is read with a user's token is that user's alone; without a token
    /// it is everybody's.
    #[must_use]
    pub fn new(
        user: &UserId,
        repo_name: &'a RepoName,
        url: RepoUrl,
        token: Option<&'a AuthToken>,
    ) -> Self {
        let scope = match token {
            Some(_) => AuthScopeHash::of(&format!("user {user}")),
            None => AuthScopeHash::public(),
        };
        Self {
            key: CacheKey::new(url.host().clone(), repo_name, scope),
            repo_name,
            url,
            token,
            workspace: None,
        }
    }

    /// The cache's identity.
    #[must_use]
    pub fn key(&self) -> &CacheKey {
        &self.key
    }

    /// From where it is fetched.
    pub(super) fn url(&self) -> &RepoUrl {
        &self.url
    }

    fn source<'b>(&'b self, cache: &'b RepoCache) -> CacheSource<'b> {
        CacheSource {
            path: &cache.local_path,
            url: &self.url,
            token: self.token,
        }
    }
}

impl SandboxService {
    /// Refuses a repository that isn't reached by one of the schemes in the settings.
    pub(super) fn check_scheme(&self, url: &RepoUrl) -> Result<(), ServiceError> {
        self.settings
            .schemes
            .check(url)
            .map_err(|refused| SandboxError::from(refused).into())
    }

    /// A repository's cache, cloned or fetched if it is missing or stale.
    ///
    /// # Errors
    /// `Scheme` when the repository's URL is of a scheme that isn't allowed, and those of git, of the
    /// store, and of the lock when another clone takes too long.
    pub async fn ensure_repo_cache(
        &self,
        request: &CacheRequest<'_>,
    ) -> Result<RepoCache, ServiceError> {
        let work = || self.fresh_cache(request);
        let spared = request.workspace.as_ref();
        let spared = spared.map_or(Spared::Nothing, Spared::Key);
        self.with_room(spared, work).await
    }

    /// The same for whoever makes room itself, and may hold a lock.
    pub(super) async fn fresh_cache(
        &self,
        request: &CacheRequest<'_>,
    ) -> Result<RepoCache, ServiceError> {
        let age_max = i64::try_from(self.settings.cache_fresh.as_millis()).unwrap_or(i64::MAX);
        let oldest_ms = Timestamp::now().as_millisecond().saturating_sub(age_max);
        let since = Timestamp::from_millisecond(oldest_ms).unwrap_or(Timestamp::MIN);
        self.cache_fetched_since(request, since).await
    }

    /// The branch that a repository's origin takes for its main one; an empty repository has none.
    ///
    /// # Errors
    /// As [`ensure_repo_cache`](Self::ensure_repo_cache).
    pub async fn default_branch(
        &self,
        request: &CacheRequest<'_>,
    ) -> Result<Option<BranchName>, ServiceError> {
        self.ensure_repo_cache(request).await?;
        let name = LockName::cache(&request.key);
        let work = async |_| {
            let store = &self.adapters.store;
            let found = store.find_cache_by_key(&request.key).await?;
            let gone = || SandboxError::NotFound(Subject::CacheKey(Box::new(request.key.clone())));
            let cache = found.ok_or_else(gone)?;
            // It is there, so this only looks.
            let facts = self.adapters.caches.ensure(request.source(&cache)).await?;
            Ok(facts.default_branch)
        };
        self.under(&name, LockClass::Write, self.settings.cache_wait, work)
            .await
    }

    /// A repository's cache, of which the last fetch began at that time or later.
    pub(super) async fn cache_fetched_since(
        &self,
        request: &CacheRequest<'_>,
        since: Timestamp,
    ) -> Result<RepoCache, ServiceError> {
        self.check_scheme(&request.url)?;
        let found = self.adapters.store.find_cache_by_key(&request.key).await?;
        if let Some(cache) = found.filter(|cache| is_fresh(cache, since)) {
            self.adapters
                .store
                .touch_cache(cache.id, Timestamp::now())
                .await?;
            return Ok(cache);
        }
        let name = LockName::cache(&request.key);
        let work = |token| self.clone_or_fetch(request, since, token);
        self.under(&name, LockClass::Write, self.settings.cache_wait, work)
            .await
    }

    async fn clone_or_fetch(
        &self,
        request: &CacheRequest<'_>,
        since: Timestamp,
        token: FencingToken,
    ) -> Result<RepoCache, ServiceError> {
        let found = self.adapters.store.find_cache_by_key(&request.key).await?;
        let cache = match found {
            Some(cache) if is_fresh(&cache, since) => return Ok(cache),
            Some(cache) if cache.state == RepoCacheState::Evicting => {
                self.finish_cache_eviction(cache, token).await?;
                self.insert_cache(request, token).await?
            }
            Some(cache) => cache,
            None => self.insert_cache(request, token).await?,
        };
        if cache.state != RepoCacheState::Ready {
            return self.clone_cache(cache, request, token).await;
        }
        let began = Timestamp::now();
        match self.adapters.caches.fetch(request.source(&cache)).await {
            Ok(facts) => self.record_fetch(cache, &facts, began, token).await,
            Err(GitError::NotThere { path }) => {
                tracing::error!(cache = %cache.id, path = %path.display(), "a repository's cache is gone from disk, and is cloned anew");
                let version = cache.version;
                let anew = cache.moved_to(RepoCacheState::Creating, began)?;
                let store = &self.adapters.store;
                let anew = store.update_cache(&anew, as_read(version, token)).await?;
                self.clone_cache(anew, request, token).await
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn insert_cache(
        &self,
        request: &CacheRequest<'_>,
        token: FencingToken,
    ) -> Result<RepoCache, ServiceError> {
        let intent = RepoCache::intent(
            request.key.clone(),
            request.repo_name.clone(),
            request.url.clone(),
            self.settings.provider.clone(),
            self.adapters.caches.path_of(&request.key),
            token,
            Timestamp::now(),
        );
        self.adapters.store.insert_cache(&intent).await?;
        self.faults.pass(FaultPoint::CacheIntent);
        Ok(intent)
    }

    /// Clones for an intent; one that fails is given up.
    async fn clone_cache(
        &self,
        cache: RepoCache,
        request: &CacheRequest<'_>,
        token: FencingToken,
    ) -> Result<RepoCache, ServiceError> {
        let began = Timestamp::now();
        match self.adapters.caches.ensure(request.source(&cache)).await {
            Ok(facts) => {
                self.faults.pass(FaultPoint::CacheCloned);
                let fetched_at = if facts.was_fetched {
                    began
                } else {
                    cache.created_at
                };
                self.record_fetch(cache, &facts, fetched_at, token).await
            }
            Err(error) => {
                self.give_cache_up(cache, token).await?;
                Err(error.into())
            }
        }
    }

    async fn record_fetch(
        &self,
        cache: RepoCache,
        facts: &CacheFacts,
        fetched_at: Timestamp,
        token: FencingToken,
    ) -> Result<RepoCache, ServiceError> {
        let now = Timestamp::now();
        let when = as_read(cache.version, token);
        let mut written = match cache.state {
            RepoCacheState::Ready => cache,
            _ => cache.moved_to(RepoCacheState::Ready, now)?,
        };
        written.size_bytes = facts.size_bytes.or(written.size_bytes);
        written.last_fetched_at = Some(to_the_microsecond(fetched_at));
        written.last_used_at = to_the_microsecond(now);
        written.updated_at = to_the_microsecond(now);
        Ok(self.adapters.store.update_cache(&written, when).await?)
    }

    /// Ends an intent of which nothing came.
    pub(super) async fn give_cache_up(
        &self,
        cache: RepoCache,
        token: FencingToken,
    ) -> Result<(), ServiceError> {
        self.adapters.caches.remove(&cache.local_path).await?;
        let when = as_read(cache.version, token);
        let ended = cache.moved_to(RepoCacheState::Deleted, Timestamp::now())?;
        self.adapters.store.update_cache(&ended, when).await?;
        Ok(())
    }

    /// Finishes what the row says: removes the cache.
    pub(super) async fn finish_cache_eviction(
        &self,
        cache: RepoCache,
        token: FencingToken,
    ) -> Result<(), ServiceError> {
        self.faults.pass(FaultPoint::CacheEvicting);
        self.adapters.caches.remove(&cache.local_path).await?;
        self.faults.pass(FaultPoint::CacheRemoved);
        let when = as_read(cache.version, token);
        let ended = cache.moved_to(RepoCacheState::Deleted, Timestamp::now())?;
        self.adapters.store.update_cache(&ended, when).await?;
        Ok(())
    }
}

fn is_fresh(cache: &RepoCache, since: Timestamp) -> bool {
    cache.state == RepoCacheState::Ready
        && cache
            .last_fetched_at
            .is_some_and(|fetched_at| fetched_at >= since)
}
