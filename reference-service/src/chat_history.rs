//! Chat history: an answer in the making, and the message that is stored of it.
//!
//! Pieces of an answer are gathered in a [`MessageBuffer`] and stored in one statement, when the
//! answer is whole, when its user has stopped it, or when its worker ends. Whoever stores it gives
//! it the same id, so that an answer that two of them store is there once, as far as either has it:
//! its worker all that it said, others what the run's stream still has, and before that what the
//! worker kept beside it, in a [`Checkpoint`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::fresh_id;
use crate::entry_id::EntryId;
use crate::run::{RunStatus, STREAM_ENTRIES_MAX};
use crate::stream_event::{Answer, EntryWithId, Event};

/// More than a stream ever has of entries that are no pieces: queued, start (one per worker that
/// begins anew) and end.
const OTHER_ENTRIES_MAX: usize = 100;
/// Pieces from one checkpoint to the next: less than half of what a stream keeps, so that the last
/// entry of one is still there when the next is made.
const CHECKPOINT_PIECES: usize = 400;
/// What stands in an answer for what nobody has any more.
const BEGINNING_LOST: &str = "[The beginning of this answer is lost.] ";
const PART_LOST: &str = " [A part of this answer is lost.] ";

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

    /// All that was said, if it is time to keep it beside the stream, whose newest entry has the
    /// newest piece.
    #[must_use]
    pub fn checkpoint(&self, newest: EntryId) -> Option<Checkpoint> {
        let is_due = self.pieces > 0 && self.pieces.is_multiple_of(CHECKPOINT_PIECES);
        is_due.then(|| Checkpoint {
            up_to: newest,
            said: self.said.clone(),
        })
    }

    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces == 0
    }

    /// What is to be stored of it: nothing if there is no text. The buffer keeps it, since who
    /// can't store it tries again.
    #[must_use]
    pub fn message(&self, id: String) -> Option<AgentMessage> {
        (!self.said.message.is_empty()).then(|| AgentMessage::of(id, self.said.clone()))
    }
}

/// What was said in a run up to an entry of its stream. Its worker keeps the newest in Redis
/// ([`checkpoint_key`](crate::run::checkpoint_key)), for whoever stores the answer if the worker can't.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    up_to: EntryId,
    said: Answer,
}

impl Checkpoint {
    /// As it is kept.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and JSON values are JSON")
    }

    /// Reads what is kept. What isn't readable counts as lost, and the answer will say so.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match serde_json::from_str(text) {
            Ok(checkpoint) => Some(checkpoint),
            Err(error) => {
                tracing::error!(%error, "what was kept of a long answer is no checkpoint; it counts as lost");
                None
            }
        }
    }
}

/// What a run's stream has of its answer.
#[derive(Debug)]
pub struct Published {
    /// Of the first entry that it still has.
    first: Option<EntryId>,
    /// The pieces that it still has, up to the first end.
    pieces: Vec<(EntryId, Answer)>,
    /// How the run ended, if it has.
    pub end: Option<RunStatus>,
    /// Whether the run's first entry is there, and with it every piece.
    pub has_beginning: bool,
}

impl Published {
    /// Reads a stream's entries.
    #[must_use]
    pub fn read(entries: Vec<EntryWithId>) -> Self {
        let mut published = Self {
            first: entries.first().map(|(id, _)| *id),
            pieces: Vec::new(),
            end: None,
            has_beginning: false,
        };
        for (id, entry) in entries {
            match Event::read(entry) {
                Some(Event::Queued) => published.has_beginning |= published.first == Some(id),
                Some(Event::Start) | None => (),
                Some(Event::Chunk(piece)) => published.pieces.push((id, piece)),
                Some(Event::End(status)) => {
                    published.end = Some(status);
                    break;
                }
            }
        }
        published
    }

    /// Whether pieces are there, and those before them aren't: then a checkpoint is of use.
    #[must_use]
    pub fn lacks_its_beginning(&self) -> bool {
        !self.has_beginning && !self.pieces.is_empty()
    }

