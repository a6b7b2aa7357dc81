//! Python's side of a process: the stack of its loop's thread, and where the interpreter lock is.
//!
//! py-spy reads both out of the process' memory without stopping it, so a read can meet a stack that
//! is being built; then it is read again, and the caller checks that the thread slept meanwhile.

use std::ops::Range;

use py_spy::config::{Config, LockingStrategy};
use py_spy::{PythonSpy, StackTrace};

use super::elf::Elf;
use super::free_threading;
use super::runtime::MappedFiles;
use crate::cause::Frame;
use crate::process::ProcessView;
use crate::process::symbols::is_own_file;

/// A stack that changes while it is read is read again so often.
const ATTEMPTS: usize = 3;
/// Frames kept of one stack, from the innermost.
const FRAMES_MAX: usize = 48;
/// Where `struct pthread` has the kernel's number of its thread: glibc's `descr.h` and musl's
/// `pthread_impl.h`, both on 64-bit machines. Needed up to Python 3.10, which doesn't keep it.
const THREAD_ID_OFFSETS: [u64; 2] = [0x2d0, 0x30];

/// Reads the stacks of one interpreter.
pub(super) struct Python {
    spy: PythonSpy,
    view: ProcessView,
    lock: Option<Range<u64>>,
}

/// The stack of one thread, innermost first.
#[derive(Debug, Default)]
pub(super) struct PythonStack {
    pub(super) frames: Vec<Frame>,
}

impl Python {
    /// Looks into a process that has an interpreter in it.
    ///
    /// # Errors
    /// What it is or py-spy couldn't do, in words.
    pub(super) fn of(view: &ProcessView, files: &MappedFiles) -> Result<Self, String> {
        if let Some(refusal) = free_threading::refusal(view, files) {
            return Err(refusal);
        }
        let pid = i32::try_from(view.pid()).map_err(|_| "no such process".to_owned())?;
        let config = Config {
            blocking: LockingStrategy::NonBlocking,
            collect_thread_names: false,
            ..Config::default()
        };
        let spy = PythonSpy::new(pid, &config).map_err(|error| format!("{error:#}"))?;
        let lock = files
            .python()
            .and_then(|(path, start)| Elf::of(view, path)?.variable("_PyRuntime", start));
        Ok(Self {
            spy,
            view: view.clone(),
            lock,
        })
    }

    /// Whether a lock at this address is the interpreter's. It lies in `_PyRuntime`, with nothing
    /// else that a thread may wait for: `ceval.gil` up to 3.11, the main interpreter's own since.
    pub(super) fn is_interpreter_lock(&self, address: u64) -> bool {
        self.lock
            .as_ref()
            .is_some_and(|lock| lock.contains(&address))
    }

    /// Whether [`Python::is_interpreter_lock`] can tell.
    pub(super) fn knows_its_lock(&self) -> bool {
        self.lock.is_some()
    }

    /// The stack of a thread; `None` when it has none or it couldn't be read.
    pub(super) fn stack(&mut self, tid: u32) -> Option<PythonStack> {
        let traces = self.traces()?;
        let inner = self.view.inner_tid(tid)?;
        // Up to 3.11 a thread that is being started has its parent's number and no frames yet.
        let own = traces.iter().filter(|trace| self.is_of(trace, inner));
        own.max_by_key(|trace| trace.frames.len())
            .map(PythonStack::of)
    }

    /// Threads that run a loop now: with a runner of asyncio or uvloop on their stack.
    pub(super) fn loops(&mut self, tids: &[u32]) -> Vec<u32> {
        let traces = self.traces().unwrap_or_default();
        let inner = |tid: &u32| Some((*tid, self.view.inner_tid(*tid)?));
        let tids: Vec<(u32, u64)> = tids.iter().filter_map(inner).collect();
        let of = |trace: &StackTrace| {
            let mut tids = tids.iter();
            tids.find(|(_, inner)| self.is_of(trace, *inner))
        };
        let looping = traces
            .iter()
            .filter(|trace| PythonStack::of(trace).runs_a_loop());
        looping
            .filter_map(|trace| of(trace).map(|(tid, _)| *tid))
            .collect()
    }

    fn traces(&mut self) -> Option<Vec<StackTrace>> {
        // A stack in motion can't be read; the last error says no more than that.
        (0..ATTEMPTS).find_map(|_| self.spy.get_stack_traces().ok())
    }

