//! `GET /usage/usage`: what the caller used between two dates.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query as RawQuery, State};
use serde_json::{Value, json};

use super::App;
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::usage::Window;
use crate::validation::Query;

/// The caller's messages by agent, and in all.
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    RawQuery(query): RawQuery<HashMap<String, String>>,
) -> Result<Json<Value>, Refusal> {
    let mut query = Query::new(query);
    let window = Window {
        from_s: query.moment("start_date"),
        to_s: query.moment("end_date"),
    };
    query.finish()?;
    let usage = app.stores.usage.usage(&caller.uid, window).await?;
    Ok(Json(json!({
        "total_human_messages": usage.total(),
        "agent_message_counts": usage.messages_by_agent,
    })))
}
