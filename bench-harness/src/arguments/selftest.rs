//! The command line of the self-test.

use clap::Args;

use crate::selftest::canary::Canary;
use crate::selftest::host::HostMonitor;

/// `unstall selftest`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  unstall selftest monitor\n  \
                        unstall selftest monitor --only sleep --only dns --tiers 1,3\n\n\
                        Exit codes: 0 all bars are met, 1 one isn't, 2 nothing could be tested. \
                        What isn't available on this machine is listed with the reason.")]
pub(crate) struct SelftestArguments {
    /// What to test: `monitor`
    #[arg(value_name = "SUBJECT", value_parser = selftest_subject)]
    pub(crate) subject: SelftestSubject,
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
    /// How the program with the canaries is monitored; for `canaries` only
    #[arg(long, hide = true, value_enum, default_value_t = HostMonitor::Counters)]
    pub(crate) host: HostMonitor,
}

/// What `selftest` tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelftestSubject {
    /// The loop monitor.
    Monitor,
    /// Nothing: the role of the program with the canaries, which takes its orders on stdin.
    Canaries,
}

fn selftest_subject(text: &str) -> Result<SelftestSubject, String> {
    match text {
        "monitor" => Ok(SelftestSubject::Monitor),
        "canaries" => Ok(SelftestSubject::Canaries),
        "http" | "gate" => Err(format!(
            "there is no self-test of `{text}` yet; there is one of the loop monitor: \
             unstall selftest monitor"
        )),
        _ => Err("what can be tested is `monitor`".to_owned()),
    }
}
