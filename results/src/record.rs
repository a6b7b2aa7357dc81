//! The record: everything that one measurement saw, in one JSON document.
//!
//! It holds what was observed and nothing that was concluded, so that an old
//! record can be judged again by newer statistics. Unknown fields are refused by
//! [`crate::store`], which knows the format's version. Integers carry their unit
//! in the name; histograms are [`LatencyHistogram`]s (microseconds).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::LatencyHistogram;

pub use arm::{Arm, ArmAccess};
pub use background::BackgroundSamples;
pub use capacity::CapacityLoad;
pub use contrast::Contrast;
pub use failure::{ErrorKind, LocalFault};
pub use imported::{Imported, StatedPercentile};
pub use merged::{Merged, MergedSession};
pub use monitor::{BlockedTime, MonitorDelta, MonitorEndpoint, ThreadCount};
pub use open::{OpenBlock, OpenLoad, OpenStage};
pub use stalls::{BLAMES_MAX, Blame, Stalls, UnderWay};
pub use watched::{WATCHED_CAUSES_MAX, Watched, WatchedCause};

mod arm;
mod background;
mod capacity;
mod contrast;
mod failure;
mod imported;
mod merged;
mod monitor;
mod open;
mod stalls;
mod watched;

/// The schema name every record carries.
pub const SCHEMA_NAME: &str = "unstall.record";
/// Bumped when a field changes its meaning or disappears.
pub const SCHEMA_MAJOR: u32 = 1;
/// Bumped when a field is added.
pub const SCHEMA_MINOR: u32 = 5;

/// A request of the bystander probe that takes longer counts as an error of kind `timeout`.
pub const PROBE_TIMEOUT_MS: u64 = 10_000;

/// One measurement: one version (`run`), two interleaved ones (`ab`), or the two of a migration's
/// step beside its start (`replay`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Name and version of this format.
    pub schema: Schema,
    /// Unique id of the measurement.
    pub id: String,
    /// The user's label, or one made from the scenario and arms.
    pub label: String,
    /// When it started: RFC 3339, UTC.
    pub created_utc: String,
    /// What measured.
    pub harness: Harness,
    /// Where it was measured.
    pub machine: Machine,
    /// What that machine could measure at all, right before. Since 1.3.
    #[serde(default)]
    pub floor: Option<MachineFloor>,
    /// What was sent.
    pub scenario: ScenarioIdentity,
    /// How it was sent.
    pub load: Load,
    /// The migration step that the arms stand on both sides of, if any.
    pub step: Option<StepIdentity>,
    /// Arm name → what ran. `run` has one arm, `ab` has `before` and `after`, `replay` has `start`
    /// besides.
    pub arms: BTreeMap<String, Arm>,
    /// In the order they ran.
    pub blocks: Vec<Block>,
    /// True when the measurement was stopped before its plan was done.
    pub interrupted: bool,
    /// The sessions that this record was put together from, if it was. Since 1.4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
    /// Which two of three arms these are, where a record of three was reduced to them. Since 1.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contrast: Option<Contrast>,
}

/// Name and version of a file format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Always [`SCHEMA_NAME`].
    pub name: String,
    /// See [`SCHEMA_MAJOR`].
    pub major: u32,
    /// See [`SCHEMA_MINOR`].
    pub minor: u32,
}

/// The tool that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Harness {
    /// Version of the tool.
    pub version: String,
    /// Commit of the tool, where it is known.
    pub git: Option<String>,
}

/// The machine: hard and soft keys of comparability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// `arch/cores/memory/os-kernel`, for example `x86_64/2c/24g/linux-6.18`.
    pub class: String,
    /// Model name of the CPU.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory of the machine.
    pub memory_mib: u64,
    /// Full kernel release.
    pub kernel: String,
    /// CPU frequency governor, where the kernel tells it.
    pub governor: Option<String>,
    /// CPU quota of the cgroup in cores, where there is one.
    pub cgroup_quota_cores: Option<f64>,
    /// True when generator, service and backing servers share cores.
    pub colocated: bool,
}

