//! The service's own loop monitor, read at the edges of a block.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use unstall_loop_monitor::wire::{self, REFUSAL_PREFIX, SNAPSHOT_PATH, Snapshot};
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::{BlockedTime, MonitorDelta, MonitorEndpoint, ThreadCount};
use unstall_scenarios::plan::Plan;

use crate::control::{Control, ControlError};
use crate::engine::Target;

/// Holds the token of monitors that ask for one: a monitor behind a proxy, or on another machine.
pub const TOKEN_VARIABLE: &str = "UNSTALL_MONITOR_TOKEN";

/// Reads snapshots of one service.
#[derive(Debug)]
pub struct MonitorClient {
    control: Control,
    url: String,
    token: Option<String>,
}

/// Why a monitor that is there can't be used.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// It speaks another version.
    #[error(
        "{url} speaks version {found} of the snapshot, this version reads {expected}: \
         use a loop monitor and a harness of the same release"
    )]
    Version {
        /// Where.
        url: String,
        /// Its major version.
        found: u32,
        /// The one understood here.
        expected: u32,
    },
    /// It says it is a snapshot, and is not.
    #[error("{url} is no usable snapshot: {reason}")]
    Malformed {
        /// Where.
        url: String,
        /// Line, column and what is wrong.
        reason: String,
    },
    /// The service did not answer in time, or not to the end.
    #[error("the loop monitor could not be asked: {0}")]
    NoAnswer(#[source] ControlError),
    /// The environment holds what no header can.
    #[error("{TOKEN_VARIABLE} holds characters that a header can't: use letters, digits and signs")]
    Token,
    /// No client.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// The monitor at one edge of a block, asked more than once to see whether one process answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// The last answer.
    pub snapshot: Snapshot,
    /// Every process start that answered.
    pub start_ids: BTreeSet<String>,
}

/// What there is at the monitor's path of a service.
#[derive(Debug, Clone, PartialEq)]
pub enum Sight<T> {
    /// A monitor.
    Seen(T),
    /// A monitor that doesn't answer us, with its reason.
    Refused(String),
    /// No monitor.
    Nothing,
}

/// What came of two edges.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// One process served the whole block.
    Of(Box<MonitorDelta>),
    /// Another process answered at the end.
    Restarted,
    /// Several processes answer behind one port.
    SeveralWorkers,
}

impl MonitorClient {
    /// A reader of the service at `target`, with the token that the environment holds.
    ///
    /// # Errors
    /// If no client can be made, or the token can't be sent.
    pub fn new(target: &Target) -> Result<Self, MonitorError> {
        let token = std::env::var_os(TOKEN_VARIABLE).filter(|token| !token.is_empty());
        let token = token.map(|token| match token.into_string() {
            Ok(token) if token.chars().all(|c| c == ' ' || c.is_ascii_graphic()) => Ok(token),
            _ => Err(MonitorError::Token),
        });
        Ok(Self {
            control: Control::new(Duration::from_secs(2))?,
            url: target.url(SNAPSHOT_PATH),
            token: token.transpose()?,
        })
    }

    /// Reads the monitor, if the service has one.
    ///
    /// # Errors
    /// If there is one that can't be understood, or no answer at all: a service without
    /// a monitor says so.
    pub fn read(&self) -> Result<Sight<Snapshot>, MonitorError> {
        let reply = self
            .control
            .get_with_token(&self.url, self.token.as_deref())
            .map_err(MonitorError::NoAnswer)?;
        match reply.status {
            200 => Ok(parse(&self.url, &reply.body)?.map_or(Sight::Nothing, Sight::Seen)),
            403 => Ok(refusal(&reply.body).map_or(Sight::Nothing, Sight::Refused)),
            _ => Ok(Sight::Nothing),
        }
    }

    /// Reads the monitor `looks` times; each look is a connection of its own, so that
    /// several workers behind one port show themselves.
    ///
    /// # Errors
    /// As [`MonitorClient::read`].
    pub fn edge(&self, looks: u32) -> Result<Sight<Edge>, MonitorError> {
        let mut start_ids = BTreeSet::new();
        let mut last = None;
        for _ in 0..looks {
            let snapshot = match self.read()? {
                Sight::Seen(snapshot) => snapshot,
                Sight::Refused(reason) => return Ok(Sight::Refused(reason)),
                Sight::Nothing => return Ok(Sight::Nothing),
            };
            start_ids.insert(snapshot.start_id.clone());
            last = Some(snapshot);
        }
        Ok(last.map_or(Sight::Nothing, |snapshot| {
            Sight::Seen(Edge {
                snapshot,
                start_ids,
            })
        }))
    }
}

