//! `GET /integrations/issues/{id}`: an issue, from the issue tracker.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::App;
use super::path_ids::IssueId;
use crate::identity::Caller;
use crate::issue_tracker::{self, Found};
use crate::refusal::Refusal;

/// An issue by its id or identifier.
pub(super) async fn issue(
    State(app): State<App>,
    _caller: Caller,
    IssueId(id): IssueId,
) -> Result<Json<Value>, Refusal> {
    let Some(service) = &app.stores.services.tracker else {
        let reason = "There is no issue tracker; start with --tracker-url";
        return Err(Refusal::BadGateway(reason));
    };
    match issue_tracker::issue(&**service, &id).await {
        Ok(Found::Issue(issue)) => Ok(Json(issue.into_json())),
        Ok(Found::Nothing) => Err(Refusal::NotFound(format!("Issue {id} not found"))),
        Ok(Found::NotUnderstood(answer)) => {
            tracing::warn!(%answer, "the issue tracker's answer is neither an issue nor that there is none");
            Err(Refusal::BadGateway(
                "The issue tracker didn't answer as it should",
            ))
        }
        Err(error) => {
            tracing::warn!(%error, "no answer of the issue tracker");
            Err(Refusal::BadGateway(
                "The issue tracker can't be reached; try again",
            ))
        }
    }
}
