//! The first process inside of a runtime: it starts and kills commands as it is told over its standard
//! input, and tells how they ended. When that is closed, it ends, and the whole runtime with it.
//!
//! It lives in another process than whoever orders commands, and so it is the one that sees to it that
//! a command ends with its lock, though that other process be stopped: it refuses whoever has an older
//! token than one that came, ends what runs under an older one, and ends a command at the moment until which
//! its lock may be relied on, unless it was told before that this is later.
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
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Signal, WaitId, WaitIdOptions, getpid, pidfd_send_signal,
    set_dumpable_behavior, waitid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin};

use super::alarm::{Alarm, NEVER_US, boot_time_us};
use super::command_init::{self, Side, split_into_namespaces};
use super::confinement::Confinement;
use super::descriptors::close_inherited;
use super::fence::{Fence, Guard};
use super::packets::{self, Received};
use super::system_files::write_new;
use super::wire::{
    CommandEnd, Damaged, FromSupervisor, PACKET_BYTES_MAX, SetUp, Step, ToSupervisor,
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
    /// Made while nobody waits for it.
    spare: Option<Spare>,
    /// Not after one that ended by itself, or making the next might never end.
    wants_spare: bool,
    running: Vec<Running>,
    /// Those that came while one was being killed.
    waiting: VecDeque<Waiting>,
    /// Whose commands came.
    fence: Fence,
    /// Rings when the next lease ends.
    alarm: Alarm,
    buffer: Vec<u8>,
}

/// The first process of the next command's namespaces, which waits for that.
struct Spare {
    orders: OwnedFd,
    process: OwnedFd,
    report: OwnedFd,
}

struct Running {
    id: u64,
    process: OwnedFd,
    report: OwnedFd,
    guard: Option<Guard>,
    /// What to tell of it once it was killed.
    killed: Option<CommandEnd>,
}

struct Waiting {
    id: u64,
    guard: Option<Guard>,
    /// Its order, as it came.
    packet: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Supervisor {
    fn start() -> io::Result<Self> {
        if !getpid().is_init() {
            return Err(io::Error::other("it isn't the first process there"));
        }
        close_inherited()?;
        let control = fcntl_dupfd_cloexec(stdin(), 3)?;
        packets::send(&control, &FromSupervisor::Here.encode(), &[])?;
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
            spare: None,
            wants_spare: true,
            running: Vec::new(),
            waiting: VecDeque::new(),
            fence: Fence::default(),
            alarm: Alarm::new()?,
            buffer,
        };
        supervisor.tell(&FromSupervisor::Ready { landlock })?;
        Ok(supervisor)
    }

    /// Ends by the exit code of the process that this is then.
    fn serve(mut self) -> ExitCode {
        loop {
            match self.turn() {
                Ok(Turn::Again) => {}
                Ok(Turn::End(exit_code)) => return exit_code,
                Err(_) => return ExitCode::FAILURE, // the other end sees that this one is gone
            }
        }
    }

    fn turn(&mut self) -> io::Result<Turn> {
        if self.wants_spare && self.spare.is_none() && self.waiting.is_empty() {
            // What fails here fails again when it is needed, and then somebody is told.
            if let Ok(Turn::End(exit_code)) = self.prepare() {
                return Ok(Turn::End(exit_code));
            }
        }
        self.alarm.set(self.next_lease_end_us())?;
        let happened = self.wait()?;
        if let Some(spare) = self.spare.take_if(|_| happened.is_spare_gone) {
            // Whatever it reported is found out again when one is needed.
            drop(end_of(&spare.process, spare.report)?);
            self.wants_spare = false;
        }
        for index in happened.ended.into_iter().rev() {
            let ended = self.running.swap_remove(index);
            self.tell_end(ended)?;
        }
        if happened.is_told {
            if !self.obey()? {
                return Ok(Turn::End(ExitCode::SUCCESS));
            }
        } else {
            // Only once all is heard that was said: a lease may have been prolonged.
            let now_us = boot_time_us();
            self.end_those(|guard| (guard.until_us <= now_us).then_some(CommandEnd::LeaseEnded))?;
        }
        while !self.running.iter().any(|running| running.killed.is_some()) {
            let Some(next) = self.waiting.pop_front() else {
                break;
            };
            if let Turn::End(exit_code) = self.begin(next)? {
                return Ok(Turn::End(exit_code));
            }
        }
        Ok(Turn::Again)
    }

