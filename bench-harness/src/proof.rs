//! What a certificate and the requests behind it say together, route by route.
//!
//! A certificate says which calls were caught. Only the sender knows whether the answers were
//! right, and a route that did nothing but fail has not been exercised.

use std::collections::BTreeMap;

use unstall_loop_monitor::OTHER_ENDPOINT;
use unstall_loop_monitor::certificate::{Certificate, ProofMethod, RouteProof, RouteVerdict};
use unstall_loop_monitor::outside::tracer::WHOLE_LOOP;
use unstall_loop_monitor::wire::Snapshot;
use unstall_scenarios::plan::Plan;

use crate::engine::BlockMeasurement;
use crate::route_template::best_route;

/// How an endpoint's key begins that gathers what belongs to no route.
const BUCKET_PREFIX: &str = "* ";

/// One request of a scenario, as often as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driven {
    /// Its name in the scenario.
    pub name: String,
    /// HTTP method.
    pub method: String,
    /// Path as the scenario has it, with its variables.
    pub path: String,
    /// Answers as the scenario expects them.
    pub completed: u64,
    /// Everything else that was sent.
    pub failed: u64,
    /// What a failure looked like.
    pub example: Option<String>,
}

/// What there is to judge.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The certificate before the first request.
    pub before: &'a Certificate,
    /// The certificate of the same process after the last one.
    pub after: &'a Certificate,
    /// Routes that must be proven, whatever the certificate names.
    pub demanded: &'a [String],
    /// What was sent in between.
    pub driven: &'a [Driven],
    /// Where nothing could be caught: what the loop's counters saw instead, by route.
    pub waits: &'a BTreeMap<String, Waits>,
}

/// What the kernel's counters saw of a route's polls. They say that the thread slept, not in
/// which call, and miss calls that could have slept and didn't.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// The thread gave up its core by itself.
    pub slept_ns: u64,
    /// The thread waited for a page from disk.
    pub fault_ns: u64,
    /// Polls with any.
    pub polls: u64,
}

/// One route, judged.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedRoute {
    /// `METHOD route-template`.
    pub route: String,
    /// The judgement.
    pub verdict: RouteVerdict,
    /// Why it is unproven, and what to do about it.
    pub reason: Option<String>,
    /// What was caught since the process started.
    pub proof: RouteProof,
    /// The scenario's requests on it that failed, all or some.
    pub failures: Vec<Driven>,
    /// What the loop's counters saw, where nothing could be caught.
    pub waits: Option<Waits>,
}

/// What one scenario's measurement tells about its requests to the service under proof: those to
/// its `[hosts]` exercise other services.
pub fn driven(plan: &Plan, measurement: &BlockMeasurement) -> Vec<Driven> {
    let requests = plan.requests.iter();
    let requests = requests.filter(|request| request.host.is_none());
    requests
        .map(|request| {
            let samples = measurement.endpoints.get(&request.name);
            let mut examples = measurement.examples.iter();
            Driven {
                name: request.name.clone(),
                method: request.method.clone(),
                path: request.path.to_string(),
                completed: samples.map_or(0, |samples| samples.completed),
                failed: samples.map_or(0, |samples| samples.errors.values().sum()),
                example: examples
                    .find(|example| example.endpoint == request.name)
                    .map(|example| example.message.clone()),
            }
        })
        .collect()
}

/// What the loop's counters saw between two snapshots of one process; nothing if they don't
/// measure blocked time.
pub fn waits(before: &Snapshot, after: &Snapshot) -> BTreeMap<String, Waits> {
    if !after.mode.measures_blocked() {
        return BTreeMap::new();
    }
    let endpoints = after.endpoints.iter();
    endpoints
        .map(|(route, now)| {
            let then = before.endpoints.get(route);
            let then = then.map(|endpoint| endpoint.blocked.clone());
            let then = then.unwrap_or_default(); // not there yet: all counts were 0
            let waits = Waits {
                slept_ns: now.blocked.slept_ns.saturating_sub(then.slept_ns),
                fault_ns: now.blocked.fault_ns.saturating_sub(then.fault_ns),
                polls: now.blocked.events.saturating_sub(then.events),
            };
            (route.clone(), waits)
        })
        .collect()
}

