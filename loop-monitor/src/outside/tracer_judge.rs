//! One system call at its entry: can it block, does it hold an event loop, and from which line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::sys::ptrace;
use nix::unistd::Pid;
use syscalls::Sysno;

use super::tracer_python::{PythonStack, PythonStacks};
use crate::blocking_rules::{self, CallFacts, Descriptor, Judgement};
use crate::cause::{Cause, CauseClass, Frame, Target};
use crate::process::address_space::{AddressSpace, Mapping};
use crate::process::descriptors::Descriptors;
use crate::process::stack::{Registers, StackCopy, Stacks};
use crate::process::tokio_place;
use crate::process::{Call, ProcessView, Syscall};

/// How much of a stack is searched for the code that made a call.
const NEAR_STACK_BYTES: usize = 512;
/// How much of a stack is searched for a loop that is written in C.
const FAR_STACK_BYTES: usize = 256 * 1024;

/// Between a call of the monitor and its reader there are functions of the libraries only.
const MONITOR_FRAMES_MAX: usize = 8;

/// A thread that stands still at the entry of a system call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) tid: u32,
    pub(super) number: u64,
    pub(super) arguments: [u64; 6],
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
    /// What `pthread_self` gives: the base of the thread's own storage.
    pub(super) thread_pointer: u64,
}

impl Entry {
    /// The call that a thread enters; `None` when it leaves one.
    pub(super) fn of(tid: Pid) -> nix::Result<Option<Self>> {
        if ptrace::syscall_info(tid)?.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
            return Ok(None);
        }
        let registers = ptrace::getregs(tid)?;
        Ok(Some(Self {
            tid: tid.as_raw().unsigned_abs(),
            number: registers.orig_rax,
            arguments: [
                registers.rdi,
                registers.rsi,
                registers.rdx,
                registers.r10,
                registers.r8,
                registers.r9,
            ],
            ip: registers.rip,
            sp: registers.rsp,
            bp: registers.rbp,
            thread_pointer: registers.fs_base,
        }))
    }
}

/// What a call was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// It can't block, or holds no loop.
    Harmless,
    /// The loop asks for events: nothing is held.
    OwnWait,
    /// It writes the program's log.
    Log,
    /// It can block, and may.
    Exempt(&'static str),
    /// It can block, and holds the loop.
    Finding(Cause),
}

/// Judges the calls of one process.
pub(super) struct Judge {
    view: ProcessView,
    descriptors: Descriptors,
    python: Option<PythonStacks>,
    /// Every call of a traced thread counts, and not only those inside a loop's step.
    loops_only: bool,
    /// Thread and epoll descriptor of loops that were recognised.
    own_waits: BTreeSet<(u32, u64)>,
    /// Programs in machine code: the lowest epoll descriptor that a thread waits on is its loop's.
    lowest_epoll: BTreeMap<u32, u64>,
    stacks: Option<Stacks>,
    /// Calls whose stack could not be read.
    pub(super) unread_stacks: u64,
}

impl Judge {
    pub(super) fn new(
        view: &ProcessView,
        descriptors: Descriptors,
        python: Option<PythonStacks>,
        loops_only: bool,
    ) -> Self {
        Self {
            view: view.clone(),
            descriptors,
            python,
            loops_only,
            own_waits: BTreeSet::new(),
            lowest_epoll: BTreeMap::new(),
            stacks: None,
            unread_stacks: 0,
        }
    }

    /// Gives back what reads Python's stacks, for the next trace.
    pub(super) fn take_python(&mut self) -> Option<PythonStacks> {
        self.python.take()
    }

    /// Looks at one call.
    pub(super) fn look(&mut self, entry: &Entry) -> Seen {
        let call = blocking_rules::Call {
            number: entry.number,
            arguments: entry.arguments,
        };
        let name = usize::try_from(entry.number).ok().and_then(Sysno::new);
        match blocking_rules::judge(&call, &mut Facts(&self.view)) {
            Judgement::Harmless => {
                if name == Some(Sysno::close) {
                    self.forget_loop_of(entry.arguments[0]);
                }
                Seen::Harmless
            }
            Judgement::Log => Seen::Log,
            Judgement::Blocking(class) => self.look_closer(entry, name, class),
        }
    }