/// The monitor's own words, if a 403 is the monitor's: the rest of the first line.
fn refusal(body: &[u8]) -> Option<String> {
    let words = body.strip_prefix(REFUSAL_PREFIX.as_bytes())?;
    let words = String::from_utf8_lossy(words);
    Some(words.lines().next().unwrap_or_default().to_owned())
}

fn parse(url: &str, body: &[u8]) -> Result<Option<Snapshot>, MonitorError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: wire::Schema,
    }
    // Anything without our schema is another program's answer at this path.
    let Ok(Head { schema }) = serde_json::from_slice(body) else {
        return Ok(None);
    };
    if schema.name != wire::SCHEMA_NAME {
        return Ok(None);
    }
    if schema.major != wire::SCHEMA_MAJOR {
        return Err(MonitorError::Version {
            url: url.to_owned(),
            found: schema.major,
            expected: wire::SCHEMA_MAJOR,
        });
    }
    serde_json::from_slice(body)
        .map(Some)
        .map_err(|error| MonitorError::Malformed {
            url: url.to_owned(),
            reason: error.to_string(),
        })
}

/// What the monitor counted between two edges, by the scenario's endpoints.
pub fn difference(before: &Edge, after: &Edge, plan: &Plan) -> Difference {
    if before.start_ids.len() > 1 || after.start_ids.len() > 1 {
        return Difference::SeveralWorkers;
    }
    if before.start_ids != after.start_ids {
        return Difference::Restarted;
    }
    let (old, new) = (&before.snapshot, &after.snapshot);
    let nothing = wire::Endpoint::default();
    let mut endpoints = BTreeMap::new();
    for (route, counters) in &new.endpoints {
        let delta = endpoint_delta(old.endpoints.get(route).unwrap_or(&nothing), counters);
        // What did nothing in this block is not part of it.
        if delta.requests > 0 || delta.polls > 0 {
            endpoints.insert(endpoint_name(route, &new.endpoints, plan), delta);
        }
    }
    Difference::Of(Box::new(MonitorDelta {
        mode: match new.mode {
            wire::Mode::Counters => "counters",
            wire::Mode::FullSplit => "full-split",
            wire::Mode::Holds => "holds",
        }
        .to_owned(),
        endpoints,
        unattributed_blocked_us: us(
            blocked_ns(&new.unattributed).saturating_sub(blocked_ns(&old.unattributed))
        ),
        loop_lag: lag_delta(old.loop_lag.as_ref(), new.loop_lag.as_ref()),
        threads: ThreadCount {
            workers: new.threads.workers,
            pool: new.threads.pool,
            other: new.threads.other,
        },
    }))
}

fn endpoint_delta(old: &wire::Endpoint, new: &wire::Endpoint) -> MonitorEndpoint {
    let slept_ns = new.blocked.slept_ns.saturating_sub(old.blocked.slept_ns);
    let fault_ns = new.blocked.fault_ns.saturating_sub(old.blocked.fault_ns);
    let hold_us_max = hold_max_us(old, new);
    MonitorEndpoint {
        requests: new.requests.saturating_sub(old.requests),
        polls: new.polls.saturating_sub(old.polls),
        hold_us_sum: us(new.hold_ns_sum.saturating_sub(old.hold_ns_sum)),
        hold_us_max,
        holds_over_100ms: new.holds_over.ms_100.saturating_sub(old.holds_over.ms_100),
        cpu_us: us(new.cpu_ns.saturating_sub(old.cpu_ns)),
        runqueue_us: us(new.runqueue_ns.saturating_sub(old.runqueue_ns)),
        blocked_us: BlockedTime {
            slept: us(slept_ns),
            fault: us(fault_ns),
        },
        blocks_over_200us: new
            .blocked
            .events_over_200us
            .saturating_sub(old.blocked.events_over_200us),
        blocked_us_max: us(if new.blocked.ns_max > old.blocked.ns_max {
            new.blocked.ns_max
        } else {
            // The record was set before this block; it, the block's sum and its longest poll
            // bound what was in it.
            let bound_ns = slept_ns.saturating_add(fault_ns);
            let bound_ns = bound_ns.min(hold_us_max.saturating_mul(1_000));
            new.blocked.ns_max.min(bound_ns)
        }),
    }
}

