//! One process from its start to its end: started off the runtime's workers, in a process group of its
//! own, and ended with all its children when its time is over or nobody waits for it any more. What
//! outlives this process is the guard's (`guard.rs`).

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::blocking_pool::BlockingPool;

/// Bytes of standard error that are kept: the first ones, where git says what is wrong.
const STDERR_BYTES_MAX: usize = 64 * 1024;

/// How long the pipes are read after the process has ended, if a child of it still holds them.
const PIPES_AFTER_END_MAX: Duration = Duration::from_secs(1);

/// What a process may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) stdout_bytes_max: usize,
    pub(super) time_max: Duration,
}

/// How a process ended, and what it wrote.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    /// Was there more of it? Then the process was ended.
    pub(super) is_truncated: bool,
    pub(super) stderr: Vec<u8>,
}

/// Why there is no end to tell of.
#[derive(Debug)]
pub(super) enum RunError {
    NotStarted(io::Error),
    TimeOver,
    /// The system refused something on the way.
    Broken(io::Error),
}

/// Runs a command to its end. When the answer is dropped, the process and its children are ended.
pub(super) async fn run(
    pool: &BlockingPool,
    command: Command,
    stdin: Vec<u8>,
    limits: Limits,
) -> Result<Ended, RunError> {
    let has_stdin = !stdin.is_empty();
    let running = pool
        .run(move || Running::start(command, has_stdin))
        .await
        .map_err(RunError::NotStarted)?;
    // Dropped together with this future, which is how the driver learns that nobody waits any more.
    let (_somebody_waits, nobody_waits) = oneshot::channel::<()>();
    let driver = tokio::spawn(drive(running, stdin, limits, nobody_waits));
    driver
        .await
        .unwrap_or_else(|ended| Err(RunError::Broken(io::Error::other(ended))))
}

/// A process that has to be waited for.
struct Running {
    child: Child,
    group: Pid,
    pidfd: Option<OwnedFd>,
    is_reaped: bool,
}

impl Running {
    fn start(mut command: Command, has_stdin: bool) -> io::Result<Self> {
        let stdin = if has_stdin {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let group = Pid::from_child(&child);
        let mut running = Self {
            child,
            group,
            pidfd: None,
            is_reaped: false,
        };
        running.pidfd = Some(pidfd_open(group, PidfdFlags::empty())?);
        Ok(running)
    }

    /// Ends all of the group. Only before the process is reaped: afterwards its number may be another's.
    fn kill(&self) {
        // Refused only if all of the group has ended already.
        let _ended_already = kill_process_group(self.group, Signal::KILL);
    }

    async fn reap(&mut self, end: &AsyncFd<OwnedFd>) -> io::Result<ExitStatus> {
        self.kill();
        end.readable().await?.retain_ready();
        let status = self.child.try_wait()?;
        self.is_reaped = status.is_some();
        status.ok_or_else(|| io::Error::other("a process that has ended has no exit status"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_reaped {
            // The runtime ends, or the start failed half-way. Killed, it ends at once.
            self.kill();
            let _status_that_nobody_wants = self.child.wait();
        }
    }
}

async fn drive(
    mut running: Running,
    stdin: Vec<u8>,
    limits: Limits,
    nobody_waits: oneshot::Receiver<()>,
) -> Result<Ended, RunError> {
    let pidfd = running
        .pidfd
        .take()
        .ok_or_else(|| RunError::Broken(io::Error::other("a started process has no descriptor")))?;
    #[expect(
        deprecated,
        reason = "its successor is unsafe to say that a descriptor stays the same, as an OwnedFd does"
    )]
    let end = AsyncFd::new(pidfd).map_err(RunError::Broken)?;
    let pipes = Pipes::of(&mut running.child).map_err(RunError::Broken)?;
    let mut written = Written::default();
    let outcome = tokio::select! {
        talked = timeout(limits.time_max, pipes.talk(&stdin, limits, &end, &mut written)) => match talked {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(RunError::Broken(error)),
            Err(_) => Some(RunError::TimeOver),
        },
        _ = nobody_waits => Some(RunError::Broken(io::Error::other("nobody waits for it"))),
    };
    let status = running.reap(&end).await.map_err(RunError::Broken)?;
    match outcome {
        Some(error) => Err(error),
        None => Ok(Ended {
            status,
            stdout: written.stdout,
            is_truncated: written.is_truncated,
            stderr: written.stderr,
        }),
    }
}

/// What a process wrote so far.
#[derive(Default)]
struct Written {
    stdout: Vec<u8>,
    is_truncated: bool,
    stderr: Vec<u8>,
}

/// Our ends of a process's pipes.
struct Pipes {
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

impl Pipes {
    fn of(child: &mut Child) -> io::Result<Self> {
        let missing = || io::Error::other("a started process has no pipe");
        let stdin = child
            .stdin
            .take()
            .map(|end: ChildStdin| pipe::Sender::from_owned_fd(end.into()));
        let stdout: ChildStdout = child.stdout.take().ok_or_else(missing)?;
        let stderr: ChildStderr = child.stderr.take().ok_or_else(missing)?;
        Ok(Self {
            stdin: stdin.transpose()?,
            stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
            stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
        })
    }

