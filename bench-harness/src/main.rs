//! The `unstall` command: parse, act, say, and turn the verdict into an exit code.

use std::process::ExitCode;

mod agent_worker;
mod arguments;
mod before_block;
mod commands;
mod console;
mod document;
mod exit;
mod exports;
mod identity;
mod inputs;
mod interrupt;
mod judgement;
mod known_change;
mod opening;
mod private_servers;
mod progress;
mod proof_text;
mod prover;
mod quiet;
mod record_file;
mod selftest;
mod session;
mod torture;
mod version;

fn main() -> ExitCode {
    let arguments = match arguments::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(refusal) => return refusal.say().into(),
    };
    let console = console::Console::detect(arguments.prints_document());
    let name = arguments.command.name();
    let result = commands::execute(arguments.command, &console);
    console.finish(name, result).into()
}
