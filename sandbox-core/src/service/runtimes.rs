//! What a workspace's commands run in: made when it is needed, stopped and destroyed without its tree.

use std::sync::Arc;

use jiff::Timestamp;

use super::{FaultPoint, SandboxService, ServiceError, as_read, failure};
use crate::domain::{
    FencingToken, Runtime, RuntimeId, RuntimeState, SandboxError, Workspace, WorkspaceId,
};
use crate::ports::locks::{LockClass, LockName};
use crate::ports::runtimes::{Environment, Labels, LiveRuntime, Mount, RuntimeSpec};

/// The label by which a runtime is found by its id.
pub(super) const RUNTIME_LABEL: &str = "unstall.runtime";
/// The label by which runtimes of a workspace are found.
pub(super) const WORKSPACE_LABEL: &str = "unstall.workspace";
/// The label that says whether the tree can be written in it.
pub(super) const ACCESS_LABEL: &str = "unstall.access";

/// A runtime's record and the runtime.
pub(super) type Found = (Runtime, Arc<dyn LiveRuntime>);

impl SandboxService {
    /// The runtime of a workspace, which runs: found, started again or made.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` when the workspace isn't ready, `TooMany`, and those of the backend, the
    /// store and the lock.
    pub async fn get_or_create_runtime(&self, id: WorkspaceId) -> Result<Runtime, ServiceError> {
        let workspace = self.ready_workspace(id).await?;
        let (runtime, _) = self.running(&workspace).await?;
        Ok(runtime)
    }

    /// Stops the runtime of a workspace, if there is one that runs. Its next command starts it again.
    ///
    /// # Errors
    /// Those of the backend, the store and the lock.
    pub async fn hibernate_runtime(&self, id: WorkspaceId) -> Result<(), ServiceError> {
        let Some(workspace) = self.adapters.store.find_workspace(id).await? else {
            return Ok(());
        };
        let name = LockName::workspace(&workspace.key);
        let work = async |token| {
            self.end_reader(id).await?;
            let found = self.adapters.store.find_runtime_of_workspace(id).await?;
            match found.filter(|runtime| runtime.state == RuntimeState::Running) {
                Some(runtime) => self.stop_runtime(runtime, None, token).await,
                None => Ok(()),
            }
        };
        self.under(&name, LockClass::Write, self.settings.lock_wait, work)
            .await
    }

    /// Destroys the runtime of a workspace, if there is one. The workspace stays.
    ///
    /// # Errors
    /// Those of the backend, the store and the lock.
    pub async fn destroy_runtime(&self, id: WorkspaceId) -> Result<(), ServiceError> {
        let Some(workspace) = self.adapters.store.find_workspace(id).await? else {
            return Ok(());
        };
        let name = LockName::workspace(&workspace.key);
        let work = |token| self.end_runtime_of(id, token);
        self.under(&name, LockClass::Write, self.settings.lock_wait, work)
            .await
    }

    /// The runtime that runs, and is here.
    pub(super) async fn running(&self, workspace: &Workspace) -> Result<Found, ServiceError> {
        if let Some(found) = self.running_here(workspace.id).await? {
            return Ok(found);
        }
        let id = workspace.id;
        let name = LockName::workspace(&workspace.key);
        let work = async |token| {
            let workspace = self.live_workspace(id).await?;
            failure::check_ready(&workspace)?;
            self.start_or_make(&workspace, token).await
        };
        self.under(&name, LockClass::Write, self.settings.lock_wait, work)
            .await
    }

    async fn running_here(&self, id: WorkspaceId) -> Result<Option<Found>, ServiceError> {
        let store = &self.adapters.store;
        let found = store.find_runtime_of_workspace(id).await?;
        let Some(runtime) = found.filter(|runtime| runtime.state == RuntimeState::Running) else {
            return Ok(None);
        };
        let Some(live) = self.live_of(&runtime).await? else {
            return Ok(None);
        };
        if live.state().await? != RuntimeState::Running {
            return Ok(None);
        }
        match store
            .touch_runtime(runtime.id, None, Timestamp::now(), None)
            .await
        {
            Ok(()) => Ok(Some((runtime, live))),
            Err(SandboxError::NotFound(_)) => Ok(None), // destroyed a moment ago
            Err(error) => Err(error.into()),
        }
    }

