//! The usual case: one kind of request, again and again, against one misbehaving server, whose
//! counts are held against the engine's.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use unstall_bench_harness::engine::{BlockMeasurement, BlockSpec, Ended};
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::{EndpointSamples, ErrorKind, Second};
use unstall_testbed::Behaviour;

use super::case::{Case, Check, Group, Trial, Tried};
use super::load::{ENDPOINT, cold, kinds, measure_at, planned, scenario_of_client};
use super::service::{Kind, Service};

/// Users of a block. Few, so that a case is quick; more than one, so that they can be mixed up.
pub(super) const USERS: u32 = 4;
/// Requests of a block in which all goes well.
pub(super) const RIGHT: u64 = 20;
/// Requests of a block in which all fails, perhaps slowly.
pub(super) const WRONG: u64 = 8;
/// For all timeouts of a block in which everything times out; they add up to less than a second.
const TIMEOUTS_MS_MAX: u128 = 6_000;
/// For both sides to have noticed that a connection has ended.
const ENDED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What is sent to whom, and what has to come of it.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    service: Kind,
    method: &'static str,
    path: String,
    /// What stands in the scenario before the request.
    client: &'static str,
    /// More lines of the scenario's request.
    more: String,
    users: u32,
    requests: u64,
    completed: u64,
    /// Sets of failures, one of which has to be seen.
    errors: Vec<BTreeMap<ErrorKind, u64>>,
    /// `None` where it is a matter of who was faster.
    sent: Option<u64>,
    /// Requests that the server has read; `None` where it reads none.
    read: Option<u64>,
    connections: Option<u64>,
    /// Whether the server can know that a connection has ended.
    knows_ends: bool,
    body_bytes: Option<u64>,
    encoded_bytes: Option<u64>,
    uploaded: Option<u64>,
    handshakes: Option<u64>,
    redirects: u64,
    items: Option<u64>,
    response_us_min: Option<u64>,
    failed_us_min: Option<u64>,
    /// Longer is only right on a machine that is busy with other things.
    block_ms_max: Option<u128>,
}

impl Exchange {
    fn new(path: impl Into<String>, requests: u64) -> Self {
        Self {
            service: Kind::Faulty(Behaviour::Paths),
            method: "GET",
            path: path.into(),
            client: "",
            more: String::new(),
            users: USERS,
            requests,
            completed: 0,
            errors: vec![],
            sent: Some(requests),
            read: Some(requests),
            connections: None,
            knows_ends: true,
            body_bytes: None,
            encoded_bytes: None,
            uploaded: None,
            handshakes: None,
            redirects: 0,
            items: None,
            response_us_min: None,
            failed_us_min: None,
            block_ms_max: None,
        }
    }

    /// Every answer is the right one, byte for byte: `{"status":"ok"}`.
    pub(super) fn right(path: impl Into<String>) -> Self {
        let new = Self::new(path, RIGHT);
        Self {
            completed: new.requests,
            errors: vec![BTreeMap::new()],
            more: "timeout = \"20s\"\n\
                   expect = { status = 200, json = { \"/status\" = { equals = \"ok\" } } }"
                .to_owned(),
            connections: Some(u64::from(new.users)),
            body_bytes: Some(15 * new.requests),
            ..new
        }
    }

    /// Every request fails, all of them in this one way, or all in another of these.
    pub(super) fn wrong(path: impl Into<String>, kinds: &[ErrorKind]) -> Self {
        let new = Self::new(path, WRONG);
        let all = |kind: &ErrorKind| BTreeMap::from([(*kind, new.requests)]);
        let is_timeout = kinds == [ErrorKind::Timeout];
        Self {
            errors: kinds.iter().map(all).collect(),
            // Where waiting would be wrong, there is time enough to see that nobody waits.
            more: format!(
                "timeout = \"{}\"\nexpect = {{ status = 200 }}",
                if is_timeout { "300ms" } else { "5s" }
            ),
            failed_us_min: is_timeout.then_some(300_000),
            block_ms_max: kinds
                .contains(&ErrorKind::Timeout)
                .then_some(TIMEOUTS_MS_MAX),
            connections: Some(new.requests),
            ..new
        }
    }