    /// Python and its C library know a thread by its number in the process' own namespace.
    fn is_of(&self, trace: &StackTrace, inner: u64) -> bool {
        if let Some(known) = trace.os_thread_id {
            return known == inner;
        }
        THREAD_ID_OFFSETS.iter().any(|offset| {
            let word = self.view.read_word(trace.thread_id.wrapping_add(*offset));
            word.is_some_and(|word| word & 0xffff_ffff == inner)
        })
    }
}

impl PythonStack {
    fn of(trace: &StackTrace) -> Self {
        let frames = trace.frames.iter().take(FRAMES_MAX).map(|frame| Frame {
            function: frame.name.clone(),
            file: Some(frame.filename.clone()),
            line: u32::try_from(frame.line).ok().filter(|line| *line > 0),
            is_own: is_own(&frame.filename),
        });
        Self {
            frames: frames.collect(),
        }
    }

    fn runs_a_loop(&self) -> bool {
        self.frames.iter().any(is_runner)
    }

    /// Whether the loop of asyncio itself waits here: `select`, called by `_run_once`.
    pub(super) fn is_asyncio_waiting(&self) -> bool {
        let mut frames = self.frames.iter();
        let (inner, outer) = (frames.next(), frames.next());
        inner.is_some_and(|frame| is_in(frame, "selectors.py"))
            && outer.is_some_and(|frame| {
                is_in(frame, "asyncio/base_events.py") && frame.function.ends_with("_run_once")
            })
    }

    /// Whether it has started a thread and waits until that has begun, for which it needs nothing
    /// but a core and the interpreter lock.
    pub(super) fn starts_a_thread(&self) -> bool {
        // `Condition.wait` for `Event.wait` for `Thread.start`.
        let calls = ["wait", "wait", "start"];
        let mut pairs = self.frames.iter().zip(calls);
        self.frames.len() > calls.len()
            && pairs.all(|(frame, function)| is_called(frame, "/threading.py", function))
    }

    /// Whether asyncio's own loop runs it; uvloop's has no frames of Python.
    pub(super) fn is_asyncio(&self) -> bool {
        self.frames
            .iter()
            .any(|frame| frame.function.ends_with("_run_once"))
    }

    /// The function that a web framework calls for a route, where there is one on the stack: its
    /// name and file.
    pub(super) fn handler(&self) -> Option<String> {
        let callers = self.frames.iter().skip(1);
        let mut pairs = self.frames.iter().zip(callers);
        let (handler, _) = pairs.find(|(_, caller)| is_dispatcher(caller))?;
        let file = handler.file.as_deref().unwrap_or_default();
        Some(format!("{}() in {}", handler.function, file_name(file)))
    }

    /// Frames within the loop's current step; those that run the loop say nothing of it.
    pub(super) fn into_step(mut self) -> Vec<Frame> {
        let is_outside = |frame: &Frame| is_called(frame, "asyncio/events.py", "_run");
        let runner = self
            .frames
            .iter()
            .position(|frame| is_outside(frame) || is_runner(frame));
        if let Some(runner) = runner.filter(|runner| *runner > 0) {
            self.frames.truncate(runner);
        }
        self.frames
    }
}

/// What runs a loop until it is stopped. Other functions of the same files are called by threads
/// that have no loop, like `call_soon_threadsafe`, and by what runs on one.
fn is_runner(frame: &Frame) -> bool {
    let called = |file, function| is_called(frame, file, function);
    called("asyncio/base_events.py", "run_forever")
        || called("asyncio/base_events.py", "run_until_complete")
        || called("asyncio/base_events.py", "_run_once")
        || called("asyncio/runners.py", "run")
        || called("uvloop/__init__.py", "run")
}

/// Whether this is the function of that name, with its class from Python 3.11 on.
fn is_called(frame: &Frame, file: &str, function: &str) -> bool {
    is_in(frame, file) && frame.function.rsplit('.').next() == Some(function)
}

/// What calls a route's own function, in FastAPI, Starlette, Litestar and Quart.
fn is_dispatcher(frame: &Frame) -> bool {
    let called = |file, function| is_called(frame, file, function);
    called("fastapi/routing.py", "run_endpoint_function")
        || called("starlette/routing.py", "app")
        || called("litestar/routes/http.py", "_get_response_data")
        || called("litestar/routes/http.py", "_call_handler_function")
        || called("quart/app.py", "dispatch_request")
}

