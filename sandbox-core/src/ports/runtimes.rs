//! The door to runtimes: what a workspace's commands run in, and how they are run there.
//!
//! An adapter makes what it is told, enforces the mounts and the network that are declared, and says
//! truthfully what it can't. It doesn't choose users or trees, knows no store and takes no lock; but a
//! command may say under which lock it runs, and must not outlive that.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;

use super::Answer;
use super::locks::Hold;
use crate::domain::{
    BackendKind, BackendRuntimeId, ImageName, RuntimeId, RuntimeState, SandboxError,
};

/// Output that is kept of each stream when nothing else is asked for: as much as fits into an answer of
/// 80 000 characters, with room for what is cut from it.
pub const OUTPUT_BYTES_MAX_DEFAULT: usize = 128 * 1024;

/// How long a command may take when nothing else is asked for: a build or a test run of usual size.
pub const COMMAND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);

/// What a runtime carries, so that it is found again.
pub type Labels = BTreeMap<String, String>;

/// A folder of the machine that a runtime sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The folder, absolute.
    pub source: PathBuf,
    /// Where the runtime sees it, absolute.
    pub target: PathBuf,
    /// May it be written from inside?
    pub writable: bool,
}

/// What a runtime may use. What is `None` isn't limited beyond what the backend limits by itself; which
/// limits a backend can hold up, [`Isolation`] says.
///
/// There is none on what it takes of the disk in all: no file system limits a folder for whoever isn't
/// its administrator. What fills the disk is met by eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    /// Thousandths of a CPU: 1500 is one and a half.
    pub cpu_milli: Option<u32>,
    /// Memory of all its processes together.
    pub memory_mb: Option<u64>,
    /// The largest file that a process may write; a write beyond that is cut off, and the next one ends
    /// the process by SIGXFSZ.
    pub file_mb: Option<u64>,
    /// Processes and threads at a time.
    pub processes_max: Option<u32>,
}

/// What a runtime may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// Nothing but itself.
    None,
    /// What its backend filters; nothing where it has no filter.
    #[default]
    Limited,
    /// Whatever the machine reaches.
    Unlimited,
}

/// What is to be made.
#[derive(Debug, Clone)]
pub struct RuntimeSpec {
    /// The id that its record has.
    pub id: RuntimeId,
    /// From what; local backends take the machine's own programs.
    pub image: ImageName,
    /// Where commands start, absolute, as the runtime sees it.
    pub workdir: PathBuf,
    /// What it sees of the machine beside the system's programs.
    pub mounts: Vec<Mount>,
    /// What every command has in its environment; nothing of ours is in it.
    pub env: Environment,
    /// What it may use.
    pub resources: Resources,
    /// What it may reach.
    pub network: Network,
    /// By what it is found.
    pub labels: Labels,
}

/// Variables of an environment. `Debug` shows their names only, since values may be secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<OsString, OsString>);

impl Environment {
    /// With a variable more, or another value of it.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.keys()).finish()
    }
}

/// A command, to be run without a shell.
#[derive(Clone)]
pub struct ExecRequest {
    /// The program and its arguments.
    pub cmd: Vec<OsString>,
    /// Where it starts: absolute, or from the runtime's `workdir` on.
    pub cwd: Option<PathBuf>,
    /// What it has in its environment beside the runtime's.
    pub env: Environment,
    /// After this long it is killed, with whatever it has started.
    pub timeout: Duration,
    /// What it reads, at once; without it, it reads the end of a file.
    pub stdin: Option<Vec<u8>>,
    /// How much of each stream is kept, half from its start and half from its end. The rest is read and
    /// thrown away, so that the command doesn't wait.
    pub output_bytes_max: usize,
    /// The lock under which it runs, if under any: for whoever has that. Others' word isn't taken.
    pub hold: Option<Hold>,
}

impl ExecRequest {
    /// A command with the defaults.
    #[must_use]
    pub fn new<T: Into<OsString>>(cmd: impl IntoIterator<Item = T>) -> Self {
        Self {
            cmd: cmd.into_iter().map(Into::into).collect(),
            cwd: None,
            env: Environment::default(),
            timeout: COMMAND_TIMEOUT_DEFAULT,
            stdin: None,
            output_bytes_max: OUTPUT_BYTES_MAX_DEFAULT,
            hold: None,
        }
    }
}

impl fmt::Debug for ExecRequest {
    /// Arguments and input may be secrets.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ExecRequest")
            .field("program", &self.cmd.first())
            .field("arguments", &self.cmd.len().saturating_sub(1))
            .field("cwd", &self.cwd)
            .field("env", &self.env)
            .field("timeout", &self.timeout)
            .field("stdin_bytes", &self.stdin.as_ref().map(Vec::len))
            .field("output_bytes_max", &self.output_bytes_max)
            .field("hold", &self.hold)
            .finish()
    }
}

