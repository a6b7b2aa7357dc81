//! Runtimes by `bwrap`, with a supervisor in each.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;

use super::arguments::{RootFolder, arguments, root_folders};
use super::cgroups::CgroupPlace;
use super::confinement::always_writable;
use super::connection::{Connection, NotOrdered};
use super::execution::{Execution, Order, pipes, too_long};
use super::launch::{CgroupPlan, Plan, launch};
use super::wire::{Command, Landlock, SetUp};
use crate::blocking_pool::BlockingPool;
use crate::domain::{
    BackendKind, BackendRuntimeId, ImageName, Invalid, RuntimeId, RuntimeState, SandboxError,
    Subject,
};
use crate::ports::Answer;
use crate::ports::runtimes::{
    Environment, ExecEvents, ExecRequest, ExecResult, Isolation, Labels, LiveRuntime, Network,
    Resources, RuntimeCapabilities, RuntimeProvider, RuntimeSpec,
};

/// What every command has in its environment when nobody says otherwise.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("HOME", "/tmp"),
    ("LANG", "C.UTF-8"),
    ("LOGNAME", "agent"),
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("TERM", "dumb"),
    ("USER", "agent"),
];

/// The program that is the first process of a runtime: one whose `main` calls
/// [`supervise`](super::supervise).
#[derive(Debug, Clone)]
pub struct SupervisorProgram {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl SupervisorProgram {
    /// The program `unstall-sandbox` at a path, which runtimes get to see, read-only.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            arguments: vec!["supervise".into()],
        }
    }
}

/// Whether Landlock guards files beside the mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LandlockUse {
    /// It doesn't.
    Off,
    /// Where the kernel has it.
    #[default]
    IfThere,
    /// Where the kernel hasn't, no runtime is made.
    Required,
}

/// How runtimes are made.
#[derive(Debug, Clone)]
pub struct BubblewrapSettings {
    /// Where `bwrap` is.
    pub bwrap: PathBuf,
    /// Their first process.
    pub supervisor: SupervisorProgram,
    /// Whether Landlock is used.
    pub landlock: LandlockUse,
    /// May a runtime that asks for it have the machine's network, its loopback included?
    pub may_have_network: bool,
}

impl BubblewrapSettings {
    /// Debian's `bwrap`, Landlock where there is one, and no network.
    #[must_use]
    pub fn new(supervisor: SupervisorProgram) -> Self {
        Self {
            bwrap: PathBuf::from("/usr/bin/bwrap"),
            supervisor,
            landlock: LandlockUse::default(),
            may_have_network: false,
        }
    }
}

/// Makes runtimes by `bwrap`. They end with the process that made them.
///
/// **Across processes.** A runtime's supervisor listens to the process that made it and to nobody else.
/// Two workers that use one workspace have a runtime each, and so two supervisors; a reader of a workspace
/// has one of its own, too. Tokens are compared among the commands of one runtime only. Between runtimes
/// the end of a lease keeps commands apart: each supervisor ends a command at that moment of the machine's
/// clock, be its worker stopped or stuck, and nobody else can have the lock earlier.
pub struct Bubblewrap {
    kind: BackendKind,
    settings: BubblewrapSettings,
    pool: BlockingPool,
    folders: Vec<RootFolder>,
    cgroups: Option<CgroupPlace>,
    capabilities: RuntimeCapabilities,
    runtimes: Mutex<HashMap<BackendRuntimeId, Arc<BubblewrapRuntime>>>,
}

impl Bubblewrap {
    /// Finds out what the machine can do, by making a runtime and ending it again.
    ///
    /// # Errors
    /// `Unavailable` when no runtime can be made, with what was said about it.
    pub async fn probe(
        settings: BubblewrapSettings,
        pool: BlockingPool,
    ) -> Result<Self, SandboxError> {
        let probed = pool.run(|| (root_folders(), CgroupPlace::probe())).await;
        let (folders, cgroups) = probed;
        let mut provider = Self {
            kind: BackendKind::parse("bubblewrap")?,
            settings,
            pool,
            folders,
            cgroups,
            capabilities: RuntimeCapabilities::default(),
            runtimes: Mutex::new(HashMap::new()),
        };
        let trial = provider.plan(&RuntimeSpec {
            id: RuntimeId::generate(),
            image: ImageName::parse("machine")?,
            workdir: PathBuf::from("/"),
            mounts: Vec::new(),
            env: Environment::default(),
            resources: Resources::default(),
            network: Network::None,
            labels: Labels::new(),
        })?;
        let launched = launch(&provider.pool, trial).await?;
        provider.capabilities.isolation = Isolation {
            namespaces: true,
            system_call_filter: true,
            landlock: launched.has_landlock,
            cgroup: provider.cgroups.is_some(),
            cpu: provider.cgroups.as_ref().is_some_and(CgroupPlace::has_cpu),
            file_size: true,
            read_only_mounts: true,
        };
        launched.process.end().await;
        Ok(provider)
    }

