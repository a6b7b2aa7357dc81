//! What a trace has found so far, by route: the certificate in the making.

use std::collections::{BTreeMap, BTreeSet};

use super::trace_event::{OUTSIDE_REQUESTS, WHOLE_LOOP};
use super::tracer::Identity;
use super::tracer_judge::Seen;
use super::tracer_routes::EndpointCounts;
use crate::cause::{Cause, Frame, how_to_get_lines};
use crate::certificate::{
    Certificate, Exemption, Finding, ProofMethod, RouteProof, SCHEMA_MAJOR, SCHEMA_MINOR,
    SCHEMA_NAME,
};
use crate::wire::Schema;

/// Distinct findings kept of one route with all that is known of them; those beyond are known by
/// their call and their own lines, and beyond twice as many by their call alone.
const FINDINGS_MAX: usize = 1_024;

/// What was seen on one route, or of one request.
#[derive(Debug, Clone, Default)]
struct Route {
    calls: u64,
    log_writes: u64,
    findings: BTreeMap<Cause, u64>,
    exemptions: BTreeMap<String, u64>,
}

/// Whose call it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A request's, by its serial number; its route may not be known yet.
    Request(u64),
    /// Nobody's that the middleware knows.
    OutsideRequests,
    /// Nobody can tell.
    WholeLoop,
}

/// What a trace has found so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    routes: BTreeMap<String, Route>,
    /// Requests whose route isn't known yet, by serial number.
    open: BTreeMap<u64, Route>,
    /// Requests and steps before the trace, by endpoint.
    before: BTreeMap<String, (u64, u64)>,
    /// The same now.
    now: Vec<EndpointCounts>,
    /// Whether a middleware counts at all.
    knows_requests: bool,
    /// Waits of the loop for events: each one ends a turn, which stands for a step where no
    /// middleware counts them.
    turns: u64,
    /// What this trace turned out not to see, in words.
    doubts: BTreeSet<String>,
}

impl Ledger {
    /// Writes one call down.
    pub(super) fn add(&mut self, owner: Owner, seen: &Seen) {
        let route = match owner {
            Owner::Request(serial) => self.open.entry(serial).or_default(),
            Owner::OutsideRequests => self.route(OUTSIDE_REQUESTS),
            Owner::WholeLoop => self.route(WHOLE_LOOP),
        };
        route.calls += 1;
        match seen {
            Seen::Harmless | Seen::OwnWait => {}
            Seen::Log => route.log_writes += 1,
            Seen::Exempt(reason) => {
                *route.exemptions.entry((*reason).to_owned()).or_default() += 1;
            }
            Seen::Finding(cause) => route.add_finding(cause, 1),
        }
    }

    pub(super) fn count_turn(&mut self) {
        self.turns += 1;
    }

    /// Requests whose route isn't known yet.
    pub(super) fn open_requests(&self) -> Vec<u64> {
        self.open.keys().copied().collect()
    }

    /// A request's route is known from now on.
    pub(super) fn settle(&mut self, serial: u64, route: &str) {
        if let Some(open) = self.open.remove(&serial) {
            self.route(route).merge(&open);
        }
    }

    /// Takes what the middleware has counted; the first time it is what was there before.
    pub(super) fn take_counts(&mut self, counts: Vec<EndpointCounts>, is_start: bool) {
        if is_start {
            let before = counts.iter();
            let before = before.map(|it| (it.name.clone(), (it.requests, it.steps)));
            self.before = before.collect();
        }
        self.knows_requests = true;
        // They only grow: a process that has ended can't be read any more.
        if !counts.is_empty() {
            self.now = counts;
        }
    }

    /// Something that the certificate has to say isn't covered.
    pub(super) fn doubt(&mut self, words: String) {
        self.doubts.insert(words);
    }

    fn route(&mut self, route: &str) -> &mut Route {
        self.routes.entry(route.to_owned()).or_default()
    }

