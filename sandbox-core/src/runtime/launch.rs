//! Starting a runtime's processes and ending them, off the event loop's threads.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read, Seek};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::cgroups::{Cgroup, CgroupPlace};
use super::connection::receive;
use super::descriptors::watched;
use super::packets;
use super::wire::{FromSupervisor, SetUp, ToSupervisor};
use crate::blocking_pool::BlockingPool;
use crate::domain::{Cause, SandboxError};
use crate::ports::runtimes::Resources;

/// A runtime is made in a hundredth of this on a machine that isn't overwhelmed.
const START_TIMEOUT_S: i64 = 10;
const START_TIMEOUT: Duration = Duration::from_secs(START_TIMEOUT_S.unsigned_abs());

/// Bytes of what `bwrap` complains of that an error shows.
const COMPLAINT_BYTES_MAX: u64 = 2_000;

/// All that is needed to start a runtime, again and again.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) bwrap: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) set_up: SetUp,
    pub(super) cgroup: Option<CgroupPlan>,
}

/// The group that a runtime gets.
#[derive(Debug, Clone)]
pub(super) struct CgroupPlan {
    pub(super) place: CgroupPlace,
    pub(super) name: String,
    pub(super) resources: Resources,
}

/// A runtime that takes commands.
pub(super) struct Launched {
    pub(super) socket: AsyncFd<OwnedFd>,
    pub(super) process: RuntimeProcess,
    pub(super) has_landlock: bool,
}

/// Starts a runtime. Dropped on the way, it leaves nothing behind.
///
/// # Errors
/// `Unavailable`, with what `bwrap` or the kernel said.
pub(super) async fn launch(pool: &BlockingPool, plan: Plan) -> Result<Launched, SandboxError> {
    let own_pool = pool.clone();
    let set_up = plan.set_up.clone();
    let started = pool.run(move || start(&plan, own_pool)).await;
    let started = started.map_err(|error| failed(error.into()))?;
    let told = timeout(START_TIMEOUT, begin(started.socket, set_up)).await;
    let cause: Cause = match told {
        Ok(Ok((socket, FromSupervisor::Ready { landlock }))) => {
            return Ok(Launched {
                socket,
                process: started.process,
                has_landlock: landlock,
            });
        }
        Ok(Ok((_, FromSupervisor::NotReady { doing, .. }))) => doing.into(),
        Ok(Ok((_, FromSupervisor::Here | FromSupervisor::Ended { .. }))) => {
            "its first process is confused".into()
        }
        Ok(Err(error)) => error.into(),
        Err(_) => format!("it wasn't ready after {} s", START_TIMEOUT.as_secs()).into(),
    };
    started.process.end().await;
    let complaints = started.complaints;
    let complaint = pool.run(move || read_complaint(complaints)).await;
    Err(failed(match complaint.as_str() {
        "" => cause,
        text => text.into(),
    }))
}

fn failed(source: Cause) -> SandboxError {
    SandboxError::Unavailable {
        service: "bubblewrap",
        doing: "making a runtime",
        source,
    }
}

struct Started {
    socket: OwnedFd,
    process: RuntimeProcess,
    complaints: PipeReader,
}

fn start(plan: &Plan, pool: BlockingPool) -> io::Result<Started> {
    let (ours, theirs) = packets::pair()?;
    // No pipe: writing one whose reader was killed would kill `bwrap`, while it starts.
    let facts = memfd_create(c"facts", MemfdFlags::CLOEXEC)?;
    let (complaints, complaints_in) = io::pipe()?;
    let mut command = Command::new(&plan.bwrap);
    command
        .args(&plan.arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::from(facts.try_clone()?))
        .stderr(Stdio::from(complaints_in));
    let spawned = command.spawn();
    drop(command); // it holds their ends of the pipes
    let bwrap = spawned.map_err(|error| {
        let text = format!("{}: {error}; install bubblewrap", plan.bwrap.display());
        io::Error::new(error.kind(), text)
    })?;
    let mut running = Running {
        bwrap,
        supervisor: None,
        cgroup: None,
    };
    let prepared = adopt(&mut running, &ours, facts, plan);
    let process = RuntimeProcess {
        running: Some(running),
        pool,
    };
    if let Err(error) = prepared {
        drop(ours);
        let text = read_complaint(complaints);
        return Err(if text.is_empty() {
            error
        } else {
            io::Error::other(text)
        });
    }
    let flags = fcntl_getfl(&ours)?;
    fcntl_setfl(&ours, flags | OFlags::NONBLOCK)?;
    Ok(Started {
        socket: ours,
        process,
        complaints,
    })
}

