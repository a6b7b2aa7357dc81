//! What the gate said, held against what it had to say.

use unstall_results::compare::tells_order_effect;
use unstall_results::comparison::{Cell, Comparison, Metric, Outcome, Verdict};

use super::case::Expected;

/// A change that is so many times as far beyond the margin as what is found 8 times in 10 is found
/// in nearly every session: with a critical T of 2, 2.84 standard errors become 5.1.
const SURELY: f64 = 1.8;

/// What is to be said of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// The gate said what it had to say.
    Met,
    /// It said less, which noise allows: nothing is proven on this machine at this moment.
    Unseen(String),
    /// It said what it must not say.
    Missed(String),
    /// It couldn't be tried here.
    NotRun(String),
}

/// Holds a comparison against what was expected of a change of this share.
pub(super) fn hold(expected: Expected, share: f64, comparison: &Comparison) -> State {
    let said = said(comparison);
    match (expected, comparison.verdict) {
        (Expected::NoAlarm, Verdict::Pass | Verdict::Inconclusive)
        | (Expected::Quiet, Verdict::Pass) => State::Met,
        // Who is second was made slower by less than spoils a comparison, and exit code 3 stops a
        // merge as an alarm does.
        (Expected::NoAlarm, Verdict::Invalid) if is_blamed_on_order(comparison) => {
            State::Missed(said)
        }
        // A fault of the machine's own says nothing about the rule.
        (_, Verdict::Invalid) => State::Unseen(said),
        (Expected::Quiet, Verdict::Inconclusive) => State::Unseen(said),
        (Expected::Quiet | Expected::NoAlarm, Verdict::Regression) => State::Missed(said),
        (Expected::AlarmIfSeen | Expected::Alarm(None), Verdict::Regression) => State::Met,
        (Expected::Alarm(Some(metric)) | Expected::Exactly(metric), _) => {
            by_metric(metric, matches!(expected, Expected::Exactly(_)), comparison)
        }
        (Expected::AlarmIfSeen | Expected::Alarm(None), Verdict::Inconclusive) => {
            State::Unseen(said)
        }
        (Expected::AlarmIfSeen, Verdict::Pass) if !is_surely_seen(share, comparison) => {
            State::Unseen(said)
        }
        (Expected::AlarmIfSeen | Expected::Alarm(None), Verdict::Pass) => State::Missed(said),
    }
}

fn is_blamed_on_order(comparison: &Comparison) -> bool {
    let mut faults = comparison.validity.faults.iter();
    faults.any(|fault| tells_order_effect(fault))
}

/// Whether a change of this share would have been found in nearly every such session, by one of
/// the latency cells.
fn is_surely_seen(share: f64, comparison: &Comparison) -> bool {
    comparison.cells.iter().any(|cell| {
        let detectable = cell.change.as_ref().and_then(|of| of.minimum_detectable);
        let margin = cell.margin.regression;
        let is_latency = matches!(cell.metric, Metric::ResponseP50 | Metric::ResponseP95);
        let surely = detectable.map(|ratio| margin + SURELY * (ratio - 1.0 - margin));
        cell.judged && is_latency && surely.is_some_and(|surely| surely <= share)
    })
}

/// The cell of a metric must be what alarmed.
fn by_metric(metric: Metric, exactly: bool, comparison: &Comparison) -> State {
    let regressed = |cell: &&Cell| cell.judged && cell.outcome == Outcome::Regression;
    let alarmed: Vec<Metric> = comparison
        .cells
        .iter()
        .filter(regressed)
        .map(|cell| cell.metric)
        .collect();
    let measured = |cell: &Cell| cell.metric == metric && cell.change.is_some();
    if !comparison.cells.iter().any(measured) {
        return State::NotRun("it can't be measured on this machine".to_owned());
    }
    if comparison.verdict != Verdict::Regression || !alarmed.contains(&metric) {
        return State::Missed(said(comparison));
    }
    if exactly && alarmed.iter().any(|other| *other != metric) {
        // What else alarmed is timed, and a busy machine may have made it.
        return State::Unseen(said(comparison));
    }
    State::Met
}

