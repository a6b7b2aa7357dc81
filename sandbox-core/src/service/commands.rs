//! Commands in a workspace: those that read run together where they can't write, others alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

use super::command_class::classify;
use super::disk::Spared;
use super::{FaultPoint, SandboxService, ServiceError};
use crate::domain::{CommandKind, RuntimeId, RuntimeState, SandboxError, Workspace, WorkspaceId};
use crate::ports::locks::{Hold, LockClass, LockName};
use crate::ports::runtimes::{ExecRequest, ExecResult, LiveRuntime};

/// A command is killed within this time after its own; until then its runtime isn't idle.
const LEASE_BEYOND_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

/// A command to be run.
#[derive(Debug, Clone)]
pub struct CommandOrder {
    /// The command.
    pub request: ExecRequest,
    /// What it does to the tree; by its first words, if that isn't said.
    pub kind: Option<CommandKind>,
}

/// Where a command runs: the record's id, if it has one.
struct Place {
    runtime: Option<RuntimeId>,
    live: Arc<dyn LiveRuntime>,
}

impl SandboxService {
    /// Runs a command in a workspace. Dropping the answer ends the command, and so does losing the lock.
    ///
    /// # Errors
    /// `CommandRejected` when the workspace is for reading and the command isn't known to read, `Locked`
    /// when others change the tree all the time, and those of the runtime, the store and the lock. When the
    /// lock was lost, the command had begun perhaps, and nothing of it runs.
    pub async fn exec(
        &self,
        id: WorkspaceId,
        order: CommandOrder,
    ) -> Result<ExecResult, ServiceError> {
        let order = &order;
        let work = || async move {
            let has_begun = AtomicBool::new(false);
            match self.exec_once(id, order, &has_begun).await {
                // A command that began is never run twice, whatever became of it.
                Err(error) if has_begun.load(Ordering::Relaxed) => Ok(Err(error)),
                done => done.map(Ok),
            }
        };
        self.with_room(Spared::Workspace(id), work).await?
    }

    async fn exec_once(
        &self,
        id: WorkspaceId,
        order: &CommandOrder,
        has_begun: &AtomicBool,
    ) -> Result<ExecResult, ServiceError> {
        let workspace = self.ready_workspace(id).await?;
        let kind = kind_of(&workspace, order)?;
        let class = if kind.is_mutating() {
            LockClass::Write
        } else {
            LockClass::Read
        };
        let name = LockName::workspace_command(id);
        // A runtime may be stopped, or taken over by another worker, between its start and the lock on
        // commands: then it is started again. Each time somebody's command has run meanwhile.
        let began = Instant::now();
        loop {
            let place = self.place_for(&workspace, kind).await?;
            let request = order.request.clone();
            let work = |hold| self.exec_locked(id, kind, place, request, (hold, has_begun));
            let wait_max = self.settings.lock_wait;
            let done = self.under_hold(&name, class, wait_max, work).await;
            match done {
                Err(ServiceError::Sandbox(SandboxError::NotRunning { .. }))
                    if began.elapsed() < wait_max => {}
                done => return done.map_err(|error| error.about_commands(id)),
            }
        }
    }

    async fn place_for(
        &self,
        workspace: &Workspace,
        kind: CommandKind,
    ) -> Result<Place, ServiceError> {
        if workspace.capabilities().writable && !kind.is_mutating() {
            let live = self.reader(workspace).await?;
            return Ok(Place {
                runtime: None,
                live,
            });
        }
        let (runtime, live) = self.running(workspace).await?;
        Ok(Place {
            runtime: Some(runtime.id),
            live,
        })
    }

    async fn exec_locked(
        &self,
        id: WorkspaceId,
        kind: CommandKind,
        place: Place,
        mut request: ExecRequest,
        (hold, has_begun): (Hold, &AtomicBool),
    ) -> Result<ExecResult, ServiceError> {
        // Evicted between the look and the lock: then there is nothing to run in.
        self.ready_workspace(id).await?;
        let state = place.live.state().await?;
        if state != RuntimeState::Running {
            let runtime = place.live.id();
            return Err(SandboxError::NotRunning { runtime, state }.into());
        }
        let store = &self.adapters.store;
        let (now, token) = (Timestamp::now(), hold.token);
        // Whoever uses the reader keeps it.
        let reader = place.runtime.is_none().then(|| self.readers.of(id));
        if let Some(runtime) = place.runtime {
            let timeout = SignedDuration::try_from(request.timeout).unwrap_or(SignedDuration::MAX);
            let lease = timeout.saturating_add(LEASE_BEYOND_TIMEOUT);
            let until = now.saturating_add(lease).unwrap_or(Timestamp::MAX);
            let touched = store.touch_runtime(runtime, Some(token), now, Some(until));
            match touched.await {
                Err(SandboxError::NotFound(_)) => {
                    let state = RuntimeState::Destroyed;
                    return Err(SandboxError::NotRunning { runtime, state }.into());
                }
                touched => touched?,
            }
        }
        if kind.is_mutating() {
            store.mark_workspace_dirty(id, token, now).await?;
        } else {
            store.touch_workspace(id, Some(token), now).await?;
        }
        self.faults.pass(FaultPoint::CommandAnnounced);
        request.hold = Some(hold);
        has_begun.store(true, Ordering::Relaxed);
        let done = place.live.exec(request).await;
        self.faults.pass(FaultPoint::CommandDone);
        if let Some(reader) = reader {
            reader.touch();
        }
        match done {
            // It began, and may have written: it isn't run once more.
            Err(SandboxError::NotRunning { .. }) => Err(SandboxError::Unavailable {
                service: "the runtime",
                doing: "running a command",
                source: "it ended while the command ran".into(),
            }
            .into()),
            done => Ok(done?),
        }
    }
}

/// What a command is taken for; an analysis runs only what is known to read.
fn kind_of(workspace: &Workspace, order: &CommandOrder) -> Result<CommandKind, ServiceError> {
    let known = classify(&order.request.cmd);
    let kind = order.kind.unwrap_or(known);
    let may_run = workspace.capabilities().writable
        || (known == CommandKind::Read && kind == CommandKind::Read);
    if may_run {
        return Ok(kind);
    }
    let program = order.request.cmd.first();
    Err(SandboxError::CommandRejected {
        command: program.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        reason: "this workspace is for reading, and the command isn't known to read only; ask for a workspace that edits",
    }
    .into())
}