/// Finds the runtime's first process, and limits it. It starts nothing before it is set up, so that
/// nothing escapes the limits.
fn adopt(running: &mut Running, socket: &OwnedFd, facts: OwnedFd, plan: &Plan) -> io::Result<()> {
    let limit = Timespec {
        tv_sec: START_TIMEOUT_S,
        tv_nsec: 0,
    };
    if poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&limit))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut buffer = [0; 64];
    if packets::receive(socket, &mut buffer)?.is_none() {
        return Err(io::Error::other("its first process ended at once"));
    }
    // It is there, so that `bwrap` has written all.
    let mut facts = File::from(facts);
    facts.rewind()?;
    let mut text = String::new();
    facts.read_to_string(&mut text)?;
    let number = text
        .split_once("\"child-pid\":")
        .map(|(_, rest)| rest.trim_start());
    let number = number.and_then(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse::<i32>().ok()
    });
    let first = number.and_then(Pid::from_raw);
    let first = first.ok_or_else(|| io::Error::other("bwrap made no process"))?;
    running.supervisor = Some(pidfd_open(first, PidfdFlags::empty())?);
    if let Some(CgroupPlan {
        place,
        name,
        resources,
    }) = &plan.cgroup
    {
        let process = first.as_raw_nonzero().get().unsigned_abs();
        running.cgroup = Some(place.make(name, resources, Some(process))?);
    }
    Ok(())
}

async fn begin(socket: OwnedFd, set_up: SetUp) -> io::Result<(AsyncFd<OwnedFd>, FromSupervisor)> {
    let socket = watched(socket)?;
    let packet = ToSupervisor::SetUp(set_up).encode();
    // Nothing else is in its buffer, so that it can't be full.
    packets::send(socket.get_ref(), &packet, &[])?;
    let said = receive(&socket).await?;
    let said = said.ok_or_else(|| io::Error::other("its first process ended at once"))?;
    Ok((socket, said))
}

fn read_complaint(complaints: PipeReader) -> String {
    let mut bytes = Vec::new();
    // What can't be read isn't shown; the error has its own text then.
    let _shorter = complaints.take(COMPLAINT_BYTES_MAX).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// A runtime's processes, which end with this.
pub(super) struct RuntimeProcess {
    running: Option<Running>,
    pool: BlockingPool,
}

struct Running {
    bwrap: Child,
    supervisor: Option<OwnedFd>,
    cgroup: Option<Cgroup>,
}

impl RuntimeProcess {
    /// Ends them, and waits until nothing of them is left. That is done even if this is dropped.
    pub(super) async fn end(mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
            let (done, cleared) = oneshot::channel();
            self.pool.run_unwatched(move || {
                running.clear();
                // Whoever was dropped doesn't want to know.
                let _dropped = done.send(());
            });
            // An error says that it panicked, which was printed.
            let _panicked = cleared.await;
        }
    }
}

impl Drop for RuntimeProcess {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
            self.pool.run_unwatched(move || running.clear());
        }
    }
}

impl Running {
    /// Kills the first process, with which all others end. It doesn't wait.
    fn kill(&self) {
        if let Some(supervisor) = &self.supervisor {
            // It is gone already, or this works: it is our own child's child.
            let _gone = pidfd_send_signal(supervisor, Signal::KILL);
        }
    }

    /// Waits for the end, and removes what is left.
    fn clear(mut self) {
        // Where no first process is known, none was set up: it ends by its closed socket, and `bwrap`
        // after it. Killed while it starts, that would leave a process behind.
        if let Err(error) = self.bwrap.wait() {
            tracing::warn!(%error, "the end of a runtime wasn't seen");
        }
        if let Some(cgroup) = self.cgroup
            && let Err(error) = cgroup.remove()
        {
            tracing::warn!(%error, "a runtime's control group stays; the next start removes it");
        }
    }
}
