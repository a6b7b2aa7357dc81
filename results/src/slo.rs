//! A service level objective as people write it (`p95<200ms,errors<0.1%`), and whether a block
//! holds it.
//!
//! A failed request is never a good one: it counts as slower than any limit, as everywhere here
//! where percentiles are judged. Requests in flight at the end are censored at their age.

use std::fmt;
use std::time::Duration;

use crate::error_adjusted::{ErrorAdjusted, Quantile};
use crate::histogram::LatencyHistogram;
use crate::order_statistics::requests_needed;
use crate::record::{Block, EndpointIdentity, EndpointSamples};

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

/// Why a text is no objective.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  {text}\n  {:>indent$}", "^", indent = position + 1)]
pub struct SloError {
    /// The whole text.
    pub text: String,
    /// Where the mistake is: characters before it.
    pub position: usize,
    /// What was found, what was expected and what to write.
    pub message: String,
}

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
    /// Reads objectives separated by commas: `[ENDPOINT:]MEASURE<LIMIT`.
    ///
    /// Measures are `p50`, `p99.9` or any other percentile and `max`, of response times or, as
    /// `ttft.p95`, of times to the first item of a stream; and `errors`. Limits of times carry
    /// `us`, `ms` or `s`, that of errors `%`.
    ///
    /// # Errors
    /// [`SloError`], which shows the place.
    pub fn parse(text: &str) -> Result<Self, SloError> {
        let mut objectives = Vec::new();
        let mut rest = text;
        loop {
            let (objective, after) = item(text, rest)?;
            objectives.push(objective);
            match after {
                Some(after) => rest = after,
                None => return Ok(Self { objectives }),
            }
        }
    }

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

    /// Requests per endpoint from which every percentile in it may be judged.
    pub fn requests_needed(&self) -> u64 {
        let quantiles = self
            .objectives
            .iter()
            .filter_map(|of| of.measure.quantile());
        quantiles.map(requests_needed).max().unwrap_or(1)
    }

    /// The lowest limit of a time; `None` if only errors are limited.
    pub fn tightest_limit(&self) -> Option<Duration> {
        let times = self.objectives.iter();
        times
            .filter(|of| of.measure != Measure::Errors)
            .map(|of| Duration::from_secs_f64(of.limit / 1e6))
            .min()
    }

    /// What a block says of each objective.
    pub fn read(&self, block: &Block, endpoints: &[EndpointIdentity]) -> Vec<Reading> {
        let objectives = self.objectives.iter();
        objectives
            .flat_map(|objective| objective.read(block, endpoints))
            .collect()
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

    fn read(&self, block: &Block, endpoints: &[EndpointIdentity]) -> Vec<Reading> {
        if self.measure == Measure::Errors {
            return vec![self.errors(block)];
        }
        let subjects = self.subjects(endpoints).into_iter();
        subjects
            .filter_map(|identity| {
                let samples = block.endpoints.get(&identity.name);
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
        let named = |name: &String| self.endpoint.as_ref().is_none_or(|of| of == name);
        let (mut failed, mut ended) = (0u64, 0u64);
        for (_, samples) in block.endpoints.iter().filter(|(name, _)| named(name)) {
            failed = failed.saturating_add(samples.failed.count());
            ended = ended.saturating_add(samples.failed.count() + samples.completed);
        }
        let share = (ended > 0).then(|| (failed as f64 / ended as f64, false));
        self.reading(self.endpoint.as_deref(), share)
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

impl Measure {
    fn quantile(self) -> Option<f64> {
        match self {
            Self::Response(Percentile::Of(q)) | Self::Ttft(Percentile::Of(q)) => Some(q),
            Self::Response(Percentile::Max) | Self::Ttft(Percentile::Max) | Self::Errors => None,
        }
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, objective) in self.objectives.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{objective}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(endpoint) = &self.endpoint {
            write!(f, "{endpoint}:")?;
        }
        write!(f, "{}<", self.measure)?;
        match self.measure {
            Measure::Errors => write!(f, "{}%", decimal(self.limit * 100.0)),
            _ if self.limit >= 1e6 => write!(f, "{}s", decimal(self.limit / 1e6)),
            _ if self.limit >= 1e3 => write!(f, "{}ms", decimal(self.limit / 1e3)),
            _ => write!(f, "{}us", decimal(self.limit)),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response(percentile) => write!(f, "{percentile}"),
            Self::Ttft(percentile) => write!(f, "ttft.{percentile}"),
            Self::Errors => write!(f, "errors"),
        }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(q) => write!(f, "p{}", decimal(q * 100.0)),
            Self::Max => write!(f, "max"),
        }
    }
}

/// Without the last digits that binary fractions add.
fn decimal(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One objective at the beginning of `rest`, and what stands behind its comma.
fn item<'t>(text: &str, rest: &'t str) -> Result<(Objective, Option<&'t str>), SloError> {
    let at = |part: &str, message: String| SloError {
        text: text.to_owned(),
        position: text[..part.as_ptr() as usize - text.as_ptr() as usize]
            .chars()
            .count(),
        message,
    };
    let Some(sign) = rest.find('<') else {
        let message = "an objective without `<`: write a measure and its limit, like p95<200ms";
        return Err(at(rest.trim_start(), message.to_owned()));
    };
    let (left, right) = (&rest[..sign], &rest[sign + 1..]);
    let (limit, after) = match right.split_once(',') {
        Some((limit, after)) => (limit, Some(after)),
        None => (right, None),
    };
    let (endpoint, name) = match left.rsplit_once(':') {
        Some((endpoint, name)) => (Some(endpoint.trim()), name.trim()),
        None => (None, left.trim()),
    };
    if endpoint.is_some_and(str::is_empty) {
        let message = "no endpoint before `:`; leave the colon out, or name one of the scenario's";
        return Err(at(left, message.to_owned()));
    }
    let measure = measure(name).map_err(|message| at(name, message))?;
    let number = limit.trim();
    let limit = match measure {
        Measure::Errors => share(number),
        _ => time_us(number),
    }
    .map_err(|message| at(number, message))?;
    let objective = Objective {
        endpoint: endpoint.map(str::to_owned),
        measure,
        limit,
    };
    Ok((objective, after))
}

fn measure(name: &str) -> Result<Measure, String> {
    let expected = || {
        format!(
            "`{name}` is no measure; write p50, p95, p99 or another percentile, max, ttft.p95 or \
             errors"
        )
    };
    if name == "errors" {
        return Ok(Measure::Errors);
    }
    let (of_ttft, which) = match name.strip_prefix("ttft.") {
        Some(which) => (true, which),
        None => (false, name),
    };
    let percentile = match (which, which.strip_prefix('p')) {
        ("max", _) => Percentile::Max,
        (_, Some(digits)) if digits.starts_with(|c: char| c.is_ascii_digit()) => {
            let percent: f64 = digits.parse().map_err(|_| expected())?;
            if !(percent > 0.0 && percent < 100.0) {
                return Err(format!(
                    "`{which}` is no percentile: it lies between p0 and p100, both left out; the \
                     longest of all is `max`"
                ));
            }
            Percentile::Of(percent / 100.0)
        }
        _ => return Err(expected()),
    };
    Ok(if of_ttft {
        Measure::Ttft(percentile)
    } else {
        Measure::Response(percentile)
    })
}

fn time_us(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)?;
    let scale = match unit {
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "" => {
            return Err(format!(
                "`{text}` has no unit; write {text}ms for milliseconds"
            ));
        }
        "%" => {
            return Err(format!(
                "`{text}` is a share, and a time is limited; write 200ms"
            ));
        }
        _ => return Err(format!("`{unit}` is no unit of time; use us, ms or s")),
    };
    let us = number * scale;
    if !(1.0..=3.6e9).contains(&us) {
        return Err(format!(
            "`{text}` can't be told: a limit is between 1us and 3600s"
        ));
    }
    Ok(us)
}

fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)?;
    if unit != "%" {
        return Err(format!(
            "`{text}` is no share in percent; write errors<1% for one request in a hundred"
        ));
    }
    if !(number > 0.0 && number <= 100.0) {
        return Err(format!(
            "`{text}` can't be kept below; a share lies between 0% and 100%, and none at all is \
             as good as errors<0.001%"
        ));
    }
    Ok(number / 100.0)
}

