//! Two records of different sessions. Whatever changed on the machine between
//! them is in the difference, so this is advice unless the policy insists.

use std::collections::BTreeSet;

use crate::candidate::{requests_per_block, subject_name};
use crate::comparability;
use crate::compare::{CompareError, Sides, conclude};
use crate::comparison::{Cell, Change, Comparison, Estimate, Metric, Outcome, Scale, Validity};
use crate::level::Level;
use crate::measure::{Subject, estimate};
use crate::pairing::{faults_of, format_warning};
use crate::policy::{Margin, Policy, Unpaired};
use crate::record::{Block, Imported, RunRecord};
use crate::saturation::{self, Saturation};
use crate::stated;

/// Compares two records of one version each.
///
/// There are no pairs to test: a ratio's interval is that of the two estimates'
/// own 95 % intervals at their worst, and a cell without intervals is only shown.
/// The verdict is inconclusive unless `policy.unpaired` says to judge.
///
/// # Errors
/// [`CompareError::TwoArms`], or [`CompareError::NotComparable`] naming each hard
/// key that differs (scenario, load model with its probe, counts, state reset, machine class,
/// version of the tool) with both values.
pub fn compare_unpaired(
    before: &RunRecord,
    after: &RunRecord,
    policy: &Policy,
) -> Result<Comparison, CompareError> {
    for record in [before, after] {
        if record.arms.len() != 1 {
            return Err(CompareError::TwoArms {
                label: record.label.clone(),
            });
        }
    }
    let hard = comparability::hard(before, after);
    if !hard.differences.is_empty() {
        return Err(CompareError::NotComparable {
            differences: hard.differences,
        });
    }
    let policy = policy.for_scenario(&after.scenario);
    let policy = &advisory_if_imported(before, after, &policy);
    let mut validity = Validity::default();
    let sides = Sides {
        before: usable(before, policy, &mut validity),
        after: usable(after, policy, &mut validity),
        broke_off: before.interrupted || after.interrupted,
    };
    let stopped = [before, after].into_iter().filter(|of| of.interrupted);
    validity.warnings.extend(stopped.map(|of| {
        format!(
            "{}: the measurement was stopped before its plan was done.",
            of.label
        )
    }));
    validity.warnings.extend(import_warnings(before, after));
    validity.warnings.extend(hard.untold());
    validity.warnings.extend(comparability::soft(before, after));
    validity
        .warnings
        .extend([before, after].into_iter().filter_map(format_warning));
    validity.warnings.extend(sides.doubts());
    let (cells, saturation) = cells([before, after], &sides, policy);
    let mut comparison = conclude(after, policy, cells, saturation, validity, None, &sides);
    comparison.label = format!("{} → {}", before.label, after.label);
    Ok(comparison)
}

/// Where numbers come from another tool, no policy makes more of them than advice.
fn advisory_if_imported(before: &RunRecord, after: &RunRecord, policy: &Policy) -> Policy {
    let is_import = [before, after].into_iter().any(|of| imported(of).is_some());
    let mut policy = policy.clone();
    if is_import {
        policy.unpaired = Unpaired::Advise;
    }
    policy
}

fn imported(record: &RunRecord) -> Option<&Imported> {
    record.arms.values().find_map(|arm| arm.imported.as_ref())
}

/// What was imported, and what is not known of it.
fn import_warnings(before: &RunRecord, after: &RunRecord) -> Vec<String> {
    let warning = |(side, record)| {
        let from = imported(record)?;
        Some(format!(
            "{side} was imported from {} ({}): this comparison is advice, whatever the policy says. \
             Not known: {}",
            from.tool,
            from.file,
            from.missing.join(" ")
        ))
    };
    [("Before", before), ("After", after)]
        .into_iter()
        .filter_map(warning)
        .collect()
}

