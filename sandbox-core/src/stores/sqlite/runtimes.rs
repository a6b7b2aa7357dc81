//! What the store's port asks of runtimes, in SQLite.

use jiff::Timestamp;
use sqlx::types::Uuid;

use super::super::admission::{RuntimesFound, admit_runtime};
use super::super::failure::{insert_failed, unavailable};
use super::super::runtime_row::RuntimeRow;
use super::super::stored_values::{StoredPrecondition, stored_moment, stored_token};
use super::super::write_check::{check_commands_token, check_write};
use super::{SqliteStore, workspaces};
use crate::domain::{FencingToken, Runtime, RuntimeId, SandboxError, Subject, WorkspaceId};
use crate::ports::store::{IdleRuntimeQuery, Page, Precondition};

const READING: &str = "reading a runtime";
const WRITING: &str = "writing a runtime";

/// The columns of a [`RuntimeRow`].
macro_rules! runtime_columns {
    () => {
        "id, workspace_id, backend_kind, backend_runtime_id, image, state, last_started_at_us, \
         last_used_at_us, expires_at_us, version, token, created_at_us, updated_at_us"
    };
}

pub(super) async fn insert(
    store: &SqliteStore,
    runtime: &Runtime,
    runtimes_max: u32,
) -> Result<(), SandboxError> {
    let row = RuntimeRow::try_from(runtime)?;
    let mut transaction = store.begin(WRITING).await?;
    let workspace = workspaces::find_state(&mut *transaction, runtime.workspace_id).await?;
    let (workspace_has_one, of_all) = sqlx::query_as::<_, (bool, i64)>(
        "SELECT EXISTS (SELECT 1 FROM sandbox_runtimes
                        WHERE workspace_id = ?1 AND state <> 'destroyed'),
                (SELECT count(*) FROM sandbox_runtimes WHERE state <> 'destroyed')",
    )
    .bind(row.workspace_id)
    .fetch_one(&mut *transaction)
    .await
    .map_err(unavailable(READING))?;
    let found = RuntimesFound {
        workspace_has_one,
        of_all: of_all.unsigned_abs(),
    };
    admit_runtime(runtime, workspace, found, runtimes_max)?;
    sqlx::query(concat!(
        "INSERT INTO sandbox_runtimes (",
        runtime_columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
    ))
    .bind(row.id)
    .bind(row.workspace_id)
    .bind(row.backend_kind)
    .bind(row.backend_runtime_id)
    .bind(row.image)
    .bind(row.state)
    .bind(row.last_started_at_us)
    .bind(row.last_used_at_us)
    .bind(row.expires_at_us)
    .bind(row.version)
    .bind(row.token)
    .bind(row.created_at_us)
    .bind(row.updated_at_us)
    .execute(&mut *transaction)
    .await
    .map_err(insert_failed(
        WRITING,
        Subject::Runtime(runtime.id),
        Subject::RuntimeOf(runtime.workspace_id),
    ))?;
    transaction.commit().await.map_err(unavailable(WRITING))
}