fn number_and_unit(text: &str) -> Result<(f64, &str), String> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let split = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    match number.parse::<f64>() {
        Ok(number) => Ok((number, unit.trim())),
        Err(_) if text.is_empty() => Err("nothing behind `<`; write a limit like 200ms".to_owned()),
        Err(_) => Err(format!(
            "`{text}` is no limit; write a number with its unit, like 200ms"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ErrorKind;
    use proptest::prelude::*;

    fn parse(text: &str) -> Slo {
        Slo::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn objectives_are_read_and_written() {
        let written = [
            ("p95<200ms,errors<0.1%", "p95<200ms, errors<0.1%"),
            (" p99.9 < 1.5 s ", "p99.9<1.5s"),
            ("POST message:p95<500ms", "POST message:p95<500ms"),
            (
                "GET /a:b, c:max<250us,ttft.p95<1s",
                "GET /a:b, c:max<250us, ttft.p95<1s",
            ),
            ("p50<1000us", "p50<1ms"),
            ("errors<100%", "errors<100%"),
        ];
        for (text, shown) in written {
            let slo = parse(text);
            assert_eq!(slo.to_string(), shown);
            assert_eq!(parse(shown), slo, "{shown}");
        }
        let named = parse("GET /a:b, c:max<250us");
        assert_eq!(
            named.objectives()[0].endpoint.as_deref(),
            Some("GET /a:b, c")
        );
    }

    #[test]
    fn mistakes_show_their_place_and_a_fix() {
        let wrong = [
            "",
            "p95",
            "p95<200",
            "p95<",
            "p95<200ms,",
            "errors<0.1%,p95<2min",
            "p100<1s",
            "q95<1s",
            "errors<5",
            "errors<0%",
            "p95<5%",
            ":p95<1s",
            "p95<0ms",
            "p95<=200ms",
            "ünlü:p9x<1s",
        ];
        let errors: Vec<String> = wrong
            .iter()
            .map(|text| Slo::parse(text).expect_err(text).to_string())
            .collect();
        insta::assert_snapshot!(errors.join("\n"));
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

    #[test]
    fn rare_percentiles_need_more_requests() {
        assert_eq!(parse("p95<1s,errors<1%").requests_needed(), 400);
        assert_eq!(parse("p50<1s,p99<1s").requests_needed(), 2_000);
        assert_eq!(parse("errors<1%,max<1s").requests_needed(), 1);
        let limit = parse("p50<1s,ttft.p99<200ms,errors<1%").tightest_limit();
        assert_eq!(limit, Some(Duration::from_millis(200)));
        assert_eq!(parse("errors<1%").tightest_limit(), None);
    }

    proptest! {
        #[test]
        fn any_text_is_an_objective_or_a_placed_mistake(text in "\\PC*") {
            if let Err(error) = Slo::parse(&text) {
                prop_assert!(error.position <= text.chars().count());
                prop_assert!(!error.message.is_empty());
            }
        }

        #[test]
        fn what_is_written_is_read_again(
            percent in 1u32..999, us in 1u32..50_000_000, share in 1u32..=10_000,
        ) {
            let text = format!(
                "a:p{}<{us}us,errors<{}%", f64::from(percent) / 10.0, f64::from(share) / 100.0
            );
            let slo = parse(&text);
            let again = parse(&slo.to_string());
            for (left, right) in slo.objectives().iter().zip(again.objectives()) {
                prop_assert!((left.limit - right.limit).abs() <= 1e-6 * left.limit.max(1.0));
            }
        }
    }
}
