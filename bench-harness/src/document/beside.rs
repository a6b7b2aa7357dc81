//! What stands beside the endpoints in the document of `--json`: bystanders, streams, connections,
//! sizes of answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use unstall_results::answers::{Answers, answers};
use unstall_results::bystander::Bystander;
use unstall_results::connecting::{Connecting, connecting};
use unstall_results::record::RunRecord;
use unstall_results::stream::{Quantiles, StreamSummary};
use unstall_results::{bystander, stream};

use super::comparison::EstimateDocument;
use super::finite;
use super::measurement::{counts_by_name, users};

/// What the bystander probe waited at one level.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct BystanderDocument {
    /// The version: `run`, or `before` and `after`.
    arm: String,
    /// Users at once, meanwhile; `null` of an open load.
    level: Option<u32>,
    /// Arrivals per second that an open load offered; `null` of a closed one.
    arrivals_per_second: Option<f64>,
    /// The trivial route that was asked for.
    path: String,
    /// Requests per second.
    rate_per_second: f64,
    /// Requests that were due.
    requests: u64,
    /// Answers.
    completed: u64,
    /// Failures by kind; only kinds that occurred.
    errors: BTreeMap<String, u64>,
    /// Without an answer when their block ended.
    in_flight: u64,
    /// From the moment a request was due, all blocks together.
    p50_ms: EstimateDocument,
    /// See `p50_ms`.
    p90_ms: EstimateDocument,
    /// See `p50_ms`.
    p99_ms: EstimateDocument,
    /// The longest that a request waited.
    longest_ms: EstimateDocument,
    /// How late the probe itself was, 99th percentile; part of the times above.
    lag_p99_us: Option<u64>,
    /// Blocked loop time of the probe's own route per 1 000 of its requests, where a monitor
    /// counted it.
    blocked_ms_per_1000: Option<f64>,
    /// Why these numbers are doubtful, `null` if they are not.
    doubt: Option<String>,
}

/// The streams of one endpoint at one level.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct StreamDocument {
    /// The version: `run`, or `before` and `after`.
    arm: String,
    /// Users at once; `null` of an open load.
    level: Option<u32>,
    /// Arrivals per second that an open load offered; `null` of a closed one.
    arrivals_per_second: Option<f64>,
    /// Its name in the scenario.
    endpoint: String,
    /// Complete streams.
    completed: u64,
    /// Streams that were cut short.
    truncated: u64,
    /// Items, first ones included.
    items: u64,
    /// Share of items that came in one read with the one before, 0 to 1.
    coalesced_share: Option<f64>,
    /// Gaps that were left out because the generator itself stalled.
    gaps_stalled: u64,
    /// To the first meaningful item, from the moment the request was meant to be sent.
    ttft: QuantilesDocument,
    /// The same from the first byte written.
    ttft_sent: QuantilesDocument,
    /// Between items.
    gap: QuantilesDocument,
    /// The longest gap of each stream.
    gap_longest_p50_ms: EstimateDocument,
    /// The longest gap of all.
    gap_max_ms: Option<f64>,
}

/// The connections that requests of one endpoint opened at one level. What that took is part of
/// their response times.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ConnectingDocument {
    /// The version: `run`, or `before` and `after`.
    arm: String,
    /// Users at once; `null` of an open load.
    level: Option<u32>,
    /// Arrivals per second that an open load offered; `null` of a closed one.
    arrivals_per_second: Option<f64>,
    /// Its name in the scenario.
    endpoint: String,
    /// Connections opened.
    opened: u64,
    /// Resolving the name; `null` where there was none to resolve.
    dns: Option<QuantilesDocument>,
    /// Connecting.
    tcp: QuantilesDocument,
    /// The handshake of TLS; `null` without TLS.
    tls: Option<QuantilesDocument>,
}

/// How large the answers of one endpoint were, and how often it redirected, at all levels together.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct AnswersDocument {
    /// The version: `run`, or `before` and `after`.
    arm: String,
    /// Its name in the scenario.
    endpoint: String,
    /// Checked, successful answers.
    completed: u64,
    /// Bytes of their bodies, decoded.
    body_bytes: u64,
    /// The same as they came over the wire, which is fewer where they were compressed; `null` if
    /// the record doesn't tell.
    encoded_bytes: Option<u64>,
    /// Redirects that were followed, by requests whatever became of them.
    redirects: u64,
}

