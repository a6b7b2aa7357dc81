//! The routes of the API, one file per group.

use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use axum::{Json, Router, middleware};
use serde_json::json;

use crate::api_key::{self, AdminKey};
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::request_id;
use crate::run_stream::RunStreams;
use crate::stores::Stores;
use crate::thread_slots::Sessions;

pub mod auth;
pub mod conversations;
pub mod github;
pub mod integrations;
mod json_text;
pub mod login;
pub mod messages;
mod page;
mod path_ids;
pub mod repositories;
pub mod runs;
pub mod search;
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
    /// Where database sessions are opened; step 6 opens them without it.
    pub sessions: Option<Sessions>,
    /// Who acts for others on v2 routes, if anybody.
    pub admin_key: Option<AdminKey>,
}

impl App {
    /// What a route's session with the database takes before its first statement, as the
    /// original's session dependency has it.
    async fn open_session(&self) {
        if let Some(sessions) = &self.sessions {
            sessions.open().await;
        }
    }

    /// Opens a session and looks up who calls a v2 route.
    async fn caller_by_key(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        self.open_session().await;
        api_key::caller(&*self.stores.api_keys, self.admin_key.as_ref(), headers).await
    }
}

/// One route of the API.
struct Route {
    method: Method,
    template: &'static str,
    answer: MethodRouter<App>,
}

impl Route {
    fn get<T: 'static>(template: &'static str, handler: impl Handler<T, App>) -> Self {
        Self {
            method: Method::GET,
            template,
            answer: get(handler),
        }
    }

    fn post<T: 'static>(template: &'static str, handler: impl Handler<T, App>) -> Self {
        Self {
            method: Method::POST,
            template,
            answer: post(handler),
        }
    }

    fn delete<T: 'static>(template: &'static str, handler: impl Handler<T, App>) -> Self {
        Self {
            method: Method::DELETE,
            template,
            answer: delete(handler),
        }
    }
}

/// All routes of the API: what is served is what is declared, both come from here.
fn all() -> impl Iterator<Item = Route> {
    v1().into_iter().chain(v2())
}

/// Of who signs in.
fn v1() -> Vec<Route> {
    vec![
        Route::get("/health", health),
        Route::post("/api/v1/conversations", conversations::create),
        Route::post("/api/v1/conversations/{id}/message", messages::post),
        Route::post("/api/v1/conversations/{id}/regenerate", runs::regenerate),
        Route::post(
            "/api/v1/conversations/{id}/resume/{session_id}",
            runs::resume,
        ),
        Route::get(
            "/api/v1/conversations/{id}/active-session",
            sessions::active_session,
        ),
        Route::get(
            "/api/v1/conversations/{id}/task-status",
            sessions::task_status,
        ),
        Route::post("/api/v1/conversations/{id}/stop", sessions::stop),
        Route::post("/api/v1/conversations/share", sharing::share),
        Route::get(
            "/api/v1/conversations/{id}/shared-emails",
            sharing::shared_emails,
        ),
        Route::delete("/api/v1/conversations/{id}/access", sharing::withdraw),
        Route::post("/api/v1/signup", auth::sign_up),
        Route::post("/api/v1/signup/", auth::sign_up),
        Route::post("/api/v1/sso/login", auth::sso_login),
        Route::post("/api/v1/sso/login/", auth::sso_login),
        Route::get("/api/v1/providers/me", auth::my_providers),
        Route::get("/api/v1/providers/me/", auth::my_providers),
        Route::post("/api/v1/login", login::login),
        Route::post("/api/v1/login/", login::login),
        Route::get("/api/v1/integrations/issues/{id}", integrations::issue),
        Route::post("/api/v1/search", search::v1),
        Route::post("/api/v1/search/", search::v1),
        Route::get("/api/v1/usage/usage", usage::get),
        Route::get("/api/v1/tunnel/workspace/{id}", tunnel::workspace),
        Route::get(
            "/api/v1/tunnel/workspace/{id}/socket-status",
            tunnel::socket_status,
        ),
        Route::get("/api/v1/github/get-branch-list", github::branch_list),
        Route::get("/api/v1/github/get-branch-list/", github::branch_list),
        Route::get("/api/v1/github/user-repos", repositories::of_user),
        Route::get("/api/v1/github/user-repos/", repositories::of_user),
        Route::get("/api/v1/github/project-structure", github::structure),
        Route::get("/api/v1/github/project-structure/", github::structure),
    ]
}

/// Of who has a key.
fn v2() -> Vec<Route> {
    vec![
        Route::post("/api/v2/conversations", conversations::create_by_key),
        Route::post("/api/v2/conversations/", conversations::create_by_key),
        Route::post("/api/v2/conversations/{id}/message", messages::post_by_key),
        Route::post("/api/v2/conversations/{id}/message/", messages::post_by_key),
        Route::post("/api/v2/conversations/{id}/stop", sessions::stop_by_key),
        Route::post("/api/v2/conversations/{id}/stop/", sessions::stop_by_key),
        Route::post("/api/v2/search", search::v2),
        Route::post("/api/v2/search/", search::v2),
    ]
}

/// Method and template of every route, for who must know them before any request comes.
pub fn declared() -> impl Iterator<Item = (Method, &'static str)> {
    all().map(|route| (route.method, route.template))
}

/// The router of the API.
pub fn router(app: App) -> Router {
    all()
        .fold(Router::new(), |router, route| {
            router.route(route.template, route.answer)
        })
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(app)
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
