//! Two records of different sessions. Whatever changed on the machine between
//! them is in the difference, so this is advice unless the policy insists.

use std::collections::BTreeSet;

use crate::candidate::{requests_per_block, subject_name};
use crate::compare::{CompareError, Sides, conclude};
use crate::comparison::{Cell, Change, Comparison, Estimate, Metric, Outcome, Scale, Validity};
use crate::level::Level;
use crate::measure::{Subject, estimate};
use crate::pairing::{faults_of, format_warning};
use crate::policy::{Margin, Policy};
use crate::record::{Arm, Block, OpenLoad, RunRecord};
use crate::saturation::{self, Saturation};

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
    let differences = hard_differences(before, after);
    if !differences.is_empty() {
        return Err(CompareError::NotComparable { differences });
    }
    let policy = &policy.for_scenario(&after.scenario);
    let mut validity = Validity::default();
    let sides = Sides {
        before: usable(before, policy, &mut validity),
        after: usable(after, policy, &mut validity),
    };
    validity.warnings.extend(soft_differences(before, after));
    validity
        .warnings
        .extend([before, after].into_iter().filter_map(format_warning));
    validity.warnings.extend(sides.doubt_of_probe());
    let (cells, saturation) = cells(before, &sides, policy);
    let mut comparison = conclude(after, policy, cells, saturation, validity, None, &sides);
    comparison.label = format!("{} → {}", before.label, after.label);
    Ok(comparison)
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

fn hard_differences(before: &RunRecord, after: &RunRecord) -> Vec<String> {
    let major = |record: &RunRecord| {
        let version = &record.harness.version;
        version.split('.').next().unwrap_or(version).to_owned()
    };
    let keys = |record: &RunRecord| {
        [
            ("scenario", record.scenario.name.clone()),
            ("scenario's hash", record.scenario.sha256.clone()),
            ("load model", record.load.model.clone()),
            ("levels", levels(record)),
            ("arrivals", arrivals(record.load.open.as_ref())),
            (
                "requests per endpoint",
                record.load.requests_per_endpoint.to_string(),
            ),
            ("bystander probe", probe(record)),
            ("state reset", record.load.state_reset.clone()),
            ("machine class", record.machine.class.clone()),
            ("unstall's major version", major(record)),
        ]
    };
    keys(before)
        .into_iter()
        .zip(keys(after))
        .filter(|((_, one), (_, other))| one != other)
        .map(|((key, one), (_, other))| format!("{key} {one} before, {other} after"))
        .collect()
}

fn levels(record: &RunRecord) -> String {
    let levels = record.load.levels.iter();
    let levels: Vec<String> = levels
        .map(|level| Level::of(&record.load, *level).to_string())
        .collect();
    levels.join(", ")
}

/// How an open load came.
pub(crate) fn arrivals(open: Option<&OpenLoad>) -> String {
    let Some(open) = open else {
        return "none".to_owned();
    };
    let stages: Vec<String> = open
        .stages
        .iter()
        .map(|stage| {
            let rate = stage.rate_per_second.map(|rate| format!("{rate}/s for "));
            format!("{}{} ms", rate.unwrap_or_default(), stage.duration_ms)
        })
        .collect();
    format!(
        "{}, {}, at most {} in flight",
        open.arrivals,
        stages.join(", "),
        open.in_flight_max
    )
}

pub(crate) fn probe(record: &RunRecord) -> String {
    record.load.probe.as_ref().map_or_else(
        || "none".to_owned(),
        |probe| format!("{} {}/s", probe.path, probe.rate_per_second),
    )
}

fn soft_differences(before: &RunRecord, after: &RunRecord) -> Vec<String> {
    let keys = |record: &RunRecord| {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let arm = record.arms.values().next();
        let of_arm = |value: fn(&Arm) -> &Option<String>| known(arm.map_or(&None, value));
        let quota = record
            .machine
            .cgroup_quota_cores
            .map(|cores| cores.to_string());
        let steal = record.blocks.iter().filter_map(|block| block.steal_share);
        let steal = steal.fold(0.0, f64::max) * 100.0;
        let pressure = record
            .blocks
            .iter()
            .filter_map(|block| block.cpu_pressure_share);
        // In tens: it is never twice the same.
        let pressure = pressure
            .reduce(f64::max)
            .map(|share| format!("about {:.0} %", (share * 10.0).round() * 10.0));
        let round_trip = record.load.store_round_trip_us.map(|us| format!("{us} µs"));
        [
            ("measured", record.created_utc.clone()),
            ("CPU", record.machine.cpu.clone()),
            ("cores", record.machine.cores.to_string()),
            ("memory", format!("{} MiB", record.machine.memory_mib)),
            ("kernel", record.machine.kernel.clone()),
            ("governor", known(&record.machine.governor)),
            ("CPU quota", known(&quota)),
            ("co-located", record.machine.colocated.to_string()),
            ("most CPU time stolen", format!("{steal:.0} %")),
            (
                "most time with something waiting for a core",
                known(&pressure),
            ),
            ("store round trip", known(&round_trip)),
            ("unstall", record.harness.version.clone()),
            ("service commit", of_arm(|arm| &arm.git)),
            ("command", of_arm(|arm| &arm.command)),
            ("URL", of_arm(|arm| &arm.url)),
        ]
    };
    keys(before)
        .into_iter()
        .zip(keys(after))
        .filter(|((_, one), (_, other))| one != other)
        .map(|((key, one), (_, other))| format!("{key}: {one} before, {other} after"))
        .collect()
}

fn cells(record: &RunRecord, sides: &Sides<'_>, policy: &Policy) -> (Vec<Cell>, Vec<Saturation>) {
    let mut found = Vec::new();
    let levels: BTreeSet<u32> = sides.before.iter().map(|block| block.level).collect();
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
                let of = |blocks: &[Block]| {
                    let blocks: Vec<&Block> = blocks.iter().collect();
                    estimate(&blocks, subject, metric)
                };
                let mut cell = cell(level, subject, metric, of(&before), of(&after), policy);
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
    if before.value.is_none() && after.value.is_none() {
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
    let gap = missing && judged && has_intervals;
    let only_shown = subject.is_some_and(|endpoint| !endpoint.judged);
    let is_pooled = only_shown && before.low.is_some() && after.low.is_some();
    let (outcome, change) = match metric.quantile() {
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
    let note = match &change {
        None if gap => "Only one version was measured on this: see the other's log.",
        None => "Shown only: there is no interval for this difference.",
        Some(_) => "Not tested: the versions were measured in different sessions.",
    };
    Some(Cell {
        endpoint: subject_name(subject),
        level,
        metric,
        family: metric.family(),
        judged: judged && (gap || change.is_some()),
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
