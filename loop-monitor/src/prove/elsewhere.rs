//! Where the kernel can't catch calls: everything else works, and says so.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

/// Always refused.
pub(super) fn support() -> Result<(), &'static str> {
    Err("calls can be caught on Linux for x86-64 only (Syscall User Dispatch)")
}

/// Counts nothing.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub(super) polls: AtomicU64,
    pub(super) unwatched_polls: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) log_writes: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) crowded: AtomicU64,
    pub(super) slept_polls: AtomicU64,
    pub(super) faulted_polls: AtomicU64,
}

/// Catches nothing.
#[derive(Debug)]
pub(crate) struct Armed<'scope>(PhantomData<&'scope Scope>);

impl<'scope> Armed<'scope> {
    pub(crate) fn enter(_: &'scope Scope) -> Self {
        Self(PhantomData)
    }

    pub(crate) fn is_on() -> bool {
        false
    }
}

pub(super) fn exempt<T>(_: &'static str, allowed: impl FnOnce() -> T) -> T {
    allowed()
}

/// Names nothing.
#[derive(Debug)]
pub(super) struct Resolver;

impl Resolver {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn resolve(&mut self, _: &Scope, _: Option<&str>) -> super::Resolved {
        super::Resolved::default()
    }
}
