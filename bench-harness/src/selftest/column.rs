//! The columns: which program holds the canaries, and who observes it.

use super::canary::Canary;
use super::host::HostMonitor;
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
    Counters(HostMonitor),
    /// The middleware's counters.
    Middleware,
    /// Another process, which is this one.
    Outside,
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
pub(crate) const ALL: [Column; 9] = [
    column(Program::Rust, Observer::Counters(HostMonitor::Counters)),
    column(Program::Rust, Observer::Counters(HostMonitor::FullSplit)),
    column(Program::Rust, Observer::Outside),
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
            Observer::Counters(_) | Observer::Middleware => 1,
            Observer::Outside => 2,
            Observer::Tracer => 3,
        }
    }

    /// As a heading, without the program.
    pub(crate) fn title(self) -> &'static str {
        match self.observer {
            Observer::Counters(HostMonitor::Counters) => "counters",
            Observer::Counters(HostMonitor::FullSplit) => "full split",
            Observer::Middleware => "middleware",
            Observer::Outside => "watch from outside",
            Observer::Tracer => "proof by ptrace",
        }
    }

    /// What it must say.
    pub(super) fn bar(self) -> Bar {
        match self.observer {
            Observer::Counters(_) | Observer::Middleware => Bar::EverySleep,
            Observer::Outside => Bar::NamesLongSleeps,
            Observer::Tracer => Bar::EveryCall,
        }
    }

    /// Whether that canary can be planted there.
    pub(crate) fn has(self, canary: Canary) -> bool {
        canary != Canary::GilWait || self.program != Program::Rust
    }
}
