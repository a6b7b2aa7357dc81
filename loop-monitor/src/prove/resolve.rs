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
use crate::process::{ProcessView, Registers, StackCopy, Stacks};

/// The reason of calls within Tokio's own.
const BLOCK_IN_PLACE: &str = "block_in_place";
/// The reason of locks that a runtime holds for some instructions.
const RUNTIME_LOCK: &str = "a lock inside Tokio's scheduler, never held across a wait";
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
            if let Some(reason) = excuse(&cause) {
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
    if frames
        .iter()
        .any(|frame| is_block_in_place(&frame.function))
    {
        return Some(BLOCK_IN_PLACE);
    }
    if cause.class != CauseClass::Lock {
        return None;
    }
    // The innermost function that isn't the lock itself.
    let taker = frames.iter().find(|frame| !is_of_lock(&frame.function))?;
    let waits_for_event = frames
        .iter()
        .take_while(|frame| is_of_lock(&frame.function))
        .any(|frame| frame.function.contains("ondvar") || frame.function.contains("park"));
    let function = taker.function.trim_start_matches('<');
    if waits_for_event {
        None
    } else if ALLOCATOR.contains(&function) {
        Some(ALLOCATOR_LOCK)
    } else if function.starts_with("tokio::runtime::") || function.starts_with("tokio::loom::") {
        Some(RUNTIME_LOCK)
    } else {
        None
    }
}

/// The C library's names, and Rust's for them.
const ALLOCATOR: [&str; 11] = [
    "malloc",
    "free",
    "cfree",
    "calloc",
    "realloc",
    "aligned_alloc",
    "posix_memalign",
    "_int_malloc",
    "_int_free",
    "__libc_malloc",
    "__libc_free",
];

fn is_block_in_place(function: &str) -> bool {
    function.starts_with("tokio::") && function.contains("::block_in_place")
}

/// The system call and what wraps it, up to the lock that the program sees.
fn is_of_lock(function: &str) -> bool {
    function.starts_with("0x")
        || function == "syscall"
        || function.starts_with("__lll_lock")
        || function.starts_with("pthread_")
        || function.starts_with("__pthread_")
        || function.trim_start_matches('<').starts_with("std::sys::")
        || function.trim_start_matches('<').starts_with("std::sync::")
        || function.starts_with("tokio::loom::std::")
        || function.starts_with("<tokio::loom::std::")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(class: CauseClass, functions: &[&str]) -> Cause {
        Cause {
            class,
            syscall: None,
            target: None,
            endpoint: None,
            frames: functions
                .iter()
                .map(|function| Frame {
                    function: (*function).to_owned(),
                    file: None,
                    line: None,
                    is_own: false,
                })
                .collect(),
        }
    }

    #[test]
    fn what_runs_under_block_in_place_is_excused_whatever_it_is() {
        let stack = [
            "read",
            "app::work",
            "tokio::task::blocking::block_in_place",
            "app::handler",
        ];
        assert_eq!(excuse(&cause(CauseClass::Io, &stack)), Some(BLOCK_IN_PLACE));
        let outside = ["read", "app::block_in_place"];
        assert_eq!(excuse(&cause(CauseClass::Io, &outside)), None);
    }

    #[test]
    fn locks_of_runtime_and_allocator_are_excused_and_those_of_the_program_are_not() {
        let lock = [
            "syscall",
            "std::sys::pal::unix::futex::futex_wait",
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
        ];
        let with = |taker: &'static str| [lock.as_slice(), &[taker, "app::handler"]].concat();
        let runtime = with("tokio::runtime::blocking::pool::Spawner::spawn_task");
        assert_eq!(
            excuse(&cause(CauseClass::Lock, &runtime)),
            Some(RUNTIME_LOCK)
        );
        assert_eq!(excuse(&cause(CauseClass::Io, &runtime)), None);
        let program = with("app::cache::get");
        assert_eq!(excuse(&cause(CauseClass::Lock, &program)), None);
        let allocator = [
            "0x7f00",
            "__lll_lock_wait_private",
            "malloc",
            "app::handler",
        ];
        assert_eq!(
            excuse(&cause(CauseClass::Lock, &allocator)),
            Some(ALLOCATOR_LOCK)
        );
    }

    #[test]
    fn a_thread_that_parks_in_the_runtime_waits_for_an_event() {
        let stack = [
            "syscall",
            "std::sys::sync::condvar::futex::Condvar::wait",
            "tokio::loom::std::parking_lot::Condvar::wait",
            "tokio::runtime::park::Inner::park",
            "tokio::sync::mutex::Mutex<T>::blocking_lock",
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
