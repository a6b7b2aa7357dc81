//! Chat history: an answer in the making, and the message that is stored of it.
//!
//! Pieces of an answer are gathered in a [`MessageBuffer`] and stored in one statement, when the
//! answer is whole, when its user has stopped it, or when its worker ends. Whoever stores it gives
//! it the same id, so that an answer that two of them store is there once, as far as it came.

use serde_json::Value;

use crate::conversation::fresh_id;
use crate::stream_event::Answer;

/// What an agent has said in one run and nobody has stored. The original keeps one per
/// conversation; here runs of one conversation may answer at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageBuffer {
    said: Answer,
}

impl MessageBuffer {
    /// Adds the next piece. Touches no store.
    pub fn add_chunk(&mut self, piece: Answer) {
        self.said.add(piece);
    }

    /// What is to be stored of it: nothing if there is no text. The buffer keeps it, since who
    /// can't store it tries again.
    #[must_use]
    pub fn message(&self, id: String) -> Option<AgentMessage> {
        (!self.said.message.is_empty()).then(|| AgentMessage::of(id, self.said.clone()))
    }
}

/// An agent's message as a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentMessage {
    /// Its id.
    pub id: String,
    /// Its text.
    pub content: String,
    /// Where it comes from, with commas between, as the original has it.
    pub citations: Option<String>,
    /// What the agent did for it: a list in JSON.
    pub tool_calls: String,
    /// What the agent thought.
    pub thinking: Option<String>,
}

impl AgentMessage {
    fn of(id: String, said: Answer) -> Self {
        let citations: Vec<String> = said.citations.into_iter().map(as_text).collect();
        Self {
            id,
            content: said.message,
            citations: (!citations.is_empty()).then(|| citations.join(",")),
            tool_calls: Value::Array(said.tool_calls).to_string(),
            thinking: said.thinking,
        }
    }
}

fn as_text(citation: Value) -> String {
    match citation {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The id of the message that answers a task: the task's own, for all who may store it. A run whose
/// task nobody knows any more is stored once at most, by who stops it.
#[must_use]
pub fn answer_id(task_id: Option<String>) -> String {
    task_id.unwrap_or_else(fresh_id)
}

/// The id of the message that a task asks, the same however often a worker begins with it.
#[must_use]
pub fn question_id(task_id: &str) -> String {
    format!("question-{task_id}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_become_one_message_however_often_it_is_asked_for() {
        let mut buffer = MessageBuffer::default();
        buffer.add_chunk(Answer::text("You "));
        buffer.add_chunk(Answer {
            message: "asked".to_owned(),
            citations: vec![json!("a.rs"), json!({"file": "b.rs"})],
            tool_calls: vec![json!({"name": "search"})],
            thinking: Some("hm".to_owned()),
        });
        let expected = AgentMessage {
            id: "m".to_owned(),
            content: "You asked".to_owned(),
            citations: Some(r#"a.rs,{"file":"b.rs"}"#.to_owned()),
            tool_calls: r#"[{"name":"search"}]"#.to_owned(),
            thinking: Some("hm".to_owned()),
        };
        for _ in 0..2 {
            assert_eq!(buffer.message("m".to_owned()).as_ref(), Some(&expected));
        }
    }

    #[test]
    fn what_has_no_text_is_not_stored() {
        let mut buffer = MessageBuffer::default();
        assert_eq!(buffer.message("m".to_owned()), None);
        buffer.add_chunk(Answer {
            tool_calls: vec![json!({"name": "search"})],
            ..Answer::default()
        });
        assert_eq!(buffer.message("m".to_owned()), None);
    }

    #[test]
    fn a_plain_text_has_no_citations_and_an_empty_list_of_calls() {
        let mut buffer = MessageBuffer::default();
        buffer.add_chunk(Answer::text("x"));
        let message = buffer.message("m".to_owned()).expect("a text");
        assert_eq!((message.citations, message.thinking), (None, None));
        assert_eq!(message.tool_calls, "[]");
    }

    #[test]
    fn an_answer_has_its_tasks_id() {
        assert_eq!(answer_id(Some("t".to_owned())), "t");
        assert_ne!(answer_id(None), answer_id(None));
        assert_ne!(question_id("t"), "t");
    }
}
