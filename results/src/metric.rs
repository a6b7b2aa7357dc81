//! What is known of each metric whoever judges it: its family, scale, percentile and resolution.

use crate::comparison::{Family, Metric, Scale};

impl Metric {
    /// Every metric, in the order in which cells are listed.
    pub const ALL: [Self; 12] = [
        Self::ResponseP50,
        Self::ResponseP95,
        Self::ResponseP99,
        Self::TtftP50,
        Self::TtftP95,
        Self::ErrorRate,
        Self::BlockedMsPer1000,
        Self::Threads,
        Self::CpuUsPerRequest,
        Self::Throughput,
        Self::RssMib,
        Self::ProbeP90,
    ];

    /// Its name in policies and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::ResponseP50 => "response_p50",
            Self::ResponseP95 => "response_p95",
            Self::ResponseP99 => "response_p99",
            Self::TtftP50 => "ttft_p50",
            Self::TtftP95 => "ttft_p95",
            Self::ErrorRate => "error_rate",
            Self::BlockedMsPer1000 => "blocked_ms_per_1000",
            Self::Threads => "threads",
            Self::CpuUsPerRequest => "cpu_us_per_request",
            Self::Throughput => "throughput",
            Self::RssMib => "rss_mib",
            Self::ProbeP90 => "probe_p90",
        }
    }

    /// The metric of this name, see [`Self::name`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// With which others it is judged.
    pub fn family(self) -> Family {
        match self {
            Self::ResponseP50
            | Self::ResponseP95
            | Self::ResponseP99
            | Self::TtftP50
            | Self::TtftP95 => Family::Latency,
            Self::ErrorRate => Family::Errors,
            Self::BlockedMsPer1000 | Self::Threads => Family::Loop,
            Self::CpuUsPerRequest | Self::Throughput | Self::RssMib | Self::ProbeP90 => {
                Family::Advisory
            }
        }
    }

    /// In which arithmetic its change is expressed.
    pub fn scale(self) -> Scale {
        match self {
            Self::ErrorRate => Scale::Difference,
            _ => Scale::Ratio,
        }
    }

    /// True when larger values are better.
    pub fn larger_is_better(self) -> bool {
        self == Self::Throughput
    }

    /// True for what only the process as a whole has; the rest belongs to endpoints, or to both.
    pub(crate) fn is_of_service(self) -> bool {
        matches!(
            self,
            Self::Threads | Self::Throughput | Self::RssMib | Self::ProbeP90
        )
    }

    /// True for a percentile of the response time, which every endpoint has.
    pub(crate) fn is_response(self) -> bool {
        matches!(
            self,
            Self::ResponseP50 | Self::ResponseP95 | Self::ResponseP99
        )
    }

    /// The percentile that it is, if it is one.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::ResponseP50 | Self::TtftP50 => Some(0.5),
            Self::ResponseP95 | Self::TtftP95 => Some(0.95),
            Self::ResponseP99 => Some(0.99),
            Self::ProbeP90 => Some(0.9),
            _ => None,
        }
    }

    /// What it can tell apart, in its unit: smaller values are raised to this
    /// before a ratio is taken, so that 0 has a ratio too.
    pub fn resolution(self) -> f64 {
        match self {
            Self::ResponseP50
            | Self::ResponseP95
            | Self::ResponseP99
            | Self::TtftP50
            | Self::TtftP95
            | Self::ProbeP90 => 0.001,
            // Depends on the number of requests: see the errors' cell.
            Self::ErrorRate => 0.0,
            Self::BlockedMsPer1000
            | Self::Threads
            | Self::CpuUsPerRequest
            | Self::Throughput
            | Self::RssMib => 1.0,
        }
    }
}
