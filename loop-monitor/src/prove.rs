//! Proves that exercised paths make no call that can block, and names those that do.
//!
//! While a poll is monitored, and only then, the kernel hands every system call of its thread to
//! this module (Syscall User Dispatch), which judges it by the
//! [rules](crate::blocking_rules), makes it, and goes on. So a call counts that returned at once
//! this time, which no clock would have seen. Linux 5.11 or later on x86-64; elsewhere a
//! certificate says why not, and nothing is proven.
//!
//! In a service: [`MonitorBuilder::prove_from_environment`](crate::MonitorBuilder) and
//! [`Monitor::certificate`](crate::Monitor::certificate). In a test: [`assert_never_blocks`].
//!
//! What happens to the program meanwhile: its calls have the same results, at a price of some
//! microseconds each. SIGSYS belongs to this module and is never blocked where calls are caught,
//! neither by a mask nor while another handler runs; others' SIGSYS go to the handler that was
//! there before. (A handler that is set outside of polls later, and blocks SIGSYS while it runs,
//! ends the process when it interrupts a watched poll. When a thread is first watched, masks of
//! handlers are mended one by one; a handler that another thread sets at that very moment may be
//! away for some instructions before it is put back.) Once a library has taken SIGSYS for itself,
//! polls are no longer watched, and their routes are unproven; one that takes it while a poll runs
//! on another thread gets that poll's calls. A child process isn't watched. Stacks of
//! coroutines are watched, and their findings have no lines. 32-bit calls (`int 0x80`) of a 64-bit
//! program are taken for 64-bit ones: there must be none.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod arming;
mod assertion;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod dispatch;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod elsewhere;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod facts;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod gate;
mod issue;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod resolve;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod scope;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod slots;
#[cfg(all(feature = "outside", target_os = "linux", target_arch = "x86_64"))]
pub(crate) mod stops;
#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod walk;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) use self::elsewhere::{Armed, Scope};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use self::{arming as kernel, resolve::Resolver};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use self::{arming::Armed, scope::Scope};
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
use self::{elsewhere as kernel, elsewhere::Resolver};

use std::collections::BTreeSet;
use std::sync::Mutex;

use nix::sys::resource::{UsageWho, getrusage};

use crate::certificate::{Exemption, Finding, ProofMethod};

pub use assertion::{AssertNeverBlocks, assert_never_blocks, assert_route_never_blocks};

/// Whether a monitor proves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Proof {
    /// No call is caught.
    #[default]
    Off,
    /// Every call inside a monitored poll is caught, where the kernel can.
    SystemCalls,
}

/// Allows what `allowed` calls to block, for a reason that the certificate tells.
///
/// For a call that is known to return at once, or a moment at which nobody else is on the loop.
/// Outside of a proof it only calls `allowed`.
///
/// ```
/// use unstall_loop_monitor::prove;
///
/// let hosts = prove::exempt("read once, at the first request", || {
///     std::fs::read_to_string("/etc/hosts")
/// });
/// # assert!(hosts.is_ok());
/// ```
pub fn exempt<T>(reason: &'static str, allowed: impl FnOnce() -> T) -> T {
    kernel::exempt(reason, allowed)
}

/// How calls are caught in this process. The first to ask waits some milliseconds for a trial.
#[must_use]
pub fn method() -> ProofMethod {
    match kernel::support() {
        Ok(()) => ProofMethod::SyscallUserDispatch,
        Err(reason) => ProofMethod::Unsupported {
            reason: reason.to_owned(),
        },
    }
}

/// What a scope's captures came to.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) findings: Vec<Finding>,
    pub(crate) exemptions: Vec<Exemption>,
}

/// A monitor's part in it.
#[derive(Debug)]
pub(crate) struct ProofState {
    /// Asked for, and the kernel can: polls are armed.
    pub(crate) is_on: bool,
    method: ProofMethod,
    commit: Option<String>,
    /// `METHOD template` of routes that must be in the certificate.
    declared: Mutex<BTreeSet<String>>,
}

impl ProofState {
    pub(crate) fn new(proof: Proof) -> Self {
        let method = match proof {
            Proof::Off => ProofMethod::Unsupported {
                reason: format!(
                    "this service doesn't prove: set {}=1 in its environment, or build its \
                     monitor with `prove(Proof::SystemCalls)`",
                    crate::certificate::PROVE_VARIABLE
                ),
            },
            Proof::SystemCalls => method(),
        };
        Self {
            is_on: method == ProofMethod::SyscallUserDispatch,
            method,
            // Not set, or not text: the certificate is of an unknown version.
            commit: std::env::var(COMMIT_VARIABLE).ok(),
            declared: Mutex::default(),
        }
    }
}

/// The program's version, if it wants to be told in the certificate.
const COMMIT_VARIABLE: &str = "UNSTALL_COMMIT";

/// Voluntary switches and major faults of the calling thread.
fn sleeps_and_faults() -> Option<(i64, i64)> {
    // It has no way to fail for the calling thread; were there one, nothing is said of the poll.
    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    Some((
        usage.voluntary_context_switches(),
        usage.major_page_faults(),
    ))
}