    pub(super) fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    /// Other lines of the scenario's request than the usual ones.
    pub(super) fn more(self, more: impl Into<String>) -> Self {
        Self {
            more: more.into(),
            ..self
        }
    }

    pub(super) fn expects_status(self, status: u16) -> Self {
        self.more(format!(
            "timeout = \"20s\"\nexpect = {{ status = {status} }}"
        ))
    }

    pub(super) fn connections(self, connections: u64) -> Self {
        Self {
            connections: Some(connections),
            ..self
        }
    }

    /// Where the standard leaves it open whether a connection is used again.
    pub(super) fn any_connections(self) -> Self {
        Self {
            connections: None,
            ..self
        }
    }

    /// A server that reads nothing never gets to the end behind what it doesn't read.
    pub(super) fn any_left_open(self) -> Self {
        Self {
            knows_ends: false,
            ..self
        }
    }

    /// Of each right answer.
    pub(super) fn body_bytes(self, each: u64) -> Self {
        Self {
            body_bytes: Some(each * self.completed),
            ..self
        }
    }

    /// The same as it is on the wire.
    pub(super) fn encoded_bytes(self, each: u64) -> Self {
        Self {
            encoded_bytes: Some(each * self.completed),
            ..self
        }
    }

    /// How the scenario's client behaves.
    pub(super) fn client(self, client: &'static str) -> Self {
        Self { client, ..self }
    }

    /// Each request is redirected so often, and each time the server reads another one.
    pub(super) fn redirects(self, each: u64) -> Self {
        Self {
            redirects: each * self.requests,
            read: Some((1 + each) * self.requests),
            ..self
        }
    }

    /// Where the body is another one than `/ok`'s.
    pub(super) fn any_body(self) -> Self {
        Self {
            body_bytes: None,
            ..self
        }
    }

    /// Of each complete stream.
    pub(super) fn items(self, each: u64) -> Self {
        Self {
            items: Some(each * self.completed),
            ..self
        }
    }

    /// A whole server that misbehaves, and never reads a request.
    pub(super) fn at(self, server: Behaviour) -> Self {
        Self {
            service: Kind::Faulty(server),
            read: None,
            connections: None,
            ..self
        }
    }

    /// Another service than the one that speaks HTTP/1.1 without TLS.
    pub(super) fn served(self, service: Kind) -> Self {
        Self { service, ..self }
    }

    /// Requests that the server reads.
    pub(super) fn read(self, read: u64) -> Self {
        Self {
            read: Some(read),
            ..self
        }
    }

    /// Bytes of requests' bodies that the server gets.
    pub(super) fn uploaded(self, bytes: u64) -> Self {
        Self {
            uploaded: Some(bytes),
            ..self
        }
    }

    /// Handshakes of TLS that requests paid for.
    pub(super) fn handshakes(self, handshakes: u64) -> Self {
        Self {
            handshakes: Some(handshakes),
            ..self
        }
    }

    pub(super) fn sent(self, sent: u64) -> Self {
        Self {
            sent: Some(sent),
            ..self
        }
    }

    /// The server may be gone before the first byte is written.
    pub(super) fn any_sent(self) -> Self {
        Self { sent: None, ..self }
    }

    /// Who asks, how often, and what comes of it, where that isn't the same for every request.
    pub(super) fn counts(self, users: u32, completed: u64, errors: &[(ErrorKind, u64)]) -> Self {
        let failed: u64 = errors.iter().map(|(_, count)| count).sum();
        let requests = completed + failed;
        Self {
            users,
            requests,
            completed,
            errors: vec![
                errors
                    .iter()
                    .copied()
                    .filter(|(_, count)| *count > 0)
                    .collect(),
            ],
            sent: Some(requests),
            read: Some(requests),
            ..self
        }
    }

    /// No answer may seem faster.
    pub(super) fn response_us_min(self, us: u64) -> Self {
        Self {
            response_us_min: Some(us),
            ..self
        }
    }

    pub(super) fn any_time(self) -> Self {
        Self {
            failed_us_min: None,
            block_ms_max: None,
            ..self
        }
    }

    pub(super) fn case(self, group: Group, name: &'static str, stands_for: &'static str) -> Case {
        Case {
            name,
            group,
            stands_for,
            trial: Trial::Exchange(Box::new(self)),
        }
    }