/// What a server that does nothing looked like on the same machine to the same load engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineFloor {
    /// Median response time with one user.
    pub response_us_p50: u64,
    /// 99th percentile of the same.
    pub response_us_p99: u64,
    /// Answers per second with 50 users.
    pub requests_per_second: f64,
}

/// Which scenario ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioIdentity {
    /// Name of the scenario.
    pub name: String,
    /// SHA-256 of the scenario file, in hex: a hard key of comparability.
    pub sha256: String,
    /// Its endpoints, in the order in which a user calls them.
    pub endpoints: Vec<EndpointIdentity>,
}

/// One request of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndpointIdentity {
    /// Its name in the scenario, the key of [`Block::endpoints`].
    pub name: String,
    /// HTTP method.
    pub method: String,
    /// Path with its `${variables}` unexpanded.
    pub path: String,
    /// A request that takes longer counts as an error of kind `timeout`.
    pub timeout_ms: u64,
    /// False when the scenario wants its times shown and not judged. Since 1.1.
    #[serde(default = "judged_unless_said")]
    pub judged: bool,
    /// The part of the iterations that send it, where its weight leaves some to its alternatives:
    /// more than 0, less than 1. Since 1.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

fn judged_unless_said() -> bool {
    true
}

/// The load model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// `closed` (users wait for their answer) or `open` (arrivals do not); `unknown` where another
    /// tool measured and didn't tell. Since 1.4.
    pub model: String,
    /// Concurrency of each level, for the closed model; for the open one the offered rate of
    /// each, in thousandths of an arrival per second.
    pub levels: Vec<u32>,
    /// Measured iterations per level and block: so many requests to each endpoint, and to those
    /// with a [`share`](EndpointIdentity::share) about that part of them.
    pub requests_per_endpoint: u64,
    /// Warm-up iterations per user before the first measured request.
    pub warmup_per_user: u32,
    /// Least warm-up time before the first measured request.
    pub warmup_ms_min: u64,
    /// Planned pairs; 0 for a record of one version.
    pub pairs: u32,
    /// Seed of the order, the schedule and random values.
    pub seed: u64,
    /// `template+flush`, `command` or `none`: from what state each block started.
    pub state_reset: String,
    /// Stated round trip between the service and its stores, where a proxy made one.
    pub store_round_trip_us: Option<u64>,
    /// The same, measured before the first block.
    pub store_round_trip_us_measured: Option<u64>,
    /// The bystander's requests beside the load, where there are any. Since 1.1.
    #[serde(default)]
    pub probe: Option<ProbeLoad>,
    /// How arrivals came, where the model is `open`. Since 1.3.
    #[serde(default)]
    pub open: Option<OpenLoad>,
    /// The question, where the highest rate was searched at which an objective holds. Since 1.3.
    #[serde(default)]
    pub capacity: Option<CapacityLoad>,
    /// Numbers of pairs after each of which the comparison may be judged and ended; empty: once,
    /// after all. Since 1.4.
    #[serde(default)]
    pub looks: Vec<u32>,
}

/// The bystander probe: requests at a constant rate, whatever the answers do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeLoad {
    /// The trivial route that it asks for.
    pub path: String,
    /// Requests per second.
    pub rate_per_second: f64,
}

/// A step of a migration plan, as far as a reader of the report needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepIdentity {
    /// For example `2a`.
    pub id: String,
    /// What the step did.
    pub title: String,
    /// Branch of its pull request.
    pub branch: String,
    /// `low`, `medium` or `high`.
    pub risk: String,
    /// What the plan expected.
    pub impact: String,
    /// The step's own endpoints: its criteria are judged on these.
    pub endpoints: Vec<String>,
    /// Criterion → what is expected, for example `p95` → `better-or-flat`.
    pub criteria: BTreeMap<String, String>,
}

