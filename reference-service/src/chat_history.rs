//! Chat history: an answer in the making, and the message that is stored of it.
//!
//! Pieces of an answer are gathered in a [`MessageBuffer`] and stored in one statement, when the
//! answer is whole, when its user has stopped it, or when its worker ends. Whoever stores it gives
//! it the same id, so that an answer that two of them store is there once, as far as either has it:
//! its worker all that it said, others what the run's stream still has.

use serde_json::Value;

use crate::conversation::fresh_id;
use crate::run::{RunStatus, STREAM_ENTRIES_MAX};
use crate::stream_event::{Answer, Entry, Event};

/// More than a stream ever has of entries that are no pieces: queued, start (one per worker that
/// begins anew) and end.
const OTHER_ENTRIES_MAX: usize = 100;

/// What an agent has said in one run and nobody has stored. The original keeps one per
/// conversation; here runs of one conversation may answer at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageBuffer {
    said: Answer,
    pieces: usize,
}

impl MessageBuffer {
    /// Adds the next piece. Touches no store.
    pub fn add_chunk(&mut self, piece: Answer) {
        self.said.add(piece);
        self.pieces += 1;
    }

    /// Whether a stream may have lost the first of so many pieces.
    #[must_use]
    pub fn may_outgrow_its_stream(&self) -> bool {
        self.pieces + OTHER_ENTRIES_MAX > STREAM_ENTRIES_MAX as usize
    }

    /// What is to be stored of it: nothing if there is no text. The buffer keeps it, since who
    /// can't store it tries again.
    #[must_use]
    pub fn message(&self, id: String) -> Option<AgentMessage> {
        (!self.said.message.is_empty()).then(|| AgentMessage::of(id, self.said.clone()))
    }
}

/// What a run's stream has of its answer.
#[derive(Debug)]
pub struct Published {
    /// The pieces that it still has, up to the first end.
    pub said: MessageBuffer,
    /// How the run ended, if it has.
    pub end: Option<RunStatus>,
    /// Whether the first entry is there, and with it every piece.
    pub has_beginning: bool,
}

impl Published {
    /// Reads a stream's entries.
    #[must_use]
    pub fn read(entries: Vec<Entry>) -> Self {
        let mut events = entries.into_iter().map(Event::read).peekable();
        let has_beginning = matches!(events.peek(), Some(Some(Event::Queued)));
        let mut said = MessageBuffer::default();
        let mut end = None;
        for event in events.flatten() {
            match event {
                Event::Queued | Event::Start => (),
                Event::Chunk(piece) => said.add_chunk(piece),
                Event::End(status) => {
                    end = Some(status);
                    break;
                }
            }
        }
        Self {
            said,
            end,
            has_beginning,
        }
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
    use crate::run::Run;
    use crate::stream_event::{self, Fields};

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

    fn published(entries: &[Fields]) -> Published {
        let owned = |fields: &Fields| {
            let fields = fields.iter().cloned();
            fields
                .map(|(name, value)| (name.to_owned(), value))
                .collect()
        };
        Published::read(entries.iter().map(owned).collect())
    }

    #[test]
    fn a_stream_tells_what_it_has_up_to_its_end_and_whether_that_is_all() {
        let run = Run::new("c", "r");
        let entries = [
            stream_event::queued(&run),
            stream_event::start(&run, "a"),
            stream_event::chunk(&run, "You "),
            stream_event::chunk(&run, "asked"),
            stream_event::end(&run, RunStatus::Cancelled, ""),
            stream_event::end(&run, RunStatus::Completed, ""),
        ];
        let text = |published: &Published| published.said.message(String::new()).map(|m| m.content);
        let whole = published(&entries);
        assert_eq!(text(&whole).as_deref(), Some("You asked"));
        assert_eq!(whole.end, Some(RunStatus::Cancelled));
        assert!(whole.has_beginning);
        let rest = published(&entries[3..4]);
        assert_eq!(text(&rest).as_deref(), Some("asked"));
        assert_eq!(rest.end, None);
        assert!(!rest.has_beginning);
        assert_eq!(text(&published(&[])), None);
    }

    #[test]
    fn a_stream_has_room_for_most_answers() {
        let mut buffer = MessageBuffer::default();
        for _ in 0..900 {
            buffer.add_chunk(Answer::text("a "));
        }
        assert!(!buffer.may_outgrow_its_stream());
        buffer.add_chunk(Answer::text("a "));
        assert!(buffer.may_outgrow_its_stream());
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
