//! The first process inside of a runtime: it starts and kills commands as it is told over its standard
//! input, and tells how they ended. When that is closed, it ends, and the whole runtime with it.
//!
//! It has one thread, and waits for everything at one place.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::mount::{MountFlags, mount_remount};
use rustix::process::{
    DumpableBehavior, Signal, WaitId, WaitIdOptions, getpid, pidfd_send_signal,
    set_dumpable_behavior, waitid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin};

use super::command_init::{self, Side, Streams, split_into_namespaces};
use super::confinement::Confinement;
use super::descriptors::close_inherited;
use super::packets::{self, Received};
use super::system_files::write_new;
use super::wire::{
    Command, CommandEnd, FromSupervisor, PACKET_BYTES_MAX, SetUp, Step, ToSupervisor,
};

/// The user that commands are, as its number is in the arguments of `bwrap`.
const PASSWD: &str = "agent:x:1000:1000:agent:/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
const GROUP: &str = "agent:x:1000:\nnogroup:x:65534:\n";
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n";

/// Serves a runtime from inside, until the other end of standard input is closed. It is the whole of
/// a program: call it first in `main`, before there is any other thread, and end with what it returns.
///
/// It returns in each command's first process, too.
#[must_use]
pub fn supervise() -> ExitCode {
    match Supervisor::start() {
        Ok(supervisor) => supervisor.serve(),
        Err(error) => {
            let said = writeln!(
                io::stderr(),
                "this mode is for use inside of a runtime, which starts it by itself: {error}"
            );
            // Whoever closed standard error doesn't want to know.
            drop(said);
            ExitCode::from(2)
        }
    }
}

struct Supervisor {
    control: OwnedFd,
    confinement: Confinement,
    running: Vec<Running>,
    /// Those that came while one was being killed.
    waiting: VecDeque<Waiting>,
    buffer: Vec<u8>,
}

struct Running {
    id: u64,
    process: OwnedFd,
    report: OwnedFd,
    is_killed: bool,
}

struct Waiting {
    id: u64,
    command: Command,
    descriptors: Vec<OwnedFd>,
}

impl Supervisor {
    fn start() -> io::Result<Self> {
        if !getpid().is_init() {
            return Err(io::Error::other("it isn't the first process there"));
        }
        close_inherited()?;
        let control = fcntl_dupfd_cloexec(stdin(), 3)?;
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        let received = packets::receive(&control, &mut buffer)?;
        let length = received.map_or(0, |received| received.length);
        let Ok(ToSupervisor::SetUp(set_up)) = ToSupervisor::decode(&buffer[..length]) else {
            return Err(io::Error::other("nobody set it up"));
        };
        let confinement = match set_up_root(&set_up) {
            Ok(confinement) => confinement,
            Err((doing, error)) => {
                let not_ready = FromSupervisor::NotReady {
                    doing: format!("{doing}: {error}"),
                    errno: error.raw_os_error().unwrap_or_default(), // the text says it all
                };
                packets::send(&control, &not_ready.encode(), &[])?;
                return Err(error);
            }
        };
        let landlock = confinement.has_landlock();
        let supervisor = Self {
            control,
            confinement,
            running: Vec::new(),
            waiting: VecDeque::new(),
            buffer,
        };
        supervisor.tell(&FromSupervisor::Ready { landlock })?;
        Ok(supervisor)
    }

    /// Ends by the exit code of the process that this is then.
    fn serve(mut self) -> ExitCode {
        loop {
            let Ok(happened) = self.wait() else {
                return ExitCode::FAILURE;
            };
            for index in happened.ended.into_iter().rev() {
                let ended = self.running.swap_remove(index);
                if self.tell_end(ended).is_err() {
                    return ExitCode::FAILURE;
                }
            }
            if happened.is_told {
                match self.obey() {
                    Ok(true) => {}
                    Ok(false) => return ExitCode::SUCCESS,
                    Err(_) => return ExitCode::FAILURE,
                }
            }
            while !self.running.iter().any(|running| running.is_killed) {
                let Some(next) = self.waiting.pop_front() else {
                    break;
                };
                match self.begin(next) {
                    Ok(None) => {}
                    Ok(Some(exit_code)) => return exit_code, // this is the command's first process
                    Err(_) => return ExitCode::FAILURE,
                }
            }
        }
    }