/// What was kept of a stream: all of it, or its head and its tail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapturedOutput {
    /// Its first bytes.
    pub head: Vec<u8>,
    /// Its last bytes, when some before them were left out.
    pub tail: Vec<u8>,
    /// How many bytes between them were left out.
    pub omitted_bytes: u64,
}

impl CapturedOutput {
    /// Was something left out?
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.omitted_bytes > 0
    }

    /// As text: what was left out is named on a line of its own, no character is cut in two, and bytes
    /// that are no UTF-8 become U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        if !self.is_truncated() {
            let mut whole = self.head.clone();
            whole.extend_from_slice(&self.tail);
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let head = &self.head[..end_of_characters(&self.head)];
        let tail = &self.tail[start_of_characters(&self.tail)..];
        let cut = (self.head.len() - head.len() + self.tail.len() - tail.len()) as u64;
        let omitted_bytes = self.omitted_bytes + cut;
        let mut text = String::from_utf8_lossy(head).into_owned();
        text.push_str(&format!("\n[… {omitted_bytes} bytes left out …]\n"));
        text.push_str(&String::from_utf8_lossy(tail));
        text
    }
}

/// Where the last character ends that isn't cut off at the end.
fn end_of_characters(bytes: &[u8]) -> usize {
    // A character has four bytes at most.
    for back in 1..=bytes.len().min(4) {
        let byte = bytes[bytes.len() - back];
        let length = match byte {
            0x80..=0xBF => continue, // within a character
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        let is_cut = length > back;
        return if is_cut {
            bytes.len() - back
        } else {
            bytes.len()
        };
    }
    bytes.len() // no UTF-8 anyway
}

/// Where the first character begins that isn't cut off at the start.
fn start_of_characters(bytes: &[u8]) -> usize {
    let within = |byte: &&u8| matches!(byte, 0x80..=0xBF);
    let cut = bytes.iter().take_while(within).count();
    if cut < 4 { cut } else { 0 } // else no UTF-8 anyway
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecEnd {
    /// Its exit code; 128 and the signal's number when a signal ended it, as shells say; 124 when it was
    /// killed for its timeout, as `timeout` says.
    pub exit_code: i32,
    /// Was it killed for its timeout?
    pub timed_out: bool,
}

/// What a command did. When it is answered, nothing that the command has started runs any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecResult {
    /// Its exit code, as [`ExecEnd::exit_code`].
    pub exit_code: i32,
    /// What it wrote.
    pub stdout: CapturedOutput,
    /// What it complained of.
    pub stderr: CapturedOutput,
    /// Was it killed for its timeout?
    pub timed_out: bool,
    /// Was something of either stream left out?
    pub truncated: bool,
}

/// Which of a command's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// What it writes.
    Stdout,
    /// What it complains of.
    Stderr,
}

/// A piece of a command's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecChunk {
    /// Of which stream.
    pub stream: OutputStream,
    /// Its bytes, which may end within a character.
    pub data: Vec<u8>,
}

/// What a streamed command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// It wrote.
    Chunk(ExecChunk),
    /// It ended; nothing follows.
    Ended(ExecEnd),
}

/// What a command does, as it does it. Whoever doesn't read it makes the command wait; whoever drops it
/// kills the command. Output isn't cut.
pub type ExecEvents = Pin<Box<dyn Stream<Item = Result<ExecEvent, SandboxError>> + Send>>;

/// What a backend can do beyond running commands. Each is false unless it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuntimeCapabilities {
    /// It can be written to an image and made from it again.
    pub snapshot: bool,
    /// It gives what listens in it a URL.
    pub preview_url: bool,
    /// It has terminals.
    pub interactive_session: bool,
    /// What keeps commands from the machine.
    pub isolation: Isolation,
}

/// What keeps commands from the machine, as it was probed. Each is false unless it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Isolation {
    /// Commands see only what is mounted, and no process or network of the machine.
    pub namespaces: bool,
    /// Calls by which kernels have been attacked are refused.
    pub system_call_filter: bool,
    /// Landlock guards the files a second time.
    pub landlock: bool,
    /// Memory and processes are limited for all commands together; else each process by itself.
    pub cgroup: bool,
    /// Processor time is limited for all commands together; else it isn't.
    pub cpu: bool,
    /// The size of each file that a command writes is limited.
    pub file_size: bool,
    /// A read-only mount is one.
    pub read_only_mounts: bool,
}

