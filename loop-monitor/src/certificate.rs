//! The certificate: per route, whether the exercised paths make a call that can block.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::wire::Schema;

/// Where a service that proves answers with its certificate.
pub const CERTIFICATE_PATH: &str = "/__unstall/certificate";
/// Set to `1` in a service's environment, it asks for a proof.
pub const PROVE_VARIABLE: &str = "UNSTALL_PROVE";
/// The schema name of [`Certificate`].
pub const SCHEMA_NAME: &str = "unstall.certificate";
/// Bumped when a field changes its meaning or disappears.
pub const SCHEMA_MAJOR: u32 = 1;
/// Bumped when a field is added.
pub const SCHEMA_MINOR: u32 = 1;

/// What was proven, for one process and its time so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Certificate {
    /// Name and version of this form.
    pub schema: Schema,
    /// Unique per process start; that of the process's snapshot, where it has one.
    pub start_id: String,
    /// The program's version: `UNSTALL_COMMIT` of its environment, where set.
    #[serde(default)]
    pub commit: Option<String>,
    /// How calls are caught.
    pub method: ProofMethod,
    /// `METHOD route-template` → what its exercised paths did. Declared routes that no request
    /// reached are here with none.
    pub routes: BTreeMap<String, RouteProof>,
    /// What this proof can't see here, in plain words.
    pub not_covered: Vec<String>,
}

/// How calls are caught.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum ProofMethod {
    /// By the kernel, inside polls only (Syscall User Dispatch).
    SyscallUserDispatch,
    /// By another process, on the event loops' threads (ptrace).
    Tracing,
    /// Not at all: nothing is proven.
    Unsupported {
        /// Why, and what to do.
        reason: String,
    },
}

/// One route's exercised paths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteProof {
    /// Requests begun while calls were caught.
    pub requests: u64,
    /// Polls, or steps, that were watched.
    pub polls: u64,
    /// System calls that were looked at.
    pub calls: u64,
    /// Calls that can block, the most frequent first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Calls that can block and are allowed to, each with its reason.
    #[serde(default)]
    pub exemptions: Vec<Exemption>,
    /// Writes to standard output and error: advisory.
    #[serde(default)]
    pub log_writes: u64,
    /// Polls that waited for a page from disk, by the kernel's count of major faults: advisory,
    /// since it tells of what happened to be in memory. Always 0 where calls are caught by tracing.
    #[serde(default)]
    pub faulted_polls: u64,
}

/// One place that can block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The call and its line.
    pub cause: Cause,
    /// Times it was made.
    pub count: u64,
}

/// One place that may block, and why it may.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Exemption {
    /// `block_in_place`, or the program's own words.
    pub reason: String,
    /// Calls made under it.
    pub count: u64,
}

/// What a certificate says of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RouteVerdict {
    /// No blocking-capable system call on the exercised paths.
    Proven,
    /// At least one.
    Blocking,
    /// No request, or nothing could be caught: as bad as blocking.
    Unproven,
}

impl Certificate {
    /// What it says of a route; a route that it doesn't know is unproven.
    #[must_use]
    pub fn verdict(&self, route: &str) -> RouteVerdict {
        let caught = !matches!(self.method, ProofMethod::Unsupported { .. });
        match self.routes.get(route) {
            Some(proof) if !proof.findings.is_empty() => RouteVerdict::Blocking,
            Some(proof) if caught && proof.requests > 0 && proof.polls > 0 => RouteVerdict::Proven,
            _ => RouteVerdict::Unproven,
        }
    }
}

impl fmt::Display for RouteVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Proven => "proven",
            Self::Blocking => "blocking",
            Self::Unproven => "unproven",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::CauseClass;

    fn certificate(method: ProofMethod, proof: RouteProof) -> Certificate {
        Certificate {
            schema: Schema {
                name: SCHEMA_NAME.to_owned(),
                major: SCHEMA_MAJOR,
                minor: SCHEMA_MINOR,
            },
            start_id: "1".to_owned(),
            commit: None,
            method,
            routes: BTreeMap::from([("GET /x".to_owned(), proof)]),
            not_covered: Vec::new(),
        }
    }

    fn exercised() -> RouteProof {
        RouteProof {
            requests: 1,
            polls: 2,
            ..RouteProof::default()
        }
    }

    #[test]
    fn a_route_is_proven_only_if_it_was_exercised_and_watched() {
        let caught = || ProofMethod::SyscallUserDispatch;
        let proven = certificate(caught(), exercised());
        assert_eq!(proven.verdict("GET /x"), RouteVerdict::Proven);
        assert_eq!(proven.verdict("GET /y"), RouteVerdict::Unproven);
        let idle = certificate(caught(), RouteProof::default());
        assert_eq!(idle.verdict("GET /x"), RouteVerdict::Unproven);
        let reason = "not Linux".to_owned();
        let blind = certificate(ProofMethod::Unsupported { reason }, exercised());
        assert_eq!(blind.verdict("GET /x"), RouteVerdict::Unproven);
    }

    #[test]
    fn one_finding_is_enough() {
        let cause = Cause {
            class: CauseClass::Sleep,
            syscall: None,
            target: None,
            endpoint: None,
            frames: Vec::new(),
        };
        let proof = RouteProof {
            findings: vec![Finding { cause, count: 1 }],
            ..exercised()
        };
        let blocking = certificate(ProofMethod::Tracing, proof);
        assert_eq!(blocking.verdict("GET /x"), RouteVerdict::Blocking);
    }
}
