//! A command that runs, as we see it: its pipes, its time, and its end.

use std::ffi::{OsStr, OsString};
use std::future::pending;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use futures_util::stream::unfold;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::output::OutputKeeper;
use super::wire::{CommandEnd, Step};
use crate::domain::{LockLoss, RuntimeId, RuntimeState, SandboxError};
use crate::ports::runtimes::{ExecChunk, ExecEnd, ExecEvent, ExecEvents, ExecResult, OutputStream};

/// What a pipe holds by itself, so that one reading empties it.
const READ_BYTES_MAX: usize = 64 * 1024;

/// What is read after the end, at most: the largest pipe that a user may ask for, twice. More can only
/// come from somebody else who was handed the pipe.
const BYTES_AFTER_END_MAX: usize = 2 << 20;

/// A kill is followed by the end within this, or the runtime is taken for broken.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// What `timeout` exits with.
const EXIT_CODE_OF_TIMEOUT: i32 = 124;

/// What shells add to the number of a signal.
const EXIT_CODE_OF_SIGNALS: i32 = 128;

/// Our ends of a command's pipes.
pub(super) struct OurEnds {
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    stdin: Option<Input>,
}

struct Input {
    pipe: Sender,
    bytes: Vec<u8>,
    written: usize,
}

/// Makes a command's pipes: our ends, and the command's for output, errors and input.
///
/// # Errors
/// When there are too many open files.
pub(super) fn pipes(input: Option<Vec<u8>>) -> io::Result<(OurEnds, Vec<OwnedFd>)> {
    let (stdout, stdout_in) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, stderr_in) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut theirs = vec![stdout_in, stderr_in];
    let stdin = match input {
        None => None,
        Some(bytes) => {
            let (stdin_out, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
            theirs.push(stdin_out);
            Some(Input {
                pipe: Sender::from_owned_fd(stdin)?,
                bytes,
                written: 0,
            })
        }
    };
    let ours = OurEnds {
        stdout: Some(Receiver::from_owned_fd(stdout)?),
        stderr: Some(Receiver::from_owned_fd(stderr)?),
        stdin,
    };
    Ok((ours, theirs))
}

/// What is known of a command beside its pipes.
pub(super) struct Order {
    /// In which runtime.
    pub(super) runtime: RuntimeId,
    /// What it is called in errors: its program alone.
    pub(super) program: OsString,
    /// How long it may take.
    pub(super) timeout: Duration,
    /// How it ended.
    pub(super) ended: oneshot::Receiver<CommandEnd>,
    /// Kills it.
    pub(super) kill: Box<dyn FnOnce() + Send + Sync>,
}

/// A command that was ordered. Dropping it kills the command.
pub(super) struct Execution {
    ours: OurEnds,
    runtime: RuntimeId,
    program: OsString,
    timeout: Duration,
    deadline: Option<Instant>,
    ended: oneshot::Receiver<CommandEnd>,
    kill: Option<Box<dyn FnOnce() + Send + Sync>>,
    end: Option<CommandEnd>,
    is_late: bool,
    bytes_after_end: usize,
}

/// What happened next.
enum Happened {
    /// So many bytes were read.
    Read(OutputStream, usize),
    /// It has ended, and all is read.
    Ended(CommandEnd),
}

/// What can be done next.
enum Ready {
    Ended(CommandEnd),
    Late,
    Stdin,
    Output(OutputStream),
}

impl Execution {
    pub(super) fn new(ours: OurEnds, order: Order) -> Self {
        Self {
            ours,
            runtime: order.runtime,
            program: order.program,
            timeout: order.timeout,
            // A time that can't be told is never over.
            deadline: Instant::now().checked_add(order.timeout),
            ended: order.ended,
            kill: Some(order.kill),
            end: None,
            is_late: false,
            bytes_after_end: 0,
        }
    }

