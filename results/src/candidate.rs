//! The cells of a comparison before any test: endpoint × level × metric, with
//! the paired differences that a test may use, or why there are none.

use std::collections::BTreeMap;

use crate::comparison::{Estimate, Family, Metric, Outcome, Scale};
use crate::design::pairs_min;
use crate::level::Level;
use crate::measure::{Reading, Subject, estimate, reading};
use crate::order_statistics::{interval_needed, requests_needed};
use crate::pairing::{Pair, Pairing};
use crate::policy::Policy;
use crate::record::{Block, EndpointIdentity, RunRecord};
use crate::saturation::Saturation;
use crate::validate::saturating_sum;
use crate::wording;

/// Percentiles and counts of one endpoint.
pub(crate) const OF_AN_ENDPOINT: [Metric; 8] = [
    Metric::ResponseP50,
    Metric::ResponseP95,
    Metric::ResponseP99,
    Metric::TtftP50,
    Metric::TtftP95,
    Metric::ErrorRate,
    Metric::BlockedMsPer1000,
    Metric::CpuUsPerRequest,
];

/// What only the process as a whole has. Its errors are those of its endpoints.
pub(crate) const OF_THE_SERVICE: [Metric; 6] = [
    Metric::BlockedMsPer1000,
    Metric::Threads,
    Metric::CpuUsPerRequest,
    Metric::Throughput,
    Metric::RssMib,
    Metric::ProbeP90,
];

/// Requests of a block from which a percentile that is only a bound is compared. Of fewer, one
/// failure would do at p99, and a single bad moment could have them all.
const BOUND_REQUESTS_MIN: u64 = 10;

/// A cell to be.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) subject: Subject<'a>,
    pub(crate) level: Level,
    pub(crate) metric: Metric,
    pub(crate) before: Estimate,
    pub(crate) after: Estimate,
    pub(crate) evidence: Evidence,
    /// Counts for the verdict whatever the policy says: that a service keeps up isn't a matter of
    /// taste.
    pub(crate) is_settled: bool,
    pub(crate) note: Option<String>,
}

/// What a candidate offers to a test.
#[derive(Debug)]
pub(crate) enum Evidence {
    /// Differences of every pair.
    Pairs(Differences),
    /// Nothing to test, and what follows from that.
    None(Outcome),
}

/// Paired differences; in all of them larger is worse.
#[derive(Debug, Clone)]
pub(crate) struct Differences {
    /// On the metric's scale: logarithm of the ratio, or the difference.
    pub(crate) worse: Vec<f64>,
    /// In the metric's unit.
    pub(crate) worse_absolute: Vec<f64>,
    /// Least standard error of the mean of `worse`: what the metric can resolve.
    pub(crate) standard_error_min: f64,
    /// Mean of the values before, for turning a floor into a ratio.
    pub(crate) before_mean: f64,
}

/// All candidates of a record, by level, endpoints in the scenario's order first.
pub(crate) fn candidates<'a>(
    record: &'a RunRecord,
    pairing: &Pairing<'_>,
    saturation: &BTreeMap<u32, Saturation>,
    policy: &Policy,
) -> Vec<Candidate<'a>> {
    let mut candidates = Vec::new();
    for (level, pairs) in &pairing.levels {
        if pairs.is_empty() {
            continue;
        }
        let endpoints = record
            .scenario
            .endpoints
            .iter()
            .flat_map(|endpoint| OF_AN_ENDPOINT.map(|metric| (Some(endpoint), metric)));
        let service = OF_THE_SERVICE.map(|metric| (None, metric));
        for (subject, metric) in endpoints.chain(service) {
            let mut found = candidate(
                Level::of(&record.load, *level),
                pairs,
                subject,
                metric,
                policy,
            );
            if let (Some(candidate), Some(saturation)) = (&mut found, saturation.get(level)) {
                candidate.settle(saturation);
            }
            candidates.extend(found);
        }
    }
    candidates
}

fn candidate<'a>(
    level: Level,
    pairs: &[Pair<'_>],
    subject: Subject<'a>,
    metric: Metric,
    policy: &Policy,
) -> Option<Candidate<'a>> {
    let read = |block: &Block| reading(block, subject, metric);
    let before: Vec<Option<Reading>> = pairs.iter().map(|pair| read(pair.before)).collect();
    let after: Vec<Option<Reading>> = pairs.iter().map(|pair| read(pair.after)).collect();
    let nothing = before.iter().chain(&after).all(Option::is_none);
    let judged = policy.judges(subject, metric);
    if nothing && may_be_absent(subject, metric, judged) {
        return None;
    }
    let before_blocks: Vec<&Block> = pairs.iter().map(|pair| pair.before).collect();
    let after_blocks: Vec<&Block> = pairs.iter().map(|pair| pair.after).collect();
    let mut candidate = Candidate {
        subject,
        level,
        metric,
        before: estimate(&before_blocks, subject, metric),
        after: estimate(&after_blocks, subject, metric),
        evidence: Evidence::None(Outcome::NotMeasured),
        is_settled: false,
        note: None,
    };
    (candidate.evidence, candidate.note) = evidence(metric, &before, &after, policy, judged);
    candidate.pool_if_only_shown();
    if subject.is_none() && metric == Metric::CpuUsPerRequest {
        let note = candidate.note.take();
        candidate.note = note.or_else(|| cpu_of_probe(&before_blocks, &after_blocks));
    }
    Some(candidate)
}

