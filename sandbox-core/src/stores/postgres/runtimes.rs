//! What the store's port asks of runtimes, in PostgreSQL.

use jiff::Timestamp;
use sqlx::types::Uuid;
use sqlx::{PgConnection, PgPool};

use super::super::admission::{RuntimesFound, admit_runtime};
use super::super::failure::{insert_failed, unavailable};
use super::super::runtime_row::RuntimeRow;
use super::super::stored_values::{StoredPrecondition, stored_moment, stored_token};
use super::super::workspace_row::read_workspace_state;
use super::super::write_check::{check_commands_token, check_write};
use super::workspaces;
use crate::domain::{
    FencingToken, Runtime, RuntimeId, SandboxError, Subject, WorkspaceId, WorkspaceState,
};
use crate::ports::store::{IdleRuntimeQuery, Page, Precondition};

const READING: &str = "reading a runtime";
const WRITING: &str = "writing a runtime";

/// A checked statement that gives [`RuntimeRow`]s: their columns stand between the two texts.
macro_rules! runtime_rows {
    ($before:tt, $after:tt $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            RuntimeRow,
            $before
                + "id, workspace_id, backend_kind, backend_runtime_id, image, state, "
                + "last_started_at_us, last_used_at_us, expires_at_us, version, token, created_at_us, "
                + "updated_at_us"
                + $after
            $(, $argument)*
        )
    };
}

pub(super) async fn insert(
    pool: &PgPool,
    runtime: &Runtime,
    runtimes_max: u32,
) -> Result<(), SandboxError> {
    let row = RuntimeRow::try_from(runtime)?;
    let mut transaction = pool.begin().await.map_err(unavailable(WRITING))?;
    sqlx::query_scalar!("SELECT counted FROM sandbox_limits WHERE counted = 'runtimes' FOR UPDATE")
        .fetch_one(&mut *transaction)
        .await
        .map_err(unavailable(WRITING))?;
    let workspace = hold_workspace(&mut transaction, runtime.workspace_id).await?;
    let found = sqlx::query!(
        r#"SELECT EXISTS (SELECT 1 FROM sandbox_runtimes
                          WHERE workspace_id = $1 AND state <> 'destroyed') AS "workspace_has_one!",
                  (SELECT count(*) FROM sandbox_runtimes WHERE state <> 'destroyed') AS "of_all!""#,
        row.workspace_id,
    )
    .fetch_one(&mut *transaction)
    .await
    .map_err(unavailable(READING))?;
    let found = RuntimesFound {
        workspace_has_one: found.workspace_has_one,
        of_all: found.of_all.unsigned_abs(),
    };
    admit_runtime(runtime, workspace, found, runtimes_max)?;
    sqlx::query!(
        "INSERT INTO sandbox_runtimes (
             id, workspace_id, backend_kind, backend_runtime_id, image, state, last_started_at_us,
             last_used_at_us, expires_at_us, version, token, created_at_us, updated_at_us
         )
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        row.id,
        row.workspace_id,
        row.backend_kind,
        row.backend_runtime_id,
        row.image,
        row.state,
        row.last_started_at_us,
        row.last_used_at_us,
        row.expires_at_us,
        row.version,
        row.token,
        row.created_at_us,
        row.updated_at_us,
    )
    .execute(&mut *transaction)
    .await
    .map_err(insert_failed(
        WRITING,
        Subject::Runtime(runtime.id),
        Subject::RuntimeOf(runtime.workspace_id),
    ))?;
    transaction.commit().await.map_err(unavailable(WRITING))
}

/// The state of a live workspace, which nobody changes until the transaction's end.
async fn hold_workspace(
    connection: &mut PgConnection,
    id: WorkspaceId,
) -> Result<Option<WorkspaceState>, SandboxError> {
    let state = sqlx::query_scalar!(
        "SELECT state FROM sandbox_workspaces WHERE id = $1 AND state <> 'deleted' FOR SHARE",
        id.as_uuid(),
    )
    .fetch_optional(connection)
    .await
    .map_err(unavailable("reading a workspace"))?;
    read_workspace_state(id, state)
}

pub(super) async fn find(pool: &PgPool, id: RuntimeId) -> Result<Option<Runtime>, SandboxError> {
    let row = runtime_rows!(
        "SELECT ",
        " FROM sandbox_runtimes WHERE id = $1 AND state <> 'destroyed'",
        id.as_uuid(),
    )
    .fetch_optional(pool)
    .await
    .map_err(unavailable(READING))?;
    row.map(Runtime::try_from).transpose()
}

pub(super) async fn find_of_workspace(
    pool: &PgPool,
    workspace: WorkspaceId,
) -> Result<Option<Runtime>, SandboxError> {
    let row = runtime_rows!(
        "SELECT ",
        " FROM sandbox_runtimes WHERE workspace_id = $1 AND state <> 'destroyed'",
        workspace.as_uuid(),
    )
    .fetch_optional(pool)
    .await
    .map_err(unavailable(READING))?;
    row.map(Runtime::try_from).transpose()
}

