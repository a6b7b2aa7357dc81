//! `POST /conversations`, in v1 and v2: a new conversation, after the usage check.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Query as RawQuery, State};
use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::App;
use super::json_text::JsonText;
use crate::announcements;
use crate::conversation::{self, Created, NewConversation};
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::service_client::Services;
use crate::stores::Stores;
use crate::to_its_end::ToItsEnd;
use crate::usage::Window;
use crate::validation::{self, Body, FieldError, Query};

const STATUSES: [&str; 3] = ["active", "archived", "deleted"];
/// The title of one that is given none.
const UNTITLED: &str = "Untitled";

/// Creates a conversation.
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    RawQuery(query): RawQuery<HashMap<String, String>>,
    body: JsonText,
) -> Result<Json<Value>, Refusal> {
    let new = parse(Query::new(query), body.object(), &caller.uid)?;
    app.open_session().await;
    create_in_session(&app, new).await
}

/// Creates one for who has a key: without a title, and hidden unless told otherwise.
pub(super) async fn create_by_key(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery<HashMap<String, String>>,
    body: JsonText,
) -> Result<Json<Value>, Refusal> {
    let caller = app.caller_by_key(&headers).await?;
    let new = parse_by_key(Query::new(query), body.object(), &caller.uid)?;
    create_in_session(&app, new).await
}

async fn create_in_session(app: &App, new: NewConversation) -> Result<Json<Value>, Refusal> {
    refuse_over_limit(&app.stores, &new.user_id).await?;
    // A client that leaves between two of its statements leaves no half of a conversation.
    let conversations = Arc::clone(&app.stores.conversations);
    let (created, new) = ToItsEnd::new(async move {
        let created = conversations.create(&new).await?;
        Ok((created, new))
    })
    .await?;
    match created {
        Created::Yes => {
            let event = announcements::conversation_created(&new.user_id, &new.id);
            Services::tell(app.stores.services.analytics.as_ref(), "analytics", event).await;
            Ok(Json(json!({
                "message": "Conversation created successfully.",
                "conversation_id": new.id,
            })))
        }
        Created::ProjectsMissing(ids) => Err(Refusal::NotFound(format!(
            "No such project: {}",
            ids.join(", ")
        ))),
    }
}

fn parse(
    query: Query,
    body: Result<Body, Vec<FieldError>>,
    uid: &str,
) -> Result<NewConversation, Vec<FieldError>> {
    let new = body.and_then(|body| parse_body(body, uid));
    let (hidden, new) = validation::both(parse_query(query), new)?;
    Ok(hidden_if(hidden.unwrap_or(false), new))
}

fn parse_by_key(
    query: Query,
    body: Result<Body, Vec<FieldError>>,
    uid: &str,
) -> Result<NewConversation, Vec<FieldError>> {
    let new = body.and_then(|body| parse_short_body(body, uid));
    let (hidden, new) = validation::both(parse_query(query), new)?;
    Ok(hidden_if(hidden.unwrap_or(true), new))
}

/// A hidden conversation is one that the lists of active ones don't show.
fn hidden_if(hidden: bool, new: NewConversation) -> NewConversation {
    if hidden {
        NewConversation {
            status: "archived",
            ..new
        }
    } else {
        new
    }
}

fn parse_query(mut query: Query) -> Result<Option<bool>, Vec<FieldError>> {
    let hidden = query.optional_flag("hidden");
    query.finish()?;
    Ok(hidden)
}

/// Of v2: whose it is comes from the key.
fn parse_short_body(mut body: Body, uid: &str) -> Result<NewConversation, Vec<FieldError>> {
    let project_ids = body.texts_not_empty("project_ids");
    let agent_ids = body.texts("agent_ids");
    body.finish()?;
    Ok(NewConversation {
        id: conversation::fresh_id(),
        user_id: uid.to_owned(),
        title: UNTITLED.to_owned(),
        status: STATUSES[0],
        project_ids,
        agent_ids,
    })
}

fn parse_body(mut body: Body, uid: &str) -> Result<NewConversation, Vec<FieldError>> {
    // Required and checked, as in the original; whose conversation it is comes from the token.
    body.text("user_id");
    let title = body.text("title");
    let status = body.choice("status", &STATUSES);
    let project_ids = body.texts_not_empty("project_ids");
    let agent_ids = body.texts("agent_ids");
    body.finish()?;
    Ok(NewConversation {
        id: conversation::fresh_id(),
        user_id: uid.to_owned(),
        title,
        status,
        project_ids,
        agent_ids,
    })
}

/// The usage check of every route that costs a message.
pub(super) async fn refuse_over_limit(stores: &Stores, uid: &str) -> Result<(), Refusal> {
    // A clock before 1970 is set wrong; the window at 1970 then sees no message.
    let now_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64());
    let usage = stores
        .usage
        .usage(uid, Window::thirty_days_before(now_s))
        .await?;
    match usage.plan.limit() {
        Some(limit) if usage.is_over_limit() => Err(Refusal::OverLimit {
            used: usage.total(),
            limit,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Query {
        Query::new(
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    const BODY: &[u8] =
        br#"{"user_id":"someone","title":"t","status":"active","project_ids":["p-1"],"agent_ids":[]}"#;

    #[test]
    fn the_token_decides_whose_it_is() {
        let new = parse(query(&[]), Body::parse(BODY), "u-3").expect("valid");
        assert_eq!((new.user_id.as_str(), new.status), ("u-3", "active"));
    }

    #[test]
    fn hidden_ones_are_archived() {
        assert_eq!(
            parse(query(&[("hidden", "true")]), Body::parse(BODY), "u-3")
                .expect("valid")
                .status,
            "archived"
        );
        assert!(parse(query(&[("hidden", "maybe")]), Body::parse(BODY), "u-3").is_err());
    }

    #[test]
    fn by_key_it_has_no_title_and_is_hidden_unless_told_otherwise() {
        const SHORT: &[u8] = br#"{"project_ids":["p-1"],"agent_ids":[]}"#;
        let parse = |pairs: &[(&str, &str)]| {
            parse_by_key(query(pairs), Body::parse(SHORT), "u-3").expect("valid")
        };
        let new = parse(&[]);
        assert_eq!((&*new.title, &*new.user_id), ("Untitled", "u-3"));
        assert_eq!(new.status, "archived");
        assert_eq!(parse(&[("hidden", "false")]).status, "active");
        let errors = parse_by_key(query(&[]), Body::parse(b"{}"), "u-3").expect_err("missing");
        assert_eq!(errors.len(), 2);
    }
}
