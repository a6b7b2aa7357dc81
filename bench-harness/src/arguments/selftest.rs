//! The command line of the self-tests.

use clap::{Args, Subcommand};

use crate::selftest::canary::Canary;
use crate::selftest::host::HostMonitor;
use crate::torture;

/// `unstall selftest …`
#[derive(Debug, Subcommand)]
pub(crate) enum SelftestCommand {
    /// Plant what blocks and what doesn't, and check that the loop monitor tells them apart here
    Monitor(MonitorArguments),
    /// Hold the load engine against services that do everything wrong, with the exact counts that
    /// have to come of it
    Http(HttpArguments),
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
}

impl SelftestCommand {
    /// The name that the JSON document carries.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Monitor(_) | Self::Canaries { .. } => "selftest monitor",
            Self::Http(_) | Self::HttpAlone { .. } => "selftest http",
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
