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

impl Frame {
    /// Whether the line is of what was built with the program. Rust's library is delivered with
    /// lines (`/rustc/…`), and debug packages of C libraries bring theirs (`./nptl/…`).
    fn tells_the_programs_line(&self) -> bool {
        let delivered = ["/rustc/", "./", "../"];
        let file = self.file.as_deref().filter(|_| self.line.is_some());
        file.is_some_and(|file| !delivered.iter().any(|start| file.starts_with(start)))
    }

    /// Whether the name is that of a function in Rust or C++ which isn't of Rust's own library:
    /// `app::store::get`, `<app::Store as other::Trait>::get`, `<F as axum::Handler<T>>::call`.
    fn is_named(&self) -> bool {
        let name = self.function.trim_start_matches('<');
        // An implementation for somebody's own type parameter is its trait's.
        let name = match name.split_once(" as ") {
            Some((implementor, of)) if !implementor.contains("::") => of,
            _ => name,
        };
        let library = ["std::", "core::", "alloc::", "__rustc"];
        name.contains("::") && !library.iter().any(|start| name.starts_with(start))
    }

    /// Node is delivered as it is: nobody who runs a service builds it.
    fn is_of_a_given_runtime(&self) -> bool {
        self.function.starts_with("node::") || self.function.starts_with("v8::")
    }
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
    /// that has a line. Of a program without lines, the innermost function that isn't of Rust's own
    /// library.
    #[must_use]
    pub fn blamed(&self) -> Option<&Frame> {
        let own = self.frames.iter().find(|frame| frame.is_own);
        let named = || self.frames.iter().find(|frame| frame.is_named());
        let lined = || self.frames.iter().find(|frame| frame.line.is_some());
        if self.frames.iter().any(Frame::tells_the_programs_line) {
            return own.or_else(lined);
        }
        own.or_else(named).or_else(lined)
    }
}

/// What to say where stacks were read, and nothing on them tells a line of the program: how to get
/// lines.
#[cfg_attr(
    not(any(
        feature = "prove",
        all(feature = "watch", target_os = "linux", target_arch = "x86_64")
    )),
    expect(dead_code, reason = "stacks are read by the watcher and by proofs")
)]
pub(crate) fn how_to_get_lines<'a>(
    causes: impl IntoIterator<Item = &'a Cause>,
) -> Option<&'static str> {
    let mut frames = causes
        .into_iter()
        .flat_map(|cause| &cause.frames)
        .peekable();
    frames.peek()?;
    let has_or_is_given =
        |frame: &Frame| frame.tells_the_programs_line() || frame.is_of_a_given_runtime();
    (!frames.any(has_or_is_given)).then_some(
        "the program was built without them: build it with `debug = \"line-tables-only\"` \
         and `strip = \"none\"` in its profile (CARGO_PROFILE_RELEASE_DEBUG and \
         CARGO_PROFILE_RELEASE_STRIP), which makes it larger and no slower",
    )
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

    fn sleeping(frames: Vec<Frame>) -> Cause {
        Cause {
            class: CauseClass::Sleep,
            syscall: None,
            target: None,
            endpoint: None,
            frames,
        }
    }

    #[test]
    fn without_lines_the_innermost_function_beyond_rust_s_library_is_blamed() {
        let stripped_of_lines = |function: &str| {
            sleeping(vec![
                frame("0x7f0012", None, None, false),
                frame(
                    "std::thread::functions::sleep",
                    Some("/rustc/1/library/std/src/x.rs"),
                    Some(7),
                    false,
                ),
                frame("<std::fs::File>::sync_all", None, None, false),
                frame(
                    "<core::pin::Pin<P> as core::future::Future>::poll",
                    None,
                    None,
                    false,
                ),
                frame(function, None, None, false),
                frame("tokio::runtime::task::raw::poll", None, None, false),
            ])
        };
        for function in [
            "app::store::get",
            "<app::Store as core::future::Future>::poll",
            "<F as axum::handler::Handler<((),),S>>::call::{{closure}}",
        ] {
            let cause = stripped_of_lines(function);
            assert_eq!(cause.blamed().map(|frame| &*frame.function), Some(function));
            let words = how_to_get_lines([&cause]).expect("no line of the program");
            assert!(words.contains("line-tables-only"), "{words}");
        }
    }

    #[test]
    fn a_program_with_lines_and_one_that_nobody_builds_are_not_told_to_be_built() {
        let library = || frame("0x1", None, None, false);
        let lined = sleeping(vec![
            library(),
            frame("get", Some("src/a.rs"), Some(1), true),
        ]);
        let node = sleeping(vec![library(), frame("node::fs::Read", None, None, false)]);
        let unread = sleeping(Vec::new());
        for causes in [
            &[lined.clone(), sleeping(vec![library()])][..],
            &[node],
            &[unread],
            &[],
        ] {
            assert_eq!(how_to_get_lines(causes), None, "{causes:?}");
        }
        assert!(how_to_get_lines([&sleeping(vec![library()])]).is_some());
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
