//! A service level objective: what must hold, of which endpoints, and what it takes to judge it.
//! How people write one is in `notation`, whether a block holds it in `reading`, what many blocks
//! say of it in `evidence`.

use std::time::Duration;

use crate::order_statistics::requests_needed;
use crate::policy::SloRule;
use crate::record::{EndpointIdentity, ScenarioIdentity};

pub(crate) use evidence::{is_streamed, judge};
pub use finding::{SloFinding, SloOutcome};
pub use notation::SloError;
pub use reading::Reading;

mod evidence;
mod finding;
mod notation;
mod reading;

/// What must hold, all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Slo {
    objectives: Vec<Objective>,
}

/// One limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// The endpoint that it is about. Without one, times are those of each judged endpoint by
    /// itself, and errors those of all requests together.
    pub endpoint: Option<String>,
    /// What is limited.
    pub measure: Measure,
    /// What the measure must stay below: µs of a time, a share of errors.
    pub limit: f64,
}

/// What an objective limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// End − intended.
    Response(Percentile),
    /// First meaningful item of a stream − intended.
    Ttft(Percentile),
    /// The share of requests that failed.
    Errors,
}

/// Which of the times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Percentile {
    /// This quantile, between 0 and 1.
    Of(f64),
    /// The longest.
    Max,
}

impl Slo {
    /// The objectives, in the order written.
    pub fn objectives(&self) -> &[Objective] {
        &self.objectives
    }

    /// Whether a scenario with these endpoints can be held against it; `streams` says which of
    /// them answer by a stream.
    ///
    /// # Errors
    /// An endpoint that the scenario doesn't have, or a first item where nothing is streamed.
    pub fn check(
        &self,
        endpoints: &[EndpointIdentity],
        streams: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        for objective in &self.objectives {
            let subjects = objective.subjects(endpoints);
            let name = objective.endpoint.as_deref();
            if let Some(name) = name.filter(|_| subjects.is_empty()) {
                let known: Vec<&str> = endpoints.iter().map(|of| of.name.as_str()).collect();
                return Err(format!(
                    "`{objective}` is about `{name}`, which the scenario has not: its endpoints \
                     are {}",
                    known.join(", ")
                ));
            }
            let streamed = subjects.iter().any(|of| streams(&of.name));
            if matches!(objective.measure, Measure::Ttft(_)) && !streamed {
                return Err(format!(
                    "`{objective}` is about the first item of a stream, and {} answers by none: \
                     limit its response time, or name an endpoint with a `stream`",
                    name.unwrap_or("the scenario")
                ));
            }
        }
        Ok(())
    }

    /// Arrivals from which every percentile in it may be judged: an endpoint has its share of them.
    pub fn arrivals_needed(&self, endpoints: &[EndpointIdentity]) -> f64 {
        self.most_arrivals(endpoints, |of| match of.measure.quantile() {
            Some(quantile) => requests_needed(quantile) as f64,
            None => 1.0,
        })
    }

    /// Arrivals of which each endpoint that it is about may be expected to have `requests`.
    pub fn arrivals_with(&self, requests: f64, endpoints: &[EndpointIdentity]) -> f64 {
        self.most_arrivals(endpoints, |_| requests)
    }

    fn most_arrivals(
        &self,
        endpoints: &[EndpointIdentity],
        requests: impl Fn(&Objective) -> f64,
    ) -> f64 {
        let of_all = |of: &Objective| {
            let is_of_all = of.endpoint.is_none() && of.measure == Measure::Errors;
            let shares = of.subjects(endpoints).into_iter();
            let rarest = shares
                .filter_map(|endpoint| endpoint.share.filter(|_| !is_of_all))
                .fold(1.0, f64::min);
            requests(of) / rarest
        };
        self.objectives.iter().map(of_all).fold(1.0, f64::max)
    }

    /// The lowest limit of a time; `None` if only errors are limited.
    pub fn tightest_limit(&self) -> Option<Duration> {
        let times = self.objectives.iter();
        times
            .filter(|of| of.measure != Measure::Errors)
            .map(|of| Duration::from_secs_f64(of.limit / 1e6))
            .min()
    }
}