pub(super) async fn update(
    pool: &PgPool,
    runtime: &Runtime,
    when: Precondition,
) -> Result<Runtime, SandboxError> {
    let row = RuntimeRow::try_from(runtime)?;
    let stored_when = StoredPrecondition::try_from(&when)?;
    loop {
        let written = runtime_rows!(
            "UPDATE sandbox_runtimes
             SET backend_runtime_id = $2, state = $3, last_started_at_us = $4,
                 last_used_at_us = greatest(last_used_at_us, $5),
                 expires_at_us = greatest(expires_at_us, $6), updated_at_us = $7,
                 version = version + 1, token = $8
             WHERE id = $1 AND state <> 'destroyed' AND token <= $8 AND version = $9
               AND ($10::bigint IS NULL OR last_used_at_us <= $10)
             RETURNING ",
            "",
            row.id,
            row.backend_runtime_id,
            row.state,
            row.last_started_at_us,
            row.last_used_at_us,
            row.expires_at_us,
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
        let subject = Subject::Runtime(runtime.id);
        let Some(found) = find(pool, runtime.id).await? else {
            return Err(SandboxError::NotFound(subject));
        };
        // If nothing refuses it now, it has only now got the version that is expected.
        check_write(subject, (&found).into(), &when)?;
    }
}

pub(super) async fn touch(
    pool: &PgPool,
    id: RuntimeId,
    commands_token: Option<FencingToken>,
    used_at: Timestamp,
    expires_at: Option<Timestamp>,
) -> Result<(), SandboxError> {
    let stored = stored_token(commands_token)?;
    loop {
        let touched = sqlx::query!(
            "UPDATE sandbox_runtimes
             SET last_used_at_us = greatest(last_used_at_us, $2),
                 expires_at_us = greatest(expires_at_us, $3)
             WHERE id = $1 AND state <> 'destroyed'
               AND ($4::bigint IS NULL
                    OR EXISTS (SELECT 1 FROM sandbox_workspaces AS workspace
                               WHERE workspace.id = sandbox_runtimes.workspace_id
                                 AND workspace.commands_token <= $4))",
            id.as_uuid(),
            stored_moment(used_at),
            expires_at.map(stored_moment),
            stored,
        )
        .execute(pool)
        .await
        .map_err(unavailable(WRITING))?;
        if touched.rows_affected() > 0 {
            return Ok(());
        }
        let subject = Subject::Runtime(id);
        let Some(found) = find(pool, id).await? else {
            return Err(SandboxError::NotFound(subject));
        };
        let newest = workspaces::find_commands_token(pool, found.workspace_id).await?;
        // It never gets older, so whoever was refused once is so again.
        check_commands_token(subject, newest, commands_token)?;
    }
}

pub(super) async fn find_idle(
    pool: &PgPool,
    query: IdleRuntimeQuery,
) -> Result<Vec<Runtime>, SandboxError> {
    let rows = runtime_rows!(
        "SELECT ",
        " FROM sandbox_runtimes
         WHERE state = $1 AND state <> 'destroyed' AND last_used_at_us < $2
           AND (expires_at_us IS NULL OR expires_at_us <= $3)
         ORDER BY last_used_at_us, id
         LIMIT $4",
        query.state.as_str(),
        stored_moment(query.used_before),
        stored_moment(query.now),
        i64::from(query.rows_max),
    )
    .fetch_all(pool)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Runtime::try_from).collect()
}

pub(super) async fn find_orphans(
    pool: &PgPool,
    rows_max: u32,
) -> Result<Vec<Runtime>, SandboxError> {
    let rows = runtime_rows!(
        "SELECT ",
        " FROM sandbox_runtimes AS runtime
         WHERE state <> 'destroyed'
           AND NOT EXISTS (SELECT 1 FROM sandbox_workspaces AS workspace
                           WHERE workspace.id = runtime.workspace_id
                             AND workspace.state <> 'deleted')
         ORDER BY id
         LIMIT $1",
        i64::from(rows_max),
    )
    .fetch_all(pool)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Runtime::try_from).collect()
}

pub(super) async fn list(
    pool: &PgPool,
    page: Page<RuntimeId>,
) -> Result<Vec<Runtime>, SandboxError> {
    let rows = runtime_rows!(
        "SELECT ",
        " FROM sandbox_runtimes WHERE id > $1 AND state <> 'destroyed' ORDER BY id LIMIT $2",
        page.after.map_or(Uuid::nil(), RuntimeId::as_uuid),
        i64::from(page.rows_max),
    )
    .fetch_all(pool)
    .await
    .map_err(unavailable(READING))?;
    rows.into_iter().map(Runtime::try_from).collect()
}
