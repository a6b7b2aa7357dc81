//! What every test here needs: a service, requests to it, and `unstall watch` on it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use unstall_loop_monitor::watched::{WatchSummary, WatchedCause};

/// A busy machine starts things slowly.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A process that ends with the test.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
}

impl Service {
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).spawn();
        Self {
            child: child.unwrap_or_else(|error| panic!("{command:?}: {error}")),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a port of this machine takes connections.
    pub(crate) fn wait_for(&mut self, address: SocketAddr) {
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "the service ended: {ended:?}");
            assert!(begin.elapsed() < READY_WITHIN, "{address} isn't served");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound")
}

/// What the target folder has beside the tests' own programs.
pub(crate) fn built(path: &str, by: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_unstall"))
        .ancestors()
        .map(|folder| folder.join(path))
        .find(|built| built.exists())
        .unwrap_or_else(|| panic!("{path} is missing in the target folder; run {by}"))
}

/// The Python environment that `./dev` makes.
pub(crate) fn python() -> PathBuf {
    built("python/bin/python", "./dev setup")
}

/// One GET; the answer's status line, empty if there was none.
pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(READY_WITHIN))?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    };
    // The service may be told to end while a request is under way.
    ask().unwrap_or_default()
}

/// Requests one after the other, until it is dropped.
#[derive(Debug)]
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn of(address: SocketAddr, paths: &'static [&'static str]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let thread = thread::spawn(move || {
            for path in paths.iter().cycle() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                get(address, path);
            }
        });
        Self {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("requests are sent");
        }
    }
}

/// `unstall watch` until it is told to end.
pub(crate) fn watch_command(pid: u32) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstall"));
    command.args(["watch", "--json", "--pid", &pid.to_string()]);
    command.stdin(Stdio::null());
    command
}

/// Runs it for so many seconds and reads its document.
pub(crate) fn watch(pid: u32, seconds: u64) -> WatchSummary {
    watch_while(pid, || thread::sleep(Duration::from_secs(seconds)))
}

/// Watches a process while something is done with it, which begins once its loop was found.
pub(crate) fn watch_while(pid: u32, work: impl FnOnce()) -> WatchSummary {
    let mut command = watch_command(pid);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = command.spawn().expect("unstall starts");
    let mut said = BufReader::new(watch.stderr.take().expect("piped"));
    let mut all = String::new();
    while !all.contains("Watching") {
        let read = said.read_line(&mut all).expect("UTF-8");
        assert!(read > 0, "it ended: {all}");
    }
    // Somebody must read what it says, or it waits for that.
    let rest = thread::spawn(move || {
        let mut rest = String::new();
        said.read_to_string(&mut rest).map(|_| rest)
    });
    work();
    let watching = Pid::from_raw(i32::try_from(watch.id()).expect("a pid"));
    // It ends by itself when the process does.
    let _ = kill(watching, Signal::SIGINT);
    let output = watch.wait_with_output().expect("it ends");
    let rest = rest.join().expect("read").expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{all}{rest}");
    let summary = summary_of(&output.stdout);
    assert_conserved(&summary);
    summary
}

/// The document on stdout, held against the shipped schema.
pub(crate) fn summary_of(stdout: &[u8]) -> WatchSummary {
    let document: Value = serde_json::from_slice(stdout).expect("a document");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/result.schema.json");
    let schema = std::fs::read_to_string(path).expect("the shipped schema");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let mistakes: Vec<String> = validator
        .iter_errors(&document)
        .map(|mistake| mistake.to_string())
        .collect();
    assert!(mistakes.is_empty(), "{mistakes:#?}");
    assert_eq!(document["command"], "watch");
    serde_json::from_value(document["watch"].clone()).expect("a summary")
}

/// Idle, running, waiting for a core, for the interpreter and blocked add up to the time that a
/// loop was watched: for all of them no longer than the watch, and for the first just as long, but
/// for the moment between its last record and the summary.
#[track_caller]
pub(crate) fn assert_conserved(summary: &WatchSummary) {
    assert!(!summary.loops.is_empty(), "{summary:#?}");
    let times = summary.loops.iter().map(|watched| {
        watched.idle_ns
            + watched.running_ns
            + watched.runqueue_ns
            + watched.gil_ns
            + watched.blocked_ns
    });
    let times: Vec<u64> = times.collect();
    for time_ns in &times {
        assert!(
            *time_ns <= summary.duration_ns + 1_000_000_000,
            "{summary:#?}"
        );
    }
    let longest = times.into_iter().max().expect("a loop");
    assert!(longest >= summary.duration_ns / 2, "{summary:#?}");
    let blocked: u64 = summary.loops.iter().map(|watched| watched.blocked_ns).sum();
    let named: u64 = summary.causes.iter().map(|cause| cause.total_ns).sum();
    assert_eq!(blocked, named, "{summary:#?}");
}

/// The causes that read like this.
pub(crate) fn reading<'a>(summary: &'a WatchSummary, words: &[&str]) -> Vec<&'a WatchedCause> {
    let reads = |cause: &&WatchedCause| {
        let text = cause.cause.to_string();
        words.iter().all(|word| text.contains(word))
    };
    summary.causes.iter().filter(reads).collect()
}

#[track_caller]
pub(crate) fn assert_named(summary: &WatchSummary, words: &[&str]) {
    let causes: Vec<String> = summary
        .causes
        .iter()
        .map(|watched| format!("{} × {}", watched.count, watched.cause))
        .collect();
    assert!(
        !reading(summary, words).is_empty(),
        "nothing with {words:?} in {causes:#?}\n{:#?}",
        summary.notes
    );
}
