//! The world of demo and replay: a private Redis and PostgreSQL behind proxies that give loopback the
//! round trip of a network, stubs of the services that the measured one calls, and one state from
//! which every block starts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use unstall_bench_harness::process_group::ServiceCommand;
use unstall_testbed::{DEFAULT_ROUND_TRIP, DelayProxy, Guard, Options, Testbed};

use crate::agent_worker::AgentWorker;
use crate::console::{Console, to_stderr};
use crate::session::{Prepared, Stage, Turn};
use peers::Peers;

mod peers;

/// Servers, proxies, and the versions that run against them.
#[derive(Debug)]
pub(crate) struct PrivateServers {
    // Before the testbed, so that nobody talks to servers that are going.
    redis: DelayProxy,
    postgres: DelayProxy,
    peers: Peers,
    /// Answers messages; of the block that runs.
    worker: Option<AgentWorker>,
    /// Ends the worker if this process is killed.
    guard: Guard,
    testbed: Testbed,
    reference: PathBuf,
    /// See [`Self::program`].
    program: String,
    /// The database that blocks use, cloned from `template`.
    database: String,
    template: String,
    /// The round trip through a proxy, before the first block.
    measured: Duration,
    /// The command of each arm.
    versions: BTreeMap<&'static str, String>,
}

/// Digits of a digest that tell any two builds apart.
const DIGEST_BYTES: usize = 6;

fn digest(program: &Path) -> anyhow::Result<String> {
    let unreadable = || format!("{} can't be read", program.display());
    let mut file = File::open(program).with_context(unreadable)?;
    let (mut sum, mut part) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let read = file.read(&mut part).with_context(unreadable)?;
        if read == 0 {
            break;
        }
        sum.update(&part[..read]);
    }
    let first = sum.finalize();
    let digits: String = first[..DIGEST_BYTES]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(format!("sha256:{digits}"))
}

impl PrivateServers {
    /// Starts everything, and fills the template that blocks start from.
    pub(crate) fn start(reference: &Path, console: &Console) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let testbed = Testbed::start(&Options::from_env())?;
        let proxy = |address| {
            DelayProxy::start(address, DEFAULT_ROUND_TRIP)
                .context("the proxy before a store did not start")
        };
        let redis = proxy(testbed.redis_address())?;
        let postgres = proxy(testbed.postgres_address())?;
        let measured = redis
            .measure()
            .context("the round trip could not be measured")?;
        let template = format!("unstall_template_{}", std::process::id());
        let filled = testbed.create_template(&template, |url| {
            fill(reference, &["migrate", "--database-url", url])
                .and_then(|()| fill(reference, &["seed", "--database-url", url]))
                .map_err(Into::into)
        });
        if let Err(error) = filled {
            if !testbed.postgres_is_private() {
                // Half a template helps nobody. A server that can't be asked for this either
                // is what `error` tells.
                let _ = testbed.drop_database(&template);
            }
            return Err(error.into());
        }
        console.note(format!(
            "Servers are up after {:.1} s: {}, {}; round trip to them {:.2} ms (stated {:.2} ms)",
            begun.elapsed().as_secs_f64(),
            whose("Redis", testbed.redis_is_private()),
            whose("PostgreSQL", testbed.postgres_is_private()),
            ms(measured.p50),
            ms(measured.stated),
        ));
        if !testbed.redis_is_private() {
            console.note(
                "Your own Redis is never emptied: the seed writes its keys there before every \
                 block (workspace_tunnel:00000000000000a1, repo_branches:octo/hello, …), and they \
                 stay. Unset REDIS_URL to use a private one",
            );
        }
        Ok(Self {
            redis,
            postgres,
            peers: Peers::start()?,
            worker: None,
            guard: Guard::new().context("the guard of the agent's worker could not be started")?,
            testbed,
            reference: reference.to_owned(),
            program: digest(reference)?,
            database: format!("unstall_demo_{}", std::process::id()),
            template,
            measured: measured.p50,
            versions: BTreeMap::new(),
        })
    }

    /// The versions that blocks run from now on: the command of each arm.
    pub(crate) fn set_versions(
        &mut self,
        versions: impl IntoIterator<Item = (&'static str, String)>,
    ) {
        self.versions = versions.into_iter().collect();
    }

    /// From what state each block starts, in the record's words.
    pub(crate) fn state_reset(&self) -> &'static str {
        // Somebody else's Redis is never emptied, so what a block left there stays.
        if self.testbed.redis_is_private() {
            "template+flush"
        } else {
            "none"
        }
    }

    /// Which program serves: `sha256:` and the first digits of its file's digest.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// The stated round trip to the stores.
    pub(crate) fn round_trip_us(&self) -> u64 {
        micros(DEFAULT_ROUND_TRIP)
    }

    /// What it was in truth, before the first block.
    pub(crate) fn round_trip_us_measured(&self) -> u64 {
        micros(self.measured)
    }

    /// Brings the stores into the state from which a block starts, and says how to start a version
    /// against them.
    ///
    /// # Errors
    /// When a store or the worker can't be prepared.
    pub(crate) fn command(&mut self, line: &str) -> anyhow::Result<ServiceCommand> {
        if let Some(worker) = self.worker.take() {
            worker.stop(&self.guard)?;
        }
        self.reset()?;
        self.worker = Some(AgentWorker::start(
            &self.reference,
            &self.guard,
            &self.testbed.redis_url(),
            &self.testbed.database_url(&self.database),
        )?);
        let (redis, postgres) = (self.redis.addr(), self.postgres.addr());
        let database_url = self.testbed.database_url_through(postgres, &self.database);
        let mut command = ServiceCommand::new(line);
        let redis_url = self.testbed.redis_url_through(redis);
        command.environment = self.peers.environment();
        command.environment.extend([
            ("DATABASE_URL".to_owned(), database_url),
            ("REDIS_URL".to_owned(), redis_url),
        ]);
        Ok(command)
    }

    fn reset(&self) -> anyhow::Result<()> {
        self.testbed
            .reset_database(&self.template, &self.database)?;
        if self.testbed.redis_is_private() {
            self.testbed.flush_redis()?;
        }
        // Straight to the server: the proxy is for what is measured.
        fill(
            &self.reference,
            &["seed", "--redis-url", &self.testbed.redis_url()],
        )
    }
}

