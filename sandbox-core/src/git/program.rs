//! How git is called: with which environment and configuration, and what its failures mean.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::GitTimes;
use super::credentials::TokenSocket;
use super::guard::{Guard, MARK};
use super::process::{Ended, Limits, RunError, run};
use super::{disk, said};
use crate::blocking_pool::BlockingPool;
use crate::domain::RepoUrl;
use crate::ports::caches::GitError;
use crate::volume;

/// Bytes of an answer of which no part may be missing.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Gits that work on the disk, for each core.
const LOCAL_PER_CORE: usize = 4;

/// Gits that talk to a code host.
const NETWORK_MAX: usize = 16;

/// What holds for every call, whatever a repository says.
const CONFIGURATION: [(&str, &str); 22] = [
    // Nothing of a repository is run.
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("protocol.allow", "never"),
    ("protocol.file.allow", "always"),
    ("protocol.http.allow", "always"),
    ("protocol.https.allow", "always"),
    ("protocol.ssh.allow", "always"),
    ("transfer.bundleURI", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    // Nothing is dropped behind our back, and nothing runs on after git.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // Files are as the repository has them.
    ("core.autocrlf", "false"),
    ("core.symlinks", "true"),
    ("core.quotePath", "false"),
    // Many who write into one cache wait for each other's short locks.
    ("core.filesRefLockTimeout", "5000"),
    ("core.packedRefsTimeout", "10000"),
    ("init.defaultBranch", "main"),
    // Takes back helpers that others may have set.
    ("credential.helper", ""),
];

/// On what git works.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// On nothing that is there already.
    Nowhere(&'a Path),
    /// On a bare repository.
    Bare(&'a Path),
    /// On a tree by its git directory.
    Tree { git_dir: &'a Path, tree: &'a Path },
}

/// One call of git.
#[derive(Debug)]
pub(super) struct Call<'a> {
    doing: &'static str,
    place: Place<'a>,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    stdin: Vec<u8>,
    stdout_bytes_max: usize,
    remote: Option<Remote<'a>>,
}

/// A code host that a call talks to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remote<'a> {
    pub(super) url: &'a RepoUrl,
    pub(super) credentials: Option<&'a TokenSocket>,
}

impl<'a> Call<'a> {
    pub(super) fn new(doing: &'static str, place: Place<'a>) -> Self {
        Self {
            doing,
            place,
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: Vec::new(),
            stdout_bytes_max: ANSWER_BYTES_MAX,
            remote: None,
        }
    }

    pub(super) fn args<I: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = I>) -> Self {
        let arguments = arguments.into_iter().map(|text| text.as_ref().to_owned());
        self.arguments.extend(arguments);
        self
    }

    pub(super) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Works with another index than the tree's own.
    pub(super) fn index(self, file: &Path) -> Self {
        self.env("GIT_INDEX_FILE", file)
    }

    pub(super) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = bytes;
        self
    }

    /// Wants the first bytes only.
    pub(super) fn first_bytes(mut self, bytes_max: usize) -> Self {
        self.stdout_bytes_max = bytes_max;
        self
    }

    pub(super) fn remote(mut self, remote: Remote<'a>) -> Self {
        self.remote = Some(remote);
        self
    }
}

/// The installed git.
#[derive(Debug, Clone)]
pub(super) struct Git {
    search_path: OsString,
    slots: Arc<Slots>,
    guard: Arc<Guard>,
    times: GitTimes,
    pool: BlockingPool,
}

/// How many gits run at once; others wait. A thousand at once would only take the memory.
#[derive(Debug)]
struct Slots {
    /// For what works on the disk, which more of them don't make faster.
    local: Semaphore,
    /// For what mostly waits for a code host.
    network: Semaphore,
}

impl Default for Slots {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            local: Semaphore::new(LOCAL_PER_CORE * cores),
            network: Semaphore::new(NETWORK_MAX),
        }
    }
}

