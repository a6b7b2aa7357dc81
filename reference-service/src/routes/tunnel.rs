//! `GET /tunnel/workspace/…`: a workspace's record, and whether its socket is connected.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::App;
use super::path_ids::WorkspaceId;
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::tunnel;

/// The record; an unregistered workspace is answered too, without a repository.
pub(super) async fn workspace(
    State(app): State<App>,
    caller: Caller,
    WorkspaceId(id): WorkspaceId,
) -> Result<Json<Value>, Refusal> {
    let (repo_url, online) = look_up(&app, &caller, &id).await?;
    Ok(Json(
        json!({ "workspace_id": id, "repo_url": repo_url, "socket_online": online }),
    ))
}

/// Only whether the socket is connected.
pub(super) async fn socket_status(
    State(app): State<App>,
    caller: Caller,
    WorkspaceId(id): WorkspaceId,
) -> Result<Json<Value>, Refusal> {
    let (_, online) = look_up(&app, &caller, &id).await?;
    Ok(Json(json!({ "workspace_id": id, "online": online })))
}

/// GET the record, check whose it is, then ask whether the socket's key EXISTS.
async fn look_up(app: &App, caller: &Caller, id: &str) -> Result<(Option<String>, bool), Refusal> {
    if !tunnel::is_workspace_id(id) {
        return Err(Refusal::BadRequest(
            "workspace_id must be 16 lower-case hex digits".to_owned(),
        ));
    }
    let record = app.stores.tunnel.record(id).await?;
    // Somebody else's workspace is not distinguished from none: its existence is theirs to tell.
    if record
        .as_ref()
        .is_some_and(|record| record.user_id != caller.uid)
    {
        return Err(Refusal::NotFound("Workspace not found".to_owned()));
    }
    let online = app.stores.tunnel.socket_online(id).await?;
    Ok((record.and_then(|record| record.repo_url), online))
}
