//! Why a process can't be watched, and what to do about it.

use crate::process::ProcessError;

/// Why a process can't be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// It doesn't run, may not be read, or is of another architecture.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No thread of it behaved like an event loop.
    #[error(
        "no event loop was seen in process {pid} ({command}) in {seconds} s: of its {threads} \
         threads none waited for events (epoll_wait, io_uring_enter) or ran a loop of asyncio, \
         uvloop, Node or Tokio; give the pid of the worker that serves requests (a supervisor \
         like `uvicorn --workers` or `gunicorn` only waits for its children{children})"
    )]
    NoLoop {
        /// The process.
        pid: u32,
        /// Its command line.
        command: String,
        /// How long it was looked at.
        seconds: u64,
        /// How many threads it has.
        threads: usize,
        /// `: 12, 13`, or nothing.
        children: String,
    },
    /// What was found out about it is of no use any more.
    #[error("process {pid} runs another program now; watch it again")]
    OtherProgram {
        /// The process.
        pid: u32,
    },
    /// It was told to stop before a loop was found.
    #[error("stopped before an event loop was found in process {pid}")]
    Stopped {
        /// The process.
        pid: u32,
    },
    /// A process that watches itself would wait for itself.
    #[error("process {pid} is this program itself; give the pid of the service to watch")]
    Itself {
        /// The process.
        pid: u32,
    },
}

impl WatchError {
    /// Whether the process could be read, and none of its threads is an event loop's: a
    /// supervisor, for example.
    #[must_use]
    pub fn is_no_loop(&self) -> bool {
        matches!(self, Self::NoLoop { .. })
    }
}