    /// Runs it to its end, keeping both ends of its output.
    pub(super) async fn finish(
        mut self,
        output_bytes_max: usize,
    ) -> Result<ExecResult, SandboxError> {
        let mut stdout = OutputKeeper::new(output_bytes_max);
        let mut stderr = OutputKeeper::new(output_bytes_max);
        let mut buffer = vec![0; READ_BYTES_MAX];
        loop {
            match self.next(&mut buffer).await? {
                Happened::Read(OutputStream::Stdout, length) => stdout.push(&buffer[..length]),
                Happened::Read(OutputStream::Stderr, length) => stderr.push(&buffer[..length]),
                Happened::Ended(end) => {
                    let end = self.outcome(end)?;
                    let (stdout, stderr) = (stdout.finish(), stderr.finish());
                    let truncated = stdout.is_truncated() || stderr.is_truncated();
                    return Ok(ExecResult {
                        exit_code: end.exit_code,
                        stdout,
                        stderr,
                        timed_out: end.timed_out,
                        truncated,
                    });
                }
            }
        }
    }

    /// Hands its output on as it comes.
    pub(super) fn events(self) -> ExecEvents {
        let state = Some((self, vec![0; READ_BYTES_MAX]));
        Box::pin(unfold(state, |state| async {
            let (mut execution, mut buffer) = state?;
            match execution.next(&mut buffer).await {
                Ok(Happened::Read(stream, length)) => {
                    let data = buffer[..length].to_vec();
                    let event = ExecEvent::Chunk(ExecChunk { stream, data });
                    Some((Ok(event), Some((execution, buffer))))
                }
                Ok(Happened::Ended(end)) => {
                    Some((execution.outcome(end).map(ExecEvent::Ended), None))
                }
                Err(error) => Some((Err(error), None)),
            }
        }))
    }

    async fn next(&mut self, buffer: &mut [u8]) -> Result<Happened, SandboxError> {
        loop {
            if let Some(end) = self.end {
                return Ok(self.drain(end, buffer));
            }
            match self.ready().await? {
                Ready::Ended(end) => {
                    self.end = Some(end);
                    self.kill = None;
                }
                Ready::Late => self.be_late()?,
                Ready::Stdin => self.write(),
                Ready::Output(stream) => {
                    if let Some(length) = self.read(stream, buffer) {
                        return Ok(Happened::Read(stream, length));
                    }
                }
            }
        }
    }

    async fn ready(&mut self) -> Result<Ready, SandboxError> {
        let is_gone = |_| SandboxError::NotRunning {
            runtime: self.runtime,
            state: RuntimeState::Failed,
        };
        // The end before all else, so that output which never ends can't hide it; then what the command
        // may wait for.
        tokio::select! {
            biased;
            end = &mut self.ended => end.map(Ready::Ended).map_err(is_gone),
            () = until(self.deadline) => Ok(Ready::Late),
            () = writable(self.ours.stdin.as_ref()) => Ok(Ready::Stdin),
            () = readable(self.ours.stderr.as_ref()) => Ok(Ready::Output(OutputStream::Stderr)),
            () = readable(self.ours.stdout.as_ref()) => Ok(Ready::Output(OutputStream::Stdout)),
        }
    }

    fn be_late(&mut self) -> Result<(), SandboxError> {
        self.deadline = Instant::now().checked_add(KILL_TIMEOUT);
        self.is_late = true;
        match self.kill.take() {
            Some(kill) => {
                kill();
                Ok(())
            }
            None => Err(SandboxError::Timeout {
                doing: "killing a command",
                limit_ms: u64::try_from(KILL_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
            }),
        }
    }

    fn write(&mut self) {
        if let Some(input) = &mut self.ours.stdin {
            match input.pipe.try_write(&input.bytes[input.written..]) {
                Ok(length) => input.written += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It reads no more, which is its right.
                Err(_) => input.written = input.bytes.len(),
            }
            if input.written == input.bytes.len() {
                self.ours.stdin = None; // the end of its input
            }
        }
    }

    fn pipe(&mut self, stream: OutputStream) -> &mut Option<Receiver> {
        match stream {
            OutputStream::Stdout => &mut self.ours.stdout,
            OutputStream::Stderr => &mut self.ours.stderr,
        }
    }

    fn read(&mut self, stream: OutputStream, buffer: &mut [u8]) -> Option<usize> {
        let pipe = self.pipe(stream);
        let read = pipe.as_ref().map(|pipe| pipe.try_read(buffer));
        match read {
            Some(Ok(length)) if length > 0 => Some(length),
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => None,
            Some(Ok(_) | Err(_)) => {
                *pipe = None; // nobody writes it any more
                None
            }
            None => None,
        }
    }

    /// Reads what is left. The pipes are asked themselves, and not what the event loop knows of them,
    /// which may be older than the end. Whoever still holds one isn't waited for.
    fn drain(&mut self, end: CommandEnd, buffer: &mut [u8]) -> Happened {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            let has_room = self.bytes_after_end < BYTES_AFTER_END_MAX;
            let pipe = self.pipe(stream).as_ref().filter(|_| has_room);
            match pipe.map(|pipe| rustix::io::read(pipe.as_fd(), &mut *buffer)) {
                Some(Ok(length)) if length > 0 => {
                    self.bytes_after_end += length;
                    return Happened::Read(stream, length);
                }
                Some(_) | None => *self.pipe(stream) = None,
            }
        }
        Happened::Ended(end)
    }

