//! A certificate and its judgement in the document of `--json`.

use schemars::JsonSchema;
use serde::Serialize;
use unstall_bench_harness::proof::{self, Driven, JudgedRoute, Waits};
use unstall_loop_monitor::cause::{Cause, Frame};
use unstall_loop_monitor::certificate::{
    Certificate, Exemption, Finding, ProofMethod, RouteVerdict,
};

use super::VerdictName;

/// What is proven of one process.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ProofDocument {
    /// Over all routes: the worst of them.
    verdict: VerdictName,
    /// True when it was stopped before every request was sent.
    interrupted: bool,
    /// Unique per start of the process.
    start_id: String,
    /// The program's version, where it knows it.
    commit: Option<String>,
    /// How calls were caught: `syscall-user-dispatch`, `tracing` or `unsupported`.
    method: &'static str,
    /// Why nothing could be caught, when the method is `unsupported`.
    unsupported: Option<String>,
    /// Blocking ones first, then those without proof, then the proven ones.
    routes: Vec<RouteDocument>,
    /// What this proof can't see, in plain words.
    not_covered: Vec<String>,
}

/// One route.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RouteDocument {
    /// `METHOD route-template`.
    route: String,
    /// `proven`, `blocking` or `unproven`.
    verdict: VerdictName,
    /// Why it is unproven, and what to do about it.
    reason: Option<String>,
    /// Requests since the process started.
    requests: u64,
    /// Polls, or steps, that were watched.
    polls: u64,
    /// System calls that were looked at.
    calls: u64,
    /// Calls that can block, the most frequent first.
    findings: Vec<FindingDocument>,
    /// Calls that can block and are allowed to.
    exemptions: Vec<ExemptionDocument>,
    /// Writes to standard output and error: advisory.
    log_writes: u64,
    /// Polls that waited for a page from disk: advisory.
    faulted_polls: u64,
    /// The scenario's requests on it that failed, all or some.
    failures: Vec<FailureDocument>,
    /// Where nothing could be caught: what the loop's counters saw instead.
    waits: Option<WaitsDocument>,
}

/// One place that can block.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FindingDocument {
    /// All of it in one sentence.
    sentence: String,
    /// Times it was made.
    count: u64,
    /// The system call.
    syscall: Option<String>,
    /// A file's path, or who is at the other end: address and, where it is known, name.
    target: Option<String>,
    /// The line to look at: the innermost of the program's own code.
    blamed: Option<FrameDocument>,
    /// The stack, innermost first; empty when it couldn't be read.
    stack: Vec<FrameDocument>,
}

/// One function of a stack.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FrameDocument {
    /// Its name.
    function: String,
    /// Source file, as the debug information or the interpreter spells it.
    file: Option<String>,
    /// Line in the file, from 1.
    line: Option<u32>,
    /// The program's own code, and not a library's.
    is_own: bool,
}

/// One place that may block.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ExemptionDocument {
    /// Why it may.
    reason: String,
    /// Calls made under it.
    count: u64,
}

/// A request of a scenario that failed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FailureDocument {
    /// Its name in the scenario.
    endpoint: String,
    /// How often it failed.
    failed: u64,
    /// How often it was answered as the scenario expects.
    completed: u64,
    /// What a failure looked like.
    example: Option<String>,
}

/// What the loop's counters saw of a route's polls.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct WaitsDocument {
    /// The thread gave up its core by itself.
    slept_ns: u64,
    /// The thread waited for a page from disk.
    fault_ns: u64,
    /// Polls with any.
    polls: u64,
}

impl ProofDocument {
    pub(crate) fn new(
        certificate: &Certificate,
        routes: &[JudgedRoute],
        interrupted: bool,
    ) -> Self {
        let verdict = match proof::overall(routes) {
            // What wasn't sent could have found something.
            RouteVerdict::Proven if interrupted => VerdictName::Inconclusive,
            verdict => verdict.into(),
        };
        let (method, unsupported) = match &certificate.method {
            ProofMethod::SyscallUserDispatch => ("syscall-user-dispatch", None),
            ProofMethod::Tracing => ("tracing", None),
            ProofMethod::Unsupported { reason } => ("unsupported", Some(reason.clone())),
        };
        Self {
            verdict,
            interrupted,
            start_id: certificate.start_id.clone(),
            commit: certificate.commit.clone(),
            method,
            unsupported,
            routes: routes.iter().map(RouteDocument::from).collect(),
            not_covered: certificate.not_covered.clone(),
        }
    }

    /// Over all routes.
    pub(crate) fn verdict(&self) -> VerdictName {
        self.verdict
    }
}

impl From<&JudgedRoute> for RouteDocument {
    fn from(judged: &JudgedRoute) -> Self {
        let proof = &judged.proof;
        Self {
            route: judged.route.clone(),
            verdict: judged.verdict.into(),
            reason: judged.reason.clone(),
            requests: proof.requests,
            polls: proof.polls,
            calls: proof.calls,
            findings: proof.findings.iter().map(FindingDocument::from).collect(),
            exemptions: proof
                .exemptions
                .iter()
                .map(ExemptionDocument::from)
                .collect(),
            log_writes: proof.log_writes,
            faulted_polls: proof.faulted_polls,
            failures: judged.failures.iter().map(FailureDocument::from).collect(),
            waits: judged.waits.map(WaitsDocument::from),
        }
    }
}

impl From<&Finding> for FindingDocument {
    fn from(finding: &Finding) -> Self {
        let Cause {
            syscall,
            target,
            frames,
            ..
        } = &finding.cause;
        Self {
            sentence: finding.cause.to_string(),
            count: finding.count,
            syscall: syscall.clone(),
            target: target.as_ref().map(ToString::to_string),
            blamed: finding.cause.blamed().map(FrameDocument::from),
            stack: frames.iter().map(FrameDocument::from).collect(),
        }
    }
}

impl From<&Frame> for FrameDocument {
    fn from(frame: &Frame) -> Self {
        Self {
            function: frame.function.clone(),
            file: frame.file.clone(),
            line: frame.line,
            is_own: frame.is_own,
        }
    }
}

impl From<&Exemption> for ExemptionDocument {
    fn from(exemption: &Exemption) -> Self {
        Self {
            reason: exemption.reason.clone(),
            count: exemption.count,
        }
    }
}

impl From<&Driven> for FailureDocument {
    fn from(driven: &Driven) -> Self {
        Self {
            endpoint: driven.name.clone(),
            failed: driven.failed,
            completed: driven.completed,
            example: driven.example.clone(),
        }
    }
}

impl From<Waits> for WaitsDocument {
    fn from(waits: Waits) -> Self {
        Self {
            slept_ns: waits.slept_ns,
            fault_ns: waits.fault_ns,
            polls: waits.polls,
        }
    }
}
