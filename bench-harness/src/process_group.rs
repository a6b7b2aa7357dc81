//! The service of one arm: started by its command, watched, and ended with all it has started.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use unstall_testbed::{Guard, GuardedCommand, StopSignal};

use crate::command_line::{CommandLine, CommandLineError};
use crate::control::Control;
use crate::engine::{Stop, Target, Urgency};
use crate::process_sample::{self, GroupSampler};

/// How long a service gets to be ready.
pub const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long it gets to end after TERM.
pub const ENDED_WITHIN: Duration = Duration::from_secs(10);
/// How many lines of its output are kept.
const TAIL_LINES: usize = 40;
/// The reference service's program, looked for beside this one first.
pub const REFERENCE: &str = "unstall-reference";

/// How to start a service.
#[derive(Debug, Clone)]
pub struct ServiceCommand {
    /// The command as a person writes it; `{port}` stands for the port.
    pub command: String,
    /// The path that answers 2xx when the service is ready.
    pub ready_path: String,
    /// How long that may take.
    pub ready_within: Duration,
    /// Added to this process' environment.
    pub environment: Vec<(String, String)>,
    /// Ends the waiting for readiness when it is requested, and that for the end after TERM when
    /// it is urgent.
    pub stop: Option<Stop>,
}

impl ServiceCommand {
    /// A command with the usual readiness: `/health` within 30 s.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            ready_path: "/health".to_owned(),
            ready_within: READY_WITHIN,
            environment: Vec::new(),
            stop: None,
        }
    }
}

/// Why a service can't be measured.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The command is none.
    #[error(transparent)]
    Command(#[from] CommandLineError),
    /// The program is not there.
    #[error("`{program}` is not there: neither a file nor on PATH{hint}")]
    NotFound {
        /// The program.
        program: String,
        /// What to do.
        hint: &'static str,
    },
    /// It could not be started.
    #[error("`{command}` could not be started: {source}")]
    Start {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("`{command}` ended ({status}) before {ready} answered; its last output:\n{output}")]
    Ended {
        /// The command.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The URL asked for readiness.
        ready: String,
        /// The last lines.
        output: String,
    },
    /// It runs, but is not ready in time.
    #[error(
        "`{command}` was not ready within {} s: {ready} {last}; does it listen on {{port}} or \
         UNSTALL_PORT, and is that the right --ready path? Its last output:\n{output}",
        .within.as_secs()
    )]
    NotReady {
        /// The command.
        command: String,
        /// How long it had.
        within: Duration,
        /// The URL asked for readiness.
        ready: String,
        /// What came of the last try.
        last: String,
        /// The last lines.
        output: String,
    },
    /// A stop was requested before it was ready.
    #[error("`{0}` was stopped before it was ready, as requested")]
    Stopped(String),
}

/// What it took to end a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// TERM, or it had ended by itself, or an urgent stop left no time to see.
    OnTerm,
    /// KILL: it was still there when its time was over.
    Killed,
}

/// A running service in a process group of its own.
#[derive(Debug)]
pub struct ServiceProcess {
    child: Child,
    process_group: Pid,
    target: Target,
    start_id: String,
    output: Tail,
    guard: Arc<Guard>,
    /// Cuts the wait for its end short when everything is to end at once.
    stop: Option<Stop>,
    ended: bool,
}

impl ServiceProcess {
    /// Starts the command on a free port and waits until it is ready.
    ///
    /// `guard` ends its process group even if this process is killed.
    ///
    /// # Errors
    /// [`ServiceError`] with the last lines of the service's output.
    pub fn start(service: &ServiceCommand, guard: &Arc<Guard>) -> Result<Self, ServiceError> {
        const PORT_TRIES: u32 = 3;
        for _ in 1..PORT_TRIES {
            match Self::start_once(service, guard) {
                // Another process was faster to take the port: not the service's fault.
                Err(ServiceError::Ended { output, .. }) if port_was_taken(&output) => {}
                result => return result,
            }
        }
        Self::start_once(service, guard)
    }

