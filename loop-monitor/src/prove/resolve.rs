//! From what the handler captured to what a person reads: names, targets and source lines.
//!
//! On an ordinary thread, when a certificate is asked for; files with symbols are read here.

use std::collections::BTreeMap;

use super::Resolved;
use super::scope::Scope;
use super::slots::{self, Captured, SubjectKind};
use crate::cause::{Cause, CauseClass, Frame, Target};
use crate::certificate::{Exemption, Finding};
use crate::process::descriptors::{Descriptors, parse_address};
use crate::process::peers::Peers;
use crate::process::tokio_place::is_folder_of;
use crate::process::{ProcessView, Registers, StackCopy, Stacks};

/// The reason of calls within Tokio's own.
const BLOCK_IN_PLACE: &str = "block_in_place";
/// The reason of locks that a runtime holds for some instructions.
const RUNTIME_LOCK: &str = "a lock inside Tokio, held for some instructions";
/// The reason of what writers of logs wait for among each other.
const LOG_LOCK: &str = "the lock of standard output or error, advisory like what is written there";
/// The reason of the allocator's locks.
const ALLOCATOR_LOCK: &str = "a lock inside the memory allocator";

/// Reads this process's stacks. Remembers symbols, so one serves for a whole certificate.
#[derive(Debug)]
pub(super) struct Resolver {
    stacks: Option<Stacks>,
    descriptors: Descriptors,
}

impl Resolver {
    pub(super) fn new() -> Self {
        let view = ProcessView::own();
        // Without its own /proc a process has no names for its calls; they are findings still.
        let peers = Peers::of(&view).unwrap_or_default();
        Self {
            stacks: Stacks::new(&view).ok(),
            descriptors: Descriptors::new(&view, peers),
        }
    }

    /// What a scope made. The most frequent findings are first.
    pub(super) fn resolve(&mut self, scope: &Scope, endpoint: Option<&str>) -> Resolved {
        let mut findings: BTreeMap<Cause, u64> = BTreeMap::new();
        let mut exemptions: BTreeMap<String, u64> = scope
            .exemptions()
            .into_iter()
            .map(|(reason, count)| (reason.to_owned(), count))
            .collect();
        for (captured, count) in slots::of_scope(scope) {
            let mut cause = self.cause(captured);
            if let Some(reason) = excuse(&cause).filter(|_| !captured.is_of_many) {
                *exemptions.entry(reason.to_owned()).or_default() += count;
                continue;
            }
            cause.endpoint = endpoint.map(str::to_owned);
            *findings.entry(cause).or_default() += count;
        }
        let mut findings: Vec<Finding> = merged(findings);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.count));
        let exemptions = exemptions
            .into_iter()
            .map(|(reason, count)| Exemption { reason, count })
            .collect();
        Resolved {
            findings,
            exemptions,
        }
    }

    fn cause(&mut self, captured: &Captured) -> Cause {
        let name = usize::try_from(captured.number)
            .ok()
            .and_then(syscalls::Sysno::new)
            .map_or_else(
                || format!("system call {}", captured.number),
                |name| name.name().to_owned(),
            );
        Cause {
            class: captured.class,
            syscall: Some(name),
            target: self.target(captured),
            endpoint: None,
            frames: self.frames(captured),
        }
    }

    fn target(&mut self, captured: &Captured) -> Option<Target> {
        let bytes = &captured.subject[..captured.subject_length];
        let unnamed = |what: String| Target { what, name: None };
        match captured.subject_kind {
            SubjectKind::Nothing => None,
            _ if bytes.is_empty() => None,
            SubjectKind::Path => Some(unnamed(String::from_utf8_lossy(bytes).into_owned())),
            SubjectKind::Address => {
                let socket = parse_address(bytes)?;
                Some(self.descriptors.name_socket(&socket))
            }
            SubjectKind::Link => {
                let link = String::from_utf8_lossy(bytes);
                Some(unnamed(match link.split_once(':') {
                    Some(("pipe", _)) => "pipe".to_owned(),
                    Some(("socket", _)) => "socket".to_owned(),
                    Some(("anon_inode", what)) => what.trim_matches(['[', ']']).to_owned(),
                    _ => link.into_owned(),
                }))
            }
        }
    }

    /// By the tables of the stack's copy; by frame pointers alone where those lead further, since
    /// a copy ends somewhere and code made at run time has no tables.
    fn frames(&mut self, captured: &Captured) -> Vec<Frame> {
        let Some(stacks) = &mut self.stacks else {
            return Vec::new();
        };
        let words = &captured.stack[..captured.stack_length];
        let copy = StackCopy {
            start: captured.sp,
            bytes: words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        };
        let registers = Registers {
            ip: captured.ip,
            sp: captured.sp,
            bp: Some(captured.bp),
        };
        // An own process can be read; were it not, the frame pointers tell.
        let unwound = stacks.unwind(registers, &copy).unwrap_or_default();
        let chain = &captured.returns[..captured.returns_length];
        let addresses = continued(unwound, captured.ip, chain);
        stacks.frames_at(&addresses)
    }
}

