//! A run: one answer in the making. Its names in Redis, how long they live, and how it is
//! handed to a worker.
//!
//! The service, the worker and whoever else takes part (in any language) meet only here: in
//! these keys, in the entries of the stream (`stream_event`), and in [`Task`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// The list from which workers take tasks: pushed on the right, taken from the left.
pub const QUEUE: &str = "agent:runs";
/// Life of a run's stream after its last entry.
pub const STREAM_TTL_S: i64 = 900;
/// Entries that a stream keeps, about.
pub const STREAM_ENTRIES_MAX: u32 = 1000;
/// Life of a run's status and of its task's id.
pub const TASK_TTL_S: i64 = 600;
/// Life of a request to stop.
pub const CANCEL_TTL_S: i64 = 300;
/// Life of the claim on a run id whose stream doesn't exist yet.
pub const RESERVATION_TTL_S: i64 = 120;

/// The names of one run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    /// The conversation that it answers in.
    pub conversation_id: String,
    /// Its id within the conversation; clients call it session.
    pub run_id: String,
}

impl Run {
    /// A run by its two ids.
    pub fn new(conversation_id: impl Into<String>, run_id: impl Into<String>) -> Self {
        Self {
            conversation_id: conversation_id.into(),
            run_id: run_id.into(),
        }
    }

    /// Where its entries are.
    #[must_use]
    pub fn stream_key(&self) -> String {
        self.key("chat:stream")
    }

    /// Where its [`RunStatus`] is.
    #[must_use]
    pub fn status_key(&self) -> String {
        self.key("task:status")
    }

    /// Where the id of its task is.
    #[must_use]
    pub fn task_id_key(&self) -> String {
        self.key("task:id")
    }

    /// Where a request to stop it is put.
    #[must_use]
    pub fn cancel_key(&self) -> String {
        self.key("cancel")
    }

    /// Where its id is claimed until its stream exists.
    #[must_use]
    pub fn reservation_key(&self) -> String {
        self.key("chat:stream:reservation")
    }

    fn key(&self, kind: &str) -> String {
        format!("{kind}:{}:{}", self.conversation_id, self.run_id)
    }
}

/// Where a worker keeps what it has said of a long answer, beside the run's stream, which forgets its
/// first entries (`chat_history`). It lives as long as the stream.
#[must_use]
pub fn checkpoint_key(task_id: &str) -> String {
    format!("agent:said:{task_id}")
}

/// The glob of a conversation's streams, as KEYS and SCAN take it.
#[must_use]
pub fn streams_pattern(conversation_id: &str) -> String {
    let mut pattern = String::from("chat:stream:");
    for c in conversation_id.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern + ":*"
}

/// The run whose stream is at a key, if the key is of this conversation.
#[must_use]
pub fn run_of_stream(conversation_id: &str, stream_key: &str) -> Option<Run> {
    let run_id = stream_key
        .strip_prefix("chat:stream:")?
        .strip_prefix(conversation_id)?
        .strip_prefix(':')?;
    Some(Run::new(conversation_id, run_id))
}

/// The id that a request asks for: its session, or one made of its user and the message before.
#[must_use]
pub fn base_id(uid: &str, session_id: Option<&str>, previous_message_id: Option<&str>) -> String {
    match session_id {
        Some(session_id) => session_id.to_owned(),
        None => format!(
            "conversation:{uid}:{}",
            previous_message_id.unwrap_or("new")
        ),
    }
}

/// The `n`th id to try: the base itself, then `-1`, `-2`, …
#[must_use]
pub fn candidate_id(base: &str, n: u32) -> String {
    if n == 0 {
        base.to_owned()
    } else {
        format!("{base}-{n}")
    }
}

/// Puts runs of one base in the order in which their ids were given out, so that `-10` comes
/// after `-9`.
pub fn sort_by_id(runs: &mut [Run]) {
    runs.sort_by(|a, b| id_order(&a.run_id).cmp(&id_order(&b.run_id)));
}

