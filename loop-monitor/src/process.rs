//! Reads a process, one's own or another, without stopping it: what its threads wait in, on whom,
//! and from which line.
//!
//! Everything comes from `/proc` and `process_vm_readv(2)`, or `/proc/PID/mem` where a sandbox
//! forbids that call. The kernel lets one read another process
//! where one could also trace it (`ptrace(2)`, "Ptrace access mode checking"), and one's own unless
//! it isn't dumpable (`proc(5)`: its files belong to root then); [`ProcessError`] says what to do
//! where it doesn't.

pub mod address_space;
pub mod calls;
pub mod descriptors;
pub mod listeners;
pub mod namer;
pub mod peers;
mod prologue;
pub(crate) mod refusal;
pub mod running;
pub mod sockets;
pub mod stack;
pub mod symbols;
pub mod task;
pub(crate) mod tokio_place;
mod unix_peer;
mod unwind_tables;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

pub use calls::{Call, CallKind, DescriptorArgument};
pub use namer::{Namer, Sighting};
pub use stack::{Registers, StackCopy, Stacks};
pub use task::{Activity, SchedTimes, Syscall, Task, TaskLook};

/// ELF class, byte order, and machine: what two programs must share to read each other's stacks.
const ELF_IDENTITY_BYTES: usize = 20;

/// Why a process can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There never was such a process, or it is gone.
    #[error("process {pid} doesn't run: it has ended, or the number is wrong")]
    Ended {
        /// The process.
        pid: u32,
    },
    /// This thread of it is gone.
    #[error("thread {tid} of process {pid} has ended")]
    TaskEnded {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// The kernel refuses.
    #[error("process {pid} may not be read ({path}: {source}): {}", refusal::advice(*.pid))]
    NoPermission {
        /// The process.
        pid: u32,
        /// What was to be read.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It runs, and whoever looks into `/proc` doesn't see it.
    #[error(
        "process {pid} runs, and /proc hides it from this user (hidepid in its mount's options, see \
         proc(5)): run as the same user as the process, or as root"
    )]
    Hidden {
        /// The process.
        pid: u32,
    },
    /// The kernel refuses the calling process its own files: it isn't dumpable. The sentence names
    /// no file, since it is the same for all.
    #[error(
        "the kernel keeps this process's /proc files from it ({source}), since it gave up \
         privileges or its program file isn't readable: call prctl(PR_SET_DUMPABLE, 1) after that"
    )]
    NotDumpable {
        /// What the kernel said.
        source: io::Error,
    },
    /// There is nothing in it that could be read.
    #[error("process {pid} has no program: it is a thread of the kernel, or is ending")]
    NoProgram {
        /// The process.
        pid: u32,
    },
    /// Its registers and stacks are laid out in another way.
    #[error(
        "process {pid} runs {theirs} and this program {ours}: its stacks can't be read; use a \
         build of this program for {theirs}"
    )]
    OtherArchitecture {
        /// The process.
        pid: u32,
        /// Its architecture.
        theirs: String,
        /// The reader's.
        ours: String,
    },
    /// Anything else, of a file in `/proc`.
    #[error("{path} can't be read: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of `/proc` isn't laid out as proc(5) says.
    #[error("{path} reads {text:?}, which isn't as proc(5) describes it: is /proc a real procfs?")]
    Unexpected {
        /// The file.
        path: String,
        /// Its text, or the start of it.
        text: String,
    },
}

/// A process that can be read.
#[derive(Debug, Clone)]
pub struct ProcessView {
    pid: u32,
    root: PathBuf,
    is_own: bool,
}

impl ProcessView {
    /// The calling process.
    #[must_use]
    pub fn own() -> Self {
        Self {
            pid: std::process::id(),
            root: PathBuf::from("/proc/self"),
            is_own: true,
        }
    }

    /// Another process, or one's own, by its number. The way in is checked at once, so that a
    /// refusal comes here and not in the middle.
    ///
    /// # Errors
    /// When it doesn't run, may not be read, or is of another architecture.
    pub fn of(pid: u32) -> Result<Self, ProcessError> {
        if pid == std::process::id() {
            return Ok(Self::own());
        }
        let view = Self {
            pid,
            root: PathBuf::from(format!("/proc/{pid}")),
            is_own: false,
        };
        // `syscall` is guarded as everything else that a name needs.
        view.read_text("syscall")?;
        view.check_architecture()?;
        Ok(view)
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it is the calling process.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// Its folder in `/proc`.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its command line on one line, its name where that is empty.
    ///
    /// # Errors
    /// When it has ended.
    pub fn command(&self) -> Result<String, ProcessError> {
        let line = self.read_text("cmdline")?;
        let words: Vec<&str> = line.split('\0').filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            return Ok(self.read_text("comm")?.trim_end().to_owned());
        }
        Ok(words.join(" ").replace(['\n', '\r'], " "))
    }

