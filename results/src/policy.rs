//! What counts as harm: margins, limits, floors and which metrics are judged.
//!
//! The defaults are meant to be left alone. A policy file (TOML) overrides single
//! values, see [`Policy::parse`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::comparison::{Family, Metric, Scale};
use crate::record::EndpointIdentity;
use crate::text_position::position;

/// A block with a larger share of stolen CPU time is invalid: the machine was not ours.
pub const STEAL_SHARE_MAX: f64 = 0.05;
/// A block of the closed model whose generator lag has a larger p99 is invalid: its first
/// requests did not start together.
pub const GENERATOR_LAG_P99_US_MAX: u64 = 5_000;

/// A block of which a generator thread computed for a larger share of the time is invalid: the
/// generator was the limit, and not the service.
pub const GENERATOR_BUSY_SHARE_MAX: f64 = 0.95;

/// How the comparison judges.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Significance level of every test and bound.
    pub alpha: f64,
    /// Judge two records of different sessions too. Their difference holds
    /// whatever changed between the sessions, so it is advisory by default.
    pub judge_unpaired: bool,
    /// Metrics that count for the verdict.
    pub judged: BTreeSet<Metric>,
    /// Values that differ from [`Margin::default_of`].
    pub margins: BTreeMap<Metric, Margin>,
}

/// What is a regression and what is harm, for one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// δ: worse is a regression only beyond this. A share for ratios (0.05),
    /// the metric's unit for differences.
    pub regression: f64,
    /// Δ: a pass needs the upper bound below this, in the same terms.
    pub harm: f64,
    /// A smaller absolute change is no harm whatever its ratio; in the metric's unit.
    pub floor: f64,
}

impl Margin {
    /// The default for a metric.
    pub fn default_of(metric: Metric) -> Self {
        let (regression, harm, floor) = match metric {
            Metric::ResponseP50 | Metric::TtftP50 => (0.03, 0.15, 1.0),
            Metric::ResponseP95 | Metric::TtftP95 => (0.05, 0.20, 1.0),
            Metric::ResponseP99 => (0.10, 0.30, 1.0),
            Metric::ErrorRate => (0.0, 0.5, 0.1),
            Metric::BlockedMsPer1000 => (0.10, 0.30, 20.0),
            Metric::Threads => (0.05, 0.20, 2.0),
            Metric::CpuUsPerRequest => (0.05, 0.20, 5.0),
            Metric::Throughput => (0.05, 0.20, 1.0),
            Metric::RssMib => (0.05, 0.20, 4.0),
            Metric::ProbeP90 => (0.05, 0.20, 1.0),
        };
        Self {
            regression,
            harm,
            floor,
        }
    }
}

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

impl Default for Policy {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            judge_unpaired: false,
            judged: Metric::ALL
                .into_iter()
                .filter(|metric| metric.family() != Family::Advisory)
                .collect(),
            margins: BTreeMap::new(),
        }
    }
}