/// One arm, one process start, one level, one stretch of load: the sampling unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Key of [`RunRecord::arms`].
    pub arm: String,
    /// Which pair it belongs to, from 0.
    pub pair: u32,
    /// From 0: its turn within its pair, or triple.
    pub position: u32,
    /// One of [`Load::levels`]: concurrency, or the offered rate in thousandths per second.
    pub level: u32,
    /// The monitor's or the harness's id of the process that served it.
    pub process_start_id: Option<String>,
    /// RFC 3339, UTC: when its load began.
    pub started_utc: String,
    /// The same on the monotonic clock; in a merged record sessions follow each other on it.
    pub started_mono_ns: u64,
    /// From the first intended request to the last completion.
    pub wall_ns: u64,
    /// Requests that the load model wanted sent.
    pub offered: u64,
    /// Requests whose first byte was written.
    pub sent: u64,
    /// Requests that ended with a checked, successful answer.
    pub completed: u64,
    /// Failures of the service or the network, by kind.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Faults of this side, by kind: any makes the block invalid.
    pub local_faults: BTreeMap<LocalFault, u64>,
    /// released − intended: our own lateness.
    pub generator_lag: LatencyHistogram,
    /// Endpoint name → what was measured there.
    pub endpoints: BTreeMap<String, EndpointSamples>,
    /// What the bystander probe saw beside the load, if one ran. Since 1.1.
    #[serde(default)]
    pub probe: Option<ProbeSamples>,
    /// What became of the users who held streams open beside the load, if there were any. Since
    /// 1.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundSamples>,
    /// One entry per second since the block began.
    pub series: Vec<Second>,
    /// What the service's own monitor counted, if it has one.
    pub monitor: Option<MonitorDelta>,
    /// What the service itself counted during the block, by name: counters that only grow, such as
    /// faults. Empty where it counted nothing; `None` where its monitor tells none. Since 1.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_counters: Option<BTreeMap<String, u64>>,
    /// What the kernel counted for the service's process group, if we started it.
    pub process: Option<ProcessUse>,
    /// What a watch from outside told of its event loops, where one was asked for. Since 1.2.
    #[serde(default)]
    pub watch: Option<Watched>,
    /// What became of the arrivals, where the load was open. Since 1.3.
    #[serde(default)]
    pub open: Option<OpenBlock>,
    /// When its loops were held and whom that kept waiting, where its monitor tells. Since 1.4.
    #[serde(default)]
    pub stalls: Option<Stalls>,
    /// CPU that the generator itself used, without that of the probe.
    pub generator_cpu_us: u64,
    /// Largest share of the block's time for which one of the generator's threads computed, 0 to
    /// 1: near 1 it was the limit, and not the service. Since 1.3.
    #[serde(default)]
    pub generator_busy_share: Option<f64>,
    /// Share of CPU time stolen by the hypervisor meanwhile, 0 to 1.
    pub steal_share: Option<f64>,
    /// Share of the time in which something on the machine waited for a core, 0 to 1, by the
    /// kernel's pressure stall information. Since 1.4.
    #[serde(default)]
    pub cpu_pressure_share: Option<f64>,
    /// Whether the block may be judged.
    pub validity: BlockValidity,
}