impl Candidate<'_> {
    /// Where a version was saturated, that is the answer.
    fn settle(&mut self, saturation: &Saturation) {
        let Some((outcome, note)) = saturation.outcome(self.metric) else {
            return;
        };
        self.evidence = Evidence::None(outcome);
        self.is_settled = outcome != Outcome::Saturated;
        self.note = Some(note);
    }

    /// What the scenario wants shown and not judged needs no percentile of every block: all
    /// blocks together say something too.
    fn pool_if_only_shown(&mut self) {
        let only_shown = self.subject.is_some_and(|endpoint| !endpoint.judged);
        if !only_shown || self.metric.family() != Family::Latency {
            return;
        }
        let with_interval = self.before.low.is_some() && self.after.low.is_some();
        if matches!(self.evidence, Evidence::None(Outcome::Insufficient { .. })) && with_interval {
            self.evidence = Evidence::None(Outcome::Pooled);
            self.note = None;
        }
        let note = "The scenario wants these times shown and not judged.";
        self.note = Some(match self.note.take() {
            Some(first) => format!("{first} {note}"),
            None => note.to_owned(),
        });
    }
}

/// The service's CPU for answering the probe can't be told from the rest. The probe goes by
/// time and the load by count, so the slower version has answered more of it per request.
fn cpu_of_probe(before: &[&Block], after: &[&Block]) -> Option<String> {
    let per_request = |blocks: &[&Block]| {
        let probes = blocks.iter().filter_map(|block| block.probe.as_ref());
        let asked = saturating_sum(probes.map(|probe| probe.completed));
        let completed = saturating_sum(blocks.iter().map(|block| block.completed));
        asked as f64 / completed.max(1) as f64
    };
    let (before, after) = (per_request(before), per_request(after));
    (before + after > 0.0).then(|| {
        format!(
            "Includes answering the bystander probe: {} of its requests per request of the load \
             before, {} after.",
            wording::number(before),
            wording::number(after)
        )
    })
}

/// Metrics that only some services have: no cell says that a service is no stream, or that
/// nobody asked for a bystander.
fn may_be_absent(subject: Subject<'_>, metric: Metric, judged: bool) -> bool {
    if metric == Metric::ProbeP90 {
        return !judged;
    }
    let optional = [
        Metric::TtftP50,
        Metric::TtftP95,
        Metric::BlockedMsPer1000,
        Metric::CpuUsPerRequest,
    ];
    subject.is_some() && optional.contains(&metric)
}

fn evidence(
    metric: Metric,
    before: &[Option<Reading>],
    after: &[Option<Reading>],
    policy: &Policy,
    judged: bool,
) -> (Evidence, Option<String>) {
    let complete: Vec<(Reading, Reading)> = before
        .iter()
        .zip(after)
        .filter_map(|(before, after)| Some(((*before)?, (*after)?)))
        .collect();
    if complete.len() < before.len() || complete.is_empty() {
        return gap(metric, before, after, judged);
    }
    if let Some((outcome, note)) = obstacle(metric, &complete, pairs_min(policy.alpha), judged) {
        return (Evidence::None(outcome), Some(note));
    }
    let bound = complete
        .iter()
        .any(|(before, after)| before.at_least || after.at_least);
    let note = bound.then(|| {
        "Failures reach into this percentile; they count as having taken the endpoint's timeout."
            .to_owned()
    });
    (Evidence::Pairs(Differences::of(metric, &complete)), note)
}

/// What is measured nowhere is not there to be judged; what is measured here and not
/// there might hide any harm, so nothing may pass on it.
fn gap(
    metric: Metric,
    before: &[Option<Reading>],
    after: &[Option<Reading>],
    judged: bool,
) -> (Evidence, Option<String>) {
    let lacks = |arm: &[Option<Reading>]| arm.iter().any(Option::is_none);
    let (name, version) = match (lacks(before), lacks(after)) {
        (true, false) => ("the before arm", "The before version"),
        (false, true) => ("the after arm", "The after version"),
        _ => ("either arm", "Each version"),
    };
    let nowhere = before.iter().chain(after).all(Option::is_none);
    if nowhere || !judged {
        let note = format!("Not measured in every block of {name}.");
        return (Evidence::None(Outcome::NotMeasured), Some(note));
    }
    let never = |arm: &[Option<Reading>]| arm.iter().all(Option::is_none);
    let blocks = match never(before) || never(after) {
        true => "any block",
        false => "some blocks",
    };
    let note = match metric {
        Metric::BlockedMsPer1000 => format!(
            "{version} answered no snapshot that counts it in {blocks}: mount the monitor in \
             both, on the same routes."
        ),
        Metric::Threads | Metric::RssMib => {
            format!("{version} had no process to look at in {blocks}: let `unstall ab` start both.")
        }
        _ => format!(
            "{version} gave nothing to measure in {blocks}: see its log, and make the scenario \
             pass once by hand against both."
        ),
    };
    let outcome = Outcome::Inconclusive { pairs_needed: None };
    (Evidence::None(outcome), Some(note))
}

