//! What a conversation's agent is doing, and making it stop: `GET …/active-session`,
//! `GET …/task-status`, and `POST …/stop` in v1 and v2.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query as RawQuery, State};
use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::App;
use super::path_ids::ConversationId;
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::run::RunStatus;
use crate::sessions::{self, Stopped};
use crate::stores::access::Access;
use crate::to_its_end::ToItsEnd;
use crate::validation::{FieldError, Query};

/// The session that a client would go on watching.
pub(super) async fn active_session(
    State(app): State<App>,
    caller: Caller,
    ConversationId(conversation_id): ConversationId,
) -> Result<Json<Value>, Refusal> {
    app.open_session().await;
    let none = "No active session found";
    refuse_without_access(&app, &caller, &conversation_id, none).await?;
    let session = app.stores.streams.latest_session(&conversation_id).await?;
    let Some(session) = session else {
        return Err(Refusal::NoRun {
            error: none,
            conversation_id,
        });
    };
    let status = match session.status {
        Some(RunStatus::Queued | RunStatus::Running) => "active",
        Some(RunStatus::Completed) => "completed",
        Some(RunStatus::Error | RunStatus::Cancelled) | None => "idle",
    };
    Ok(Json(json!({
        "sessionId": session.run.run_id,
        "status": status,
        "cursor": session.cursor,
        "conversationId": conversation_id,
        "startedAt": session.started_ms,
        "lastActivity": session.active_ms,
    })))
}

/// Whether the conversation's agent is at work.
pub(super) async fn task_status(
    State(app): State<App>,
    caller: Caller,
    ConversationId(conversation_id): ConversationId,
) -> Result<Json<Value>, Refusal> {
    app.open_session().await;
    let none = "No background task found";
    refuse_without_access(&app, &caller, &conversation_id, none).await?;
    let task = app.stores.streams.task_status(&conversation_id).await?;
    let Some(task) = task else {
        return Err(Refusal::NoRun {
            error: none,
            conversation_id,
        });
    };
    Ok(Json(json!({
        "isActive": task.is_active,
        "sessionId": task.run.run_id,
        "estimatedCompletion": task.completion_ms,
        "conversationId": conversation_id,
    })))
}

/// Stops a run, and saves what it has said.
///
/// The original asks nobody whether the caller may; a partial answer is saved in the caller's
/// own conversations only. A client that leaves has stopped its run all the same.
pub(super) async fn stop(
    State(app): State<App>,
    caller: Caller,
    ConversationId(conversation_id): ConversationId,
    RawQuery(query): RawQuery<HashMap<String, String>>,
) -> Result<Json<Value>, Refusal> {
    let session_id = session_to_stop(query)?;
    app.open_session().await;
    stop_in_session(app, caller, conversation_id, session_id).await
}

/// The same for who has a key.
pub(super) async fn stop_by_key(
    State(app): State<App>,
    headers: HeaderMap,
    ConversationId(conversation_id): ConversationId,
    RawQuery(query): RawQuery<HashMap<String, String>>,
) -> Result<Json<Value>, Refusal> {
    let caller = app.caller_by_key(&headers).await?;
    let session_id = session_to_stop(query)?;
    stop_in_session(app, caller, conversation_id, session_id).await
}

/// The session that is named, if one is.
fn session_to_stop(query: HashMap<String, String>) -> Result<Option<String>, Vec<FieldError>> {
    let mut query = Query::new(query);
    let session_id = query.optional_text("session_id");
    query.finish()?;
    Ok(session_id.filter(|id| !id.is_empty()))
}

async fn stop_in_session(
    app: App,
    caller: Caller,
    conversation_id: String,
    session_id: Option<String>,
) -> Result<Json<Value>, Refusal> {
    let stopped = ToItsEnd::new(async move {
        let session_id = session_id.as_deref();
        sessions::stop(&app.stores, &caller.uid, &conversation_id, session_id).await
    })
    .await?;
    Ok(Json(match stopped {
        Stopped::NoSession => json!({
            "status": "success",
            "message": "No active session to stop",
        }),
        Stopped::Run { message_id } => json!({
            "status": "success",
            "message": "Generation stopped",
            "saved_partial": message_id.is_some(),
            "message_id": message_id,
        }),
    }))
}

/// The access check of every route that shows a run. `none` is what a conversation that isn't
/// there is said to have none of.
pub(super) async fn refuse_without_access(
    app: &App,
    caller: &Caller,
    conversation_id: &str,
    none: &'static str,
) -> Result<(), Refusal> {
    let store = &app.stores.access;
    match store.access(&caller.uid, conversation_id).await? {
        Access::Allowed { messages } => {
            tracing::debug!(conversation_id, messages, "access allowed");
            Ok(())
        }
        Access::Denied => Err(Refusal::Forbidden(
            "Access denied to conversation".to_owned(),
        )),
        Access::Missing => Err(Refusal::NoRun {
            error: none,
            conversation_id: conversation_id.to_owned(),
        }),
    }
}
