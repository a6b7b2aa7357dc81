//! The command: parse, open what it needs, act, say, and end with the product's exit codes.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;
use unstall_sandbox_core::blocking_pool::BlockingPool;

mod access;
mod acquiring;
mod arguments;
mod changing;
mod doctor;
mod document;
mod evicting;
mod failure;
mod idle_runtimes;
mod listing;
mod root_lock;
mod running;
mod workshop;

use arguments::{Arguments, Task};
use document::{Content, Document};
use failure::Failure;

/// Threads for what blocks: git's starts, the disk and files, of one command.
const BLOCKING_THREADS: usize = 8;

/// What a command hands back: never printed before it is complete.
#[derive(Debug, Default)]
struct Outcome {
    /// For people, ending in a newline.
    text: String,
    /// The same for programs.
    content: Content,
    /// Did what was asked for turn out badly: a command that failed, a finding of the doctor?
    is_bad: bool,
}

/// Runs the command line to its end.
pub(crate) fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        // Nothing is known of it but its words, of which those behind `--` are another command's.
        Err(refusal) => {
            let mut own = words.iter().take_while(|word| *word != "--");
            return say_refusal(&refusal, own.any(|word| word == "--json"));
        }
    };
    let wants_json = arguments.place.json;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    let name = arguments.task.name();
    let done = act(&arguments);
    say(name, wants_json, done)
}

fn act(arguments: &Arguments) -> Result<Outcome, Failure> {
    let pool = BlockingPool::new(BLOCKING_THREADS)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    let place = &arguments.place;
    runtime.block_on(async {
        match &arguments.task {
            Task::Acquire(task) => acquiring::acquire(place, task, pool).await,
            Task::Exec(task) => running::exec(place, task, pool).await,
            Task::Ls => listing::list(place, pool).await,
            Task::Diff(task) => changing::diff(place, task, pool).await,
            Task::Commit(task) => changing::commit(place, task, pool).await,
            Task::Evict(task) => evicting::evict(place, task, pool).await,
            Task::Doctor => doctor::look(place, pool).await,
        }
    })
}

fn say(name: &str, wants_json: bool, done: Result<Outcome, Failure>) -> ExitCode {
    let (code, text, document) = match done {
        Ok(outcome) => {
            let code = u8::from(outcome.is_bad);
            let document = Document::of(name, code, outcome.content);
            (code, outcome.text, document)
        }
        Err(failure) => {
            let text = format!("unstall-sandbox: {failure}\n");
            let document = Document::of_failure(name, failure::EXIT_CODE, &failure);
            (failure::EXIT_CODE, text, document)
        }
    };
    let said = if wants_json {
        document.write(&mut io::stdout().lock())
    } else if code == failure::EXIT_CODE {
        io::stderr().lock().write_all(text.as_bytes())
    } else {
        io::stdout().lock().write_all(text.as_bytes())
    };
    match said {
        Ok(()) => ExitCode::from(code),
        // Whoever closed the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(code),
        Err(_) => ExitCode::from(failure::EXIT_CODE),
    }
}

/// Help and version are answers, everything else is a mistake in the command line.
fn say_refusal(refusal: &clap::Error, wants_json: bool) -> ExitCode {
    let is_answer = matches!(
        refusal.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let code = if is_answer { 0 } else { failure::EXIT_CODE };
    let said = if wants_json && !is_answer {
        let failure = Failure::Usage(refusal.render().to_string());
        let document = Document::of_failure("", code, &failure);
        document.write(&mut io::stdout().lock())
    } else {
        refusal.print()
    };
    // Where nothing can be said, the exit code is all there is.
    drop(said);
    ExitCode::from(code)
}
