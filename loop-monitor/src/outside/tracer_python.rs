//! Python's stacks of a thread that stands still, by py-spy, and what they say of the call that
//! the thread is about to make.

use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::Path;

use nix::unistd::Pid;
use object::{Object, ObjectSymbol};
use py_spy::config::LockingStrategy;
use py_spy::python_process_info::PythonProcessInfo;
use py_spy::{Config, PythonSpy};

use super::free_threading;
use super::runtime::MappedFiles;
use crate::cause::{CauseClass, Frame};
use crate::process::ProcessView;
use crate::process::symbols::is_made_at_run_time;

/// Other threads run on while stacks are read, and may tear what is read of theirs.
const READS_MAX: usize = 8;
/// A thread that isn't in the list is looked for again: other threads run on while it is read, and
/// a state that is being freed ends it early.
const ABSENCES: usize = 3;

/// Reads the Python stacks of one process.
pub(super) struct PythonStacks {
    spy: PythonSpy,
    /// Where the interpreter keeps its own locks, the one of the interpreter among them.
    runtime: Range<u64>,
}

impl fmt::Debug for PythonStacks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let python = format!("Python {} of process {}", self.spy.version, self.spy.pid);
        formatter.write_str(&python)
    }
}

impl PythonStacks {
    /// `None` for a process that is no Python.
    ///
    /// # Errors
    /// For a Python that can't be read, in words.
    pub(super) fn open(pid: u32) -> Result<Option<Self>, String> {
        if !maps_python(pid) {
            return Ok(None);
        }
        let view = ProcessView::of(pid).map_err(|error| error.to_string())?;
        let files = MappedFiles::of(&view).map_err(|error| error.to_string())?;
        if let Some(refusal) = free_threading::refusal(&view, &files) {
            return Err(refusal);
        }
        let pid = i32::try_from(pid).map_err(|_| format!("{pid} is no process id"))?;
        let config = Config {
            blocking: LockingStrategy::NonBlocking,
            collect_thread_names: false,
            ..Config::default()
        };
        let spy = PythonSpy::retry_new(pid, &config, 10)
            .map_err(|error| format!("its Python stacks can't be read: {error:#}"))?;
        let runtime = runtime_of(&spy)?;
        Ok(Some(Self { spy, runtime }))
    }

    /// `3.12.1`
    pub(super) fn version(&self) -> String {
        self.spy.version.to_string()
    }

    /// A futex at this address is the interpreter's own, and not the program's.
    pub(super) fn is_interpreter_lock(&self, address: u64) -> bool {
        self.runtime.contains(&address)
    }

    /// The stack of the thread whose thread pointer this is, innermost first; `None` if it never
    /// ran Python.
    ///
    /// # Errors
    /// When it couldn't be read several times in a row, in words.
    pub(super) fn stack(&mut self, thread_pointer: u64) -> Result<Option<PythonStack>, String> {
        let mut error = String::new();
        let mut absences = 0;
        for _ in 0..READS_MAX {
            match self.spy.get_stack_traces() {
                Ok(traces) => {
                    let own = traces.into_iter().find(|it| it.thread_id == thread_pointer);
                    if let Some(own) = own {
                        return Ok(Some(PythonStack::of(&own.frames)));
                    }
                    absences += 1;
                    if absences == ABSENCES {
                        return Ok(None);
                    }
                }
                Err(torn) => error = format!("{torn:#}"),
            }
        }
        Err(error)
    }

    /// The threads, by thread pointer, that run an event loop now.
    pub(super) fn looping_threads(&mut self) -> Vec<(u64, Option<u64>)> {
        for _ in 0..READS_MAX {
            if let Ok(traces) = self.spy.get_stack_traces() {
                let looping = traces
                    .iter()
                    .filter(|it| PythonStack::of(&it.frames).runs_loop());
                return looping.map(|it| (it.thread_id, it.os_thread_id)).collect();
            }
        }
        Vec::new()
    }
}

/// One thread's Python stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PythonStack {
    frames: Vec<Frame>,
}

impl PythonStack {
    fn of(frames: &[py_spy::Frame]) -> Self {
        let frames = frames.iter().map(|frame| Frame {
            function: frame.name.clone(),
            is_own: is_own(&frame.filename),
            file: Some(frame.filename.clone()),
            line: u32::try_from(frame.line).ok().filter(|line| *line > 0),
        });
        Self {
            frames: frames.collect(),
        }
    }

