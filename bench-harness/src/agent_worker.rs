//! The agent's worker beside the demo's service: it answers the messages that the service queues.
//!
//! It is no part of what is measured, so it runs outside of the service's process group and
//! talks to the stores directly, past the proxies. Each block gets a fresh one, since its database
//! is thrown away with the block.

use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use unstall_testbed::{Guard, GuardedCommand, StopSignal};

/// How long it may take to end on TERM.
const ENDED_WITHIN: Duration = Duration::from_secs(3);
/// Between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A running worker.
#[derive(Debug)]
pub(crate) struct AgentWorker {
    child: Child,
}

impl AgentWorker {
    /// Starts `unstall-reference worker`. Runs that are queued before it listens are kept for it.
    ///
    /// # Errors
    /// When the program can't be started.
    pub(crate) fn start(
        reference: &Path,
        guard: &Guard,
        redis_url: &str,
        database_url: &str,
    ) -> anyhow::Result<Self> {
        let mut guarded = GuardedCommand::new(reference);
        guarded
            .command()
            .args(["worker", "--redis-url", redis_url])
            .args(["--database-url", database_url])
            // Stdout belongs to the result; what the worker warns of goes to stderr as ours does.
            .stdout(Stdio::null());
        let child = guard
            .spawn(guarded, StopSignal::Term)
            .context("the agent's worker could not be started")?;
        Ok(Self { child })
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it had ended by itself: the streams of that block were then never answered.
    pub(crate) fn stop(mut self, guard: &Guard) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait().context(LOST)? {
            guard.release(self.child.id()).context(LOST)?;
            bail!("the agent's worker ended by itself ({status}); what it said is above");
        }
        let group = Pid::from_raw(self.child.id().cast_signed());
        killpg(group, Signal::SIGTERM).context(LOST)?;
        if self.ended_within(ENDED_WITHIN)?.is_none() {
            killpg(group, Signal::SIGKILL).context(LOST)?;
            self.child.wait().context(LOST)?;
        }
        guard.release(self.child.id()).context(LOST)
    }

    fn ended_within(&mut self, within: Duration) -> anyhow::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + within;
        loop {
            let status = self.child.try_wait().context(LOST)?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

const LOST: &str = "the agent's worker could not be ended";
