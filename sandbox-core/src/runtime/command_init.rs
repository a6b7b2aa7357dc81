//! The first process of a command's own PID namespace: it makes the namespace fit, gives up its rights,
//! waits for its command, starts it, and ends with it. Then the kernel ends whatever else is in there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::{Access, access};
use rustix::mount::{MountFlags, mount};
use rustix::process::{WaitOptions, chdir, setsid, wait};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::confinement::Confinement;
use super::packets;
use super::wire::{Command, CommandEnd, PACKET_BYTES_MAX, Step, ToSupervisor};

/// Which of the two processes this is, after one became two.
pub(super) enum Side {
    /// The one that was; with the other's descriptor.
    Parent(OwnedFd),
    /// The first one of the new namespaces.
    Child,
}

/// Makes a copy of this process as the first of new PID and mount namespaces.
///
/// The process must have one thread only: a copy has no others, and what they had locked would stay so.
///
/// # Errors
/// When the system refuses.
#[expect(
    unsafe_code,
    reason = "no safe wrapper makes a process in namespaces of its own"
)]
pub(super) fn split_into_namespaces() -> io::Result<Side> {
    let mut pidfd: libc::c_int = -1;
    let namespaces = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_PIDFD;
    let arguments = libc::clone_args {
        flags: u64::from(namespaces.unsigned_abs()),
        pidfd: (&raw mut pidfd).addr() as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    // SAFETY: the arguments are the kernel's structure with its size, and live through the call. Without
    // a stack and CLONE_VM this is a fork: the child goes on with a copy of all memory. The caller has
    // one thread, so no lock in that memory is held by a thread that the child hasn't. The kernel writes
    // one int to `pidfd`, which is ours and no longer borrowed.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of::<libc::clone_args>(),
        )
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        // SAFETY: the call made this descriptor just now, and nobody else knows it.
        _ => Ok(Side::Parent(unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// What the first process does: all of it. It makes everything ready, waits for its command on
/// `orders`, and writes into `report` how that ended.
pub(super) fn run(orders: OwnedFd, confinement: &Confinement, report: OwnedFd) -> ExitCode {
    let end = match begin(orders, confinement) {
        Ok(Some(process)) => end_of(process),
        Ok(None) => return ExitCode::SUCCESS, // no command came
        Err(end) => end,
    };
    // When the supervisor is gone, so is this process.
    match File::from(report).write_all(&end.encode()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn begin(orders: OwnedFd, confinement: &Confinement) -> Result<Option<u32>, CommandEnd> {
    let failed = |step| {
        move |error: io::Error| CommandEnd::NotBegun {
            step,
            errno: error.raw_os_error().unwrap_or(libc::EINVAL),
        }
    };
    settle().map_err(failed(Step::Namespaces))?;
    confinement.apply().map_err(failed(Step::Confinement))?;
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let received = packets::receive(&orders, &mut buffer).map_err(failed(Step::Namespaces))?;
    drop(orders);
    let Some(received) = received else {
        return Ok(None);
    };
    let Ok(ToSupervisor::Exec { command, .. }) = ToSupervisor::decode(&buffer[..received.length])
    else {
        return Err(failed(Step::Namespaces)(io::ErrorKind::InvalidData.into()));
    };
    take_streams(received.descriptors).map_err(failed(Step::Namespaces))?;
    chdir(&command.cwd)
        .map_err(io::Error::from)
        .map_err(failed(Step::Folder))?;
    start(&command).map(Some).map_err(failed(Step::Program))
}

/// Shows the processes of its own namespace only.
fn settle() -> io::Result<()> {
    setsid()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(c"proc", c"/proc", c"proc", flags, None)?;
    Ok(())
}

/// The command's ends of its pipes: output, errors and input. Without an input it reads the end of a
/// file, as this process does.
fn take_streams(descriptors: Vec<OwnedFd>) -> io::Result<()> {
    let mut descriptors = descriptors.into_iter();
    let (Some(stdout), Some(stderr)) = (descriptors.next(), descriptors.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    dup2_stdout(&stdout)?;
    dup2_stderr(&stderr)?;
    if let Some(stdin) = descriptors.next() {
        dup2_stdin(&stdin)?;
    }
    Ok(())
}

/// Its end is waited for with all others', below.
fn start(command: &Command) -> io::Result<u32> {
    let name = command
        .cmd
        .first()
        .map(OsString::as_os_str)
        .unwrap_or_default();
    let path = command.env.iter().find(|(name, _)| name == "PATH");
    let path = path.map(|(_, value)| value.as_os_str()).unwrap_or_default();
    let started = std::process::Command::new(program(name, path)?)
        .arg0(name)
        .args(&command.cmd[1..])
        .env_clear()
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .spawn()?;
    Ok(started.id())
}

/// Where the program is: a name without slashes is looked for in the command's own `PATH`. Found here,
/// it can be started without a copy of this process.
fn program(name: &OsStr, path: &OsStr) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let folders = path.as_bytes().split(|byte| *byte == b':');
    let mut places = folders
        .filter(|folder| folder.starts_with(b"/"))
        .map(|folder| Path::new(OsStr::from_bytes(folder)).join(name));
    let found = places.find(|place| access(place, Access::EXEC_OK).is_ok());
    found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

/// Waits for the command, and meanwhile for whatever was left to this process.
fn end_of(process: u32) -> CommandEnd {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get().unsigned_abs() == process => {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => CommandEnd::Exited(code),
                    (None, Some(signal)) => CommandEnd::Signaled(signal),
                    (None, None) => continue, // it was only stopped
                };
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // No child any more, without having seen its end: that can't be, and must not loop.
            Err(_) => return CommandEnd::Killed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_in_the_commands_own_path() {
        let found = program(OsStr::new("sh"), OsStr::new("relative:/nowhere:/usr/bin"));
        assert_eq!(found.ok(), Some(PathBuf::from("/usr/bin/sh")));
        let found = program(OsStr::new("./sh"), OsStr::new(""));
        assert_eq!(found.ok(), Some(PathBuf::from("./sh")));
        for (name, path) in [("sh", ""), ("", "/usr/bin"), ("no-such", "/usr/bin")] {
            let missing = program(OsStr::new(name), OsStr::new(path));
            if name.is_empty() {
                continue; // refused before it gets here
            }
            let errno = missing.err().and_then(|error| error.raw_os_error());
            assert_eq!(errno, Some(libc::ENOENT), "{name}");
        }
    }
}
