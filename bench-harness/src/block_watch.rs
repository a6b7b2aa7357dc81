//! Watches the service's event loops from outside while a block is measured.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use unstall_loop_monitor::outside::{Watch, WatchError, WatchOptions, listeners};
use unstall_loop_monitor::watched::{SleepSource, WatchSummary, WatchedCause};
use unstall_results::record::{self, WATCHED_CAUSES_MAX, Watched};

use crate::engine::Target;

/// More processes behind one port are one too many to follow on the same machine.
const PROCESSES_MAX: usize = 16;
const FAILED: &str = "The watch of one process of the service failed (see stderr).";
/// Nobody looks at the view meanwhile.
const NEVER: Duration = Duration::from_secs(86_400);

/// Why the service isn't watched.
#[derive(Debug, thiserror::Error)]
pub enum BlockWatchError {
    /// It runs on another machine, or behind a name.
    #[error(
        "{0} is no address of this machine, so the process behind it can't be watched: run \
         unstall on the service's machine and give its loopback address, or leave out --watch"
    )]
    NotHere(String),
    /// No address, but a file.
    #[error(
        "the process behind {0} is not looked up: name it to `unstall watch --pid`, or leave out \
         --watch"
    )]
    Socket(String),
    /// Nobody listens.
    #[error(
        "no process that listens on {0} was found: it has ended, or its processes may not be \
         read (run as the same user, or as root)"
    )]
    NoListener(SocketAddr),
    /// The kernel's tables can't be read, or none of those that listen has a loop that could be
    /// watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// No thread for it.
    #[error("no thread to watch from could be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// Watches one block. Dropped early, it ends its watches by itself.
#[derive(Debug)]
pub struct BlockWatch {
    watches: Vec<ProcessWatch>,
    /// Which processes aren't in the sums, in sentences.
    unwatched: Vec<String>,
    is_over: Arc<AtomicBool>,
}

#[derive(Debug)]
struct ProcessWatch {
    begin: Sender<()>,
    thread: JoinHandle<Option<WatchSummary>>,
}

impl BlockWatch {
    /// Finds the processes that answer at the target, and their loops.
    ///
    /// # Errors
    /// When there is none that can be watched.
    pub fn attach(target: &Target) -> Result<Self, BlockWatchError> {
        let address = local_address(target)?;
        let processes = listeners(address)?;
        if processes.is_empty() {
            return Err(BlockWatchError::NoListener(address));
        }
        let mut unwatched = Vec::new();
        if processes.len() > PROCESSES_MAX {
            unwatched.push(format!(
                "{} processes listen on {address}, of which {PROCESSES_MAX} were watched.",
                processes.len()
            ));
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let mut started = Vec::new();
        for pid in processes.into_iter().take(PROCESSES_MAX) {
            started.push(start(pid, &is_over)?);
        }
        // A supervisor that shares the socket has no loop; what counts is that one has.
        let (mut watches, mut refusal) = (Vec::new(), None);
        for (watch, attached) in started {
            match attached.recv() {
                Ok(Ok(())) => watches.push(watch),
                Ok(Err(error)) => {
                    if !error.is_no_loop() {
                        unwatched
                            .push(format!("A process of the service wasn't watched: {error}."));
                    }
                    refusal = refusal.or(Some(error));
                }
                // It panicked.
                Err(_) => unwatched.push(FAILED.to_owned()),
            }
        }
        match refusal {
            Some(error) if watches.is_empty() => Err(error.into()),
            _ => Ok(Self {
                watches,
                unwatched,
                is_over,
            }),
        }
    }

    /// What came before doesn't count.
    pub fn begin(&self) {
        for watch in &self.watches {
            // One that has ended meanwhile says so in its summary.
            let _ = watch.begin.send(());
        }
    }

    /// What was seen since the begin; `None` when no watch lived to tell.
    #[must_use]
    pub fn end(mut self) -> Option<Watched> {
        self.is_over.store(true, Relaxed);
        let mut summaries = Vec::new();
        for watch in std::mem::take(&mut self.watches) {
            match watch.thread.join() {
                Ok(summary) => summaries.extend(summary),
                Err(_) => self.unwatched.push(FAILED.to_owned()),
            }
        }
        let mut watched = (!summaries.is_empty()).then(|| for_the_record(&summaries))?;
        watched.notes.append(&mut self.unwatched);
        Some(watched)
    }
}

impl Drop for BlockWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

fn local_address(target: &Target) -> Result<SocketAddr, BlockWatchError> {
    let Some(port) = target.port() else {
        return Err(BlockWatchError::Socket(target.to_string()));
    };
    let address = match target.literal_address() {
        Some(address) => address,
        None if target.host().eq_ignore_ascii_case("localhost") => {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
        }
        None => return Err(BlockWatchError::NotHere(target.host().to_owned())),
    };
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(BlockWatchError::NotHere(address.to_string()))
    }
}