/// Goes on along the chain from where unwinding ended. Return addresses are looked up within the
/// call before them.
fn continued(mut unwound: Vec<u64>, ip: u64, chain: &[u64]) -> Vec<u64> {
    let lookups = || chain.iter().map(|address| address - 1);
    match unwound.last() {
        None => {
            unwound.push(ip);
            unwound.extend(lookups());
        }
        Some(last) => {
            if let Some(met) = lookups().position(|address| address == *last) {
                unwound.extend(lookups().skip(met + 1));
            } else if unwound.len() == 1 {
                unwound.extend(lookups());
            }
        }
    }
    unwound
}

/// One finding for each place that a person would mend: same call, target and blamed line.
fn merged(findings: BTreeMap<Cause, u64>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for (cause, count) in findings {
        let same = |one: &&mut Finding| {
            one.cause.class == cause.class
                && one.cause.syscall == cause.syscall
                && one.cause.target == cause.target
                && one.cause.blamed() == cause.blamed()
        };
        match merged.iter_mut().find(same) {
            Some(one) => one.count += count,
            None => merged.push(Finding { cause, count }),
        }
    }
    merged
}

/// Why a call that can block is allowed to, as its stack says.
fn excuse(cause: &Cause) -> Option<&'static str> {
    let frames = &cause.frames;
    if frames.iter().any(is_block_in_place) {
        return Some(BLOCK_IN_PLACE);
    }
    if cause.class != CauseClass::Lock {
        return None;
    }
    let taken_at = frames.iter().position(|frame| !is_of_lock(frame))?;
    let (lock, takers) = frames.split_at(taken_at);
    let taker = &takers[0];
    // Allocators are written in C; a function of one's own may have such a name where it is inlined.
    let is_rust = taker
        .file
        .as_deref()
        .is_some_and(|file| file.ends_with(".rs"));
    if !is_rust && is_allocator(&taker.function) {
        return Some(ALLOCATOR_LOCK);
    }
    if !is_contended_lock(lock) {
        None
    } else if is_of_tokio(taker) {
        Some(RUNTIME_LOCK)
    } else {
        let file = taker.file.as_deref().unwrap_or_default();
        // Standard input's is an ordinary mutex, held until somebody has typed a line.
        let is_output = lock.iter().any(is_reentrant);
        (is_output && file.ends_with(STDIO_FILE)).then_some(LOG_LOCK)
    }
}

fn is_reentrant(frame: &Frame) -> bool {
    let file = frame.file.as_deref().unwrap_or_default();
    file.ends_with("/reentrant_lock.rs") || frame.function.contains("ReentrantLock")
}

/// Where the standard library has its standard streams.
const STDIO_FILE: &str = "/library/std/src/io/stdio.rs";

/// By the function's own path: the types that it is made for, after the `<`, are anybody's.
fn is_block_in_place(frame: &Frame) -> bool {
    let path = frame.function.split('<').next().unwrap_or_default();
    let is_named = path.split("::").any(|part| part == "block_in_place");
    is_named && (path.starts_with("tokio::") || is_of_tokio(frame))
}

/// A mutex or a read-write lock, whose holder goes on by itself; and not a condition, or a park,
/// which wait until somebody does something.
fn is_contended_lock(lock: &[Frame]) -> bool {
    let function = |part: &str| lock.iter().any(|frame| frame.function.contains(part));
    (function("_contended") || function("_slow")) && !function("ondvar")
}

