//! Starts the programs, service and worker, on private servers, and ends them.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use unstall_loop_monitor::certificate::PROVE_VARIABLE;
use unstall_testbed::{Options, Testbed};

use super::python_service;

const TEMPLATE: &str = "reference_template";

/// A testbed whose template is migrated and whose Redis is seeded.
pub(crate) fn seeded_testbed() -> Testbed {
    let testbed = Testbed::start(&Options::default()).expect("private servers start");
    testbed
        .create_template(TEMPLATE, |url| {
            succeed(&["migrate", "--database-url", url]);
            succeed(&["seed", "--database-url", url]);
            Ok(())
        })
        .expect("the template is made");
    succeed(&["seed", "--redis-url", &testbed.redis_url()]);
    testbed
}

/// One for all tests that leave Redis as it is. Its guard ends it with this process.
pub(crate) fn shared_testbed() -> &'static Testbed {
    static SHARED: OnceLock<Testbed> = OnceLock::new();
    SHARED.get_or_init(seeded_testbed)
}

/// A database nobody else uses, as seeded.
pub(crate) fn fresh_database(testbed: &Testbed) -> (String, String) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("reference_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let url = reset_database(testbed, &name);
    (name, url)
}

/// Makes a database as seeded again.
pub(crate) fn reset_database(testbed: &Testbed, name: &str) -> String {
    testbed
        .reset_database(TEMPLATE, name)
        .expect("the database is cloned")
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    program()
        .args(arguments)
        .output()
        .expect("the program starts")
}

pub(crate) fn succeed(arguments: &[&str]) {
    let output = run(arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The program, without the environment's servers.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstall-reference"));
    for variable in [
        "DATABASE_URL",
        "REDIS_URL",
        "UNSTALL_PORT",
        "NOTIFY_URL",
        "IDENTITY_URL",
        "TRACKER_URL",
        "MAIL_URL",
        "ANALYTICS_URL",
        "HUB_URL",
        "ADMIN_KEY",
    ] {
        command.env_remove(variable);
    }
    command
}

/// A running program; killed when dropped.
pub(crate) struct Running {
    child: Child,
    /// What it logs once it is ready.
    log: Option<JoinHandle<String>>,
}

impl Running {
    /// Our program; otherwise as `start_command`.
    fn start(arguments: &[&str], ready: &str) -> (Self, String) {
        Self::start_program(program(), arguments, ready)
    }

    fn start_program(mut command: Command, arguments: &[&str], ready: &str) -> (Self, String) {
        command
            .args(arguments)
            .env("RUST_LOG", "unstall_reference_service=info");
        Self::start_command(command, ready)
    }

    /// Starts it, waits until its log has a line with `ready`, and gives the line's rest.
    fn start_command(mut command: Command, ready: &str) -> (Self, String) {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut log = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let mut seen = String::new();
        let rest = loop {
            let from = seen.len();
            let read = log.read_line(&mut seen).expect("the log is text");
            assert!(read > 0, "the program ended before it was ready:\n{seen}");
            if let Some((_, rest)) = seen[from..].trim_end().split_once(ready) {
                break rest.to_owned();
            }
        };
        // Read on, so that the program never waits for us to.
        let log = thread::spawn(move || {
            let mut rest = Vec::new();
            let _ended_with_the_program = log.read_to_end(&mut rest);
            String::from_utf8_lossy(&rest).into_owned()
        });
        let log = Some(log);
        (Self { child, log }, rest)
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("it is our child");
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it is our child")
    }

    /// What it has logged since it was ready, after its end.
    pub(crate) fn log(&mut self) -> String {
        let log = self.log.take().expect("it is asked once");
        log.join().expect("no panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Either may fail because it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running worker.
pub(crate) fn start_worker(database_url: &str, redis_url: &str, options: &[&str]) -> Running {
    let mut arguments = vec![
        "worker",
        "--database-url",
        database_url,
        "--redis-url",
        redis_url,
    ];
    arguments.extend(options);
    Running::start(&arguments, "taking runs").0
}

/// A running service.
pub(crate) struct Service {
    pub(crate) program: Running,
    pub(crate) address: SocketAddr,
}

impl Service {
    /// Starts a state on a free port and waits until it listens: the program with these steps,
    /// maybe under proof, or one of the example's versions.
    pub(crate) fn start(state: &str, database_url: &str, redis_url: &str) -> Self {
        Self::start_state_with(state, database_url, redis_url, &[])
    }

    /// With more options, which an example's version doesn't have.
    pub(crate) fn start_state_with(
        state: &str,
        database_url: &str,
        redis_url: &str,
        options: &[&str],
    ) -> Self {
        if let Some(python) = python_service::of_state(state, database_url, redis_url) {
            let (program, rest) = Running::start_command(python, "Uvicorn running on http://");
            let address = rest.split(' ').next().expect("the line goes on");
            return Self {
                program,
                address: address.parse().expect("an address"),
            };
        }
        let mut command = program();
        let steps = match state.strip_suffix(" under proof") {
            Some(steps) => {
                command.env(PROVE_VARIABLE, "1");
                steps
            }
            None => state,
        };
        let mut arguments = vec!["--steps", steps];
        arguments.extend(["--database-url", database_url, "--redis-url", redis_url]);
        arguments.extend(options);
        Self::of_program(command, &arguments)
    }

    /// The program, with any options.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        Self::of_program(program(), options)
    }

    fn of_program(command: Command, options: &[&str]) -> Self {
        let mut arguments = vec!["--port", "0"];
        arguments.extend(options);
        let (program, address) = Running::start_program(command, &arguments, "listening on ");
        Self {
            program,
            address: address.parse().expect("an address"),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn terminate(&self) {
        self.program.signal(Signal::SIGTERM);
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.program.wait()
    }
}