    #[cfg(test)]
    fn of_places(places: &[(&str, &str)]) -> Self {
        let frames = places.iter().map(|(file, function)| Frame {
            function: (*function).to_owned(),
            file: Some((*file).to_owned()),
            line: Some(1),
            is_own: is_own(file),
        });
        Self {
            frames: frames.collect(),
        }
    }

    /// A callback or a step of a coroutine runs: everybody else on this loop waits.
    pub(super) fn is_in_step(&self) -> bool {
        self.frames.iter().any(is_step)
    }

    /// An event loop runs on this thread, in a step or between two.
    pub(super) fn runs_loop(&self) -> bool {
        let loops = [
            "run_forever",
            "_run_once",
            "unrolled_run",
            "run_until_complete",
        ];
        let is_loop = |frame: &Frame| loops.contains(&bare_name(frame));
        self.frames
            .iter()
            .any(|frame| is_loop(frame) && !frame.is_own || is_asyncio_runner(frame))
    }

    /// Somebody's code is on the stack, and not only a thread's own beginning or end: uvloop ends
    /// its pool on a thread that is no loop.
    pub(super) fn has_program(&self) -> bool {
        let of_threads = ["threading.py", "concurrent/futures/thread.py"];
        let is_of_threads = |path: &str| of_threads.iter().any(|file| is_file(path, file));
        let mut files = self.frames.iter().filter_map(|frame| frame.file.as_deref());
        files.any(|path| !is_of_threads(path))
    }

    /// The loop itself asks for events.
    pub(super) fn is_own_wait(&self) -> bool {
        match self.frames.as_slice() {
            [select, caller, ..] if is_at(select, "selectors.py", "select") => {
                is_at(caller, "asyncio/base_events.py", "_run_once")
            }
            [wait, ..] => is_at(wait, "trio/_core/_io_epoll.py", "get_events"),
            [] => false,
        }
    }

    /// Why a call may block here although it can, in words. It may where the loop hands work to its
    /// threads, which run the moment they are asked to; where FastAPI reads what it then keeps; and
    /// where httpx drives an application in a test.
    pub(super) fn excuse(&self, class: CauseClass) -> Option<&'static str> {
        self.hand_over(class)
            .or_else(|| self.first_request())
            .or_else(|| self.test_client())
    }

    fn hand_over(&self, class: CauseClass) -> Option<&'static str> {
        let own = self.frames.iter().position(|frame| frame.is_own);
        let near = &self.frames[..own.unwrap_or(self.frames.len())];
        let any = |file: &str, names: &[&str]| {
            let is_there = |frame| names.iter().any(|name| is_at(frame, file, name));
            near.iter().any(is_there)
        };
        let is_lock = class == CauseClass::Lock;
        if is_lock && any("threading.py", &["start"]) {
            return Some("waits until a thread that it started runs (threading.Thread.start)");
        }
        // The first time it also loads its modules and counts the cores.
        if any("asyncio/base_events.py", &["run_in_executor"])
            || any(
                "concurrent/futures/thread.py",
                &["submit", "_adjust_thread_count", "__init__"],
            )
        {
            return Some("hands work to a pool of threads (run_in_executor, submit)");
        }
        let future = [
            "add_done_callback",
            "set_result",
            "_invoke_callbacks",
            "cancel",
        ];
        if is_lock && any("concurrent/futures/_base.py", &future) {
            return Some("shares a future with a thread (concurrent.futures)");
        }
        let is_end = any("asyncio/base_events.py", &["shutdown_default_executor"]);
        is_end.then_some("asyncio ends its pool of threads when the loop closes")
    }

    fn first_request(&self) -> Option<&'static str> {
        let mut library = self.frames.iter().take_while(|frame| !frame.is_own);
        let reads = |frame| is_at(frame, "fastapi/routing.py", "_extract_endpoint_context");
        library
            .any(reads)
            .then_some("FastAPI reads an endpoint's source, once, for its error messages")
    }

    /// It looks for an async library by an import in each request that it makes in-process.
    fn test_client(&self) -> Option<&'static str> {
        let is_import = |frame: &&Frame| frame.file.as_deref().is_some_and(is_import_machinery);
        let importing = self.frames.iter().find(|frame| !is_import(frame))?;
        is_file(importing.file.as_deref()?, "httpx/_transports/asgi.py")
            .then_some("httpx looks for an async library (a test's client)")
    }

    /// Modules are loaded; the frames below the importing line are left out, so that the import
    /// is one finding and not as many as it opens files.
    pub(super) fn without_import(mut self) -> (Self, bool) {
        let is_machinery = |frame: &Frame| frame.file.as_deref().is_some_and(is_import_machinery);
        let outermost = self.frames.iter().rposition(is_machinery);
        if let Some(outermost) = outermost {
            self.frames.drain(..=outermost);
        }
        (self, outermost.is_some())
    }

    /// The same as a cause holds it.
    pub(super) fn into_frames(self) -> Vec<Frame> {
        self.frames
    }
}

