//! The commands, one file each; this file only chooses.

use crate::arguments::Command;
use crate::console::{Console, Outcome};

mod ab;
mod baseline_gate;
mod calibrate;
mod capacity;
mod compare;
mod demo;
mod gate;
mod migration_step;
mod prove;
mod prove_process;
mod replay;
mod report;
mod results;
mod run;
mod scenarios;
mod selftest;
mod watch;

/// Does what the command line asks for.
pub(crate) fn execute(command: Command, console: &Console) -> anyhow::Result<Outcome> {
    match command {
        Command::Demo(arguments) => demo::execute(&arguments, console),
        Command::Replay(arguments) => replay::execute(&arguments, console),
        Command::Run(arguments) => run::execute(&arguments, console),
        Command::Ab(arguments) => ab::execute(&arguments, console),
        Command::Calibrate(arguments) => calibrate::execute(arguments, console),
        Command::Capacity(arguments) => capacity::execute(arguments, console),
        Command::Prove(arguments) => prove::execute(&arguments, console),
        Command::Compare(arguments) => compare::execute(&arguments, console),
        Command::Gate(arguments) => gate::execute(&arguments, console),
        Command::Report(arguments) => report::execute(&arguments, console),
        Command::Selftest(command) => selftest::execute(&command, console),
        Command::Watch(arguments) => watch::execute(&arguments, console),
        Command::Scenarios(command) => scenarios::execute(command),
        Command::Results(command) => results::execute(command, console),
    }
}
