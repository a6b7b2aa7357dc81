//! Percentiles that another tool stated, without the times behind them.
//!
//! A stated percentile is an order statistic. Two of them enclose the ranks that an interval takes,
//! so there is an honest, wider interval; one that was not stated is not interpolated.

use crate::candidate::subject_name;
use crate::comparison::{Cell, Estimate, Metric, Outcome};
use crate::level::Level;
use crate::measure::Subject;
use crate::order_statistics::interval_ranks;
use crate::policy::Policy;
use crate::record::{Arm, Block, RunRecord, StatedPercentile};
use crate::validate::{saturating_sum, total};

/// What a tool stated of a percentile; `None` where the record has the times themselves, or where
/// the metric is none.
pub(crate) fn estimate(
    record: &RunRecord,
    blocks: &[&Block],
    subject: Subject<'_>,
    metric: Metric,
) -> Option<Estimate> {
    let arm = record.arms.get(&blocks.first()?.arm)?;
    let stated = percentiles(arm, subject)?;
    let q = of_response(metric)?;
    let endpoint = subject?;
    let samples = || {
        let samples = blocks.iter();
        samples.filter_map(|block| block.endpoints.get(&endpoint.name))
    };
    let failed = saturating_sum(samples().map(|samples| total(&samples.errors)));
    let ended = saturating_sum(samples().map(|samples| samples.completed)).saturating_add(failed);
    let recorded = arm.imported.as_ref().and_then(|imported| imported.recorded);
    let n = ended.min(recorded.unwrap_or(u64::MAX));
    let ms = |percentile: &StatedPercentile| percentile.us / 1_000.0;
    let same = |percentile: &&StatedPercentile| (percentile.share - q).abs() < 1e-9;
    let value = stated.iter().find(same).map(ms);
    let share = |rank: u64| rank as f64 / n as f64;
    let ranks = interval_ranks(q, n);
    let low = ranks.map(|(low, _)| {
        let below = stated.iter().rev();
        let mut below = below.skip_while(|percentile| percentile.share > share(low));
        // No time is below nothing.
        below.next().map_or(0.0, ms)
    });
    let high = ranks.and_then(|(_, high)| {
        let mut above = stated.iter();
        above.find(|of| of.share >= share(high)).map(ms)
    });
    let has_value = value.is_some();
    Some(Estimate {
        value,
        low: low.filter(|_| has_value),
        // A failure counts as slower than any answer, and may be among the times or not.
        high: high.filter(|_| has_value && failed == 0),
        at_least: has_value && failed > 0,
        n: if has_value { n } else { 0 },
        per_block: value.into_iter().collect(),
    })
}

/// Whether a percentile is missing because a tool stated others.
pub(crate) fn is_untold(
    records: [&RunRecord; 2],
    subject: Subject<'_>,
    metric: Metric,
    found: [&Estimate; 2],
) -> bool {
    let untold = |(record, found): (&RunRecord, &Estimate)| {
        let mut arms = record.arms.values();
        found.value.is_none() && arms.any(|arm| percentiles(arm, subject).is_some())
    };
    of_response(metric).is_some() && records.into_iter().zip(found).any(untold)
}

/// The cell of such a percentile: insufficient, where it would be missing.
pub(crate) fn untold_cell(
    level: Level,
    subject: Subject<'_>,
    metric: Metric,
    before: Estimate,
    after: Estimate,
    policy: &Policy,
) -> Cell {
    Cell {
        margin: policy.margin(subject.map(|endpoint| endpoint.name.as_str()), metric),
        endpoint: subject_name(subject),
        level,
        metric,
        family: metric.family(),
        judged: false,
        before,
        after,
        change: None,
        outcome: Outcome::Insufficient { requests_needed: 0 },
        note: Some("Not among the percentiles that the tool stated.".to_owned()),
    }
}

/// The longest answer, where it was stated.
pub(crate) fn longest_us(arm: &Arm, subject: Subject<'_>) -> Option<u64> {
    let last = percentiles(arm, subject)?.last()?;
    (last.share >= 1.0).then(|| last.us.round() as u64)
}

fn percentiles<'a>(arm: &'a Arm, subject: Subject<'_>) -> Option<&'a [StatedPercentile]> {
    let endpoint = subject?;
    let imported = arm.imported.as_ref()?;
    imported.percentiles.get(&endpoint.name).map(Vec::as_slice)
}

fn of_response(metric: Metric) -> Option<f64> {
    match metric {
        Metric::ResponseP50 | Metric::ResponseP95 | Metric::ResponseP99 => metric.quantile(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Imported;
    use crate::synthetic::{EndpointSpec, run_record};

    fn stating(percentiles: &[(f64, f64)]) -> RunRecord {
        let mut record = run_record(1, 1_000, &[EndpointSpec::new("GET a", 10.0)]);
        let stated = percentiles.iter().map(|(share, us)| StatedPercentile {
            share: *share,
            us: *us,
        });
        let arm = record.arms.get_mut("run").unwrap();
        arm.imported = Some(Imported {
            tool: "wrk".to_owned(),
            file: "wrk.txt".to_owned(),
            times: None,
            missing: Vec::new(),
            recorded: None,
            percentiles: [("GET a".to_owned(), stated.collect())].into(),
        });
        record
    }

    fn of(record: &RunRecord, metric: Metric) -> Estimate {
        let blocks: Vec<&Block> = record.blocks.iter().collect();
        estimate(record, &blocks, record.scenario.endpoints.first(), metric).unwrap()
    }

    #[test]
    fn an_interval_is_made_of_what_was_stated_around_it() {
        let record = stating(&[
            (0.5, 1_000.0),
            (0.9, 2_000.0),
            (0.95, 3_000.0),
            (1.0, 9_000.0),
        ]);
        let p95 = of(&record, Metric::ResponseP95);
        assert_eq!((p95.value, p95.n), (Some(3.0), 1_000));
        // Ranks 936 and 963 or so of 1 000.
        assert_eq!((p95.low, p95.high), (Some(2.0), Some(9.0)));
        // Nothing below the median was stated.
        let p50 = of(&record, Metric::ResponseP50);
        assert_eq!((p50.low, p50.high), (Some(0.0), Some(2.0)));
        assert_eq!(
            longest_us(&record.arms["run"], record.scenario.endpoints.first()),
            Some(9_000)
        );
    }

    #[test]
    fn what_was_not_stated_is_not_guessed() {
        let record = stating(&[(0.5, 1_000.0), (0.9, 2_000.0), (1.0, 9_000.0)]);
        assert_eq!(of(&record, Metric::ResponseP95), Estimate::default());
    }

    #[test]
    fn failures_leave_a_bound() {
        let mut record = stating(&[(0.5, 1_000.0), (0.95, 3_000.0), (1.0, 9_000.0)]);
        let block = &mut record.blocks[0];
        let samples = block.endpoints.get_mut("GET a").unwrap();
        samples.errors = [(crate::record::ErrorKind::Status, 3)].into();
        let p95 = of(&record, Metric::ResponseP95);
        assert!(p95.at_least && p95.high.is_none() && p95.value == Some(3.0));
    }
}