/// A policy file that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}\n  fix: {fix}", origin.display())]
pub struct PolicyError {
    /// The file.
    pub origin: PathBuf,
    /// From 1.
    pub line: usize,
    /// From 1, in bytes.
    pub column: usize,
    /// What was found and what was expected.
    pub message: String,
    /// What to do.
    pub fix: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPolicy {
    alpha: Option<toml::Spanned<f64>>,
    judge_unpaired: Option<bool>,
    judge: Option<BTreeSet<Metric>>,
    #[serde(default)]
    metrics: BTreeMap<Metric, toml::Spanned<RawMargin>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMargin {
    margin: Option<f64>,
    limit: Option<f64>,
    floor: Option<f64>,
}

impl Policy {
    /// The margin of a metric under this policy.
    pub fn margin(&self, metric: Metric) -> Margin {
        self.margins
            .get(&metric)
            .copied()
            .unwrap_or_else(|| Margin::default_of(metric))
    }

    /// Whether a metric of an endpoint, or of the whole service, counts for the verdict: a
    /// scenario may want the times of an endpoint shown and not judged.
    pub(crate) fn judges(&self, endpoint: Option<&EndpointIdentity>, metric: Metric) -> bool {
        let only_shown = endpoint.is_some_and(|endpoint| !endpoint.judged);
        self.judged.contains(&metric) && !(only_shown && metric.family() == Family::Latency)
    }

    /// Reads a policy file; whatever it does not say keeps its default.
    ///
    /// ```toml
    /// alpha = 0.05
    /// judge_unpaired = false
    /// judge = ["response_p50", "response_p95", "error_rate", "cpu_us_per_request", "probe_p90"]
    ///
    /// [metrics.response_p95]
    /// margin = 5    # worse by more than this is a regression: percent; points for error_rate
    /// limit = 20    # a pass excludes more than this: percent; points for error_rate
    /// floor = 1     # a smaller absolute change is no harm: in the metric's unit
    /// ```
    ///
    /// # Errors
    /// [`PolicyError`] with the place in the file and what to do.
    pub fn parse(text: &str, origin: &Path) -> Result<Self, PolicyError> {
        let error_at = |offset: usize, message: String, fix: &str| {
            let (line, column) = position(text.as_bytes(), offset);
            PolicyError {
                origin: origin.to_owned(),
                line,
                column,
                message,
                fix: fix.to_owned(),
            }
        };
        let raw: RawPolicy = toml::from_str(text).map_err(|error| {
            error_at(
                error.span().map_or(0, |span| span.start),
                error.message().replace('\n', " "),
                "keys are alpha, judge_unpaired, judge and [metrics.NAME] with margin, limit, floor",
            )
        })?;
        let mut policy = Self::default();
        if let Some(alpha) = raw.alpha {
            if !(*alpha.get_ref() > 0.0 && *alpha.get_ref() <= 0.5) {
                return Err(error_at(
                    alpha.span().start,
                    format!("alpha is {}, expected between 0 and 0.5", alpha.get_ref()),
                    "use 0.05",
                ));
            }
            policy.alpha = alpha.into_inner();
        }
        policy.judge_unpaired = raw.judge_unpaired.unwrap_or(policy.judge_unpaired);
        policy.judged = raw.judge.unwrap_or(policy.judged);
        for (metric, raw) in raw.metrics {
            let margin = raw.get_ref().resolve(metric);
            if let Some(message) = margin.problem() {
                return Err(error_at(
                    raw.span().start,
                    message,
                    "give margin ≥ 0, limit above margin and floor ≥ 0",
                ));
            }
            policy.margins.insert(metric, margin);
        }
        Ok(policy)
    }
}

impl RawMargin {
    fn resolve(&self, metric: Metric) -> Margin {
        let default = Margin::default_of(metric);
        let unit = match metric.scale() {
            Scale::Ratio => 0.01,
            Scale::Difference => 1.0,
        };
        Margin {
            regression: self.margin.map_or(default.regression, |value| value * unit),
            harm: self.limit.map_or(default.harm, |value| value * unit),
            floor: self.floor.unwrap_or(default.floor),
        }
    }
}

impl Margin {
    fn problem(&self) -> Option<String> {
        let finite = [self.regression, self.harm, self.floor]
            .iter()
            .all(|value| value.is_finite() && *value >= 0.0);
        if !finite {
            return Some("a negative or infinite value".to_owned());
        }
        (self.harm <= self.regression).then(|| "the limit is not above the margin".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Policy::parse(text, Path::new("policy.toml"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn what_a_file_does_not_say_keeps_its_default() {
        let empty = Policy::parse("", Path::new("policy.toml")).unwrap();
        assert_eq!(empty, Policy::default());
        let text = "judge_unpaired = true\njudge = [\"response_p50\"]\n\
                    [metrics.response_p95]\nlimit = 10\n[metrics.error_rate]\nmargin = 0.2\n";
        let policy = Policy::parse(text, Path::new("policy.toml")).unwrap();
        assert!(policy.judge_unpaired);
        assert_eq!(policy.judged, [Metric::ResponseP50].into());
        let p95 = policy.margin(Metric::ResponseP95);
        assert_eq!((p95.regression, p95.harm, p95.floor), (0.05, 0.1, 1.0));
        assert_eq!(policy.margin(Metric::ErrorRate).regression, 0.2);
    }

    #[test]
    fn mistakes_name_their_line_and_fix() {
        insta::assert_snapshot!(
            [
                refused("alhpa = 0.05"),
                refused("\n\nalpha = 0"),
                refused("judge = [\"p95\"]"),
                refused("[metrics.response_p95]\nmargin = 5\nlimit = 5"),
                refused("[metrics.response_p95]\nmargn = 5"),
                refused("[metrics.threads]\nfloor = -1"),
                refused("[metrics.speed]\nmargin = 5"),
                refused("alpha ="),
            ]
            .join("\n")
        );
    }
}
