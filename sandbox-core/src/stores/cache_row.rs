//! A cache as a row of a database.

use sqlx::types::Uuid;

use super::failure::damaged;
use super::stored_values::{read_moment, read_number, stored_moment, stored_number};
use crate::domain::{
    AuthScopeHash, CacheId, CacheKey, FencingToken, GitHost, Invalid, LocalPath, ProviderKind,
    RepoCache, RepoCacheState, RepoName, RepoUrl, SandboxError, Subject,
};

/// The columns of `sandbox_repo_caches`.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct CacheRow {
    pub(super) id: Uuid,
    pub(super) key: String,
    pub(super) repo_name: String,
    pub(super) repo_url: String,
    pub(super) provider: String,
    pub(super) provider_host: String,
    pub(super) local_path: String,
    pub(super) auth_scope_hash: String,
    pub(super) last_fetched_at_us: Option<i64>,
    pub(super) last_used_at_us: i64,
    pub(super) size_bytes: Option<i64>,
    pub(super) state: String,
    pub(super) version: i64,
    pub(super) token: i64,
    pub(super) created_at_us: i64,
    pub(super) updated_at_us: i64,
}

impl TryFrom<&RepoCache> for CacheRow {
    type Error = Invalid;

    fn try_from(cache: &RepoCache) -> Result<Self, Invalid> {
        let key = CacheKey::new(
            cache.key.host().clone(),
            &cache.repo_name,
            cache.key.auth_scope().clone(),
        );
        if key != cache.key {
            return Err(Invalid::new(
                "repository cache",
                &cache.key.to_string(),
                "its key must be the one of its repository's name; make it of that name",
            ));
        }
        let size_bytes = cache
            .size_bytes
            .map(|bytes| stored_number("size in bytes", bytes));
        Ok(Self {
            id: cache.id.as_uuid(),
            key: key.to_string(),
            repo_name: cache.repo_name.as_str().to_owned(),
            repo_url: cache.repo_url.as_str().to_owned(),
            provider: cache.provider.as_str().to_owned(),
            provider_host: key.host().as_str().to_owned(),
            local_path: cache.local_path.as_str().to_owned(),
            auth_scope_hash: key.auth_scope().as_str().to_owned(),
            last_fetched_at_us: cache.last_fetched_at.map(stored_moment),
            last_used_at_us: stored_moment(cache.last_used_at),
            size_bytes: size_bytes.transpose()?,
            state: cache.state.as_str().to_owned(),
            version: stored_number("version", cache.version)?,
            token: stored_number("fencing token", cache.token.get())?,
            created_at_us: stored_moment(cache.created_at),
            updated_at_us: stored_moment(cache.updated_at),
        })
    }
}

impl TryFrom<CacheRow> for RepoCache {
    type Error = SandboxError;

    fn try_from(row: CacheRow) -> Result<Self, SandboxError> {
        let id = CacheId::from_uuid(row.id);
        read(&row, id).map_err(damaged(Subject::Cache(id)))
    }
}

fn read(row: &CacheRow, id: CacheId) -> Result<RepoCache, Invalid> {
    let repo_name = RepoName::parse(&row.repo_name)?;
    let key = CacheKey::new(
        GitHost::parse(&row.provider_host)?,
        &repo_name,
        AuthScopeHash::from_stored(&row.auth_scope_hash)?,
    );
    if key.to_string() != row.key {
        return Err(Invalid::new(
            "key of a repository cache",
            &row.key,
            "it must be made of the row's host, name and scope",
        ));
    }
    let size_bytes = row
        .size_bytes
        .map(|bytes| read_number("size in bytes", bytes));
    Ok(RepoCache {
        id,
        key,
        repo_name,
        repo_url: RepoUrl::parse(&row.repo_url)?,
        provider: ProviderKind::parse(&row.provider)?,
        local_path: LocalPath::parse(&row.local_path)?,
        last_fetched_at: row.last_fetched_at_us.map(read_moment).transpose()?,
        last_used_at: read_moment(row.last_used_at_us)?,
        size_bytes: size_bytes.transpose()?,
        state: RepoCacheState::from_stored(&row.state)?,
        version: read_number("version", row.version)?,
        token: FencingToken::new(read_number("fencing token", row.token)?),
        created_at: read_moment(row.created_at_us)?,
        updated_at: read_moment(row.updated_at_us)?,
    })
}

/// Reads the state of a live cache alone.
pub(super) fn read_cache_state(
    id: CacheId,
    stored: Option<String>,
) -> Result<Option<RepoCacheState>, SandboxError> {
    let state = stored.as_deref().map(RepoCacheState::from_stored);
    state.transpose().map_err(damaged(Subject::Cache(id)))
}
