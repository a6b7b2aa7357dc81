//! The canaries: what each one does on the loop, and what that is.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use unstall_loop_monitor::cause::CauseClass;

/// One thing to do on an event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Canary {
    /// Asks the system to sleep.
    Sleep,
    /// Reads a file whose pages are in memory: returns at once.
    CachedRead,
    /// Reads a file whose pages were dropped.
    UncachedRead,
    /// Writes a block and waits until it is on the disk.
    Fsync,
    /// Looks a host name up, by the C library.
    Dns,
    /// Takes a mutex that another thread holds.
    Lock,
    /// Asks a peer over a blocking socket whose answer is there already: returns at once.
    InstantRpc,
    /// Asks a peer that takes its time, over a blocking socket.
    SlowRpc,
    /// Starts a process and waits for its end.
    Spawn,
    /// A poll that doesn't end until it is told to, in the middle of a wait for a condition.
    NeverEnding,
    /// Computes.
    Spin,
    /// Computes while two threads per core compute beside.
    SpinBusy,
    /// Computes under a quota of CPU time that is used up again and again.
    SpinThrottled,
    /// Awaits a timer.
    AwaitedSleep,
    /// Sleeps on a thread of the pool, and awaits it.
    Pooled,
    /// Reads a file by the runtime's own means (`tokio::fs`; a thread in asyncio).
    AwaitedRead,
    /// Asks the slow peer over a socket of the runtime.
    AwaitedRpc,
    /// Computes in Python while another thread of the interpreter computes, too.
    GilWait,
}

/// What a canary has to do with its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Each call puts the thread to sleep, for at least as long as the order says.
    Sleeps(CauseClass),
    /// The call may sleep or not, and never for long enough to be looked at reliably.
    MaySleep(CauseClass),
    /// Nothing here blocks: whoever says so raises a false alarm.
    Clean,
}

/// What must be so around a canary, beside the program that plants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surroundings {
    /// Nothing.
    Any,
    /// Two computing threads per core.
    BusyMachine,
    /// A quota of CPU time, smaller than what it needs.
    CpuQuota,
}

/// All of them, in the order in which they are shown.
pub(crate) const ALL: [Canary; 18] = [
    Canary::Sleep,
    Canary::CachedRead,
    Canary::UncachedRead,
    Canary::Fsync,
    Canary::Dns,
    Canary::Lock,
    Canary::InstantRpc,
    Canary::SlowRpc,
    Canary::Spawn,
    Canary::NeverEnding,
    Canary::Spin,
    Canary::SpinBusy,
    Canary::SpinThrottled,
    Canary::AwaitedSleep,
    Canary::Pooled,
    Canary::AwaitedRead,
    Canary::AwaitedRpc,
    Canary::GilWait,
];

impl Canary {
    /// As on the command line, in the tables and in the routes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::CachedRead => "cached-read",
            Self::UncachedRead => "uncached-read",
            Self::Fsync => "fsync",
            Self::Dns => "dns",
            Self::Lock => "lock",
            Self::InstantRpc => "instant-rpc",
            Self::SlowRpc => "slow-rpc",
            Self::Spawn => "spawn",
            Self::NeverEnding => "never-ending",
            Self::Spin => "spin",
            Self::SpinBusy => "spin-busy",
            Self::SpinThrottled => "spin-throttled",
            Self::AwaitedSleep => "awaited-sleep",
            Self::Pooled => "pooled",
            Self::AwaitedRead => "awaited-read",
            Self::AwaitedRpc => "awaited-rpc",
            Self::GilWait => "gil-wait",
        }
    }

    /// The function that makes the call, in both languages; it must be in a named stack.
    pub(crate) fn function(self) -> String {
        match self {
            Self::SpinBusy | Self::SpinThrottled | Self::GilWait => Self::Spin.function(),
            other => other.name().replace('-', "_"),
        }
    }

    /// The key of its counters.
    pub(crate) fn endpoint(self) -> String {
        format!("GET /{}", self.name())
    }

    /// What it has to do with its loop.
    pub(crate) fn nature(self) -> Nature {
        use CauseClass::{Io, Lock, Sleep, Spawn};
        match self {
            Self::Sleep => Nature::Sleeps(Sleep),
            Self::Lock | Self::NeverEnding => Nature::Sleeps(Lock),
            Self::SlowRpc => Nature::Sleeps(Io),
            Self::Spawn => Nature::Sleeps(Spawn),
            Self::CachedRead | Self::UncachedRead | Self::Fsync | Self::Dns | Self::InstantRpc => {
                Nature::MaySleep(Io)
            }
            Self::Spin
            | Self::SpinBusy
            | Self::SpinThrottled
            | Self::AwaitedSleep
            | Self::Pooled
            | Self::AwaitedRead
            | Self::AwaitedRpc
            | Self::GilWait => Nature::Clean,
        }
    }

    /// What must be so around it.
    pub(crate) fn surroundings(self) -> Surroundings {
        match self {
            Self::SpinBusy => Surroundings::BusyMachine,
            Self::SpinThrottled => Surroundings::CpuQuota,
            _ => Surroundings::Any,
        }
    }

    /// Whether it lasts for as long as its order says and may therefore be made rarely.
    pub(crate) fn is_long(self) -> bool {
        matches!(
            self,
            Self::Spin | Self::SpinBusy | Self::SpinThrottled | Self::GilWait
        )
    }
}

impl FromStr for Canary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = ALL.into_iter().find(|canary| canary.name() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = ALL.iter().map(|canary| canary.name()).collect();
            format!(
                "there is no canary `{text}`; there are {}",
                names.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_with_the_wire_and_read_back() {
        for canary in ALL {
            assert_eq!(canary.name().parse(), Ok(canary));
            let wire = serde_json::to_value(canary).expect("a name");
            assert_eq!(wire, canary.name());
        }
        let error = "slep".parse::<Canary>().expect_err("no canary");
        assert!(error.contains("slep") && error.contains("sleep"), "{error}");
    }

    #[test]
    fn some_block_and_some_do_not() {
        let clean = ALL.iter().filter(|canary| canary.nature() == Nature::Clean);
        assert_eq!(clean.count(), 8);
        for canary in ALL {
            if let Nature::Sleeps(class) | Nature::MaySleep(class) = canary.nature() {
                assert!(class.is_blocking(), "{canary:?}");
            }
        }
    }
}
