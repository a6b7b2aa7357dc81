//! A private PostgreSQL: a fresh cluster in a temporary folder, a free loopback port, settings for
//! data that is thrown away, and databases cloned from a template.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::unistd::{Uid, User, chown};

use crate::guard::{Guard, GuardedCommand, StopSignal};
use crate::server::Recipe;
use crate::{TestbedError, programs};

/// The superuser of a private cluster.
pub(crate) const SUPERUSER: &str = "postgres";

/// Nothing here has to survive a crash, and nothing may run by itself in the middle of a
/// measurement (autovacuum, checkpoints, JIT, parallel workers). Query plans and commit paths are
/// the usual ones. Shared memory as files of the cluster: gone with its folder even after kill -9.
const SETTINGS: [&str; 17] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=1GB",
    "checkpoint_timeout=1h",
    "autovacuum=off",
    "jit=off",
    "max_parallel_workers_per_gather=0",
    "max_connections=300",
    "shared_buffers=64MB",
    "dynamic_shared_memory_type=mmap",
    "logging_collector=off",
    "log_min_messages=warning",
    "timezone=UTC",
];

pub(crate) struct PostgresRecipe {
    program: PathBuf,
    folder: PathBuf,
    /// Whom to run as: PostgreSQL refuses root.
    user: Option<User>,
}

impl PostgresRecipe {
    /// Creates the cluster (`initdb`).
    ///
    /// # Errors
    /// When a program is missing, no user can be found for root, or `initdb` fails.
    pub(crate) fn new(folder: &Path, guard: &Guard) -> Result<Self, TestbedError> {
        let initdb = programs::find("initdb", "postgresql")?;
        let recipe = Self::of_cluster(folder)?;
        recipe.create_folder()?;
        // Guarded like the server: a Ctrl-C in the terminal isn't for it, and it must not go on
        // in a folder that is being removed.
        let mut guarded = GuardedCommand::new(&initdb);
        let command = guarded.command();
        command
            .args([
                "--auth=trust",
                "--no-sync",
                "--no-instructions",
                "--locale=C",
            ])
            .args(["--encoding=UTF8", "--username", SUPERUSER, "--pgdata"])
            .arg(recipe.data())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        recipe.run_as_server(command);
        let initdb = guard
            .spawn(guarded, StopSignal::Term)
            .map_err(TestbedError::io("running initdb"))?;
        let process = initdb.id();
        let output = initdb
            .wait_with_output()
            .map_err(TestbedError::io("running initdb"))?;
        guard
            .release(process)
            .map_err(TestbedError::io("telling the guard"))?;
        succeed("initdb", &output)?;
        Ok(recipe)
    }

    /// Of a cluster that is there.
    ///
    /// # Errors
    /// When the program is missing, or no user can be found for root.
    pub(crate) fn of_cluster(folder: &Path) -> Result<Self, TestbedError> {
        Ok(Self {
            program: programs::find("postgres", "postgresql")?,
            folder: folder.join("postgres"),
            user: server_user()?,
        })
    }

    fn create_folder(&self) -> Result<(), TestbedError> {
        let failed = TestbedError::io("creating PostgreSQL's folder");
        std::fs::create_dir(&self.folder)
            .and_then(|()| match &self.user {
                Some(user) => Ok(chown(&self.folder, Some(user.uid), Some(user.gid))?),
                None => Ok(()),
            })
            .map_err(failed)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn run_as_server(&self, command: &mut Command) {
        // The caller's folder may be closed to the server's user.
        command.current_dir(&self.folder).env("LC_ALL", "C");
        if let Some(user) = &self.user {
            // std drops root's supplementary groups too when it sets the user.
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
    }
}

impl Recipe for PostgresRecipe {
    const NAME: &'static str = "postgres";
    const STOP: StopSignal = StopSignal::Quit;

    fn command(&self, port: u16) -> GuardedCommand {
        let mut guarded = GuardedCommand::new(&self.program);
        let command = guarded.command();
        command
            .args(["-p", &port.to_string(), "-D"])
            .arg(self.data());
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        self.run_as_server(command);
        guarded
    }

    fn log(&self) -> PathBuf {
        self.folder.join("postgres.log")
    }

    fn is_ready(&self, _port: u16, process: u32) -> bool {
        // The cluster's lock file: line 1 is the process, line 8 its status ("Database File
        // Layout" in PostgreSQL's manual; `pg_ctl --wait` reads the same). Cheaper than a
        // connection, and it can't be a stranger's.
        let lock = std::fs::read_to_string(self.data().join("postmaster.pid"));
        lock.is_ok_and(|lock| {
            let mut lines = lock.lines();
            lines.next() == Some(&process.to_string())
                && lines.nth(6).is_some_and(|status| status.trim() == "ready")
        })
    }
}

/// Root can't be PostgreSQL: Debian's package brings the user `postgres`; `nobody` is everywhere.
fn server_user() -> Result<Option<User>, TestbedError> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        let user = User::from_name(name)
            .map_err(|errno| TestbedError::io("looking up a user for PostgreSQL")(errno.into()))?;
        if user.is_some() {
            return Ok(user);
        }
    }
    Err(TestbedError::NoServerUser)
}

/// Runs SQL statements, each in a transaction of its own, by `psql`: it speaks every kind of
/// authentication a `DATABASE_URL` may ask for.
///
/// # Errors
/// When `psql` is missing or the server refuses.
pub(crate) fn execute(url: &str, statements: &[&str]) -> Result<(), TestbedError> {
    let psql = programs::find("psql", "postgresql-client")?;
    let mut command = Command::new(psql);
    command
        .args([
            "--no-psqlrc",
            "--quiet",
            "--no-password",
            "--set=ON_ERROR_STOP=1",
            "--dbname",
            url,
        ])
        .env("PGCONNECT_TIMEOUT", "10")
        // A Ctrl-C in the terminal is for us: half a reset would fail what comes next.
        .process_group(0);
    for statement in statements {
        command.args(["--command", statement]);
    }
    let output = command.output().map_err(TestbedError::io("running psql"))?;
    succeed("psql", &output)
}

/// Turns a program's failure into an error that shows what it said.
pub(crate) fn succeed(program: &str, output: &Output) -> Result<(), TestbedError> {
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    Err(TestbedError::Command {
        command: program.to_owned(),
        status: output.status,
        said: String::from_utf8_lossy(&said).trim().to_owned(),
    })
}