    fn outcome(&self, end: CommandEnd) -> Result<ExecEnd, SandboxError> {
        let by_signal = |signal| ExecEnd {
            exit_code: EXIT_CODE_OF_SIGNALS + signal,
            timed_out: false,
        };
        match end {
            CommandEnd::Exited(exit_code) => Ok(ExecEnd {
                exit_code,
                timed_out: false,
            }),
            CommandEnd::Signaled(signal) => Ok(by_signal(signal)),
            CommandEnd::Killed if self.is_late => Ok(ExecEnd {
                exit_code: EXIT_CODE_OF_TIMEOUT,
                timed_out: true,
            }),
            CommandEnd::Killed => Ok(by_signal(libc::SIGKILL)),
            CommandEnd::LeaseEnded => Err(self.lock_lost(LockLoss::LeaseEnded)),
            CommandEnd::Superseded { given, newest } => {
                Err(self.lock_lost(LockLoss::NewerToken { given, newest }))
            }
            CommandEnd::NotBegun { step, errno } => Err(not_begun(&self.program, step, errno)),
        }
    }

    fn lock_lost(&self, loss: LockLoss) -> SandboxError {
        SandboxError::LockLost {
            command: self.program.to_string_lossy().into_owned(),
            loss,
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if let Some(kill) = self.kill.take() {
            tracing::debug!(program = ?self.program, timeout = ?self.timeout, "a command is dropped, and killed");
            kill();
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

/// An error is for whoever reads.
async fn readable(pipe: Option<&Receiver>) {
    match pipe {
        Some(pipe) => drop(pipe.readable().await),
        None => pending().await,
    }
}

/// An error is for whoever writes.
async fn writable(input: Option<&Input>) {
    match input {
        Some(input) => drop(input.pipe.writable().await),
        None => pending().await,
    }
}

/// Why a command never began, for people.
fn not_begun(program: &OsStr, step: Step, errno: i32) -> SandboxError {
    let rejected = |reason| SandboxError::CommandRejected {
        command: program.to_string_lossy().into_owned(),
        reason,
    };
    match (step, errno) {
        (Step::Program, libc::ENOENT) => {
            rejected("the runtime has no such program; install it, or give its path")
        }
        (Step::Program, libc::EACCES) => {
            rejected("it may not be executed; give it that permission, or run its interpreter")
        }
        (Step::Program, libc::ENOEXEC) => {
            rejected("it is no program, and names no interpreter; begin it with #! and a path")
        }
        (Step::Program, libc::E2BIG) => too_long(),
        (Step::Folder, libc::ENOENT | libc::ENOTDIR) => {
            rejected("the folder where it was to start doesn't exist; give one that does")
        }
        (Step::Folder, libc::EACCES) => {
            rejected("the folder where it was to start can't be entered; give another")
        }
        (step, errno) => SandboxError::Unavailable {
            service: "the runtime",
            doing: match step {
                Step::Namespaces => "making a command's namespaces",
                Step::Confinement => "confining a command",
                Step::Folder => "entering a command's folder",
                Step::Program => "starting a command",
            },
            source: io::Error::from_raw_os_error(errno).into(),
        },
    }
}

/// More arguments than can be handed over.
pub(super) fn too_long() -> SandboxError {
    SandboxError::ResourceLimit {
        resource: "a command with its arguments and environment",
        limit: 128, // what Linux takes of one argument; a few such are too many for a packet
        unit: "KiB, so hand long ones over by a file or its input",
    }
}