fn id_order(run_id: &str) -> (&str, u32, &str) {
    let numbered = run_id
        .rsplit_once('-')
        .and_then(|(base, number)| Some((base, number.parse().ok()?)));
    match numbered {
        Some((base, number)) => (base, number, run_id),
        None => (run_id, 0, run_id),
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// No worker has taken it.
    Queued,
    /// A worker answers.
    Running,
    /// The answer is whole.
    Completed,
    /// The worker failed.
    Error,
    /// Somebody stopped it.
    Cancelled,
}

impl RunStatus {
    /// Its word in Redis.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the word; `None` for one that no worker writes.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [
            Self::Queued,
            Self::Running,
            Self::Completed,
            Self::Error,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|status| status.as_str() == word)
    }

    /// Whether entries may still come.
    #[must_use]
    pub fn is_active(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a worker is asked to do: an element of [`QUEUE`], in JSON. The run's stream must exist
/// by then (with its `queued` entry): a worker lets go of a run whose stream is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its id, any unique text.
    pub task_id: String,
    /// The conversation to answer in.
    pub conversation_id: String,
    /// The run to answer as.
    pub run_id: String,
    /// Who asks. The conversation must be theirs.
    pub user_id: String,
    /// What is asked.
    pub content: String,
    /// Who answers; a worker may choose if it is absent.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// Answer the conversation's last question anew; `content` is not looked at.
    #[serde(default, skip_serializing_if = "is_false")]
    pub regenerate: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Task {
    /// The run that it is about.
    #[must_use]
    pub fn run(&self) -> Run {
        Run::new(&*self.conversation_id, &*self.run_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_one_conversation_only() {
        assert_eq!(streams_pattern("c-1"), "chat:stream:c-1:*");
        assert_eq!(
            streams_pattern("c*[1]?\\"),
            "chat:stream:c\\*\\[1\\]\\?\\\\:*"
        );
    }

    #[test]
    fn ids_come_from_the_session_or_from_user_and_message() {
        assert_eq!(base_id("u-1", Some("s"), Some("m")), "s");
        assert_eq!(base_id("u-1", None, Some("m")), "conversation:u-1:m");
        assert_eq!(base_id("u-1", None, None), "conversation:u-1:new");
        assert_eq!([candidate_id("s", 0), candidate_id("s", 2)], ["s", "s-2"]);
    }

    #[test]
    fn keys_and_runs_turn_into_each_other() {
        let run = Run::new("c-1", "conversation:u-1:new-3");
        assert_eq!(run.stream_key(), "chat:stream:c-1:conversation:u-1:new-3");
        assert_eq!(run_of_stream("c-1", &run.stream_key()), Some(run));
        assert_eq!(run_of_stream("c-1", "chat:stream:c-10:x"), None);
    }

    #[test]
    fn ten_comes_after_nine() {
        let mut runs = ["s-10", "s", "s-9", "s-x", "s-1"].map(|id| Run::new("c", id));
        sort_by_id(&mut runs);
        let ids = runs.map(|run| run.run_id);
        assert_eq!(ids, ["s", "s-1", "s-9", "s-10", "s-x"]);
    }

    #[test]
    fn a_task_is_what_other_languages_push() {
        let text = r#"{"task_id":"t","conversation_id":"c","run_id":"r","user_id":"u","content":"hi","agent_id":"a-1"}"#;
        let task: Task = serde_json::from_str(text).expect("a task");
        assert_eq!(task.run(), Run::new("c", "r"));
        assert!(!task.regenerate);
        assert_eq!(serde_json::to_string(&task).expect("JSON"), text);
    }

    #[test]
    fn statuses_are_read_back() {
        for word in ["queued", "running", "completed", "error", "cancelled"] {
            assert_eq!(RunStatus::parse(word).map(RunStatus::as_str), Some(word));
        }
        assert_eq!(RunStatus::parse("pending"), None);
    }
}
