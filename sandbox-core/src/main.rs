//! `unstall-sandbox`: the sandbox core for people, and the first process inside of each runtime.

use std::process::ExitCode;

mod command;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|mode| mode == "supervise")
    {
        // Inside of a runtime, before there is any other thread.
        return unstall_sandbox_core::runtime::supervise();
    }
    command::run(std::env::args_os())
}
