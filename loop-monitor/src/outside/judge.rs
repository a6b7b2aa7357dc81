//! What a loop's thread waits for: events, the interpreter lock, or something that keeps it.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::ops::Range;

use super::causes::Causes;
use super::ledger::{Charge, Site};
use super::python::{Python, PythonStack};
use super::runtime::{MappedFiles, Runtime};
use super::v8::V8;
use super::watched_thread::site;
use crate::cause::{Cause, CauseClass, Frame, Target};
use crate::process::descriptors::{Descriptors, comm_of};
use crate::process::peers::Peers;
use crate::process::tokio_place;
use crate::process::{Activity, Call, Namer, ProcessError, ProcessView, Syscall, Task};

/// An interpreter that starts can't be read yet; one that can't be read after so many looks won't.
const PYTHON_RETRIES_MAX: u32 = 10;

/// Judges the waits of one process.
pub(super) struct Judge {
    view: ProcessView,
    namer: Namer,
    descriptors: Descriptors,
    pub(super) runtime: Runtime,
    pub(super) python: Option<Python>,
    /// Why Python's stacks can't be read, where they should be.
    pub(super) python_refusal: Option<String>,
    python_retries: u32,
    /// JavaScript's stacks, where they can be read.
    pub(super) v8: Option<V8>,
    /// Locks on which idle workers of Tokio wait.
    parked_on: HashSet<u64>,
    /// Where locks of the runtime itself lie: uvloop's pool of threads that resolve names.
    runtime_locks: Vec<Range<u64>>,
    /// The main thread's stack.
    main_stack: Option<Range<u64>>,
    /// Whether a stack ever showed a function of Tokio.
    pub(super) knows_tokio: bool,
    /// System calls by the address after them.
    numbers: HashMap<u64, u64>,
    causes: Causes,
    pub(super) looks: u64,
}

/// What a thread does that can't be told from its call alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// It waits at this place, for this.
    Waiting(Site, Charge),
    /// It waits for events on its loop's own descriptor, which wasn't known before.
    OwnEvents(Site, u64),
    /// It moved on.
    Moved,
}

impl Judge {
    pub(super) fn new(
        view: &ProcessView,
        names: &[(SocketAddr, String)],
    ) -> Result<Self, ProcessError> {
        let files = MappedFiles::of(view)?;
        let peers = || -> Result<Peers, ProcessError> {
            let mut peers = Peers::of(view)?;
            for (address, name) in names {
                peers.give(*address, name.as_str());
            }
            Ok(peers)
        };
        let (mut python, mut python_refusal, mut v8) = (None, None, None);
        let runtime = if let Some((path, _)) = files.node() {
            v8 = V8::of(view, path);
            Runtime::Node
        } else if files.python().is_some() {
            match Python::of(view, &files) {
                Ok(found) => python = Some(found),
                Err(reason) => python_refusal = Some(reason),
            }
            if files.has_uvloop() {
                Runtime::Uvloop
            } else {
                Runtime::Asyncio
            }
        } else {
            Runtime::Unknown
        };
        Ok(Self {
            view: view.clone(),
            namer: Namer::with_peers(view, peers()?)?,
            descriptors: Descriptors::new(view, peers()?),
            runtime,
            python,
            python_refusal,
            python_retries: 0,
            v8,
            parked_on: HashSet::new(),
            runtime_locks: files.uvloop_data,
            main_stack: files.main_stack,
            knows_tokio: false,
            numbers: HashMap::new(),
            causes: Causes::default(),
            looks: 0,
        })
    }

    /// Looks again for what a program loads and sets up only when it has run for a while.
    pub(super) fn look_again(&mut self) -> Result<(), ProcessError> {
        let is_refused = self.python_refusal.is_some() && self.python_retries < PYTHON_RETRIES_MAX;
        if self.runtime != Runtime::Asyncio && !is_refused {
            return Ok(());
        }
        let files = MappedFiles::of(&self.view)?;
        if is_refused {
            self.python_retries += 1;
            match Python::of(&self.view, &files) {
                Ok(found) => (self.python, self.python_refusal) = (Some(found), None),
                Err(reason) => self.python_refusal = Some(reason),
            }
        }
        if files.has_uvloop() {
            self.runtime = Runtime::Uvloop;
            self.runtime_locks = files.uvloop_data;
        }
        Ok(())
    }

    /// A cause by its number.
    pub(super) fn cause(&self, number: usize) -> &Cause {
        &self.causes.all[number]
    }

