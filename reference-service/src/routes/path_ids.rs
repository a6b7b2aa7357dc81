//! Ids in a request's path, decoded and checked.

use std::array;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use crate::refusal::Refusal;
use crate::validation;

/// A conversation's id: `…/conversations/{id}/…`.
pub(super) struct ConversationId(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for ConversationId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let [id] = ids(parts, state, ["conversation_id"]).await?;
        Ok(Self(id))
    }
}

/// A conversation's id, and a session's: `…/conversations/{id}/resume/{session_id}`.
pub(super) struct SessionIds(pub(super) String, pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for SessionIds {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let [conversation_id, session_id] =
            ids(parts, state, ["conversation_id", "session_id"]).await?;
        Ok(Self(conversation_id, session_id))
    }
}

/// A workspace's id: `…/workspace/{id}/…`.
pub(super) struct WorkspaceId(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for WorkspaceId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let [id] = ids(parts, state, ["workspace_id"]).await?;
        Ok(Self(id))
    }
}

/// An issue's id: `…/issues/{id}`.
pub(super) struct IssueId(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for IssueId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let [id] = ids(parts, state, ["issue_id"]).await?;
        Ok(Self(id))
    }
}

/// A path's ids, which refusals call by these names. The route has as many.
async fn ids<S: Send + Sync, const N: usize>(
    parts: &mut Parts,
    state: &S,
    names: [&str; N],
) -> Result<[String; N], Refusal> {
    let given = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_not_utf8| Refusal::BadRequest("The path is not UTF-8".to_owned()))?;
    let ids = || given.iter().map(|(_, id)| id);
    validation::path_ids(names.into_iter().zip(ids()))?;
    let mut ids = ids();
    Ok(array::from_fn(|_| {
        ids.next().expect("the route has as many").to_owned()
    }))
}