    async fn live_of(
        &self,
        runtime: &Runtime,
    ) -> Result<Option<Arc<dyn LiveRuntime>>, ServiceError> {
        match &runtime.backend_runtime_id {
            Some(id) if runtime.backend_kind == *self.adapters.runtimes.kind() => {
                Ok(self.adapters.runtimes.get(id).await?)
            }
            _ => Ok(None),
        }
    }

    async fn start_or_make(
        &self,
        workspace: &Workspace,
        token: FencingToken,
    ) -> Result<Found, ServiceError> {
        let store = &self.adapters.store;
        let found = store.find_runtime_of_workspace(workspace.id).await?;
        let Some(runtime) = found else {
            return self.make_runtime(workspace, token).await;
        };
        let is_usable = matches!(runtime.state, RuntimeState::Running | RuntimeState::Stopped);
        let live = if is_usable {
            self.live_of(&runtime).await?
        } else {
            None
        };
        if let Some(live) = live
            && let Some(started) = self.start_again(&runtime, &live, token).await?
        {
            return Ok((started, live));
        }
        if runtime.state == RuntimeState::Running && !self.settings.is_sole_worker {
            // It may be another worker's, whose commands still run in it.
            let name = LockName::workspace_command(workspace.id);
            let work = |_| self.end_runtime(runtime, token);
            let wait_max = self.settings.lock_wait;
            let ended = self.under(&name, LockClass::Write, wait_max, work).await;
            ended.map_err(|error| error.about_commands(workspace.id))?;
        } else {
            self.end_runtime(runtime, token).await?;
        }
        self.make_runtime(workspace, token).await
    }

    /// The record of a runtime that runs now, or nothing if it is beyond that.
    async fn start_again(
        &self,
        runtime: &Runtime,
        live: &Arc<dyn LiveRuntime>,
        token: FencingToken,
    ) -> Result<Option<Runtime>, ServiceError> {
        match live.state().await? {
            RuntimeState::Running => {}
            RuntimeState::Stopped => {
                if let Err(error) = live.start().await {
                    tracing::warn!(runtime = %runtime.id, %error, "a stopped runtime doesn't start, and is made anew");
                    return Ok(None);
                }
            }
            _ => return Ok(None),
        }
        if runtime.state == RuntimeState::Running {
            return Ok(Some(runtime.clone()));
        }
        let when = as_read(runtime.version, token);
        let mut started = runtime
            .clone()
            .moved_to(RuntimeState::Running, Timestamp::now())?;
        started.last_used_at = started.updated_at;
        Ok(Some(
            self.adapters.store.update_runtime(&started, when).await?,
        ))
    }

    async fn make_runtime(
        &self,
        workspace: &Workspace,
        token: FencingToken,
    ) -> Result<Found, ServiceError> {
        let store = &self.adapters.store;
        let kind = self.adapters.runtimes.kind().clone();
        let image = self.settings.image.clone();
        let intent = Runtime::intent(workspace.id, kind, image, token, Timestamp::now());
        store
            .insert_runtime(&intent, self.settings.runtimes_max)
            .await?;
        self.faults.pass(FaultPoint::RuntimeIntent);
        let writable = workspace.capabilities().writable;
        let spec = self.spec_of(workspace, intent.id, writable)?;
        let live = match self.adapters.runtimes.create(&spec).await {
            Ok(live) => live,
            Err(error) => {
                self.end_runtime(intent, token).await?;
                return Err(error.into());
            }
        };
        self.faults.pass(FaultPoint::RuntimeMade);
        let when = as_read(intent.version, token);
        let mut running = intent.moved_to(RuntimeState::Running, Timestamp::now())?;
        running.backend_runtime_id = Some(live.backend_id().clone());
        let running = store.update_runtime(&running, when).await?;
        Ok((running, live))
    }

    /// Stops a runtime that runs, if it wasn't used since. The row is first: whoever needs it then
    /// waits for the workspace's lock and starts it again.
    pub(super) async fn stop_runtime(
        &self,
        runtime: Runtime,
        unused_since: Option<Timestamp>,
        token: FencingToken,
    ) -> Result<(), ServiceError> {
        let mut when = as_read(runtime.version, token);
        when.unused_since = unused_since;
        let live = self.live_of(&runtime).await?;
        let stopped = runtime.moved_to(RuntimeState::Stopped, Timestamp::now())?;
        self.adapters.store.update_runtime(&stopped, when).await?;
        self.faults.pass(FaultPoint::RuntimeStopping);
        match live {
            Some(live) => Ok(live.stop().await?),
            None => Ok(()), // another worker's, which sees it when it sweeps
        }
    }

