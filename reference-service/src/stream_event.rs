//! The entries of a run's stream, as they lie in Redis and as clients get them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::entry_id::EntryId;
use crate::run::{Run, RunStatus};

/// The fields of an entry, to be written.
pub type Fields = Vec<(&'static str, String)>;
/// The fields of an entry, as read.
pub type Entry = HashMap<String, String>;
/// An entry as read, with its id.
pub type EntryWithId = (EntryId, Entry);

/// A piece of an answer, or a whole one: an object of the stream's body.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Its text.
    pub message: String,
    /// Where it comes from.
    pub citations: Vec<Value>,
    /// What the agent did for it.
    pub tool_calls: Vec<Value>,
    /// What the agent thought.
    pub thinking: Option<String>,
}

impl Answer {
    /// A piece of text and nothing else.
    pub fn text(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    /// Adds the next piece. A citation counts once however often it is given.
    pub fn add(&mut self, piece: Self) {
        self.message += &piece.message;
        for citation in piece.citations {
            if !self.citations.contains(&citation) {
                self.citations.push(citation);
            }
        }
        self.tool_calls.extend(piece.tool_calls);
        if let Some(thinking) = piece.thinking {
            *self.thinking.get_or_insert_default() += &thinking;
        }
    }

    /// As it is sent: one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and JSON values are JSON")
    }
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The service has handed the run over.
    Queued,
    /// A worker has taken it.
    Start,
    /// The next piece of the answer.
    Chunk(Answer),
    /// The last entry, and how the run ended.
    End(RunStatus),
}

impl Event {
    /// Reads an entry. `None` for a type that clients don't hear of.
    #[must_use]
    pub fn read(mut entry: Entry) -> Option<Self> {
        match entry.get("type")?.as_str() {
            "queued" => Some(Self::Queued),
            "start" => Some(Self::Start),
            "chunk" => Some(Self::Chunk(Answer {
                message: entry.remove("content").unwrap_or_default(),
                citations: list(&entry, "citations_json"),
                tool_calls: list(&entry, "tool_calls_json"),
                // Redis has no null.
                thinking: entry.remove("thinking").filter(|text| !text.is_empty()),
            })),
            // A status of its own invention is no success.
            "end" => Some(Self::End(
                entry
                    .get("status")
                    .and_then(|word| RunStatus::parse(word))
                    .unwrap_or(RunStatus::Error),
            )),
            _ => None,
        }
    }

    /// The object that clients get for it, if any.
    #[must_use]
    pub fn answer(self) -> Option<Answer> {
        match self {
            Self::Queued => Some(Answer::default()),
            Self::Chunk(answer) => Some(answer),
            Self::Start | Self::End(_) => None,
        }
    }
}

/// A list in JSON. An entry that has a broken one keeps its text: clients of the original get
/// an empty list then.
fn list(entry: &Entry, field: &str) -> Vec<Value> {
    let Some(text) = entry.get(field) else {
        return Vec::new();
    };
    serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::warn!(%error, field, "a stream entry's list is not JSON");
        Vec::new()
    })
}

/// The entry of a run that was handed over.
#[must_use]
pub fn queued(run: &Run) -> Fields {
    with_status(
        run,
        "queued",
        RunStatus::Queued,
        "Task queued for processing",
    )
}

/// The entry of a run that an agent has taken.
#[must_use]
pub fn start(run: &Run, agent_id: &str) -> Fields {
    let mut fields = with_status(run, "start", RunStatus::Running, "Processing started");
    fields.push(("agent_id", agent_id.to_owned()));
    fields
}

/// The entry of a piece of the answer.
#[must_use]
pub fn chunk(run: &Run, content: &str) -> Fields {
    let mut fields = head(run, "chunk");
    fields.extend([
        ("content", content.to_owned()),
        ("citations_json", "[]".to_owned()),
        ("tool_calls_json", "[]".to_owned()),
        ("thinking", String::new()),
    ]);
    fields
}

/// The last entry.
#[must_use]
pub fn end(run: &Run, status: RunStatus, message: &str) -> Fields {
    with_status(run, "end", status, message)
}

fn with_status(run: &Run, kind: &str, status: RunStatus, message: &str) -> Fields {
    let mut fields = head(run, kind);
    fields.extend([
        ("status", status.as_str().to_owned()),
        ("message", message.to_owned()),
    ]);
    fields
}

fn head(run: &Run, kind: &str) -> Fields {
    vec![
        ("type", kind.to_owned()),
        ("conversation_id", run.conversation_id.clone()),
        ("run_id", run.run_id.clone()),
        ("created_at", jiff::Timestamp::now().to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(fields: Fields) -> Entry {
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let run = Run::new("c", "r");
        assert_eq!(Event::read(entry(queued(&run))), Some(Event::Queued));
        assert_eq!(Event::read(entry(start(&run, "a"))), Some(Event::Start));
        let piece = Answer::text("You ");
        assert_eq!(
            Event::read(entry(chunk(&run, "You "))),
            Some(Event::Chunk(piece))
        );
        assert_eq!(
            Event::read(entry(end(&run, RunStatus::Cancelled, ""))),
            Some(Event::End(RunStatus::Cancelled))
        );
    }

    #[test]
    fn strange_entries_are_passed_over_or_end_in_failure() {
        let fields = |fields: &[(&'static str, &str)]| {
            entry(fields.iter().map(|(n, v)| (*n, (*v).to_owned())).collect())
        };
        assert_eq!(Event::read(fields(&[])), None);
        assert_eq!(Event::read(fields(&[("type", "heartbeat")])), None);
        assert_eq!(
            Event::read(fields(&[("type", "end"), ("status", "timeout")])),
            Some(Event::End(RunStatus::Error))
        );
        let broken = fields(&[("type", "chunk"), ("content", "x"), ("citations_json", "{")]);
        assert_eq!(Event::read(broken), Some(Event::Chunk(Answer::text("x"))));
    }

    #[test]
    fn pieces_add_up() {
        let mut whole = Answer::text("a");
        let piece = Answer {
            message: "b".to_owned(),
            citations: vec![json!("f.rs")],
            tool_calls: vec![json!({"name": "t"})],
            thinking: Some("hm".to_owned()),
        };
        whole.add(piece.clone());
        whole.add(piece);
        assert_eq!(
            whole.to_json(),
            r#"{"message":"abb","citations":["f.rs"],"tool_calls":[{"name":"t"},{"name":"t"}],"thinking":"hmhm"}"#
        );
    }
}
