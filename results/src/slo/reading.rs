//! Whether a block holds an objective.
//!
//! A failed request is never a good one: it counts as slower than any limit, as everywhere here
//! where percentiles are judged. Requests in flight at the end are censored at their age.

use super::{Measure, Objective, Percentile, Slo};
use crate::error_adjusted::{ErrorAdjusted, Quantile};
use crate::histogram::LatencyHistogram;
use crate::record::{Block, EndpointIdentity, EndpointSamples};
use crate::validate::total;

/// What one block says of one objective on one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The objective, as people write it, with the endpoint where it has one.
    pub objective: String,
    /// The endpoint it was read on; `None` for all requests together.
    pub endpoint: Option<String>,
    /// µs of a time, a share of errors; `None` where nothing was measured.
    pub value: Option<f64>,
    /// The value is a bound: failures or unfinished requests reach into it.
    pub at_least: bool,
    /// The limit, in the same unit.
    pub limit: f64,
    /// Both are shares and no times.
    pub is_share: bool,
    /// Whether the value is below it.
    pub holds: bool,
}

impl Slo {
    /// What a block says of each objective.
    pub fn read(&self, block: &Block, endpoints: &[EndpointIdentity]) -> Vec<Reading> {
        let objectives = self.objectives.iter();
        objectives
            .flat_map(|objective| objective.read(block, endpoints))
            .collect()
    }
}

impl Objective {
    /// What a block says of it, on each endpoint that it is about.
    pub(super) fn read(&self, block: &Block, endpoints: &[EndpointIdentity]) -> Vec<Reading> {
        if self.measure == Measure::Errors {
            let mut own = self.subjects(endpoints).into_iter();
            let is_undrawn = self.endpoint.is_some()
                && own.any(|identity| is_undrawn(block.endpoints.get(&identity.name), identity));
            return if is_undrawn {
                Vec::new()
            } else {
                vec![self.errors(block)]
            };
        }
        let subjects = self.subjects(endpoints).into_iter();
        subjects
            .filter_map(|identity| {
                let samples = block.endpoints.get(&identity.name);
                if is_undrawn(samples, identity) {
                    return None;
                }
                let seen = samples.and_then(|samples| self.times(samples, identity));
                // What isn't streamed has no first item and nothing to hold.
                let applies = samples.is_none_or(|of| of.ttft.is_some())
                    || !matches!(self.measure, Measure::Ttft(_));
                applies.then(|| self.reading(Some(&identity.name), seen))
            })
            .collect()
    }

    fn reading(&self, endpoint: Option<&str>, seen: Option<(f64, bool)>) -> Reading {
        Reading {
            objective: self.to_string(),
            endpoint: endpoint.map(str::to_owned),
            value: seen.map(|(value, _)| value),
            at_least: seen.is_some_and(|(_, at_least)| at_least),
            limit: self.limit,
            is_share: self.measure == Measure::Errors,
            holds: seen.is_some_and(|(value, at_least)| !at_least && value < self.limit),
        }
    }

    fn errors(&self, block: &Block) -> Reading {
        let (ended, failed) = self.ended(block);
        let share = (ended > 0).then(|| (failed as f64 / ended as f64, false));
        self.reading(self.endpoint.as_deref(), share)
    }

    /// Requests that ended, and those of them that failed.
    fn ended(&self, block: &Block) -> (u64, u64) {
        let (mut ended, mut failed) = (0u64, 0u64);
        for samples in self.samples(block) {
            // Another tool may state how many failed without their times.
            let own = total(&samples.errors);
            failed = failed.saturating_add(own);
            ended = ended.saturating_add(own.saturating_add(samples.completed));
        }
        (ended, failed)
    }

    /// Requests behind what a block says of it, and those of them that failed. Where times are
    /// limited, one still in flight counts, as it does among them.
    pub(super) fn requests(&self, block: &Block) -> (u64, u64) {
        let (ended, failed) = self.ended(block);
        if self.measure == Measure::Errors {
            return (ended, failed);
        }
        let waiting = self.samples(block).map(|samples| samples.in_flight.count());
        (waiting.fold(ended, u64::saturating_add), failed)
    }