    fn plan(&self, spec: &RuntimeSpec) -> Result<Plan, SandboxError> {
        if spec.network == Network::Unlimited && !self.settings.may_have_network {
            let reason =
                "no runtime here may have the machine's network; ask for less, or allow it";
            return Err(Invalid::new("network of a runtime", "unlimited", reason).into());
        }
        if !spec.workdir.is_absolute() {
            let shown = spec.workdir.to_string_lossy();
            let reason = "it must be absolute, as the runtime sees it";
            return Err(Invalid::new("folder of a runtime", &shown, reason).into());
        }
        let supervisor = &self.settings.supervisor;
        let resources = spec.resources;
        let without_group = self.cgroups.is_none();
        let writable = spec.mounts.iter().filter(|mount| mount.writable);
        let mut writable: Vec<PathBuf> = writable.map(|mount| mount.target.clone()).collect();
        writable.extend(always_writable());
        let limit = |asked: Option<u64>| asked.unwrap_or_default(); // zero is none
        Ok(Plan {
            bwrap: self.settings.bwrap.clone(),
            arguments: arguments(spec, &self.folders, &supervisor.path, &supervisor.arguments)?,
            set_up: SetUp {
                any_socket: spec.network == Network::Unlimited,
                landlock: match self.settings.landlock {
                    LandlockUse::Off => Landlock::Off,
                    LandlockUse::IfThere => Landlock::IfThere,
                    LandlockUse::Required => Landlock::Required,
                },
                writable,
                file_bytes_max: limit(resources.file_mb) << 20,
                data_bytes_max: limit(resources.memory_mb.filter(|_| without_group)) << 20,
                processes_max: limit(
                    resources
                        .processes_max
                        .filter(|_| without_group)
                        .map(u64::from),
                ),
            },
            cgroup: self.cgroups.clone().map(|place| CgroupPlan {
                place,
                name: spec.id.to_string(),
                resources,
            }),
        })
    }

    async fn make(&self, spec: &RuntimeSpec) -> Result<Arc<dyn LiveRuntime>, SandboxError> {
        let backend_id = BackendRuntimeId::parse(&spec.id.to_string())?;
        let exists = || SandboxError::AlreadyExists(Subject::Runtime(spec.id));
        if self.runtimes.lock().await.contains_key(&backend_id) {
            return Err(exists());
        }
        let plan = self.plan(spec)?;
        let connection = Connection::serve(launch(&self.pool, plan.clone()).await?);
        let runtime = Arc::new(BubblewrapRuntime {
            id: spec.id,
            backend_id: backend_id.clone(),
            labels: spec.labels.clone(),
            workdir: spec.workdir.clone(),
            env: environment(&spec.env),
            plan,
            pool: self.pool.clone(),
            slot: Mutex::new(Slot::Running(Arc::new(connection))),
        });
        let mut runtimes = self.runtimes.lock().await;
        if runtimes.contains_key(&backend_id) {
            return Err(exists()); // somebody else was quicker; what was made here ends
        }
        runtimes.insert(backend_id, Arc::clone(&runtime));
        Ok(runtime)
    }
}

/// The defaults, and what is to be beside or instead of them.
fn environment(own: &Environment) -> Environment {
    let defaults = ENVIRONMENT.into_iter();
    let defaults = defaults.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let mut whole = Environment(defaults.collect());
    whole.0.extend(own.0.clone());
    whole
}

impl RuntimeProvider for Bubblewrap {
    fn kind(&self) -> &BackendKind {
        &self.kind
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        self.capabilities
    }

    fn create<'a>(&'a self, spec: &'a RuntimeSpec) -> Answer<'a, Arc<dyn LiveRuntime>> {
        Box::pin(self.make(spec))
    }

    fn get<'a>(&'a self, id: &'a BackendRuntimeId) -> Answer<'a, Option<Arc<dyn LiveRuntime>>> {
        Box::pin(async move {
            let found = self.runtimes.lock().await.get(id).cloned();
            Ok(found.map(|runtime| runtime as Arc<dyn LiveRuntime>))
        })
    }

    fn list<'a>(&'a self, labels: &'a Labels) -> Answer<'a, Vec<Arc<dyn LiveRuntime>>> {
        Box::pin(async move {
            let runtimes = self.runtimes.lock().await;
            let carries = |runtime: &&Arc<BubblewrapRuntime>| {
                let carried = &runtime.labels;
                labels
                    .iter()
                    .all(|(name, value)| carried.get(name) == Some(value))
            };
            let found = runtimes.values().filter(carries).cloned();
            Ok(found
                .map(|runtime| runtime as Arc<dyn LiveRuntime>)
                .collect())
        })
    }

    fn destroy<'a>(&'a self, id: &'a BackendRuntimeId) -> Answer<'a, ()> {
        Box::pin(async move {
            let runtime = self.runtimes.lock().await.get(id).cloned();
            if let Some(runtime) = runtime {
                runtime.end(Slot::Destroyed).await;
                // Only now: a call that is dropped before can be made again.
                self.runtimes.lock().await.remove(id);
            }
            Ok(())
        })
    }
}

