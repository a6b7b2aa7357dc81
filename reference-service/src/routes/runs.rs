//! Runs that answer a request: started by a message or a regeneration, or resumed.
//!
//! `POST …/regenerate` and `POST …/resume/{session}` are here; `messages` starts a run like
//! the former.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query as RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::App;
use super::conversations::refuse_over_limit;
use super::json_text::JsonText;
use super::path_ids::{ConversationId, SessionIds};
use super::sessions::refuse_without_access;
use crate::conversation::fresh_id;
use crate::identity::Caller;
use crate::refusal::Refusal;
use crate::run::{self, Run, Task};
use crate::sessions;
use crate::to_its_end::ToItsEnd;
use crate::validation::{self, Body, FieldError, Query};

/// As the original's server writes it: whatever is text has its encoding told.
const STREAM_TYPE: &str = "text/event-stream; charset=utf-8";

/// What the agent is asked.
#[derive(Debug)]
pub(super) enum Asked {
    /// This message.
    This(String),
    /// The conversation's last one, once more.
    TheLastAgain,
}

/// The query of every route that starts a run.
#[derive(Debug)]
pub(super) struct RunQuery {
    /// Answer with a stream.
    stream: bool,
    session_id: Option<String>,
    previous_message_id: Option<String>,
    cursor: Option<String>,
}

impl RunQuery {
    /// Reads it.
    pub(super) fn read(query: HashMap<String, String>) -> Result<Self, Vec<FieldError>> {
        let mut query = Query::new(query);
        let stream = query.optional_flag("stream").unwrap_or(true);
        // Whatever it says, the worker answers: there is no agent in this process that could.
        query.optional_flag("background");
        let mut text = |field: &str| {
            query
                .optional_text(field)
                .filter(|text: &String| !text.is_empty())
        };
        let session_id = text("session_id");
        let previous_message_id = text("prev_human_message_id");
        let cursor = query.optional_entry_id("cursor");
        query.finish()?;
        Ok(Self {
            stream,
            session_id,
            previous_message_id,
            cursor,
        })
    }
}

/// Checks the usage, claims a run id, and hands the run to the workers, in a session that is open.
///
/// Whose conversation it is the worker finds out, as it stores the question: a run in somebody
/// else's just fails.
pub(super) async fn start(
    app: &App,
    caller: Caller,
    conversation_id: String,
    query: &RunQuery,
    asked: Asked,
) -> Result<Run, Refusal> {
    refuse_over_limit(&app.stores, &caller.uid).await?;
    let base = run::base_id(
        &caller.uid,
        query.session_id.as_deref(),
        query.previous_message_id.as_deref(),
    );
    let (content, regenerate) = match asked {
        Asked::This(content) => (content, false),
        Asked::TheLastAgain => (String::new(), true),
    };
    let streams = Arc::clone(&app.stores.streams);
    let run = async move {
        let run = streams.reserve(&conversation_id, &base).await?;
        let task = Task {
            // The answer's message gets it for its id: those sort by time.
            task_id: fresh_id(),
            conversation_id,
            run_id: run.run_id.clone(),
            user_id: caller.uid,
            content,
            agent_id: None,
            regenerate,
        };
        sessions::hand_over(&*streams, &task).await?;
        Ok(run)
    };
    Ok(ToItsEnd::new(run).await?)
}

/// Answers with a run's stream or its whole answer.
pub(super) async fn answer(app: &App, run: Run, query: RunQuery) -> Result<Response, Refusal> {
    if query.stream {
        Ok(stream_of(app, run, query.cursor))
    } else {
        Ok(Json(app.run_streams.whole(run).await?).into_response())
    }
}

fn stream_of(app: &App, run: Run, cursor: Option<String>) -> Response {
    let body = app.run_streams.body(run, cursor);
    ([(header::CONTENT_TYPE, STREAM_TYPE)], body).into_response()
}

/// Answers the conversation's last question anew.
pub(super) async fn regenerate(
    State(app): State<App>,
    caller: Caller,
    ConversationId(conversation_id): ConversationId,
    RawQuery(query): RawQuery<HashMap<String, String>>,
    body: JsonText,
) -> Result<Response, Refusal> {
    let (query, ()) = validation::both(RunQuery::read(query), body.object().and_then(check_nodes))?;
    app.open_session().await;
    let run = start(&app, caller, conversation_id, &query, Asked::TheLastAgain).await?;
    answer(&app, run, query).await
}

fn check_nodes(mut body: Body) -> Result<(), Vec<FieldError>> {
    body.optional_nodes("node_ids");
    body.finish()
}

/// Goes on with a run's stream, from an entry on.
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    SessionIds(conversation_id, session_id): SessionIds,
    RawQuery(query): RawQuery<HashMap<String, String>>,
) -> Result<Response, Refusal> {
    let mut query = Query::new(query);
    let cursor = query.optional_entry_id("cursor");
    query.finish()?;
    app.open_session().await;
    let none = "No active session found";
    refuse_without_access(&app, &caller, &conversation_id, none).await?;
    let run = Run::new(conversation_id, session_id);
    if !app.stores.streams.is_there(&run).await? {
        return Err(Refusal::NoRun {
            error: none,
            conversation_id: run.conversation_id,
        });
    }
    Ok(stream_of(&app, run, cursor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<RunQuery, Vec<FieldError>> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        RunQuery::read(pairs.iter().map(own).collect())
    }

    #[test]
    fn a_run_streams_unless_told_otherwise() {
        assert!(read(&[]).expect("all are optional").stream);
        let query = read(&[("stream", "false"), ("session_id", ""), ("cursor", "0-0")]);
        let query = query.expect("valid");
        assert!(!query.stream);
        assert_eq!(query.session_id, None);
        assert_eq!(query.cursor.as_deref(), Some("0-0"));
    }

    #[test]
    fn every_wrong_parameter_is_named() {
        let wrong = read(&[("stream", "x"), ("background", "maybe"), ("cursor", "z")]);
        let fields: Vec<String> = wrong
            .expect_err("all are wrong")
            .into_iter()
            .map(|error| error.to_json()["loc"][1].to_string())
            .collect();
        assert_eq!(fields, [r#""stream""#, r#""background""#, r#""cursor""#]);
    }
}
