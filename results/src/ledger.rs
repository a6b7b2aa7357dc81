//! The ledger of a migration: what became of each step, against the version before it and against
//! the start, and what all of them together made of the capacity.
//!
//! A step is kept if each of its measurements says so: one that regressed reverts it, whatever the
//! others gained.

use crate::capacity::{Capacity, Finding, Goal, Ratio};
use crate::comparison::{Cell, Change, Comparison, Decision, Estimate, Metric, Outcome, Verdict};
use crate::level::Level;
use crate::record::RunRecord;
use crate::wording;

/// What became of a migration.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// In the order in which they were measured.
    pub steps: Vec<Step>,
    /// Searches for capacity of two versions, such as the start and the end.
    pub capacities: Vec<CapacityRow>,
}

/// What became of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// For example `2a`; the comparison's label where it is of no step.
    pub id: String,
    /// False of a comparison that is of no step.
    pub is_planned: bool,
    /// What the step did; empty where it is of no step.
    pub title: String,
    /// Branch of its pull request; empty where it is of no step.
    pub branch: String,
    /// `low`, `medium` or `high`; empty where it is of no step.
    pub risk: String,
    /// What the plan expected; empty where it is of no step.
    pub impact: String,
    /// The worst of its measurements' answers.
    pub verdict: Verdict,
    /// What to do with the step.
    pub decision: Decision,
    /// Its measurements, one per scenario.
    pub rows: Vec<Row>,
}

/// One measurement of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What was driven.
    pub scenario: String,
    /// The comparison's answer.
    pub verdict: Verdict,
    /// What it alone says of the step.
    pub decision: Decision,
    /// The comparison's sentence.
    pub headline: String,
    /// Endpoint of the p95 below: the worst that regressed, or else the step's own
    /// one that gained least, so that a row never picks its best.
    pub endpoint: Option<String>,
    /// At which level; of the only one there is, too.
    pub level: Option<Level>,
    /// Its p95, ms.
    pub p95_ms: Option<Course>,
    /// Blocked time of the whole service at that level, ms per 1 000 requests.
    pub blocked_ms_per_1000: Option<Course>,
    /// Threads of the service at that level.
    pub threads: Option<Course>,
    /// What the step and all before it made of that p95, where the start was measured.
    pub since_start: Option<SinceStart>,
    /// Criteria met, not met, and open.
    pub criteria: (u32, u32, u32),
}

/// A metric in the versions of one measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Course {
    /// At the start of the migration, where that was measured.
    pub start: Option<Measured>,
    /// Before the step.
    pub before: Measured,
    /// After it.
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

/// The start of the migration against the version after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct SinceStart {
    /// The comparison's answer.
    pub verdict: Verdict,
    /// The p95 after ÷ at the start, of the row's endpoint and level.
    pub p95: Option<Change>,
}

/// A capacity of two versions.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityRow {
    /// What was driven.
    pub scenario: String,
    /// What had to hold.
    pub slo: String,
    /// The first version, arrivals per second.
    pub before: Capacity,
    /// The second one.
    pub after: Capacity,
    /// After ÷ before, where both are known well enough.
    pub ratio: Option<Ratio>,
    /// Whether it is what a migration is to bring.
    pub goal: Option<Goal>,
    /// What that is: how much more, in percent, from which to which.
    pub promised_percent: [u32; 2],
    /// The search's answer.
    pub verdict: Option<Verdict>,
    /// The same in a sentence.
    pub headline: String,
}