fn usable<'a>(record: &'a RunRecord, policy: &Policy, validity: &mut Validity) -> Vec<&'a Block> {
    for block in record.blocks.iter().filter(|block| !block.validity.ok) {
        let reasons = block.validity.reasons.join("; ");
        validity
            .warnings
            .push(format!("{}: a block was left out: {reasons}", record.label));
    }
    let blocks: Vec<&Block> = record
        .blocks
        .iter()
        .filter(|block| block.validity.ok)
        .collect();
    for block in &blocks {
        validity
            .faults
            .extend(faults_of(block, &record.load.model, policy));
    }
    if blocks.is_empty() {
        validity.faults.push(format!(
            "{}: it has no usable block; measure again",
            record.label
        ));
    }
    blocks
}

fn cells(
    records: [&RunRecord; 2],
    sides: &Sides<'_>,
    policy: &Policy,
) -> (Vec<Cell>, Vec<Saturation>) {
    let [record, _] = records;
    let mut found = Vec::new();
    // What one of them was measured at, and what both planned: a level that was never reached is
    // a gap and no silence.
    let measured = sides.before.iter().chain(&sides.after);
    let mut levels: BTreeSet<u32> = measured.map(|block| block.level).collect();
    levels.extend(&record.load.levels);
    let mut cells = Vec::new();
    for level in levels {
        let at_level = |blocks: &[&'_ Block]| -> Vec<Block> {
            blocks
                .iter()
                .filter(|block| block.level == level)
                .map(|block| (*block).clone())
                .collect()
        };
        let (before, after) = (at_level(&sides.before), at_level(&sides.after));
        let level = Level::of(&record.load, level);
        let blocks = [&before, &after].map(|arm| arm.iter().collect::<Vec<&Block>>());
        let saturation = saturation::of(level, &blocks[0], &blocks[1]);
        found.extend(saturation);
        let subjects = record.scenario.endpoints.iter().map(Some).chain([None]);
        for subject in subjects {
            for metric in Metric::ALL {
                let of = |record: &RunRecord, blocks: &[Block]| {
                    let blocks: Vec<&Block> = blocks.iter().collect();
                    stated::estimate(record, &blocks, subject, metric)
                        .unwrap_or_else(|| estimate(&blocks, subject, metric))
                };
                let values = [of(records[0], &before), of(records[1], &after)];
                let [from, to] = values;
                let mut cell = if stated::is_untold(records, subject, metric, [&from, &to]) {
                    Some(stated::untold_cell(
                        level, subject, metric, from, to, policy,
                    ))
                } else {
                    cell(level, subject, metric, from, to, policy)
                };
                if let (Some(cell), Some(saturation)) = (&mut cell, &saturation) {
                    settle(cell, saturation);
                }
                cells.extend(cell);
            }
        }
    }
    (cells, found)
}

/// Where a version was saturated, that is the answer.
fn settle(cell: &mut Cell, saturation: &Saturation) {
    if let Some((outcome, note)) = saturation.outcome(cell.metric) {
        cell.judged = outcome != Outcome::Saturated;
        cell.change = None;
        cell.outcome = outcome;
        cell.note = Some(note);
    }
}