    /// The certificate as it stands. What was seen of a request counts at once: on its route if
    /// `route_of` knows that by now, else outside of all routes.
    pub(super) fn certificate(
        &self,
        identity: &Identity,
        route_of: impl Fn(u64) -> Option<String>,
    ) -> Certificate {
        let mut routes: BTreeMap<String, RouteProof> = BTreeMap::new();
        for counts in &self.now {
            let before = self.before.get(&counts.name).copied();
            // Asked for before the trace only, by whoever looked whether the service was ready, and
            // declared by nobody. What blocks in a request that went on is added below.
            if before.is_some_and(|(requests, _)| requests == counts.requests) {
                continue;
            }
            let (requests, steps) = before.unwrap_or((0, 0));
            let proof = routes.entry(counts.name.clone()).or_default();
            proof.requests = counts.requests.saturating_sub(requests);
            proof.polls = counts.steps.saturating_sub(steps);
        }
        let mut seen = self.routes.clone();
        for (serial, open) in &self.open {
            let route = route_of(*serial).unwrap_or_else(|| OUTSIDE_REQUESTS.to_owned());
            seen.entry(route).or_default().merge(open);
        }
        for (name, route) in seen {
            let endpoint = endpoint(&name);
            route.write_into(endpoint, routes.entry(name.clone()).or_default());
        }
        let whole = if self.knows_requests {
            OUTSIDE_REQUESTS
        } else {
            WHOLE_LOOP
        };
        // A turn is no request: which requests were served, nobody knows here.
        routes.entry(whole.to_owned()).or_default().polls = self.turns;
        let findings = routes.values().flat_map(|route| &route.findings);
        let lines = how_to_get_lines(findings.map(|finding| &finding.cause));
        let lines = lines.map(|words| format!("source lines: {words}"));
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
            not_covered: identity
                .not_covered
                .iter()
                .chain(&self.doubts)
                .cloned()
                .chain(lines)
                .collect(),
        }
    }
}

/// The route that a finding names; buckets are none.
pub(super) fn endpoint(route: &str) -> Option<&str> {
    (![WHOLE_LOOP, OUTSIDE_REQUESTS].contains(&route)).then_some(route)
}

