//! What the store's port asks of repository caches, in SQLite.

use jiff::Timestamp;
use sqlx::SqliteExecutor;
use sqlx::types::Uuid;

use super::super::admission::check_eviction;
use super::super::cache_row::{CacheRow, read_cache_state};
use super::super::failure::{insert_failed, unavailable};
use super::super::stored_values::{StoredPrecondition, stored_moment};
use super::super::write_check::check_write;
use super::SqliteStore;
use crate::domain::{CacheId, CacheKey, RepoCache, RepoCacheState, SandboxError, Subject};
use crate::ports::store::{Page, Precondition};

const READING: &str = "reading a repository cache";
const WRITING: &str = "writing a repository cache";

/// The columns of a [`CacheRow`].
macro_rules! cache_columns {
    () => {
        "id, key, repo_name, repo_url, provider, provider_host, local_path, auth_scope_hash, \
         last_fetched_at_us, last_used_at_us, size_bytes, state, version, token, created_at_us, \
         updated_at_us"
    };
}

pub(super) async fn insert(store: &SqliteStore, cache: &RepoCache) -> Result<(), SandboxError> {
    let row = CacheRow::try_from(cache)?;
    let key = || Subject::CacheKey(Box::new(cache.key.clone()));
    let inserted = sqlx::query(concat!(
        "INSERT INTO sandbox_repo_caches (",
        cache_columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
         ON CONFLICT (key) WHERE state <> 'deleted' DO NOTHING"
    ))
    .bind(row.id)
    .bind(row.key)
    .bind(row.repo_name)
    .bind(row.repo_url)
    .bind(row.provider)
    .bind(row.provider_host)
    .bind(row.local_path)
    .bind(row.auth_scope_hash)
    .bind(row.last_fetched_at_us)
    .bind(row.last_used_at_us)
    .bind(row.size_bytes)
    .bind(row.state)
    .bind(row.version)
    .bind(row.token)
    .bind(row.created_at_us)
    .bind(row.updated_at_us)
    .execute(&store.writer)
    .await
    .map_err(insert_failed(WRITING, Subject::Cache(cache.id), key()))?;
    if inserted.rows_affected() == 0 {
        return Err(SandboxError::AlreadyExists(key()));
    }
    Ok(())
}

pub(super) async fn find(
    executor: impl SqliteExecutor<'_>,
    id: CacheId,
) -> Result<Option<RepoCache>, SandboxError> {
    let row = sqlx::query_as::<_, CacheRow>(concat!(
        "SELECT ",
        cache_columns!(),
        " FROM sandbox_repo_caches WHERE id = ?1 AND state <> 'deleted'"
    ))
    .bind(id.as_uuid())
    .fetch_optional(executor)
    .await
    .map_err(unavailable(READING))?;
    row.map(RepoCache::try_from).transpose()
}

/// The state of a live cache.
pub(super) async fn find_state(
    executor: impl SqliteExecutor<'_>,
    id: CacheId,
) -> Result<Option<RepoCacheState>, SandboxError> {
    let state = sqlx::query_scalar::<_, String>(
        "SELECT state FROM sandbox_repo_caches WHERE id = ?1 AND state <> 'deleted'",
    )
    .bind(id.as_uuid())
    .fetch_optional(executor)
    .await
    .map_err(unavailable(READING))?;
    read_cache_state(id, state)
}