    fn look_closer(&mut self, entry: &Entry, name: Option<Sysno>, class: CauseClass) -> Seen {
        let first = entry.arguments[0];
        if name.is_some_and(is_write) && self.is_log(first) {
            return Seen::Log;
        }
        let waits = EventWait::of(name);
        if waits == EventWait::Epoll && self.own_waits.contains(&(entry.tid, first)) {
            return Seen::OwnWait;
        }
        let stack = match &mut self.python {
            None => return self.look_at_machine_code(entry, waits, class),
            Some(python) => {
                if class == CauseClass::Lock && python.is_interpreter_lock(first) {
                    return Seen::Harmless;
                }
                python.stack(entry.thread_pointer)
            }
        };
        match stack {
            // A thread that never ran Python holds no loop of Python's.
            Ok(None) => Seen::Harmless,
            Ok(Some(stack)) => self.look_at_python(entry, waits, class, stack),
            Err(_) => {
                // Counted and told at the end; better one too many than one unseen.
                self.unread_stacks += 1;
                Seen::Finding(self.cause(entry, class))
            }
        }
    }

    fn look_at_python(
        &mut self,
        entry: &Entry,
        waits: EventWait,
        class: CauseClass,
        stack: PythonStack,
    ) -> Seen {
        if waits == EventWait::Epoll && (stack.is_own_wait() || self.is_called_by_uvloop(entry)) {
            self.own_waits.insert((entry.tid, entry.arguments[0]));
            return Seen::OwnWait;
        }
        let is_step = stack.is_in_step() || stack.has_program() && self.is_below_uvloop(entry);
        if !is_step {
            return Seen::Harmless;
        }
        if let Some(reason) = stack.excuse(class) {
            return Seen::Exempt(reason);
        }
        if waits == EventWait::Ring && self.is_called_by_uvloop(entry) {
            return Seen::Exempt("libuv tells the kernel what it waits for, in one go (io_uring)");
        }
        let (stack, is_import) = stack.without_import();
        let mut cause = if is_import {
            imported()
        } else {
            self.cause(entry, class)
        };
        cause.frames = stack.into_frames();
        Seen::Finding(cause)
    }

    fn look_at_machine_code(&mut self, entry: &Entry, waits: EventWait, class: CauseClass) -> Seen {
        if waits == EventWait::Ring {
            return Seen::OwnWait;
        }
        if waits == EventWait::Epoll {
            let descriptor = entry.arguments[0];
            let lowest = self.lowest_epoll.entry(entry.tid).or_insert(descriptor);
            *lowest = descriptor.min(*lowest);
            if *lowest == descriptor {
                return Seen::OwnWait;
            }
        }
        if !self.loops_only {
            return Seen::Harmless;
        }
        let frames = self.machine_frames(entry);
        if class == CauseClass::Lock && tokio_place::is_parked(&frames) == Some(true) {
            return Seen::OwnWait;
        }
        if frames.iter().take(MONITOR_FRAMES_MAX).any(is_monitor) {
            return Seen::Exempt("Unstall's own monitor reads the thread's times, out of memory");
        }
        let mut cause = self.cause(entry, class);
        cause.frames = frames;
        Seen::Finding(cause)
    }

    /// The stack of a program in machine code; empty when it can't be read.
    fn machine_frames(&mut self, entry: &Entry) -> Vec<Frame> {
        if self.stacks.is_none() {
            // A process that ends meanwhile has no stack, and its end is told by the wait.
            self.stacks = Stacks::new(&self.view).ok();
        }
        let registers = Registers {
            ip: entry.ip,
            sp: entry.sp,
            bp: Some(entry.bp),
        };
        let copy = StackCopy::take(&self.view, entry.sp);
        let stacks = self.stacks.as_mut();
        let frames = stacks.and_then(|stacks| stacks.frames(registers, &copy).ok());
        frames.unwrap_or_default()
    }

