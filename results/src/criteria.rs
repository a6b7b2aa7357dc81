//! A migration step's own criteria, judged on the step's own endpoints.

use crate::candidate::cell_name;
use crate::comparison::{Cell, Criterion, Family, Metric, Outcome, Scale};
use crate::policy::Policy;
use crate::record::{ScenarioIdentity, StepIdentity};
use crate::service_counters::ServiceCounter;
use crate::wording;

/// The criterion that is about what the service counts of itself.
const FAULTS: &str = "faults";

/// A step's criteria, judged.
pub(crate) struct Judged {
    pub(crate) criteria: Vec<Criterion>,
    /// What keeps the step from being kept: the first one that does not hold, else the first
    /// one that has no answer though one is due.
    pub(crate) doubt: Option<usize>,
}

/// What became of one criterion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Met,
    Unmet,
    /// It asks for a fall where nothing could fall: no answer is due.
    NotApplicable,
    /// An answer is due, and there is none.
    Open,
}

/// What criteria are judged by.
pub(crate) struct Seen<'a> {
    pub(crate) cells: &'a [Cell],
    /// What the service counted, where it tells.
    pub(crate) counters: Option<Vec<ServiceCounter>>,
}

/// Each criterion of a step with what was found; `unusable` says
/// why the measurement may not be judged at all.
pub(crate) fn criteria(
    step: &StepIdentity,
    scenario: &ScenarioIdentity,
    seen: &Seen<'_>,
    policy: &Policy,
    unusable: Option<&str>,
) -> Judged {
    let answered = step.criteria.iter();
    let (answers, criteria): (Vec<Answer>, Vec<Criterion>) = answered
        .map(|(name, expected)| {
            let relevant = relevant(name, step, scenario, seen.cells);
            let is_measured = |cell: &&Cell| cell.outcome != Outcome::NotMeasured;
            let (answer, found) = match (unusable, &seen.counters) {
                (Some(why), _) => (Answer::Open, not_judged(why)),
                (None, Some(counters)) if name == FAULTS => faults(expected, counters, policy),
                _ if relevant.iter().any(is_measured) => judge(expected, &relevant, policy),
                _ => (Answer::Open, "not measured".to_owned()),
            };
            let criterion = Criterion {
                name: name.clone(),
                expected: expected.clone(),
                met: match answer {
                    Answer::Met => Some(true),
                    Answer::Unmet => Some(false),
                    Answer::NotApplicable | Answer::Open => None,
                },
                found,
            };
            (answer, criterion)
        })
        .unzip();
    let first = |wanted| answers.iter().position(|answer| *answer == wanted);
    let doubt = first(Answer::Unmet).or_else(|| first(Answer::Open));
    Judged { criteria, doubt }
}

/// What stands instead of evidence.
fn not_judged(why: &str) -> String {
    format!("not judged: {why}")
}

/// Takes the answers back, where it turns out afterwards that the measurement may not be judged.
pub(crate) fn withdraw(criteria: &mut [Criterion], why: &str) {
    for criterion in criteria {
        criterion.met = None;
        criterion.found = not_judged(why);
    }
}

fn relevant<'a>(
    name: &str,
    step: &StepIdentity,
    scenario: &ScenarioIdentity,
    cells: &'a [Cell],
) -> Vec<&'a Cell> {
    let (metric, of_service) = match name {
        "p50" => (Metric::ResponseP50, false),
        "p95" => (Metric::ResponseP95, false),
        "p99" => (Metric::ResponseP99, false),
        "errors" => (Metric::ErrorRate, false),
        "blocked" => (Metric::BlockedMsPer1000, false),
        "threads" => (Metric::Threads, true),
        "cpu" => (Metric::CpuUsPerRequest, true),
        // The plan's reader refuses other names.
        _ => return Vec::new(),
    };
    cells
        .iter()
        .filter(|cell| cell.metric == metric && !is_only_shown(cell, scenario))
        .filter(|cell| match &cell.endpoint {
            None => of_service,
            Some(endpoint) => !of_service && step.endpoints.contains(endpoint),
        })
        .collect()
}

/// The scenario wants these times shown and not judged: no criterion waits for them.
fn is_only_shown(cell: &Cell, scenario: &ScenarioIdentity) -> bool {
    let mut endpoints = scenario.endpoints.iter();
    let endpoint = endpoints.find(|of| Some(&of.name) == cell.endpoint.as_ref());
    cell.family == Family::Latency && endpoint.is_some_and(|endpoint| !endpoint.judged)
}