impl Ledger {
    /// Comparisons and searches in their order. Those of one step follow each other.
    pub fn of<'a>(
        compared: impl IntoIterator<Item = &'a Comparison>,
        searched: impl IntoIterator<Item = (&'a RunRecord, &'a Finding)>,
    ) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for comparison in compared {
            let step = Step::of(comparison);
            match steps.last_mut() {
                Some(last) if step.is_planned && last.is_planned && last.id == step.id => {
                    last.add(step);
                }
                _ => steps.push(step),
            }
        }
        let capacities = searched.into_iter().filter_map(|(record, finding)| {
            let [before, after] = finding.arms.as_slice() else {
                return None;
            };
            Some(CapacityRow {
                scenario: record.scenario.name.clone(),
                slo: finding.slo.to_string(),
                before: before.capacity,
                after: after.capacity,
                ratio: finding.ratio,
                goal: (finding.ratio.as_ref()).map(|ratio| ratio.goal(finding.promised_percent)),
                promised_percent: finding.promised_percent,
                verdict: finding.verdict,
                headline: finding.headline.clone(),
            })
        });
        Self {
            steps,
            capacities: capacities.collect(),
        }
    }

    /// All measurements, each with its step.
    pub fn rows(&self) -> impl Iterator<Item = (&Step, &Row)> {
        let steps = self.steps.iter();
        steps.flat_map(|step| step.rows.iter().map(move |row| (step, row)))
    }

    /// Whether the start was measured beside any step.
    pub fn has_start(&self) -> bool {
        self.rows().any(|(_, row)| row.since_start.is_some())
    }

    /// `9 steps kept, 1 reverted (2d), 1 undecided (3)`; empty without a step of a plan.
    pub fn summary(&self) -> String {
        let planned = || self.steps.iter().filter(|step| step.is_planned);
        let of = |decision: Decision| -> Vec<&str> {
            let steps = planned().filter(|step| step.decision == decision);
            steps.map(|step| step.id.as_str()).collect()
        };
        if planned().next().is_none() {
            return String::new();
        }
        let kept = of(Decision::Keep).len() as u64;
        let mut parts = Vec::new();
        if kept > 0 {
            parts.push(format!("{} kept", wording::plural(kept, "step")));
        }
        let others = [
            (Decision::Revert, "reverted"),
            (Decision::Undecided, "undecided"),
        ];
        for (decision, word) in others {
            let ids = of(decision);
            if !ids.is_empty() {
                parts.push(format!("{} {word} ({})", ids.len(), ids.join(", ")));
            }
        }
        parts.join(", ")
    }
}

/// The answer over all steps: the worst of them. `None` without any.
pub fn overall<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Option<Verdict> {
    comparisons
        .into_iter()
        .map(|comparison| comparison.verdict)
        .max()
}

impl Step {
    fn of(comparison: &Comparison) -> Self {
        let step = comparison.step.as_ref();
        let text = |of: fn(&crate::record::StepIdentity) -> &String| step.map(of).cloned();
        Self {
            id: text(|step| &step.id).unwrap_or_else(|| comparison.label.clone()),
            is_planned: step.is_some(),
            title: text(|step| &step.title).unwrap_or_default(),
            branch: text(|step| &step.branch).unwrap_or_default(),
            risk: text(|step| &step.risk).unwrap_or_default(),
            impact: text(|step| &step.impact).unwrap_or_default(),
            verdict: comparison.verdict,
            decision: comparison.decision,
            rows: vec![Row::of(comparison)],
        }
    }

    /// Another measurement of the same step.
    fn add(&mut self, other: Self) {
        self.verdict = self.verdict.max(other.verdict);
        self.decision = match (self.decision, other.decision) {
            (Decision::Revert, _) | (_, Decision::Revert) => Decision::Revert,
            (Decision::Keep, Decision::Keep) => Decision::Keep,
            _ => Decision::Undecided,
        };
        self.rows.extend(other.rows);
    }
}

impl Row {
    fn of(step: &Comparison) -> Self {
        let from_start = step.from_start.as_deref();
        let p95 = regressed(step, Metric::ResponseP95).or_else(|| {
            own_cells(step, Metric::ResponseP95)
                // What the scenario wants only shown stands back.
                .max_by(|one, other| {
                    let worse = || upper_bound(one).total_cmp(&upper_bound(other));
                    one.judged.cmp(&other.judged).then_with(worse)
                })
        });
        let of_service = |metric| {
            let cells = || {
                step.cells
                    .iter()
                    .filter(move |cell| is_of_service(cell, metric))
            };
            let at_level = cells().find(|cell| p95.is_none_or(|p95| p95.level == cell.level));
            at_level.or_else(|| cells().next())
        };
        let course = |cell: Option<&Cell>| cell.and_then(|cell| Course::of(cell, from_start));
        let counted = |met| {
            let criteria = step.criteria.iter();
            criteria.filter(|criterion| criterion.met == met).count() as u32
        };
        Self {
            scenario: step.scenario.clone(),
            verdict: step.verdict,
            decision: step.decision,
            headline: step.headline.clone(),
            endpoint: p95.and_then(|cell| cell.endpoint.clone()),
            level: p95.map(|cell| cell.level),
            p95_ms: course(p95),
            blocked_ms_per_1000: course(of_service(Metric::BlockedMsPer1000)),
            threads: course(of_service(Metric::Threads)),
            since_start: from_start.map(|from_start| SinceStart {
                verdict: from_start.verdict,
                p95: p95
                    .and_then(|cell| same_cell(from_start, cell))
                    .and_then(|cell| cell.change.clone()),
            }),
            criteria: (counted(Some(true)), counted(Some(false)), counted(None)),
        }
    }
}