pub(super) async fn find(
    store: &SqliteStore,
    id: RuntimeId,
) -> Result<Option<Runtime>, SandboxError> {
    let row = sqlx::query_as::<_, RuntimeRow>(concat!(
        "SELECT ",
        runtime_columns!(),
        " FROM sandbox_runtimes WHERE id = ?1 AND state <> 'destroyed'"
    ))
    .bind(id.as_uuid())
    .fetch_optional(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    row.map(Runtime::try_from).transpose()
}

pub(super) async fn find_of_workspace(
    store: &SqliteStore,
    workspace: WorkspaceId,
) -> Result<Option<Runtime>, SandboxError> {
    let row = sqlx::query_as::<_, RuntimeRow>(concat!(
        "SELECT ",
        runtime_columns!(),
        " FROM sandbox_runtimes WHERE workspace_id = ?1 AND state <> 'destroyed'"
    ))
    .bind(workspace.as_uuid())
    .fetch_optional(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    row.map(Runtime::try_from).transpose()
}

pub(super) async fn update(
    store: &SqliteStore,
    runtime: &Runtime,
    when: Precondition,
) -> Result<Runtime, SandboxError> {
    let row = RuntimeRow::try_from(runtime)?;
    let stored_when = StoredPrecondition::try_from(&when)?;
    loop {
        // SQLite's `max` is NULL when either side is.
        let mut written = sqlx::query_as::<_, RuntimeRow>(concat!(
            "UPDATE sandbox_runtimes
             SET backend_runtime_id = ?2, state = ?3, last_started_at_us = ?4,
                 last_used_at_us = max(last_used_at_us, ?5),
                 expires_at_us = max(coalesce(expires_at_us, ?6), coalesce(?6, expires_at_us)),
                 updated_at_us = ?7, version = version + 1, token = ?8
             WHERE id = ?1 AND state <> 'destroyed' AND token <= ?8 AND version = ?9
               AND (?10 IS NULL OR last_used_at_us <= ?10)
             RETURNING ",
            runtime_columns!()
        ))
        .bind(row.id)
        .bind(&row.backend_runtime_id)
        .bind(&row.state)
        .bind(row.last_started_at_us)
        .bind(row.last_used_at_us)
        .bind(row.expires_at_us)
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
        let subject = Subject::Runtime(runtime.id);
        let Some(found) = find(store, runtime.id).await? else {
            return Err(SandboxError::NotFound(subject));
        };
        // If nothing refuses it now, it has only now got the version that is expected.
        check_write(subject, (&found).into(), &when)?;
    }
}

pub(super) async fn touch(
    store: &SqliteStore,
    id: RuntimeId,
    commands_token: Option<FencingToken>,
    used_at: Timestamp,
    expires_at: Option<Timestamp>,
) -> Result<(), SandboxError> {
    let stored = stored_token(commands_token)?;
    loop {
        let touched = sqlx::query(
            "UPDATE sandbox_runtimes
             SET last_used_at_us = max(last_used_at_us, ?2),
                 expires_at_us = max(coalesce(expires_at_us, ?3), coalesce(?3, expires_at_us))
             WHERE id = ?1 AND state <> 'destroyed'
               AND (?4 IS NULL
                    OR EXISTS (SELECT 1 FROM sandbox_workspaces AS workspace
                               WHERE workspace.id = sandbox_runtimes.workspace_id
                                 AND workspace.commands_token <= ?4))",
        )
        .bind(id.as_uuid())
        .bind(stored_moment(used_at))
        .bind(expires_at.map(stored_moment))
        .bind(stored)
        .execute(&store.writer)
        .await
        .map_err(unavailable(WRITING))?;
        if touched.rows_affected() > 0 {
            return Ok(());
        }
        let subject = Subject::Runtime(id);
        let Some(found) = find(store, id).await? else {
            return Err(SandboxError::NotFound(subject));
        };
        let newest = workspaces::find_commands_token(&store.readers, found.workspace_id).await?;
        // It never gets older, so whoever was refused once is so again.
        check_commands_token(subject, newest, commands_token)?;
    }
}

pub(super) async fn find_idle(
    store: &SqliteStore,
    query: IdleRuntimeQuery,
) -> Result<Vec<Runtime>, SandboxError> {
    let rows = sqlx::query_as::<_, RuntimeRow>(concat!(
        "SELECT ",
        runtime_columns!(),
        " FROM sandbox_runtimes
         WHERE state = ?1 AND state <> 'destroyed' AND last_used_at_us < ?2
           AND (expires_at_us IS NULL OR expires_at_us <= ?3)
         ORDER BY last_used_at_us, id
         LIMIT ?4"
    ))
    .bind(query.state.as_str())
    .bind(stored_moment(query.used_before))
    .bind(stored_moment(query.now))
    .bind(i64::from(query.rows_max))
    .fetch_all(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Runtime::try_from).collect()
}

pub(super) async fn find_orphans(
    store: &SqliteStore,
    rows_max: u32,
) -> Result<Vec<Runtime>, SandboxError> {
    let rows = sqlx::query_as::<_, RuntimeRow>(concat!(
        "SELECT ",
        runtime_columns!(),
        " FROM sandbox_runtimes AS runtime
         WHERE state <> 'destroyed'
           AND NOT EXISTS (SELECT 1 FROM sandbox_workspaces AS workspace
                           WHERE workspace.id = runtime.workspace_id
                             AND workspace.state <> 'deleted')
         ORDER BY id
         LIMIT ?1"
    ))
    .bind(i64::from(rows_max))
    .fetch_all(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Runtime::try_from).collect()
}

pub(super) async fn list(
    store: &SqliteStore,
    page: Page<RuntimeId>,
) -> Result<Vec<Runtime>, SandboxError> {
    let rows = sqlx::query_as::<_, RuntimeRow>(concat!(
        "SELECT ",
        runtime_columns!(),
        " FROM sandbox_runtimes WHERE id > ?1 AND state <> 'destroyed' ORDER BY id LIMIT ?2"
    ))
    .bind(page.after.map_or(Uuid::nil(), RuntimeId::as_uuid))
    .bind(i64::from(page.rows_max))
    .fetch_all(&store.readers)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Runtime::try_from).collect()
}
