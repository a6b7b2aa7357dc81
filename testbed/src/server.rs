//! What a private Redis and a private PostgreSQL have in common: a port that is theirs also while
//! they are dead, a log, and a wait until the server is ready.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::TestbedError;
use crate::guard::{Guard, GuardedCommand, StopSignal};
use crate::held_port::HeldPort;

/// Generous, for machines that are busy with a build; a quiet one needs a tenth of a second.
const READY_WITHIN: Duration = Duration::from_secs(30);
const LOG_LINES_SHOWN: usize = 12;

/// How to start one kind of server.
pub(crate) trait Recipe {
    /// The server's name in messages.
    const NAME: &'static str;
    const STOP: StopSignal;

    /// The command that serves `127.0.0.1:port`, without its output.
    fn command(&self, port: u16) -> GuardedCommand;
    /// Where its output goes.
    fn log(&self) -> PathBuf;
    /// Is the server on `port` ready, and is it this process and not a stranger?
    fn is_ready(&self, port: u16, process: u32) -> bool;
}

/// A running server. Dropping it only reaps the process: the guard ends it.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    port: HeldPort,
}

impl Server {
    /// Starts a server and waits until it's ready.
    ///
    /// # Errors
    /// [`TestbedError::Start`] with the end of the server's log.
    pub(crate) fn start<R: Recipe>(recipe: &R, guard: &Guard) -> Result<Self, TestbedError> {
        let port = HeldPort::take().map_err(TestbedError::io("holding a free loopback port"))?;
        let mut server = Self {
            process: spawn(recipe, guard, port.number())?,
            port,
        };
        let Err(reason) = server.wait_until_ready(recipe) else {
            return Ok(server);
        };
        let reason = format!("{reason}\n{}", log_end(&recipe.log()));
        // It may live still, and the guard's turn comes only at the end.
        server.end(guard)?;
        Err(TestbedError::Start {
            server: R::NAME,
            reason,
        })
    }

    /// Ends the server without a word to its clients, so far as the server can: of PostgreSQL a
    /// killed parent would leave processes that hold its memory and its data.
    pub(crate) fn kill<R: Recipe>(&mut self, guard: &Guard) -> Result<(), TestbedError> {
        if let (StopSignal::Quit, Ok(process)) = (R::STOP, i32::try_from(self.process.id())) {
            // An error says that it is dead.
            let _ = signal::kill(Pid::from_raw(process), Signal::SIGQUIT);
            let _ = self.process.wait();
        }
        self.end(guard)
    }

    /// Starts a server that was killed anew on its port.
    ///
    /// # Errors
    /// [`TestbedError::Start`] with the end of the server's log.
    pub(crate) fn revive<R: Recipe>(
        &mut self,
        recipe: &R,
        guard: &Guard,
    ) -> Result<(), TestbedError> {
        self.process = spawn(recipe, guard, self.port.number())?;
        self.wait_until_ready(recipe)
            .map_err(|reason| TestbedError::Start {
                server: R::NAME,
                reason: format!("{reason}\n{}", log_end(&recipe.log())),
            })
    }

    /// Kills the process, and has the guard forget it.
    fn end(&mut self, guard: &Guard) -> Result<(), TestbedError> {
        let _ = self.process.kill(); // an error says that it is dead
        let _ = self.process.wait();
        guard
            .release(self.process.id())
            .map_err(TestbedError::io("telling the guard"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number()))
    }

    fn wait_until_ready<R: Recipe>(&mut self, recipe: &R) -> Result<(), String> {
        let limit = Instant::now() + READY_WITHIN;
        while Instant::now() < limit {
            if recipe.is_ready(self.port.number(), self.process.id()) {
                return Ok(());
            }
            match self.process.try_wait() {
                Ok(Some(status)) => return Err(ended(status)),
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!(
            "it wasn't ready within {} s",
            READY_WITHIN.as_secs()
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The guard has ended the process before (see `Testbed`); this only takes the zombie away.
        let _ = self.process.wait();
    }
}

fn spawn<R: Recipe>(recipe: &R, guard: &Guard, port: u16) -> Result<Child, TestbedError> {
    let path = recipe.log();
    let log = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(&path);
    let with_log = |log: File| -> io::Result<Child> {
        let mut command = recipe.command(port);
        command.command().stdout(log.try_clone()?).stderr(log);
        guard.spawn(command, R::STOP)
    };
    log.and_then(with_log)
        .map_err(|source| TestbedError::Start {
            server: R::NAME,
            reason: format!("{source} (log: {})", path.display()),
        })
}

fn ended(status: ExitStatus) -> String {
    format!("it ended at once ({status})")
}

fn log_end(path: &std::path::Path) -> String {
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return format!("(its log {} is unreadable: {error})", path.display()),
    };
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell script in the place of a server; it's ready when it has made the folder `ready`.
    struct Script {
        folder: tempfile::TempDir,
        text: &'static str,
    }

    impl Script {
        fn new(text: &'static str) -> io::Result<Self> {
            Ok(Self {
                folder: tempfile::tempdir()?,
                text,
            })
        }

        fn starts(&self) -> io::Result<usize> {
            Ok(std::fs::read_to_string(self.folder.path().join("starts"))?
                .lines()
                .count())
        }
    }

    impl Recipe for Script {
        const NAME: &'static str = "script";
        const STOP: StopSignal = StopSignal::Term;

        fn command(&self, port: u16) -> GuardedCommand {
            let mut guarded = GuardedCommand::new("/bin/sh".as_ref());
            let text = format!("echo {port} >>starts; {}", self.text);
            guarded
                .command()
                .args(["-c", &text])
                .current_dir(self.folder.path());
            guarded
        }

        fn log(&self) -> PathBuf {
            self.folder.path().join("log")
        }

        fn is_ready(&self, _port: u16, _process: u32) -> bool {
            self.folder.path().join("ready").exists()
        }
    }

    #[test]
    fn a_failure_is_told_at_once_with_the_logs_end() -> io::Result<()> {
        let guard = Guard::new()?;
        let script = Script::new("seq 100; echo 'no such locale' >&2; exit 3")?;
        let error = Server::start(&script, &guard)
            .expect_err("it ended")
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("no such locale"),
            "{error}"
        );
        assert!(
            error.contains("\n100\n") && !error.contains("\n50\n"),
            "{error}"
        );
        assert_eq!(script.starts()?, 1);
        Ok(())
    }
}
