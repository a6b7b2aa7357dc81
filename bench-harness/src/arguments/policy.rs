//! The policy of a command line, read and held against what it is to judge.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;

use unstall_bench_harness::command_line::shell_path;

/// How it is judged.
#[derive(Debug, Default, Args)]
pub(crate) struct PolicyArguments {
    /// Margins, limits and objectives, TOML: see docs/policy.md
    #[arg(long = "policy", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

impl PolicyArguments {
    /// The file's policy, or the defaults without one.
    ///
    /// # Errors
    /// When it can't be read, or says something that it can't mean.
    pub(crate) fn read(&self) -> anyhow::Result<Policy> {
        let Some(path) = &self.file else {
            return Ok(Policy::default());
        };
        let text = fs::read_to_string(path).with_context(|| {
            format!(
                "the policy {} can't be read; name a TOML file with --policy",
                path.display()
            )
        })?;
        Ok(Policy::parse(&text, path)?)
    }

    /// The same for these records.
    ///
    /// # Errors
    /// As for [`Self::read`], and when something in it matches nothing in them.
    pub(crate) fn read_for(&self, records: &[RunRecord]) -> anyhow::Result<Policy> {
        let policy = self.read()?;
        policy.check(&records.iter().collect::<Vec<_>>())?;
        Ok(policy)
    }

    /// As it stands in a command line.
    pub(crate) fn words(&self) -> String {
        self.file.as_ref().map_or_else(String::new, |path| {
            format!(" --policy {}", shell_path(path))
        })
    }
}