fn is_step(frame: &Frame) -> bool {
    is_at(frame, "asyncio/events.py", "_run") || is_at(frame, "trio/_core/_run.py", "unrolled_run")
}

fn is_asyncio_runner(frame: &Frame) -> bool {
    is_at(frame, "asyncio/runners.py", "run")
}

fn is_at(frame: &Frame, file: &str, name: &str) -> bool {
    bare_name(frame) == name && frame.file.as_deref().is_some_and(|it| is_file(it, file))
}

/// Whole path components only: `my_threading.py` isn't `threading.py`.
fn is_file(path: &str, file: &str) -> bool {
    let before = path.strip_suffix(file);
    before.is_some_and(|before| before.is_empty() || before.ends_with('/')) && !is_own(path)
}

/// Without the class: `Handle._run` since 3.11, `_run` before.
fn bare_name(frame: &Frame) -> &str {
    frame.function.rsplit('.').next().unwrap_or(&frame.function)
}

fn is_import_machinery(file: &str) -> bool {
    file.starts_with("<frozen importlib") || file.ends_with("/importlib/_bootstrap.py")
}

/// Neither the standard library's nor an installed package's.
fn is_own(file: &str) -> bool {
    let installed = ["/site-packages/", "/dist-packages/", "/lib/python3"];
    let is_script = !file.starts_with('<') && Path::new(file).extension().is_none();
    // The middleware, where it isn't installed but on the path.
    let ours = [
        "monitor",
        "steps",
        "account",
        "child_tasks",
        "pytest_plugin",
        "proof_tracer",
    ];
    let is_ours = |name: &&str| file.ends_with(&format!("/unstall/{name}.py"));
    !(is_made_at_run_time(file)
        || ours.iter().any(is_ours)
        || installed.iter().any(|place| file.contains(place))
        // The entry script that pip makes of a console command.
        || is_script && file.contains("/bin/"))
}

/// Whether a program or library of CPython is mapped.
pub(super) fn maps_python(pid: u32) -> bool {
    // Unreadable maps are told by whoever attaches, with what to do.
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| {
        let name = line.rsplit('/').next().unwrap_or_default();
        name.starts_with("python3") || name.starts_with("libpython3")
    })
}

