//! What is asked of runs: messages and regenerations, sessions and statuses, stop.

use super::exchanges::Exchange;

const CREATE: &str =
    r#"{"user_id":"u-5","title":"t","status":"active","project_ids":["p-1"],"agent_ids":["a-1"]}"#;
const CONVERSATIONS: &str = "/api/v1/conversations";
const OWNER: &str = "Bearer token-u-5";
const OTHER: &str = "Bearer token-u-6";

const ACTIVE: &str = "/api/v1/conversations/{new}/active-session";
const STATUS: &str = "/api/v1/conversations/{new}/task-status";
const STOP: &str = "/api/v1/conversations/{new}/stop";
const STOP_S: &str = "/api/v1/conversations/{new}/stop?session_id=s";
const RESUME: &str = "/api/v1/conversations/{new}/resume/s";
const REGENERATE: &str = "/api/v1/conversations/{new}/regenerate";
const REGENERATE_AT_ONCE: &str = "/api/v1/conversations/{new}/regenerate?stream=false";

pub(crate) fn runs() -> Vec<Exchange> {
    let say = |path, body| Exchange::form(path, body).sent_by(OWNER);
    let post = |path| Exchange::post(path).sent_by(OWNER);
    let get = |path| Exchange::get(path).sent_by(OWNER);
    let again = |path, body| Exchange::json(path, body).sent_by(OWNER);
    let message_s = "/api/v1/conversations/{new}/message?session_id=s";
    vec![
        Exchange::json(CONVERSATIONS, CREATE).sent_by(OWNER),
        // Nothing has been asked yet.
        get(ACTIVE),
        get(STATUS),
        post(STOP),
        post(RESUME),
        again(REGENERATE, "{}"),
        again(REGENERATE_AT_ONCE, "{}"),
        say(message_s, "content=the+first"),
        get(ACTIVE),
        get(STATUS),
        // The session is taken: its next run gets a number.
        say(message_s, "content=the+second"),
        get(ACTIVE),
        get(STATUS),
        post(RESUME),
        post("/api/v1/conversations/{new}/resume/s?cursor=0-0"),
        post("/api/v1/conversations/{new}/resume/s?cursor=first"),
        post("/api/v1/conversations/{new}/resume/s-2"),
        say(
            "/api/v1/conversations/{new}/message?prev_human_message_id=m-1&session_id=",
            "content=the+third",
        ),
        get(ACTIVE),
        get(STATUS),
        again(
            REGENERATE,
            r#"{"node_ids":[{"node_id":"n-1","name":"main"}]}"#,
        ),
        again(REGENERATE_AT_ONCE, r#"{"node_ids":null}"#),
        again(
            "/api/v1/conversations/{new}/regenerate?background=false&stream=false",
            "{}",
        ),
        again(REGENERATE, r#"{"node_ids":"n-1"}"#),
        again(
            "/api/v1/conversations/{new}/regenerate?background=x&stream=x",
            "{}",
        ),
        again(REGENERATE, ""),
        again(REGENERATE, "[]"),
        Exchange::json("/api/v1/conversations/c-free/regenerate", "{}")
            .sent_by("Bearer token-u-free"),
        // All have ended, but a named one is stopped all the same.
        post(STOP),
        post(STOP_S),
        post(RESUME),
        post("/api/v1/conversations/c-404/stop"),
    ]
}

/// Who sees a run: its user, and those with whom the conversation is shared.
pub(crate) fn access() -> Vec<Exchange> {
    let asked_by = |user| {
        [
            Exchange::get(ACTIVE),
            Exchange::get(STATUS),
            Exchange::post(RESUME),
        ]
        .map(|exchange| exchange.sent_by(user))
    };
    let share = |body| Exchange::json("/api/v1/conversations/share", body).sent_by(OWNER);
    let mut exchanges = vec![
        Exchange::json(CONVERSATIONS, CREATE).sent_by(OWNER),
        Exchange::form(
            "/api/v1/conversations/{new}/message?session_id=s",
            "content=x",
        )
        .sent_by(OWNER),
    ];
    exchanges.extend(asked_by(OTHER));
    exchanges.push(share(
        r#"{"conversation_id":"{new}","recipientEmails":["u-6@example.test"]}"#,
    ));
    exchanges.extend(asked_by(OTHER));
    exchanges.push(Exchange::json(REGENERATE_AT_ONCE, "{}").sent_by(OTHER));
    exchanges.push(share(
        r#"{"conversation_id":"{new}","visibility":"public"}"#,
    ));
    exchanges.extend(asked_by("Bearer token-u-7"));
    exchanges.extend([
        Exchange::get("/api/v1/conversations/c-404/active-session"),
        Exchange::get("/api/v1/conversations/c-404/task-status"),
        Exchange::post("/api/v1/conversations/c-404/resume/s"),
        Exchange::get(ACTIVE).sent_by("Bearer wrong"),
        Exchange::get(STATUS).sent_by("Bearer wrong"),
        Exchange::post(RESUME).sent_by("Bearer wrong"),
        Exchange::post(STOP).sent_by("Bearer wrong"),
        Exchange::json(REGENERATE, "{}").sent_by("Bearer wrong"),
    ]);
    exchanges
}
