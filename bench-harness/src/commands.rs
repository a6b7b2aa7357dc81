//! The commands, one file each; this file only chooses.

use crate::arguments::Command;
use crate::console::{Console, Outcome};

mod scenarios;

/// Does what the command line asks for.
pub(crate) fn execute(command: Command, console: &Console) -> anyhow::Result<Outcome> {
    match command {
        Command::Scenarios(command) => scenarios::execute(command),
        other => anyhow::bail!("{} is not wired yet", other.name()),
    }
}
