//! What the store's port asks of caches, in PostgreSQL.

use jiff::Timestamp;
use sqlx::PgPool;
use sqlx::types::Uuid;

use super::super::admission::check_eviction;
use super::super::cache_row::CacheRow;
use super::super::failure::{insert_failed, unavailable};
use super::super::stored_values::{StoredPrecondition, stored_moment};
use super::super::write_check::check_write;
use crate::domain::{CacheId, CacheKey, RepoCache, SandboxError, Subject};
use crate::ports::store::{Page, Precondition};

const READING: &str = "reading a repository cache";
const WRITING: &str = "writing a repository cache";

/// A checked statement that gives [`CacheRow`]s: their columns stand between the two texts.
macro_rules! cache_rows {
    ($before:tt, $after:tt $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            CacheRow,
            $before
                + "id, key, repo_name, repo_url, provider, provider_host, local_path, auth_scope_hash, "
                + "last_fetched_at_us, last_used_at_us, size_bytes, state, version, token, created_at_us, "
                + "updated_at_us"
                + $after
            $(, $argument)*
        )
    };
}

pub(super) async fn insert(pool: &PgPool, cache: &RepoCache) -> Result<(), SandboxError> {
    let row = CacheRow::try_from(cache)?;
    let key = || Subject::CacheKey(Box::new(cache.key.clone()));
    let inserted = sqlx::query!(
        "INSERT INTO sandbox_repo_caches (
             id, key, repo_name, repo_url, provider, provider_host, local_path, auth_scope_hash,
             last_fetched_at_us, last_used_at_us, size_bytes, state, version, token, created_at_us,
             updated_at_us
         )
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
         ON CONFLICT (key) WHERE state <> 'deleted' DO NOTHING",
        row.id,
        row.key,
        row.repo_name,
        row.repo_url,
        row.provider,
        row.provider_host,
        row.local_path,
        row.auth_scope_hash,
        row.last_fetched_at_us,
        row.last_used_at_us,
        row.size_bytes,
        row.state,
        row.version,
        row.token,
        row.created_at_us,
        row.updated_at_us,
    )
    .execute(pool)
    .await
    .map_err(insert_failed(WRITING, Subject::Cache(cache.id), key()))?;
    if inserted.rows_affected() == 0 {
        return Err(SandboxError::AlreadyExists(key()));
    }
    Ok(())
}

pub(super) async fn find(pool: &PgPool, id: CacheId) -> Result<Option<RepoCache>, SandboxError> {
    let row = cache_rows!(
        "SELECT ",
        " FROM sandbox_repo_caches WHERE id = $1 AND state <> 'deleted'",
        id.as_uuid(),
    )
    .fetch_optional(pool)
    .await
    .map_err(unavailable(READING))?;
    row.map(RepoCache::try_from).transpose()
}

pub(super) async fn find_by_key(
    pool: &PgPool,
    key: &CacheKey,
) -> Result<Option<RepoCache>, SandboxError> {
    let row = cache_rows!(
        "SELECT ",
        " FROM sandbox_repo_caches WHERE key = $1 AND state <> 'deleted'",
        key.to_string(),
    )
    .fetch_optional(pool)
    .await
    .map_err(unavailable(READING))?;
    row.map(RepoCache::try_from).transpose()
}

pub(super) async fn update(
    pool: &PgPool,
    cache: &RepoCache,
    when: Precondition,
) -> Result<RepoCache, SandboxError> {
    let row = CacheRow::try_from(cache)?;
    let stored_when = StoredPrecondition::try_from(&when)?;
    loop {
        let written = cache_rows!(
            "UPDATE sandbox_repo_caches
             SET repo_url = $2, local_path = $3, last_fetched_at_us = $4,
                 last_used_at_us = greatest(last_used_at_us, $5), size_bytes = $6, state = $7,
                 updated_at_us = $8, version = version + 1, token = $9
             WHERE id = $1 AND state <> 'deleted' AND token <= $9 AND version = $10
               AND ($11::bigint IS NULL OR last_used_at_us <= $11)
             RETURNING ",
            "",
            row.id,
            row.repo_url,
            row.local_path,
            row.last_fetched_at_us,
            row.last_used_at_us,
            row.size_bytes,
            row.state,
            row.updated_at_us,
            stored_when.token,
            stored_when.version,
            stored_when.unused_since_us,
        )
        .fetch_optional(pool)
        .await
        .map_err(unavailable(WRITING))?;
        if let Some(written) = written {
            return written.try_into();
        }
        let subject = Subject::Cache(cache.id);
        let Some(found) = find(pool, cache.id).await? else {
            return Err(SandboxError::NotFound(subject));
        };
        // If nothing refuses it now, it has only now got the version that is expected.
        check_write(subject, (&found).into(), &when)?;
    }
}