/// Judges every route that the certificate names, that was asked for, or that a scenario sent
/// requests to: blocking ones first, then those without proof, then the proven ones.
pub fn judge(evidence: Evidence<'_>) -> Vec<JudgedRoute> {
    let mut sent: BTreeMap<&str, Vec<&Driven>> = BTreeMap::new();
    let mut unknown = Vec::new();
    for one in evidence.driven {
        let names = evidence.after.routes.keys().map(String::as_str);
        match best_route(&one.method, &one.path, names) {
            Some(route) => sent.entry(route).or_default().push(one),
            None => unknown.push(unknown_endpoint(one)),
        }
    }
    let mut judged: Vec<JudgedRoute> = evidence
        .after
        .routes
        .iter()
        .filter(|(route, proof)| is_judged(route, proof))
        .map(|(route, proof)| {
            let sent = sent.get(route.as_str()).map_or(&[][..], Vec::as_slice);
            judge_route(&evidence, route, proof, sent)
        })
        .collect();
    judged.extend(unknown);
    for route in evidence.demanded {
        if !judged.iter().any(|judged| judged.route == *route) {
            judged.push(unproven(
                route,
                "the certificate names no such route: write it as the service's router has it, \
                 like `GET /items/{id}`, and send a request to it"
                    .to_owned(),
            ));
        }
    }
    judged.sort_by(|a, b| (rank(a.verdict), &a.route).cmp(&(rank(b.verdict), &b.route)));
    judged.dedup_by(|a, b| a.route == b.route && a.verdict == b.verdict && a.reason == b.reason);
    judged
}

/// The judgement over all: one blocking route is enough, and so is one without proof, or none.
pub fn overall(routes: &[JudgedRoute]) -> RouteVerdict {
    let worst = routes.iter().map(|route| route.verdict);
    worst
        .min_by_key(|verdict| rank(*verdict))
        .unwrap_or(RouteVerdict::Unproven)
}

/// Worst first.
fn rank(verdict: RouteVerdict) -> u8 {
    match verdict {
        RouteVerdict::Blocking => 0,
        RouteVerdict::Unproven => 1,
        RouteVerdict::Proven => 2,
    }
}

/// A bucket isn't a route: nobody has to exercise it, and what blocks in it counts all the same.
fn is_judged(route: &str, proof: &RouteProof) -> bool {
    let may_hide_a_route = route == OTHER_ENDPOINT && proof.requests > 0;
    !route.starts_with(BUCKET_PREFIX) || !proof.findings.is_empty() || may_hide_a_route
}

fn judge_route(
    evidence: &Evidence<'_>,
    route: &str,
    proof: &RouteProof,
    sent: &[&Driven],
) -> JudgedRoute {
    let reason = match evidence.after.verdict(route) {
        RouteVerdict::Blocking => None,
        _ => unproven_because(evidence, route, proof, sent),
    };
    let verdict = match evidence.after.verdict(route) {
        RouteVerdict::Proven if reason.is_some() => RouteVerdict::Unproven,
        verdict => verdict,
    };
    let failures = sent.iter().filter(|one| one.failed > 0);
    JudgedRoute {
        route: route.to_owned(),
        verdict,
        reason,
        proof: proof.clone(),
        failures: failures.map(|one| (*one).clone()).collect(),
        waits: evidence.waits.get(route).copied(),
    }
}

