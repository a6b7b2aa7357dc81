//! From a thread that can't go on to its cause: all parts of this folder in one call.

use std::io;
use std::time::Duration;

use super::calls::Call;
use super::descriptors::{Descriptors, Subject};
use super::peers::Peers;
use super::running;
use super::stack::{Registers, StackCopy, Stacks};
use super::task::{Activity, Syscall, Task, TaskLook};
use super::{ProcessError, ProcessView};
use crate::cause::{Cause, CauseClass};

/// Names what threads of one process wait for. Remembers files, sockets and symbols, so the first
/// names are dearer than the rest.
#[derive(Debug)]
pub struct Namer {
    view: ProcessView,
    descriptors: Descriptors,
    stacks: Stacks,
}

/// What was copied of a waiting thread: everything that must be read while it waits. Small and
/// quick to take; [`Namer::resolve`] makes a cause of it at leisure.
#[derive(Debug, Clone)]
pub struct Sighting {
    /// The look that it belongs to.
    pub look: TaskLook,
    subject: Subject,
    stack: Option<(Registers, StackCopy)>,
}

impl Namer {
    /// For one process.
    ///
    /// # Errors
    /// When it has ended or may not be read.
    pub fn new(view: &ProcessView) -> Result<Self, ProcessError> {
        Self::with_peers(view, Peers::of(view)?)
    }

    /// With names of peers that the caller knows.
    ///
    /// # Errors
    /// When it has ended or may not be read.
    pub fn with_peers(view: &ProcessView, peers: Peers) -> Result<Self, ProcessError> {
        Ok(Self {
            view: view.clone(),
            descriptors: Descriptors::new(view, peers),
            stacks: Stacks::new(view)?,
        })
    }

    /// What a thread waits for; `None` when it runs, or never stood still for a look.
    ///
    /// # Errors
    /// When the thread has ended or may not be read.
    pub fn name(&mut self, task: &Task) -> Result<Option<Cause>, ProcessError> {
        match self.sight(task)? {
            Some(sighting) if sighting.look.activity != Activity::Running => {
                self.resolve(&sighting).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Copies what a thread waits for, while it does; `None` when it never stood still.
    ///
    /// # Errors
    /// When the thread has ended or may not be read.
    pub fn sight(&self, task: &Task) -> Result<Option<Sighting>, ProcessError> {
        let seen = task.look_while(|activity| match *activity {
            Activity::Running => (Ok(Subject::Nothing), None),
            Activity::Call(syscall) => {
                let stack = self.copy_stack(syscall.pc, syscall.sp);
                (self.read_subject(&syscall), Some(stack))
            }
            Activity::Fault { sp, pc } => (Ok(Subject::Nothing), Some(self.copy_stack(pc, sp))),
        })?;
        seen.map(|(look, (subject, stack))| {
            Ok(Sighting {
                look,
                subject: subject?,
                stack,
            })
        })
        .transpose()
    }

    /// Copies where a running thread computes; `None` when it didn't for `patience`.
    ///
    /// # Errors
    /// When the kernel refuses (see [`running::sample`]).
    pub fn sample_running(
        &self,
        task: &Task,
        look: TaskLook,
        patience: Duration,
    ) -> io::Result<Option<Sighting>> {
        let stack = running::sample(task.tid(), patience)?;
        Ok(stack.map(|stack| Sighting {
            look,
            subject: Subject::Nothing,
            stack: Some(stack),
        }))
    }

    /// Stacks and symbols, for copies that were taken by other means.
    pub fn stacks(&mut self) -> &mut Stacks {
        &mut self.stacks
    }

    /// Names a sighting.
    ///
    /// # Errors
    /// When the process may not be read.
    pub fn resolve(&mut self, sighting: &Sighting) -> Result<Cause, ProcessError> {
        let (class, syscall, target) = match &sighting.look.activity {
            Activity::Running => (CauseClass::Cpu, None, None),
            Activity::Fault { .. } => (CauseClass::Fault, None, None),
            Activity::Call(syscall) => {
                let target = self.descriptors.name_subject(&sighting.subject)?;
                match Call::in_progress(syscall) {
                    Some(call) => {
                        let class = class(&call, &sighting.subject);
                        (class, Some(call.name.to_owned()), target)
                    }
                    None => {
                        let name = format!("system call {}", syscall.number);
                        (CauseClass::Unknown, Some(name), target)
                    }
                }
            }
        };
        let frames = match &sighting.stack {
            Some((registers, stack)) => self.stacks.frames(*registers, stack)?,
            None => Vec::new(),
        };
        Ok(Cause {
            class,
            syscall,
            target,
            endpoint: None,
            frames,
        })
    }

    fn copy_stack(&self, ip: u64, sp: u64) -> (Registers, StackCopy) {
        let registers = Registers { ip, sp, bp: None };
        (registers, StackCopy::take(&self.view, sp))
    }

    fn read_subject(&self, syscall: &Syscall) -> Result<Subject, ProcessError> {
        let Some(call) = Call::in_progress(syscall) else {
            return Ok(Subject::Nothing);
        };
        self.descriptors
            .pin(self.descriptors.read_subject(&call, syscall))
    }
}

/// Standard output and error are the log's, and starting a thread waits for the kernel's locks
/// alone.
fn class(call: &Call, subject: &Subject) -> CauseClass {
    match subject {
        Subject::Open {
            descriptor: 1 | 2, ..
        } if matches!(call.name, "write" | "writev" | "sendto") => CauseClass::Log,
        Subject::Thread => CauseClass::Lock,
        _ => call.kind.class(),
    }
}