    fn wait(&self) -> io::Result<Happened> {
        let mut watched = vec![
            PollFd::new(&self.control, PollFlags::IN),
            PollFd::new(&self.alarm, PollFlags::IN), // only so that this goes on
        ];
        let processes = self.running.iter();
        watched.extend(processes.map(|running| PollFd::new(&running.process, PollFlags::IN)));
        let spare = self.spare.iter();
        watched.extend(spare.map(|spare| PollFd::new(&spare.process, PollFlags::IN)));
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Happened::default()),
            Err(error) => return Err(error.into()),
        }
        let has_happened = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (of_running, of_spare) = watched[2..].split_at(self.running.len());
        let ended = of_running.iter().enumerate();
        Ok(Happened {
            is_told: has_happened(&watched[0]),
            is_spare_gone: of_spare.iter().any(has_happened),
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
            ToSupervisor::Exec { id, guard, .. } => self.take(Waiting {
                id,
                guard,
                packet: self.buffer[..length].to_vec(),
                descriptors,
            })?,
            ToSupervisor::Prolong { id, until_us } => self.prolong(id, until_us),
            ToSupervisor::Kill { id } => self.kill(id)?,
        }
        Ok(true)
    }

    /// Lets a command wait for its turn, unless somebody came who got the lock after its holder. Whoever
    /// had the lock before is ended first.
    fn take(&mut self, next: Waiting) -> io::Result<()> {
        if let Some(guard) = next.guard {
            if let Err(newest) = self.fence.admit(guard) {
                let given = guard.token;
                let end = CommandEnd::Superseded { given, newest };
                return self.tell(&FromSupervisor::Ended { id: next.id, end });
            }
            self.end_those(|older| {
                let end = CommandEnd::Superseded {
                    given: older.token,
                    newest: guard.token,
                };
                older.yields_to(guard).then_some(end)
            })?;
        }
        self.waiting.push_back(next);
        Ok(())
    }

    /// Kills those for whose guard there is an end, and gives up those of them that haven't begun.
    fn end_those(&mut self, end_for: impl Fn(Guard) -> Option<CommandEnd>) -> io::Result<()> {
        for running in &mut self.running {
            if let Some(end) = running.guard.and_then(&end_for) {
                running.kill(end)?;
            }
        }
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting.guard.and_then(&end_for) {
                Some(end) => self.tell(&FromSupervisor::Ended {
                    id: waiting.id,
                    end,
                })?,
                None => self.waiting.push_back(waiting),
            }
        }
        Ok(())
    }

    fn prolong(&mut self, id: u64, until_us: u64) {
        let running = self.running.iter_mut();
        let running = running.map(|running| (running.id, &mut running.guard));
        let waiting = self.waiting.iter_mut();
        let waiting = waiting.map(|waiting| (waiting.id, &mut waiting.guard));
        // One that has ended meanwhile isn't found.
        for (_, guard) in running.chain(waiting).filter(|(its, _)| *its == id) {
            if let Some(guard) = guard {
                guard.until_us = until_us;
            }
        }
    }

    /// The first end of a lease of those that aren't being killed already.
    fn next_lease_end_us(&self) -> u64 {
        let running = self.running.iter();
        let running = running.filter(|running| running.killed.is_none());
        let running = running.filter_map(|running| running.guard);
        let waiting = self.waiting.iter().filter_map(|waiting| waiting.guard);
        let ends = running.chain(waiting).map(|guard| guard.until_us);
        ends.min().unwrap_or(NEVER_US)
    }

    fn kill(&mut self, id: u64) -> io::Result<()> {
        if let Some(running) = self.running.iter_mut().find(|running| running.id == id) {
            running.kill(CommandEnd::Killed)?;
        }
        if let Some(index) = self.waiting.iter().position(|waiting| waiting.id == id) {
            self.waiting.remove(index);
            let end = CommandEnd::Killed;
            self.tell(&FromSupervisor::Ended { id, end })?;
        }
        Ok(())
    }

    /// Makes the next command's namespaces. Their first process comes out of this too, at its end.
    fn prepare(&mut self) -> io::Result<Turn> {
        let (orders, its_orders) = packets::pair()?;
        let (report, its_report) = pipe_with(PipeFlags::CLOEXEC)?;
        match split_into_namespaces()? {
            Side::Parent(process) => {
                self.spare = Some(Spare {
                    orders,
                    process,
                    report,
                });
                Ok(Turn::Again)
            }
            Side::Child => {
                drop(orders);
                self.waiting.clear(); // their pipes aren't this one's
                let exit_code = command_init::run(its_orders, &self.confinement, its_report);
                Ok(Turn::End(exit_code))
            }
        }
    }

    /// Begins a command.
    fn begin(&mut self, next: Waiting) -> io::Result<Turn> {
        let id = next.id;
        // It may have waited long for its turn, or its order for being read.
        if let Some(guard) = next.guard
            && guard.until_us <= boot_time_us()
        {
            let end = CommandEnd::LeaseEnded;
            self.tell(&FromSupervisor::Ended { id, end })?;
            return Ok(Turn::Again);
        }
        // What was prepared may have been killed for want of memory; then it is made anew, once.
        for _ in 0..2 {
            if self.spare.is_none() {
                match self.prepare() {
                    Ok(Turn::Again) => {}
                    Ok(end) => return Ok(end),
                    Err(error) => {
                        let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
                        return self.tell_not_begun(id, errno);
                    }
                }
            }
            let Some(spare) = self.spare.take() else {
                break;
            };
            let descriptors: Vec<_> = next.descriptors.iter().map(AsFd::as_fd).collect();
            if packets::send(&spare.orders, &next.packet, &descriptors).is_ok() {
                self.wants_spare = true;
                self.running.push(Running {
                    id,
                    process: spare.process,
                    report: spare.report,
                    guard: next.guard,
                    killed: None,
                });
                return Ok(Turn::Again);
            }
            if let Ok(end) = end_of(&spare.process, spare.report)? {
                self.tell(&FromSupervisor::Ended { id, end })?;
                return Ok(Turn::Again);
            }
        }
        self.tell_not_begun(id, libc::EPIPE)
    }

    fn tell_not_begun(&self, id: u64, errno: i32) -> io::Result<Turn> {
        let step = Step::Namespaces;
        let end = CommandEnd::NotBegun { step, errno };
        self.tell(&FromSupervisor::Ended { id, end })?;
        Ok(Turn::Again)
    }

    fn tell_end(&self, ended: Running) -> io::Result<()> {
        let end = match end_of(&ended.process, ended.report)? {
            Ok(end) => end,
            // Without a report and without us: the kernel killed it, for want of memory.
            Err(_) => {
                let by_kernel = CommandEnd::Signaled(Signal::KILL.as_raw());
                ended.killed.unwrap_or(by_kernel)
            }
        };
        self.tell(&FromSupervisor::Ended { id: ended.id, end })
    }

    fn tell(&self, message: &FromSupervisor) -> io::Result<()> {
        packets::send(&self.control, &message.encode(), &[])
    }
}

impl Running {
    /// Kills it. What is told of it is the first reason for that.
    fn kill(&mut self, end: CommandEnd) -> io::Result<()> {
        self.killed = self.killed.or(Some(end));
        match pidfd_send_signal(&self.process, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()), // it has ended by itself meanwhile
            Err(error) => Err(error.into()),
        }
    }
}

/// What is to be done after a turn.
enum Turn {
    /// The next one.
    Again,
    /// This process ends, whichever it is.
    End(ExitCode),
}

/// Waits for a namespace's first process, and reads what it reported, if it did. The kernel tells of its
/// end only when no other process is left in there.
fn end_of(process: &OwnedFd, report: OwnedFd) -> io::Result<Result<CommandEnd, Damaged>> {
    waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED)?;
    let mut bytes = Vec::new();
    File::from(report).read_to_end(&mut bytes)?;
    Ok(CommandEnd::decode(&bytes))
}

#[derive(Default)]
struct Happened {
    is_told: bool,
    is_spare_gone: bool,
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
