//! How each block of two versions begins, for the commands that start them.

use clap::Args;

use super::url_path;

/// How each block begins.
#[derive(Debug, Args)]
pub(crate) struct BlockStartArguments {
    /// A command's service is ready when this path answers 2xx
    #[arg(long, value_name = "PATH", default_value = "/health", value_parser = url_path)]
    pub(crate) ready: String,
    /// Run in a shell before each block, with UNSTALL_ARM and UNSTALL_PAIR set, to restore state
    #[arg(long, value_name = "CMD")]
    pub(crate) before_block: Option<String>,
    /// Seed of arrivals, of the order of blocks and of random values; another one each time by default
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

impl BlockStartArguments {
    /// What state each block starts from, as a record says it.
    pub(crate) fn state_reset(&self) -> String {
        let how = match self.before_block {
            Some(_) => "command",
            None => "none",
        };
        how.to_owned()
    }
}