/// A runtime by `bwrap`.
struct BubblewrapRuntime {
    id: RuntimeId,
    backend_id: BackendRuntimeId,
    labels: Labels,
    workdir: PathBuf,
    env: Environment,
    plan: Plan,
    pool: BlockingPool,
    slot: Mutex<Slot>,
}

/// What there is of it.
enum Slot {
    Running(Arc<Connection>),
    Stopped,
    Destroyed,
}

impl Slot {
    fn state(&self) -> RuntimeState {
        match self {
            Self::Running(connection) if connection.is_closed() => RuntimeState::Failed,
            Self::Running(_) => RuntimeState::Running,
            Self::Stopped => RuntimeState::Stopped,
            Self::Destroyed => RuntimeState::Destroyed,
        }
    }
}

impl BubblewrapRuntime {
    fn not_running(&self, state: RuntimeState) -> SandboxError {
        SandboxError::NotRunning {
            runtime: self.id,
            state,
        }
    }

    async fn end(&self, next: Slot) {
        let mut slot = self.slot.lock().await;
        if let Slot::Running(connection) = &*slot {
            connection.shut_down().await;
        }
        if !matches!(*slot, Slot::Destroyed) {
            *slot = next;
        }
    }

    async fn begin(&self, request: ExecRequest) -> Result<Execution, SandboxError> {
        let connection = {
            let slot = self.slot.lock().await;
            match (&*slot, slot.state()) {
                (Slot::Running(connection), RuntimeState::Running) => Arc::clone(connection),
                (_, state) => return Err(self.not_running(state)),
            }
        };
        let program = check(&request)?;
        let (ours, theirs) = pipes(request.stdin).map_err(|source| SandboxError::Unavailable {
            service: "the runtime",
            doing: "making a command's pipes",
            source: source.into(),
        })?;
        let mut env = self.env.clone();
        env.0.extend(request.env.0);
        let command = Command {
            cmd: request.cmd,
            cwd: request
                .cwd
                .map_or_else(|| self.workdir.clone(), |cwd| self.workdir.join(cwd)),
            env: env.0.into_iter().collect(),
        };
        let ordered = connection.exec(command, theirs, request.hold);
        let ordered = ordered.map_err(|NotOrdered::TooLong| too_long())?;
        let order = Order {
            runtime: self.id,
            program,
            timeout: request.timeout,
            ended: ordered.ended,
            kill: ordered.kill,
        };
        Ok(Execution::new(ours, order))
    }
}

/// Refuses what no system takes as a command.
pub(super) fn check(request: &ExecRequest) -> Result<OsString, SandboxError> {
    let program = request.cmd.first().cloned().unwrap_or_default();
    let rejected = |reason| SandboxError::CommandRejected {
        command: program.to_string_lossy().into_owned(),
        reason,
    };
    if program.is_empty() {
        return Err(rejected("it has no program; name one"));
    }
    let variables = request.env.0.iter().flat_map(|(name, value)| [name, value]);
    let cwd = request.cwd.as_deref().map(Path::as_os_str);
    let texts = request.cmd.iter().chain(variables).map(OsString::as_os_str);
    let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
    if texts.chain(cwd).any(has_nul) {
        return Err(rejected(
            "a NUL is in it or its environment, where none can be; leave it out",
        ));
    }
    let is_no_name = |name: &OsString| name.is_empty() || name.as_bytes().contains(&b'=');
    if request.env.0.keys().any(is_no_name) {
        return Err(rejected(
            "a variable of its environment has no name, or one with a = in it",
        ));
    }
    Ok(program)
}

impl LiveRuntime for BubblewrapRuntime {
    fn id(&self) -> RuntimeId {
        self.id
    }

    fn backend_id(&self) -> &BackendRuntimeId {
        &self.backend_id
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn state(&self) -> Answer<'_, RuntimeState> {
        Box::pin(async { Ok(self.slot.lock().await.state()) })
    }

    fn start(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let mut slot = self.slot.lock().await;
            match slot.state() {
                RuntimeState::Running => Ok(()),
                RuntimeState::Stopped | RuntimeState::Failed => {
                    let launched = launch(&self.pool, self.plan.clone()).await?;
                    *slot = Slot::Running(Arc::new(Connection::serve(launched)));
                    Ok(())
                }
                state => Err(self.not_running(state)),
            }
        })
    }

    fn stop(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.end(Slot::Stopped).await;
            Ok(())
        })
    }

    fn exec(&self, request: ExecRequest) -> Answer<'_, ExecResult> {
        Box::pin(async {
            let output_bytes_max = request.output_bytes_max;
            let execution = self.begin(request).await?;
            execution.finish(output_bytes_max).await
        })
    }

    fn stream(&self, request: ExecRequest) -> Answer<'_, ExecEvents> {
        Box::pin(async { Ok(self.begin(request).await?.events()) })
    }
}
