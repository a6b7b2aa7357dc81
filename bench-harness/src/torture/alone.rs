//! Cases that change what a whole process sees, each in a process of its own: this program in
//! another role, which tells its checks on stdout.

use std::process::Command;

use super::case::{Tried, Trouble};
use super::limits::{DESCRIPTORS_USED_UP, PROGRAM_MAX, descriptors_used_up, finish};
use super::namespaces;
use crate::console::to_stdout;

/// The role's name on the command line.
pub(crate) const ROLE: &str = "http-alone";

/// Runs a case in a process of its own.
pub(super) fn run(name: &'static str) -> Tried {
    let broken = |why: String| Trouble::Broken(why);
    let program = std::env::current_exe()
        .map_err(|error| broken(format!("this program isn't found: {error}")))?;
    let mut command = Command::new(program);
    command.args(["selftest", ROLE, name]);
    let output = finish(command, PROGRAM_MAX)?;
    serde_json::from_slice::<Tried>(&output.stdout).unwrap_or_else(|error| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(broken(format!(
            "the process of its own told nothing ({error}, {}): {said}",
            output.status
        )))
    })
}

/// The other role: tries that case here, before this process has any thread.
///
/// # Errors
/// When the checks can't be written.
pub(crate) fn execute(name: &str) -> anyhow::Result<()> {
    let tried = match name {
        DESCRIPTORS_USED_UP => descriptors_used_up(),
        _ => namespaces::try_here(name),
    };
    let text = serde_json::to_string(&tried)?;
    to_stdout(&format!("{text}\n"))
}