/// What the gate said, in a few words.
pub(super) fn said(comparison: &Comparison) -> String {
    let verdict = match comparison.verdict {
        Verdict::Pass => "pass",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Regression => "regression",
        Verdict::Invalid => "invalid",
    };
    match comparison.reasons.first() {
        Some(reason) if comparison.verdict != Verdict::Pass => format!("{verdict}: {reason}"),
        _ => verdict.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unstall_results::compare::compare;
    use unstall_results::policy::Policy;
    use unstall_results::synthetic::{EndpointSpec, SessionSpec, record};

    fn compared(spec: EndpointSpec) -> Comparison {
        compare(&record(3, 10, 400, &[spec]), &Policy::default()).expect("two arms")
    }

    fn slower(ratio: f64) -> Comparison {
        compared(EndpointSpec {
            ratio,
            ..EndpointSpec::new("GET work", 30.0)
        })
    }

    #[test]
    fn an_alarm_without_a_change_is_missed_and_a_pass_with_a_large_one_too() {
        let (same, worse) = (slower(1.0), slower(1.5));
        assert_eq!(worse.verdict, Verdict::Regression);
        assert!(matches!(
            hold(Expected::Quiet, 0.0, &worse),
            State::Missed(_)
        ));
        assert!(matches!(
            hold(Expected::NoAlarm, 0.0, &worse),
            State::Missed(_)
        ));
        assert_eq!(hold(Expected::Alarm(None), 0.5, &worse), State::Met);
        let mut passed = same.clone();
        passed.verdict = Verdict::Pass;
        assert_eq!(hold(Expected::Quiet, 0.0, &passed), State::Met);
        assert!(matches!(
            hold(Expected::Alarm(None), 0.2, &passed),
            State::Missed(_)
        ));
        let mut unsure = same;
        unsure.verdict = Verdict::Inconclusive;
        assert!(matches!(
            hold(Expected::Alarm(None), 0.2, &unsure),
            State::Unseen(_)
        ));
        unsure.verdict = Verdict::Invalid;
        for expected in [Expected::Quiet, Expected::NoAlarm] {
            let held = hold(expected, 0.0, &unsure);
            assert!(matches!(held, State::Unseen(_)), "{held:?}");
        }
    }

    #[test]
    fn who_is_second_spoils_nothing() {
        let mut session = SessionSpec::new(3, 20, 400, &[EndpointSpec::new("GET work", 30.0)]);
        session.position = 0.3;
        let spoilt = compare(&session.record(), &Policy::default()).expect("two arms");
        assert_eq!(spoilt.verdict, Verdict::Invalid, "{:?}", spoilt.reasons);
        let held = hold(Expected::NoAlarm, 0.0, &spoilt);
        assert!(matches!(held, State::Missed(_)), "{held:?}");
    }

    #[test]
    fn a_pass_is_wrong_only_where_the_change_was_large_enough_to_be_seen() {
        let mut passed = slower(1.0);
        passed.verdict = Verdict::Pass;
        let tiny = hold(Expected::AlarmIfSeen, 0.031, &passed);
        assert!(matches!(tiny, State::Unseen(_)), "{tiny:?}");
        let large = hold(Expected::AlarmIfSeen, 0.9, &passed);
        assert!(matches!(large, State::Missed(_)), "{large:?}");
    }

    #[test]
    fn what_is_counted_must_alarm_by_its_own_cell() {
        let failing = compared(EndpointSpec {
            errors_after: 0.04,
            ..EndpointSpec::new("GET work", 30.0)
        });
        let by_errors = hold(Expected::Exactly(Metric::ErrorRate), 0.0, &failing);
        assert!(
            matches!(by_errors, State::Met | State::Unseen(_)),
            "{by_errors:?}"
        );
        let by_threads = hold(Expected::Exactly(Metric::Threads), 0.0, &failing);
        assert!(matches!(by_threads, State::Missed(_)), "{by_threads:?}");
        let mut without = failing;
        without.cells.retain(|cell| cell.metric != Metric::Threads);
        let nowhere = hold(Expected::Exactly(Metric::Threads), 0.0, &without);
        assert!(matches!(nowhere, State::NotRun(_)), "{nowhere:?}");
    }
}