impl Objective {
    /// The endpoints that it is about.
    fn subjects<'e>(&self, endpoints: &'e [EndpointIdentity]) -> Vec<&'e EndpointIdentity> {
        let named = |of: &&EndpointIdentity| match &self.endpoint {
            Some(name) => of.name == *name,
            None => of.judged,
        };
        endpoints.iter().filter(named).collect()
    }
}

/// An objective of a policy on each endpoint that it is about, by itself.
pub(crate) fn subjects(
    rule: &SloRule,
    objective: &Objective,
    scenario: &ScenarioIdentity,
    streams: &dyn Fn(&str) -> bool,
) -> Vec<Objective> {
    let of_all = rule.endpoint.is_none() && objective.endpoint.is_none();
    if of_all && objective.measure == Measure::Errors {
        return vec![objective.clone()];
    }
    let is_meant = |of: &&EndpointIdentity| match (&rule.endpoint, &objective.endpoint) {
        (Some(_), _) => rule.is_about(of),
        (None, Some(name)) => of.name == *name,
        (None, None) => of.judged,
    };
    let applies = |of: &&EndpointIdentity| {
        !matches!(objective.measure, Measure::Ttft(_)) || streams(&of.name)
    };
    let endpoints = scenario.endpoints.iter().filter(is_meant).filter(applies);
    endpoints
        .map(|of| Objective {
            endpoint: Some(of.name.clone()),
            ..objective.clone()
        })
        .collect()
}

impl Measure {
    fn is_longest(self) -> bool {
        matches!(
            self,
            Self::Response(Percentile::Max) | Self::Ttft(Percentile::Max)
        )
    }

    fn quantile(self) -> Option<f64> {
        match self {
            Self::Response(Percentile::Of(q)) | Self::Ttft(Percentile::Of(q)) => Some(q),
            Self::Response(Percentile::Max) | Self::Ttft(Percentile::Max) | Self::Errors => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Slo {
        Slo::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn endpoint(name: &str) -> EndpointIdentity {
        EndpointIdentity {
            name: name.to_owned(),
            method: "GET".to_owned(),
            path: "/".to_owned(),
            timeout_ms: 10_000,
            judged: true,
            share: None,
        }
    }

    #[test]
    fn what_the_scenario_has_not_is_refused() {
        let endpoints = [endpoint("GET a"), endpoint("GET b")];
        let check = |text: &str| parse(text).check(&endpoints, |name| name == "GET b");
        assert_eq!(check("p95<1s,GET a:errors<1%,ttft.p95<1s"), Ok(()));
        assert!(check("GET c:p95<1s").is_err_and(|why| why.contains("GET a, GET b")));
        assert!(check("GET a:ttft.p95<1s").is_err_and(|why| why.contains("GET a answers by none")));
    }

    #[test]
    fn rare_percentiles_need_more_requests() {
        let needed = |text: &str| parse(text).arrivals_needed(&[endpoint("GET a")]);
        assert_eq!(needed("p95<1s,errors<1%"), 400.0);
        assert_eq!(needed("p50<1s,p99<1s"), 2_000.0);
        assert_eq!(needed("errors<1%,max<1s"), 1.0);
        // Of each arrival, an alternative has its share.
        let rare = EndpointIdentity {
            share: Some(0.01),
            ..endpoint("GET b")
        };
        let endpoints = [endpoint("GET a"), rare];
        for (slo, needed, looked) in [
            ("p95<1s", 40_000.0, 1_000.0),
            ("GET a:p95<1s", 400.0, 10.0),
            ("errors<1%", 1.0, 10.0),
            ("GET b:errors<1%,GET a:p99<1s", 2_000.0, 1_000.0),
        ] {
            let slo = parse(slo);
            let close = |seen: f64, expected: f64| (seen / expected - 1.0).abs() < 1e-9;
            let seen = slo.arrivals_needed(&endpoints);
            assert!(close(seen, needed), "{slo}: {seen}");
            assert!(close(slo.arrivals_with(10.0, &endpoints), looked), "{slo}");
        }
        let limit = parse("p50<1s,ttft.p99<200ms,errors<1%").tightest_limit();
        assert_eq!(limit, Some(Duration::from_millis(200)));
        assert_eq!(parse("errors<1%").tightest_limit(), None);
    }
}