    /// What a call by itself tells: a wait for events on the loop's own descriptor, for the
    /// interpreter lock, or for the machine.
    pub(super) fn harmless(&self, own_events: Option<u64>, call: &Syscall) -> Option<Charge> {
        let on = call.arguments[0];
        match Call::of(call.number)?.name {
            name if waits_for_events(name) => (own_events == Some(on)).then_some(Charge::Idle),
            name if name.starts_with("futex") => {
                if self.parked_on.contains(&on) {
                    return Some(Charge::Idle);
                }
                if self.runtime_locks.iter().any(|range| range.contains(&on)) {
                    return Some(Charge::Machine);
                }
                let python = self.python.as_ref()?;
                python.is_interpreter_lock(on).then_some(Charge::Gil)
            }
            // Threads of one process change its map in turn, and whoever reads its memory from
            // outside, as this watch does, takes a turn too. No async call could do without.
            "mmap" | "madvise" if reads_a_file(call) => None,
            "mmap" | "munmap" | "mprotect" | "madvise" | "mremap" | "brk" => Some(Charge::Machine),
            _ => None,
        }
    }

    /// Looks at what a thread waits in; cheap.
    pub(super) fn look(&mut self, task: &Task) -> Result<Activity, ProcessError> {
        self.looks += 1;
        let activity = task.activity()?;
        if let Activity::Call(call) = &activity {
            self.numbers.insert(call.pc, call.number);
        }
        Ok(activity)
    }

    /// Names what a thread waits for, with its stack; dear.
    pub(super) fn name(
        &mut self,
        task: &Task,
        own_events: Option<u64>,
    ) -> Result<Seen, ProcessError> {
        if self.python.is_some() {
            return self.name_python(task, own_events);
        }
        let Some(sighting) = self.namer.sight(task)? else {
            return Ok(Seen::Moved);
        };
        let Some(site) = site(&sighting.look.activity) else {
            return Ok(Seen::Moved);
        };
        let javascript = match (&self.v8, &sighting.look.activity) {
            (Some(v8), Activity::Call(Syscall { sp, .. }) | Activity::Fault { sp, .. }) => {
                v8.frames(*sp)
            }
            _ => Vec::new(),
        };
        // Read after the look: it belongs to it only if the thread slept on.
        if task.times()?.timeslices != sighting.look.times.timeslices {
            return Ok(Seen::Moved);
        }
        let mut cause = self.namer.resolve(&sighting)?;
        self.knows_tokio |= tokio_place::is_parked(&cause.frames).is_some();
        if let Activity::Call(call) = &sighting.look.activity {
            let events = Call::of(call.number).is_some_and(|call| waits_for_events(call.name));
            if events && own_events.is_none_or(|own| call.arguments[0] < own) {
                return Ok(Seen::OwnEvents(site, call.arguments[0]));
            }
            if cause.class == CauseClass::Lock && self.is_parked(&cause.frames) {
                self.parked_on.insert(call.arguments[0]);
                return Ok(Seen::Waiting(site, Charge::Idle));
            }
        }
        if self.runtime == Runtime::Node {
            self.tell_child(&mut cause)?;
            if !javascript.is_empty() {
                cause.frames = javascript;
            }
        }
        let number = self.causes.number(cause);
        Ok(Seen::Waiting(site, Charge::Cause(number)))
    }

    /// Node waits for a synchronous child (`execSync`, `spawnSync`) in a loop of its own within the
    /// loop, which looks like any wait for events.
    fn tell_child(&mut self, cause: &mut Cause) -> Result<(), ProcessError> {
        let mut frames = cause.frames.iter();
        if !frames.any(|frame| frame.function.contains("SyncProcessRunner")) {
            return Ok(());
        }
        cause.class = CauseClass::Spawn;
        // Gone meanwhile: then the child has no name.
        let child = self.view.children().pop();
        if let Some(child) = child.and_then(|child| i32::try_from(child).ok()) {
            // A number of ours, whatever the process calls it.
            cause.target = Some(Target {
                what: format!("pid {child}"),
                name: comm_of(child),
            });
        }
        Ok(())
    }

