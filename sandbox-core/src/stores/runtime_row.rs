//! A runtime as a row of a database.

use sqlx::types::Uuid;

use super::failure::damaged;
use super::stored_values::{read_moment, read_number, stored_moment, stored_number};
use crate::domain::{
    BackendKind, BackendRuntimeId, FencingToken, ImageName, Invalid, Runtime, RuntimeId,
    RuntimeState, SandboxError, Subject, WorkspaceId,
};

/// The columns of `sandbox_runtimes`.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct RuntimeRow {
    pub(super) id: Uuid,
    pub(super) workspace_id: Uuid,
    pub(super) backend_kind: String,
    pub(super) backend_runtime_id: Option<String>,
    pub(super) image: String,
    pub(super) state: String,
    pub(super) last_started_at_us: Option<i64>,
    pub(super) last_used_at_us: i64,
    pub(super) expires_at_us: Option<i64>,
    pub(super) version: i64,
    pub(super) token: i64,
    pub(super) created_at_us: i64,
    pub(super) updated_at_us: i64,
}

impl TryFrom<&Runtime> for RuntimeRow {
    type Error = Invalid;

    fn try_from(runtime: &Runtime) -> Result<Self, Invalid> {
        let backend_runtime_id = runtime.backend_runtime_id.as_ref();
        Ok(Self {
            id: runtime.id.as_uuid(),
            workspace_id: runtime.workspace_id.as_uuid(),
            backend_kind: runtime.backend_kind.as_str().to_owned(),
            backend_runtime_id: backend_runtime_id.map(|id| id.as_str().to_owned()),
            image: runtime.image.as_str().to_owned(),
            state: runtime.state.as_str().to_owned(),
            last_started_at_us: runtime.last_started_at.map(stored_moment),
            last_used_at_us: stored_moment(runtime.last_used_at),
            expires_at_us: runtime.expires_at.map(stored_moment),
            version: stored_number("version", runtime.version)?,
            token: stored_number("fencing token", runtime.token.get())?,
            created_at_us: stored_moment(runtime.created_at),
            updated_at_us: stored_moment(runtime.updated_at),
        })
    }
}

impl TryFrom<RuntimeRow> for Runtime {
    type Error = SandboxError;

    fn try_from(row: RuntimeRow) -> Result<Self, SandboxError> {
        let id = RuntimeId::from_uuid(row.id);
        read(&row, id).map_err(damaged(Subject::Runtime(id)))
    }
}

fn read(row: &RuntimeRow, id: RuntimeId) -> Result<Runtime, Invalid> {
    let backend_runtime_id = row.backend_runtime_id.as_deref();
    Ok(Runtime {
        id,
        workspace_id: WorkspaceId::from_uuid(row.workspace_id),
        backend_kind: BackendKind::parse(&row.backend_kind)?,
        backend_runtime_id: backend_runtime_id
            .map(BackendRuntimeId::parse)
            .transpose()?,
        image: ImageName::parse(&row.image)?,
        state: RuntimeState::from_stored(&row.state)?,
        last_started_at: row.last_started_at_us.map(read_moment).transpose()?,
        last_used_at: read_moment(row.last_used_at_us)?,
        expires_at: row.expires_at_us.map(read_moment).transpose()?,
        version: read_number("version", row.version)?,
        token: FencingToken::new(read_number("fencing token", row.token)?),
        created_at: read_moment(row.created_at_us)?,
        updated_at: read_moment(row.updated_at_us)?,
    })
}
