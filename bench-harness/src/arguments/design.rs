//! How two versions are compared: pairs, load and how long, for the commands that interleave them.

use std::time::Duration;

use clap::Args;

use super::{OpenArguments, duration};

/// The design of a comparison.
#[derive(Debug, Clone, Args)]
pub(crate) struct DesignArguments {
    /// Pairs of blocks, one block of each version in a pair
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) pairs: u32,
    /// Instead of pairs: judge after each of these numbers of pairs, for example 10,16,24, and end
    /// at the first that settles it; all looks together are wrong as seldom as one
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        conflicts_with = "pairs"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) looks: Vec<u32>,
    /// Users at once [default: 20]; several levels multiply the blocks
    #[arg(short = 'c', long, value_name = "N,…", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: Vec<u32>,
    /// Requests per endpoint and block [default: the scenario's, or 400]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) requests: Option<u64>,
    #[command(flatten)]
    pub(crate) open: OpenArguments,
    /// Of an open load: how long arrivals come in each block [default: 400 of them, at least 10s]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "rate")]
    pub(crate) duration: Option<Duration>,
}