/// Makes runtimes of one kind.
pub trait RuntimeProvider: Send + Sync {
    /// Of what kind.
    fn kind(&self) -> &BackendKind;

    /// What its runtimes can do, and what keeps commands from the machine.
    fn capabilities(&self) -> RuntimeCapabilities;

    /// Makes a runtime, which then runs. A call that is dropped leaves nothing behind.
    ///
    /// # Errors
    /// `AlreadyExists` when it has one of that id, `Invalid` when the spec asks for what it can't do, and
    /// `Unavailable` when it wasn't made.
    fn create<'a>(&'a self, spec: &'a RuntimeSpec) -> Answer<'a, Arc<dyn LiveRuntime>>;

    /// A runtime by the name that this backend gave it; `None` when it has nothing of it.
    fn get<'a>(&'a self, id: &'a BackendRuntimeId) -> Answer<'a, Option<Arc<dyn LiveRuntime>>>;

    /// All runtimes that carry all of these labels. Those of local backends live and die with the
    /// process that made them, and are listed only there.
    fn list<'a>(&'a self, labels: &'a Labels) -> Answer<'a, Vec<Arc<dyn LiveRuntime>>>;

    /// Ends a runtime with all that runs in it. Without one of that name it does nothing. What is
    /// mounted in it stays.
    fn destroy<'a>(&'a self, id: &'a BackendRuntimeId) -> Answer<'a, ()>;
}

/// A runtime that was made.
pub trait LiveRuntime: Send + Sync {
    /// The id that its record has.
    fn id(&self) -> RuntimeId;

    /// By what name its backend knows it.
    fn backend_id(&self) -> &BackendRuntimeId;

    /// What it carries.
    fn labels(&self) -> &Labels;

    /// Whether it runs, as its backend says now: running, stopped or failed.
    fn state(&self) -> Answer<'_, RuntimeState>;

    /// Runs it again when it was stopped.
    ///
    /// # Errors
    /// `Unavailable` when it can't be run, `NotRunning` when it was destroyed.
    fn start(&self) -> Answer<'_, ()>;

    /// Ends all that runs in it. It can be started again.
    fn stop(&self) -> Answer<'_, ()>;

    /// Runs a command to its end. Dropping the answer kills it with all it has started, before any
    /// later command of this runtime begins. Several may run at a time.
    ///
    /// One that has a [hold](ExecRequest::hold) never begins after a command under a newer token that it
    /// can't share the lock with. If such a one comes, it is killed before that begins; and it is killed at the
    /// moment until which its lock may be relied on, also if this process is stopped then.
    ///
    /// # Errors
    /// `CommandRejected` when there is no such program or folder, `ResourceLimit` when its arguments are
    /// too long, `LockLost` when it has lost its lock before its end, `NotRunning` when the runtime doesn't
    /// run or ended meanwhile.
    fn exec(&self, request: ExecRequest) -> Answer<'_, ExecResult>;

    /// Runs a command, and answers once it has begun. Errors are as in [`exec`](Self::exec).
    fn stream(&self, request: ExecRequest) -> Answer<'_, ExecEvents>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(head: &[u8], tail: &[u8]) -> String {
        let output = CapturedOutput {
            head: head.to_vec(),
            tail: tail.to_vec(),
            omitted_bytes: 10,
        };
        output.text()
    }

    #[test]
    fn no_character_is_cut_in_two() {
        assert_eq!(
            cut("aä".as_bytes(), "öb".as_bytes()),
            "aä\n[… 10 bytes left out …]\nöb"
        );
        assert_eq!(
            cut(&"aä".as_bytes()[..2], &"öb".as_bytes()[1..]),
            "a\n[… 12 bytes left out …]\nb"
        );
        assert_eq!(
            cut(&"🙂".as_bytes()[..3], &"🙂".as_bytes()[1..]),
            "\n[… 16 bytes left out …]\n"
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_marked_and_not_dropped() {
        let text = cut(b"a\xff", b"\x80\x80\x80\x80b");
        assert_eq!(
            text,
            "a\u{fffd}\n[… 10 bytes left out …]\n\u{fffd}\u{fffd}\u{fffd}\u{fffd}b"
        );
    }

    #[test]
    fn a_request_is_shown_without_what_may_be_secret() {
        let mut request = ExecRequest::new(["curl", "--user", "secret"]);
        request.env = Environment::default().with("TOKEN", "secret");
        request.stdin = Some(b"secret".to_vec());
        let shown = format!("{request:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("TOKEN"), "{shown}");
    }
}
