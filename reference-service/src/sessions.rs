//! What requests do with runs in Redis: claim an id, hand over, look up, stop.
//!
//! Each function is a list of commands on a [`StreamConnection`]; the variants differ in how a
//! command is sent, never in what is sent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::chat_history::{Checkpoint, MessageBuffer, Published, answer_id};
use crate::run::{
    self, CANCEL_TTL_S, RESERVATION_TTL_S, Run, RunStatus, TASK_TTL_S, Task, streams_pattern,
};
use crate::stores::streams::{StreamConnection, StreamStore};
use crate::stores::{StoreError, Stores};
use crate::stream_event;

/// How long the original waits for its worker to let go of a task.
const REVOKE_PAUSE: Duration = Duration::from_millis(500);
/// How long it leaves readers to see the end before the stream is deleted.
const GOODBYE_PAUSE: Duration = Duration::from_millis(200);
/// What an active task is said to need from now on, and a finished one to have ended ago: the
/// original has no better estimate.
const ESTIMATE_ACTIVE_MS: i64 = 60_000;
const ESTIMATE_DONE_MS: i64 = -5_000;

/// Claims the first free id of `base`, `base-1`, …: one whose stream doesn't exist and that
/// nobody else has claimed. EXISTS per id, then SET NX.
///
/// # Errors
/// [`StoreError`] if Redis doesn't answer.
pub async fn reserve(
    redis: &mut dyn StreamConnection,
    conversation_id: &str,
    base: &str,
) -> Result<Run, StoreError> {
    let mut n = 0;
    loop {
        let run = Run::new(conversation_id, run::candidate_id(base, n));
        if !redis.exists(&run.stream_key()).await?
            && redis
                .claim(&run.reservation_key(), RESERVATION_TTL_S)
                .await?
        {
            return Ok(run);
        }
        n += 1;
    }
}

/// Hands a run to the workers: status, `queued` entry, task, the task's id.
///
/// The entry comes before the task, so that a worker finds the stream; and a reader that comes
/// later begins at the stream's start, so nothing is lost to it.
///
/// # Errors
/// [`StoreError`] if Redis doesn't answer.
pub async fn hand_over(store: &dyn StreamStore, task: &Task) -> Result<(), StoreError> {
    let run = task.run();
    let mut redis = store.connect().await?;
    redis
        .put(&run.status_key(), RunStatus::Queued.as_str(), TASK_TTL_S)
        .await?;
    redis
        .append(&run.stream_key(), stream_event::queued(&run))
        .await?;
    let text = serde_json::to_string(task).expect("texts are JSON");
    redis.enqueue(&text).await?;
    redis
        .put(&run.task_id_key(), &task.task_id, TASK_TTL_S)
        .await
}

/// Whether a run can be resumed: its stream is still there.
///
/// # Errors
/// [`StoreError`] if Redis doesn't answer.
pub async fn is_there(redis: &mut dyn StreamConnection, run: &Run) -> Result<bool, StoreError> {
    redis.exists(&run.stream_key()).await
}

/// The session that a client would go on watching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its run.
    pub run: Run,
    /// `None` once the status has expired.
    pub status: Option<RunStatus>,
    /// The id of its last entry.
    pub cursor: String,
    /// When its first entry was written, in ms since 1970.
    pub started_ms: i64,
    /// When its last entry was written.
    pub active_ms: i64,
}

/// The conversation's latest session, by the order of ids as in the original: runs of one base
/// are numbered, and those of several bases it doesn't tell apart either.
///
/// # Errors
/// [`StoreError`] if Redis doesn't answer.
pub async fn latest_session(
    redis: &mut dyn StreamConnection,
    conversation_id: &str,
) -> Result<Option<Session>, StoreError> {
    let Some(run) = runs(redis, conversation_id).await?.pop() else {
        return Ok(None);
    };
    let stream = run.stream_key();
    if !redis.exists(&stream).await? {
        return Ok(None);
    }
    let first = match redis.first_id(&stream).await {
        Err(error) if is_no_such_key(&error) => return Ok(None),
        first => first?,
    };
    let last = redis.last_id(&stream).await?;
    let status = redis.get(&run.status_key()).await?;
    // Neither is there if the stream has gone between two commands.
    Ok(first.zip(last).map(|(first, cursor)| Session {
        run,
        status: status.and_then(|word| RunStatus::parse(&word)),
        started_ms: written_ms(&first),
        active_ms: written_ms(&cursor),
        cursor,
    }))
}

/// What XINFO alone says of a key that isn't there; other commands answer nothing.
fn is_no_such_key(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused { source, .. } if source.to_string().contains("no such key"))
}

/// Runs with a stream, in the order of their ids.
async fn runs(
    redis: &mut dyn StreamConnection,
    conversation_id: &str,
) -> Result<Vec<Run>, StoreError> {
    let keys = redis.matching(&streams_pattern(conversation_id)).await?;
    let mut runs: Vec<Run> = keys
        .iter()
        .filter_map(|key| run::run_of_stream(conversation_id, key))
        .collect();
    run::sort_by_id(&mut runs);
    // A scan may give a key twice.
    runs.dedup();
    Ok(runs)
}

/// When an entry was written: its id is `<ms since 1970>-<sequence>`.
fn written_ms(id: &str) -> i64 {
    let ms = id.split_once('-').map_or(id, |(ms, _)| ms);
    // Redis makes the ids: it is a number.
    ms.parse().unwrap_or(0)
}

