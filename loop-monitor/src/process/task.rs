//! One thread, looked at while it goes on: what it waits in, and its share of the cores.
//!
//! A look is several files of `/proc/PID/task/TID`, and the thread may move between two of them.
//! So the call is read twice, around everything else, and between the two the thread must never
//! have been on a core: a name never mixes two calls.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use nix::errno::Errno;

use super::{ProcessError, ProcessView};

/// A thread that moves this often is busy, whatever it does.
const ATTEMPTS: usize = 3;
/// The longest line is `syscall`'s: nine hexadecimal words.
const LINE_BYTES: usize = 512;

/// A system call that a thread waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Syscall {
    /// Its number on this architecture.
    pub number: u64,
    /// Its six arguments, whether it has so many or not.
    pub arguments: [u64; 6],
    /// The thread's stack pointer.
    pub sp: u64,
    /// Its instruction pointer, right after the call's instruction.
    pub pc: u64,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activity {
    /// On a core, or ready for one. Its registers can't be had by `/proc`.
    Running,
    /// Waiting in a system call.
    Call(Syscall),
    /// Waiting in the kernel for something that it didn't ask for: a page, mostly.
    Fault {
        /// Stack pointer.
        sp: u64,
        /// Instruction pointer, of the instruction that waits.
        pc: u64,
    },
}

impl Activity {
    /// On a core, or ready for one.
    #[must_use]
    pub fn is_running(&self) -> bool {
        *self == Self::Running
    }
}

/// The thread's time, by the kernel's scheduler (`schedstat`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedTimes {
    /// On a core.
    pub cpu_ns: u64,
    /// Ready, and waiting for one.
    pub run_delay_ns: u64,
    /// Times that it got one.
    pub timeslices: u64,
}

/// One consistent look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskLook {
    /// What it did, all along the look.
    pub activity: Activity,
    /// The state's letter in `stat`: `S`, `D`, `R`, …
    pub state: char,
    /// Its time until now.
    pub times: SchedTimes,
}

/// One thread of a process. Keeps its files open, so looks are cheap.
#[derive(Debug)]
pub struct Task {
    pid: u32,
    tid: u32,
    folder: PathBuf,
    syscall: File,
    stat: File,
    /// Absent where the kernel keeps no such statistics; then the count of voluntary switches in
    /// `status`, which is dearer, tells whether the thread moved.
    schedstat: Option<File>,
    status: File,
}

impl Task {
    #[expect(clippy::disallowed_methods, reason = "files of procfs, in memory")]
    pub(super) fn open(view: &ProcessView, tid: u32) -> Result<Self, ProcessError> {
        let folder = view.root().join("task").join(tid.to_string());
        let open = |name: &str| {
            let path = folder.join(name);
            File::open(&path).map_err(|error| match view.error(&path, error) {
                ProcessError::Ended { pid } if view.task_ids().is_ok() => {
                    ProcessError::TaskEnded { pid, tid }
                }
                error => error,
            })
        };
        Ok(Self {
            pid: view.pid(),
            tid,
            syscall: open("syscall")?,
            stat: open("stat")?,
            schedstat: open("schedstat").ok(),
            status: open("status")?,
            folder,
        })
    }

    /// The thread's number.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// The thread's name.
    ///
    /// # Errors
    /// When it has ended.
    pub fn name(&self) -> Result<String, ProcessError> {
        let stat = self.read(&self.stat, "stat")?;
        let (name, _) = parse_stat(&stat).ok_or_else(|| self.unexpected("stat", &stat))?;
        Ok(name)
    }

    /// What it does now, in one read.
    ///
    /// # Errors
    /// When it has ended or may not be read.
    pub fn activity(&self) -> Result<Activity, ProcessError> {
        let line = self.read(&self.syscall, "syscall")?;
        parse_syscall(&line).ok_or_else(|| self.unexpected("syscall", &line))
    }