fn cell(
    level: Level,
    subject: Subject<'_>,
    metric: Metric,
    before: Estimate,
    after: Estimate,
    policy: &Policy,
) -> Option<Cell> {
    let is_nowhere = before.value.is_none() && after.value.is_none();
    // Nobody asked for an endpoint: that must not go unsaid. What else is nowhere isn't there.
    if is_nowhere && (subject.is_none() || !metric.is_response()) {
        return None;
    }
    // The service's own errors and threads stand once, with the service.
    let of_service = metric.is_of_service();
    if of_service != subject.is_none() && (of_service || metric == Metric::ErrorRate) {
        return None;
    }
    let blocks = before.per_block.len().min(after.per_block.len()).max(1) as u64;
    let n = before.n.min(after.n);
    let missing = before.value.is_none() || after.value.is_none();
    let judged = policy.judges(subject, metric);
    let margin = policy.margin(subject.map(|of| of.name.as_str()), metric);
    // Other metrics have no intervals, and are only shown in any case.
    let has_intervals = metric.quantile().is_some() || metric == Metric::ErrorRate;
    let gap = missing && judged && has_intervals && !is_nowhere;
    let only_shown = subject.is_some_and(|endpoint| !endpoint.judged);
    let is_pooled = only_shown && before.low.is_some() && after.low.is_some();
    let (outcome, change) = match metric.quantile() {
        _ if is_nowhere => (Outcome::NotMeasured, None),
        _ if gap => (Outcome::Inconclusive { pairs_needed: None }, None),
        Some(_) if is_pooled => (Outcome::Pooled, None),
        Some(q) if n / blocks < requests_per_block(metric, q, judged) => {
            let requests_needed = requests_per_block(metric, q, judged);
            (Outcome::Insufficient { requests_needed }, None)
        }
        _ if missing => (Outcome::NotMeasured, None),
        _ => {
            let change = change(metric, &before, &after);
            (outcome(&before, change.as_ref(), margin), change)
        }
    };
    let is_open = matches!(outcome, Outcome::Inconclusive { .. });
    let note = match &change {
        None if is_nowhere => "No request of it was made in any block.",
        None if gap => "Only one version was measured on this: see the other's log.",
        None if is_open && has_intervals => {
            "Failures reach into this percentile, so that it has no interval and no answer."
        }
        None => "Shown only: there is no interval for this difference.",
        Some(_) => "Not tested: the versions were measured in different sessions.",
    };
    Some(Cell {
        endpoint: subject_name(subject),
        level,
        metric,
        family: metric.family(),
        // A percentile that failures reach into has no interval, and is open all the same.
        judged: judged && (change.is_some() || is_open && has_intervals),
        margin,
        before,
        after,
        change,
        outcome,
        note: Some(note.to_owned()),
    })
}

/// From the estimates' own intervals; `None` where one has none.
fn change(metric: Metric, before: &Estimate, after: &Estimate) -> Option<Change> {
    let (from, to) = (before.value?, after.value?);
    let (from_low, from_high) = (before.low?, before.high?);
    let (to_low, to_high) = (after.low?, after.high?);
    let resolution = metric.resolution();
    let contrast = |to: f64, from: f64| match metric.scale() {
        Scale::Ratio => to.max(resolution) / from.max(resolution),
        Scale::Difference => to - from,
    };
    let (low, high) = (contrast(to_low, from_high), contrast(to_high, from_low));
    Some(Change {
        scale: metric.scale(),
        estimate: contrast(to, from),
        low,
        high,
        // Both intervals of 95 % hold with this probability, and so does theirs.
        confidence: 0.95 * 0.95,
        upper_bound: high,
        lower_bound: low,
        // No test was made.
        p_regression: 1.0,
        p_improvement: 1.0,
        minimum_detectable: None,
    })
}

fn outcome(before: &Estimate, change: Option<&Change>, margin: Margin) -> Outcome {
    let undecided = Outcome::Inconclusive { pairs_needed: None };
    let (Some(change), Some(from)) = (change, before.value) else {
        return undecided;
    };
    let (beyond, limit, better, absolute, absolute_high) = match change.scale {
        Scale::Ratio => (
            1.0 + margin.regression,
            1.0 + margin.harm,
            1.0 / (1.0 + margin.regression),
            from * (change.estimate - 1.0),
            from * (change.high - 1.0),
        ),
        Scale::Difference => (
            margin.regression,
            margin.harm,
            -margin.regression,
            change.estimate,
            change.high,
        ),
    };
    if change.low > beyond && absolute > margin.floor {
        Outcome::Regression
    } else if change.high < better {
        Outcome::Improvement
    } else if change.high < limit || absolute_high < margin.floor {
        Outcome::WithinLimit
    } else {
        undecided
    }
}