/// A conversation's task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatus {
    /// Its run.
    pub run: Run,
    /// Whether it is queued or running.
    pub is_active: bool,
    /// When it will be, or was, done, in ms since 1970.
    pub completion_ms: i64,
}

/// The latest task whose status is known: GET per run, from the latest on.
///
/// # Errors
/// [`StoreError`] if Redis doesn't answer.
pub async fn task_status(
    redis: &mut dyn StreamConnection,
    conversation_id: &str,
) -> Result<Option<TaskStatus>, StoreError> {
    let latest = latest_task(redis, conversation_id).await?;
    Ok(latest.map(|(run, status)| TaskStatus {
        run,
        is_active: status.is_active(),
        completion_ms: now_ms()
            + if status.is_active() {
                ESTIMATE_ACTIVE_MS
            } else {
                ESTIMATE_DONE_MS
            },
    }))
}

/// The run that [`task_status`] tells of.
async fn latest_task(
    redis: &mut dyn StreamConnection,
    conversation_id: &str,
) -> Result<Option<(Run, RunStatus)>, StoreError> {
    for run in runs(redis, conversation_id).await?.into_iter().rev() {
        let word = redis.get(&run.status_key()).await?;
        if let Some(status) = word.and_then(|word| RunStatus::parse(&word)) {
            return Ok(Some((run, status)));
        }
    }
    Ok(None)
}

fn now_ms() -> i64 {
    // A clock before 1970 is set wrong.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
}

/// What came of a request to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// No run was named, and the latest isn't active.
    NoSession,
    /// The run is stopped and its keys are gone. What it had said is this message, if it had
    /// said something.
    Run {
        /// The saved message's id.
        message_id: Option<String>,
    },
}

/// Stops a run, the latest if none is named and it is active: tells the worker, saves what it has said, tells
/// the readers, and deletes its keys.
///
/// The original broadcasts a revocation to its workers before the first pause; ours look for
/// the cancel key, so this is one command less.
///
/// # Errors
/// [`StoreError`] if a server doesn't answer.
pub async fn stop(
    stores: &Stores,
    uid: &str,
    conversation_id: &str,
    session_id: Option<&str>,
) -> Result<Stopped, StoreError> {
    let mut redis = stores.streams.connect().await?;
    let run = match session_id {
        Some(session_id) => Run::new(conversation_id, session_id),
        None => match latest_task(&mut *redis, conversation_id).await? {
            Some((run, status)) if status.is_active() => run,
            _ => return Ok(Stopped::NoSession),
        },
    };
    redis.put(&run.cancel_key(), "true", CANCEL_TTL_S).await?;
    let task_id = redis.get(&run.task_id_key()).await?;
    if task_id.is_some() {
        redis.pause(REVOKE_PAUSE).await?;
    }
    let published = published(&mut *redis, &run).await?;
    let has_beginning = published.has_beginning;
    let said = match published.end {
        None | Some(RunStatus::Cancelled) => {
            said(&mut *redis, published, task_id.as_deref()).await?
        }
        // It ended by itself: then its worker has stored it.
        Some(_) => MessageBuffer::default(),
    };
    let message_id = match said.message(answer_id(task_id)) {
        Some(message) => {
            let history = &stores.history;
            let saved = history.save_answer(uid, conversation_id, &message).await?;
            // What is stored already is longer: by the beginning, at least, if that isn't here.
            (saved || !has_beginning).then_some(message.id)
        }
        None => None,
    };
    let end = stream_event::end(&run, RunStatus::Cancelled, "Generation stopped by user");
    redis.append(&run.stream_key(), end).await?;
    redis
        .put(&run.status_key(), RunStatus::Cancelled.as_str(), TASK_TTL_S)
        .await?;
    redis.pause(GOODBYE_PAUSE).await?;
    let keys = [
        run.stream_key(),
        run.cancel_key(),
        run.task_id_key(),
        run.status_key(),
    ];
    redis.delete(&keys).await?;
    Ok(Stopped::Run { message_id })
}

/// What a run's stream has of its answer.
async fn published(redis: &mut dyn StreamConnection, run: &Run) -> Result<Published, StoreError> {
    let stream = run.stream_key();
    let entries = if redis.exists(&stream).await? {
        redis.entries(&stream).await?
    } else {
        Vec::new()
    };
    Ok(Published::read(entries))
}

/// What a run has said: of a long answer also what its stream has forgotten and its worker kept, which
/// costs one GET.
async fn said(
    redis: &mut dyn StreamConnection,
    published: Published,
    task_id: Option<&str>,
) -> Result<MessageBuffer, StoreError> {
    let kept = match task_id {
        Some(task_id) if published.lacks_its_beginning() => {
            redis.get(&run::checkpoint_key(task_id)).await?
        }
        _ => None,
    };
    Ok(published.said(kept.as_deref().and_then(Checkpoint::read)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::Backend;

    #[test]
    fn a_stream_that_is_gone_is_no_failure() {
        let refused = |text: &str| StoreError::refused(Backend::Redis, text);
        assert!(is_no_such_key(&refused("ERR: no such key")));
        assert!(!is_no_such_key(&refused("ERR: syntax error")));
    }

    #[test]
    fn an_entrys_id_tells_when_it_was_written() {
        assert_eq!(written_ms("1700000000000-3"), 1_700_000_000_000);
        assert_eq!(written_ms("1-0"), 1);
    }
}