    /// Ends what a workspace's commands run in, if there is something.
    pub(super) async fn end_runtime_of(
        &self,
        id: WorkspaceId,
        token: FencingToken,
    ) -> Result<(), ServiceError> {
        self.end_reader(id).await?;
        match self.adapters.store.find_runtime_of_workspace(id).await? {
            Some(runtime) => self.end_runtime(runtime, token).await,
            None => Ok(()),
        }
    }

    pub(super) async fn end_runtime(
        &self,
        runtime: Runtime,
        token: FencingToken,
    ) -> Result<(), ServiceError> {
        self.end_runtime_unused(runtime, None, token).await
    }

    /// Destroys a runtime, if it wasn't used since.
    pub(super) async fn end_runtime_unused(
        &self,
        runtime: Runtime,
        unused_since: Option<Timestamp>,
        token: FencingToken,
    ) -> Result<(), ServiceError> {
        let store = &self.adapters.store;
        let going = match runtime.state {
            RuntimeState::Destroying => runtime,
            _ => {
                let mut when = as_read(runtime.version, token);
                when.unused_since = unused_since;
                let going = runtime.moved_to(RuntimeState::Destroying, Timestamp::now())?;
                store.update_runtime(&going, when).await?
            }
        };
        self.faults.pass(FaultPoint::RuntimeDestroying);
        let runtimes = &self.adapters.runtimes;
        if going.backend_kind == *runtimes.kind() {
            let of_it = Labels::from([(RUNTIME_LABEL.to_owned(), going.id.to_string())]);
            for live in runtimes.list(&of_it).await? {
                runtimes.destroy(live.backend_id()).await?;
            }
        }
        self.faults.pass(FaultPoint::RuntimeDestroyed);
        let when = as_read(going.version, token);
        let gone = going.moved_to(RuntimeState::Destroyed, Timestamp::now())?;
        store.update_runtime(&gone, when).await?;
        Ok(())
    }

    /// The runtime in which a writable workspace's tree can only be read.
    pub(super) async fn reader(
        &self,
        workspace: &Workspace,
    ) -> Result<Arc<dyn LiveRuntime>, ServiceError> {
        let reader = self.readers.of(workspace.id);
        let make = async || {
            let spec = self.spec_of(workspace, RuntimeId::generate(), false)?;
            Ok::<_, ServiceError>(self.adapters.runtimes.create(&spec).await?)
        };
        let live = Arc::clone(reader.live.get_or_try_init(make).await?);
        if live.state().await? == RuntimeState::Running {
            return Ok(live);
        }
        // It died; the next one is made by whoever sees that first.
        self.end_reader(workspace.id).await?;
        let reader = self.readers.of(workspace.id);
        Ok(Arc::clone(reader.live.get_or_try_init(make).await?))
    }

    /// Ends the reader of a workspace, if it has one here.
    pub(super) async fn end_reader(&self, id: WorkspaceId) -> Result<(), ServiceError> {
        match self.readers.take(id) {
            Some(live) => Ok(self.adapters.runtimes.destroy(live.backend_id()).await?),
            None => Ok(()),
        }
    }

    fn spec_of(
        &self,
        workspace: &Workspace,
        id: RuntimeId,
        writable: bool,
    ) -> Result<RuntimeSpec, ServiceError> {
        let location = self.adapters.trees.locate(&workspace.local_path)?;
        let mount = |folder: &std::path::PathBuf, writable| Mount {
            source: folder.clone(),
            target: folder.clone(),
            writable,
        };
        let access = if writable { "write" } else { "read" };
        Ok(RuntimeSpec {
            id,
            image: self.settings.image.clone(),
            workdir: location.tree.clone(),
            mounts: vec![
                mount(&location.tree, writable),
                // Else a command could lead it to a git directory of its own making, and whoever asks
                // git about this tree outside of the runtime would run what is said there.
                mount(&location.tree.join(".git"), false),
                mount(&location.git_dir, false),
                mount(&location.shared_objects, false),
            ],
            env: Environment::default(),
            resources: self.settings.resources,
            network: self.settings.network,
            labels: Labels::from([
                (RUNTIME_LABEL.to_owned(), id.to_string()),
                (WORKSPACE_LABEL.to_owned(), workspace.id.to_string()),
                (ACCESS_LABEL.to_owned(), access.to_owned()),
            ]),
        })
    }
}