impl Stage for PrivateServers {
    fn prepare(&mut self, turn: &Turn) -> anyhow::Result<Prepared> {
        let line = self.versions.get(turn.arm).cloned().with_context(|| {
            format!(
                "no version is called `{}`; this is a fault of unstall",
                turn.arm
            )
        })?;
        Ok(Prepared::ToStart(self.command(&line)?))
    }
}

impl Drop for PrivateServers {
    /// A PostgreSQL that stays gets its databases removed.
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take()
            && let Err(error) = worker.stop(&self.guard)
        {
            to_stderr(&format!("warning: {error:#}"));
        }
        if self.testbed.postgres_is_private() {
            return;
        }
        for database in [&self.database, &self.template] {
            if let Err(error) = self.testbed.drop_database(database) {
                to_stderr(&format!(
                    "warning: the database {database} stays behind: {error}"
                ));
            }
        }
    }
}

/// Runs the reference service's own command that prepares a store.
fn fill(reference: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(reference)
        .args(arguments)
        .stdin(Stdio::null())
        // Ctrl-C in a terminal is for us: a store half filled would fail the next block.
        .process_group(0)
        .output()
        .with_context(|| format!("{} could not be started", reference.display()))?;
    if !output.status.success() {
        bail!(
            "`{} {}` ended with {}: {}",
            reference.display(),
            arguments.first().unwrap_or(&""),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

fn whose(server: &str, private: bool) -> String {
    if private {
        format!("private {server}")
    } else {
        format!("your own {server}")
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_built_anew_is_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        std::fs::write(&path, b"abc").expect("writable");
        // FIPS 180-2, appendix B.1.
        assert_eq!(digest(&path).expect("readable"), "sha256:ba7816bf8f01");
        std::fs::write(&path, vec![7; (1 << 20) + 1]).expect("writable");
        assert_ne!(digest(&path).expect("readable"), "sha256:ba7816bf8f01");
        std::fs::remove_file(&path).expect("there");
        let error = format!("{:#}", digest(&path).expect_err("gone"));
        assert!(error.contains("can't be read"), "{error}");
    }
}