/// Whether a block's percentile has the requests that it takes.
///
/// A version that answers nobody gets few: its block is given up, and a percentile that is a bound
/// already can't become smaller by more of the same failures. So what counts there is that they are
/// no accident: the lower end of the percentile's own 95 % interval is a bound as well. Of
/// [`BOUND_REQUESTS_MIN`] requests that takes 9 failures at p50, 3 at p95 and 2 at p99.
fn is_enough(of: &Reading, needed: u64) -> bool {
    of.n >= needed || (of.is_surely_bound && of.n >= BOUND_REQUESTS_MIN)
}

/// Why complete pairs can't be tested all the same, and what follows.
fn obstacle(
    metric: Metric,
    pairs: &[(Reading, Reading)],
    pairs_needed: u32,
    judged: bool,
) -> Option<(Outcome, String)> {
    if let Some(q) = metric.quantile() {
        let needed = requests_per_block(metric, q, judged);
        let readings = pairs.iter().flat_map(|(before, after)| [before, after]);
        let fewest = readings.filter(|of| !is_enough(of, needed)).map(|of| of.n);
        if let Some(fewest) = fewest.min() {
            let outcome = Outcome::Insufficient {
                requests_needed: needed,
            };
            let note = format!(
                "Insufficient data: {} requests per block, judged from {}.",
                wording::count(fewest),
                wording::count(needed)
            );
            return Some((outcome, note));
        }
        if pairs
            .iter()
            .any(|(before, after)| before.at_least && after.at_least)
        {
            let note = "Failures reach into this percentile in both arms, so there is nothing to \
                        compare.";
            let outcome = Outcome::Inconclusive { pairs_needed: None };
            return Some((outcome, note.to_owned()));
        }
    }
    ((pairs.len() as u64) < u64::from(pairs_needed)).then(|| {
        let note = format!(
            "{} can't show a difference; it takes {pairs_needed}.",
            wording::plural(pairs.len() as u64, "pair")
        );
        let outcome = Outcome::Inconclusive {
            pairs_needed: Some(pairs_needed),
        };
        (outcome, note)
    })
}

/// Requests per block from which a percentile of blocks is compared. How many the probe makes
/// is a matter of how long a block takes, and it is only shown: there it is enough that each
/// block's percentile has an interval.
pub(crate) fn requests_per_block(metric: Metric, q: f64, judged: bool) -> u64 {
    if metric == Metric::ProbeP90 && !judged {
        interval_needed(q)
    } else {
        requests_needed(q)
    }
}

impl Differences {
    /// Of readings before and after, a pair each.
    pub(crate) fn of(metric: Metric, pairs: &[(Reading, Reading)]) -> Self {
        let sign = if metric.larger_is_better() { -1.0 } else { 1.0 };
        let resolution = metric.resolution();
        let count = pairs.len() as f64;
        let before_mean = pairs.iter().map(|(before, _)| before.value).sum::<f64>() / count;
        let worse_absolute: Vec<f64> = pairs
            .iter()
            .map(|(before, after)| sign * (after.value - before.value))
            .collect();
        let (worse, standard_error_min) = match metric.scale() {
            Scale::Ratio => {
                let log = |reading: Reading| reading.value.max(resolution).ln();
                let worse = pairs
                    .iter()
                    .map(|(before, after)| sign * (log(*after) - log(*before)))
                    .collect();
                // Histograms keep three digits.
                let relative = (resolution / before_mean.max(resolution)).max(0.001);
                (worse, relative / count.sqrt())
            }
            Scale::Difference => {
                let fewest = pairs
                    .iter()
                    .map(|(before, after)| before.n.min(after.n))
                    .min();
                let one_request = 100.0 / fewest.unwrap_or(1).max(1) as f64;
                (worse_absolute.clone(), one_request / count)
            }
        };
        Self {
            worse,
            worse_absolute,
            standard_error_min,
            before_mean,
        }
    }
}

/// Name of a cell within a sentence: `GET usage p95`, `threads`.
pub(crate) fn cell_name(endpoint: Option<&str>, metric: Metric) -> String {
    match endpoint {
        Some(endpoint) => format!("{endpoint} {}", wording::metric(metric)),
        None => wording::metric(metric).to_owned(),
    }
}

/// The name of an endpoint, where there is one.
pub(crate) fn subject_name(subject: Option<&EndpointIdentity>) -> Option<String> {
    subject.map(|endpoint| endpoint.name.clone())
}
