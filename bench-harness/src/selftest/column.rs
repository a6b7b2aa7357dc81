//! The columns: which program holds the canaries, and who observes it.

use super::canary::Canary;
use super::judge::Bar;

/// An event loop of Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loop {
    /// The standard library's.
    Asyncio,
    /// The one on libuv.
    Uvloop,
}

impl Loop {
    /// As the script spells it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Asyncio => "asyncio",
            Self::Uvloop => "uvloop",
        }
    }
}

/// The program that holds the canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// This one in another role, on Tokio.
    Rust,
    /// An interpreter.
    Python(Loop),
}

impl Program {
    /// As a heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust, Tokio",
            Self::Python(Loop::Asyncio) => "Python, asyncio",
            Self::Python(Loop::Uvloop) => "Python, uvloop",
        }
    }
}

/// Who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Observer {
    /// The monitor's counters.
    Counters,
    /// The same, read around every poll.
    FullSplit,
    /// The middleware's counters.
    Middleware,
    /// A thread of the program itself, which names.
    Watcher,
    /// Another process, which is this one.
    Outside,
    /// The kernel, which hands the program its own calls (Syscall User Dispatch).
    Dispatch,
    /// The kernel, which shows another process every call (ptrace).
    Tracer,
}

/// One way to observe one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    /// Which program.
    pub(crate) program: Program,
    /// Who looks.
    pub(crate) observer: Observer,
}

/// All of them.
pub(crate) const ALL: [Column; 11] = [
    column(Program::Rust, Observer::Counters),
    column(Program::Rust, Observer::FullSplit),
    column(Program::Rust, Observer::Watcher),
    column(Program::Rust, Observer::Outside),
    column(Program::Rust, Observer::Dispatch),
    column(Program::Python(Loop::Asyncio), Observer::Middleware),
    column(Program::Python(Loop::Asyncio), Observer::Outside),
    column(Program::Python(Loop::Asyncio), Observer::Tracer),
    column(Program::Python(Loop::Uvloop), Observer::Middleware),
    column(Program::Python(Loop::Uvloop), Observer::Outside),
    column(Program::Python(Loop::Uvloop), Observer::Tracer),
];

const fn column(program: Program, observer: Observer) -> Column {
    Column { program, observer }
}

impl Column {
    /// 1 counters, 2 watcher, 3 proof.
    pub(crate) fn tier(self) -> u8 {
        match self.observer {
            Observer::Counters | Observer::FullSplit | Observer::Middleware => 1,
            Observer::Watcher | Observer::Outside => 2,
            Observer::Dispatch | Observer::Tracer => 3,
        }
    }

    /// As a heading, without the program.
    pub(crate) fn title(self) -> &'static str {
        match self.observer {
            Observer::Counters => "counters",
            Observer::FullSplit => "full split",
            Observer::Middleware => "middleware",
            Observer::Watcher => "watcher",
            Observer::Outside => "watch from outside",
            Observer::Dispatch => "proof",
            Observer::Tracer => "proof by ptrace",
        }
    }

    /// What it must say.
    pub(super) fn bar(self) -> Bar {
        match self.observer {
            Observer::Counters | Observer::FullSplit => Bar::EverySleep,
            Observer::Middleware => Bar::MostSleeps,
            Observer::Watcher | Observer::Outside => Bar::NamesLongSleeps,
            Observer::Dispatch | Observer::Tracer => Bar::EveryCall,
        }
    }

    /// Whether that canary can be planted there.
    pub(crate) fn has(self, canary: Canary) -> bool {
        canary != Canary::GilWait || self.program != Program::Rust
    }
}
