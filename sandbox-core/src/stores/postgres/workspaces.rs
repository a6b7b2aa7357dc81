//! Workspaces in PostgreSQL.

use jiff::Timestamp;
use sqlx::types::Uuid;
use sqlx::{PgConnection, PgExecutor, PgPool};

use super::super::admission::{WorkspacesFound, admit_workspace};
use super::super::cache_row::read_cache_state;
use super::super::failure::{damaged, insert_failed, unavailable};
use super::super::stored_values::{
    StoredPrecondition, read_number, stored_moment, stored_number, stored_token,
};
use super::super::workspace_row::{KeyColumns, WorkspaceRow};
use super::super::write_check::{check_commands_token, check_version, check_write};
use crate::domain::{
    CacheId, FencingToken, RepoCacheState, SandboxError, Subject, Workspace, WorkspaceId,
    WorkspaceKey,
};
use crate::ports::store::{Page, Precondition, WorkspaceEvictionQuery, WorkspaceQuota};

const READING: &str = "reading a workspace";
const WRITING: &str = "writing a workspace";

/// A checked statement that gives [`WorkspaceRow`]s: their columns stand between the two texts.
macro_rules! workspace_rows {
    ($before:tt, $after:tt $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            WorkspaceRow,
            $before
                + "id, repo_cache_id, project_id, user_id, mode, conversation_id, task_id, base_ref, "
                + "branch_name, local_path, state, dirty, pinned_until_us, last_used_at_us, size_bytes, "
                + "version, token, commands_token, created_at_us, updated_at_us"
                + $after
            $(, $argument)*
        )
    };
}

pub(super) async fn insert(
    pool: &PgPool,
    workspace: &Workspace,
    quota: WorkspaceQuota,
) -> Result<(), SandboxError> {
    let row = WorkspaceRow::try_from(workspace)?;
    let mut transaction = pool.begin().await.map_err(unavailable(WRITING))?;
    sqlx::query_scalar!(
        "SELECT counted FROM sandbox_limits WHERE counted = 'workspaces' FOR UPDATE"
    )
    .fetch_one(&mut *transaction)
    .await
    .map_err(unavailable(WRITING))?;
    let cache = hold_cache(&mut transaction, workspace.repo_cache_id).await?;
    let found = count(&mut transaction, &workspace.key).await?;
    admit_workspace(workspace, cache, found, quota)?;
    sqlx::query!(
        "INSERT INTO sandbox_workspaces (
             id, repo_cache_id, project_id, user_id, mode, conversation_id, task_id, base_ref,
             branch_name, local_path, state, dirty, pinned_until_us, last_used_at_us, size_bytes,
             version, token, commands_token, created_at_us, updated_at_us
         )
         VALUES (
             $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
             $20
         )",
        row.id,
        row.repo_cache_id,
        row.project_id,
        row.user_id,
        row.mode,
        row.conversation_id,
        row.task_id,
        row.base_ref,
        row.branch_name,
        row.local_path,
        row.state,
        row.dirty,
        row.pinned_until_us,
        row.last_used_at_us,
        row.size_bytes,
        row.version,
        row.token,
        row.commands_token,
        row.created_at_us,
        row.updated_at_us,
    )
    .execute(&mut *transaction)
    .await
    .map_err(insert_failed(
        WRITING,
        Subject::Workspace(workspace.id),
        Subject::WorkspaceKey(Box::new(workspace.key.clone())),
    ))?;
    transaction.commit().await.map_err(unavailable(WRITING))
}

/// The state of a live cache, which nobody changes until the transaction's end.
async fn hold_cache(
    connection: &mut PgConnection,
    id: CacheId,
) -> Result<Option<RepoCacheState>, SandboxError> {
    let state = sqlx::query_scalar!(
        "SELECT state FROM sandbox_repo_caches WHERE id = $1 AND state <> 'deleted' FOR SHARE",
        id.as_uuid(),
    )
    .fetch_optional(connection)
    .await
    .map_err(unavailable("reading a repository cache"))?;
    read_cache_state(id, state)
}

async fn count(
    connection: &mut PgConnection,
    key: &WorkspaceKey,
) -> Result<WorkspacesFound, SandboxError> {
    let columns = KeyColumns::of(key);
    let found = sqlx::query!(
        r#"SELECT EXISTS (
                      SELECT 1 FROM sandbox_workspaces
                      WHERE user_id = $1 AND project_id = $2 AND mode = $3 AND state <> 'deleted'
                        AND (base_ref = $4 OR conversation_id = $5 OR task_id = $7
                             OR (conversation_id IS NULL AND branch_name = $6))
                  ) AS "key_is_taken!",
                  (SELECT count(*) FROM sandbox_workspaces
                   WHERE user_id = $1 AND state <> 'deleted') AS "of_user!",
                  (SELECT count(*) FROM sandbox_workspaces WHERE state <> 'deleted') AS "of_all!""#,
        columns.user_id,
        columns.project_id,
        columns.mode,
        columns.base_ref,
        columns.conversation_id,
        columns.branch_name,
        columns.task_id,
    )
    .fetch_one(connection)
    .await
    .map_err(unavailable(READING))?;
    Ok(WorkspacesFound {
        key_is_taken: found.key_is_taken,
        of_user: found.of_user.unsigned_abs(),
        of_all: found.of_all.unsigned_abs(),
    })
}

