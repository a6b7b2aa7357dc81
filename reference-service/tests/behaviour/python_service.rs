//! Starts the FastAPI example, so that the tests ask it what they ask the Rust service.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A server of the example on a free port, if the state is one of its versions: `fastapi blocking`
/// or `fastapi asynchronous`.
pub(crate) fn of_state(state: &str, database_url: &str, redis_url: &str) -> Option<Command> {
    let version = state.strip_prefix("fastapi ")?;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("fastapi");
    let mut command = Command::new(interpreter());
    command
        // Nothing is left in the checkout.
        .args(["-B", "-m", "uvicorn", "--app-dir"])
        .arg(example)
        .arg(format!("reference_fastapi.{version}:app"))
        .args(["--host", "127.0.0.1", "--port", "0", "--no-access-log"])
        .env("DATABASE_URL", database_url)
        .env("REDIS_URL", redis_url);
    Some(command)
}

/// A client of one version's store of runs, which sends one command when it is told to.
pub(crate) fn one_command(
    state: &str,
    arguments: &[&str],
    database_url: &str,
    redis_url: &str,
) -> Command {
    let version = state.strip_prefix("fastapi ");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("fastapi/tests/one_command.py");
    let mut command = Command::new(interpreter());
    command
        .arg("-B")
        .arg(program)
        .arg(version.expect("a version of the example"))
        .args(arguments)
        .env("DATABASE_URL", database_url)
        .env("REDIS_URL", redis_url);
    command
}

/// The interpreter of the environment that `./dev` makes beside the build, `target/python`.
fn interpreter() -> PathBuf {
    let test_program = std::env::current_exe().expect("a running program has a path");
    let found = test_program
        .ancestors()
        .map(|folder| folder.join("python/bin/python"))
        .find(|python| python.exists());
    found.expect("there is no Python environment in the target folder; run ./dev setup")
}