impl Git {
    /// The git that the path leads to, with a guard of its own.
    ///
    /// # Errors
    /// `Io` when the guard can't be started.
    pub(super) async fn start(times: GitTimes, pool: BlockingPool) -> Result<Self, GitError> {
        // Git finds its own helpers itself; ssh is found by the path.
        let search_path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let (path, own_pool) = (search_path.clone(), pool.clone());
        let started = pool.run(move || Guard::start(&path, own_pool)).await;
        let failed = disk::failed("starting git's guard", Path::new("sh"));
        Ok(Self {
            search_path,
            slots: Arc::default(),
            guard: Arc::new(started.map_err(failed)?),
            times,
            pool,
        })
    }

    pub(super) fn pool(&self) -> &BlockingPool {
        &self.pool
    }

    /// Its version's first two numbers.
    pub(super) async fn version(&self) -> Result<(u32, u32), GitError> {
        let call = Call::new("asking git for its version", Place::Nowhere(Path::new("/")));
        let text = self.answer(call.args(["version"])).await?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let numbers = text
            .trim()
            .strip_prefix("git version ")
            .and_then(|version| {
                let mut parts = version.split('.');
                Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
            });
        numbers.ok_or_else(|| GitError::NoGit {
            source: io::Error::other(format!("it says it is {text:?}")),
        })
    }

    /// What git answers on standard output, if it succeeds.
    pub(super) async fn answer(&self, call: Call<'_>) -> Result<Vec<u8>, GitError> {
        let (doing, place) = (call.doing, call.place);
        let (ended, remote) = self.run(call).await?;
        if ended.is_truncated {
            let said = format!("an answer of more than {ANSWER_BYTES_MAX} bytes");
            return Err(GitError::Failed {
                doing,
                code: None,
                said,
            });
        }
        if !ended.status.success() {
            return Err(self.failure(doing, place, &ended, remote).await);
        }
        Ok(ended.stdout)
    }

    /// What git answers on standard output, or the beginning of it, and whether there was more.
    pub(super) async fn beginning(&self, call: Call<'_>) -> Result<(Vec<u8>, bool), GitError> {
        let (doing, place) = (call.doing, call.place);
        let (ended, remote) = self.run(call).await?;
        if !ended.is_truncated && !ended.status.success() {
            return Err(self.failure(doing, place, &ended, remote).await);
        }
        Ok((ended.stdout, ended.is_truncated))
    }

    /// Does git say yes (exit code 0), or no (1)?
    pub(super) async fn asks(&self, call: Call<'_>) -> Result<Option<Vec<u8>>, GitError> {
        let (doing, place) = (call.doing, call.place);
        let (ended, remote) = self.run(call).await?;
        match ended.status.code() {
            Some(0) => Ok(Some(ended.stdout)),
            Some(1) => Ok(None),
            _ => Err(self.failure(doing, place, &ended, remote).await),
        }
    }

    /// How git ended, whichever way.
    pub(super) async fn end_of(
        &self,
        call: Call<'_>,
    ) -> Result<(Ended, Option<GitError>), GitError> {
        let (doing, place) = (call.doing, call.place);
        let (ended, remote) = self.run(call).await?;
        let error = if ended.status.success() {
            None
        } else {
            Some(self.failure(doing, place, &ended, remote).await)
        };
        Ok((ended, error))
    }

