//! What so many pairs would find, given the scatter that was measured.
//!
//! The pairs of all sessions are the material: so many are drawn at random with a random sign, the
//! same for all cells of a family, since a machine that is slow for one endpoint is slow for the
//! others. The rule's own test says from which T on it would fire, and the change that it takes to
//! get there 8 times in 10 is the answer.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::Detectable;
use super::noise::Scatter;
use crate::comparison::{Metric, Scale};
use crate::policy::Margin;
use crate::signflip::{SignFlips, TestCell};
use crate::student::mean;

/// How often a change must be found.
const POWER: f64 = 0.8;
/// Draws per number of pairs.
const DRAWS: usize = 400;
/// Draws whose critical T is looked for, which takes all flips of all cells; it differs little from
/// draw to draw.
const DRAWS_CRITICAL: usize = 8;
/// Of the draws: the same certificate for the same records.
const SEED: u64 = 0x0CA1_1B8A;

/// A family's cells with the scatter that they have in common.
pub(super) struct FamilyScatter<'a> {
    cells: Vec<&'a Scatter>,
    /// Pair by pair, a difference per cell, each around the mean of its session.
    pairs: Vec<Vec<f64>>,
}

impl<'a> FamilyScatter<'a> {
    /// Of the cells that every session has pairs of; the others can't be drawn together.
    pub(super) fn of(scatters: impl IntoIterator<Item = &'a Scatter>) -> Self {
        let in_all = |scatter: &&Scatter| scatter.sessions.iter().all(Option::is_some);
        let cells: Vec<&Scatter> = scatters.into_iter().filter(in_all).collect();
        let sessions = cells.first().map_or(0, |first| first.sessions.len());
        let mut pairs = Vec::new();
        for session in 0..sessions {
            let of_session = cells
                .iter()
                .filter_map(|cell| cell.sessions[session].as_ref());
            let columns: Vec<Vec<f64>> = of_session
                .map(|differences| centred(&differences.worse))
                .collect();
            let count = columns.iter().map(Vec::len).min().unwrap_or(0);
            pairs
                .extend((0..count).map(|pair| columns.iter().map(|column| column[pair]).collect()));
        }
        Self { cells, pairs }
    }

    /// The cells, in the order of what [`Self::beyond_margins`] returns.
    pub(super) fn cells(&self) -> &[&'a Scatter] {
        &self.cells
    }

    /// For each cell, by how much a change must exceed the margin for so many pairs to find it.
    pub(super) fn beyond_margins(&self, pairs: u32, alpha: f64) -> Vec<f64> {
        let count = pairs as usize;
        if self.pairs.is_empty() {
            return Vec::new();
        }
        let flips = SignFlips::new(count, SEED);
        let mut rng = ChaCha8Rng::seed_from_u64(SEED ^ u64::from(pairs));
        let critical: Vec<f64> = (0..DRAWS_CRITICAL)
            .map(|_| flips.critical_t(&self.draw(count, &mut rng), alpha))
            .collect();
        let critical_t = mean(&critical).max(0.0);
        let mut needed: Vec<Vec<f64>> = vec![Vec::with_capacity(DRAWS); self.cells.len()];
        for _ in 0..DRAWS {
            let cells = self.draw(count, &mut rng);
            for (needed, cell) in needed.iter_mut().zip(&cells) {
                let middle = mean(&cell.differences);
                needed.push(critical_t * standard_error(cell, middle) - middle);
            }
        }
        needed.into_iter().map(upper_part).collect()
    }

    fn draw(&self, pairs: usize, rng: &mut ChaCha8Rng) -> Vec<TestCell> {
        let mut cells: Vec<TestCell> = self
            .cells
            .iter()
            .map(|cell| TestCell {
                differences: Vec::with_capacity(pairs),
                standard_error_min: standard_error_min(cell, pairs),
            })
            .collect();
        for _ in 0..pairs {
            let pair = &self.pairs[rng.random_range(0..self.pairs.len())];
            let sign = if rng.random() { 1.0 } else { -1.0 };
            for (cell, difference) in cells.iter_mut().zip(pair) {
                cell.differences.push(sign * difference);
            }
        }
        cells
    }
}

/// Around their mean, and as wide as they would be around the true one.
fn centred(differences: &[f64]) -> Vec<f64> {
    let count = differences.len() as f64;
    let widen = (count / (count - 1.0).max(1.0)).sqrt();
    let middle = mean(differences);
    differences
        .iter()
        .map(|difference| (difference - middle) * widen)
        .collect()
}

/// What the metric can resolve with so many pairs.
fn standard_error_min(cell: &Scatter, pairs: usize) -> f64 {
    let of_sessions = cell.sessions.iter().flatten().map(|differences| {
        let (had, has) = (differences.worse.len() as f64, pairs as f64);
        let part = match cell.metric.scale() {
            Scale::Ratio => (had / has).sqrt(),
            // One request more or less in all pairs together.
            Scale::Difference => had / has,
        };
        differences.standard_error_min * part
    });
    of_sessions.fold(0.0, f64::max)
}

fn standard_error(cell: &TestCell, middle: f64) -> f64 {
    let count = cell.differences.len() as f64;
    let around = cell.differences.iter();
    let squares: f64 = around.map(|one| (one - middle).powi(2)).sum();
    let variance = squares / (count - 1.0).max(1.0);
    (variance / count).sqrt().max(cell.standard_error_min)
}

/// What [`POWER`] of the values don't exceed, and at least nothing.
fn upper_part(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let position = (values.len() as f64 * POWER).ceil() as usize;
    let value = values.get(position.saturating_sub(1));
    value.copied().unwrap_or(f64::INFINITY).max(0.0)
}

/// A margin's floor in the terms of its limit.
pub(super) fn floor(metric: Metric, margin: Margin, value: f64) -> f64 {
    match metric.scale() {
        Scale::Ratio => margin.floor / value.max(metric.resolution()),
        Scale::Difference => margin.floor,
    }
}

/// What is detectable so far beyond a margin, never less than its floor: 0.12 for 12 % more, or a
/// difference in the metric's unit.
pub(super) fn detectable(
    metric: Metric,
    margin: Margin,
    value: f64,
    pairs: u32,
    beyond_margin: f64,
) -> Detectable {
    let change = match metric.scale() {
        Scale::Ratio => {
            let by_test = (margin.regression.ln_1p() + beyond_margin).exp_m1();
            by_test.max(floor(metric, margin, value))
        }
        Scale::Difference => (margin.regression + beyond_margin).max(floor(metric, margin, value)),
    };
    Detectable {
        pairs,
        beyond_margin,
        change,
    }
}
