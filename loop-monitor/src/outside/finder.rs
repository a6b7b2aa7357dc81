//! Which threads of a process are event loops. Nobody says so: they are known by how they wait,
//! and a loop that never waits by its stack.

use std::collections::HashSet;

use super::judge::{Judge, waits_for_events};
use super::runtime::Runtime;
use crate::process::tokio_place::runs_tasks;
use crate::process::{Activity, Call, ProcessError, ProcessView, Task};

/// Stacks read in one search: a pool may have hundreds of threads, and they don't hurry.
const STACKS_MAX: usize = 64;
/// A main thread of Node that was met elsewhere so often runs its loop and is blocked.
const MET_ELSEWHERE_MAX: u32 = 20;

/// A thread that runs a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) tid: u32,
    /// The descriptor on which it was met waiting.
    pub(super) events: Option<u64>,
}

/// Searches, again and again: loops may start late.
#[derive(Debug, Default)]
pub(super) struct Finder {
    /// Threads whose stack showed no loop.
    others: HashSet<u32>,
    main_met_elsewhere: u32,
    /// Threads of the last search.
    pub(super) threads: usize,
}

impl Finder {
    /// Loops that aren't among `known`.
    pub(super) fn find(
        &mut self,
        view: &ProcessView,
        judge: &mut Judge,
        known: impl Fn(u32) -> bool,
    ) -> Result<Vec<Found>, ProcessError> {
        let tids = view.task_ids()?;
        self.threads = tids.len();
        self.others.retain(|tid| tids.binary_search(tid).is_ok());
        let unknown: Vec<u32> = tids.into_iter().filter(|tid| !known(*tid)).collect();
        let mut waiting = Vec::new();
        for tid in &unknown {
            match events_of(view, *tid) {
                Ok(events) => waiting.push((*tid, events)),
                // Ended between the list and the look.
                Err(ProcessError::TaskEnded { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        match judge.runtime {
            Runtime::Node => Ok(self.of_node(view.pid(), &waiting)),
            Runtime::Asyncio | Runtime::Uvloop => Ok(Self::of_python(judge, &waiting)),
            Runtime::Tokio | Runtime::Unknown => self.of_others(view, judge, &waiting),
        }
    }

    /// Node's loop runs on the main thread; its other threads that wait for events keep time or
    /// look after child processes.
    fn of_node(&mut self, pid: u32, waiting: &[(u32, Option<u64>)]) -> Vec<Found> {
        let main = waiting.iter().find(|(tid, _)| *tid == pid);
        let Some((tid, events)) = main.copied() else {
            return Vec::new();
        };
        self.main_met_elsewhere += u32::from(events.is_none());
        if events.is_none() && self.main_met_elsewhere < MET_ELSEWHERE_MAX {
            return Vec::new();
        }
        vec![Found { tid, events }]
    }

    /// Only the interpreter knows which of its threads run a loop: C libraries wait for events on
    /// threads of theirs, too.
    fn of_python(judge: &mut Judge, waiting: &[(u32, Option<u64>)]) -> Vec<Found> {
        let Some(python) = &mut judge.python else {
            // Without its stacks, whoever waits for events is taken for one.
            let found = waiting.iter().filter(|(_, events)| events.is_some());
            return found
                .map(|(tid, events)| Found {
                    tid: *tid,
                    events: *events,
                })
                .collect();
        };
        if waiting.is_empty() {
            return Vec::new();
        }
        let tids: Vec<u32> = waiting.iter().map(|(tid, _)| *tid).collect();
        let mut found = Vec::new();
        for tid in python.loops(&tids) {
            // Whether it waits for its own events, the first look at it will tell by its stack.
            found.push(Found { tid, events: None });
        }
        found
    }

    fn of_others(
        &mut self,
        view: &ProcessView,
        judge: &mut Judge,
        waiting: &[(u32, Option<u64>)],
    ) -> Result<Vec<Found>, ProcessError> {
        let mut found = Vec::new();
        for (tid, events) in waiting {
            if events.is_some() {
                found.push(Found {
                    tid: *tid,
                    events: *events,
                });
            }
        }
        let mut stacks = 0;
        for (tid, events) in waiting {
            let is_new = !self.others.contains(tid);
            if stacks >= STACKS_MAX || !is_new && events.is_none() {
                continue;
            }
            stacks += 1;
            let frames = match view.task(*tid).and_then(|task| judge.native_frames(&task)) {
                Ok(frames) => frames,
                Err(ProcessError::TaskEnded { .. }) => continue,
                Err(error) => return Err(error),
            };
            if judge.knows_tokio {
                judge.runtime = Runtime::Tokio;
            }
            if frames.is_empty() {
                continue; // It ran: next time.
            }
            if runs_tasks(&frames) && events.is_none() {
                found.push(Found {
                    tid: *tid,
                    events: None,
                });
            }
            self.others.insert(*tid);
        }
        if judge.runtime == Runtime::Unknown && self.has_tokio_names(view, waiting)? {
            judge.runtime = Runtime::Tokio;
        }
        Ok(found)
    }

    /// Tokio's default names of threads, for programs whose symbols were stripped.
    fn has_tokio_names(
        &self,
        view: &ProcessView,
        waiting: &[(u32, Option<u64>)],
    ) -> Result<bool, ProcessError> {
        for (tid, _) in waiting {
            match view.task(*tid).and_then(|task| task.name()) {
                Ok(name) if name.starts_with("tokio-r") => return Ok(true),
                Ok(_) | Err(ProcessError::TaskEnded { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// The descriptor on whose events a thread waits now.
fn events_of(view: &ProcessView, tid: u32) -> Result<Option<u64>, ProcessError> {
    let task: Task = view.task(tid)?;
    Ok(match task.activity()? {
        Activity::Call(call) => Call::of(call.number)
            .filter(|known| waits_for_events(known.name))
            .map(|_| call.arguments[0]),
        Activity::Running | Activity::Fault { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Frame;

    fn stack(functions: &[&str]) -> Vec<Frame> {
        let frame = |function: &&str| Frame {
            function: (*function).to_owned(),
            file: None,
            line: None,
            is_own: false,
        };
        functions.iter().map(frame).collect()
    }

    #[test]
    fn a_thread_of_the_pool_is_no_loop_though_workers_start_there_too() {
        let worker = stack(&[
            "syscall",
            "tokio::runtime::scheduler::multi_thread::park::Inner::park_condvar",
            "tokio::runtime::scheduler::multi_thread::worker::Context::park_internal",
            "tokio::runtime::blocking::pool::Inner::run",
        ]);
        assert!(runs_tasks(&worker));
        let pool = stack(&["syscall", "tokio::runtime::blocking::pool::Inner::run"]);
        assert!(!runs_tasks(&pool));
        let main = stack(&["tokio::runtime::scheduler::multi_thread::MultiThread::block_on"]);
        assert!(!runs_tasks(&main));
    }
}
