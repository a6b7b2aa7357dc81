//! The routes of the API, one file per group.

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router, middleware};
use serde_json::json;

use crate::refusal::Refusal;
use crate::request_id;
use crate::run_stream::RunStreams;
use crate::stores::Stores;

pub mod auth;
pub mod conversations;
pub mod github;
mod json_text;
pub mod messages;
mod path_ids;
pub mod runs;
pub mod sessions;
pub mod sharing;
pub mod tunnel;
pub mod usage;

/// Largest body that is read.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What the handlers share.
#[derive(Clone)]
pub struct App {
    /// The steps' stores.
    pub stores: Stores,
    /// How runs are followed.
    pub run_streams: RunStreams,
}

/// All routes of the API.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/api/v1/conversations", post(conversations::create))
        .route("/api/v1/conversations/{id}/message", post(messages::post))
        .route("/api/v1/conversations/share", post(sharing::share))
        .route(
            "/api/v1/conversations/{id}/shared-emails",
            get(sharing::shared_emails),
        )
        .route(
            "/api/v1/conversations/{id}/access",
            delete(sharing::withdraw),
        )
        .merge(run_routes())
        .merge(auth_routes())
        .route("/api/v1/usage/usage", get(usage::get))
        .route("/api/v1/tunnel/workspace/{id}", get(tunnel::workspace))
        .route(
            "/api/v1/tunnel/workspace/{id}/socket-status",
            get(tunnel::socket_status),
        )
        .route("/api/v1/github/get-branch-list", get(github::branch_list))
        .route("/api/v1/github/get-branch-list/", get(github::branch_list))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(app)
}

/// Routes of a conversation's runs.
fn run_routes() -> Router<App> {
    let of_conversation = |rest: &str| format!("/api/v1/conversations/{{id}}/{rest}");
    Router::new()
        .route(&of_conversation("regenerate"), post(runs::regenerate))
        .route(&of_conversation("resume/{session_id}"), post(runs::resume))
        .route(
            &of_conversation("active-session"),
            get(sessions::active_session),
        )
        .route(&of_conversation("task-status"), get(sessions::task_status))
        .route(&of_conversation("stop"), post(sessions::stop))
}

fn auth_routes() -> Router<App> {
    Router::new()
        .route("/api/v1/signup", post(auth::sign_up))
        .route("/api/v1/signup/", post(auth::sign_up))
        .route("/api/v1/sso/login", post(auth::sso_login))
        .route("/api/v1/sso/login/", post(auth::sso_login))
        .route("/api/v1/providers/me", get(auth::my_providers))
        .route("/api/v1/providers/me/", get(auth::my_providers))
}

/// Puts a request id on every answer of a router.
pub fn with_request_ids(router: Router) -> Router {
    router.layer(middleware::from_fn(request_id::with_request_id))
}

/// Touches no store: it tells that the loop turns.
async fn health() -> Json<serde_json::Value> {
    Json(json!({ "status": "ok" }))
}

async fn not_found() -> Refusal {
    Refusal::NotFound("Not Found".to_owned())
}

async fn method_not_allowed() -> Response {
    (
        StatusCode::METHOD_NOT_ALLOWED,
        Json(json!({ "detail": "Method Not Allowed" })),
    )
        .into_response()
}