    /// The call and its target, without a stack.
    fn cause(&mut self, entry: &Entry, class: CauseClass) -> Cause {
        let syscall = Syscall {
            number: entry.number,
            arguments: entry.arguments,
            sp: entry.sp,
            pc: entry.ip,
        };
        let call = Call::in_progress(&syscall);
        let target = call.as_ref().and_then(|call| {
            let subject = self.descriptors.read_subject(call, &syscall);
            // A name that can't be had is left out; the call and its line stay.
            self.descriptors.name_subject(&subject).ok().flatten()
        });
        let number = || format!("system call {}", entry.number);
        Cause {
            class,
            syscall: Some(call.map_or_else(number, |call| call.name.to_owned())),
            target,
            endpoint: None,
            frames: Vec::new(),
        }
    }

    /// Its descriptor may be somebody else's next time.
    fn forget_loop_of(&mut self, descriptor: u64) {
        self.own_waits.retain(|(_, own)| *own != descriptor);
        self.lowest_epoll.retain(|_, lowest| *lowest != descriptor);
    }

    /// The same open file as standard output or error, under whatever number: pytest and others
    /// put a file there and keep it under a number of its own.
    fn is_log(&self, descriptor: u64) -> bool {
        let identity = |descriptor: u64| {
            let status = fs::metadata(self.descriptor_path(descriptor)).ok()?;
            Some((status.dev(), status.ino(), status.rdev()))
        };
        let own = identity(descriptor);
        own.is_some() && [1, 2].iter().any(|log| identity(*log) == own)
    }

    fn descriptor_path(&self, descriptor: u64) -> std::path::PathBuf {
        self.view.root().join("fd").join(descriptor.to_string())
    }

    /// The code right above the C library's is uvloop's.
    fn is_called_by_uvloop(&self, entry: &Entry) -> bool {
        let files = self.files_on_stack(entry, NEAR_STACK_BYTES);
        let is_c = |path: &&String| path.contains("/libc") || path.contains("/libpthread");
        let first = files.iter().find(|path| !is_c(path));
        first.is_some_and(|path| is_uvloop(path))
    }

    /// uvloop's code is on the stack: it has no Python frames of its own.
    fn is_below_uvloop(&self, entry: &Entry) -> bool {
        let files = self.files_on_stack(entry, FAR_STACK_BYTES);
        files.iter().any(|path| is_uvloop(path))
    }

    /// Files of the code that words of the stack point to, the innermost first. No unwinding: that
    /// takes tables which Cython's modules needn't have.
    fn files_on_stack(&self, entry: &Entry, bytes_max: usize) -> Vec<String> {
        // A process that has ended has no code; its end is told by the wait for it.
        let Ok(space) = AddressSpace::read(&self.view) else {
            return Vec::new();
        };
        let bytes = stack_bytes(entry, space.find(entry.sp)).min(bytes_max);
        let mut stack = vec![0; bytes];
        let read = self.view.read_memory(entry.sp, &mut stack).unwrap_or(0);
        let words = stack[..read].chunks_exact(8);
        let words = words.map(|word| {
            word.iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u64::from(*byte))
        });
        let mappings = words.filter_map(|word| space.find(word).filter(|it| it.is_executable));
        mappings.map(|mapping| mapping.path.clone()).collect()
    }
}

/// How much of a thread's stack is in use. What lies above it may be anybody's: the kernel joins
/// neighbouring mappings, so that the end of one isn't the end of the stack. Threads have their own
/// storage at the stack's upper end (glibc, musl); only the first one has it elsewhere.
fn stack_bytes(entry: &Entry, stack: Option<&Mapping>) -> usize {
    let Some(stack) = stack else { return 0 };
    let is_above = (entry.sp..stack.end).contains(&entry.thread_pointer);
    let end = if is_above {
        entry.thread_pointer
    } else {
        stack.end
    };
    usize::try_from(end - entry.sp).unwrap_or(usize::MAX)
}