    /// The same for Python, whose frames say more than its interpreter's, which cost much.
    fn name_python(&mut self, task: &Task, own_events: Option<u64>) -> Result<Seen, ProcessError> {
        let (descriptors, mut python) = (&self.descriptors, self.python.as_mut());
        let seen = task.look_while(|activity| {
            let subject = match activity {
                Activity::Call(call) => Call::in_progress(call)
                    .map(|known| (known, descriptors.read_subject(&known, call))),
                Activity::Running | Activity::Fault { .. } => None,
            };
            let stack = python.as_mut().and_then(|python| python.stack(task.tid()));
            (subject, stack)
        })?;
        let Some((look, (subject, stack))) = seen else {
            return Ok(Seen::Moved);
        };
        let Some(site) = site(&look.activity) else {
            return Ok(Seen::Moved);
        };
        let call = subject.as_ref().map(|(call, _)| call);
        let events = call.is_some_and(|call| waits_for_events(call.name));
        if events && is_own(site.argument, own_events, stack.as_ref()) {
            return Ok(Seen::OwnEvents(site, site.argument));
        }
        let Some(stack) = stack else {
            // Its frames moved while they were read, and hold still at a later look.
            return Ok(Seen::Moved);
        };
        if stack.starts_a_thread() {
            return Ok(Seen::Waiting(site, Charge::Machine));
        }
        let target = match &subject {
            Some((_, subject)) => self.descriptors.name_subject(subject)?,
            None => None,
        };
        let class = match look.activity {
            Activity::Fault { .. } => CauseClass::Fault,
            _ => call.map_or(CauseClass::Unknown, |call| call.kind.class()),
        };
        let number = self.causes.number(Cause {
            class,
            syscall: call.map(|call| call.name.to_owned()),
            target,
            endpoint: stack.handler(),
            frames: stack.into_step(),
        });
        Ok(Seen::Waiting(site, Charge::Cause(number)))
    }

    /// An idle worker waits for a lock within Tokio's own parking. Where symbols were stripped,
    /// that can't be told from a lock of the program: it is taken for idle, and a note says so.
    fn is_parked(&self, frames: &[Frame]) -> bool {
        let is_parked = tokio_place::is_parked(frames).unwrap_or(!self.knows_tokio);
        self.runtime == Runtime::Tokio && is_parked
    }

    /// What sleeping at a place is, where its call and its object tell that it keeps nobody.
    pub(super) fn harmless_at(&mut self, site: Site, own_events: Option<u64>) -> Option<Charge> {
        // Where a lock is tells enough: no descriptor is as large.
        let python = self.python.as_ref();
        if python.is_some_and(|python| python.is_interpreter_lock(site.argument)) {
            return Some(Charge::Gil);
        }
        if self.parked_on.contains(&site.argument) {
            return Some(Charge::Idle);
        }
        match self.call_at(site.pc) {
            Before::Call(number) => self.harmless(own_events, &syscall_at(site, number)),
            Before::UnknownCall | Before::NoCall => None,
        }
    }

    /// The system call of a place.
    fn call_at(&mut self, pc: u64) -> Before {
        if let Some(known) = self.numbers.get(&pc) {
            return Before::Call(*known);
        }
        let before = code_before(&self.view, pc);
        if let Before::Call(number) = before {
            self.numbers.insert(pc, number);
        }
        before
    }

    /// What can be said of a place at which nobody was met in time: its call, and on what.
    pub(super) fn charge_of(&mut self, site: Site, own_events: Option<u64>) -> Charge {
        if let Some(charge) = self.harmless_at(site, own_events) {
            return charge;
        }
        let number = match self.call_at(site.pc) {
            Before::Call(number) => number,
            Before::UnknownCall => return Charge::Unknown,
            Before::NoCall => return Charge::Cause(self.nameless(CauseClass::Fault)),
        };
        let call = syscall_at(site, number);
        if self.is_start_of_pool(site, number) {
            return Charge::Machine;
        }
        let Some(known) = Call::of(number) else {
            return Charge::Unknown;
        };
        let on_descriptor = crate::process::DescriptorArgument::Descriptor(0);
        let target = (known.on == on_descriptor).then(|| {
            let subject = self.descriptors.read_subject(&known, &call);
            // Closed meanwhile, or the process has ended: then there is no target to tell.
            self.descriptors.name_subject(&subject).ok().flatten()
        });
        Charge::Cause(self.causes.number(Cause {
            class: known.kind.class(),
            syscall: Some(known.name.to_owned()),
            target: target.flatten(),
            endpoint: None,
            frames: Vec::new(),
        }))
    }

    /// uvloop starts its pool when a name is first resolved, and waits until its threads have had
    /// a core; the semaphore for that is on its stack (`init_threads` of libuv's threadpool.c).
    /// Locks of Python are on the heap.
    fn is_start_of_pool(&self, site: Site, number: u64) -> bool {
        let on_stack = |stack: &Range<u64>| stack.contains(&site.argument);
        self.runtime == Runtime::Uvloop
            && self.main_stack.as_ref().is_some_and(on_stack)
            && Call::of(number).is_some_and(|call| call.name.starts_with("futex"))
    }

