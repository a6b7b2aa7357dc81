//! Commands as plain processes of this machine, which nothing holds back: for tests of what is above.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, oneshot};

use super::bubblewrap::check;
use super::descriptors::watched;
use super::execution::{Execution, Order, pipes};
use super::wire::{CommandEnd, Step};
use crate::blocking_pool::BlockingPool;
use crate::domain::{
    BackendKind, BackendRuntimeId, Invalid, RuntimeId, RuntimeState, SandboxError, Subject,
};
use crate::ports::Answer;
use crate::ports::runtimes::{
    Environment, ExecEvents, ExecRequest, ExecResult, Labels, LiveRuntime, RuntimeCapabilities,
    RuntimeProvider, RuntimeSpec,
};

/// What a command's environment has beside what it is told: the machine's programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runtimes without any isolation: what is mounted is where it is, read-only or not, and a command may
/// do whatever this process may. A process that leaves its group survives its command. Under which lock
/// a command runs isn't looked at: nobody would be left to end it while this process is stopped.
pub struct Subprocesses {
    kind: BackendKind,
    pool: BlockingPool,
    runtimes: Mutex<HashMap<BackendRuntimeId, Arc<PlainRuntime>>>,
}

impl Subprocesses {
    /// For tests only.
    ///
    /// # Errors
    /// Never; the name of its kind is checked as any.
    pub fn for_tests(pool: BlockingPool) -> Result<Self, Invalid> {
        Ok(Self {
            kind: BackendKind::parse("subprocess")?,
            pool,
            runtimes: Mutex::new(HashMap::new()),
        })
    }
}

impl RuntimeProvider for Subprocesses {
    fn kind(&self) -> &BackendKind {
        &self.kind
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities::default()
    }

    fn create<'a>(&'a self, spec: &'a RuntimeSpec) -> Answer<'a, Arc<dyn LiveRuntime>> {
        Box::pin(async move {
            let backend_id = BackendRuntimeId::parse(&spec.id.to_string())?;
            let mut runtimes = self.runtimes.lock().await;
            if runtimes.contains_key(&backend_id) {
                return Err(SandboxError::AlreadyExists(Subject::Runtime(spec.id)));
            }
            let runtime = Arc::new(PlainRuntime {
                id: spec.id,
                backend_id: backend_id.clone(),
                labels: spec.labels.clone(),
                workdir: spec.workdir.clone(),
                env: spec.env.clone(),
                pool: self.pool.clone(),
                state: AtomicU8::new(RUNNING),
            });
            runtimes.insert(backend_id, Arc::clone(&runtime));
            Ok(runtime as Arc<dyn LiveRuntime>)
        })
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
            let carries = |runtime: &&Arc<PlainRuntime>| {
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
            if let Some(runtime) = self.runtimes.lock().await.remove(id) {
                runtime.state.store(DESTROYED, Ordering::Relaxed);
            }
            Ok(())
        })
    }
}

const RUNNING: u8 = 0;
const STOPPED: u8 = 1;
const DESTROYED: u8 = 2;

struct PlainRuntime {
    id: RuntimeId,
    backend_id: BackendRuntimeId,
    labels: Labels,
    workdir: PathBuf,
    env: Environment,
    pool: BlockingPool,
    state: AtomicU8,
}

impl PlainRuntime {
    fn state_now(&self) -> RuntimeState {
        match self.state.load(Ordering::Relaxed) {
            RUNNING => RuntimeState::Running,
            STOPPED => RuntimeState::Stopped,
            _ => RuntimeState::Destroyed,
        }
    }

    fn not_running(&self) -> SandboxError {
        SandboxError::NotRunning {
            runtime: self.id,
            state: self.state_now(),
        }
    }

