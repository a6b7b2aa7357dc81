//! What requests do with runs in Redis: claim an id, hand over, look up, stop.
//!
//! Each function is a list of commands on a [`StreamConnection`]; the variants differ in how a
//! command is sent, never in what is sent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::run::{
    self, CANCEL_TTL_S, RESERVATION_TTL_S, Run, RunStatus, TASK_TTL_S, Task, streams_pattern,
};
use crate::stores::streams::{StreamConnection, StreamStore};
use crate::stores::{StoreError, Stores};
use crate::stream_event::{self, Answer, Event};

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
    store: &dyn StreamStore,
    conversation_id: &str,
    base: &str,
) -> Result<Run, StoreError> {
    let mut redis = store.connect().await?;
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
pub async fn is_there(store: &dyn StreamStore, run: &Run) -> Result<bool, StoreError> {
    store.connect().await?.exists(&run.stream_key()).await
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

/// The conversation's session with the newest entry.
///
/// The original takes the greatest key and doesn't compare entries; for one run, the usual
/// case, its commands are these.
///
/// # Errors
/// [`StoreError`] if Redis doesn't answer.
pub async fn newest_session(
    store: &dyn StreamStore,
    conversation_id: &str,
) -> Result<Option<Session>, StoreError> {
    let mut redis = store.connect().await?;
    let Some((run, cursor)) = newest_run(&mut *redis, conversation_id).await? else {
        return Ok(None);
    };
    let stream = run.stream_key();
    // Gone between two commands.
    if !redis.exists(&stream).await? {
        return Ok(None);
    }
    let first = redis.first_id(&stream).await?;
    let status = redis.get(&run.status_key()).await?;
    let active_ms = written_ms(&cursor);
    Ok(Some(Session {
        status: status.and_then(|word| RunStatus::parse(&word)),
        started_ms: first.map_or(active_ms, |id| written_ms(&id)),
        active_ms,
        cursor,
        run,
    }))
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

/// The run whose last entry is the newest, with that entry's id.
async fn newest_run(
    redis: &mut dyn StreamConnection,
    conversation_id: &str,
) -> Result<Option<(Run, String)>, StoreError> {
    let mut newest: Option<(Run, String)> = None;
    for run in runs(redis, conversation_id).await? {
        let Some(id) = redis.last_id(&run.stream_key()).await? else {
            continue;
        };
        match &newest {
            Some((_, other)) if id_order(other) > id_order(&id) => (),
            _ => newest = Some((run, id)),
        }
    }
    Ok(newest)
}

/// An entry's id, `<ms>-<sequence>`, in the order of time.
fn id_order(id: &str) -> (u64, u64) {
    let (ms, sequence) = id.split_once('-').unwrap_or((id, "0"));
    // Redis makes the ids: both are numbers. Zero would sort one that isn't first.
    (ms.parse().unwrap_or(0), sequence.parse().unwrap_or(0))
}

fn written_ms(id: &str) -> i64 {
    i64::try_from(id_order(id).0).unwrap_or(i64::MAX)
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

/// The latest task that is active, else the latest that is known at all: GET per run.
///
/// # Errors
/// [`StoreError`] if Redis doesn't answer.
pub async fn task_status(
    store: &dyn StreamStore,
    conversation_id: &str,
) -> Result<Option<TaskStatus>, StoreError> {
    let mut redis = store.connect().await?;
    let latest = latest_task(&mut *redis, conversation_id).await?;
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
    let mut latest = None;
    for run in runs(redis, conversation_id).await?.into_iter().rev() {
        let word = redis.get(&run.status_key()).await?;
        let Some(status) = word.and_then(|word| RunStatus::parse(&word)) else {
            continue;
        };
        if status.is_active() {
            return Ok(Some((run, status)));
        }
        latest.get_or_insert((run, status));
    }
    Ok(latest)
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
    /// No run was named, and none is active.
    NoSession,
    /// The run is stopped and its keys are gone. What it had said is this message, if it had
    /// said something.
    Run {
        /// The saved message's id.
        message_id: Option<String>,
    },
}

/// Stops a run, the latest active one if none is named: tells the worker, saves what it has said, tells
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
    if redis.get(&run.task_id_key()).await?.is_some() {
        redis.pause(REVOKE_PAUSE).await?;
    }
    let message_id = match said_so_far(&mut *redis, &run).await? {
        Some(said) => {
            let history = &stores.history;
            history.save_partial(uid, conversation_id, &said).await?
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

/// What a run has said that nobody has stored: nothing if it ended by itself, since then its
/// worker has stored it.
async fn said_so_far(
    redis: &mut dyn StreamConnection,
    run: &Run,
) -> Result<Option<String>, StoreError> {
    let stream = run.stream_key();
    if !redis.exists(&stream).await? {
        return Ok(None);
    }
    let mut said = Answer::default();
    for entry in redis.entries(&stream).await? {
        match Event::read(entry) {
            Some(Event::Chunk(piece)) => said.add(piece),
            Some(Event::End(RunStatus::Cancelled)) => break,
            Some(Event::End(_)) => return Ok(None),
            Some(Event::Queued | Event::Start) | None => (),
        }
    }
    Ok(Some(said.message).filter(|message| !message.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_ordered_by_time_and_then_sequence() {
        assert!(id_order("1700000000000-10") > id_order("1700000000000-9"));
        assert!(id_order("1700000000001-0") > id_order("1700000000000-9"));
        assert_eq!(written_ms("1700000000000-3"), 1_700_000_000_000);
    }
}