pub(super) async fn find(
    pool: &PgPool,
    id: WorkspaceId,
) -> Result<Option<Workspace>, SandboxError> {
    let row = workspace_rows!(
        "SELECT ",
        " FROM sandbox_workspaces WHERE id = $1 AND state <> 'deleted'",
        id.as_uuid(),
    )
    .fetch_optional(pool)
    .await
    .map_err(unavailable(READING))?;
    row.map(Workspace::try_from).transpose()
}

pub(super) async fn find_by_key(
    pool: &PgPool,
    key: &WorkspaceKey,
) -> Result<Option<Workspace>, SandboxError> {
    let columns = KeyColumns::of(key);
    let row = workspace_rows!(
        "SELECT ",
        " FROM sandbox_workspaces
         WHERE user_id = $1 AND project_id = $2 AND mode = $3 AND state <> 'deleted'
           AND (base_ref = $4 OR conversation_id = $5 OR task_id = $7
                OR (conversation_id IS NULL AND branch_name = $6))",
        columns.user_id,
        columns.project_id,
        columns.mode,
        columns.base_ref,
        columns.conversation_id,
        columns.branch_name,
        columns.task_id,
    )
    .fetch_optional(pool)
    .await
    .map_err(unavailable(READING))?;
    row.map(Workspace::try_from).transpose()
}

/// A live workspace, which nobody else changes until the transaction's end.
pub(super) async fn hold(
    connection: &mut PgConnection,
    id: WorkspaceId,
) -> Result<Option<Workspace>, SandboxError> {
    let row = workspace_rows!(
        "SELECT ",
        " FROM sandbox_workspaces WHERE id = $1 AND state <> 'deleted' FOR UPDATE",
        id.as_uuid(),
    )
    .fetch_optional(connection)
    .await
    .map_err(unavailable(READING))?;
    row.map(Workspace::try_from).transpose()
}

/// Writes a workspace if its precondition holds.
pub(super) async fn write(
    executor: impl PgExecutor<'_>,
    row: &WorkspaceRow,
    when: StoredPrecondition,
) -> Result<Option<Workspace>, SandboxError> {
    let written = workspace_rows!(
        "UPDATE sandbox_workspaces
         SET local_path = $2, state = $3, dirty = $4, pinned_until_us = $5,
             last_used_at_us = greatest(last_used_at_us, $6), size_bytes = $7, updated_at_us = $8,
             version = version + 1, token = $9
         WHERE id = $1 AND state <> 'deleted' AND token <= $9 AND version = $10
           AND ($11::bigint IS NULL OR last_used_at_us <= $11)
         RETURNING ",
        "",
        row.id,
        row.local_path,
        row.state,
        row.dirty,
        row.pinned_until_us,
        row.last_used_at_us,
        row.size_bytes,
        row.updated_at_us,
        when.token,
        when.version,
        when.unused_since_us,
    )
    .fetch_optional(executor)
    .await
    .map_err(unavailable(WRITING))?;
    written.map(Workspace::try_from).transpose()
}

pub(super) async fn update(
    pool: &PgPool,
    workspace: &Workspace,
    when: Precondition,
) -> Result<Workspace, SandboxError> {
    let row = WorkspaceRow::try_from(workspace)?;
    let stored_when = StoredPrecondition::try_from(&when)?;
    loop {
        if let Some(written) = write(pool, &row, stored_when).await? {
            return Ok(written);
        }
        let subject = Subject::Workspace(workspace.id);
        let Some(found) = find(pool, workspace.id).await? else {
            return Err(SandboxError::NotFound(subject));
        };
        // If nothing refuses it now, it has only now got the version that is expected.
        check_write(subject, (&found).into(), &when)?;
    }
}

pub(super) async fn touch(
    pool: &PgPool,
    id: WorkspaceId,
    commands_token: Option<FencingToken>,
    used_at: Timestamp,
) -> Result<(), SandboxError> {
    let stored = stored_token(commands_token)?;
    loop {
        let touched = sqlx::query!(
            "UPDATE sandbox_workspaces SET last_used_at_us = greatest(last_used_at_us, $2)
             WHERE id = $1 AND state <> 'deleted'
               AND ($3::bigint IS NULL OR commands_token <= $3)",
            id.as_uuid(),
            stored_moment(used_at),
            stored,
        )
        .execute(pool)
        .await
        .map_err(unavailable(WRITING))?;
        if touched.rows_affected() > 0 {
            return Ok(());
        }
        find_for_commands(pool, id, commands_token).await?;
    }
}

/// A workspace that somebody may say something of under the lock on its commands, or why not. A row
/// never gets an older token, so whoever was refused once is so again.
async fn find_for_commands(
    pool: &PgPool,
    id: WorkspaceId,
    token: Option<FencingToken>,
) -> Result<Workspace, SandboxError> {
    let subject = Subject::Workspace(id);
    match find(pool, id).await? {
        Some(found) => {
            check_commands_token(subject, found.commands_token, token)?;
            Ok(found)
        }
        None => Err(SandboxError::NotFound(subject)),
    }
}