    fn start_once(service: &ServiceCommand, guard: &Arc<Guard>) -> Result<Self, ServiceError> {
        let start_error = |source| ServiceError::Start {
            command: service.command.clone(),
            source,
        };
        let port = free_port().map_err(start_error)?;
        let line = CommandLine::parse(&service.command)?.with_port(port);
        let program = find_program(&line.program)?;
        let mut guarded = GuardedCommand::new(&program);
        guarded
            .command()
            .args(&line.arguments)
            .envs(service.environment.iter().cloned())
            .envs(line.environment.iter().cloned())
            .env("UNSTALL_PORT", port.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = guard
            .spawn(guarded, StopSignal::Term)
            .map_err(start_error)?;
        let output = Tail::default();
        output.follow(child.stdout.take());
        output.follow(child.stderr.take());
        let id = child.id();
        let mut process = Self {
            process_group: Pid::from_raw(id.cast_signed()),
            start_id: process_sample::start_id(id).unwrap_or_else(|| id.to_string()),
            child,
            target: Target::loopback(port),
            output,
            guard: Arc::clone(guard),
            stop: service.stop.clone(),
            ended: false,
        };
        process.await_ready(service)?;
        Ok(process)
    }

    /// Where it listens.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The number of the process that the command started; those it started itself are in its
    /// process group, which has the same number.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Process number and start time: differs between any two starts.
    pub fn start_id(&self) -> &str {
        &self.start_id
    }

    /// The numbers of all processes of its group now.
    ///
    /// # Errors
    /// If `/proc` can't be read.
    pub fn process_ids(&self) -> io::Result<Vec<u32>> {
        let members = process_sample::members(self.process_group.as_raw())?;
        Ok(members.into_iter().map(i32::unsigned_abs).collect())
    }

    /// Its last lines on stdout and stderr.
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// If the kernel can't tell.
    pub fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Begins to count CPU, memory and threads of the whole group.
    ///
    /// # Errors
    /// If `/proc` can't be read.
    pub fn sample(&self) -> io::Result<GroupSampler> {
        GroupSampler::begin(self.process_group.as_raw())
    }

    /// Ends the group: TERM, and KILL for what is left after [`ENDED_WITHIN`].
    ///
    /// # Errors
    /// If the kernel refuses a signal.
    pub fn stop(mut self) -> io::Result<Ending> {
        self.end(ENDED_WITHIN)
    }

    fn end(&mut self, within: Duration) -> io::Result<Ending> {
        if self.ended {
            return Ok(Ending::OnTerm);
        }
        self.ended = true;
        signal(self.process_group, Signal::SIGTERM)?;
        let deadline = Instant::now() + within;
        let mut ending = Ending::OnTerm;
        while self.is_alive()? {
            if Instant::now() >= deadline {
                ending = Ending::Killed;
                break;
            }
            let urgency = self.stop.as_ref().map(Stop::urgency);
            if urgency == Some(Urgency::AtOnce) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(self.process_group, Signal::SIGKILL)?;
        self.child.wait()?;
        self.guard.release(self.child.id())?;
        Ok(ending)
    }

    /// True while the leader or any of its descendants in the group lives.
    fn is_alive(&mut self) -> io::Result<bool> {
        if self.child.try_wait()?.is_none() {
            return Ok(true);
        }
        Ok(process_sample::GroupSample::take(self.process_group.as_raw())?.processes > 0)
    }

    fn await_ready(&mut self, service: &ServiceCommand) -> Result<(), ServiceError> {
        const TRY_EVERY: Duration = Duration::from_millis(10);
        let control = Control::new(&self.target, Duration::from_secs(2));
        let ready = control.url(&service.ready_path);
        let deadline = Instant::now() + service.ready_within;
        loop {
            let last = match control.get(&service.ready_path) {
                Ok(reply) if (200..300).contains(&reply.status) => return Ok(()),
                Ok(reply) => format!("answers {}, expected 2xx", reply.status),
                Err(error) => format!("does not answer ({error})"),
            };
            let exit = self.exit_status().map_err(|source| ServiceError::Start {
                command: service.command.clone(),
                source,
            })?;
            if let Some(status) = exit {
                return Err(ServiceError::Ended {
                    command: service.command.clone(),
                    status,
                    ready,
                    output: self.output.settled(),
                });
            }
            if service.stop.as_ref().is_some_and(Stop::is_requested) {
                return Err(ServiceError::Stopped(service.command.clone()));
            }
            if Instant::now() >= deadline {
                return Err(ServiceError::NotReady {
                    command: service.command.clone(),
                    within: service.ready_within,
                    ready,
                    last,
                    output: self.output.text(),
                });
            }
            std::thread::sleep(TRY_EVERY);
        }
    }
}

impl Drop for ServiceProcess {
    /// Nobody waits for a service that was dropped instead of stopped: it gets a second.
    fn drop(&mut self) {
        // Nothing can be reported from here; the guard still ends what this could not.
        let _ = self.end(Duration::from_secs(1));
    }
}

fn signal(process_group: Pid, signal: Signal) -> io::Result<()> {
    match killpg(process_group, signal) {
        // ESRCH: it has ended by itself, which is what is wanted.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

fn port_was_taken(output: &str) -> bool {
    let output = output.to_lowercase();
    output.contains("address already in use") || output.contains("addrinuse")
}

/// The program's file: as given if it has a slash, else beside this program (for the
/// reference service), else on PATH.
///
/// # Errors
/// [`ServiceError::NotFound`], with how to get the reference service.
pub fn find_program(program: &str) -> Result<PathBuf, ServiceError> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return path
            .is_file()
            .then_some(path)
            .ok_or_else(|| not_found(program));
    }
    if program == REFERENCE
        && let Some(beside) = beside_this_program(program)
    {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .ok_or_else(|| not_found(program))
}

fn not_found(program: &str) -> ServiceError {
    let is_reference = Path::new(program)
        .file_name()
        .is_some_and(|name| name == REFERENCE);
    ServiceError::NotFound {
        program: program.to_owned(),
        hint: if is_reference {
            "; it comes with the source and not with the wheel: there `./dev demo` builds and runs \
             everything, and `cargo build --release -p unstall-reference-service` makes this program"
        } else {
            "; give its full path"
        },
    }
}

/// Tests run from a folder below that of the programs, so the folder above counts too.
fn beside_this_program(program: &str) -> Option<PathBuf> {
    // Without a path of this program there is no folder beside it: PATH decides then.
    let this = std::env::current_exe().ok()?;
    this.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// The last lines of an output, followed by threads of their own.
#[derive(Debug, Clone, Default)]
struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn follow(&self, stream: Option<impl Read + Send + 'static>) {
        const LINE_BYTES_MAX: u64 = 4096;
        let Some(stream) = stream else { return };
        let lines = Arc::clone(&self.0);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            // An error ends the output just as its end does. A line too long is cut in pieces.
            while let Ok(1..) = reader
                .by_ref()
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line)
            {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                if lines.len() == TAIL_LINES {
                    lines.pop_front();
                }
                lines.push_back(text);
                line.clear();
            }
        });
    }

    fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return "(nothing)".to_owned();
        }
        Vec::from_iter(lines.iter().cloned()).join("\n")
    }

    /// The text of a process that has ended: its last words may still be in the pipe.
    fn settled(&self) -> String {
        std::thread::sleep(Duration::from_millis(50));
        self.text()
    }
}
