//! The command line of the self-tests.

use clap::{Args, Subcommand};

use crate::known_change::case;
use crate::selftest::canary::Canary;
use crate::selftest::host::HostMonitor;
use crate::torture;

/// The role of the private service of `selftest gate`.
pub(crate) const KNOWN_CHANGE_ROLE: &str = "known-change";

/// `unstall selftest …`
#[derive(Debug, Subcommand)]
pub(crate) enum SelftestCommand {
    /// Plant what blocks and what doesn't, and check that the loop monitor tells them apart here
    Monitor(MonitorArguments),
    /// Hold the load engine against services that do everything wrong, with the exact counts that
    /// have to come of it
    Http(HttpArguments),
    /// Hold the gate against versions with a known difference: none must not alarm, and one that is
    /// large enough must
    Gate(GateTestArguments),
    /// The role of the program with the canaries, which takes its orders on stdin
    #[command(
        hide = true,
        after_help = "Example: unstall selftest monitor starts it"
    )]
    Canaries {
        /// How it is monitored
        #[arg(long, value_enum, default_value_t = HostMonitor::Counters)]
        host: HostMonitor,
    },
    /// The role of a case that needs a process of its own
    #[command(name = torture::ROLE, hide = true)]
    #[command(after_help = "Example: unstall selftest http starts it")]
    HttpAlone {
        /// The case
        name: String,
    },
    /// The role of the service that does what it is told
    #[command(name = KNOWN_CHANGE_ROLE, hide = true)]
    #[command(after_help = "Example: unstall selftest gate starts it")]
    KnownChange(KnownChangeService),
}

impl SelftestCommand {
    /// The name that the JSON document carries.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Monitor(_) | Self::Canaries { .. } => "selftest monitor",
            Self::Http(_) | Self::HttpAlone { .. } => "selftest http",
            Self::Gate(_) | Self::KnownChange(_) => "selftest gate",
        }
    }
}

/// `unstall selftest monitor`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  unstall selftest monitor\n  \
                        unstall selftest monitor --only sleep --only dns --tiers 1,3\n\n\
                        Exit codes: 0 all bars are met, 1 one isn't, 2 nothing could be tested. \
                        What isn't available on this machine is listed with the reason.")]
pub(crate) struct MonitorArguments {
    /// One canary only; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<Canary>,
    /// Tiers of the monitor: 1 counters, 2 watcher, 3 proof
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,2,3"
    )]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=3))]
    pub(crate) tiers: Vec<u8>,
    /// Calls per canary; those that take long are made less often
    #[arg(long, value_name = "N", default_value_t = 400)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) count: u64,
    /// The interpreter for the canaries in Python; it must have the package `unstall`
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub(crate) python: String,
}

/// `unstall selftest http`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  unstall selftest http\n  \
                        unstall selftest http --only obs-fold --only descriptors\n\n\
                        Exit codes: 0 all cases are as they have to be, 1 one isn't, 2 nothing \
                        could be tested, 4 one took longer than it should, as on a busy machine. \
                        What can't be tried on this machine is listed with the reason.")]
pub(crate) struct HttpArguments {
    /// One case only, by its name in the table; may be repeated
    #[arg(long, value_name = "NAME", value_parser = torture::check_name)]
    pub(crate) only: Vec<String>,
}

/// `unstall selftest gate`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  unstall selftest gate\n  \
                        unstall selftest gate --only identical --only slower-20 --pairs 7\n\n\
                        Exit codes: 0 the gate says what it has to, 1 it says what it must not, 2 \
                        nothing could be tested, 4 noise hides a change on this machine. Takes \
                        about two minutes.")]
pub(crate) struct GateTestArguments {
    /// One case only, by its name in the table; may be repeated
    #[arg(long, value_name = "NAME", value_parser = case::check_name)]
    pub(crate) only: Vec<String>,
    /// Pairs of blocks where a clock decides
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) pairs: u32,
    /// Seed of the order of blocks; another one each time by default
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// What the private service does.
#[derive(Debug, Args)]
pub(crate) struct KnownChangeService {
    /// Where it listens, on loopback
    #[arg(long, value_name = "PORT")]
    pub(crate) port: u16,
    /// Sleeps on the event loop in every request
    #[arg(long, value_name = "US", default_value_t = 0)]
    pub(crate) block_us: u64,
    /// Fails every so-manieth request; 0 for none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) fail_every: u64,
    /// Threads that do nothing
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) threads: u32,
}