/// A criterion holds if it holds for each of its cells.
fn judge(expected: &str, cells: &[&Cell], policy: &Policy) -> (Answer, String) {
    let first = |is: &dyn Fn(&Cell) -> bool| cells.iter().copied().find(|cell| is(cell));
    if let Some(cell) = first(&|cell| cell.outcome == Outcome::Regression) {
        return (Answer::Unmet, phrase(cell));
    }
    let only = cells.len() == 1;
    if let Some(cell) = first(&|cell| is_worse(cell, only, policy)) {
        let found = format!(
            "{}: more in the comparison, though too little for a regression",
            phrase(cell)
        );
        return (Answer::Unmet, found);
    }
    if expected == "none-new"
        && let Some(cell) = first(&is_new)
    {
        return (Answer::Unmet, phrase(cell));
    }
    let is_open = |cell: &Cell| {
        !matches!(
            cell.outcome,
            Outcome::Regression | Outcome::Improvement | Outcome::WithinLimit
        )
    };
    if let Some(cell) = first(&is_open) {
        return (Answer::Open, phrase(cell));
    }
    let better = first(&|cell| cell.outcome == Outcome::Improvement);
    match expected {
        "better-or-flat" | "down-or-flat" | "none-new" => {
            (Answer::Met, phrase(better.unwrap_or(cells[0])))
        }
        "down" | "better" => {
            let stays = |cell: &Cell| cell.outcome != Outcome::Improvement && could_fall(cell);
            match (first(&stays), better) {
                (Some(cell), _) => (
                    Answer::Unmet,
                    format!("{}: no significant fall", phrase(cell)),
                ),
                (None, Some(cell)) => (Answer::Met, phrase(cell)),
                (None, None) => (
                    Answer::NotApplicable,
                    format!("{}: nothing that could fall", phrase(cells[0])),
                ),
            }
        }
        _ => (Answer::Open, format!("unknown expectation {expected:?}")),
    }
}

/// Faults that the service counted. They are down if each that was there before is gone or
/// significantly rarer, and at least one significantly: a fault that was met once, and then not
/// again, may have been missed by chance. They are up if any is significantly more frequent.
fn faults(expected: &str, counters: &[ServiceCounter], policy: &Policy) -> (Answer, String) {
    let alpha = policy.alpha;
    let phrases = |is: &dyn Fn(&ServiceCounter) -> bool| {
        let counters = counters.iter().filter(|counter| is(counter));
        let phrases: Vec<String> = counters.map(ServiceCounter::phrase).collect();
        (!phrases.is_empty()).then(|| phrases.join(", "))
    };
    if let Some(risen) = phrases(&|of| of.has_risen(alpha)) {
        return (Answer::Unmet, format!("{risen}: more than before"));
    }
    let stays = |of: &ServiceCounter| of.after > 0 && !of.has_fallen(alpha);
    let was_there = |of: &ServiceCounter| of.before > 0;
    let has_any_fallen = counters
        .iter()
        .any(|of| was_there(of) && of.has_fallen(alpha));
    match (expected, phrases(&stays), phrases(&was_there)) {
        ("down", Some(stays), _) => (Answer::Unmet, format!("{stays}: no significant fall")),
        ("down", None, Some(gone)) if !has_any_fallen => {
            (Answer::Open, format!("{gone}: too few to tell"))
        }
        ("down" | "down-or-flat", _, Some(fallen)) => (Answer::Met, fallen),
        ("down", None, None) => (Answer::NotApplicable, "none counted".to_owned()),
        ("down-or-flat", all, None) => (
            Answer::Met,
            all.unwrap_or_else(|| "none counted".to_owned()),
        ),
        _ => (Answer::Open, format!("unknown expectation {expected:?}")),
    }
}

/// Significantly beyond the margin, also where the floor keeps it from being a regression.
/// The `only` cell of a criterion is one test, whose own bound needs no adjustment.
fn is_worse(cell: &Cell, only: bool, policy: &Policy) -> bool {
    let margin = cell.margin.regression;
    cell.change.as_ref().is_some_and(|change| {
        let flat = match change.scale {
            Scale::Ratio => 1.0 + margin,
            Scale::Difference => margin,
        };
        change.p_regression <= policy.alpha || (only && change.lower_bound > flat)
    })
}

/// Failures where there were none.
fn is_new(cell: &Cell) -> bool {
    cell.before.value == Some(0.0) && cell.after.value.is_some_and(|after| after > 0.0)
}

