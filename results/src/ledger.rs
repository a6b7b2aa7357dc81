//! The ledger of a migration: one row per step, keep, revert or undecided.

use crate::comparison::{Cell, Comparison, Decision, Estimate, Metric, Outcome, Verdict};

/// One step against the one before it.
#[derive(Debug, Clone, PartialEq)]
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
    /// Endpoint of the p95 below: the worst that regressed, or else the step's own
    /// one that gained least, so that a row never picks its best.
    pub endpoint: Option<String>,
    /// Its p95, ms.
    pub p95_ms: Option<BeforeAfter>,
    /// Blocked time of the whole service, ms per 1 000 requests.
    pub blocked_ms_per_1000: Option<BeforeAfter>,
    /// Criteria met, not met, and open.
    pub criteria: (u32, u32, u32),
}

/// A metric in both arms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BeforeAfter {
    /// In the first arm.
    pub before: Measured,
    /// In the second arm.
    pub after: Measured,
}

/// A metric in one arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// In the unit of the row's field.
    pub value: f64,
    /// True when the value is only a lower bound, see [`Estimate::at_least`].
    pub at_least: bool,
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
    let p95 = regressed(comparison, Metric::ResponseP95).or_else(|| {
        own_cells(comparison, Metric::ResponseP95)
            // What the scenario wants only shown stands back.
            .max_by(|one, other| {
                let worse = || upper_bound(one).total_cmp(&upper_bound(other));
                one.judged.cmp(&other.judged).then_with(worse)
            })
    });
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

/// The judged cell that regressed worst, whichever endpoint's: by its upper bound, as
/// [`Comparison::worst_cell`] is chosen.
fn regressed(comparison: &Comparison, metric: Metric) -> Option<&Cell> {
    let cells = comparison
        .cells
        .iter()
        .filter(|cell| cell.judged && cell.metric == metric && cell.outcome == Outcome::Regression);
    cells.max_by(|one, other| upper_bound(one).total_cmp(&upper_bound(other)))
}

/// The worst that the cell may have become; 0 where nothing was compared.
fn upper_bound(cell: &Cell) -> f64 {
    cell.change
        .as_ref()
        .map_or(0.0, |change| change.upper_bound)
}

fn both(cell: &Cell) -> Option<BeforeAfter> {
    let measured = |estimate: &Estimate| {
        Some(Measured {
            value: estimate.value?,
            at_least: estimate.at_least,
        })
    };
    Some(BeforeAfter {
        before: measured(&cell.before)?,
        after: measured(&cell.after)?,
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
        assert_eq!(rows[0].endpoint.as_deref(), Some("GET b"));
        assert_eq!(rows[1].endpoint.as_deref(), Some("GET a"));
        assert_eq!(rows[0].criteria.0, 4, "{rows:?}");
        let blocked = rows[0].blocked_ms_per_1000.unwrap();
        assert!(blocked.before.value > 40.0, "{blocked:?}");
        assert_eq!(blocked.after.value, 0.0, "{blocked:?}");
        assert_eq!(rows[2].step, "by hand");
        assert_eq!(overall([&better, &worse]), Some(Verdict::Regression));
        assert_eq!(overall([]), None);
    }

    #[test]
    fn a_regression_is_shown_before_a_larger_improvement() {
        let spec = |name, ratio| EndpointSpec {
            ratio,
            ..EndpointSpec::new(name, 20.0)
        };
        let specs = [spec("GET a", 0.1), spec("GET b", 1.5), spec("GET c", 2.0)];
        let mut measured = record(1, 8, 400, &specs);
        measured.step.as_mut().unwrap().endpoints = vec!["GET a".to_owned()];
        let comparison = compare(&measured, &Policy::default()).unwrap();
        let row = row(&comparison);
        assert_eq!(row.endpoint.as_deref(), Some("GET c"));
        let p95 = row.p95_ms.unwrap();
        assert!(p95.after.value > 1.7 * p95.before.value, "{p95:?}");
    }

    #[test]
    fn a_row_shows_the_least_gain() {
        let spec = |name, ratio| EndpointSpec {
            ratio,
            ..EndpointSpec::new(name, 20.0)
        };
        let specs = [spec("GET a", 0.1), spec("GET b", 0.5), spec("GET c", 0.2)];
        let mut measured = record(1, 8, 400, &specs);
        measured.step.as_mut().unwrap().endpoints =
            ["GET a", "GET b", "GET c"].map(String::from).into();
        let comparison = compare(&measured, &Policy::default()).unwrap();
        assert_eq!(row(&comparison).endpoint.as_deref(), Some("GET b"));
    }

    #[test]
    fn a_bound_stays_a_bound() {
        let mut failing = EndpointSpec::new("GET a", 20.0);
        failing.errors_after = 0.2;
        let comparison = compare(&record(1, 8, 400, &[failing]), &Policy::default()).unwrap();
        let p95 = row(&comparison).p95_ms.unwrap();
        assert!(!p95.before.at_least && p95.after.at_least, "{p95:?}");
    }
}
