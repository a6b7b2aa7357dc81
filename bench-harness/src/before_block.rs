//! The user's own command before each block: the one way to restore state that no tool knows.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use unstall_bench_harness::engine::Stop;
use unstall_testbed::{Guard, GuardedCommand, StopSignal};

use crate::session::Turn;

/// Between two looks whether the command has ended or someone wants to stop.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// `--before-block CMD`
#[derive(Debug)]
pub(crate) struct BeforeBlock<'a> {
    line: &'a str,
    stop: &'a Stop,
    /// Ends a command that still runs when this process is killed.
    guard: Guard,
}

impl<'a> BeforeBlock<'a> {
    /// # Errors
    /// When the guard can't be started.
    pub(crate) fn new(line: &'a str, stop: &'a Stop) -> anyhow::Result<Self> {
        let guard = Guard::new().context("the guard of --before-block could not be started")?;
        Ok(Self { line, stop, guard })
    }

    /// Runs it in a shell, in a process group of its own, and waits for it.
    ///
    /// # Errors
    /// When it can't be started, fails, or is stopped by Ctrl-C.
    pub(crate) fn run(&self, turn: &Turn) -> anyhow::Result<()> {
        // Stdout belongs to the result, so what the command says goes to stderr.
        let stderr = io::stderr()
            .as_fd()
            .try_clone_to_owned()
            .context("stderr can't be handed to --before-block")?;
        let mut guarded = GuardedCommand::new(Path::new("sh"));
        guarded
            .command()
            .args(["-c", self.line])
            .env("UNSTALL_ARM", turn.arm)
            .env("UNSTALL_PAIR", turn.pair.to_string())
            .stdout(Stdio::from(stderr));
        let mut child = self
            .guard
            .spawn(guarded, StopSignal::Term)
            .context("--before-block needs `sh`, which could not be started")?;
        let status = self.wait(&mut child)?;
        // What it has left running in the background is meant to stay.
        self.guard
            .release(child.id())
            .context("the guard of --before-block is gone")?;
        if !status.success() {
            bail!(
                "--before-block `{}` ended with {status} (UNSTALL_ARM={} UNSTALL_PAIR={}); \
                 mend the command",
                self.line,
                turn.arm,
                turn.pair
            );
        }
        Ok(())
    }

    fn wait(&self, child: &mut Child) -> anyhow::Result<ExitStatus> {
        loop {
            if let Some(status) = child
                .try_wait()
                .context("--before-block can't be waited for")?
            {
                return Ok(status);
            }
            if self.stop.is_requested() {
                let group = i32::try_from(child.id()).context("a process id is too large")?;
                // It may have ended by itself just now; then there is nothing to kill.
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
                return child.wait().context("--before-block can't be waited for");
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}
