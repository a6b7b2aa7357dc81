//! `POST /conversations/share`, `GET …/shared-emails` and `DELETE …/access`: with whom a
//! conversation is shared.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::App;
use super::json_text::JsonText;
use super::path_ids::ConversationId;
use crate::email;
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::sharing::{Change, Changed};
use crate::validation::Body;

const VISIBILITIES: [&str; 2] = ["private", "public"];

/// Shares a conversation with some, or with everybody.
pub(super) async fn share(
    State(app): State<App>,
    caller: Caller,
    body: JsonText,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let (id, change) = parse_share(body.object()?)?;
    app.open_session().await;
    apply(&app, &caller, &id, &change).await?;
    let answer = json!({ "message": "Conversation shared successfully.", "sharedID": id });
    Ok((StatusCode::CREATED, Json(answer)))
}

/// With whom it is shared.
pub(super) async fn shared_emails(
    State(app): State<App>,
    caller: Caller,
    ConversationId(id): ConversationId,
) -> Result<Json<Vec<String>>, Refusal> {
    app.open_session().await;
    match app.stores.sharing.sharing(&id, &caller.uid).await? {
        Some(sharing) => Ok(Json(sharing.emails)),
        None => Err(not_found()),
    }
}

/// Withdraws it from some.
pub(super) async fn withdraw(
    State(app): State<App>,
    caller: Caller,
    ConversationId(id): ConversationId,
    body: JsonText,
) -> Result<Json<Value>, Refusal> {
    let mut body = body.object()?;
    let emails = body.texts("emails");
    body.finish()?;
    if emails.is_empty() {
        return Err(Refusal::BadRequest("No email address given".to_owned()));
    }
    let change = Change::Withdraw(addresses(emails)?);
    app.open_session().await;
    apply(&app, &caller, &id, &change).await?;
    Ok(Json(json!({ "message": "Access removed successfully." })))
}

async fn apply(app: &App, caller: &Caller, id: &str, change: &Change) -> Result<(), Refusal> {
    match app.stores.sharing.change(id, &caller.uid, change).await? {
        Changed::Yes => Ok(()),
        Changed::NotFound => Err(not_found()),
        Changed::NobodyHadAccess => Err(Refusal::BadRequest(
            "None of these email addresses has access".to_owned(),
        )),
    }
}

/// Somebody else's conversation is not distinguished from none.
fn not_found() -> Refusal {
    Refusal::NotFound("Conversation not found".to_owned())
}

fn parse_share(mut body: Body) -> Result<(String, Change), Refusal> {
    let id = body.text("conversation_id");
    let recipients = body.optional_texts("recipientEmails").unwrap_or_default();
    let visibility = body.optional_choice("visibility", &VISIBILITIES);
    body.finish()?;
    let recipients = addresses(recipients)?;
    let change = match visibility {
        Some("public") => Change::Publish,
        _ => Change::ShareWith(recipients),
    };
    Ok((id, change))
}

fn addresses(texts: Vec<String>) -> Result<Vec<String>, Refusal> {
    match texts.iter().find(|text| !email::is_address(text)) {
        Some(bad) => Err(Refusal::BadRequest(format!("Invalid email address: {bad}"))),
        None => Ok(texts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(body: &str) -> Option<Change> {
        parse_share(Body::parse(body.as_bytes()).ok()?)
            .ok()
            .map(|(_, change)| change)
    }

    #[test]
    fn a_share_is_private_unless_it_says_otherwise() {
        let with_one = Change::ShareWith(vec!["a@x.test".to_owned()]);
        for body in [
            r#"{"conversation_id":"c","recipientEmails":["a@x.test"]}"#,
            r#"{"conversation_id":"c","recipientEmails":["a@x.test"],"visibility":null}"#,
            r#"{"conversation_id":"c","recipientEmails":["a@x.test"],"visibility":"private"}"#,
        ] {
            assert_eq!(change(body), Some(with_one.clone()), "{body}");
        }
        assert_eq!(
            change(r#"{"conversation_id":"c","visibility":"public"}"#),
            Some(Change::Publish)
        );
        assert_eq!(
            change(r#"{"conversation_id":"c"}"#),
            Some(Change::ShareWith(Vec::new()))
        );
    }

    #[test]
    fn wrong_fields_and_addresses_are_refused() {
        for body in [
            r#"{"recipientEmails":["a@x.test"]}"#,
            r#"{"conversation_id":"c","visibility":"PUBLIC"}"#,
            r#"{"conversation_id":"c","recipientEmails":"a@x.test"}"#,
            r#"{"conversation_id":"c","recipientEmails":["a@x.test","b"]}"#,
            r#"{"conversation_id":"c","recipientEmails":["b"],"visibility":"public"}"#,
        ] {
            assert_eq!(change(body), None, "{body}");
        }
    }
}
