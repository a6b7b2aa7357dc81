//! One run from its first entry to its last.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::answer::{pieces, thinking};
use super::cancellations::Cancellations;
use super::journal::Journal;
use super::pace::Pace;
use super::publisher::{Publisher, StreamGone};
use super::takings::{Taken, Takings};
use crate::chat_history::{MessageBuffer, Published, answer_id};
use crate::run::{Run, RunStatus, Task};
use crate::stores::StoreError;
use crate::stream_event::{self, Answer};

/// Who answers a task that names nobody.
const DEFAULT_AGENT: &str = "default";
/// Time between two prolongations of a run's keys: a tenth of the shortest life.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(60);
/// How long a run that ends too soon tries to store what it has before its readers are told. What
/// isn't stored by then is found again, by this worker or the next.
const KEEP_WITHIN: Duration = Duration::from_millis(800);
/// Tries of the last entry, and the pause after the first; it doubles after each. A reader
/// stops at the first end that it sees, so a second one does no harm.
const END_ATTEMPTS: u32 = 5;
const END_FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Attempts at a run, all workers' together: who falls over it so often would do so for ever.
const ATTEMPTS_MAX: i64 = 3;

/// An agent that echoes.
#[derive(Debug, Clone)]
pub struct Agent {
    /// To its readers.
    pub publisher: Publisher,
    /// From those who want it to stop.
    pub cancellations: Cancellations,
    /// For those who come later.
    pub journal: Journal,
    /// For whoever comes after this worker.
    pub takings: Takings,
    /// Its rhythm.
    pub pace: Pace,
    /// Pieces of each answer; `None` for as many as it has words.
    pub chunks: Option<usize>,
    /// Whether the worker ends.
    pub stopped: watch::Receiver<bool>,
}

/// How a run went.
enum Outcome {
    Completed,
    Cancelled,
    Failed(String),
    /// There is nobody left to tell.
    Gone,
}

impl From<StoreError> for Outcome {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a run failed");
        Self::Failed(format!("The agent failed: {error}"))
    }
}

impl From<StreamGone> for Outcome {
    fn from(_: StreamGone) -> Self {
        Self::Gone
    }
}

impl Agent {
    /// Answers, and ends the run whatever happens. What it said until then is stored, but for a
    /// run that somebody stops: who stops it stores it, from its stream, unless that may not have
    /// all of it.
    pub async fn perform(self, taken: Taken) {
        let task = &taken.task;
        let run = task.run();
        let watch = self.cancellations.watch(&run);
        let mut stopped = self.stopped.clone();
        let mut said = MessageBuffer::default();
        let outcome = tokio::select! {
            biased;
            // An error means that the worker's own task is gone: end as well.
            _ = stopped.wait_for(|stopped| *stopped) => {
                Outcome::Failed("The agent's worker was stopped".to_owned())
            }
            () = watch.cancelled() => Outcome::Cancelled,
            answered = self.answer(task, &run, &mut said) => match answered {
                Ok(()) => Outcome::Completed,
                Err(outcome) => outcome,
            },
        };
        drop(watch);
        let (status, message, is_kept) = match outcome {
            Outcome::Completed => (RunStatus::Completed, "Completed".to_owned(), true),
            Outcome::Cancelled => {
                if said.may_outgrow_its_stream() {
                    // Where that fails who stops it stores what there is: it isn't tried again.
                    self.keep(task, &said).await;
                }
                let message = "Generation stopped by user".to_owned();
                (RunStatus::Cancelled, message, true)
            }
            Outcome::Failed(reason) => (RunStatus::Error, reason, self.keep(task, &said).await),
            Outcome::Gone => {
                tracing::debug!(stream = run.stream_key(), "nobody listens any more");
                // Gone with its task, it was lost and not stopped.
                let is_stopped = matches!(self.takings.ended(&taken).await, Ok(true));
                if !is_stopped || said.may_outgrow_its_stream() {
                    self.keep(task, &said).await;
                }
                return;
            }
        };
        self.end(&run, status, &message).await;
        self.let_go(taken, is_kept).await;
    }

    /// Brings a run to its end that somebody began and can't: a worker that is dead, or this one,
    /// whose attempt panicked. The third attempt is the last.
    pub async fn take_over(self, taken: Taken) {
        let task = taken.task.clone();
        let takings = self.takings.clone();
        match takings.begin_again(&task).await {
            Ok(in_vain) if in_vain >= ATTEMPTS_MAX => self.give_up(taken).await,
            Ok(_) => self.go_on(taken).await,
            Err(error) => {
                let stream = task.run().stream_key();
                tracing::warn!(%error, stream, "a run that was begun can't be taken over yet");
                // It is found again.
                return;
            }
        }
        if let Err(error) = takings.forget_attempts(&task).await {
            tracing::debug!(%error, "attempts at a run stay counted");
        }
    }

    /// Answers from the beginning a run that hasn't said anything yet. Half an answer can't be gone on
    /// with, since the rest would be another's; what there is of it is stored, and its readers are
    /// told.
    async fn go_on(self, taken: Taken) {
        let run = taken.task.run();
        let (said, end) = match self.said(&taken.task).await {
            Ok(Some(found)) => found,
            Ok(None) => return self.let_go(taken, true).await,
            Err(error) => {
                tracing::warn!(%error, stream = run.stream_key(), "a dead worker's run can't be read");
                // It is found again.
                return self.let_go(taken, false).await;
            }
        };
        let is_kept = match end {
            None if said.is_empty() => return self.perform(taken).await,
            None => {
                let is_kept = self.keep(&taken.task, &said).await;
                self.end(&run, RunStatus::Error, "The agent's worker died")
                    .await;
                is_kept
            }
            // Its readers were told that it failed before it could be stored.
            Some(RunStatus::Error) => self.keep(&taken.task, &said).await,
            Some(_) => true,
        };
        self.let_go(taken, is_kept).await;
    }