    /// Of its endpoint, or of all.
    fn samples<'b>(&self, block: &'b Block) -> impl Iterator<Item = &'b EndpointSamples> {
        let named = |name: &String| self.endpoint.as_ref().is_none_or(|of| of == name);
        let own = block.endpoints.iter().filter(move |(name, _)| named(name));
        own.map(|(_, samples)| samples)
    }

    /// A time in µs, and whether it is only a bound; `None` without requests.
    fn times(&self, samples: &EndpointSamples, identity: &EndpointIdentity) -> Option<(f64, bool)> {
        let none = LatencyHistogram::new();
        let (events, waiting, percentile) = match self.measure {
            Measure::Response(percentile) => (&samples.response, &samples.in_flight, percentile),
            Measure::Ttft(percentile) => (
                samples.ttft.as_ref()?,
                samples.ttft_in_flight.as_ref().unwrap_or(&none),
                percentile,
            ),
            Measure::Errors => return None,
        };
        let failed = samples.failed.count();
        let quantile = match percentile {
            Percentile::Of(q) => {
                let timeout_us = identity.timeout_ms.saturating_mul(1_000);
                ErrorAdjusted::new(events, waiting, failed, timeout_us).quantile(q)?
            }
            Percentile::Max => {
                let longest_us = events.max_us().max(waiting.max_us());
                match (longest_us, failed) {
                    (None, 0) => return None,
                    (longest_us, 0) => Quantile::Exact(longest_us.unwrap_or(0)),
                    (longest_us, _) => Quantile::AtLeast(longest_us.unwrap_or(0)),
                }
            }
        };
        Some((quantile.us() as f64, quantile.is_bound()))
    }
}

/// Whether a request is an alternative that was not drawn, which says nothing of the service.
fn is_undrawn(samples: Option<&EndpointSamples>, identity: &EndpointIdentity) -> bool {
    let none = |of: &EndpointSamples| {
        of.completed == 0 && total(&of.errors) == 0 && of.in_flight.count() == 0
    };
    identity.share.is_some() && samples.is_none_or(none)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ErrorKind;

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

    fn block(completed_us: &[u64], failed: u64, in_flight_us: &[u64]) -> Block {
        let specs = [crate::synthetic::EndpointSpec::new("GET a", 10.0)];
        let mut block = crate::synthetic::run_record(1, 1, &specs).blocks.remove(0);
        let mut samples = EndpointSamples::default();
        for us in completed_us {
            samples.response.record_us(*us);
        }
        for us in in_flight_us {
            samples.in_flight.record_us(*us);
        }
        samples.failed.record_us_times(5, failed);
        samples.errors.insert(ErrorKind::Status, failed);
        samples.completed = completed_us.len() as u64;
        block.endpoints.insert("GET a".to_owned(), samples);
        block
    }

    fn holds(slo: &str, block: &Block) -> bool {
        let readings = parse(slo).read(block, &[endpoint("GET a")]);
        assert!(!readings.is_empty());
        readings.iter().all(|reading| reading.holds)
    }

    #[test]
    fn a_limit_is_kept_by_what_is_below_it() {
        let hundred: Vec<u64> = (1..=100).map(|n| n * 1_000).collect();
        let block = block(&hundred, 0, &[]);
        assert!(holds("p95<96ms", &block));
        assert!(!holds("p95<95ms", &block));
        assert!(holds("max<101ms", &block) && !holds("max<100ms", &block));
        assert!(holds("errors<0.1%", &block));
    }

    #[test]
    fn an_alternative_that_was_not_drawn_is_not_read() {
        let rare = EndpointIdentity {
            share: Some(0.01),
            ..endpoint("GET a")
        };
        let idle = block(&[], 0, &[]);
        for slo in ["p95<200ms", "GET a:errors<1%", "max<1s"] {
            assert_eq!(parse(slo).read(&idle, std::slice::from_ref(&rare)), []);
            // What every iteration sends, and what is asked and doesn't answer, is.
            assert!(!parse(slo).read(&idle, &[endpoint("GET a")])[0].holds);
            let waiting = block(&[], 0, &[900_000]);
            let readings = parse(slo).read(&waiting, std::slice::from_ref(&rare));
            assert_eq!(readings.len(), 1, "{slo}");
        }
    }

    #[test]
    fn failing_fast_keeps_no_limit() {
        let fast = vec![1_000; 90];
        assert!(holds("p95<200ms", &block(&fast, 0, &[])));
        let failing = block(&fast, 10, &[]);
        assert!(!holds("p95<200ms", &failing));
        assert!(holds("p90<200ms", &failing));
        assert!(!holds("max<200ms", &failing));
        assert!(!holds("errors<10%", &failing) && holds("errors<10.1%", &failing));
    }

    #[test]
    fn who_still_waits_is_not_forgotten() {
        let fast = vec![1_000; 90];
        assert!(!holds("p95<200ms", &block(&fast, 0, &[900_000; 10])));
        assert!(holds("p95<200ms", &block(&fast, 0, &[500; 10])));
        assert!(!holds("max<200ms", &block(&fast, 0, &[900_000])));
        assert!(!holds("p95<200ms", &block(&[], 0, &[])));
        assert!(!holds("errors<1%", &block(&[], 0, &[900_000])));
    }
}