/// The system call and what wraps it, up to the lock that the program sees. Inlined functions have
/// short names, so that their files tell.
fn is_of_lock(frame: &Frame) -> bool {
    const FILES: [&str; 5] = [
        "/library/std/src/sys/",
        "/library/std/src/sync/",
        "/src/loom/std/",
        "/parking_lot",
        "/lock_api",
    ];
    const FUNCTIONS: [&str; 5] = ["0x", "syscall", "__lll_lock", "pthread_", "__pthread_"];
    match &frame.file {
        Some(file) => FILES.iter().any(|part| file.contains(part)),
        None => FUNCTIONS
            .iter()
            .any(|start| frame.function.starts_with(start)),
    }
}

/// Files of Tokio whose locks are held while the program's own code runs: by the guard that
/// `watch::Receiver::borrow` gives out and the closure of `send_modify`, by the halves of `split`
/// around the stream's own reads and writes, and while a value of `broadcast` is cloned or dropped.
const HELD_FOR_THE_PROGRAM: [&str; 3] = [
    "/src/sync/watch.rs",
    "/src/io/split.rs",
    "/src/sync/broadcast.rs",
];

/// Tokio's own source, as the registry, git or a vendor's folder holds it, where its locks are held
/// for some instructions.
fn is_of_tokio(frame: &Frame) -> bool {
    let Some(file) = frame.file.as_deref().filter(|_| !frame.is_own) else {
        return false;
    };
    if HELD_FOR_THE_PROGRAM.iter().any(|held| file.ends_with(held)) {
        return false;
    }
    const CRATES: [&str; 2] = ["tokio", "tokio-util"];
    let folders: Vec<&str> = file.split('/').collect();
    folders
        .windows(2)
        .any(|pair| pair[1] == "src" && CRATES.iter().any(|name| is_folder_of(pair[0], name)))
}