    async fn begin(&self, request: ExecRequest) -> Result<Execution, SandboxError> {
        if self.state_now() != RuntimeState::Running {
            return Err(self.not_running());
        }
        let program = check(&request)?;
        let unavailable = |doing| {
            move |source: io::Error| SandboxError::Unavailable {
                service: "the runtime",
                doing,
                source: source.into(),
            }
        };
        let (ours, theirs) =
            pipes(request.stdin).map_err(unavailable("making a command's pipes"))?;
        let (sender, ended) = oneshot::channel();
        let cwd = request
            .cwd
            .map_or_else(|| self.workdir.clone(), |cwd| self.workdir.join(cwd));
        let mut env = Environment::default().with("PATH", PATH);
        env.0.extend(self.env.0.clone());
        env.0.extend(request.env.0);
        let cmd = request.cmd;
        let spawned = self.pool.run(move || spawn(&cmd, cwd, env, theirs)).await;
        let (kill, killed) = oneshot::channel();
        match spawned {
            Ok((child, pidfd)) => {
                let pidfd = watched(pidfd).map_err(unavailable("watching a command"))?;
                tokio::spawn(watch(child, pidfd, killed, sender));
            }
            Err(error) => {
                let step = Step::Program;
                let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
                // It is read right below.
                let _unread = sender.send(CommandEnd::NotBegun { step, errno });
            }
        }
        let order = Order {
            runtime: self.id,
            program,
            timeout: request.timeout,
            ended,
            kill: Box::new(move || {
                let _ended = kill.send(()); // it has ended meanwhile
            }),
        };
        Ok(Execution::new(ours, order))
    }
}

fn spawn(
    cmd: &[OsString],
    cwd: PathBuf,
    env: Environment,
    descriptors: Vec<OwnedFd>,
) -> io::Result<(Child, OwnedFd)> {
    let mut descriptors = descriptors.into_iter();
    let (program, arguments) = cmd.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = std::process::Command::new(program);
    command
        .args(arguments)
        .current_dir(cwd)
        .env_clear()
        .envs(env.0)
        .process_group(0)
        .stdout(descriptors.next().map_or_else(Stdio::null, Stdio::from))
        .stderr(descriptors.next().map_or_else(Stdio::null, Stdio::from))
        .stdin(descriptors.next().map_or_else(Stdio::null, Stdio::from));
    let mut child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let watched = pid.ok_or(io::ErrorKind::InvalidData.into());
    match watched.and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?)) {
        Ok(pidfd) => Ok((child, pidfd)),
        Err(error) => {
            child.kill()?;
            child.wait()?;
            Err(error)
        }
    }
}

/// Waits for a command's end, or kills its group first.
async fn watch(
    mut child: Child,
    pidfd: AsyncFd<OwnedFd>,
    killed: oneshot::Receiver<()>,
    ended: oneshot::Sender<CommandEnd>,
) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let kill = || {
        if let Some(group) = group {
            let _gone = kill_process_group(group, Signal::KILL); // nobody is left in it
        }
    };
    let is_killed = tokio::select! {
        _ended = pidfd.readable() => false,
        Ok(()) = killed => true,
    };
    // Its group goes with it either way, before its number may become another's.
    kill();
    if is_killed {
        drop(pidfd.readable().await);
    }
    let end = match child.try_wait() {
        Ok(Some(_)) if is_killed => CommandEnd::Killed,
        Ok(Some(status)) => {
            use std::os::unix::process::ExitStatusExt;
            match (status.code(), status.signal()) {
                (Some(code), _) => CommandEnd::Exited(code),
                (None, signal) => CommandEnd::Signaled(signal.unwrap_or(libc::SIGKILL)),
            }
        }
        Ok(None) | Err(_) => CommandEnd::Killed,
    };
    // Whoever was dropped doesn't want to know.
    let _dropped = ended.send(end);
}

impl LiveRuntime for PlainRuntime {
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
        Box::pin(async { Ok(self.state_now()) })
    }

    fn start(&self) -> Answer<'_, ()> {
        Box::pin(async {
            if self.state_now() == RuntimeState::Destroyed {
                return Err(self.not_running());
            }
            self.state.store(RUNNING, Ordering::Relaxed);
            Ok(())
        })
    }

    fn stop(&self) -> Answer<'_, ()> {
        Box::pin(async {
            if self.state_now() == RuntimeState::Running {
                self.state.store(STOPPED, Ordering::Relaxed);
            }
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