/// The newest token under which somebody announced to write in a workspace, be it live or not.
pub(super) async fn find_commands_token(
    pool: &PgPool,
    id: WorkspaceId,
) -> Result<FencingToken, SandboxError> {
    let stored = sqlx::query_scalar!(
        "SELECT commands_token FROM sandbox_workspaces WHERE id = $1",
        id.as_uuid(),
    )
    .fetch_optional(pool)
    .await
    .map_err(unavailable(READING))?;
    let subject = Subject::Workspace(id);
    let Some(stored) = stored else {
        return Err(SandboxError::NotFound(subject));
    };
    let number = read_number("fencing token", stored).map_err(damaged(subject))?;
    Ok(FencingToken::new(number))
}

pub(super) async fn mark_dirty(
    pool: &PgPool,
    id: WorkspaceId,
    commands_token: FencingToken,
    used_at: Timestamp,
) -> Result<u64, SandboxError> {
    let stored = stored_number("fencing token", commands_token.get())?;
    loop {
        let version = sqlx::query_scalar!(
            "UPDATE sandbox_workspaces
             SET dirty = true, version = version + 1, commands_token = $3, updated_at_us = $2,
                 last_used_at_us = greatest(last_used_at_us, $2)
             WHERE id = $1 AND state <> 'deleted' AND commands_token <= $3
             RETURNING version",
            id.as_uuid(),
            stored_moment(used_at),
            stored,
        )
        .fetch_optional(pool)
        .await
        .map_err(unavailable(WRITING))?;
        if let Some(version) = version {
            return Ok(read_number("version", version)?);
        }
        find_for_commands(pool, id, Some(commands_token)).await?;
    }
}

pub(super) async fn mark_clean(
    pool: &PgPool,
    id: WorkspaceId,
    version: u64,
    commands_token: FencingToken,
    now: Timestamp,
) -> Result<u64, SandboxError> {
    let stored_version = stored_number("version", version)?;
    let stored = stored_number("fencing token", commands_token.get())?;
    loop {
        let written = sqlx::query_scalar!(
            "UPDATE sandbox_workspaces
             SET dirty = false, version = version + 1, updated_at_us = $3
             WHERE id = $1 AND state <> 'deleted' AND version = $2 AND commands_token <= $4
             RETURNING version",
            id.as_uuid(),
            stored_version,
            stored_moment(now),
            stored,
        )
        .fetch_optional(pool)
        .await
        .map_err(unavailable(WRITING))?;
        if let Some(written) = written {
            return Ok(read_number("version", written)?);
        }
        let found = find_for_commands(pool, id, Some(commands_token)).await?;
        // If this is the version, it has only now become that.
        check_version(Subject::Workspace(id), version, found.version)?;
    }
}

pub(super) async fn list_of_cache(
    pool: &PgPool,
    cache: CacheId,
    page: Page<WorkspaceId>,
) -> Result<Vec<Workspace>, SandboxError> {
    let rows = workspace_rows!(
        "SELECT ",
        " FROM sandbox_workspaces
         WHERE repo_cache_id = $1 AND id > $2 AND state <> 'deleted'
         ORDER BY id
         LIMIT $3",
        cache.as_uuid(),
        page.after.map_or(Uuid::nil(), WorkspaceId::as_uuid),
        i64::from(page.rows_max),
    )
    .fetch_all(pool)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Workspace::try_from).collect()
}

pub(super) async fn list(
    pool: &PgPool,
    page: Page<WorkspaceId>,
) -> Result<Vec<Workspace>, SandboxError> {
    let rows = workspace_rows!(
        "SELECT ",
        " FROM sandbox_workspaces WHERE id > $1 AND state <> 'deleted' ORDER BY id LIMIT $2",
        page.after.map_or(Uuid::nil(), WorkspaceId::as_uuid),
        i64::from(page.rows_max),
    )
    .fetch_all(pool)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Workspace::try_from).collect()
}

pub(super) async fn find_for_eviction(
    pool: &PgPool,
    query: WorkspaceEvictionQuery,
) -> Result<Vec<Workspace>, SandboxError> {
    let rows = workspace_rows!(
        "SELECT ",
        " FROM sandbox_workspaces AS workspace
         WHERE state IN ('ready', 'eviction_blocked') AND mode = $1 AND dirty = $2
           AND last_used_at_us < $3
           AND (pinned_until_us IS NULL OR pinned_until_us <= $4)
           AND NOT EXISTS (SELECT 1 FROM sandbox_runtimes AS runtime
                           WHERE runtime.workspace_id = workspace.id
                             AND runtime.state IN ('creating', 'running'))
         ORDER BY last_used_at_us, id
         LIMIT $5",
        query.mode.as_str(),
        query.dirty,
        stored_moment(query.used_before),
        stored_moment(query.now),
        i64::from(query.rows_max),
    )
    .fetch_all(pool)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Workspace::try_from).collect()
}
