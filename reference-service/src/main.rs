//! `unstall-reference`: the reference service as a program.

mod arguments;
mod task;

use std::process::ExitCode;

/// Failed for a reason outside the command line; clap itself ends with 2 for mistakes in it.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    match arguments::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("unstall-reference: {error}");
            ExitCode::from(FAILED)
        }
    }
}