pub(super) async fn begin_eviction(
    pool: &PgPool,
    id: CacheId,
    when: Precondition,
    now: Timestamp,
) -> Result<RepoCache, SandboxError> {
    let stored_when = StoredPrecondition::try_from(&when)?;
    let mut transaction = pool.begin().await.map_err(unavailable(WRITING))?;
    // Held to the end: whoever inserts what stands on it waits here, and then finds it evicting.
    let row = cache_rows!(
        "SELECT ",
        " FROM sandbox_repo_caches WHERE id = $1 AND state <> 'deleted' FOR UPDATE",
        id.as_uuid(),
    )
    .fetch_optional(&mut *transaction)
    .await
    .map_err(unavailable(READING))?;
    let Some(row) = row else {
        return Err(SandboxError::NotFound(Subject::Cache(id)));
    };
    let found = RepoCache::try_from(row)?;
    check_write(Subject::Cache(id), (&found).into(), &when)?;
    // A statement of its own, which sees what was inserted while the one before waited.
    let uses = sqlx::query_scalar!(
        r#"SELECT (SELECT count(*) FROM sandbox_workspaces
                   WHERE repo_cache_id = $1 AND state <> 'deleted')
                + (SELECT count(*) FROM sandbox_prepared_trees
                   WHERE repo_cache_id = $1 AND state NOT IN ('adopted', 'terminated')) AS "uses!""#,
        id.as_uuid(),
    )
    .fetch_one(&mut *transaction)
    .await
    .map_err(unavailable(READING))?;
    check_eviction(&found, uses.unsigned_abs())?;
    let evicting = cache_rows!(
        "UPDATE sandbox_repo_caches
         SET state = 'evicting', version = version + 1, token = $2, updated_at_us = $3
         WHERE id = $1
         RETURNING ",
        "",
        id.as_uuid(),
        stored_when.token,
        stored_moment(now),
    )
    .fetch_one(&mut *transaction)
    .await
    .map_err(unavailable(WRITING))?;
    transaction.commit().await.map_err(unavailable(WRITING))?;
    evicting.try_into()
}

pub(super) async fn touch(
    pool: &PgPool,
    id: CacheId,
    used_at: Timestamp,
) -> Result<(), SandboxError> {
    let touched = sqlx::query!(
        "UPDATE sandbox_repo_caches SET last_used_at_us = greatest(last_used_at_us, $2)
         WHERE id = $1 AND state <> 'deleted'",
        id.as_uuid(),
        stored_moment(used_at),
    )
    .execute(pool)
    .await
    .map_err(unavailable(WRITING))?;
    if touched.rows_affected() == 0 {
        return Err(SandboxError::NotFound(Subject::Cache(id)));
    }
    Ok(())
}

pub(super) async fn find_for_eviction(
    pool: &PgPool,
    used_before: Timestamp,
    rows_max: u32,
) -> Result<Vec<RepoCache>, SandboxError> {
    let rows = cache_rows!(
        "SELECT ",
        " FROM sandbox_repo_caches AS cache
         WHERE state = 'ready' AND last_used_at_us < $1
           AND NOT EXISTS (SELECT 1 FROM sandbox_workspaces AS workspace
                           WHERE workspace.repo_cache_id = cache.id AND workspace.state <> 'deleted')
           AND NOT EXISTS (SELECT 1 FROM sandbox_prepared_trees AS tree
                           WHERE tree.repo_cache_id = cache.id
                             AND tree.state NOT IN ('adopted', 'terminated'))
         ORDER BY last_used_at_us, id
         LIMIT $2",
        stored_moment(used_before),
        i64::from(rows_max),
    )
    .fetch_all(pool)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(RepoCache::try_from).collect()
}

pub(super) async fn list(
    pool: &PgPool,
    page: Page<CacheId>,
) -> Result<Vec<RepoCache>, SandboxError> {
    let rows = cache_rows!(
        "SELECT ",
        " FROM sandbox_repo_caches WHERE id > $1 AND state <> 'deleted' ORDER BY id LIMIT $2",
        page.after.map_or(Uuid::nil(), CacheId::as_uuid),
        i64::from(page.rows_max),
    )
    .fetch_all(pool)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(RepoCache::try_from).collect()
}