    fn wait(&self) -> io::Result<Happened> {
        let mut watched = vec![PollFd::new(&self.control, PollFlags::IN)];
        let processes = self.running.iter();
        watched.extend(processes.map(|running| PollFd::new(&running.process, PollFlags::IN)));
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Happened::default()),
            Err(error) => return Err(error.into()),
        }
        let has_happened = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let ended = watched[1..].iter().enumerate();
        Ok(Happened {
            is_told: has_happened(&watched[0]),
            ended: ended
                .filter(|(_, process)| has_happened(process))
                .map(|(index, _)| index)
                .collect(),
        })
    }

    /// Does what the next packet says; false when there are no more.
    fn obey(&mut self) -> io::Result<bool> {
        let received = packets::receive(&self.control, &mut self.buffer)?;
        let Some(Received {
            length,
            descriptors,
        }) = received
        else {
            return Ok(false);
        };
        match ToSupervisor::decode(&self.buffer[..length]).map_err(io::Error::other)? {
            ToSupervisor::SetUp(_) => return Err(io::Error::other("it is set up already")),
            ToSupervisor::Exec { id, command } => self.waiting.push_back(Waiting {
                id,
                command,
                descriptors,
            }),
            ToSupervisor::Kill { id } => self.kill(id)?,
        }
        Ok(true)
    }

    fn kill(&mut self, id: u64) -> io::Result<()> {
        if let Some(running) = self.running.iter_mut().find(|running| running.id == id) {
            running.is_killed = true;
            match pidfd_send_signal(&running.process, Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {} // it has ended by itself meanwhile
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(index) = self.waiting.iter().position(|waiting| waiting.id == id) {
            self.waiting.remove(index);
            let end = CommandEnd::Killed;
            self.tell(&FromSupervisor::Ended { id, end })?;
        }
        Ok(())
    }

    /// Begins a command. In its first process, which comes out of this too, it returns how that ends.
    fn begin(&mut self, next: Waiting) -> io::Result<Option<ExitCode>> {
        let mut descriptors = next.descriptors.into_iter();
        let (Some(stdout), Some(stderr)) = (descriptors.next(), descriptors.next()) else {
            return Err(io::Error::other("a command came without its pipes"));
        };
        let streams = Streams {
            stdout,
            stderr,
            stdin: descriptors.next(),
        };
        let (report, report_in) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        match split_into_namespaces() {
            Ok(Side::Parent(process)) => self.running.push(Running {
                id: next.id,
                process,
                report,
                is_killed: false,
            }),
            Ok(Side::Child) => {
                let (command, confinement) = (&next.command, &self.confinement);
                let exit_code = command_init::run(command, streams, confinement, report_in);
                return Ok(Some(exit_code));
            }
            Err(error) => {
                let step = Step::Namespaces;
                let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
                let end = CommandEnd::NotBegun { step, errno };
                self.tell(&FromSupervisor::Ended { id: next.id, end })?;
            }
        }
        Ok(None)
    }

    /// The kernel tells of a namespace's first process only when no other is left in there.
    fn tell_end(&self, ended: Running) -> io::Result<()> {
        waitid(WaitId::PidFd(ended.process.as_fd()), WaitIdOptions::EXITED)?;
        let mut report = Vec::new();
        File::from(ended.report).read_to_end(&mut report)?;
        let end = match CommandEnd::decode(&report) {
            Ok(end) => end,
            Err(_) if ended.is_killed => CommandEnd::Killed,
            // Without a report and without us: the kernel killed it, for want of memory.
            Err(_) => CommandEnd::Signaled(Signal::KILL.as_raw()),
        };
        self.tell(&FromSupervisor::Ended { id: ended.id, end })
    }

    fn tell(&self, message: &FromSupervisor) -> io::Result<()> {
        packets::send(&self.control, &message.encode(), &[])
    }
}

#[derive(Default)]
struct Happened {
    is_told: bool,
    /// Indexes of commands that ended, in order.
    ended: Vec<usize>,
}

type Failed = (&'static str, io::Error);

/// Makes the root as commands are to find it, and prepares what they give up.
fn set_up_root(set_up: &SetUp) -> Result<Confinement, Failed> {
    let say = |doing: &'static str| move |error: io::Error| (doing, error);
    let text_files = [
        ("/etc/passwd", PASSWD),
        ("/etc/group", GROUP),
        ("/etc/hosts", HOSTS),
    ];
    for (path, text) in text_files {
        write_new(Path::new(path), text).map_err(say("writing /etc"))?;
    }
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(c"/", flags, c"")
        .map_err(io::Error::from)
        .map_err(say("making the root read-only"))?;
    take_quiet_streams().map_err(say("closing its streams"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(io::Error::from)
        .map_err(say("guarding its memory"))?;
    Confinement::prepare(set_up).map_err(say("preparing what commands give up"))
}

/// So that nothing that was for this process reaches a command.
fn take_quiet_streams() -> io::Result<()> {
    let nothing = open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    Ok(())
}