/// Blocked time up to the floor is as good as none.
fn could_fall(cell: &Cell) -> bool {
    cell.metric != Metric::BlockedMsPer1000
        || cell
            .before
            .value
            .is_some_and(|before| before > cell.margin.floor)
}

/// `GET usage p95 41.2 → 6.1 ms`.
pub(crate) fn phrase(cell: &Cell) -> String {
    let name = cell_name(cell.endpoint.as_deref(), cell.metric);
    format!("{name} {}", values(cell))
}

/// `41.2 → 6.1 ms`, with bounds as bounds.
pub(crate) fn values(cell: &Cell) -> String {
    let shown = |estimate: &crate::comparison::Estimate| match estimate.value {
        Some(value) if estimate.at_least => format!("> {}", wording::number(value)),
        Some(value) => wording::number(value),
        None => "not measured".to_owned(),
    };
    let (before, after) = (shown(&cell.before), shown(&cell.after));
    let unit = wording::unit(cell.metric);
    match (cell.before.value, cell.after.value) {
        (Some(_), None) => format!("{before}{unit} → {after}"),
        _ => format!("{before} → {after}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::comparison::{Decision, Verdict};
    use crate::record::{Block, RunRecord};
    use crate::synthetic::{EndpointSpec, record};

    fn two_endpoints() -> RunRecord {
        let spec = |name| EndpointSpec {
            blocked_before_ms: 220.0,
            ratio: 0.2,
            ..EndpointSpec::new(name, 20.0)
        };
        record(1, 10, 400, &[spec("GET a"), spec("GET b")])
    }

    fn change(record: &mut RunRecord, arm: &str, change: impl Fn(&mut Block)) {
        for block in record.blocks.iter_mut().filter(|block| block.arm == arm) {
            change(block);
        }
    }

    /// What a criterion of the record's step came to, the decision and what to do.
    fn found(record: &RunRecord, name: &str) -> (Option<bool>, Decision, String) {
        let comparison = compare(record, &Policy::default()).unwrap();
        assert_eq!(comparison.verdict, Verdict::Pass);
        let mut criteria = comparison.criteria.iter();
        let criterion = criteria.find(|criterion| criterion.name == name).unwrap();
        (criterion.met, comparison.decision, comparison.next_action)
    }

    #[test]
    fn one_thread_more_in_every_pair_is_not_flat_though_no_regression() {
        let mut more = two_endpoints();
        assert_eq!(found(&more, "threads").0, Some(true));
        change(&mut more, "before", |block| {
            block.process.as_mut().unwrap().threads_max = 2;
        });
        change(&mut more, "after", |block| {
            block.process.as_mut().unwrap().threads_max = 3;
        });
        let (met, decision, next) = found(&more, "threads");
        assert_eq!((met, decision), (Some(false), Decision::Undecided));
        assert!(next.contains("threads 2 → 3"), "{next}");
        // In a quick session beside cells that improve, too.
        let mut quick = more.clone();
        quick.blocks.retain(|block| block.pair < 7);
        assert_eq!(found(&quick, "threads").0, Some(false));
        // Two more are the floor: settled as well, and still no regression.
        change(&mut more, "after", |block| {
            block.process.as_mut().unwrap().threads_max = 4;
        });
        assert_eq!(found(&more, "threads").0, Some(false));
    }

    #[test]
    fn a_fall_on_one_endpoint_is_none_on_the_other() {
        let mut half = two_endpoints();
        assert_eq!(found(&half, "blocked").0, Some(true));
        change(&mut half, "after", |block| {
            let monitor = block.monitor.as_mut().unwrap();
            let seen = monitor.endpoints.get_mut("GET b").unwrap();
            seen.blocked_us.slept = 220 * seen.requests;
        });
        change(&mut half, "before", |block| {
            let monitor = block.monitor.as_mut().unwrap();
            let seen = monitor.endpoints.get_mut("GET b").unwrap();
            seen.blocked_us.slept = 220 * seen.requests;
        });
        assert_eq!(found(&half, "blocked").0, Some(false));
    }

    #[test]
    fn a_criterion_without_an_answer_keeps_no_step() {
        let mut blind = two_endpoints();
        change(&mut blind, "before", |block| block.monitor = None);
        change(&mut blind, "after", |block| block.monitor = None);
        let (met, decision, next) = found(&blind, "blocked");
        assert_eq!((met, decision), (None, Decision::Undecided));
        assert!(next.contains("blocked down"), "{next}");
        assert!(next.contains("not measured"), "{next}");
        // Where nothing could fall, no answer is due.
        let flat = record(1, 10, 400, &[EndpointSpec::new("GET a", 20.0)]);
        let (met, decision, _) = found(&flat, "blocked");
        assert_eq!((met, decision), (None, Decision::Keep));
    }

    /// A start with two kinds of faults, of which a step takes what `after` says.
    fn faulty(after: &[(&str, u64)]) -> RunRecord {
        let mut record = two_endpoints();
        let step = record.step.as_mut().unwrap();
        step.criteria.insert(FAULTS.to_owned(), "down".to_owned());
        let counters = |of: &[(&str, u64)], pair: u32| {
            let counted = of
                .iter()
                .map(|(name, count)| ((*name).to_owned(), count + u64::from(pair)));
            Some(counted.collect())
        };
        let before = [("sessions", 40), ("queued", 3)];
        change(&mut record, "before", |block| {
            block.service_counters = counters(&before, block.pair);
        });
        change(&mut record, "after", |block| {
            block.service_counters = counters(after, block.pair);
        });
        record
    }

    #[test]
    fn faults_that_are_gone_are_down() {
        let (met, decision, _) = found(&faulty(&[]), FAULTS);
        assert_eq!((met, decision), (Some(true), Decision::Keep));
        let comparison = compare(&faulty(&[]), &Policy::default()).unwrap();
        let mut criteria = comparison.criteria.iter();
        let criterion = criteria.find(|of| of.name == FAULTS).unwrap();
        assert_eq!(criterion.found, "queued 75 → 0, sessions 445 → 0");
        let counted: Vec<(&str, u64, u64)> = comparison
            .counters
            .iter()
            .map(|of| (of.name.as_str(), of.before, of.after))
            .collect();
        assert_eq!(counted, [("queued", 75, 0), ("sessions", 445, 0)]);
    }

    #[test]
    fn one_kind_of_fault_that_stays_is_not_down() {
        let (met, decision, next) = found(&faulty(&[("queued", 3)]), FAULTS);
        assert_eq!((met, decision), (Some(false), Decision::Undecided));
        assert!(
            next.contains("queued 75 → 75: no significant fall"),
            "{next}"
        );
        let (met, _, next) = found(&faulty(&[("dropped", 5)]), FAULTS);
        assert_eq!(met, Some(false));
        assert!(next.contains("dropped 0 → 95: more than before"), "{next}");
    }

    /// Once in ten blocks, and then not again.
    #[test]
    fn a_fault_that_was_met_by_chance_has_not_fallen() {
        let mut rare = faulty(&[]);
        let once = |pair: u32| {
            let counted = (pair == 3).then(|| ("queued".to_owned(), 1));
            Some(counted.into_iter().collect())
        };
        change(&mut rare, "before", |block| {
            block.service_counters = once(block.pair);
        });
        change(&mut rare, "after", |block| {
            block.service_counters = once(99);
        });
        let (met, decision, next) = found(&rare, FAULTS);
        assert_eq!((met, decision), (None, Decision::Undecided));
        assert!(next.contains("queued 1 → 0: too few to tell"), "{next}");
    }

    #[test]
    fn faults_that_nobody_counts_have_no_answer() {
        let mut uncounted = faulty(&[]);
        uncounted.blocks[3].service_counters = None;
        assert_eq!(found(&uncounted, FAULTS).0, None);
        assert_eq!(found(&uncounted, FAULTS).1, Decision::Undecided);
        // Counted, and none there.
        let mut clean = faulty(&[]);
        change(&mut clean, "before", |block| {
            block.service_counters = Some(std::collections::BTreeMap::new());
        });
        assert_eq!(found(&clean, FAULTS).0, None);
        assert_eq!(found(&clean, FAULTS).1, Decision::Keep);
    }

    #[test]
    fn a_first_failure_is_new() {
        let mut failing = two_endpoints();
        assert_eq!(found(&failing, "errors").0, Some(true));
        let block = failing.blocks.iter_mut().find(|block| block.arm == "after");
        let samples = &mut block.unwrap().endpoints;
        let errors = &mut samples.get_mut("GET a").unwrap().errors;
        errors.insert(crate::record::ErrorKind::Reset, 1);
        assert_eq!(found(&failing, "errors").0, Some(false));
    }
}
