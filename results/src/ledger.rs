//! The ledger of a migration: one row per step, keep, revert or undecided.

use serde::{Deserialize, Serialize};

use crate::comparison::{Cell, Comparison, Decision, Metric, Verdict};

/// One step against the one before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// For example `2a`; the comparison's label where it is of no step.
    pub step: String,
    /// What the step did; empty where it is of no step.
    pub title: String,
    /// Branch of its pull request; empty where it is of no step.
    pub branch: String,
    /// `low`, `medium` or `high`; empty where it is of no step.
    pub risk: String,
    /// What was driven.
    pub scenario: String,
    /// The comparison's answer.
    pub verdict: Verdict,
    /// What to do with the step.
    pub decision: Decision,
    /// The comparison's sentence.
    pub headline: String,
    /// Endpoint of the p95 below: the step's own one that changed most.
    pub endpoint: Option<String>,
    /// Its p95 before and after, ms.
    pub p95_ms: Option<(f64, f64)>,
    /// Blocked time of the whole service before and after, ms per 1 000 requests.
    pub blocked_ms_per_1000: Option<(f64, f64)>,
    /// Criteria met, not met, and open.
    pub criteria: (u32, u32, u32),
}

/// One row per comparison, in their order.
pub fn rows<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Vec<Row> {
    comparisons.into_iter().map(row).collect()
}

/// The answer over all steps: the worst of them. `None` without any.
pub fn overall<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Option<Verdict> {
    comparisons
        .into_iter()
        .map(|comparison| comparison.verdict)
        .max()
}

fn row(comparison: &Comparison) -> Row {
    let step = comparison.step.as_ref();
    let text = |of: fn(&crate::record::StepIdentity) -> &String| step.map(of).cloned();
    let p95 = own_cells(comparison, Metric::ResponseP95)
        .max_by(|one, other| size(one).total_cmp(&size(other)));
    let blocked = comparison
        .cells
        .iter()
        .find(|cell| cell.metric == Metric::BlockedMsPer1000 && cell.endpoint.is_none());
    let counted = |met| {
        let criteria = comparison.criteria.iter();
        criteria.filter(|criterion| criterion.met == met).count() as u32
    };
    Row {
        step: text(|step| &step.id).unwrap_or_else(|| comparison.label.clone()),
        title: text(|step| &step.title).unwrap_or_default(),
        branch: text(|step| &step.branch).unwrap_or_default(),
        risk: text(|step| &step.risk).unwrap_or_default(),
        scenario: comparison.scenario.clone(),
        verdict: comparison.verdict,
        decision: comparison.decision,
        headline: comparison.headline.clone(),
        endpoint: p95.and_then(|cell| cell.endpoint.clone()),
        p95_ms: p95.and_then(both),
        blocked_ms_per_1000: blocked.and_then(both),
        criteria: (counted(Some(true)), counted(Some(false)), counted(None)),
    }
}

/// Cells of the step's own endpoints, or of all where it names none that was driven.
fn own_cells(comparison: &Comparison, metric: Metric) -> impl Iterator<Item = &Cell> {
    let of_metric = || {
        comparison
            .cells
            .iter()
            .filter(move |cell| cell.metric == metric)
    };
    let own = move |cell: &&Cell| {
        comparison.step.as_ref().is_some_and(|step| {
            cell.endpoint
                .as_ref()
                .is_some_and(|endpoint| step.endpoints.contains(endpoint))
        })
    };
    let any_own = of_metric().any(|cell| own(&cell));
    of_metric().filter(move |cell| !any_own || own(cell))
}

fn both(cell: &Cell) -> Option<(f64, f64)> {
    Some((cell.before.value?, cell.after.value?))
}

fn size(cell: &Cell) -> f64 {
    both(cell).map_or(0.0, |(before, after)| {
        (after.max(0.001) / before.max(0.001)).ln().abs()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::policy::Policy;
    use crate::synthetic::{EndpointSpec, record};

    #[test]
    fn a_row_per_step_and_the_worst_overall() {
        let specs = |ratio| {
            let mut own = EndpointSpec::new("GET a", 20.0);
            own.ratio = ratio;
            own.blocked_before_ms = 100.0;
            [own, EndpointSpec::new("GET b", 0.5)]
        };
        let policy = Policy::default();
        let better = compare(&record(1, 8, 400, &specs(0.2)), &policy).unwrap();
        let worse = compare(&record(1, 8, 400, &specs(2.0)), &policy).unwrap();
        let mut no_step = record(1, 8, 400, &specs(1.0));
        no_step.step = None;
        no_step.label = "by hand".to_owned();
        let by_hand = compare(&no_step, &policy).unwrap();
        let rows = rows([&better, &worse, &by_hand]);
        let decisions: Vec<Decision> = rows.iter().map(|row| row.decision).collect();
        assert_eq!(decisions[..2], [Decision::Keep, Decision::Revert]);
        assert_eq!(rows[0].step, "2a");
        assert_eq!(rows[0].endpoint.as_deref(), Some("GET a"));
        assert_eq!(rows[0].criteria.0, 4, "{rows:?}");
        let (before, after) = rows[0].blocked_ms_per_1000.unwrap();
        assert!(before > 40.0 && after == 0.0, "{before} {after}");
        assert_eq!(rows[2].step, "by hand");
        assert_eq!(overall([&better, &worse]), Some(Verdict::Regression));
        assert_eq!(overall([]), None);
    }
}