    /// What was said: the pieces, and before them what the stream has forgotten, if the checkpoint
    /// has it. Where neither has something, the answer says so.
    #[must_use]
    pub fn said(self, checkpoint: Option<Checkpoint>) -> MessageBuffer {
        let mut said = MessageBuffer::default();
        let mut known = EntryId::START;
        if self.lacks_its_beginning() {
            match checkpoint {
                None => said.add_chunk(Answer::text(BEGINNING_LOST)),
                Some(checkpoint) => {
                    known = checkpoint.up_to;
                    said.add_chunk(checkpoint.said);
                    // From the first entry that is there all are.
                    if self.first.is_some_and(|first| first > known) {
                        said.add_chunk(Answer::text(PART_LOST));
                    }
                }
            }
        }
        for (id, piece) in self.pieces {
            if id > known {
                said.add_chunk(piece);
            }
        }
        said
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

    /// Entries with the ids 1, 2 and so on.
    fn published(entries: &[Fields], from: usize) -> Published {
        let with_id = |(n, fields): (usize, &Fields)| {
            let id: EntryId = (n + 1).to_string().parse().expect("a number");
            let fields = fields.iter().cloned();
            let entry = fields.map(|(name, value)| (name.to_owned(), value));
            (id, entry.collect())
        };
        let entries = entries.iter().enumerate().skip(from);
        Published::read(entries.map(with_id).collect())
    }

    fn text(said: &MessageBuffer) -> Option<String> {
        said.message(String::new()).map(|message| message.content)
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
        let whole = published(&entries, 0);
        assert_eq!(whole.end, Some(RunStatus::Cancelled));
        assert!(whole.has_beginning && !whole.lacks_its_beginning());
        assert_eq!(text(&whole.said(None)).as_deref(), Some("You asked"));
        let rest = published(&entries[..4], 3);
        assert_eq!(rest.end, None);
        assert!(rest.lacks_its_beginning());
        for none in [published(&[], 0), published(&entries[..2], 1)] {
            assert!(!none.has_beginning && !none.lacks_its_beginning());
            assert!(none.said(None).is_empty());
        }
    }

    #[test]
    fn a_checkpoint_and_the_rest_of_a_stream_are_whole_or_say_what_is_lost() {
        let run = Run::new("c", "r");
        let words = ["a ", "b ", "c ", "d "];
        let entries = words.map(|word| stream_event::chunk(&run, word));
        for (kept, expected) in [
            (Some((2, "a b ")), "a b c d "),
            (Some((3, "a b c ")), "a b c d "),
            (Some((4, "a b c d ")), "a b c d "),
            (
                Some((1, "a ")),
                "a  [A part of this answer is lost.] b c d ",
            ),
            (None, "[The beginning of this answer is lost.] b c d "),
        ] {
            let checkpoint = kept.map(|(up_to, said)| {
                let text = format!(
                    r#"{{"up_to":"{up_to}-0","said":{}}}"#,
                    Answer::text(said).to_json()
                );
                Checkpoint::read(&text).expect("a checkpoint")
            });
            // The first is gone.
            let said = published(&entries, 1).said(checkpoint);
            assert_eq!(text(&said).as_deref(), Some(expected));
        }
        assert_eq!(Checkpoint::read("{}"), None);
    }

    #[test]
    fn checkpoints_come_often_enough_for_a_stream() {
        let mut buffer = MessageBuffer::default();
        let newest: EntryId = "7-1".parse().expect("an id");
        assert_eq!(buffer.checkpoint(newest), None);
        let mut made = Vec::new();
        for piece in 1..=1000 {
            buffer.add_chunk(Answer::text("a"));
            made.extend(
                buffer
                    .checkpoint(newest)
                    .map(|checkpoint| (piece, checkpoint)),
            );
        }
        assert_eq!(made.len(), 2);
        let (piece, checkpoint) = &made[1];
        assert_eq!((*piece, checkpoint.said.message.len()), (800, 800));
        let read = Checkpoint::read(&checkpoint.to_json());
        assert_eq!(read.as_ref(), Some(checkpoint));
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