pub(super) async fn find_by_key(
    store: &SqliteStore,
    key: &CacheKey,
) -> Result<Option<RepoCache>, SandboxError> {
    let row = sqlx::query_as::<_, CacheRow>(concat!(
        "SELECT ",
        cache_columns!(),
        " FROM sandbox_repo_caches WHERE key = ?1 AND state <> 'deleted'"
    ))
    .bind(key.to_string())
    .fetch_optional(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    row.map(RepoCache::try_from).transpose()
}

pub(super) async fn update(
    store: &SqliteStore,
    cache: &RepoCache,
    when: Precondition,
) -> Result<RepoCache, SandboxError> {
    let row = CacheRow::try_from(cache)?;
    let stored_when = StoredPrecondition::try_from(&when)?;
    loop {
        let mut written = sqlx::query_as::<_, CacheRow>(concat!(
            "UPDATE sandbox_repo_caches
             SET repo_url = ?2, local_path = ?3, last_fetched_at_us = ?4,
                 last_used_at_us = max(last_used_at_us, ?5), size_bytes = ?6, state = ?7,
                 updated_at_us = ?8, version = version + 1, token = ?9
             WHERE id = ?1 AND state <> 'deleted' AND token <= ?9 AND version = ?10
               AND (?11 IS NULL OR last_used_at_us <= ?11)
             RETURNING ",
            cache_columns!()
        ))
        .bind(row.id)
        .bind(&row.repo_url)
        .bind(&row.local_path)
        .bind(row.last_fetched_at_us)
        .bind(row.last_used_at_us)
        .bind(row.size_bytes)
        .bind(&row.state)
        .bind(row.updated_at_us)
        .bind(stored_when.token)
        .bind(stored_when.version)
        .bind(stored_when.unused_since_us)
        .fetch_all(&store.writer)
        .await
        .map_err(unavailable(WRITING))?;
        if let Some(written) = written.pop() {
            return written.try_into();
        }
        let subject = Subject::Cache(cache.id);
        let Some(found) = find(&store.readers, cache.id).await? else {
            return Err(SandboxError::NotFound(subject));
        };
        // If nothing refuses it now, it has only now got the version that is expected.
        check_write(subject, (&found).into(), &when)?;
    }
}

pub(super) async fn begin_eviction(
    store: &SqliteStore,
    id: CacheId,
    when: Precondition,
    now: Timestamp,
) -> Result<RepoCache, SandboxError> {
    let stored_when = StoredPrecondition::try_from(&when)?;
    let mut transaction = store.begin(WRITING).await?;
    let found = find(&mut *transaction, id).await?;
    let found = found.ok_or(SandboxError::NotFound(Subject::Cache(id)))?;
    check_write(Subject::Cache(id), (&found).into(), &when)?;
    let uses = sqlx::query_scalar::<_, i64>(
        "SELECT (SELECT count(*) FROM sandbox_workspaces
                 WHERE repo_cache_id = ?1 AND state <> 'deleted')
              + (SELECT count(*) FROM sandbox_prepared_trees
                 WHERE repo_cache_id = ?1 AND state NOT IN ('adopted', 'terminated'))",
    )
    .bind(id.as_uuid())
    .fetch_one(&mut *transaction)
    .await
    .map_err(unavailable(READING))?;
    check_eviction(&found, uses.unsigned_abs())?;
    let evicting = sqlx::query_as::<_, CacheRow>(concat!(
        "UPDATE sandbox_repo_caches
         SET state = 'evicting', version = version + 1, token = ?2, updated_at_us = ?3
         WHERE id = ?1
         RETURNING ",
        cache_columns!()
    ))
    .bind(id.as_uuid())
    .bind(stored_when.token)
    .bind(stored_moment(now))
    .fetch_one(&mut *transaction)
    .await
    .map_err(unavailable(WRITING))?;
    transaction.commit().await.map_err(unavailable(WRITING))?;
    evicting.try_into()
}

pub(super) async fn touch(
    store: &SqliteStore,
    id: CacheId,
    used_at: Timestamp,
) -> Result<(), SandboxError> {
    let touched = sqlx::query(
        "UPDATE sandbox_repo_caches SET last_used_at_us = max(last_used_at_us, ?2)
         WHERE id = ?1 AND state <> 'deleted'",
    )
    .bind(id.as_uuid())
    .bind(stored_moment(used_at))
    .execute(&store.writer)
    .await
    .map_err(unavailable(WRITING))?;
    if touched.rows_affected() == 0 {
        return Err(SandboxError::NotFound(Subject::Cache(id)));
    }
    Ok(())
}

pub(super) async fn find_for_eviction(
    store: &SqliteStore,
    used_before: Timestamp,
    rows_max: u32,
) -> Result<Vec<RepoCache>, SandboxError> {
    let rows = sqlx::query_as::<_, CacheRow>(concat!(
        "SELECT ",
        cache_columns!(),
        " FROM sandbox_repo_caches AS cache
         WHERE state = 'ready' AND last_used_at_us < ?1
           AND NOT EXISTS (SELECT 1 FROM sandbox_workspaces AS workspace
                           WHERE workspace.repo_cache_id = cache.id AND workspace.state <> 'deleted')
           AND NOT EXISTS (SELECT 1 FROM sandbox_prepared_trees AS tree
                           WHERE tree.repo_cache_id = cache.id
                             AND tree.state NOT IN ('adopted', 'terminated'))
         ORDER BY last_used_at_us, id
         LIMIT ?2"
    ))
    .bind(stored_moment(used_before))
    .bind(i64::from(rows_max))
    .fetch_all(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(RepoCache::try_from).collect()
}

pub(super) async fn list(
    store: &SqliteStore,
    page: Page<CacheId>,
) -> Result<Vec<RepoCache>, SandboxError> {
    let rows = sqlx::query_as::<_, CacheRow>(concat!(
        "SELECT ",
        cache_columns!(),
        " FROM sandbox_repo_caches WHERE id > ?1 AND state <> 'deleted' ORDER BY id LIMIT ?2"
    ))
    .bind(page.after.map_or(Uuid::nil(), CacheId::as_uuid))
    .bind(i64::from(page.rows_max))
    .fetch_all(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(RepoCache::try_from).collect()
}