/// The range of `_PyRuntime`, in which CPython keeps the interpreter lock's condition and mutex
/// (`ceval_gil.c`): in 3.10 and 3.11 by itself, from 3.12 on in the main interpreter inside of it.
fn runtime_of(spy: &PythonSpy) -> Result<Range<u64>, String> {
    let info = PythonProcessInfo::new(&spy.process).map_err(|error| format!("{error:#}"))?;
    let binaries = [&info.libpython_binary, &info.python_binary];
    let address = binaries.iter().find_map(|binary| {
        let binary = binary.as_ref()?;
        binary.symbols.get("_PyRuntime").copied()
    });
    let address = address.ok_or("its interpreter's state (_PyRuntime) has no symbol")?;
    let pid = Pid::from_raw(spy.pid);
    let maps =
        fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| error.to_string())?;
    let paths = maps.lines().filter_map(|line| {
        let path = line.get(line.find('/')?..)?;
        let name = path.rsplit('/').next()?;
        (name.starts_with("python3") || name.starts_with("libpython3")).then_some(path)
    });
    let mut paths: Vec<&str> = paths.collect();
    paths.dedup();
    let size = paths.iter().find_map(|path| {
        // Through the process' own root, which may be a container's.
        let file = fs::read(format!("/proc/{pid}/root{path}")).ok()?;
        let object = object::File::parse(file.as_slice()).ok()?;
        let mut symbols = object.dynamic_symbols().chain(object.symbols());
        let symbol = symbols.find(|symbol| symbol.name() == Ok("_PyRuntime") && symbol.size() > 0);
        symbol.map(|symbol| symbol.size())
    });
    let size = size.ok_or("the size of its interpreter's state (_PyRuntime) isn't known")?;
    Ok(address..address + size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "/usr/lib/python3.12/";

    fn stack(places: &[(&str, &str)]) -> PythonStack {
        let places: Vec<(String, &str)> = places
            .iter()
            .map(|(file, function)| (file.replace("LIB/", LIB), *function))
            .collect();
        let places: Vec<(&str, &str)> = places.iter().map(|(a, b)| (a.as_str(), *b)).collect();
        PythonStack::of_places(&places)
    }

    #[test]
    fn a_step_is_what_the_loop_calls_and_not_the_loop() {
        let step = [
            ("/app/main.py", "handler"),
            ("LIB/asyncio/events.py", "Handle._run"),
            ("LIB/asyncio/base_events.py", "BaseEventLoop._run_once"),
        ];
        assert!(stack(&step).is_in_step() && !stack(&step).is_own_wait());
        let wait = [
            ("LIB/selectors.py", "EpollSelector.select"),
            ("LIB/asyncio/base_events.py", "BaseEventLoop._run_once"),
            ("LIB/asyncio/base_events.py", "BaseEventLoop.run_forever"),
        ];
        assert!(stack(&wait).is_own_wait() && !stack(&wait).is_in_step());
        assert!(stack(&wait).runs_loop());
    }

    #[test]
    fn a_selector_of_the_program_s_own_is_no_loop_s_wait() {
        let nested = [
            ("LIB/selectors.py", "select"),
            ("/app/main.py", "_run_once"),
            ("LIB/asyncio/events.py", "_run"),
        ];
        assert!(!stack(&nested).is_own_wait() && stack(&nested).is_in_step());
        let lookalike = [("/app/asyncio/events.py", "_run")];
        assert!(!stack(&lookalike).is_in_step());
    }

    #[test]
    fn only_the_hand_over_to_a_pool_is_exempt_and_not_the_wait_for_its_result() {
        let start = [
            ("LIB/threading.py", "Condition.wait"),
            ("LIB/threading.py", "Event.wait"),
            ("LIB/threading.py", "Thread.start"),
            (
                "LIB/concurrent/futures/thread.py",
                "ThreadPoolExecutor._adjust_thread_count",
            ),
        ];
        assert!(stack(&start).excuse(CauseClass::Lock).is_some());
        let result = [
            ("LIB/threading.py", "Condition.wait"),
            ("LIB/concurrent/futures/_base.py", "Future.result"),
            ("/app/main.py", "handler"),
        ];
        assert_eq!(stack(&result).excuse(CauseClass::Lock), None);
        let join = [
            ("LIB/threading.py", "Thread.join"),
            ("/app/main.py", "handler"),
        ];
        assert_eq!(stack(&join).excuse(CauseClass::Lock), None);
    }

    #[test]
    fn a_thread_that_ends_a_pool_is_no_step() {
        let ends = [
            ("LIB/threading.py", "Thread.join"),
            (
                "LIB/concurrent/futures/thread.py",
                "ThreadPoolExecutor.shutdown",
            ),
            ("LIB/threading.py", "Thread.run"),
        ];
        assert!(!stack(&ends).has_program() && !stack(&[]).has_program());
        assert!(stack(&[("/app/main.py", "handler")]).has_program());
    }

    #[test]
    fn an_import_is_blamed_on_the_line_that_imports() {
        let import = [
            ("<frozen importlib._bootstrap_external>", "_path_stat"),
            ("/app/late.py", "<module>"),
            ("<frozen importlib._bootstrap>", "_find_and_load"),
            ("/app/main.py", "handler"),
        ];
        let (rest, is_import) = stack(&import).without_import();
        assert!(is_import);
        assert_eq!(rest.into_frames()[0].function, "handler");
        let (rest, is_import) = stack(&import[3..]).without_import();
        assert!(!is_import && rest.into_frames().len() == 1);
    }

    #[test]
    fn own_code_is_told_from_installed_code() {
        for own in [
            "/app/main.py",
            "main.py",
            "<string>",
            "<stdin>",
            "/srv/lib/x.py",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "/venv/lib/python3.12/site-packages/fastapi/routing.py",
            "/usr/lib/python3/dist-packages/x.py",
            "/usr/lib/python3.12/socket.py",
            "<frozen runpy>",
            "/venv/bin/uvicorn",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }
}
