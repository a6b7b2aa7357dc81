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
mod environment;
mod evicting;
mod failure;
mod ground;
mod idle_runtimes;
mod listing;
mod root_lock;
mod running;
mod signals;
mod workshop;

use arguments::{Arguments, Task};
use document::{Content, Document};
use failure::Failure;
use ground::Ground;
use signals::Signals;

/// Threads for what blocks: git's starts, the disk and files, of one command.
const BLOCKING_THREADS: usize = 8;

/// What a command hands back: never printed before it is complete.
#[derive(Debug, Default)]
struct Outcome {
    /// For people, ending in a newline.
    text: String,
    /// What a command that was run complained of: for people on stderr.
    complaint: String,
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
    let name = arguments.task.name();
    let done = log().and_then(|()| act(&arguments));
    say(name, wants_json, done)
}

/// Logs to stderr what `RUST_LOG` asks for, and errors if it asks for nothing.
fn log() -> Result<(), Failure> {
    let wanted = environment::text("RUST_LOG")?;
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or("error"));
    let filter = filter.map_err(|error| {
        Failure::Usage(format!(
            "RUST_LOG can't be understood: {error}; set it to a level, such as warn, or unset it"
        ))
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    Ok(())
}

fn act(arguments: &Arguments) -> Result<Outcome, Failure> {
    let pool = BlockingPool::new(BLOCKING_THREADS)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(Failure::Runtime)?;
        let ground = Ground::new(pool);
        let done = tokio::select! {
            done = carry_out(arguments, &ground) => done,
            signal = signals.next() => Err(Failure::Stopped(signal)),
        };
        let is_stopped = matches!(done, Err(Failure::Stopped(_)));
        let closed = tokio::select! {
            closed = ground.close(is_stopped) => closed,
            // Whoever asks twice doesn't want to wait; the next command mends what is left.
            signal = signals.next() => Err(Failure::Stopped(signal)),
        };
        match (done, closed) {
            (Ok(outcome), closed) => closed.map(|()| outcome),
            (Err(failure), Ok(())) => Err(failure),
            (Err(failure), Err(error)) => {
                tracing::error!(%error, "what was begun couldn't be cleared away");
                Err(failure)
            }
        }
    })
}

async fn carry_out(arguments: &Arguments, ground: &Ground) -> Result<Outcome, Failure> {
    let place = &arguments.place;
    match &arguments.task {
        Task::Acquire(task) => acquiring::acquire(place, task, ground).await,
        Task::Exec(task) => running::exec(place, task, ground).await,
        Task::Ls => listing::list(place, ground).await,
        Task::Diff(task) => changing::diff(place, task, ground).await,
        Task::Commit(task) => changing::commit(place, task, ground).await,
        Task::Evict(task) => evicting::evict(place, task, ground).await,
        Task::Doctor => doctor::look(place, ground).await,
    }
}

fn say(name: &str, wants_json: bool, done: Result<Outcome, Failure>) -> ExitCode {
    let (code, text, complaint, document) = match done {
        Ok(outcome) => {
            let code = u8::from(outcome.is_bad);
            let document = Document::of(name, code, outcome.content);
            (code, outcome.text, outcome.complaint, document)
        }
        Err(failure) => {
            let code = failure.exit_code();
            let complaint = format!("unstall-sandbox: {failure}\n");
            let document = Document::of_failure(name, code, &failure);
            (code, String::new(), complaint, document)
        }
    };
    let said = if wants_json {
        document.write(&mut io::stdout().lock())
    } else {
        let said = io::stdout().lock().write_all(text.as_bytes());
        said.and_then(|()| io::stderr().lock().write_all(complaint.as_bytes()))
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
