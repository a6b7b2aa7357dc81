//! The self-test's end of a program with canaries: orders in, replies out, each with a deadline.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use unstall_loop_monitor::certificate::Certificate;
use unstall_loop_monitor::wire::Snapshot;

use super::protocol::{Finished, Order, Reply, Run};

/// For a reply that needs no work. Generous: on a busy machine a program starts slowly.
const REPLY_MAX: Duration = Duration::from_secs(30);
/// For a program to end after its last order.
const END_MAX: Duration = Duration::from_secs(5);

/// Why a program with canaries is of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    /// It couldn't be started.
    #[error("`{program}` could not be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It has ended, or closed its streams.
    #[error("the program with the canaries has ended; it wrote: {said}")]
    Ended {
        /// Its last words.
        said: String,
    },
    /// It says nothing.
    #[error("no answer to {what} within {} s", waited.as_secs())]
    Silent {
        /// What was asked for.
        what: &'static str,
        /// For how long.
        waited: Duration,
    },
    /// It says something else.
    #[error("it answered {what} with `{line}`: {source}")]
    Nonsense {
        /// What was asked for.
        what: &'static str,
        /// Its line.
        line: String,
        /// Why that is no reply.
        source: serde_json::Error,
    },
    /// A canary failed by itself.
    #[error("the canary itself failed: {0}")]
    Canary(String),
}

/// A program with canaries. It ends with this value.
#[derive(Debug)]
pub(super) struct CanaryProgram {
    child: Child,
    /// Taken to let the program end.
    orders: Option<ChildStdin>,
    replies: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
}

impl CanaryProgram {
    /// Starts it and waits until it is ready.
    pub(super) fn start(mut command: Command) -> Result<Self, ChildError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| ChildError::Start { program, source })?;
        let orders = child.stdin.take();
        let (tell, replies) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if tell.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let errors = child.stderr.take().map(|stderr| {
            thread::spawn(move || {
                let mut last = String::new();
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    last.push_str(&line);
                    last.push('\n');
                    let surplus = last.len().saturating_sub(4096);
                    let cut = (surplus..=last.len()).find(|at| last.is_char_boundary(*at));
                    last.drain(..cut.unwrap_or(0));
                }
                last
            })
        });
        let mut started = Self {
            child,
            orders,
            replies,
            errors,
        };
        started.wait_for("its start", REPLY_MAX, |reply| match reply {
            Reply::Ready => Some(()),
            _ => None,
        })?;
        Ok(started)
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Begins a canary's requests.
    pub(super) fn begin(&mut self, run: Run) -> Result<(), ChildError> {
        self.order(&Order::Run(run))
    }

    /// Waits for the end of the requests that were begun.
    pub(super) fn finish(&mut self, patience: Duration) -> Result<Finished, ChildError> {
        let finished = self.wait_for("a canary's run", patience, |reply| match reply {
            Reply::Finished(finished) => Some(finished),
            _ => None,
        })?;
        match finished.error {
            Some(error) => Err(ChildError::Canary(error)),
            None => Ok(finished),
        }
    }

    /// What its monitor knows now.
    pub(super) fn snapshot(&mut self) -> Result<Snapshot, ChildError> {
        self.order(&Order::Snapshot)?;
        self.wait_for("a snapshot", REPLY_MAX, |reply| match reply {
            Reply::Snapshot(snapshot) => Some(*snapshot),
            _ => None,
        })
    }

    /// What its proof knows now.
    pub(super) fn certificate(&mut self) -> Result<Certificate, ChildError> {
        self.order(&Order::Certificate)?;
        self.wait_for("a certificate", REPLY_MAX, |reply| match reply {
            Reply::Certificate(certificate) => Some(*certificate),
            _ => None,
        })
    }

    /// Lets the never-ending poll end.
    pub(super) fn release(&mut self) -> Result<(), ChildError> {
        self.order(&Order::Release)
    }

    fn order(&mut self, order: &Order) -> Result<(), ChildError> {
        let line = serde_json::to_string(order).map_err(|source| ChildError::Nonsense {
            what: "an order",
            line: format!("{order:?}"),
            source,
        })?;
        let sent = self
            .orders
            .as_mut()
            .map(|orders| writeln!(orders, "{line}"));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.last_words()),
        }
    }

    /// The next reply of a kind; others before it are what nobody waits for any more.
    fn wait_for<T>(
        &mut self,
        what: &'static str,
        patience: Duration,
        mut kind: impl FnMut(Reply) -> Option<T>,
    ) -> Result<T, ChildError> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = match self.replies.recv_timeout(left) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return Err(self.last_words()),
                Err(RecvTimeoutError::Timeout) => {
                    let waited = patience;
                    return Err(ChildError::Silent { what, waited });
                }
            };
            match serde_json::from_str(&line) {
                Ok(reply) => {
                    if let Some(wanted) = kind(reply) {
                        return Ok(wanted);
                    }
                }
                Err(source) => return Err(ChildError::Nonsense { what, line, source }),
            }
        }
    }

    /// What it wrote on stderr, once it is over.
    fn last_words(&mut self) -> ChildError {
        self.end();
        let said = self.errors.take().and_then(|errors| errors.join().ok());
        let said = said.map(|said| said.trim().to_owned());
        ChildError::Ended {
            said: said.unwrap_or_else(|| "nothing".to_owned()),
        }
    }

    /// No more orders; who doesn't end then is killed.
    fn end(&mut self) {
        self.orders = None;
        let deadline = Instant::now() + END_MAX;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                // It may have ended just now, which is as good.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for CanaryProgram {
    fn drop(&mut self) {
        self.end();
    }
}