    /// The cause of a sleep of which nothing but this is known.
    pub(super) fn nameless(&mut self, class: CauseClass) -> usize {
        self.causes.number(Cause {
            class,
            syscall: None,
            target: None,
            endpoint: None,
            frames: Vec::new(),
        })
    }

    /// Reads the tables of symbols that a thread's stack needs, before its time is watched.
    pub(super) fn warm(&mut self, tid: u32) -> Result<(), ProcessError> {
        if self.python.is_some() {
            return Ok(());
        }
        match self
            .view
            .task(tid)
            .and_then(|task| self.native_frames(&task))
        {
            Ok(_) | Err(ProcessError::TaskEnded { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The native stack of a thread, and whether it could be read.
    pub(super) fn native_frames(&mut self, task: &Task) -> Result<Vec<Frame>, ProcessError> {
        let cause = self.namer.name(task)?;
        let frames = cause.map(|cause| cause.frames).unwrap_or_default();
        self.knows_tokio |= tokio_place::is_parked(&frames).is_some();
        Ok(frames)
    }
}

/// Whether a thread of Python that waits on this descriptor waits as its loop does. A loop within a
/// loop (a client that polls) was made later, so its number is higher.
fn is_own(on: u64, own_events: Option<u64>, stack: Option<&PythonStack>) -> bool {
    match stack {
        Some(stack) if stack.is_asyncio() => stack.is_asyncio_waiting(),
        _ => own_events.is_none_or(|own| on < own),
    }
}

/// Calls in which a loop waits when it has nothing to do.
pub(super) fn waits_for_events(name: &str) -> bool {
    matches!(
        name,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "io_uring_enter"
    )
}

/// `MAP_POPULATE` of a file; `MADV_WILLNEED`, `MADV_POPULATE_READ` and `_WRITE`, which read what
/// isn't in memory (mmap(2), madvise(2)). What only a place tells has no arguments and is none.
fn reads_a_file(call: &Syscall) -> bool {
    let [_, _, advice, flags, file, _] = call.arguments;
    let populate = u64::from(libc::MAP_POPULATE.unsigned_abs());
    let anonymous = u64::from(libc::MAP_ANONYMOUS.unsigned_abs());
    match Call::of(call.number).map(|call| call.name) {
        Some("mmap") => flags & populate != 0 && flags & anonymous == 0 && file & 0x8000_0000 == 0,
        Some("madvise") => matches!(advice & 0xffff_ffff, 3 | 22 | 23),
        _ => false,
    }
}

/// As far as a place tells it.
fn syscall_at(site: Site, number: u64) -> Syscall {
    Syscall {
        number,
        arguments: [site.argument, 0, 0, 0, 0, 0],
        sp: 0,
        pc: site.pc,
    }
}

/// Code before a call that is searched for its number.
const CODE_BYTES: usize = 40;

/// What the code right before the address is at which a thread slept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A system call of this number.
    Call(u64),
    /// A system call.
    UnknownCall,
    /// None: the thread had to wait for memory.
    NoCall,
}

fn code_before(view: &ProcessView, pc: u64) -> Before {
    let mut code = [0; CODE_BYTES];
    let begin = pc.saturating_sub(CODE_BYTES as u64);
    match view.read_memory(begin, &mut code) {
        Ok(CODE_BYTES) => call_in(&code),
        _ => Before::UnknownCall,
    }
}

/// `mov $number,%eax`, some more of the kind, `syscall`, as C libraries write it (x86-64, as all of
/// [`crate::process`]).
fn call_in(code: &[u8]) -> Before {
    let Some(before) = code.strip_suffix(&[0x0f, 0x05]) else {
        return Before::NoCall;
    };
    let moves = before.windows(5).rev();
    let mut numbers = moves.filter_map(|bytes| match bytes {
        [0xb8, rest @ ..] => Some(u32::from_le_bytes(rest.try_into().ok()?)),
        _ => None,
    });
    // The byte of the instruction can be part of another one; a small number after it hardly can.
    let number = numbers.find(|number| *number < 512);
    number.map_or(Before::UnknownCall, |number| Before::Call(number.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_call_is_in_the_code_before_it() {
        // mov $0xca,%eax; xor %r8d,%r8d; syscall
        let futex = [0x90, 0xb8, 0xca, 0, 0, 0, 0x45, 0x31, 0xc0, 0x0f, 0x05];
        assert_eq!(call_in(&futex), Before::Call(202));
        assert_eq!(call_in(&futex[..9]), Before::NoCall);
        // mov %rdi,%rax; syscall
        assert_eq!(
            call_in(&[0x48, 0x89, 0xf8, 0x0f, 0x05]),
            Before::UnknownCall
        );
    }
}