impl Course {
    fn of(cell: &Cell, from_start: Option<&Comparison>) -> Option<Self> {
        let start = from_start.and_then(|comparison| same_cell(comparison, cell));
        Some(Self {
            start: start.and_then(|cell| Measured::of(&cell.before)),
            before: Measured::of(&cell.before)?,
            after: Measured::of(&cell.after)?,
        })
    }
}

impl Measured {
    fn of(estimate: &Estimate) -> Option<Self> {
        Some(Self {
            value: estimate.value?,
            at_least: estimate.at_least,
        })
    }
}

fn is_of_service(cell: &Cell, metric: Metric) -> bool {
    cell.metric == metric && cell.endpoint.is_none()
}

/// The cell of another comparison of the same scenario.
fn same_cell<'c>(comparison: &'c Comparison, of: &Cell) -> Option<&'c Cell> {
    comparison.cells.iter().find(|cell| {
        (cell.metric, cell.level, &cell.endpoint) == (of.metric, of.level, &of.endpoint)
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::policy::Policy;
    use crate::synthetic::{EndpointSpec, record};

    use crate::design::ArmName;
    use crate::record::RunRecord;
    use crate::synthetic::add_start;

    fn compared(record: &RunRecord) -> Comparison {
        compare(record, &Policy::default()).unwrap()
    }

    fn of(comparisons: &[&Comparison]) -> Ledger {
        Ledger::of(comparisons.iter().copied(), [])
    }

    fn first_row(comparison: &Comparison) -> Row {
        of(&[comparison]).steps.remove(0).rows.remove(0)
    }

    fn with_ratio(name: &str, ratio: f64) -> EndpointSpec {
        EndpointSpec {
            ratio,
            ..EndpointSpec::new(name, 20.0)
        }
    }

    #[test]
    fn a_step_per_row_and_the_worst_overall() {
        let specs = |ratio| {
            let mut own = with_ratio("GET a", ratio);
            own.blocked_before_ms = 100.0;
            [own, EndpointSpec::new("GET b", 0.5)]
        };
        let better = compared(&record(1, 8, 400, &specs(0.2)));
        let mut worse = record(1, 8, 400, &specs(2.0));
        worse.step.as_mut().unwrap().id = "2b".to_owned();
        let worse = compared(&worse);
        let mut no_step = record(1, 8, 400, &specs(1.0));
        no_step.step = None;
        no_step.label = "by hand".to_owned();
        let by_hand = compared(&no_step);
        let ledger = of(&[&better, &worse, &by_hand, &by_hand]);
        let ids: Vec<&str> = ledger.steps.iter().map(|step| step.id.as_str()).collect();
        assert_eq!(ids, ["2a", "2b", "by hand", "by hand"]);
        let decisions: Vec<Decision> = ledger.steps.iter().map(|step| step.decision).collect();
        assert_eq!(decisions[..2], [Decision::Keep, Decision::Revert]);
        assert_eq!(ledger.summary(), "1 step kept, 1 reverted (2b)");
        let rows: Vec<&Row> = ledger.rows().map(|(_, row)| row).collect();
        assert_eq!(rows[0].endpoint.as_deref(), Some("GET b"));
        assert_eq!(rows[1].endpoint.as_deref(), Some("GET a"));
        assert_eq!(rows[0].criteria.0, 4, "{rows:?}");
        let blocked = rows[0].blocked_ms_per_1000.unwrap();
        assert!(blocked.before.value > 40.0, "{blocked:?}");
        assert_eq!((blocked.start, blocked.after.value), (None, 0.0));
        assert_eq!(overall([&better, &worse]), Some(Verdict::Regression));
        assert_eq!(overall([]), None);
        assert_eq!(of(&[]).summary(), "");
    }

    #[test]
    fn one_scenario_that_regresses_reverts_its_step() {
        let measured = |ratio, scenario: &str| {
            let mut measured = record(1, 8, 400, &[with_ratio("GET a", ratio)]);
            measured.scenario.name = scenario.to_owned();
            compared(&measured)
        };
        let (better, flat) = (measured(0.5, "login"), measured(1.0, "auth"));
        let worse = measured(2.0, "github");
        let ledger = of(&[&better, &worse, &flat]);
        let [step] = ledger.steps.as_slice() else {
            panic!("{ledger:?}");
        };
        assert_eq!(
            (step.verdict, step.decision),
            (Verdict::Regression, Decision::Revert)
        );
        let scenarios: Vec<&str> = step.rows.iter().map(|row| row.scenario.as_str()).collect();
        assert_eq!(scenarios, ["login", "github", "auth"]);
        assert_eq!(step.rows[0].decision, Decision::Keep);
        let undecided = Comparison {
            decision: Decision::Undecided,
            verdict: Verdict::Inconclusive,
            ..better.clone()
        };
        let step = &of(&[&better, &undecided]).steps[0];
        assert_eq!(
            (step.verdict, step.decision),
            (Verdict::Inconclusive, Decision::Undecided)
        );
        assert_eq!(of(&[&better, &flat]).steps[0].decision, Decision::Keep);
    }

    #[test]
    fn the_start_stands_beside_the_step() {
        let mut spec = with_ratio("GET a", 0.5);
        spec.blocked_before_ms = 100.0;
        let mut measured = record(1, 8, 400, &[spec.clone()]);
        let start = EndpointSpec {
            p50_ms: 80.0,
            blocked_before_ms: 400.0,
            ..spec
        };
        add_start(&mut measured, &[start]);
        let comparison = compared(&measured);
        let ledger = of(&[&comparison]);
        let step = measured.contrast(ArmName::Before, ArmName::After).unwrap();
        assert!(ledger.has_start() && !of(&[&compared(&step)]).has_start());
        let row = &ledger.steps[0].rows[0];
        let p95 = row.p95_ms.unwrap();
        let times = |measured: Measured, by: f64| measured.value / by;
        let ratio = times(p95.start.unwrap(), p95.before.value);
        assert!((3.4..4.6).contains(&ratio), "{p95:?}");
        let since = row.since_start.as_ref().unwrap();
        assert_eq!(since.verdict, Verdict::Pass);
        let change = since.p95.as_ref().unwrap().estimate;
        assert!((0.1..0.15).contains(&change), "{change}");
        let blocked = row.blocked_ms_per_1000.unwrap();
        let start = blocked.start.unwrap().value;
        assert!(start > 3.0 * blocked.before.value, "{blocked:?}");
        assert_eq!(row.threads.unwrap().start.unwrap().value, 4.0);
    }

    #[test]
    fn a_regression_is_shown_before_a_larger_improvement() {
        let specs = [
            with_ratio("GET a", 0.1),
            with_ratio("GET b", 1.5),
            with_ratio("GET c", 2.0),
        ];
        let mut measured = record(1, 8, 400, &specs);
        measured.step.as_mut().unwrap().endpoints = vec!["GET a".to_owned()];
        let row = first_row(&compared(&measured));
        assert_eq!(row.endpoint.as_deref(), Some("GET c"));
        let p95 = row.p95_ms.unwrap();
        assert!(p95.after.value > 1.7 * p95.before.value, "{p95:?}");
    }

    #[test]
    fn a_row_shows_the_least_gain() {
        let specs = [
            with_ratio("GET a", 0.1),
            with_ratio("GET b", 0.5),
            with_ratio("GET c", 0.2),
        ];
        let mut measured = record(1, 8, 400, &specs);
        measured.step.as_mut().unwrap().endpoints =
            ["GET a", "GET b", "GET c"].map(String::from).into();
        assert_eq!(
            first_row(&compared(&measured)).endpoint.as_deref(),
            Some("GET b")
        );
    }

    #[test]
    fn a_bound_stays_a_bound() {
        let mut failing = EndpointSpec::new("GET a", 20.0);
        failing.errors_after = 0.2;
        let row = first_row(&compared(&record(1, 8, 400, &[failing])));
        let p95 = row.p95_ms.unwrap();
        assert!(!p95.before.at_least && p95.after.at_least, "{p95:?}");
    }

    #[test]
    fn two_searched_versions_have_a_row_with_the_plan_s_goal() {
        use crate::capacity::find;
        use crate::synthetic::{CapacitySpec, capacity_record};
        let searched = |after| {
            let spec = CapacitySpec {
                before: 100.0,
                after,
                highest: 1_000.0,
            };
            let record = capacity_record(1, spec);
            let finding = find(&record).unwrap().unwrap();
            Ledger::of([], [(&record, &finding)]).capacities
        };
        let rows = searched(Some(180.0));
        let ratio = rows[0].ratio.unwrap();
        assert!(
            ratio.low.unwrap() < 1.8 && 1.8 < ratio.high.unwrap(),
            "{ratio:?}"
        );
        assert_eq!(rows[0].goal, Some(Goal::Reached));
        assert_eq!(rows[0].slo, "p95<200ms, errors<1%");
        // One version has no ratio.
        assert_eq!(searched(None), []);
    }
}
