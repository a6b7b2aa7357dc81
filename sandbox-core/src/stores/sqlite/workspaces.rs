//! Workspaces in SQLite.

use jiff::Timestamp;
use sqlx::SqliteExecutor;
use sqlx::types::Uuid;

use super::super::admission::{WorkspacesFound, admit_workspace};
use super::super::failure::{damaged, insert_failed, unavailable};
use super::super::stored_values::{
    StoredPrecondition, read_number, stored_moment, stored_number, stored_token,
};
use super::super::workspace_row::{KeyColumns, WorkspaceRow, read_workspace_state};
use super::super::write_check::{check_commands_token, check_version, check_write};
use super::{SqliteStore, caches};
use crate::domain::{
    CacheId, FencingToken, SandboxError, Subject, Workspace, WorkspaceId, WorkspaceKey,
    WorkspaceState,
};
use crate::ports::store::{Page, Precondition, WorkspaceEvictionQuery, WorkspaceQuota};

const READING: &str = "reading a workspace";
const WRITING: &str = "writing a workspace";

/// The columns of a [`WorkspaceRow`].
macro_rules! workspace_columns {
    () => {
        "id, repo_cache_id, project_id, user_id, mode, conversation_id, task_id, base_ref, \
         branch_name, local_path, state, dirty, pinned_until_us, last_used_at_us, size_bytes, \
         version, token, commands_token, created_at_us, updated_at_us"
    };
}

/// That a row has the key which is bound as the seven parts of [`KeyColumns`].
macro_rules! has_key {
    () => {
        "user_id = ?1 AND project_id = ?2 AND mode = ?3 AND state <> 'deleted'
         AND (base_ref = ?4 OR conversation_id = ?5 OR task_id = ?7
              OR (conversation_id IS NULL AND branch_name = ?6))"
    };
}

pub(super) async fn insert(
    store: &SqliteStore,
    workspace: &Workspace,
    quota: WorkspaceQuota,
) -> Result<(), SandboxError> {
    let row = WorkspaceRow::try_from(workspace)?;
    let mut transaction = store.begin(WRITING).await?;
    let cache = caches::find_state(&mut *transaction, workspace.repo_cache_id).await?;
    let found = count(&mut *transaction, &workspace.key).await?;
    admit_workspace(workspace, cache, found, quota)?;
    sqlx::query(concat!(
        "INSERT INTO sandbox_workspaces (",
        workspace_columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
         ?19, ?20)"
    ))
    .bind(row.id)
    .bind(row.repo_cache_id)
    .bind(row.project_id)
    .bind(row.user_id)
    .bind(row.mode)
    .bind(row.conversation_id)
    .bind(row.task_id)
    .bind(row.base_ref)
    .bind(row.branch_name)
    .bind(row.local_path)
    .bind(row.state)
    .bind(row.dirty)
    .bind(row.pinned_until_us)
    .bind(row.last_used_at_us)
    .bind(row.size_bytes)
    .bind(row.version)
    .bind(row.token)
    .bind(row.commands_token)
    .bind(row.created_at_us)
    .bind(row.updated_at_us)
    .execute(&mut *transaction)
    .await
    .map_err(insert_failed(
        WRITING,
        Subject::Workspace(workspace.id),
        Subject::WorkspaceKey(Box::new(workspace.key.clone())),
    ))?;
    transaction.commit().await.map_err(unavailable(WRITING))
}

async fn count(
    executor: impl SqliteExecutor<'_>,
    key: &WorkspaceKey,
) -> Result<WorkspacesFound, SandboxError> {
    let columns = KeyColumns::of(key);
    let (key_is_taken, of_user, of_all) = sqlx::query_as::<_, (bool, i64, i64)>(concat!(
        "SELECT EXISTS (SELECT 1 FROM sandbox_workspaces WHERE ",
        has_key!(),
        "), (SELECT count(*) FROM sandbox_workspaces WHERE user_id = ?1 AND state <> 'deleted'),
         (SELECT count(*) FROM sandbox_workspaces WHERE state <> 'deleted')"
    ))
    .bind(columns.user_id)
    .bind(columns.project_id)
    .bind(columns.mode)
    .bind(columns.base_ref)
    .bind(columns.conversation_id)
    .bind(columns.branch_name)
    .bind(columns.task_id)
    .fetch_one(executor)
    .await
    .map_err(unavailable(READING))?;
    Ok(WorkspacesFound {
        key_is_taken,
        of_user: of_user.unsigned_abs(),
        of_all: of_all.unsigned_abs(),
    })
}

pub(super) async fn find(
    executor: impl SqliteExecutor<'_>,
    id: WorkspaceId,
) -> Result<Option<Workspace>, SandboxError> {
    let row = sqlx::query_as::<_, WorkspaceRow>(concat!(
        "SELECT ",
        workspace_columns!(),
        " FROM sandbox_workspaces WHERE id = ?1 AND state <> 'deleted'"
    ))
    .bind(id.as_uuid())
    .fetch_optional(executor)
    .await
    .map_err(unavailable(READING))?;
    row.map(Workspace::try_from).transpose()
}

