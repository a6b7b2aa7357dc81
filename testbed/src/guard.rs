//! Ends child processes and removes folders when their owner ends, however it ends.
//!
//! Destructors don't run after `kill -9`, and `PR_SET_PDEATHSIG` is bound to the thread that
//! spawned. So a small shell process in a process group of its own (a terminal's Ctrl-C doesn't
//! reach it) reads a pipe whose writing end only the owner holds. When the kernel closes it, the
//! shell ends the registered process groups and removes the registered folders. Dropping a
//! [`Guard`] takes the same way, so that the way is always in use.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

use crate::peer::lock;

const SCRIPT: &str = include_str!("guard.sh");

/// The signal a process group gets first; three seconds later it gets KILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// The usual request to end.
    Term,
    /// PostgreSQL's "immediate shutdown": right for data that is thrown away.
    Quit,
}

impl StopSignal {
    fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Quit => "QUIT",
        }
    }
}

/// Ends registered process groups and removes registered folders when it is dropped, and when the
/// process that holds it ends in any way.
#[derive(Debug)]
pub struct Guard {
    shell: Child,
    /// `None` only while dropping.
    orders: Option<Mutex<ChildStdin>>,
}

impl Guard {
    /// Starts the guard process.
    ///
    /// # Errors
    /// When `sh` can't be started.
    pub fn new() -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "unstall-guard"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // An inherited stderr would keep a reader of the owner's output waiting for the guard.
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()
            .map_err(|source| {
                io::Error::new(
                    source.kind(),
                    format!("cannot start the guard (sh): {source}"),
                )
            })?;
        let orders = shell.stdin.take().map(Mutex::new);
        Ok(Self { shell, orders })
    }

    /// Forgets a process group: its owner saw it end, or wants it to live on.
    ///
    /// # Errors
    /// When the guard process is gone.
    pub fn release(&self, pgid: u32) -> io::Result<()> {
        self.order(&format!("release {pgid}"))
    }

    /// Has `path` removed with all that is in it, after the process groups ended.
    ///
    /// # Errors
    /// When the path isn't absolute, is the root, or holds a line break; or the guard process is gone.
    pub fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.order(&format!("remove {}", removable(path)?))
    }

    /// Starts `command` as the leader of a process group that is watched before its program runs:
    /// there is no moment at which the owner's death would leave it behind.
    ///
    /// # Errors
    /// When the process can't be started or the guard process is gone.
    pub fn spawn(&self, command: GuardedCommand, signal: StopSignal) -> io::Result<Child> {
        let mut command = command.gate;
        let mut child = command.spawn()?;
        let gate = child.stdin.take();
        let opened = self
            .watch_group(child.id(), signal)
            .and_then(|()| gate.map_or(Ok(()), |mut gate| gate.write_all(b"go\n")));
        if let Err(error) = opened {
            // The closed gate ends the shell that waits at it, without having run the program.
            child.wait()?;
            return Err(error);
        }
        Ok(child)
    }

    /// The guard process' id, for tests and diagnostics.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.shell.id()
    }

    /// Has the process group `pgid` ended. Call it while the group's leader is alive: its start
    /// time tells it from a later process with the same number.
    fn watch_group(&self, pgid: u32, signal: StopSignal) -> io::Result<()> {
        let start = start_time(pgid)?;
        self.order(&format!("watch {pgid} {start} {}", signal.name()))
    }

    fn order(&self, line: &str) -> io::Result<()> {
        let Some(orders) = &self.orders else {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        };
        // One write per line, far below PIPE_BUF: never torn, whatever happens to the owner.
        lock(orders)
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|source| {
                io::Error::new(
                    source.kind(),
                    format!("the guard process is gone: {source}"),
                )
            })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.orders.take());
        // Bounded by the script: 3 s of grace, then KILL. An error means that it is gone already.
        let _ = self.shell.wait();
    }
}

/// A command that [`Guard::spawn`] starts behind a gate: a shell waits for the guard to know the
/// process, then becomes the program. Standard input is the gate's, and empty for the program.
#[derive(Debug)]
pub struct GuardedCommand {
    gate: Command,
}

impl GuardedCommand {
    /// A command for `program`, leader of a new process group.
    #[must_use]
    pub fn new(program: &Path) -> Self {
        let mut gate = Command::new("sh");
        gate.args([
            "-c",
            r#"read -r go && exec "$@" </dev/null"#,
            "unstall-gate",
        ])
        .arg(program)
        .stdin(Stdio::piped())
        .process_group(0);
        Self { gate }
    }

    /// To add arguments, environment, user and output. Don't set standard input.
    pub fn command(&mut self) -> &mut Command {
        &mut self.gate
    }
}

fn removable(path: &Path) -> io::Result<&str> {
    let text = path.to_str().filter(|text| !text.contains('\n'));
    match text {
        Some(text) if path.is_absolute() && path.parent().is_some() => Ok(text),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} can't be removed by the guard: it must be an absolute UTF-8 path below the root, without line breaks",
                path.display()
            ),
        )),
    }
}

/// When the process started, in clock ticks since boot: field 22 of `/proc/PID/stat` (proc(5)).
fn start_time(pid: u32) -> io::Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path)
        .map_err(|source| io::Error::new(source.kind(), format!("cannot read {path}: {source}")))?;
    // The name is in parentheses and may hold blanks and parentheses itself: count from its end.
    stat.rsplit_once(") ")
        .and_then(|(_, fields)| fields.split(' ').nth(19))
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{path}: no start time in field 22"),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_folders_are_taken_for_removal() {
        assert_eq!(removable(Path::new("/tmp/a b")).ok(), Some("/tmp/a b"));
        for path in ["/", "relative", "", "/tmp/a\nremove /home"] {
            assert!(removable(Path::new(path)).is_err(), "{path:?} was accepted");
        }
    }

    #[test]
    fn own_start_time_is_known_and_a_missing_process_is_an_error() {
        assert!(start_time(std::process::id()).is_ok_and(|start| start > 0));
        let error = start_time(u32::MAX).expect_err("no process has this number");
        assert!(
            error.to_string().contains("/proc/4294967295/stat"),
            "{error}"
        );
    }

    #[test]
    fn a_later_process_with_the_same_number_is_left_alone() -> io::Result<()> {
        let guard = Guard::new()?;
        let mut stranger = Command::new("sleep").arg("60").process_group(0).spawn()?;
        let start = start_time(stranger.id())?;
        guard.order(&format!("watch {} {} KILL", stranger.id(), start - 1))?;
        drop(guard);
        let is_alive = stranger.try_wait()?.is_none();
        stranger.kill()?;
        stranger.wait()?;
        assert!(is_alive, "a process with another start time was killed");
        Ok(())
    }
}