    /// Runs it.
    pub(super) fn run(&self) -> Tried {
        let service = Service::start(&self.service)?;
        let scenario = scenario_of_client(self.client, self.method, &self.path, &self.more);
        let spec = cold(self.users, self.requests);
        let block = measure_at(&scenario, &service.target()?, &spec)?;
        let mut checks = self.compare(&block);
        checks.extend(self.compare_service(&block, &service));
        checks.extend(counted_once(&block, &spec));
        Ok(checks)
    }

    fn compare(&self, block: &BlockMeasurement) -> Vec<Check> {
        let samples = &block.endpoints[ENDPOINT];
        let expected: Vec<String> = self.errors.iter().map(kinds).collect();
        let mut checks = vec![
            Check::same("completed", self.completed, block.completed),
            Check::one_of("errors", &expected, &kinds(&block.errors)),
        ];
        if let Some(sent) = self.sent {
            checks.push(Check::same("sent", sent, block.sent));
        }
        checks.push(Check::same("redirects", self.redirects, samples.redirects));
        if let Some(bytes) = self.body_bytes {
            checks.push(Check::same("body bytes", bytes, samples.body_bytes));
        }
        if let Some(bytes) = self.encoded_bytes {
            checks.push(Check::same(
                "bytes on the wire",
                bytes,
                samples.encoded_bytes,
            ));
        }
        if let Some(handshakes) = self.handshakes {
            let seen = samples.tls.as_ref().map_or(0, LatencyHistogram::count);
            checks.push(Check::same("handshakes paid for", handshakes, seen));
        }
        if let Some(items) = self.items {
            checks.push(Check::same("items", items, samples.items));
        }
        let fastest = |histogram: &LatencyHistogram| histogram.quantile_us(0.0).unwrap_or(0);
        if let Some(least) = self.response_us_min {
            let seen = fastest(&samples.response);
            checks.push(Check::at_least("fastest answer, µs", least, seen));
        }
        if let Some(least) = self.failed_us_min {
            let seen = fastest(&samples.failed);
            checks.push(Check::at_least("fastest failure, µs", least, seen));
        }
        if let Some(most) = self.block_ms_max {
            let seen = block.wall.as_millis();
            checks.push(Check::unless_busy("the block, ms", most, seen));
        }
        checks
    }

    /// The two sides of the wire have to tell the same story.
    fn compare_service(&self, block: &BlockMeasurement, service: &Service) -> Vec<Check> {
        let mut checks = vec![];
        if let Some(read) = self.read {
            let seen = service.requests();
            checks.push(Check::same("requests at the server", read, seen));
        }
        if let Some(connections) = self.connections {
            let seen = service.connections();
            checks.push(Check::same("connections", connections, seen));
        }
        if let Some(bytes) = self.uploaded {
            let seen = service.uploaded();
            checks.push(Check::same("bytes of requests", bytes, seen));
        }
        let body_bytes = block.endpoints[ENDPOINT].body_bytes;
        let bytes_sent = service.bytes_sent();
        checks.push(Check::holds(
            "no more bytes than the server has sent",
            body_bytes <= bytes_sent,
            format!("{body_bytes} of {bytes_sent}"),
        ));
        if self.knows_ends {
            let left = left_open(|| service.connections_open());
            checks.push(Check::same("connections left open", 0, left));
        }
        checks
    }
}

