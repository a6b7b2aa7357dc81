//! How much one cell scatters from pair to pair while nothing changes.

use super::{CalibratedMargin, CellNoise};
use crate::candidate::Differences;
use crate::comparison::{Cell, Comparison, Estimate, Family, Metric};
use crate::measure::{Reading, Subject, estimate};
use crate::policy::Margin;
use crate::record::{Block, RunRecord};
use crate::student::mean;

/// Standard deviations between the ends of a 95 % interval.
const DEVIATIONS_IN_INTERVAL: f64 = 2.0 * 1.959_964;

/// One session and what the rule made of it.
pub(super) struct Session<'a> {
    pub(super) record: &'a RunRecord,
    pub(super) comparison: Comparison,
}

/// One cell over all sessions.
pub(super) struct Scatter {
    pub(super) endpoint: Option<String>,
    pub(super) level: u32,
    pub(super) metric: Metric,
    pub(super) family: Family,
    pub(super) judged: bool,
    /// What is a regression here, by the policy.
    pub(super) margin: Margin,
    /// Session by session; `None` where it has no pairs of the cell.
    pub(super) sessions: Vec<Option<Differences>>,
    value: f64,
    sd_within_blocks: Option<f64>,
}

/// Every cell of which some session has pairs, in the order of the comparison.
pub(super) fn scatters(sessions: &[Session<'_>]) -> Vec<Scatter> {
    let mut scatters: Vec<Scatter> = Vec::new();
    for session in sessions {
        for cell in &session.comparison.cells {
            let known = scatters.iter().any(|scatter| scatter.is_of(cell));
            if cell.change.is_some() && !known {
                scatters.push(Scatter::of(cell, sessions));
            }
        }
    }
    scatters
}

impl Scatter {
    fn of(cell: &Cell, sessions: &[Session<'_>]) -> Self {
        let mut scatter = Self {
            endpoint: cell.endpoint.clone(),
            level: cell.level.key(),
            metric: cell.metric,
            family: cell.family,
            judged: false,
            margin: cell.margin,
            sessions: Vec::new(),
            value: 0.0,
            sd_within_blocks: None,
        };
        let mut values = Vec::new();
        for session in sessions {
            let cells = &session.comparison.cells;
            let found = cells.iter().find(|cell| scatter.is_of(cell));
            let with_pairs = found.filter(|cell| cell.change.is_some());
            scatter.judged |= with_pairs.is_some_and(|cell| cell.judged);
            let differences = with_pairs.and_then(differences);
            values.extend(with_pairs.iter().flat_map(|cell| {
                let arms = [&cell.before, &cell.after];
                arms.into_iter().flat_map(|arm| arm.per_block.clone())
            }));
            scatter.sessions.push(differences);
        }
        scatter.value = mean(&values);
        scatter.sd_within_blocks = within_blocks(&scatter, sessions);
        scatter
    }

    fn is_of(&self, cell: &Cell) -> bool {
        self.endpoint == cell.endpoint
            && self.level == cell.level.key()
            && self.metric == cell.metric
    }

    /// Around the mean of each session, since that is the scatter that a session's own test sees.
    fn sd_between_pairs(&self) -> f64 {
        let mut squares = 0.0;
        let mut freedom = 0.0;
        for differences in self.sessions.iter().flatten() {
            let middle = mean(&differences.worse);
            let around = differences.worse.iter();
            squares += around.map(|worse| (worse - middle).powi(2)).sum::<f64>();
            freedom += differences.worse.len() as f64 - 1.0;
        }
        (squares / freedom.max(1.0)).sqrt()
    }

    /// As the certificate has it, without what could be detected.
    pub(super) fn noise(&self) -> CellNoise {
        let pairs = self.sessions.iter().flatten();
        let pairs: usize = pairs.map(|differences| differences.worse.len()).sum();
        CellNoise {
            endpoint: self.endpoint.clone(),
            level: self.level,
            metric: self.metric,
            family: self.family,
            judged: self.judged,
            margin: Some(CalibratedMargin {
                regression: self.margin.regression,
                floor: self.margin.floor,
            }),
            value: self.value,
            pairs: u32::try_from(pairs).unwrap_or(u32::MAX),
            sd_between_pairs: self.sd_between_pairs(),
            sd_within_blocks: self.sd_within_blocks,
            detectable: Vec::new(),
        }
    }
}

/// The paired differences behind a cell; `None` where a block lacks its value.
fn differences(cell: &Cell) -> Option<Differences> {
    let readings = |arm: &Estimate| -> Vec<Reading> {
        let n = arm.n / arm.per_block.len().max(1) as u64;
        let values = arm.per_block.iter();
        values
            .map(|value| Reading {
                value: *value,
                at_least: false,
                is_surely_bound: false,
                n,
            })
            .collect()
    };
    let (before, after) = (readings(&cell.before), readings(&cell.after));
    let is_paired = before.len() == after.len() && before.len() > 1;
    let pairs: Vec<(Reading, Reading)> = before.into_iter().zip(after).collect();
    is_paired.then(|| Differences::of(cell.metric, &pairs))
}

/// What the size of the samples explains of a pair's difference: a block's percentile has an
/// interval of its own. It takes requests as independent, which they are not quite, so the truth
/// is rather more.
fn within_blocks(scatter: &Scatter, sessions: &[Session<'_>]) -> Option<f64> {
    scatter.metric.quantile()?;
    let mut squares = Vec::new();
    for session in sessions {
        let endpoints = &session.record.scenario.endpoints;
        let subject: Subject<'_> = match &scatter.endpoint {
            Some(name) => Some(endpoints.iter().find(|endpoint| endpoint.name == *name)?),
            None => None,
        };
        let blocks = session.record.blocks.iter();
        for block in blocks.filter(|block| block.validity.ok && block.level == scatter.level) {
            squares.push(own_deviation(block, subject, scatter.metric)?.powi(2));
        }
    }
    // The two blocks of a pair scatter independently.
    (!squares.is_empty()).then(|| (2.0 * mean(&squares)).sqrt())
}

/// Standard deviation of the logarithm of one block's percentile.
fn own_deviation(block: &Block, subject: Subject<'_>, metric: Metric) -> Option<f64> {
    let of_block = estimate(&[block], subject, metric);
    let least = metric.resolution();
    let (low, high) = (of_block.low?.max(least), of_block.high?.max(least));
    Some((high / low).ln() / DEVIATIONS_IN_INTERVAL)
}