/// Why a route without findings is none that blocks nowhere, if it isn't.
fn unproven_because(
    evidence: &Evidence<'_>,
    route: &str,
    proof: &RouteProof,
    sent: &[&Driven],
) -> Option<String> {
    let completed: u64 = sent.iter().map(|one| one.completed).sum();
    let failed: u64 = sent.iter().map(|one| one.failed).sum();
    let old = evidence.before.routes.get(route);
    let counted = proof
        .requests
        .saturating_sub(old.map_or(0, |old| old.requests));
    if let ProofMethod::Unsupported { .. } = evidence.after.method {
        Some("nothing could be caught in this process".to_owned())
    } else if route == OTHER_ENDPOINT {
        Some(
            "more routes than the monitor tells apart are counted together here: raise its \
             endpoint_cap"
                .to_owned(),
        )
    } else if completed == 0 && failed > 0 {
        let example = sent.iter().find_map(|one| one.example.as_deref());
        let example = example.map_or_else(String::new, |example| format!(" ({example})"));
        Some(format!(
            "none of its {failed} requests was answered as the scenario expects{example}: mend \
             the service or the scenario"
        ))
    } else if route == WHOLE_LOOP {
        Some(format!(
            "no call that can block was seen in {} turns of the loop, but which requests were \
             served isn't known: put the middleware in and start the service with \
             UNSTALL_PROVE=1, or use --target",
            proof.polls
        ))
    } else if proof.requests == 0 {
        Some("no request reached it: send some by a scenario".to_owned())
    } else if proof.polls == 0 {
        Some("its requests ran where nothing is caught: see what is not covered".to_owned())
    } else if counted < completed {
        Some(format!(
            "{completed} requests were answered and {counted} of them counted, so another \
             process or a layer in front of the monitor answered the others: run one worker, and \
             make the monitor the outermost layer"
        ))
    } else {
        None
    }
}

fn unknown_endpoint(one: &Driven) -> JudgedRoute {
    let mut judged = unproven(
        &format!("{} {}", one.method, one.path),
        format!(
            "the certificate names no route for the scenario's request `{}`: put the monitor's \
             layer around it",
            one.name
        ),
    );
    if one.failed > 0 {
        judged.failures.push(one.clone());
    }
    judged
}

fn unproven(route: &str, reason: String) -> JudgedRoute {
    JudgedRoute {
        route: route.to_owned(),
        verdict: RouteVerdict::Unproven,
        reason: Some(reason),
        proof: RouteProof::default(),
        failures: Vec::new(),
        waits: None,
    }
}

#[cfg(test)]
mod tests {
    use unstall_loop_monitor::UNMATCHED_ENDPOINT;
    use unstall_loop_monitor::cause::{Cause, CauseClass};
    use unstall_loop_monitor::certificate::{Finding, SCHEMA_MAJOR, SCHEMA_MINOR, SCHEMA_NAME};
    use unstall_loop_monitor::wire::Schema;

    use super::*;

    fn certificate(routes: &[(&str, RouteProof)]) -> Certificate {
        let routes = routes.iter();
        Certificate {
            schema: Schema {
                name: SCHEMA_NAME.to_owned(),
                major: SCHEMA_MAJOR,
                minor: SCHEMA_MINOR,
            },
            start_id: "a".to_owned(),
            commit: None,
            method: ProofMethod::SyscallUserDispatch,
            routes: routes
                .map(|(route, proof)| ((*route).to_owned(), proof.clone()))
                .collect(),
            not_covered: Vec::new(),
        }
    }

    fn clean(requests: u64) -> RouteProof {
        RouteProof {
            requests,
            polls: requests * 2,
            ..RouteProof::default()
        }
    }

    fn blocking() -> RouteProof {
        let cause = Cause {
            class: CauseClass::Sleep,
            syscall: None,
            target: None,
            endpoint: None,
            frames: Vec::new(),
        };
        RouteProof {
            findings: vec![Finding { cause, count: 1 }],
            ..clean(1)
        }
    }

    fn sent(path: &str, completed: u64, failed: u64) -> Driven {
        Driven {
            name: format!("GET {path}"),
            method: "GET".to_owned(),
            path: path.to_owned(),
            completed,
            failed,
            example: None,
        }
    }

    fn judged(
        after: &[(&str, RouteProof)],
        demanded: &[&str],
        driven: &[Driven],
    ) -> Vec<(String, RouteVerdict)> {
        let demanded: Vec<String> = demanded.iter().map(ToString::to_string).collect();
        let routes = judge(Evidence {
            before: &certificate(&[]),
            after: &certificate(after),
            demanded: &demanded,
            driven,
            waits: &BTreeMap::new(),
        });
        let named = routes.into_iter();
        named.map(|judged| (judged.route, judged.verdict)).collect()
    }

