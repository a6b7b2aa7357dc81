//! What a trace has found so far, by route: the certificate in the making.

use std::collections::BTreeMap;

use super::trace_event::{OUTSIDE_REQUESTS, WHOLE_LOOP};
use super::tracer::Identity;
use super::tracer_routes::EndpointCounts;
use crate::cause::Cause;
use crate::certificate::{
    Certificate, Exemption, Finding, ProofMethod, RouteProof, SCHEMA_MAJOR, SCHEMA_MINOR,
    SCHEMA_NAME,
};
use crate::wire::Schema;

/// What was seen on one route.
#[derive(Debug, Default)]
struct Route {
    calls: u64,
    log_writes: u64,
    findings: BTreeMap<Cause, u64>,
    exemptions: BTreeMap<String, u64>,
}

/// What a trace has found so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    routes: BTreeMap<String, Route>,
    /// Requests and steps before the trace, by endpoint.
    before: BTreeMap<String, (u64, u64)>,
    /// The same now.
    now: Vec<EndpointCounts>,
    /// Waits of the loop for events: each one ends a turn, which stands for a step where no
    /// middleware counts them.
    turns: u64,
}

impl Ledger {
    pub(super) fn add_calls(&mut self, route: &str, calls: u64, log_writes: u64) {
        let route = self.route(route);
        route.calls += calls;
        route.log_writes += log_writes;
    }

    pub(super) fn count_turn(&mut self) {
        self.turns += 1;
    }

    /// Gives the cause back with its endpoint.
    pub(super) fn add_finding(&mut self, route: &str, mut cause: Cause) -> Cause {
        let is_endpoint = ![WHOLE_LOOP, OUTSIDE_REQUESTS].contains(&route);
        cause.endpoint = is_endpoint.then(|| route.to_owned());
        *self.route(route).findings.entry(cause.clone()).or_default() += 1;
        cause
    }

    pub(super) fn add_exemption(&mut self, route: &str, reason: &str) {
        let exemptions = &mut self.route(route).exemptions;
        *exemptions.entry(reason.to_owned()).or_default() += 1;
    }

    /// Takes what the middleware has counted; the first time it is what was there before.
    pub(super) fn take_counts(&mut self, counts: Vec<EndpointCounts>, is_start: bool) {
        if is_start {
            let before = counts.iter();
            let before = before.map(|it| (it.name.clone(), (it.requests, it.steps)));
            self.before = before.collect();
        }
        self.now = counts;
    }

    fn route(&mut self, route: &str) -> &mut Route {
        self.routes.entry(route.to_owned()).or_default()
    }

    /// The certificate as it stands.
    pub(super) fn certificate(&self, identity: &Identity) -> Certificate {
        let mut routes: BTreeMap<String, RouteProof> = BTreeMap::new();
        for counts in &self.now {
            let (requests, steps) = self.before.get(&counts.name).copied().unwrap_or((0, 0));
            let proof = routes.entry(counts.name.clone()).or_default();
            proof.requests = counts.requests.saturating_sub(requests);
            proof.polls = counts.steps.saturating_sub(steps);
        }
        for (name, route) in &self.routes {
            route.write_into(routes.entry(name.clone()).or_default());
        }
        let whole = if self.now.is_empty() {
            WHOLE_LOOP
        } else {
            OUTSIDE_REQUESTS
        };
        let whole = routes.entry(whole.to_owned()).or_default();
        (whole.requests, whole.polls) = (self.turns, self.turns);
        Certificate {
            schema: Schema {
                name: SCHEMA_NAME.to_owned(),
                major: SCHEMA_MAJOR,
                minor: SCHEMA_MINOR,
            },
            start_id: identity.start_id.clone(),
            commit: identity.commit.clone(),
            method: ProofMethod::Tracing,
            routes,
            not_covered: identity.not_covered.clone(),
        }
    }
}

impl Route {
    fn write_into(&self, proof: &mut RouteProof) {
        proof.calls = self.calls;
        proof.log_writes = self.log_writes;
        let findings = self.findings.iter().map(|(cause, count)| Finding {
            cause: cause.clone(),
            count: *count,
        });
        proof.findings = findings.collect();
        proof
            .findings
            .sort_by_key(|finding| std::cmp::Reverse(finding.count));
        let exemptions = self.exemptions.iter().map(|(reason, count)| Exemption {
            reason: reason.clone(),
            count: *count,
        });
        proof.exemptions = exemptions.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::CauseClass;
    use crate::certificate::RouteVerdict;

    fn counts(name: &str, requests: u64, steps: u64) -> EndpointCounts {
        EndpointCounts {
            name: name.to_owned(),
            requests,
            steps,
        }
    }

    fn identity() -> Identity {
        Identity {
            start_id: "1".to_owned(),
            commit: None,
            not_covered: Vec::new(),
        }
    }

    fn cause() -> Cause {
        Cause {
            class: CauseClass::Sleep,
            syscall: Some("clock_nanosleep".to_owned()),
            target: None,
            endpoint: None,
            frames: Vec::new(),
        }
    }

    #[test]
    fn only_requests_of_the_trace_count_and_each_finding_has_its_route() {
        let mut ledger = Ledger::default();
        ledger.take_counts(vec![counts("GET /old", 5, 9)], true);
        ledger.add_finding("GET /new", cause());
        ledger.add_finding("GET /new", cause());
        ledger.add_calls("GET /new", 1, 0);
        let now = vec![counts("GET /old", 5, 9), counts("GET /new", 2, 3)];
        ledger.take_counts(now, false);
        let certificate = ledger.certificate(&identity());
        assert_eq!(certificate.verdict("GET /old"), RouteVerdict::Unproven);
        assert_eq!(certificate.verdict("GET /new"), RouteVerdict::Blocking);
        let proof = &certificate.routes["GET /new"];
        assert_eq!(
            (proof.requests, proof.polls, proof.findings[0].count),
            (2, 3, 2)
        );
        let endpoint = proof.findings[0].cause.endpoint.as_deref();
        assert_eq!(endpoint, Some("GET /new"));
        assert_eq!(proof.calls, 1);
    }

    #[test]
    fn an_exemption_is_listed_and_no_finding() {
        let mut ledger = Ledger::default();
        ledger.take_counts(Vec::new(), true);
        ledger.add_exemption("GET /x", "why");
        ledger.take_counts(vec![counts("GET /x", 1, 1)], false);
        let certificate = ledger.certificate(&identity());
        assert_eq!(certificate.verdict("GET /x"), RouteVerdict::Proven);
        assert_eq!(certificate.routes["GET /x"].exemptions[0].reason, "why");
    }
}