/// The longest poll of the block: exact if it set a record, else the upper end of the
/// highest bucket that grew, which is at most twice the truth.
fn hold_max_us(old: &wire::Endpoint, new: &wire::Endpoint) -> u64 {
    if new.hold_ns_max > old.hold_ns_max {
        return us(new.hold_ns_max);
    }
    let grown = histogram_delta(Some(&old.hold), &new.hold);
    let bound = grown
        .last()
        .map_or(0, |&(bucket, _)| 1_u64 << (bucket + 1).min(63));
    bound.min(us(new.hold_ns_max))
}

/// Buckets that grew, with by how much.
fn histogram_delta(old: Option<&wire::Histogram>, new: &wire::Histogram) -> Vec<(usize, u64)> {
    let before = |bucket| {
        old.and_then(|old| old.log2_us.get(bucket))
            .copied()
            .unwrap_or(0)
    };
    new.log2_us
        .iter()
        .enumerate()
        .map(|(bucket, &count)| (bucket, count.saturating_sub(before(bucket))))
        .filter(|&(_, count)| count > 0)
        .collect()
}

/// Each value stands in the middle of its bucket: it is known no better than by a factor of two.
fn lag_delta(
    old: Option<&wire::Histogram>,
    new: Option<&wire::Histogram>,
) -> Option<LatencyHistogram> {
    // 49 days of ticks of 1 ms: what is more was not counted, and could not be written down.
    const COUNT_MAX: u64 = u32::MAX as u64;
    let mut lag = LatencyHistogram::new();
    for (bucket, count) in histogram_delta(old, new?) {
        let middle_us = if bucket == 0 {
            1
        } else {
            3_u64 << (bucket - 1).min(61)
        };
        // At once: the count is the service's word, and may be any number.
        lag.record_us_times(middle_us, count.min(COUNT_MAX));
    }
    Some(lag)
}

fn blocked_ns(blocked: &wire::Blocked) -> u64 {
    blocked.slept_ns.saturating_add(blocked.fault_ns)
}

/// Nanoseconds to the nearest microsecond.
fn us(ns: u64) -> u64 {
    ns.saturating_add(500) / 1_000
}

/// The scenario's endpoint that a monitored route stands for, or the route itself.
///
/// A route stands for an endpoint if it is the best match of that endpoint and of
/// no other: time on a shared route can't be charged to one of two.
fn endpoint_name(route: &str, routes: &BTreeMap<String, wire::Endpoint>, plan: &Plan) -> String {
    let mut matching = plan.requests.iter().filter(|request| {
        best_route(&request.method, &request.path.to_string(), routes) == Some(route)
    });
    match (matching.next(), matching.next()) {
        (Some(request), None) => request.name.clone(),
        _ => route.to_owned(),
    }
}

/// The monitored route with most literal segments among those that match.
fn best_route<'r>(
    method: &str,
    path: &str,
    routes: &'r BTreeMap<String, wire::Endpoint>,
) -> Option<&'r str> {
    routes
        .keys()
        .filter_map(|route| Some((literal_matches(method, path, route)?, route)))
        .max_by_key(|&(literals, _)| literals)
        .map(|(_, route)| route.as_str())
}

/// How many segments are equal, if the route matches at all.
fn literal_matches(method: &str, path: &str, route: &str) -> Option<usize> {
    let (route_method, template) = route.split_once(' ')?;
    if !route_method.eq_ignore_ascii_case(method) {
        return None;
    }
    let (mine, theirs) = (segments(path), segments(template));
    if mine.len() != theirs.len() {
        return None;
    }
    let mut literals = 0;
    for (mine, theirs) in mine.iter().zip(&theirs) {
        if mine == theirs {
            literals += 1;
        } else if !is_open(theirs) && !mine.contains("${") {
            return None;
        }
    }
    Some(literals)
}

/// Without query and without a slash at the end.
fn segments(path: &str) -> Vec<&str> {
    let path = path.split('?').next().unwrap_or(path);
    path.trim_matches('/').split('/').collect()
}