    /// Its time on cores and waiting for one; zero where the kernel doesn't tell.
    ///
    /// # Errors
    /// When it has ended.
    pub fn times(&self) -> Result<SchedTimes, ProcessError> {
        let Some(schedstat) = &self.schedstat else {
            return Ok(SchedTimes::default());
        };
        let line = self.read(schedstat, "schedstat")?;
        parse_schedstat(&line).ok_or_else(|| self.unexpected("schedstat", &line))
    }

    /// Times that it gave up its core by itself.
    ///
    /// # Errors
    /// When it has ended.
    pub fn voluntary_switches(&self) -> Result<u64, ProcessError> {
        let mut text = vec![0; 8192];
        let length = self.read_into(&self.status, "status", &mut text)?;
        let text = String::from_utf8_lossy(&text[..length]);
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .and_then(|count| count.trim().parse().ok());
        count.ok_or_else(|| self.unexpected("status", &text))
    }

    /// What it does, told only if it did nothing else all along the look; `None` when it moved at
    /// every attempt. A running thread moves as it likes, so [`Activity::Running`] says only that
    /// it ran at both ends.
    ///
    /// # Errors
    /// When it has ended or may not be read.
    pub fn look(&self) -> Result<Option<TaskLook>, ProcessError> {
        self.look_while(|_| ())
            .map(|seen| seen.map(|(look, ())| look))
    }

    /// Like [`Task::look`], with `meanwhile` done in the middle: what it reads of the thread
    /// (memory, descriptors) belongs to the call that the look tells.
    ///
    /// # Errors
    /// When the thread has ended or may not be read.
    pub fn look_while<T>(
        &self,
        mut meanwhile: impl FnMut(&Activity) -> T,
    ) -> Result<Option<(TaskLook, T)>, ProcessError> {
        for _ in 0..ATTEMPTS {
            let moves = self.moves()?;
            let activity = self.activity()?;
            let stat = self.read(&self.stat, "stat")?;
            let (_, state) = parse_stat(&stat).ok_or_else(|| self.unexpected("stat", &stat))?;
            let found = meanwhile(&activity);
            let stayed = activity == self.activity()?
                && (activity == Activity::Running || moves == self.moves()?);
            if stayed {
                let times = self.times()?;
                let look = TaskLook {
                    activity,
                    state,
                    times,
                };
                return Ok(Some((look, found)));
            }
        }
        Ok(None)
    }

    /// Grows whenever the thread gets a core.
    fn moves(&self) -> Result<u64, ProcessError> {
        match self.times()?.timeslices {
            // Whoever runs had a core at least once: this kernel doesn't count.
            0 => self.voluntary_switches(),
            timeslices => Ok(timeslices),
        }
    }

    fn read(&self, file: &File, name: &str) -> Result<String, ProcessError> {
        let mut line = [0; LINE_BYTES];
        let length = self.read_into(file, name, &mut line)?;
        Ok(String::from_utf8_lossy(&line[..length]).into_owned())
    }

    fn read_into(&self, file: &File, name: &str, into: &mut [u8]) -> Result<usize, ProcessError> {
        file.read_at(into, 0).map_err(|source| {
            let path = self.folder.join(name).display().to_string();
            let (pid, tid) = (self.pid, self.tid);
            match source.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ESRCH | Errno::ENOENT) => ProcessError::TaskEnded { pid, tid },
                Some(Errno::EACCES | Errno::EPERM) => {
                    ProcessError::NoPermission { pid, path, source }
                }
                _ => ProcessError::Unreadable { path, source },
            }
        })
    }

    fn unexpected(&self, name: &str, text: &str) -> ProcessError {
        ProcessError::Unexpected {
            path: self.folder.join(name).display().to_string(),
            text: text.chars().take(200).collect(),
        }
    }
}