fn imported() -> Cause {
    Cause {
        class: CauseClass::Io,
        syscall: None,
        target: Some(Target {
            what: "the files of a module that is imported".to_owned(),
            name: None,
        }),
        endpoint: None,
        frames: Vec::new(),
    }
}

/// The readings of a monitor inside of the program.
fn is_monitor(frame: &Frame) -> bool {
    frame
        .function
        .trim_start_matches('<')
        .starts_with("unstall_loop_monitor::readings::")
}

fn is_uvloop(path: &str) -> bool {
    path.contains("/uvloop/")
}

/// Calls by which event loops wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventWait {
    No,
    Epoll,
    Ring,
}

impl EventWait {
    fn of(name: Option<Sysno>) -> Self {
        match name {
            Some(Sysno::epoll_wait | Sysno::epoll_pwait | Sysno::epoll_pwait2) => Self::Epoll,
            Some(Sysno::io_uring_enter) => Self::Ring,
            _ => Self::No,
        }
    }
}

fn is_write(name: Sysno) -> bool {
    matches!(name, Sysno::write | Sysno::writev | Sysno::pwrite64)
}

/// Answers the rules' questions from `/proc`.
struct Facts<'a>(&'a ProcessView);

impl CallFacts for Facts<'_> {
    fn descriptor(&mut self, descriptor: i32) -> Option<Descriptor> {
        let number = u32::try_from(descriptor).ok()?.to_string();
        let root = self.0.root();
        let read = || -> io::Result<Descriptor> {
            let status = fs::metadata(root.join("fd").join(&number))?;
            let info = fs::read_to_string(root.join("fdinfo").join(&number))?;
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
            // Without flags it may wait.
            let flags = flags.unwrap_or(0);
            Ok(Descriptor::from_status(status.mode(), status.rdev(), flags))
        };
        match read() {
            Ok(found) => Some(found),
            // What isn't open fails at once.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // And so does everything of a process that has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
            // What can't be looked at may wait: better one too many than one unseen.
            Err(_) => Some(Descriptor::UNKNOWN),
        }
    }

    fn lingers(&mut self, _descriptor: i32) -> bool {
        // Not to be had from outside, which the certificate says.
        false
    }

    fn read_memory(&mut self, address: u64, into: &mut [u8]) -> bool {
        let read = self.0.read_memory(address, into);
        read.is_ok_and(|read| read == into.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_ends_at_the_thread_s_own_storage_or_with_its_mapping() {
        let stack = Mapping {
            start: 0x7f00_0000,
            end: 0x7f80_0000,
            is_executable: false,
            file_offset: 0,
            inode: 0,
            path: String::new(),
        };
        let entry = |thread_pointer| Entry {
            tid: 1,
            number: 0,
            arguments: [0; 6],
            ip: 0,
            sp: 0x7f0f_f000,
            bp: 0,
            thread_pointer,
        };
        // The kernel has joined the stack with what lies above it.
        assert_eq!(stack_bytes(&entry(0x7f10_0000), Some(&stack)), 0x1000);
        // The first thread's storage is elsewhere, and so is that of who moved its stack.
        assert_eq!(stack_bytes(&entry(0x6000_0000), Some(&stack)), 0x70_1000);
        assert_eq!(stack_bytes(&entry(0x7f90_0000), Some(&stack)), 0x70_1000);
        assert_eq!(stack_bytes(&entry(0x7f10_0000), None), 0);
    }

    #[test]
    fn only_readings_of_the_monitor_are_exempt() {
        let frame = |function: &str| Frame {
            function: function.to_owned(),
            file: None,
            line: None,
            is_own: true,
        };
        assert!(is_monitor(&frame(
            "unstall_loop_monitor::readings::read_run_delay"
        )));
        assert!(is_monitor(&frame(
            "<unstall_loop_monitor::readings::ThreadReader>::read"
        )));
        assert!(!is_monitor(&frame("unstall_loop_monitor::layer::call")));
        assert!(!is_monitor(&frame(
            "app::unstall_loop_monitor::readings::x"
        )));
    }
}
