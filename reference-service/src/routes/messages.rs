//! `POST /conversations/{id}/message`, in v1 and v2: a message, after the usage check, and the agent's
//! answer.

use std::collections::HashMap;

use axum::Form;
use axum::extract::{FromRequest, Multipart, Query as RawQuery, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use serde::Deserialize;

use super::App;
use super::json_text::JsonText;
use super::path_ids::ConversationId;
use super::runs::{Asked, RunQuery, answer, start};
use crate::announcements;
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::service_client::Services;
use crate::validation::{self, Body, FieldError};

/// A node that the message is about.
#[derive(Debug, Deserialize)]
struct Node {
    #[serde(rename = "node_id")]
    _node_id: String,
}

/// Hands the message to the agent and answers with its stream, or with its answer in one piece
/// if `stream=false`.
pub(super) async fn post(
    State(app): State<App>,
    caller: Caller,
    ConversationId(conversation_id): ConversationId,
    RawQuery(query): RawQuery<HashMap<String, String>>,
    request: Request,
) -> Result<Response, Refusal> {
    let mut form = read_form(request).await?;
    let content = validation::form_field(form.remove("content"), "content");
    let (query, content) = validation::both(RunQuery::read(query), content)?;
    refuse_blank(&content)?;
    check_node_ids(form.get("node_ids"))?;
    app.open_session().await;
    post_in_session(&app, caller, conversation_id, query, content).await
}

/// The same for who has a key, and the message in JSON.
pub(super) async fn post_by_key(
    State(app): State<App>,
    headers: HeaderMap,
    ConversationId(conversation_id): ConversationId,
    RawQuery(query): RawQuery<HashMap<String, String>>,
    body: JsonText,
) -> Result<Response, Refusal> {
    let caller = app.caller_by_key(&headers).await?;
    let content = body.object().and_then(read_object);
    let (query, content) = validation::both(RunQuery::read(query), content)?;
    refuse_blank(&content)?;
    post_in_session(&app, caller, conversation_id, query, content).await
}

async fn post_in_session(
    app: &App,
    caller: Caller,
    conversation_id: String,
    query: RunQuery,
    content: String,
) -> Result<Response, Refusal> {
    let event = announcements::message_posted(&caller.uid, &conversation_id);
    let run = start(app, caller, conversation_id, &query, Asked::This(content)).await?;
    // Whatever becomes of the run: the message is posted.
    Services::tell(app.stores.services.analytics.as_ref(), "analytics", event).await;
    answer(app, run, query).await
}

fn refuse_blank(content: &str) -> Result<(), Refusal> {
    if content.trim().is_empty() {
        return Err(Refusal::BadRequest(
            "Message content cannot be empty".to_owned(),
        ));
    }
    Ok(())
}

/// The content. What else a message may have is checked, and no agent here makes use of it.
fn read_object(mut body: Body) -> Result<String, Vec<FieldError>> {
    let content = body.text("content");
    body.optional_nodes("node_ids");
    body.optional_texts("attachment_ids");
    body.optional_text("tunnel_url");
    body.finish()?;
    Ok(content)
}

fn check_node_ids(node_ids: Option<&String>) -> Result<(), Refusal> {
    match node_ids
        .map(|text| text.trim())
        .filter(|text| !text.is_empty())
    {
        None => Ok(()),
        Some(text) => match serde_json::from_str::<Option<Vec<Node>>>(text) {
            Ok(_) => Ok(()),
            Err(_not_nodes) => Err(Refusal::BadRequest("Invalid node_ids format".to_owned())),
        },
    }
}

/// The text fields of a form, URL-encoded or multipart; files (`images`) are read and dropped.
async fn read_form(request: Request) -> Result<HashMap<String, String>, Refusal> {
    if !is_multipart(request.headers()) {
        // Anything else that isn't a form has no fields, so the first required one is reported missing.
        return match Form::<HashMap<String, String>>::from_request(request, &()).await {
            Ok(Form(fields)) => Ok(fields),
            Err(rejection) if rejection.status() == 413 => Err(Refusal::BodyTooLarge),
            Err(_not_a_form) => Ok(HashMap::new()),
        };
    }
    let broken = |reason: &str| Refusal::BadRequest(reason.to_owned());
    let bad = |error: axum::extract::multipart::MultipartError| match error.status().as_u16() {
        413 => Refusal::BodyTooLarge,
        _ => broken("Invalid multipart data."),
    };
    let mut multipart = Multipart::from_request(request, &())
        .await
        .map_err(|_no_boundary| broken("Missing boundary in multipart."))?;
    let mut fields = HashMap::new();
    while let Some(field) = multipart.next_field().await.map_err(bad)? {
        let name = field.name().unwrap_or_default().to_owned();
        if field.file_name().is_none() {
            fields.insert(name, field.text().await.map_err(bad)?);
        }
    }
    Ok(fields)
}

fn is_multipart(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| {
            value
                .to_ascii_lowercase()
                .starts_with("multipart/form-data")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_json_needs_its_content_alone() {
        let read = |text: &str| read_object(Body::parse(text.as_bytes()).expect("an object"));
        for good in [
            r#"{"content":"x"}"#,
            r#"{"content":"x","node_ids":null,"attachment_ids":null,"tunnel_url":null}"#,
            r#"{"content":"x","node_ids":[{"node_id":"n-1","name":"main"}],"attachment_ids":["f-1"],"tunnel_url":"https://t.test"}"#,
        ] {
            assert_eq!(read(good).as_deref(), Ok("x"), "{good}");
        }
        for (bad, errors) in [
            ("{}", 1),
            (r#"{"content":7,"node_ids":"n-1"}"#, 2),
            (r#"{"content":"x","attachment_ids":[7],"tunnel_url":[]}"#, 2),
        ] {
            assert_eq!(read(bad).expect_err(bad).len(), errors, "{bad}");
        }
    }

    #[test]
    fn node_ids_are_a_list_of_nodes_in_json_or_nothing() {
        for good in [
            "",
            " ",
            "null",
            "[]",
            r#"[{"node_id":"n-1","name":"main"}]"#,
        ] {
            check_node_ids(Some(&good.to_owned())).expect(good);
        }
        check_node_ids(None).expect("absent");
        for bad in ["n-1", "{}", r#"["n-1"]"#, r#"[{"name":"main"}]"#] {
            assert!(check_node_ids(Some(&bad.to_owned())).is_err(), "{bad}");
        }
    }
}