    /// Writes and reads until the process has ended.
    async fn talk(
        self,
        stdin: &[u8],
        limits: Limits,
        end: &AsyncFd<OwnedFd>,
        written: &mut Written,
    ) -> io::Result<()> {
        let transfer = async {
            let (fed, read, said) = tokio::join!(
                feed(self.stdin, stdin),
                read_up_to(self.stdout, limits.stdout_bytes_max, &mut written.stdout),
                read_and_drain(self.stderr, STDERR_BYTES_MAX, &mut written.stderr),
            );
            written.is_truncated = read?;
            fed?;
            said
        };
        let mut transfer = pin!(transfer);
        let is_transferred = tokio::select! {
            done = &mut transfer => {
                done?;
                true
            }
            ended = end.readable() => {
                ended?.retain_ready();
                false
            }
        };
        if is_transferred {
            end.readable().await?.retain_ready();
            return Ok(());
        }
        // A child that holds the pipes beyond that is not waited for; it is ended with the group.
        match timeout(PIPES_AFTER_END_MAX, transfer).await {
            Ok(done) => done,
            Err(_held_by_a_child) => Ok(()),
        }
    }
}

async fn feed(stdin: Option<pipe::Sender>, bytes: &[u8]) -> io::Result<()> {
    let Some(mut stdin) = stdin else {
        return Ok(());
    };
    match stdin.write_all(bytes).await {
        // It ended without reading all: its exit status says why.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Reads to the end, or closes the pipe when there is more, which ends git; then it answers true.
async fn read_up_to(
    mut from: pipe::Receiver,
    bytes_max: usize,
    into: &mut Vec<u8>,
) -> io::Result<bool> {
    loop {
        let room = bytes_max.saturating_sub(into.len());
        let mut limited = (&mut from).take(room as u64 + 1);
        let read = limited.read_buf(into).await?;
        if into.len() > bytes_max {
            into.truncate(bytes_max);
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
    }
}

/// Reads to the end, and keeps the first bytes.
async fn read_and_drain(
    mut from: pipe::Receiver,
    bytes_max: usize,
    into: &mut Vec<u8>,
) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let room = bytes_max.saturating_sub(into.len());
        into.extend_from_slice(&buffer[..read.min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LIMITS: Limits = Limits {
        stdout_bytes_max: 1000,
        time_max: Duration::from_secs(20),
    };

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    async fn run_shell(script: &str, stdin: &str, limits: Limits) -> Result<Ended, RunError> {
        let pool = BlockingPool::new(1).expect("a thread");
        run(&pool, shell(script), stdin.as_bytes().to_vec(), limits).await
    }

    #[tokio::test]
    async fn what_goes_in_and_comes_out_is_whole() {
        let ended = run_shell("cat; echo oops >&2; exit 3", "hello", LIMITS)
            .await
            .expect("it ends");
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(
            (&ended.stdout[..], &ended.stderr[..]),
            (&b"hello"[..], &b"oops\n"[..])
        );
        assert!(!ended.is_truncated);
    }

    #[tokio::test]
    async fn endless_output_is_cut_and_its_writer_ends() {
        let ended = run_shell("exec yes", "", LIMITS).await.expect("it ends");
        assert_eq!((ended.stdout.len(), ended.is_truncated), (1000, true));
        let ended = run_shell("printf %01000d 1", "", LIMITS)
            .await
            .expect("it ends");
        assert_eq!((ended.stdout.len(), ended.is_truncated), (1000, false));
    }

    #[tokio::test]
    async fn a_child_that_holds_the_pipe_does_not_hold_the_answer() {
        let started = Instant::now();
        let ended = run_shell("sleep 30 & echo done", "", LIMITS)
            .await
            .expect("it ends");
        assert_eq!(&ended.stdout[..], b"done\n");
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn a_timeout_and_a_dropped_caller_end_it_with_its_children() {
        let folder = tempfile::tempdir().expect("a folder");
        let alive = folder.path().join("alive");
        let script = format!(
            "(while :; do touch {}; sleep 0.05; done) & wait",
            alive.display()
        );
        let limits = Limits {
            time_max: Duration::from_millis(300),
            ..LIMITS
        };
        let outcome = run_shell(&script, "", limits).await;
        assert!(matches!(outcome, Err(RunError::TimeOver)));
        assert_ends(&alive).await;

        let dropped = timeout(Duration::from_millis(300), run_shell(&script, "", LIMITS)).await;
        assert!(dropped.is_err());
        assert_ends(&alive).await;
    }

    /// Nobody touches the file any more.
    async fn assert_ends(alive: &std::path::Path) {
        let is_there = || alive.try_exists().expect("a look");
        assert!(is_there(), "it ran");
        for _ in 0..40 {
            std::fs::remove_file(alive).expect("a file");
            tokio::time::sleep(Duration::from_millis(200)).await;
            if !is_there() {
                return;
            }
        }
        panic!("a child survived");
    }

    #[tokio::test]
    async fn what_is_not_there_is_not_started() {
        let pool = BlockingPool::new(1).expect("a thread");
        let outcome = run(&pool, Command::new("/no/such"), Vec::new(), LIMITS).await;
        assert!(matches!(outcome, Err(RunError::NotStarted(_))));
    }
}
