//! A tree in a temporary folder, a runtime for it, and a look at the machine's processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::{ImageName, RuntimeId, SandboxError};
use unstall_sandbox_core::ports::runtimes::{
    Environment, ExecRequest, ExecResult, Labels, LiveRuntime, Mount, Network, Resources,
    RuntimeProvider, RuntimeSpec,
};
use unstall_sandbox_core::runtime::{
    Bubblewrap, BubblewrapSettings, Subprocesses, SupervisorProgram,
};

/// Longer than anything here takes, on a machine that does much else.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Machine {
    pub(crate) provider: Box<dyn RuntimeProvider>,
    folder: TempDir,
}

pub(crate) fn settings() -> BubblewrapSettings {
    BubblewrapSettings::new(SupervisorProgram::at(env!("CARGO_BIN_EXE_unstall-sandbox")))
}

pub(crate) fn pool() -> BlockingPool {
    BlockingPool::new(2).expect("two threads")
}

impl Machine {
    pub(crate) async fn bubblewrap() -> Self {
        Self::with(settings()).await
    }

    pub(crate) async fn with(settings: BubblewrapSettings) -> Self {
        let provider = Bubblewrap::probe(settings, pool()).await;
        Self::of(Box::new(provider.expect("bwrap makes a runtime here")))
    }

    pub(crate) fn subprocess() -> Self {
        let provider = Subprocesses::for_tests(pool()).expect("a kind");
        Self::of(Box::new(provider))
    }

    fn of(provider: Box<dyn RuntimeProvider>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { provider, folder }
    }

    pub(crate) fn tree(&self) -> &Path {
        self.folder.path()
    }

    /// What a workspace that may be written would ask for.
    pub(crate) fn spec(&self) -> RuntimeSpec {
        RuntimeSpec {
            id: RuntimeId::generate(),
            image: ImageName::parse("machine").expect("a name"),
            workdir: self.tree().to_path_buf(),
            mounts: vec![Mount {
                source: self.tree().to_path_buf(),
                target: self.tree().to_path_buf(),
                writable: true,
            }],
            env: Environment::default(),
            resources: Resources::default(),
            network: Network::None,
            labels: Labels::new(),
        }
    }

    pub(crate) async fn runtime(&self) -> Arc<dyn LiveRuntime> {
        self.make(&self.spec()).await
    }

    pub(crate) async fn make(&self, spec: &RuntimeSpec) -> Arc<dyn LiveRuntime> {
        self.provider.create(spec).await.expect("a runtime is made")
    }
}

/// A shell's command, which has more time than it needs.
pub(crate) fn shell(script: &str) -> ExecRequest {
    let mut request = ExecRequest::new(["sh", "-c", script]);
    request.timeout = LONG;
    request
}

pub(crate) async fn run(runtime: &dyn LiveRuntime, script: &str) -> ExecResult {
    runtime.exec(shell(script)).await.expect("it runs")
}

/// Runs a script, which must succeed, and answers what it wrote.
pub(crate) async fn says(runtime: &dyn LiveRuntime, script: &str) -> String {
    let result = run(runtime, script).await;
    let complaint = result.stderr.text();
    assert_eq!(result.exit_code, 0, "{script}: {complaint}");
    result.stdout.text().trim_end().to_owned()
}

pub(crate) async fn refused(runtime: &dyn LiveRuntime, request: ExecRequest) -> SandboxError {
    runtime.exec(request).await.expect_err("it must not run")
}

/// A time to sleep for that no other process of the machine sleeps for.
pub(crate) fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("7{:07}{number:03}", std::process::id())
}

/// How many processes of the machine have this text as an argument of their own.
pub(crate) fn processes_with(argument: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("it is there");
    let with = entries.flatten().filter(|entry| {
        // A process may be gone meanwhile.
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        arguments
            .split(|byte| *byte == 0)
            .any(|part| part == argument.as_bytes())
    });
    with.count()
}

/// Waits until as many processes have this argument.
pub(crate) async fn wait_for_processes(argument: &str, count: usize) {
    let begun = Instant::now();
    while processes_with(argument) != count {
        assert!(
            begun.elapsed() < LONG,
            "never {count} processes with {argument}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn texts<const N: usize>(list: [&str; N]) -> Vec<OsString> {
    list.map(OsString::from).to_vec()
}

pub(crate) fn path(text: &str) -> PathBuf {
    PathBuf::from(text)
}