/// `running`, or `-1 sp pc`, or `nr` and six arguments and `sp pc` (proc(5)).
fn parse_syscall(line: &str) -> Option<Activity> {
    let line = line.trim_end();
    if line == "running" {
        return Some(Activity::Running);
    }
    let mut words = line.split(' ');
    let number = words.next()?;
    let mut hexadecimal = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    if number == "-1" {
        let (sp, pc) = (hexadecimal()?, hexadecimal()?);
        return Some(Activity::Fault { sp, pc });
    }
    let number = number.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = hexadecimal()?;
    }
    let (sp, pc) = (hexadecimal()?, hexadecimal()?);
    Some(Activity::Call(Syscall {
        number,
        arguments,
        sp,
        pc,
    }))
}

/// Name and state. The name is in parentheses and may hold any byte, parentheses too.
fn parse_stat(stat: &str) -> Option<(String, char)> {
    let (begin, end) = (stat.find('(')?, stat.rfind(')')?);
    let name = stat.get(begin + 1..end)?;
    let state = stat.get(end + 1..)?.trim_start().chars().next()?;
    Some((name.to_owned(), state))
}

fn parse_schedstat(line: &str) -> Option<SchedTimes> {
    let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    Some(SchedTimes {
        cpu_ns: next()?,
        run_delay_ns: next()?,
        timeslices: next()?,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_three_forms_of_a_call() {
        assert_eq!(parse_syscall("running\n"), Some(Activity::Running));
        assert_eq!(
            parse_syscall("-1 0x7ffd 0x55\n"),
            Some(Activity::Fault {
                sp: 0x7ffd,
                pc: 0x55
            })
        );
        assert_eq!(
            parse_syscall("0 0x3 0x1 0x2 0x0 0xffffffffffffffff 0x0 0x7ffd 0x7f11\n"),
            Some(Activity::Call(Syscall {
                number: 0,
                arguments: [3, 1, 2, 0, u64::MAX, 0],
                sp: 0x7ffd,
                pc: 0x7f11,
            }))
        );
    }

    #[test]
    fn a_thread_may_be_named_anything() {
        let stat = "12 (a) R (b) S 1 2 3";
        assert_eq!(parse_stat(stat), Some(("a) R (b".to_owned(), 'S')));
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in "\\PC{0,80}") {
            let _ = (parse_syscall(&line), parse_stat(&line), parse_schedstat(&line));
        }
    }

    #[test]
    fn a_thread_in_a_read_is_seen_in_it_and_one_that_ended_is_said_to_have() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let descriptor = u64::try_from(reader.as_raw_fd()).expect("positive");
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("a reader".to_owned())
            .spawn(move || {
                tell.send(nix::unistd::gettid().as_raw()).expect("heard");
                std::io::Read::read(&mut { reader }, &mut [0]).expect("reads")
            })
            .expect("a thread");
        #[expect(clippy::disallowed_methods, reason = "the test's thread is no loop")]
        let tid = u32::try_from(told.recv().expect("a number")).expect("positive");
        let view = ProcessView::own();
        let task = view.task(tid).expect("runs");
        let call = loop {
            if let Some(look) = task.look().expect("readable")
                && let Activity::Call(call) = look.activity
                && call.number == u64::try_from(libc::SYS_read).expect("positive")
            {
                break call;
            }
            std::thread::yield_now();
        };
        assert_eq!(call.arguments[0], descriptor);
        assert_eq!(task.name().expect("runs"), "a reader");
        assert!(task.voluntary_switches().expect("runs") >= 1);
        drop(writer);
        #[expect(clippy::disallowed_methods, reason = "the test's thread is no loop")]
        thread.join().expect("ends");
        let error = loop {
            // A thread is joined a moment before the kernel forgets it.
            match task.look() {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ProcessError::TaskEnded { .. }), "{error}");
        let error = view.task(tid).expect_err("ended");
        assert!(matches!(error, ProcessError::TaskEnded { .. }), "{error}");
    }
}