/// Percentiles, all blocks together.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct QuantilesDocument {
    /// Median.
    p50_ms: EstimateDocument,
    /// 95th percentile.
    p95_ms: EstimateDocument,
    /// 99th percentile.
    p99_ms: EstimateDocument,
}

/// The bystanders of a record.
pub(super) fn bystanders(record: &RunRecord) -> Vec<BystanderDocument> {
    let Some(probe) = &record.load.probe else {
        return Vec::new();
    };
    let found = bystander::bystanders(record).into_iter();
    found
        .map(|bystander| {
            BystanderDocument::new(bystander, probe.path.clone(), probe.rate_per_second)
        })
        .collect()
}

/// The streams of a record.
pub(super) fn streams(record: &RunRecord) -> Vec<StreamDocument> {
    let found = stream::streams(record);
    found.iter().map(StreamDocument::from).collect()
}

/// The connections that were opened while a record was measured.
pub(super) fn connections(record: &RunRecord) -> Vec<ConnectingDocument> {
    let found = connecting(record);
    found.iter().map(ConnectingDocument::from).collect()
}

/// The answers of a record.
pub(super) fn answers_of(record: &RunRecord) -> Vec<AnswersDocument> {
    let found = answers(record).into_iter();
    found.map(AnswersDocument::from).collect()
}

impl From<Answers> for AnswersDocument {
    fn from(answers: Answers) -> Self {
        let Answers {
            arm,
            endpoint,
            completed,
            body_bytes,
            encoded_bytes,
            redirects,
        } = answers;
        Self {
            arm,
            endpoint,
            completed,
            body_bytes,
            encoded_bytes,
            redirects,
        }
    }
}

impl From<&Connecting> for ConnectingDocument {
    fn from(connecting: &Connecting) -> Self {
        Self {
            arm: connecting.arm.clone(),
            level: users(connecting.level),
            arrivals_per_second: connecting.level.rate_per_second(),
            endpoint: connecting.endpoint.clone(),
            opened: connecting.opened,
            dns: connecting.dns.as_ref().map(QuantilesDocument::from),
            tcp: QuantilesDocument::from(&connecting.tcp),
            tls: connecting.tls.as_ref().map(QuantilesDocument::from),
        }
    }
}

impl BystanderDocument {
    fn new(bystander: Bystander, path: String, rate_per_second: f64) -> Self {
        Self {
            arm: bystander.arm,
            level: users(bystander.level),
            arrivals_per_second: bystander.level.rate_per_second(),
            path,
            rate_per_second,
            requests: bystander.offered,
            completed: bystander.completed,
            errors: counts_by_name(&bystander.errors),
            in_flight: bystander.in_flight,
            p50_ms: EstimateDocument::from(&bystander.p50),
            p90_ms: EstimateDocument::from(&bystander.p90),
            p99_ms: EstimateDocument::from(&bystander.p99),
            longest_ms: EstimateDocument::from(&bystander.longest),
            lag_p99_us: bystander.lag_us_p99,
            blocked_ms_per_1000: bystander.blocked_ms_per_1000.and_then(finite),
            doubt: bystander.doubt,
        }
    }
}

impl From<&StreamSummary> for StreamDocument {
    fn from(stream: &StreamSummary) -> Self {
        Self {
            arm: stream.arm.clone(),
            level: users(stream.level),
            arrivals_per_second: stream.level.rate_per_second(),
            endpoint: stream.endpoint.clone(),
            completed: stream.completed,
            truncated: stream.truncated,
            items: stream.items,
            coalesced_share: stream.coalesced_share.and_then(finite),
            gaps_stalled: stream.gaps_stalled,
            ttft: QuantilesDocument::from(&stream.ttft),
            ttft_sent: QuantilesDocument::from(&stream.ttft_sent),
            gap: QuantilesDocument::from(&stream.gap),
            gap_longest_p50_ms: EstimateDocument::from(&stream.gap_longest_p50),
            gap_max_ms: stream.gap_ms_max.and_then(finite),
        }
    }
}

impl From<&Quantiles> for QuantilesDocument {
    fn from(quantiles: &Quantiles) -> Self {
        Self {
            p50_ms: EstimateDocument::from(&quantiles.p50),
            p95_ms: EstimateDocument::from(&quantiles.p95),
            p99_ms: EstimateDocument::from(&quantiles.p99),
        }
    }
}
