//! Answers that are not a success: `{"detail": …}` with the status that the API promises, and
//! `{"error": …}` of a login.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::hub::error::HubError;
use crate::stores::StoreError;
use crate::validation::FieldError;

/// Why a request is refused.
#[derive(Debug)]
pub enum Refusal {
    /// 400: understood, and wrong.
    BadRequest(String),
    /// 401: no valid credentials.
    Unauthorized,
    /// 401: a token of a sign-in service that isn't good.
    InvalidIdToken,
    /// 401: no API key, or nobody's.
    InvalidApiKey,
    /// 401: the administrator's key, and nobody to act for.
    InvalidUserId,
    /// 403: not for this caller.
    Forbidden(String),
    /// 409: somebody else's already.
    Conflict(String),
    /// 402: over the usage limit.
    OverLimit {
        /// Messages used.
        used: i64,
        /// Messages allowed.
        limit: i64,
    },
    /// 404: no such thing, or not the caller's.
    NotFound(String),
    /// 404 of a run: no session, or no task, in that conversation.
    NoRun {
        /// What there is none of, in words.
        error: &'static str,
        /// The conversation.
        conversation_id: String,
    },
    /// 413: a body larger than the service reads.
    BodyTooLarge,
    /// 422: fields that are missing or of the wrong kind.
    Invalid(Vec<FieldError>),
    /// 500: the code host is of no help. What it did is told: it is nobody's secret.
    Hub(HubError),
    /// The identity service's own refusal, with its status; its body is `{"error": …}`.
    LoginRefused {
        /// From 400 on.
        status: u16,
        /// The service's reason.
        reason: String,
    },
    /// 502: no answer of the identity service, or none that means anything.
    LoginFailed(&'static str),
    /// 502: no answer of another service, or none that means anything.
    BadGateway(&'static str),
    /// 500: the agent didn't answer to its end.
    RunFailed,
    /// 503 while a server can't be reached, else 500. The reason goes to the log, not to the caller.
    Store(StoreError),
}

impl From<HubError> for Refusal {
    fn from(error: HubError) -> Self {
        Self::Hub(error)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Vec<FieldError>> for Refusal {
    fn from(errors: Vec<FieldError>) -> Self {
        Self::Invalid(errors)
    }
}

impl Refusal {
    fn status_and_detail(self) -> (StatusCode, Value) {
        match self {
            Self::BadRequest(reason) => (StatusCode::BAD_REQUEST, json!(reason)),
            Self::Unauthorized => (
                StatusCode::UNAUTHORIZED,
                json!("Invalid token; send `Authorization: Bearer <token>`"),
            ),
            Self::InvalidIdToken => (
                StatusCode::UNAUTHORIZED,
                json!("Invalid or expired SSO token"),
            ),
            Self::InvalidApiKey => (
                StatusCode::UNAUTHORIZED,
                json!("Invalid API key; send `X-API-Key: sk-…`"),
            ),
            Self::InvalidUserId => (
                StatusCode::UNAUTHORIZED,
                json!("Invalid user id; send `X-User-Id: <uid>` of the user to act for"),
            ),
            Self::Forbidden(reason) => (StatusCode::FORBIDDEN, json!(reason)),
            Self::Conflict(reason) => (StatusCode::CONFLICT, json!(reason)),
            Self::OverLimit { used, limit } => (
                StatusCode::PAYMENT_REQUIRED,
                json!(format!(
                    "Usage limit reached: {used} of {limit} messages in 30 days"
                )),
            ),
            Self::NotFound(what) => (StatusCode::NOT_FOUND, json!(what)),
            Self::NoRun {
                error,
                conversation_id,
            } => (
                StatusCode::NOT_FOUND,
                json!({ "error": error, "conversationId": conversation_id }),
            ),
            Self::LoginRefused { status, reason } => (upstreams(status), json!(reason)),
            Self::LoginFailed(reason) | Self::BadGateway(reason) => {
                (StatusCode::BAD_GATEWAY, json!(reason))
            }
            Self::RunFailed => (
                StatusCode::INTERNAL_SERVER_ERROR,
                json!("The agent failed to answer"),
            ),
            Self::BodyTooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                json!("The body is too large"),
            ),
            Self::Invalid(errors) => (
                StatusCode::UNPROCESSABLE_ENTITY,
                errors.iter().map(FieldError::to_json).collect(),
            ),
            Self::Hub(error) => {
                tracing::warn!(%error, source = ?error.failure, "code host failed");
                (StatusCode::INTERNAL_SERVER_ERROR, json!(error.detail()))
            }
            Self::Store(error) => store_status(&error),
        }
    }
}

/// A status that a service answered, and passes the check that it is one of a refusal.
fn upstreams(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY) // never: it is below 1000
}

fn store_status(error: &StoreError) -> (StatusCode, Value) {
    match error {
        StoreError::Unavailable { backend, .. } => {
            tracing::warn!(%error, "store unavailable");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                json!(format!("{backend} can't be reached; try again")),
            )
        }
        StoreError::Refused { .. } | StoreError::Malformed { .. } => {
            tracing::error!(%error, "store failed");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                json!("Internal server error"),
            )
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let field = match self {
            Self::LoginRefused { .. } | Self::LoginFailed(_) => "error",
            _ => "detail",
        };
        let is_for_token = matches!(self, Self::Unauthorized | Self::InvalidIdToken);
        let (status, detail) = self.status_and_detail();
        let mut response = (status, Json(json!({ field: detail }))).into_response();
        if is_for_token {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
