//! What mail and analytics are told: the bodies of their calls.

use serde_json::{Value, json};

const SENDER: &str = "Unstall <reference@unstall.test>";

/// Mail to those with whom a conversation was shared.
#[must_use]
pub fn shared(conversation_id: &str, recipients: &[String]) -> Value {
    json!({
        "from": SENDER,
        "to": recipients,
        "subject": "A conversation was shared with you",
        "text": format!("You can read the conversation {conversation_id} now."),
    })
}

/// A new conversation, as an event.
#[must_use]
pub fn conversation_created(uid: &str, conversation_id: &str) -> Value {
    event("conversation_created", uid, conversation_id)
}

/// A message that an agent was asked to answer, as an event.
#[must_use]
pub fn message_posted(uid: &str, conversation_id: &str) -> Value {
    event("message_posted", uid, conversation_id)
}

fn event(name: &str, uid: &str, conversation_id: &str) -> Value {
    json!({
        "event": name,
        "distinct_id": uid,
        "properties": { "conversation_id": conversation_id },
    })
}
