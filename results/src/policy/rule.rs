//! One rule of a policy, and one objective: what it is about, what it says, where it stands.

use super::{Glob, Margin, unit_of};
use crate::comparison::{Metric, Scale};
use crate::level::Level;
use crate::record::EndpointIdentity;
use crate::slo::Slo;

/// A place in the policy file, from 1; the column counts bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

/// What a part of the cells is judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Endpoints, by `METHOD /path` or by name; without one every endpoint and the whole service.
    pub endpoint: Option<Glob>,
    /// Metrics, by name; without one all of them.
    pub metric: Option<Glob>,
    /// δ in percent, or in the metric's unit where its change is a difference.
    pub margin: Option<f64>,
    /// Δ in the same terms.
    pub limit: Option<f64>,
    /// In the metric's unit.
    pub floor: Option<f64>,
    /// Whether it counts for the verdict.
    pub judged: Option<bool>,
    /// Where it begins.
    pub place: Place,
    /// As the file calls it: `[metrics.response_p95]` or `[[rule]]`.
    pub title: String,
}

impl Rule {
    /// Whether it is about an endpoint of this name and route; `None` is the whole service,
    /// which no pattern describes.
    pub(super) fn is_about(&self, endpoint: Option<&str>, route: Option<&str>) -> bool {
        self.endpoint
            .as_ref()
            .is_none_or(|glob| is_described(glob, endpoint, route))
    }

    pub(super) fn is_about_metric(&self, metric: Metric) -> bool {
        self.metric
            .as_ref()
            .is_none_or(|glob| glob.matches(metric.name()))
    }

    /// Overrides what it says something of.
    pub(super) fn apply(&self, scale: Scale, margin: &mut Margin) {
        let unit = unit_of(scale);
        margin.regression = self.margin.map_or(margin.regression, |of| of * unit);
        margin.harm = self.limit.map_or(margin.harm, |of| of * unit);
        margin.floor = self.floor.unwrap_or(margin.floor);
    }
}

/// Whether a pattern describes an endpoint, by its name or its route.
pub(super) fn is_described(glob: &Glob, endpoint: Option<&str>, route: Option<&str>) -> bool {
    endpoint.is_some_and(|name| glob.matches(name))
        || route.is_some_and(|route| glob.matches(route))
}

/// What must hold of the after version.
#[derive(Debug, Clone, PartialEq)]
pub struct SloRule {
    /// Endpoints, by `METHOD /path` or by name; without one as [`Slo`] says.
    pub endpoint: Option<Glob>,
    /// What must hold.
    pub slo: Slo,
    /// Users or arrivals per second; without one every level.
    pub level: Option<f64>,
    /// Where it begins.
    pub place: Place,
}

impl SloRule {
    /// Whether its glob describes an endpoint.
    pub(crate) fn is_about(&self, endpoint: &EndpointIdentity) -> bool {
        let route = format!("{} {}", endpoint.method, endpoint.path);
        self.endpoint
            .as_ref()
            .is_none_or(|glob| is_described(glob, Some(&endpoint.name), Some(&route)))
    }

    /// Whether it is about this level.
    pub(crate) fn is_at(&self, level: Level) -> bool {
        let number = level
            .rate_per_second()
            .unwrap_or_else(|| f64::from(level.key()));
        // Rates are kept in thousandths.
        self.level
            .is_none_or(|wanted| (wanted - number).abs() < 5e-4)
    }
}