    /// Ends a run as failed over which everybody falls who begins with it.
    async fn give_up(&self, taken: Taken) {
        let task = taken.task.clone();
        let stream = task.run().stream_key();
        tracing::error!(
            stream,
            task_id = task.task_id,
            "a run is given up: {ATTEMPTS_MAX} attempts have come to no end"
        );
        self.end(&task.run(), RunStatus::Error, "The agent failed to answer")
            .await;
        // Before anything that they may have fallen over.
        self.let_go(taken, true).await;
        match self.said(&task).await {
            Ok(Some((said, _))) => {
                // If that fails it is logged, and not tried again.
                self.keep(&task, &said).await;
            }
            Ok(None) => (),
            Err(error) => tracing::error!(%error, stream, "what there is of it can't be read"),
        }
    }

    /// What a run has said, and how it ended, if it has. `None` if its stream is gone.
    async fn said(
        &self,
        task: &Task,
    ) -> Result<Option<(MessageBuffer, Option<RunStatus>)>, StoreError> {
        let run = task.run();
        let entries = self.publisher.published(&run).await?;
        if entries.is_empty() {
            return Ok(None);
        }
        let published = Published::read(entries);
        let mut checkpoint = None;
        if published.lacks_its_beginning() {
            checkpoint = self.publisher.kept(task).await?;
            if checkpoint.is_none() {
                let stream = run.stream_key();
                tracing::warn!(stream, "a dead worker's answer has lost its beginning");
            }
        }
        let end = published.end;
        Ok(Some((published.said(checkpoint), end)))
    }

    async fn answer(
        &self,
        task: &Task,
        run: &Run,
        said: &mut MessageBuffer,
    ) -> Result<(), Outcome> {
        let agent_id = task.agent_id.as_deref().unwrap_or(DEFAULT_AGENT);
        self.publisher
            .publish(
                run,
                stream_event::start(run, agent_id),
                Some(RunStatus::Running),
            )
            .await??;
        let started = Instant::now();
        let Some(question) = self.journal.question(task).await? else {
            return Err(Outcome::Failed("Conversation not found".to_owned()));
        };
        let thought = started + thinking(&question);
        let pieces = pieces(&question, self.chunks);
        let key = run.stream_key();
        let mut prolong_at = started + KEEP_ALIVE_EVERY;
        for (n, piece) in pieces.iter().enumerate() {
            let due = thought + self.pace.due(&key, n);
            self.wait_until(due, task, &mut prolong_at).await?;
            // First: what a reader may have heard is to be stored.
            said.add_chunk(Answer::text(piece));
            let entry = self
                .publisher
                .publish(run, stream_event::chunk(run, piece), None)
                .await??;
            if let Some(checkpoint) = said.checkpoint(entry) {
                self.publisher.keep(task, &checkpoint).await?;
            }
        }
        if let Some(message) = said.message(answer_id(Some(task.task_id.clone()))) {
            self.journal.answer(task, &message).await?;
        }
        Ok(())
    }

    /// Stores what there is of a run that ends too soon: what it has said, or else at least what
    /// it was asked. False if that can't be done now.
    async fn keep(&self, task: &Task, said: &MessageBuffer) -> bool {
        let kept = async {
            match said.message(answer_id(Some(task.task_id.clone()))) {
                Some(message) => self.journal.answer(task, &message).await,
                None if task.regenerate => Ok(()),
                None => self.journal.question(task).await.map(drop),
            }
        };
        let stream = task.run().stream_key();
        match timeout(KEEP_WITHIN, kept).await {
            Ok(Ok(())) => true,
            Ok(Err(error @ StoreError::Unavailable { .. })) => {
                tracing::warn!(%error, stream, "what there is of a run is not stored yet");
                false
            }
            Ok(Err(error)) => {
                tracing::error!(%error, stream, "what there is of a run is refused, now and later");
                true
            }
            Err(_late) => {
                tracing::warn!(stream, "what there is of a run is not stored yet");
                false
            }
        }
    }

    /// The run has ended, and nobody need look for it, unless something of it is still to be
    /// stored: then it stays in the list, and is found again. If Redis can't be told, whoever finds
    /// it sees its end.
    async fn let_go(&self, taken: Taken, is_kept: bool) {
        if !is_kept {
            return;
        }
        if let Err(error) = self.takings.ended(&taken).await {
            tracing::debug!(%error, "a run that has ended stays in the list");
        }
    }

    /// Waits. The keys of a run that takes long are kept alive, whether it speaks or not.
    async fn wait_until(
        &self,
        due: Instant,
        task: &Task,
        prolong_at: &mut Instant,
    ) -> Result<(), StoreError> {
        while *prolong_at < due {
            sleep_until(*prolong_at).await;
            self.publisher.keep_alive(task).await?;
            *prolong_at = Instant::now() + KEEP_ALIVE_EVERY;
        }
        sleep_until(due).await;
        Ok(())
    }

    /// Tells how the run ended. If nobody can be told, its readers find out by its silence.
    async fn end(&self, run: &Run, status: RunStatus, message: &str) {
        let mut pause = END_FIRST_PAUSE;
        for attempt in 1..=END_ATTEMPTS {
            let fields = stream_event::end(run, status, message);
            match self.publisher.publish(run, fields, Some(status)).await {
                Ok(_told_or_gone) => return,
                Err(error) if attempt == END_ATTEMPTS => {
                    tracing::error!(%error, stream = run.stream_key(), "the run's end can't be told");
                }
                Err(_) => {
                    sleep(pause).await;
                    pause *= 2;
                }
            }
        }
    }
}