    /// What a failure means. Of a full disk git often says only that it couldn't write, or nothing at
    /// all, so the disk is asked, too: now, before what was half-made is cleared away.
    async fn failure(
        &self,
        doing: &'static str,
        place: Place<'_>,
        ended: &Ended,
        remote: Option<Remote<'_>>,
    ) -> GitError {
        let url = remote.map(|remote| remote.url);
        let credentials = remote.and_then(|remote| remote.credentials);
        let secret = credentials.map(TokenSocket::secret);
        let error = said::error_of(doing, ended.status, &ended.stderr, url, secret);
        let may_be_full = matches!(
            error,
            GitError::Failed { .. } | GitError::Unreachable { .. }
        );
        if !may_be_full {
            return error;
        }
        let path = directory_of(place);
        match self.pool.run(move || volume::space_of(&path)).await {
            Ok(space) if space.is_full() => {
                tracing::warn!(%error, "git failed on a full disk, which is taken for the reason");
                GitError::DiskFull { doing }
            }
            Ok(_) => error,
            Err(unmeasured) => {
                tracing::debug!(%unmeasured, "the disk of a git that failed can't be measured");
                error
            }
        }
    }

    async fn run<'a>(&self, call: Call<'a>) -> Result<(Ended, Option<Remote<'a>>), GitError> {
        let doing = call.doing;
        let (time_max, slots) = match call.remote {
            Some(_) => (self.times.network_max, &self.slots.network),
            None => (self.times.local_max, &self.slots.local),
        };
        let broken = |source| GitError::Io {
            doing,
            path: directory_of(call.place),
            source,
        };
        let slot = slots
            .acquire()
            .await
            .map_err(|closed| broken(io::Error::other(closed)))?;
        let limits = Limits {
            stdout_bytes_max: call.stdout_bytes_max,
            time_max,
        };
        let command = self.command(&call);
        let outcome = run(&self.pool, command, call.stdin, limits).await;
        drop(slot);
        match outcome {
            Ok(ended) => Ok((ended, call.remote)),
            Err(RunError::TimeOver) => Err(GitError::Timeout {
                doing,
                limit_ms: u64::try_from(time_max.as_millis()).unwrap_or(u64::MAX),
            }),
            Err(RunError::NotStarted(source)) => {
                Err(self.not_started(doing, call.place, source).await)
            }
            Err(RunError::Broken(source)) => Err(broken(source)),
        }
    }

    /// A process isn't started when its program or its directory is missing, which look the same.
    async fn not_started(
        &self,
        doing: &'static str,
        place: Place<'_>,
        source: io::Error,
    ) -> GitError {
        let path = directory_of(place);
        if source.kind() != io::ErrorKind::NotFound {
            return GitError::Io {
                doing,
                path,
                source,
            };
        }
        let asked = path.clone();
        if self.pool.run(move || asked.is_dir()).await {
            GitError::NoGit { source }
        } else {
            GitError::NotThere { path }
        }
    }

    fn command(&self, call: &Call<'_>) -> Command {
        let mut command = Command::new("git");
        command
            .env_clear()
            .env("PATH", &self.search_path)
            // Without it curl would look for credentials where this process's user is at home.
            .env("HOME", "/nonexistent")
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .env("GIT_ADVICE", "0")
            .env(MARK, self.guard.mark());
        let helper = call.remote.and_then(|remote| remote.credentials);
        let helper = helper.map(|socket| ("credential.helper", socket.helper()));
        let mut count = 0;
        let fixed = CONFIGURATION.map(|(name, value)| (name, OsString::from(value)));
        for (name, value) in fixed.into_iter().chain(helper) {
            command
                .env(format!("GIT_CONFIG_KEY_{count}"), name)
                .env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
        match call.place {
            Place::Nowhere(directory) => command.current_dir(directory),
            Place::Bare(git_dir) => command.env("GIT_DIR", git_dir).current_dir(git_dir),
            Place::Tree { git_dir, tree } => command
                .env("GIT_DIR", git_dir)
                .env("GIT_WORK_TREE", tree)
                .current_dir(tree),
        };
        for (name, value) in &call.environment {
            command.env(name, value);
        }
        command.args(&call.arguments);
        command
    }
}

fn directory_of(place: Place<'_>) -> PathBuf {
    let (Place::Nowhere(path) | Place::Bare(path) | Place::Tree { tree: path, .. }) = place;
    path.to_owned()
}
