//! The command `unstall-sandbox`. So far it has the mode alone by which runtimes start it inside.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    if env::args_os()
        .nth(1)
        .is_some_and(|mode| mode == "supervise")
    {
        return unstall_sandbox_core::runtime::supervise();
    }
    let said = writeln!(io::stderr(), "usage: unstall-sandbox supervise");
    drop(said); // nobody reads it
    ExitCode::from(2)
}