/// Connections that nobody ends.
pub(super) fn left_open(open: impl Fn() -> u64) -> u64 {
    let begun = Instant::now();
    loop {
        let open = open();
        if open == 0 || begun.elapsed() > ENDED_WITHIN {
            return open;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// What holds of every block, whatever the service does: each request is counted once, under one
/// heading, and no time is longer than the block.
pub(super) fn counted_once(block: &BlockMeasurement, spec: &BlockSpec) -> Vec<Check> {
    let failed: u64 = block.errors.values().sum();
    let local: u64 = block.local_faults.values().sum();
    let all = block.endpoints.values();
    let in_flight: u64 = all.map(|samples| samples.in_flight.count()).sum();
    let series = |of: fn(&Second) -> u64| block.series.iter().map(of).sum::<u64>();
    let planned = planned(spec).filter(|_| block.ended == Ended::Complete);
    let planned = planned.map(|each| each * block.endpoints.len() as u64);
    let sums = [
        ("offered", planned.unwrap_or(block.offered), block.offered),
        (
            "completed, failed and in flight",
            block.offered,
            block.completed + failed + local + in_flight,
        ),
        ("offered, by seconds", block.offered, series(|s| s.offered)),
        ("sent, by seconds", block.sent, series(|s| s.sent)),
        (
            "completed, by seconds",
            block.completed,
            series(|s| s.completed),
        ),
        ("errors, by seconds", failed, series(|s| s.errors)),
    ];
    let wrong_sums: Vec<String> = sums
        .iter()
        .filter(|(_, expected, seen)| expected != seen)
        .map(|(what, expected, seen)| format!("{what}: {seen} instead of {expected}"))
        .collect();
    let wrong_times: Vec<String> = block
        .endpoints
        .iter()
        .flat_map(|(name, samples)| wrong_times(name, samples, block.wall))
        .collect();
    vec![
        Check::holds(
            "each request counted once",
            wrong_sums.is_empty(),
            wrong_sums.join("; "),
        ),
        Check::holds(
            "each time under one heading",
            wrong_times.is_empty(),
            wrong_times.join("; "),
        ),
    ]
}

fn wrong_times(name: &str, samples: &EndpointSamples, wall: Duration) -> Vec<String> {
    let failed: u64 = samples.errors.values().sum();
    let counts = [
        ("response", samples.response.count(), samples.completed),
        ("service", samples.service.count(), samples.completed),
        ("queue", samples.queue.count(), samples.completed),
        ("failed", samples.failed.count(), failed),
    ];
    let mut wrong: Vec<String> = counts
        .iter()
        .filter(|(_, seen, expected)| seen != expected)
        .map(|(what, seen, expected)| format!("{name}: {seen} times in {what}, not {expected}"))
        .collect();
    // A histogram tells at most 0.1 % too much, and rounds up to 1 µs.
    let wall_us = wall.as_micros() + wall.as_micros() / 500 + 1;
    let longest_us = samples.response.max_us().map_or(0, u128::from);
    if longest_us > wall_us {
        wrong.push(format!(
            "{name}: an answer took {longest_us} µs in a block of {wall_us} µs"
        ));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::case::CheckState;
    use unstall_testbed::FaultyServer;

    use super::super::load::{measure, scenario};
    use super::*;

    /// What isn't met.
    fn unmet(exchange: Exchange) -> Vec<String> {
        let checks = exchange.run().expect("it can be tried");
        let unmet = checks
            .into_iter()
            .filter(|check| check.state != CheckState::Met);
        unmet.map(|check| check.what).collect()
    }

    #[test]
    fn a_right_answer_is_one_and_a_wrong_one_is_told() {
        assert_eq!(unmet(Exchange::right("/ok")), Vec::<String>::new());
        assert_eq!(
            unmet(Exchange::right("/500")),
            ["completed", "errors", "body bytes"]
        );
        // Right, and not in the way that was expected.
        assert_eq!(
            unmet(Exchange::right("/until-close").response_us_min(60_000_000)),
            ["fastest answer, µs", "connections"]
        );
        assert_eq!(
            unmet(Exchange::wrong("/ok", &[ErrorKind::Reset])),
            ["completed", "errors", "connections"]
        );
    }

    #[test]
    fn what_is_counted_twice_or_not_at_all_is_told() {
        let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
        let spec = cold(2, 6);
        let block = measure(&scenario("GET", "/ok", ""), &server.url(), &spec).expect("a block");
        let told = |block: &BlockMeasurement| -> Vec<CheckState> {
            let checks = counted_once(block, &spec);
            checks.iter().map(|check| check.state).collect()
        };
        use CheckState::{Met, Missed};
        assert_eq!(told(&block), [Met, Met]);
        let mut other = block.clone();
        other.completed += 1;
        assert_eq!(told(&other), [Missed, Met]);
        let mut other = block.clone();
        let samples = other.endpoints.get_mut(ENDPOINT).expect("the endpoint");
        samples.response.record(Duration::from_secs(100));
        assert_eq!(told(&other), [Met, Missed]);
    }
}
