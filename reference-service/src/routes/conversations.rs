//! `POST /conversations`: a new conversation, after the usage check.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Query as RawQuery, State};
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

/// Creates a conversation.
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    RawQuery(query): RawQuery<HashMap<String, String>>,
    body: JsonText,
) -> Result<Json<Value>, Refusal> {
    let new = parse(Query::new(query), body.object(), &caller.uid)?;
    app.open_session().await;
    refuse_over_limit(&app.stores, &caller.uid).await?;
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
    Ok(if hidden {
        // A hidden conversation is one that the lists of active ones don't show.
        NewConversation {
            status: "archived",
            ..new
        }
    } else {
        new
    })
}

fn parse_query(mut query: Query) -> Result<bool, Vec<FieldError>> {
    let hidden = query.optional_flag("hidden").unwrap_or(false);
    query.finish()?;
    Ok(hidden)
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
}