/// The state of a live workspace.
pub(super) async fn find_state(
    executor: impl SqliteExecutor<'_>,
    id: WorkspaceId,
) -> Result<Option<WorkspaceState>, SandboxError> {
    let state = sqlx::query_scalar::<_, String>(
        "SELECT state FROM sandbox_workspaces WHERE id = ?1 AND state <> 'deleted'",
    )
    .bind(id.as_uuid())
    .fetch_optional(executor)
    .await
    .map_err(unavailable(READING))?;
    read_workspace_state(id, state)
}

pub(super) async fn find_by_key(
    store: &SqliteStore,
    key: &WorkspaceKey,
) -> Result<Option<Workspace>, SandboxError> {
    let columns = KeyColumns::of(key);
    let row = sqlx::query_as::<_, WorkspaceRow>(concat!(
        "SELECT ",
        workspace_columns!(),
        " FROM sandbox_workspaces WHERE ",
        has_key!()
    ))
    .bind(columns.user_id)
    .bind(columns.project_id)
    .bind(columns.mode)
    .bind(columns.base_ref)
    .bind(columns.conversation_id)
    .bind(columns.branch_name)
    .bind(columns.task_id)
    .fetch_optional(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    row.map(Workspace::try_from).transpose()
}

/// Writes a workspace if its precondition holds.
pub(super) async fn write(
    executor: impl SqliteExecutor<'_>,
    row: &WorkspaceRow,
    when: StoredPrecondition,
) -> Result<Option<Workspace>, SandboxError> {
    let mut written = sqlx::query_as::<_, WorkspaceRow>(concat!(
        "UPDATE sandbox_workspaces
         SET local_path = ?2, state = ?3, dirty = ?4, pinned_until_us = ?5,
             last_used_at_us = max(last_used_at_us, ?6), size_bytes = ?7, updated_at_us = ?8,
             version = version + 1, token = ?9
         WHERE id = ?1 AND state <> 'deleted' AND token <= ?9 AND version = ?10
           AND (?11 IS NULL OR last_used_at_us <= ?11)
         RETURNING ",
        workspace_columns!()
    ))
    .bind(row.id)
    .bind(&row.local_path)
    .bind(&row.state)
    .bind(row.dirty)
    .bind(row.pinned_until_us)
    .bind(row.last_used_at_us)
    .bind(row.size_bytes)
    .bind(row.updated_at_us)
    .bind(when.token)
    .bind(when.version)
    .bind(when.unused_since_us)
    .fetch_all(executor)
    .await
    .map_err(unavailable(WRITING))?;
    written.pop().map(Workspace::try_from).transpose()
}

pub(super) async fn update(
    store: &SqliteStore,
    workspace: &Workspace,
    when: Precondition,
) -> Result<Workspace, SandboxError> {
    let row = WorkspaceRow::try_from(workspace)?;
    let stored_when = StoredPrecondition::try_from(&when)?;
    loop {
        if let Some(written) = write(&store.writer, &row, stored_when).await? {
            return Ok(written);
        }
        let subject = Subject::Workspace(workspace.id);
        let Some(found) = find(&store.readers, workspace.id).await? else {
            return Err(SandboxError::NotFound(subject));
        };
        // If nothing refuses it now, it has only now got the version that is expected.
        check_write(subject, (&found).into(), &when)?;
    }
}

pub(super) async fn touch(
    store: &SqliteStore,
    id: WorkspaceId,
    commands_token: Option<FencingToken>,
    used_at: Timestamp,
) -> Result<(), SandboxError> {
    let stored = stored_token(commands_token)?;
    loop {
        let touched = sqlx::query(
            "UPDATE sandbox_workspaces SET last_used_at_us = max(last_used_at_us, ?2)
             WHERE id = ?1 AND state <> 'deleted' AND (?3 IS NULL OR commands_token <= ?3)",
        )
        .bind(id.as_uuid())
        .bind(stored_moment(used_at))
        .bind(stored)
        .execute(&store.writer)
        .await
        .map_err(unavailable(WRITING))?;
        if touched.rows_affected() > 0 {
            return Ok(());
        }
        find_for_commands(store, id, commands_token).await?;
    }
}

/// A workspace that somebody may say something of under the lock on its commands, or why not. A row
/// never gets an older token, so whoever was refused once is so again.
async fn find_for_commands(
    store: &SqliteStore,
    id: WorkspaceId,
    token: Option<FencingToken>,
) -> Result<Workspace, SandboxError> {
    let subject = Subject::Workspace(id);
    match find(&store.readers, id).await? {
        Some(found) => {
            check_commands_token(subject, found.commands_token, token)?;
            Ok(found)
        }
        None => Err(SandboxError::NotFound(subject)),
    }
}

/// The newest token under which somebody announced to write in a workspace, be it live or not.
pub(super) async fn find_commands_token(
    executor: impl SqliteExecutor<'_>,
    id: WorkspaceId,
) -> Result<FencingToken, SandboxError> {
    let stored =
        sqlx::query_scalar::<_, i64>("SELECT commands_token FROM sandbox_workspaces WHERE id = ?1")
            .bind(id.as_uuid())
            .fetch_optional(executor)
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
    store: &SqliteStore,
    id: WorkspaceId,
    commands_token: FencingToken,
    used_at: Timestamp,
) -> Result<u64, SandboxError> {
    let stored = stored_number("fencing token", commands_token.get())?;
    loop {
        let mut versions = sqlx::query_scalar::<_, i64>(
            "UPDATE sandbox_workspaces
             SET dirty = 1, version = version + 1, commands_token = ?3, updated_at_us = ?2,
                 last_used_at_us = max(last_used_at_us, ?2)
             WHERE id = ?1 AND state <> 'deleted' AND commands_token <= ?3
             RETURNING version",
        )
        .bind(id.as_uuid())
        .bind(stored_moment(used_at))
        .bind(stored)
        .fetch_all(&store.writer)
        .await
        .map_err(unavailable(WRITING))?;
        if let Some(version) = versions.pop() {
            return Ok(read_number("version", version)?);
        }
        find_for_commands(store, id, Some(commands_token)).await?;
    }
}

pub(super) async fn mark_clean(
    store: &SqliteStore,
    id: WorkspaceId,
    version: u64,
    commands_token: FencingToken,
    now: Timestamp,
) -> Result<u64, SandboxError> {
    let stored_version = stored_number("version", version)?;
    let stored = stored_number("fencing token", commands_token.get())?;
    loop {
        let mut versions = sqlx::query_scalar::<_, i64>(
            "UPDATE sandbox_workspaces
             SET dirty = 0, version = version + 1, updated_at_us = ?3
             WHERE id = ?1 AND state <> 'deleted' AND version = ?2 AND commands_token <= ?4
             RETURNING version",
        )
        .bind(id.as_uuid())
        .bind(stored_version)
        .bind(stored_moment(now))
        .bind(stored)
        .fetch_all(&store.writer)
        .await
        .map_err(unavailable(WRITING))?;
        if let Some(written) = versions.pop() {
            return Ok(read_number("version", written)?);
        }
        let found = find_for_commands(store, id, Some(commands_token)).await?;
        // If this is the version, it has only now become that.
        check_version(Subject::Workspace(id), version, found.version)?;
    }
}

pub(super) async fn list_of_cache(
    store: &SqliteStore,
    cache: CacheId,
    page: Page<WorkspaceId>,
) -> Result<Vec<Workspace>, SandboxError> {
    let rows = sqlx::query_as::<_, WorkspaceRow>(concat!(
        "SELECT ",
        workspace_columns!(),
        " FROM sandbox_workspaces
         WHERE repo_cache_id = ?1 AND id > ?2 AND state <> 'deleted'
         ORDER BY id
         LIMIT ?3"
    ))
    .bind(cache.as_uuid())
    .bind(page.after.map_or(Uuid::nil(), WorkspaceId::as_uuid))
    .bind(i64::from(page.rows_max))
    .fetch_all(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Workspace::try_from).collect()
}

pub(super) async fn list(
    store: &SqliteStore,
    page: Page<WorkspaceId>,
) -> Result<Vec<Workspace>, SandboxError> {
    let rows = sqlx::query_as::<_, WorkspaceRow>(concat!(
        "SELECT ",
        workspace_columns!(),
        " FROM sandbox_workspaces WHERE id > ?1 AND state <> 'deleted' ORDER BY id LIMIT ?2"
    ))
    .bind(page.after.map_or(Uuid::nil(), WorkspaceId::as_uuid))
    .bind(i64::from(page.rows_max))
    .fetch_all(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Workspace::try_from).collect()
}

pub(super) async fn find_for_eviction(
    store: &SqliteStore,
    query: WorkspaceEvictionQuery,
) -> Result<Vec<Workspace>, SandboxError> {
    let rows = sqlx::query_as::<_, WorkspaceRow>(concat!(
        "SELECT ",
        workspace_columns!(),
        " FROM sandbox_workspaces AS workspace
         WHERE state IN ('ready', 'eviction_blocked') AND mode = ?1 AND dirty = ?2
           AND last_used_at_us < ?3
           AND (pinned_until_us IS NULL OR pinned_until_us <= ?4)
           AND NOT EXISTS (SELECT 1 FROM sandbox_runtimes AS runtime
                           WHERE runtime.workspace_id = workspace.id
                             AND runtime.state IN ('creating', 'running')
                             AND runtime.state <> 'destroyed')
         ORDER BY last_used_at_us, id
         LIMIT ?5"
    ))
    .bind(query.mode.as_str())
    .bind(query.dirty)
    .bind(stored_moment(query.used_before))
    .bind(stored_moment(query.now))
    .bind(i64::from(query.rows_max))
    .fetch_all(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Workspace::try_from).collect()
}