    /// The numbers of its threads now. The kernel may leave out living threads while others end
    /// (`next_tid` of its `fs/proc/base.c`), so the list is read until nothing new is in it.
    ///
    /// # Errors
    /// When it has ended.
    pub fn task_ids(&self) -> Result<Vec<u32>, ProcessError> {
        let mut ids = BTreeSet::new();
        for _ in 0..LISTINGS_MAX {
            let known = ids.len();
            ids.extend(self.list_tasks()?);
            if ids.len() == known {
                break;
            }
        }
        Ok(ids.into_iter().collect())
    }

    #[expect(clippy::disallowed_methods, reason = "a folder of procfs, in memory")]
    fn list_tasks(&self) -> Result<Vec<u32>, ProcessError> {
        let folder = self.root.join("task");
        let entries = fs::read_dir(&folder).map_err(|error| self.error(&folder, error))?;
        let mut ids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| self.error(&folder, error))?;
            // Every entry is a number.
            ids.extend(
                entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<u32>().ok()),
            );
        }
        Ok(ids)
    }

    /// One of its threads.
    ///
    /// # Errors
    /// When the thread has ended or may not be read.
    pub fn task(&self, tid: u32) -> Result<Task, ProcessError> {
        Task::open(self, tid)
    }

    /// The number by which the process itself knows one of its threads: another one where it runs
    /// in a container, whose numbers begin at 1. `None` when the thread has ended.
    #[must_use]
    pub fn inner_tid(&self, tid: u32) -> Option<u64> {
        // Whoever asks takes no thread that can't be read.
        let status = self.read_text(&format!("task/{tid}/status")).ok()?;
        innermost(&status, tid)
    }

    /// One of its threads by the number that the process itself knows it by.
    #[must_use]
    pub fn tid_of_inner(&self, inner: u64) -> Option<u32> {
        // A process that has ended has no threads.
        let tids = self.task_ids().ok()?;
        tids.into_iter()
            .find(|tid| self.inner_tid(*tid) == Some(inner))
    }

    /// The processes that it started and hasn't waited for yet, by our numbers; none on a kernel
    /// without this list (proc(5): `CONFIG_PROC_CHILDREN`).
    pub(crate) fn children(&self) -> Vec<u32> {
        // A process, or a thread, that has ended has none.
        let lists = self.task_ids().unwrap_or_default().into_iter();
        let lists = lists.filter_map(|tid| self.read_text(&format!("task/{tid}/children")).ok());
        let mut children = Vec::new();
        for list in lists {
            children.extend(
                list.split_ascii_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
        }
        children
    }

    /// Copies memory from `address` on, as far as it is mapped; the number of bytes copied.
    ///
    /// # Errors
    /// When nothing is mapped there (`EFAULT`, `EIO`), or the kernel refuses.
    pub fn read_memory(&self, address: u64, into: &mut [u8]) -> io::Result<usize> {
        match self.copy_memory(address, into) {
            // Sandboxes forbid the call by its number; whoever may read `/proc` as it is read here
            // may read its `mem`, too (proc(5)).
            Err(error)
                if matches!(
                    Errno::from_raw(error.raw_os_error().unwrap_or(0)),
                    Errno::EPERM | Errno::EACCES | Errno::ENOSYS
                ) =>
            {
                self.read_memory_file(address, into)
            }
            copied => copied,
        }
    }

    /// The same by a file.
    #[expect(clippy::disallowed_methods, reason = "a file of procfs, in memory")]
    pub(crate) fn read_memory_file(&self, address: u64, into: &mut [u8]) -> io::Result<usize> {
        fs::File::open(self.root.join("mem"))?.read_at(into, address)
    }

    fn copy_memory(&self, address: u64, into: &mut [u8]) -> io::Result<usize> {
        let base = usize::try_from(address).map_err(|_| io::Error::from(Errno::EFAULT))?;
        let length = into.len();
        let pid = i32::try_from(self.pid).map_err(|_| io::Error::from(Errno::ESRCH))?;
        // One piece per page: a read that meets an unmapped page gives what came before it.
        let mut remote = Vec::with_capacity(length / PAGE + 2);
        let mut offset = 0;
        while offset < length {
            let at = base.wrapping_add(offset);
            let len = (PAGE - at % PAGE).min(length - offset);
            remote.push(RemoteIoVec { base: at, len });
            offset += len;
        }
        let mut done = 0;
        for pieces in remote.chunks(PIECES_MAX) {
            let wanted: usize = pieces.iter().map(|piece| piece.len).sum();
            let part = &mut into[done..done + wanted];
            match process_vm_readv(Pid::from_raw(pid), &mut [IoSliceMut::new(part)], pieces) {
                Ok(read) if read < wanted => return Ok(done + read),
                Ok(_) => done += wanted,
                // What came before it is there.
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// One word, if it is mapped.
    #[must_use]
    pub fn read_word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let read = self.read_memory(address, &mut bytes);
        matches!(read, Ok(8)).then(|| u64::from_ne_bytes(bytes))
    }

    /// A file of its folder.
    #[expect(clippy::disallowed_methods, reason = "files of procfs, in memory")]
    pub(crate) fn read_text(&self, name: &str) -> Result<String, ProcessError> {
        let path = self.root.join(name);
        let bytes = fs::read(&path).map_err(|error| self.error(&path, error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What an error of a file in its folder means.
    pub(crate) fn error(&self, path: &Path, source: io::Error) -> ProcessError {
        let (pid, shown) = (self.pid, path.display().to_string());
        match source.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ESRCH) if self.is_anothers() => {
                ProcessError::Hidden { pid }
            }
            Some(Errno::ENOENT | Errno::ESRCH) => ProcessError::Ended { pid },
            Some(Errno::EACCES | Errno::EPERM) if self.is_own => {
                ProcessError::NotDumpable { source }
            }
            Some(Errno::EACCES | Errno::EPERM) => ProcessError::NoPermission {
                pid,
                path: shown,
                source,
            },
            _ => ProcessError::Unreadable {
                path: shown,
                source,
            },
        }
    }

    /// Whether a process of this number runs that this user may not even send a signal.
    fn is_anothers(&self) -> bool {
        let pid = i32::try_from(self.pid).map(Pid::from_raw);
        pid.is_ok_and(|pid| kill(pid, None) == Err(Errno::EPERM))
    }

    fn check_architecture(&self) -> Result<(), ProcessError> {
        let theirs = self.elf_identity(&self.root.join("exe"));
        let theirs = theirs.map_err(|error| match error {
            ProcessError::Ended { pid } if self.root.join("stat").exists() => {
                ProcessError::NoProgram { pid }
            }
            error => error,
        })?;
        let ours = self.elf_identity(Path::new("/proc/self/exe"))?;
        if architecture(&theirs) == architecture(&ours) {
            return Ok(());
        }
        Err(ProcessError::OtherArchitecture {
            pid: self.pid,
            theirs: architecture(&theirs),
            ours: architecture(&ours),
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "20 bytes, before anything is watched"
    )]
    fn elf_identity(&self, path: &Path) -> Result<[u8; ELF_IDENTITY_BYTES], ProcessError> {
        let mut identity = [0; ELF_IDENTITY_BYTES];
        let read = fs::File::open(path)
            .and_then(|mut file| io::Read::read_exact(&mut file, &mut identity));
        read.map_err(|error| self.error(path, error))?;
        Ok(identity)
    }
}

/// Opens a file that a process names. Whatever isn't a regular file is none: opening a FIFO would
/// wait for its writer.
pub(crate) fn regular_file(path: &Path) -> Option<fs::File> {
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).custom_flags(libc::O_NONBLOCK);
    // Whoever needs it does without, and says so.
    let file = options.open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// A thread's number in the innermost of the namespaces that it is in (`NSpid` in proc(5), the
/// outermost first); the one number there is where the kernel has no namespaces.
fn innermost(status: &str, tid: u32) -> Option<u64> {
    let mut lines = status.lines();
    match lines.find_map(|line| line.strip_prefix("NSpid:")) {
        Some(numbers) => numbers.split_ascii_whitespace().last()?.parse().ok(),
        None => Some(tid.into()),
    }
}

/// Threads may start as fast as they are listed.
const LISTINGS_MAX: usize = 5;
/// What the kernel takes at once (`UIO_MAXIOV` in its `include/uapi/linux/uio.h`).
const PIECES_MAX: usize = 1024;
/// What the kernel puts behind the path of a file that has lost its name (proc(5)).
pub(crate) const DELETED: &str = " (deleted)";
/// Pages are at least this large on every Linux.
const PAGE: usize = 4096;

/// In words, from an ELF header (elf(5): `e_ident[EI_CLASS]`, `EI_DATA`, `e_machine`).
fn architecture(identity: &[u8; ELF_IDENTITY_BYTES]) -> String {
    let bits = match identity[4] {
        1 => "32-bit",
        2 => "64-bit",
        _ => "unknown",
    };
    let big_endian = identity[5] == 2;
    let machine = [identity[18], identity[19]];
    let machine = if big_endian {
        u16::from_be_bytes(machine)
    } else {
        u16::from_le_bytes(machine)
    };
    match machine {
        3 => format!("x86 ({bits})"),
        40 => format!("ARM ({bits})"),
        62 => format!("x86-64 ({bits})"),
        183 => format!("AArch64 ({bits})"),
        243 => format!("RISC-V ({bits})"),
        other => format!("ELF machine {other} ({bits})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_differ_by_class_and_machine() {
        let mut identity = [0; ELF_IDENTITY_BYTES];
        (identity[4], identity[5], identity[18]) = (2, 1, 62);
        assert_eq!(architecture(&identity), "x86-64 (64-bit)");
        identity[4] = 1;
        assert_eq!(architecture(&identity), "x86-64 (32-bit)");
        (identity[5], identity[18], identity[19]) = (2, 0, 40);
        assert_eq!(architecture(&identity), "ARM (32-bit)");
    }

    #[test]
    fn a_process_that_is_not_there_has_ended() {
        // Beyond the largest number that Linux gives (proc(5): pid_max is at most 2^22).
        let error = ProcessView::of((1 << 22) + 1).expect_err("no such process");
        assert!(matches!(error, ProcessError::Ended { .. }), "{error}");
    }

    #[test]
    fn a_process_without_a_program_is_told_from_one_that_is_not_there() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let pid = child.id();
        let error = loop {
            // Until it has ended; nobody has waited for it yet.
            match ProcessView::of(pid) {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ProcessError::NoProgram { .. }), "{error}");
        child.wait().expect("it is a child");
    }

    #[test]
    fn a_thread_of_a_container_has_its_number_there() {
        assert_eq!(innermost("Name:\tx\nNSpid:\t4242\t17\t7\n", 4242), Some(7));
        assert_eq!(innermost("NSpid:\t4242\n", 4242), Some(4242));
        assert_eq!(innermost("Name:\tx\n", 4242), Some(4242));
        let own = u32::try_from(nix::unistd::gettid().as_raw()).expect("positive");
        let view = ProcessView::own();
        let inner = view.inner_tid(own).expect("it runs");
        assert_eq!(view.tid_of_inner(inner), Some(own));
        assert_eq!(view.tid_of_inner(u64::MAX), None);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let refused = || io::Error::from(Errno::EACCES);
        let own = ProcessView::own().error(Path::new("/proc/self/task/7/syscall"), refused());
        let text = own.to_string();
        assert!(text.contains("prctl(PR_SET_DUMPABLE, 1)"), "{text}");
        assert!(!text.contains("task/7"), "the same for each thread: {text}");
        let view = ProcessView {
            is_own: false,
            ..ProcessView::own()
        };
        let error = view.error(Path::new("/proc/1/syscall"), refused());
        assert!(matches!(error, ProcessError::NoPermission { .. }));
        let text = error.to_string();
        for part in [
            "/proc/1/syscall",
            "same user",
            "CAP_SYS_PTRACE",
            "--cap-add",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn memory_is_read_up_to_the_first_page_that_is_not_there() {
        let view = ProcessView::own();
        let word = 0x1122_3344_5566_7788_u64;
        let address = std::ptr::from_ref(&word).addr() as u64;
        assert_eq!(view.read_word(address), Some(word));
        assert_eq!(view.read_word(8), None);
    }

    #[test]
    fn the_file_of_memory_tells_the_same_as_the_call() {
        let view = ProcessView::own();
        let bytes: Vec<u8> = (0..=250_u8).cycle().take(3 * PAGE).collect();
        let mut copy = vec![0; bytes.len()];
        let read = view.read_memory_file(bytes.as_ptr().addr() as u64, &mut copy);
        assert_eq!(read.expect("mapped"), bytes.len());
        assert!(copy == bytes);
        view.read_memory_file(8, &mut copy)
            .expect_err("nothing is mapped there");
    }

    #[test]
    fn more_memory_is_read_than_the_kernel_takes_at_once() {
        let bytes: Vec<u8> = (0..=250_u8)
            .cycle()
            .take((PIECES_MAX + 76) * PAGE)
            .collect();
        let mut copy = vec![0; bytes.len()];
        let read = ProcessView::own().read_memory(bytes.as_ptr().addr() as u64, &mut copy);
        assert_eq!(read.expect("mapped"), bytes.len());
        assert!(copy == bytes);
    }

    #[test]
    fn a_fifo_is_no_file_and_holds_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("node");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("made");
        assert!(regular_file(&fifo).is_none());
        assert!(regular_file(folder.path()).is_none());
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(regular_file(file.path()).is_some());
    }

    #[test]
    fn the_own_process_tells_its_command_and_threads() {
        let view = ProcessView::of(std::process::id()).expect("runs");
        assert!(view.is_own());
        assert!(view.command().expect("a name").contains("unstall"));
        let threads = view.task_ids().expect("threads");
        assert!(
            threads.contains(&u32::try_from(nix::unistd::gettid().as_raw()).expect("positive"))
        );
    }
}