impl Route {
    fn add_finding(&mut self, cause: &Cause, count: u64) {
        if let Some(known) = self.findings.get_mut(cause) {
            *known += count;
            return;
        }
        let mut cause = cause.clone();
        if self.findings.len() >= FINDINGS_MAX {
            cause.target = None;
            cause.frames.retain(|frame: &Frame| frame.is_own);
        }
        if self.findings.len() >= 2 * FINDINGS_MAX {
            cause.frames.clear();
        }
        *self.findings.entry(cause).or_default() += count;
    }

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.log_writes += other.log_writes;
        for (cause, count) in &other.findings {
            self.add_finding(cause, *count);
        }
        for (reason, count) in &other.exemptions {
            *self.exemptions.entry(reason.clone()).or_default() += count;
        }
    }

    fn write_into(&self, endpoint: Option<&str>, proof: &mut RouteProof) {
        proof.calls = self.calls;
        proof.log_writes = self.log_writes;
        let findings = self.findings.iter().map(|(cause, count)| Finding {
            cause: Cause {
                endpoint: endpoint.map(str::to_owned),
                ..cause.clone()
            },
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

    fn nowhere(_: u64) -> Option<String> {
        None
    }

    #[test]
    fn only_requests_of_the_trace_count_and_each_finding_has_its_route() {
        let mut ledger = Ledger::default();
        ledger.take_counts(vec![counts("GET /old", 5, 9)], true);
        for _ in 0..2 {
            ledger.add(Owner::Request(7), &Seen::Finding(cause()));
        }
        ledger.settle(7, "GET /new");
        let now = vec![counts("GET /old", 5, 9), counts("GET /new", 2, 3)];
        ledger.take_counts(now, false);
        let certificate = ledger.certificate(&identity(), nowhere);
        assert_eq!(certificate.verdict("GET /old"), RouteVerdict::Unproven);
        assert_eq!(certificate.verdict("GET /new"), RouteVerdict::Blocking);
        let proof = &certificate.routes["GET /new"];
        assert_eq!(
            (proof.requests, proof.polls, proof.findings[0].count),
            (2, 3, 2)
        );
        let endpoint = proof.findings[0].cause.endpoint.as_deref();
        assert_eq!(endpoint, Some("GET /new"));
        assert_eq!(proof.calls, 2);
    }

    #[test]
    fn an_exemption_is_listed_and_no_finding() {
        let mut ledger = Ledger::default();
        ledger.take_counts(Vec::new(), true);
        ledger.add(Owner::Request(1), &Seen::Exempt("why"));
        ledger.settle(1, "GET /x");
        ledger.take_counts(vec![counts("GET /x", 1, 1)], false);
        let certificate = ledger.certificate(&identity(), nowhere);
        assert_eq!(certificate.verdict("GET /x"), RouteVerdict::Proven);
        assert_eq!(certificate.routes["GET /x"].exemptions[0].reason, "why");
    }

    #[test]
    fn what_was_seen_of_a_request_counts_before_its_step_is_over() {
        let mut ledger = Ledger::default();
        ledger.take_counts(vec![counts("GET /x", 0, 0)], true);
        ledger.add(Owner::Request(1), &Seen::Finding(cause()));
        ledger.settle(1, "GET /x");
        ledger.add(Owner::Request(2), &Seen::Finding(cause()));
        ledger.add(Owner::Request(3), &Seen::Finding(cause()));
        ledger.take_counts(vec![counts("GET /x", 2, 2)], false);
        let known = |serial| (serial == 2).then(|| "GET /x".to_owned());
        let certificate = ledger.certificate(&identity(), known);
        assert_eq!(certificate.verdict("GET /x"), RouteVerdict::Blocking);
        assert_eq!(certificate.routes["GET /x"].findings[0].count, 2);
        assert_eq!(certificate.routes[OUTSIDE_REQUESTS].findings[0].count, 1);
        // It stays open, and counts once in every certificate.
        assert_eq!(ledger.certificate(&identity(), known), certificate);
    }

    #[test]
    fn a_loop_whose_requests_nobody_counts_is_not_proven_by_its_turns() {
        let mut ledger = Ledger::default();
        ledger.count_turn();
        ledger.add(Owner::WholeLoop, &Seen::Harmless);
        let certificate = ledger.certificate(&identity(), nowhere);
        assert_eq!(certificate.verdict(WHOLE_LOOP), RouteVerdict::Unproven);
        let whole = &certificate.routes[WHOLE_LOOP];
        assert_eq!((whole.requests, whole.polls, whole.calls), (0, 1, 1));
    }

    #[test]
    fn findings_are_kept_up_to_a_bound_and_counted_beyond_it() {
        let mut ledger = Ledger::default();
        let many = 3 * FINDINGS_MAX;
        for number in 0..many {
            let target = Some(crate::cause::Target {
                what: number.to_string(),
                name: None,
            });
            let finding = Seen::Finding(Cause { target, ..cause() });
            ledger.add(Owner::WholeLoop, &finding);
        }
        let certificate = ledger.certificate(&identity(), nowhere);
        let findings = &certificate.routes[WHOLE_LOOP].findings;
        assert_eq!(findings.len(), FINDINGS_MAX + 1);
        let counted: u64 = findings.iter().map(|finding| finding.count).sum();
        assert_eq!(usize::try_from(counted), Ok(many));
    }

    #[test]
    fn a_process_that_can_t_be_read_any_more_keeps_what_it_counted() {
        let mut ledger = Ledger::default();
        ledger.take_counts(Vec::new(), true);
        ledger.take_counts(vec![counts("GET /x", 1, 1)], false);
        ledger.take_counts(Vec::new(), false);
        let certificate = ledger.certificate(&identity(), nowhere);
        assert_eq!(certificate.verdict("GET /x"), RouteVerdict::Proven);
    }
}