/// Names of the C library, and the families of jemalloc and mimalloc.
fn is_allocator(function: &str) -> bool {
    const NAMES: [&str; 10] = [
        "malloc",
        "free",
        "cfree",
        "calloc",
        "realloc",
        "aligned_alloc",
        "posix_memalign",
        "malloc_trim",
        "__libc_malloc",
        "__libc_free",
    ];
    const FAMILIES: [&str; 3] = ["_rjem_", "je_", "mi_"];
    NAMES.contains(&function) || FAMILIES.iter().any(|start| function.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STD: &str = "/rustc/0/library/std/src/sys/sync/mutex/futex.rs";
    const TOKIO: &str = "/x/registry/tokio-1.54.1/src/runtime/io/driver.rs";
    const OWN: &str = "/app/src/main.rs";
    const LOCK: [(&str, &str); 3] = [
        ("0x7f00", ""),
        ("<std::sys::sync::mutex::futex::Mutex>::lock_contended", STD),
        ("lock<T>", "/x/tokio-1.54.1/src/loom/std/mutex.rs"),
    ];

    fn cause(class: CauseClass, stack: &[(&str, &str)]) -> Cause {
        Cause {
            class,
            syscall: None,
            target: None,
            endpoint: None,
            frames: stack
                .iter()
                .map(|(function, file)| Frame {
                    function: (*function).to_owned(),
                    file: Some((*file).to_owned()).filter(|file| !file.is_empty()),
                    line: None,
                    is_own: *file == OWN,
                })
                .collect(),
        }
    }

    #[test]
    fn what_runs_under_block_in_place_is_excused_whatever_it_is() {
        let in_place = ("tokio::task::blocking::block_in_place", TOKIO);
        let stack = [
            ("read", ""),
            ("app::work", OWN),
            in_place,
            ("app::handler", OWN),
        ];
        assert_eq!(excuse(&cause(CauseClass::Io, &stack)), Some(BLOCK_IN_PLACE));
        let outside = [
            ("app::block_in_place", OWN),
            (
                "tokio::runtime::task::harness::poll<app::block_in_place::{closure#0}>",
                TOKIO,
            ),
            ("tokio::task::block_in_place_soon", TOKIO),
        ];
        for other in outside {
            let stack = [("read", ""), other];
            assert_eq!(excuse(&cause(CauseClass::Io, &stack)), None, "{other:?}");
        }
        let generic = ("tokio::task::blocking::block_in_place<app::F, ()>", TOKIO);
        // Inlined, it has its short name.
        let inlined = ("block_in_place<app::F, ()>", TOKIO);
        for inside in [generic, inlined] {
            let stack = [("read", ""), inside];
            let excused = excuse(&cause(CauseClass::Io, &stack));
            assert_eq!(excused, Some(BLOCK_IN_PLACE), "{inside:?}");
        }
    }

    #[test]
    fn locks_of_runtime_and_allocator_are_excused_and_those_of_the_program_are_not() {
        let taken_by = |taker| [LOCK.as_slice(), &[taker, ("app::handler", OWN)]].concat();
        let runtime = taken_by(("add_source", TOKIO));
        assert_eq!(
            excuse(&cause(CauseClass::Lock, &runtime)),
            Some(RUNTIME_LOCK)
        );
        assert_eq!(excuse(&cause(CauseClass::Io, &runtime)), None);
        for file in [
            "/git/tokio/tokio/src/sync/mpsc/list.rs",
            "/x/tokio-util-0.7.1/src/a.rs",
        ] {
            let stack = taken_by(("push", file));
            let excused = excuse(&cause(CauseClass::Lock, &stack));
            assert_eq!(excused, Some(RUNTIME_LOCK), "{file}");
        }
        let stdio = ("lock", "/rustc/0/library/std/src/io/stdio.rs");
        let reentrant = ("lock", "/rustc/0/library/std/src/sync/reentrant_lock.rs");
        let log = [&LOCK[..2], &[reentrant, stdio, ("app::handler", OWN)]].concat();
        assert_eq!(excuse(&cause(CauseClass::Lock, &log)), Some(LOG_LOCK));
        let others = [
            ("app::cache::get", OWN),
            ("pool::get", "/x/tokio-postgres-0.7.1/src/pool.rs"),
            ("get", "/x/tokiofake-1.0.0/src/lib.rs"),
            ("get", "/app/src/tokio/cache.rs"),
            ("get", "/app/tokio/cache/src/lib.rs"),
            // Of standard input.
            stdio,
            // Own functions, inlined.
            ("free", OWN),
            ("mi_score", OWN),
            // Held while the program's code runs.
            ("send", "/x/registry/tokio-1.54.1/src/sync/broadcast.rs"),
            ("borrow", "/x/registry/tokio-1.54.1/src/sync/watch.rs"),
            ("poll_read", "/x/registry/tokio-1.54.1/src/io/split.rs"),
        ];
        for other in others {
            let stack = taken_by(other);
            assert_eq!(excuse(&cause(CauseClass::Lock, &stack)), None, "{other:?}");
        }
        let allocator = [
            ("0x7f00", ""),
            ("__lll_lock_wait_private", ""),
            ("malloc", ""),
            ("app::handler", OWN),
        ];
        assert_eq!(
            excuse(&cause(CauseClass::Lock, &allocator)),
            Some(ALLOCATOR_LOCK)
        );
    }

    #[test]
    fn a_thread_that_parks_in_the_runtime_waits_for_an_event() {
        let condition = "/rustc/0/library/std/src/sys/sync/condvar/futex.rs";
        let stack = [
            ("0x7f00", ""),
            ("<std::sys::sync::condvar::futex::Condvar>::wait", condition),
            ("wait", "/x/tokio-1.54.1/src/loom/std/mutex.rs"),
            ("tokio::runtime::park::Inner::park", TOKIO),
            ("tokio::sync::mutex::Mutex<T>::blocking_lock", TOKIO),
        ];
        assert_eq!(excuse(&cause(CauseClass::Lock, &stack)), None);
    }

    #[test]
    fn a_chain_goes_on_where_the_copy_ends() {
        assert_eq!(continued(vec![], 5, &[11, 21]), [5, 10, 20]);
        assert_eq!(continued(vec![5], 5, &[11, 21]), [5, 10, 20]);
        assert_eq!(
            continued(vec![5, 7, 10], 5, &[11, 21, 31]),
            [5, 7, 10, 20, 30]
        );
        assert_eq!(continued(vec![5, 7, 8], 5, &[11, 21]), [5, 7, 8]);
    }
}