type Attached = Receiver<Result<(), WatchError>>;

fn start(pid: u32, is_over: &Arc<AtomicBool>) -> std::io::Result<(ProcessWatch, Attached)> {
    let (begin, begun) = mpsc::channel();
    let (tell, attached) = mpsc::channel();
    let is_over = Arc::clone(is_over);
    let thread = std::thread::Builder::new()
        .name("block-watch".to_owned())
        .spawn(move || {
            let stopped = || is_over.load(Relaxed);
            let mut watch = match Watch::attach_unless(pid, &WatchOptions::default(), stopped) {
                Ok(watch) => {
                    // Nobody listens any more if the block was given up.
                    let _ = tell.send(Ok(()));
                    watch
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return None;
                }
            };
            begun.recv().ok()?;
            watch.restart();
            Some(watch.run(stopped, NEVER, |_| {}))
        })?;
    Ok((ProcessWatch { begin, thread }, attached))
}

/// Adds up what was seen of all processes.
fn for_the_record(summaries: &[WatchSummary]) -> Watched {
    let mut watched = Watched::default();
    if let Some(first) = summaries.first() {
        watched.runtime.clone_from(&first.runtime);
    }
    let told = |summary: &WatchSummary| summary.sleeps_by == SleepSource::Switches;
    watched.sleeps_by = match summaries.iter().all(told) {
        true => "switches".to_owned(),
        false => "looks".to_owned(),
    };
    for summary in summaries {
        for seen in &summary.loops {
            watched.loops += 1;
            watched.idle_us += seen.idle_ns / 1_000;
            watched.running_us += seen.running_ns / 1_000;
            watched.runqueue_us += seen.runqueue_ns / 1_000;
            watched.gil_us += seen.gil_ns / 1_000;
            watched.blocked_us += seen.blocked_ns / 1_000;
        }
        for note in &summary.notes {
            if !watched.notes.contains(note) {
                watched.notes.push(note.clone());
            }
        }
    }
    let causes = summaries.iter().flat_map(|seen| &seen.causes);
    // Shorter than the record can tell.
    let causes = causes.filter(|cause| cause.total_ns >= 1_000);
    let mut causes: Vec<&WatchedCause> = causes.collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.total_ns));
    let (kept, rest) = causes.split_at(causes.len().min(WATCHED_CAUSES_MAX));
    watched.causes = kept
        .iter()
        .map(|cause| cause_for_the_record(cause))
        .collect();
    watched.others_us = rest.iter().map(|cause| cause.total_ns / 1_000).sum();
    watched
}

fn cause_for_the_record(seen: &WatchedCause) -> record::WatchedCause {
    let cause = &seen.cause;
    record::WatchedCause {
        class: cause.class.name().to_owned(),
        syscall: cause.syscall.clone(),
        target: cause.target.as_ref().map(ToString::to_string),
        endpoint: cause.endpoint.clone(),
        line: cause.blamed().map(ToString::to_string),
        is_blocking: cause.class.is_blocking(),
        count: seen.count,
        total_us: seen.total_ns / 1_000,
        longest_us: seen.longest_ns / 1_000,
    }
}
