//! What the store's port asks of repository caches, in memory.

use jiff::Timestamp;

use super::super::admission::check_eviction;
use super::super::cache_row::CacheRow;
use super::super::stored_values::{StoredPrecondition, stored_moment};
use super::super::write_check::check_write;
use super::tables::{Tables, count_of, first_of, page_of};
use crate::domain::{
    CacheId, CacheKey, RepoCache, RepoCacheState, SandboxError, Subject, to_the_microsecond,
};
use crate::ports::store::{Page, Precondition};

/// The record as a database would give it back.
fn as_kept(cache: &RepoCache) -> Result<RepoCache, SandboxError> {
    CacheRow::try_from(cache)?.try_into()
}

fn is_live(cache: &RepoCache) -> bool {
    cache.state != RepoCacheState::Deleted
}

impl Tables {
    pub(super) fn insert_cache(&mut self, cache: &RepoCache) -> Result<(), SandboxError> {
        let kept = as_kept(cache)?;
        if self.find_cache_by_key(&kept.key).is_some() {
            let subject = Subject::CacheKey(Box::new(kept.key));
            return Err(SandboxError::AlreadyExists(subject));
        }
        if self.caches.contains_key(&kept.id) {
            return Err(SandboxError::AlreadyExists(Subject::Cache(kept.id)));
        }
        self.caches.insert(kept.id, kept);
        Ok(())
    }

    pub(super) fn find_cache(&self, id: CacheId) -> Option<&RepoCache> {
        self.caches.get(&id).filter(|cache| is_live(cache))
    }

    pub(super) fn find_cache_by_key(&self, key: &CacheKey) -> Option<&RepoCache> {
        let mut caches = self.caches.values();
        caches.find(|cache| is_live(cache) && cache.key == *key)
    }

    pub(super) fn update_cache(
        &mut self,
        cache: &RepoCache,
        when: Precondition,
    ) -> Result<RepoCache, SandboxError> {
        let kept = as_kept(cache)?;
        let found = self.writable_cache(kept.id, &when)?;
        found.repo_url = kept.repo_url;
        found.local_path = kept.local_path;
        found.last_fetched_at = kept.last_fetched_at;
        found.last_used_at = found.last_used_at.max(kept.last_used_at);
        found.size_bytes = kept.size_bytes;
        found.state = kept.state;
        found.version += 1;
        found.token = when.token;
        found.updated_at = kept.updated_at;
        Ok(found.clone())
    }

    pub(super) fn begin_cache_eviction(
        &mut self,
        id: CacheId,
        when: Precondition,
        now: Timestamp,
    ) -> Result<RepoCache, SandboxError> {
        let uses = self.uses_of_cache(id);
        let found = self.writable_cache(id, &when)?;
        check_eviction(found, uses)?;
        found.state = RepoCacheState::Evicting;
        found.version += 1;
        found.token = when.token;
        found.updated_at = to_the_microsecond(now);
        Ok(found.clone())
    }

    pub(super) fn touch_cache(
        &mut self,
        id: CacheId,
        used_at: Timestamp,
    ) -> Result<(), SandboxError> {
        let found = self.live_cache(id)?;
        found.last_used_at = found.last_used_at.max(to_the_microsecond(used_at));
        Ok(())
    }

    pub(super) fn find_caches_for_eviction(
        &self,
        used_before: Timestamp,
        rows_max: u32,
    ) -> Vec<RepoCache> {
        let idle = self.caches.values().filter(|cache| {
            cache.state == RepoCacheState::Ready
                && stored_moment(cache.last_used_at) < stored_moment(used_before)
                && self.uses_of_cache(cache.id) == 0
        });
        first_of(idle, rows_max, |cache| (cache.last_used_at, cache.id))
    }

    pub(super) fn list_caches(&self, page: Page<CacheId>) -> Vec<RepoCache> {
        page_of(&self.caches, page, is_live)
    }

    /// The state of a cache, if it is live.
    pub(super) fn state_of_cache(&self, id: CacheId) -> Option<RepoCacheState> {
        self.find_cache(id).map(|cache| cache.state)
    }

    fn uses_of_cache(&self, id: CacheId) -> u64 {
        let workspaces = self.live_workspaces();
        let trees = self.trees.values().filter(|tree| !tree.state.is_final());
        count_of(workspaces.filter(|workspace| workspace.repo_cache_id == id))
            + count_of(trees.filter(|tree| tree.repo_cache_id == id))
    }

    fn live_cache(&mut self, id: CacheId) -> Result<&mut RepoCache, SandboxError> {
        let found = self.caches.get_mut(&id).filter(|cache| is_live(cache));
        found.ok_or(SandboxError::NotFound(Subject::Cache(id)))
    }

    fn writable_cache(
        &mut self,
        id: CacheId,
        when: &Precondition,
    ) -> Result<&mut RepoCache, SandboxError> {
        StoredPrecondition::try_from(when)?;
        let found = self.live_cache(id)?;
        check_write(Subject::Cache(id), (&*found).into(), when)?;
        Ok(found)
    }
}
