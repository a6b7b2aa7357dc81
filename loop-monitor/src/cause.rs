//! What a thread was doing when it was looked at: in which call, on what, and from which line.
//!
//! One vocabulary for everybody who names: the watcher inside, the watch on another process, the
//! proof and the Python tools.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a thread could not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CauseClass {
    /// A file, a socket, a pipe, a terminal, a name lookup.
    Io,
    /// A lock of the program: mutex, condition, semaphore, join of a thread.
    Lock,
    /// It asked to sleep.
    Sleep,
    /// It started a process, or waited for one.
    Spawn,
    /// Python's interpreter lock: somebody else's code ran; never counted as blocking.
    Gil,
    /// Standard output or error; advisory.
    Log,
    /// A page that had to come from disk.
    Fault,
    /// It computed: no blocking at all, whatever it took.
    Cpu,
    /// It was ready and waited for a core: the machine is busy or its quota used up.
    Runqueue,
    /// None of these could be told.
    Unknown,
}

impl CauseClass {
    /// As it is spelt in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Lock => "lock",
            Self::Sleep => "sleep",
            Self::Spawn => "spawn",
            Self::Gil => "gil",
            Self::Log => "log",
            Self::Fault => "fault",
            Self::Cpu => "cpu",
            Self::Runqueue => "runqueue",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the loop was kept by something that an async call would have left to others.
    #[must_use]
    pub fn is_blocking(self) -> bool {
        match self {
            Self::Io | Self::Lock | Self::Sleep | Self::Spawn | Self::Fault | Self::Unknown => true,
            Self::Gil | Self::Log | Self::Cpu | Self::Runqueue => false,
        }
    }
}

impl fmt::Display for CauseClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Io => "I/O",
            Self::Lock => "lock",
            Self::Sleep => "sleep",
            Self::Spawn => "child process",
            Self::Gil => "interpreter lock",
            Self::Log => "log",
            Self::Fault => "page fault",
            Self::Cpu => "CPU",
            Self::Runqueue => "wait for a core",
            Self::Unknown => "unknown wait",
        })
    }
}

/// What a call is about: a file, or who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Target {
    /// A path, `127.0.0.1:6379`, `unix:/run/x.sock`, `pipe`, `pid 42`.
    pub what: String,
    /// Who that is, where it is known: `redis (REDIS_URL)`, `redis-server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(formatter, "{} at {}", name, self.what),
            None => formatter.write_str(&self.what),
        }
    }
}

/// One function of a stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frame {
    /// Demangled, without a hash; `0x…` where nothing is known.
    pub function: String,
    /// Source file, as the debug information or the interpreter spells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in the file, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The program's own code, and not a library's, a runtime's or an interpreter's.
    pub is_own: bool,
}

impl fmt::Display for Frame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.function)?;
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(formatter, " at {file}:{line}"),
            (Some(file), None) => write!(formatter, " at {file}"),
            (None, _) => Ok(()),
        }
    }
}

/// What kept a thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// Why it could not go on.
    pub class: CauseClass,
    /// The system call's name, as in its manual page's section 2; none when it was in no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syscall: Option<String>,
    /// What the call is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// `METHOD /route`, where it can be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The stack, innermost first; empty when it couldn't be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
}

impl Cause {
    /// The line to look at: the innermost function of the program's own code, else the innermost
    /// that has a line.
    #[must_use]
    pub fn blamed(&self) -> Option<&Frame> {
        let own = self.frames.iter().find(|frame| frame.is_own);
        own.or_else(|| self.frames.iter().find(|frame| frame.line.is_some()))
    }
}

/// `I/O in recvfrom on redis (REDIS_URL) at 127.0.0.1:6379, from store::get at src/store.rs:42`.
impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.class)?;
        if let Some(syscall) = &self.syscall {
            write!(formatter, " in {syscall}")?;
        }
        if let Some(target) = &self.target {
            write!(formatter, " on {target}")?;
        }
        if let Some(frame) = self.blamed() {
            write!(formatter, ", from {frame}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: Option<&str>, line: Option<u32>, is_own: bool) -> Frame {
        Frame {
            function: function.to_owned(),
            file: file.map(str::to_owned),
            line,
            is_own,
        }
    }

    #[test]
    fn a_cause_reads_as_a_sentence_and_blames_the_program_s_own_line() {
        let cause = Cause {
            class: CauseClass::Io,
            syscall: Some("recvfrom".to_owned()),
            target: Some(Target {
                what: "127.0.0.1:6379".to_owned(),
                name: Some("redis".to_owned()),
            }),
            endpoint: None,
            frames: vec![
                frame("recv", None, None, false),
                frame("std::net::read", Some("/rustc/net.rs"), Some(1), false),
                frame("store::get", Some("src/store.rs"), Some(42), true),
            ],
        };
        assert_eq!(
            cause.to_string(),
            "I/O in recvfrom on redis at 127.0.0.1:6379, from store::get at src/store.rs:42"
        );
    }

    #[test]
    fn without_own_code_the_innermost_known_line_is_blamed() {
        let cause = Cause {
            class: CauseClass::Sleep,
            syscall: None,
            target: None,
            endpoint: None,
            frames: vec![
                frame("0x1", None, None, false),
                frame("library", Some("lib.rs"), Some(7), false),
            ],
        };
        assert_eq!(cause.to_string(), "sleep, from library at lib.rs:7");
    }

    #[test]
    fn names_are_those_of_the_wire() {
        for class in [
            CauseClass::Io,
            CauseClass::Lock,
            CauseClass::Sleep,
            CauseClass::Spawn,
            CauseClass::Gil,
            CauseClass::Log,
            CauseClass::Fault,
            CauseClass::Cpu,
            CauseClass::Runqueue,
            CauseClass::Unknown,
        ] {
            let wire = serde_json::to_value(class).expect("a name");
            assert_eq!(wire, class.name());
        }
    }

    #[test]
    fn waiting_for_others_to_compute_is_no_blocking() {
        for class in [
            CauseClass::Gil,
            CauseClass::Cpu,
            CauseClass::Runqueue,
            CauseClass::Log,
        ] {
            assert!(!class.is_blocking(), "{class}");
        }
        assert!(CauseClass::Io.is_blocking() && CauseClass::Lock.is_blocking());
    }
}
