//! What counts as harm: margins, limits, floors, which cells are judged, objectives, and what an
//! answer that is none means for a pipeline.
//!
//! The defaults are meant to be left alone. A policy file (TOML) overrides single values:
//! [`Policy::parse`] reads it, [`Policy::check`] holds it against the records that it is to
//! judge, and [`Policy::for_scenario`] makes its globs know the routes behind endpoints' names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::comparison::{Family, Metric, Scale, Verdict};
use crate::record::{EndpointIdentity, ScenarioIdentity};
use crate::wording;

pub use error::PolicyError;
pub use glob::Glob;
pub use raw::schema;
pub use rule::{Place, Rule, SloRule};

mod coverage;
mod error;
mod glob;
mod raw;
mod resolve;
mod rule;

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
    /// What an inconclusive comparison means for whoever asked.
    pub inconclusive: Consequence,
    /// What an invalid measurement means for whoever asked.
    pub invalid: Consequence,
    /// Whether records of different sessions are judged.
    pub unpaired: Unpaired,
    /// Metrics that count for the verdict where no rule says otherwise.
    pub judged: BTreeSet<Metric>,
    /// Where the file names each of them, if it does.
    pub judge_places: BTreeMap<Metric, Place>,
    /// What differs from [`Margin::default_of`] and [`Self::judged`], the last one that says
    /// something has its way. A table `[metrics.X]` is a rule for every endpoint and stands
    /// before those of `[[rule]]`.
    pub rules: Vec<Rule>,
    /// What must hold of the after version, whatever the before version does.
    pub slos: Vec<SloRule>,
    /// The file, if it was one.
    pub origin: PathBuf,
    /// Endpoint → `METHOD /path`, for globs; see [`Self::for_scenario`].
    pub routes: BTreeMap<String, String>,
}

/// What follows from a verdict that is neither pass nor regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// The exit code says so.
    Fail,
    /// Every output says so, and the exit code is 0.
    Warn,
}

/// Whether the difference of two sessions is judged. It holds whatever changed between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpaired {
    /// Shown only: the comparison is inconclusive.
    Advise,
    /// Judged like any other, without a test.
    Judge,
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

impl Default for Policy {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            inconclusive: Consequence::Fail,
            invalid: Consequence::Fail,
            unpaired: Unpaired::Advise,
            judged: Metric::ALL
                .into_iter()
                .filter(|metric| metric.family() != Family::Advisory)
                .collect(),
            judge_places: BTreeMap::new(),
            rules: Vec::new(),
            slos: Vec::new(),
            origin: PathBuf::new(),
            routes: BTreeMap::new(),
        }
    }
}

impl Policy {
    /// The same with the routes of a scenario's endpoints, so that a glob over `METHOD /path`
    /// finds them. Without them globs see endpoints' names only.
    #[must_use]
    pub fn for_scenario(&self, scenario: &ScenarioIdentity) -> Self {
        let route = |of: &EndpointIdentity| (of.name.clone(), format!("{} {}", of.method, of.path));
        Self {
            routes: scenario.endpoints.iter().map(route).collect(),
            ..self.clone()
        }
    }

    /// The margin of a metric of an endpoint, by its name; `None` is the whole service.
    pub fn margin(&self, endpoint: Option<&str>, metric: Metric) -> Margin {
        let mut margin = Margin::default_of(metric);
        for rule in self.rules_of(endpoint, metric) {
            rule.apply(metric.scale(), &mut margin);
        }
        margin
    }

    /// Whether a metric of an endpoint, or of the whole service, counts for the verdict: a
    /// scenario may want the times of an endpoint shown and not judged, and no rule overrides it.
    pub(crate) fn judges(&self, endpoint: Option<&EndpointIdentity>, metric: Metric) -> bool {
        if is_only_shown(endpoint, metric) {
            return false;
        }
        let name = endpoint.map(|endpoint| endpoint.name.as_str());
        self.rules_of(name, metric)
            .filter_map(|rule| rule.judged)
            .last()
            .unwrap_or_else(|| self.judged.contains(&metric))
    }

    fn rules_of(&self, endpoint: Option<&str>, metric: Metric) -> impl Iterator<Item = &Rule> {
        let route = endpoint.and_then(|name| self.routes.get(name));
        self.rules.iter().filter(move |rule| {
            rule.is_about(endpoint, route.map(String::as_str)) && rule.is_about_metric(metric)
        })
    }

    /// What a verdict means under this policy. Invalid and inconclusive ones may be a warning;
    /// a regression never is, and neither is what `broke_off` before its plan was done.
    pub fn consequence(&self, verdict: Verdict, broke_off: bool) -> Option<Consequence> {
        match verdict {
            Verdict::Pass => None,
            _ if broke_off => Some(Consequence::Fail),
            Verdict::Regression => Some(Consequence::Fail),
            Verdict::Inconclusive => Some(self.inconclusive),
            Verdict::Invalid => Some(self.invalid),
        }
    }
}

/// The scenario wants this shown and not judged.
fn is_only_shown(endpoint: Option<&EndpointIdentity>, metric: Metric) -> bool {
    metric.family() == Family::Latency && endpoint.is_some_and(|endpoint| !endpoint.judged)
}

/// One hundredth of what is compared, or one unit of it: what a number of a policy counts.
fn unit_of(scale: Scale) -> f64 {
    match scale {
        Scale::Ratio => 0.01,
        Scale::Difference => 1.0,
    }
}

/// Why a margin and a limit don't go together.
fn limit_not_above(margin: &Margin, scale: Scale) -> String {
    let shown = |value: f64| wording::number(value / unit_of(scale));
    format!(
        "the limit is {} and not above the margin, which is {}",
        shown(margin.harm),
        shown(margin.regression)
    )
}

/// What to do about it.
const LIMIT_FIX: &str = "give both, the limit above the margin: what lies between them is \
                         neither a pass nor a regression";