    fn one(route: &str, verdict: RouteVerdict) -> Vec<(String, RouteVerdict)> {
        vec![(route.to_owned(), verdict)]
    }

    #[test]
    fn some_failures_leave_a_proof_and_nothing_else_does() {
        let route = "GET /a/{id}";
        let after = [(route, clean(4))];
        let proven = judged(&after, &[], &[sent("/a/1", 3, 1)]);
        assert_eq!(proven, one(route, RouteVerdict::Proven));
        let failed = judged(&after, &[], &[sent("/a/1", 0, 4)]);
        assert_eq!(failed, one(route, RouteVerdict::Unproven));
        // Two requests of the scenarios on one route: one that is answered is enough.
        let both = judged(&after, &[], &[sent("/a/1", 0, 2), sent("/a/${x}", 2, 0)]);
        assert_eq!(both, one(route, RouteVerdict::Proven));
    }

    #[test]
    fn a_call_that_was_caught_blocks_whatever_was_answered() {
        let after = [("GET /a", blocking())];
        let failed = judged(&after, &[], &[sent("/a", 0, 1)]);
        assert_eq!(failed, one("GET /a", RouteVerdict::Blocking));
    }

    #[test]
    fn requests_that_another_process_answered_are_no_proof() {
        let after = [("GET /a", clean(3))];
        let missed = judged(&after, &[], &[sent("/a", 4, 0)]);
        assert_eq!(missed, one("GET /a", RouteVerdict::Unproven));
    }

    #[test]
    fn buckets_count_only_where_they_hide_something() {
        let quiet = [(UNMATCHED_ENDPOINT, clean(1)), (OTHER_ENDPOINT, clean(0))];
        assert_eq!(judged(&quiet, &[], &[]), []);
        assert_eq!(overall(&[]), RouteVerdict::Unproven);
        let loud = [(UNMATCHED_ENDPOINT, blocking())];
        assert_eq!(
            judged(&loud, &[], &[]),
            one(UNMATCHED_ENDPOINT, RouteVerdict::Blocking)
        );
        let crowded = [(OTHER_ENDPOINT, clean(1))];
        assert_eq!(
            judged(&crowded, &[], &[]),
            one(OTHER_ENDPOINT, RouteVerdict::Unproven)
        );
    }

    #[test]
    fn what_is_asked_for_and_not_there_is_unproven_once() {
        let none = judged(&[], &["GET /x", "GET /x"], &[]);
        assert_eq!(none, one("GET /x", RouteVerdict::Unproven));
        let there = judged(&[("GET /x", clean(1))], &["GET /x"], &[]);
        assert_eq!(there, one("GET /x", RouteVerdict::Proven));
        let unmonitored = judged(&[], &[], &[sent("/y/${id}", 1, 0)]);
        assert_eq!(unmonitored, one("GET /y/${id}", RouteVerdict::Unproven));
    }

    #[test]
    fn the_worst_comes_first_and_decides() {
        let after = [
            ("GET /a", clean(1)),
            ("GET /b", clean(0)),
            ("GET /c", blocking()),
        ];
        let verdicts: Vec<RouteVerdict> = judged(&after, &[], &[])
            .into_iter()
            .map(|(_, verdict)| verdict)
            .collect();
        assert_eq!(
            verdicts,
            [
                RouteVerdict::Blocking,
                RouteVerdict::Unproven,
                RouteVerdict::Proven
            ]
        );
    }

    #[test]
    fn a_loop_whose_requests_nobody_counts_says_what_to_do() {
        let turns = RouteProof {
            polls: 12,
            calls: 30,
            ..RouteProof::default()
        };
        let after = certificate(&[(WHOLE_LOOP, turns)]);
        let routes = judge(Evidence {
            before: &certificate(&[]),
            after: &after,
            demanded: &[],
            driven: &[],
            waits: &BTreeMap::new(),
        });
        assert_eq!(overall(&routes), RouteVerdict::Unproven);
        let reason = routes[0].reason.as_deref().expect("a reason");
        assert!(reason.contains("in 12 turns of the loop"), "{reason}");
        assert!(reason.contains("UNSTALL_PROVE=1"), "{reason}");
    }
}