/// `{name}` or `:name`, as routers write it.
fn is_open(segment: &str) -> bool {
    (segment.starts_with('{') && segment.ends_with('}')) || segment.starts_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_match_segment_by_segment() {
        let route = "GET /api/v1/tunnel/workspace/{workspace_id}";
        let matches = |path| literal_matches("get", path, route);
        assert_eq!(matches("/api/v1/tunnel/workspace/${id}"), Some(4));
        assert_eq!(matches("/api/v1/tunnel/workspace/a1/?x=1"), Some(4));
        assert_eq!(matches("/api/v1/tunnel/workspace/a1/socket-status"), None);
        assert_eq!(matches("/api/v2/tunnel/workspace/a1"), None);
        assert_eq!(
            literal_matches("POST", "/api/v1/tunnel/workspace/x", route),
            None
        );
    }

    #[test]
    fn the_more_literal_route_wins() {
        let routes: BTreeMap<String, wire::Endpoint> = ["GET /a/{x}", "GET /a/b", "GET /{y}/b"]
            .into_iter()
            .map(|route| (route.to_owned(), wire::Endpoint::default()))
            .collect();
        assert_eq!(best_route("GET", "/a/b", &routes), Some("GET /a/b"));
        assert_eq!(best_route("GET", "/a/c", &routes), Some("GET /a/{x}"));
        assert_eq!(best_route("GET", "/c/d", &routes), None);
    }

    #[test]
    fn a_difference_counts_only_what_came_between() {
        let old = wire::Endpoint {
            requests: 10,
            polls: 20,
            hold_ns_sum: 5_000_000,
            hold_ns_max: 4_000_000,
            hold: wire::Histogram {
                log2_us: vec![0, 3, 0, 1],
            },
            blocked: wire::Blocked {
                slept_ns: 1_000_000,
                ns_max: 900_000,
                ..wire::Blocked::default()
            },
            ..wire::Endpoint::default()
        };
        let mut new = old.clone();
        new.requests = 15;
        new.hold_ns_sum = 5_100_400;
        new.hold.log2_us[1] = 5;
        new.blocked.slept_ns = 1_300_000;
        let delta = endpoint_delta(&old, &new);
        assert_eq!(delta.requests, 5);
        assert_eq!(delta.hold_us_sum, 100);
        assert_eq!(
            delta.hold_us_max, 4,
            "the bucket 2 to 4 µs grew, no record was set"
        );
        assert_eq!(delta.blocked_us.slept, 300);
        assert_eq!(delta.blocked_us_max, 4, "no poll was longer");
        new.hold.log2_us[3] = 2;
        let delta = endpoint_delta(&old, &new);
        assert_eq!(delta.blocked_us_max, 16, "nor was this one");
        new.hold.log2_us.resize(12, 0);
        new.hold.log2_us[11] = 1;
        let delta = endpoint_delta(&old, &new);
        assert_eq!(delta.blocked_us_max, 300, "bounded by the sum");
    }

    #[test]
    fn a_forged_count_takes_no_time_and_can_be_written() {
        let new = wire::Histogram {
            log2_us: vec![2, u64::MAX, 0, 1],
        };
        let lag = lag_delta(None, Some(&new)).expect("there is one");
        assert_eq!(lag.count(), u64::from(u32::MAX) + 3);
        assert_eq!(lag.max_us(), Some(12));
        assert!(serde_json::to_string(&lag).is_ok());
    }

    #[test]
    fn counters_at_their_end_do_not_overflow() {
        let old = wire::Endpoint::default();
        let new = wire::Endpoint {
            blocked: wire::Blocked {
                slept_ns: u64::MAX,
                fault_ns: u64::MAX,
                ..wire::Blocked::default()
            },
            ..wire::Endpoint::default()
        };
        assert_eq!(endpoint_delta(&old, &new).blocked_us.slept, us(u64::MAX));
        assert_eq!(blocked_ns(&new.blocked), u64::MAX);
    }

    #[test]
    fn a_refusal_of_the_monitor_is_told_from_any_other() {
        let ours = refusal(format!("{REFUSAL_PREFIX}ask nicely\n").as_bytes());
        assert_eq!(ours.as_deref(), Some("ask nicely"));
        assert_eq!(refusal(b"<h1>Forbidden</h1>"), None);
        assert_eq!(refusal(b""), None);
    }

    #[test]
    fn other_programs_answers_are_no_monitor() {
        assert!(matches!(parse("u", b"<html>"), Ok(None)));
        assert!(matches!(parse("u", b"{}"), Ok(None)));
        let foreign = br#"{"schema":{"name":"other","major":1,"minor":0}}"#;
        assert!(matches!(parse("u", foreign), Ok(None)));
        let newer = br#"{"schema":{"name":"unstall.snapshot","major":99,"minor":0}}"#;
        assert!(matches!(
            parse("u", newer),
            Err(MonitorError::Version { found: 99, .. })
        ));
        let broken = br#"{"schema":{"name":"unstall.snapshot","major":1,"minor":0}}"#;
        assert!(matches!(
            parse("u", broken),
            Err(MonitorError::Malformed { .. })
        ));
    }
}