/// What was measured on one endpoint in one block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointSamples {
    /// Checked, successful answers.
    pub completed: u64,
    /// Failures by kind.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// end − intended, successes only: as many as [`Self::completed`].
    pub response: LatencyHistogram,
    /// end − first byte written, successes only.
    pub service: LatencyHistogram,
    /// acquired − intended, successes only.
    pub queue: LatencyHistogram,
    /// Time spent before failing, as many as [`Self::errors`] counts; timeouts are
    /// bounds at their timeout.
    pub failed: LatencyHistogram,
    /// Age of requests in flight when the block was stopped: censored, not dropped.
    pub in_flight: LatencyHistogram,
    /// Intended → first meaningful item, for streams: complete ones, and those in flight at the
    /// end that had it.
    pub ttft: Option<LatencyHistogram>,
    /// Age of those of [`Self::in_flight`] whose first meaningful item had not come; of the
    /// others it is among the `ttft`. Since 1.1.
    #[serde(default)]
    pub ttft_in_flight: Option<LatencyHistogram>,
    /// First byte written → first meaningful item, for streams. Since 1.1.
    #[serde(default)]
    pub ttft_sent: Option<LatencyHistogram>,
    /// Between items, for streams: those that were read apart, and not while this side stalled.
    pub gap: Option<LatencyHistogram>,
    /// Longest gap of each stream: one of these, or one so long that the generator's lateness is
    /// at most a tenth of it. Since 1.1.
    #[serde(default)]
    pub gap_longest: Option<LatencyHistogram>,
    /// Items of streams, first ones included. Since 1.1.
    #[serde(default)]
    pub items: u64,
    /// Items that came in one read with the one before, so that they have no gap. Since 1.1.
    #[serde(default)]
    pub items_coalesced: u64,
    /// Gaps in which the generator itself stalled: counted here and not in
    /// [`Self::gap`]. Since 1.1.
    #[serde(default)]
    pub gaps_stalled: u64,
    /// Bytes of answer bodies, decoded.
    pub body_bytes: u64,
    /// The same as they came: fewer where the service compressed them. 0 in records before 1.3.
    #[serde(default)]
    pub encoded_bytes: u64,
    /// Redirects that were followed, by requests whatever became of them. Since 1.3.
    #[serde(default)]
    pub redirects: u64,
    /// Resolving the service's name, by the requests that opened a connection or tried to; `None`
    /// where none did, or there was no name. A look-up that was cut off counts with the time it
    /// had. Part of [`Self::response`] or [`Self::failed`]. Since 1.3.
    #[serde(default)]
    pub dns: Option<LatencyHistogram>,
    /// Connecting, by the requests that opened a connection: only of those that stood. Since 1.3.
    #[serde(default)]
    pub tcp: Option<LatencyHistogram>,
    /// The handshake of TLS, by the requests that opened a connection; also one that failed or was
    /// cut off, with the time it had. Since 1.3.
    #[serde(default)]
    pub tls: Option<LatencyHistogram>,
}

/// What the bystander probe saw in one block. It never enters the load's own counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeSamples {
    /// Requests that were due.
    pub offered: u64,
    /// Answers with a status below 400.
    pub completed: u64,
    /// Failures by kind.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Requests that this side could not send. They make the probe's numbers doubtful and
    /// leave the block valid.
    pub local_faults: BTreeMap<LocalFault, u64>,
    /// end − intended of those completed: the delay that others feel.
    pub response: LatencyHistogram,
    /// Time from intended until the failure, as many as [`Self::errors`] counts.
    pub failed: LatencyHistogram,
    /// Age of those in flight at the block's end: censored, not dropped.
    pub in_flight: LatencyHistogram,
    /// How late this side noticed that a request was due: our own lateness. A request that
    /// had to wait for a free connection was noticed in time, and its wait is the service's.
    pub generator_lag: LatencyHistogram,
    /// What the service's monitor counted on the probe's route, if it has one and no endpoint
    /// of the scenario shares that route.
    pub monitor: Option<MonitorEndpoint>,
}

/// One second of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Since the block's start.
    pub second: u32,
    /// Requests intended in it.
    pub offered: u64,
    /// Requests sent in it.
    pub sent: u64,
    /// Requests completed in it.
    pub completed: u64,
    /// Requests failed in it.
    pub errors: u64,
    /// Median response time of those completed; `None` where none were.
    pub p50_us: Option<u64>,
    /// 95th percentile of the same.
    pub p95_us: Option<u64>,
    /// Maximum of the same.
    pub max_us: Option<u64>,
}

/// What the kernel counted for the service's process group during a block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// User and system time.
    pub cpu_us: u64,
    /// Highest resident set seen.
    pub rss_kib_max: u64,
    /// Most threads seen.
    pub threads_max: u64,
}

/// Whether a block may be judged, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockValidity {
    /// False when a fault of our own spoilt it.
    pub ok: bool,
    /// Each reason with what to do about it.
    pub reasons: Vec<String>,
}
