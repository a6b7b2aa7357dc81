//! Issues a monitor's certificate.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use http::Method;

use super::{Resolver, Scope};
use crate::cause::{Cause, CauseClass, how_to_get_lines};
use crate::certificate::{
    Certificate, Finding, ProofMethod, RouteProof, SCHEMA_MAJOR, SCHEMA_MINOR, SCHEMA_NAME,
};
use crate::monitor::Monitor;
use crate::wire::Schema;

/// True of every proof from inside.
const NEVER_COVERED: [&str; 5] = [
    "calls between polls, of tasks that no monitor wraps, and of other threads",
    "a service's `poll_ready`, which belongs to no request yet",
    "what the kernel does without a call: page faults, and a ring whose kernel thread submits \
     (SQPOLL); clock reads in the vDSO, which never wait",
    "time that is computed away: a long computation, or a loop that spins on sched_yield, holds the \
     loop and makes no call that waits",
    "close, fstat and lseek of a file on a network or FUSE file system, and paths of Unix sockets",
];

impl Monitor {
    /// What was proven so far. Reads symbols of this program: not for a loop's own thread.
    ///
    /// Routes that were [declared](Monitor::declare_route) and not asked for are in it with no
    /// request. Where calls aren't caught, its method says why.
    #[must_use]
    pub fn certificate(&self) -> Certificate {
        let state = &self.inner;
        let mut resolver = Resolver::new();
        let mut routes = BTreeMap::new();
        let mut not_covered: Vec<String> = NEVER_COVERED.map(str::to_owned).to_vec();
        if !state.kernel.see_sleeps {
            let blind = "sleeps and faults without a call: this kernel's counters don't show them";
            not_covered.push(blind.to_owned());
        }
        for cells in state.meter.endpoints().all() {
            let counters = cells.to_wire();
            let key = cells.key();
            if counters.requests == 0 && !self.is_declared(&key) {
                continue;
            }
            let requests = if state.proof.is_on {
                counters.requests
            } else {
                0
            };
            let proof = route_proof(&cells.proof, requests, &key, &mut resolver);
            not_covered.extend(doubts(&cells.proof, &key));
            routes.insert(key, proof);
        }
        let declared = state.proof.declared.lock();
        for key in declared.unwrap_or_else(PoisonError::into_inner).iter() {
            routes.entry(key.clone()).or_default();
        }
        let findings = routes.values().flat_map(|route| &route.findings);
        if let Some(words) = how_to_get_lines(findings.map(|finding| &finding.cause)) {
            not_covered.push(format!("source lines: {words}"));
        }
        Certificate {
            schema: Schema {
                name: SCHEMA_NAME.to_owned(),
                major: SCHEMA_MAJOR,
                minor: SCHEMA_MINOR,
            },
            start_id: state.start_id.clone(),
            commit: state.proof.commit.clone(),
            method: state.proof.method.clone(),
            routes,
            not_covered,
        }
    }

    /// Names a route that the certificate must speak of, also when nobody asks for it: `template`
    /// as the router knows it.
    ///
    /// ```
    /// use unstall_loop_monitor::Monitor;
    /// use unstall_loop_monitor::certificate::RouteVerdict;
    ///
    /// let monitor = Monitor::builder().build();
    /// monitor.declare_route(&http::Method::GET, "/users/{id}");
    /// let certificate = monitor.certificate();
    /// assert_eq!(certificate.verdict("GET /users/{id}"), RouteVerdict::Unproven);
    /// ```
    pub fn declare_route(&self, method: &Method, template: &str) {
        let declared = self.inner.proof.declared.lock();
        let mut declared = declared.unwrap_or_else(PoisonError::into_inner);
        declared.insert(format!("{method} {template}"));
    }

    /// How calls are caught.
    #[must_use]
    pub fn proof_method(&self) -> &ProofMethod {
        &self.inner.proof.method
    }

    fn is_declared(&self, key: &str) -> bool {
        let declared = self.inner.proof.declared.lock();
        let declared = declared.unwrap_or_else(PoisonError::into_inner);
        declared.contains(key)
    }
}

fn route_proof(scope: &Scope, requests: u64, key: &str, resolver: &mut Resolver) -> RouteProof {
    let resolved = resolver.resolve(scope, Some(key));
    let mut findings = resolved.findings;
    let lost = scope.lost.load(Relaxed);
    if lost > 0 {
        findings.push(Finding {
            cause: nowhere(key),
            count: lost,
        });
    }
    // One poll that wasn't watched is enough for no proof.
    let all_watched = scope.unwatched_polls.load(Relaxed) == 0;
    RouteProof {
        requests,
        polls: if all_watched {
            scope.polls.load(Relaxed)
        } else {
            0
        },
        calls: scope.calls.load(Relaxed),
        findings,
        exemptions: resolved.exemptions,
        log_writes: scope.log_writes.load(Relaxed),
        faulted_polls: scope.faulted_polls.load(Relaxed),
    }
}

/// More places can block than are kept apart: of the rest there is a count and no line.
fn nowhere(key: &str) -> Cause {
    Cause {
        class: CauseClass::Unknown,
        syscall: None,
        target: None,
        endpoint: Some(key.to_owned()),
        frames: Vec::new(),
    }
}

const TOO_MANY_PLACES: &str = "calls that can block came from more places than are told apart: they \
                               count as findings, though exempt ones may be among them";

/// What the kernel's counters saw on a route that no call explains.
fn doubts(scope: &Scope, key: &str) -> Vec<String> {
    let counts = [
        (
            &scope.slept_polls,
            "polls slept without a call that can block: a lock or a page of the kernel's",
        ),
        (
            &scope.unwatched_polls,
            "polls ran while the kernel didn't watch their thread, or after another library had \
             taken SIGSYS, so nothing is proven",
        ),
        (&scope.lost, TOO_MANY_PLACES),
        (&scope.crowded, TOO_MANY_PLACES),
    ];
    counts
        .into_iter()
        .map(|(count, what)| (count.load(Relaxed), what))
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{key}: {count} {what}"))
        .collect()
}