fn is_in(frame: &Frame, file: &str) -> bool {
    frame
        .file
        .as_deref()
        .is_some_and(|path| path.ends_with(file))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Not an installed package's, nor the standard library's, nor made at run time.
fn is_own(file: &str) -> bool {
    !file.is_empty() && is_own_file(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> Frame {
        Frame {
            function: function.to_owned(),
            file: Some(file.to_owned()),
            line: Some(1),
            is_own: is_own(file),
        }
    }

    #[test]
    fn code_is_one_s_own_unless_it_was_installed() {
        for (file, own) in [
            ("/srv/app/routes.py", true),
            ("/srv/lib/python/app.py", true),
            ("/usr/lib/python3.11/selectors.py", false),
            ("/venv/lib/python3.12/site-packages/redis/client.py", false),
            ("/usr/lib/python3/dist-packages/six.py", false),
            ("<frozen importlib._bootstrap>", false),
            ("<sqlalchemy generated (12, 34)>", false),
            ("<string>", true),
        ] {
            assert_eq!(is_own(file), own, "{file}");
        }
    }

    #[test]
    fn whoever_only_talks_to_a_loop_runs_none() {
        let base = "/l/lib/python3.11/asyncio/base_events.py";
        let helper = PythonStack {
            frames: vec![
                frame("BaseEventLoop.call_soon_threadsafe", base),
                frame("read_orders", "/srv/app/orders.py"),
                frame("Thread.run", "/l/lib/python3.11/threading.py"),
            ],
        };
        assert!(!helper.runs_a_loop());
        for (runner, file) in [
            ("run_until_complete", base),
            ("BaseEventLoop._run_once", base),
            ("Runner.run", "/l/lib/python3.11/asyncio/runners.py"),
            ("run", "/v/site-packages/uvloop/__init__.py"),
        ] {
            let frames = vec![frame("main", "/srv/app/main.py"), frame(runner, file)];
            assert!(PythonStack { frames }.runs_a_loop(), "{runner}");
        }
    }

    #[test]
    fn a_step_keeps_who_called_the_loop_from_within_it() {
        let base = "/l/lib/python3.11/asyncio/base_events.py";
        let stack = PythonStack {
            frames: vec![
                frame("Thread.start", "/l/lib/python3.11/threading.py"),
                frame("BaseEventLoop.run_in_executor", base),
                frame("resolve", "/srv/app/names.py"),
                frame("Handle._run", "/l/lib/python3.11/asyncio/events.py"),
                frame("BaseEventLoop._run_once", base),
            ],
        };
        let step = stack.into_step();
        assert_eq!(step.len(), 3);
        assert!(step[2].is_own);
    }

    #[test]
    fn only_the_loop_s_own_select_is_its_wait() {
        let select = frame("EpollSelector.select", "/l/lib/python3.11/selectors.py");
        let once = frame(
            "BaseEventLoop._run_once",
            "/l/lib/python3.11/asyncio/base_events.py",
        );
        let nested = frame("Popen._communicate", "/l/lib/python3.11/subprocess.py");
        let waiting = PythonStack {
            frames: vec![select.clone(), once.clone()],
        };
        assert!(waiting.is_asyncio_waiting() && waiting.runs_a_loop());
        let blocked = PythonStack {
            frames: vec![select, nested, once],
        };
        assert!(!blocked.is_asyncio_waiting() && blocked.is_asyncio());
    }

    #[test]
    fn a_thread_that_is_started_is_no_lock_of_the_program() {
        let threading = "/l/lib/python3.11/threading.py";
        let starts = |functions: &[&str]| {
            let mut frames: Vec<Frame> = functions
                .iter()
                .map(|function| frame(function, threading))
                .collect();
            frames.push(frame("main", "/srv/app/main.py"));
            PythonStack { frames }.starts_a_thread()
        };
        assert!(starts(&["Condition.wait", "Event.wait", "Thread.start"]));
        assert!(starts(&["wait", "wait", "start"]));
        assert!(!starts(&["Condition.wait", "Event.wait"]));
        assert!(!starts(&["Thread.join", "wait", "start"]));
    }

    #[test]
    fn a_route_s_function_is_what_its_framework_calls() {
        let stack = PythonStack {
            frames: vec![
                frame(
                    "Connection.send",
                    "/v/lib/python3.11/site-packages/redis/connection.py",
                ),
                frame("usage", "/srv/app/routes/usage.py"),
                frame(
                    "run_endpoint_function",
                    "/v/site-packages/fastapi/routing.py",
                ),
                frame(
                    "request_response.<locals>.app",
                    "/v/site-packages/starlette/routing.py",
                ),
                frame("Handle._run", "/l/lib/python3.11/asyncio/events.py"),
                frame(
                    "BaseEventLoop._run_once",
                    "/l/lib/python3.11/asyncio/base_events.py",
                ),
            ],
        };
        assert_eq!(stack.handler().as_deref(), Some("usage() in usage.py"));
        assert_eq!(stack.into_step().len(), 4);
    }
}
