//! What a search for capacity found, in the words and numbers that every format shares.

use unstall_results::capacity::{ArmFinding, Capacity, Finding, Goal, Ratio, SeenTrial, TrialEnd};
use unstall_results::comparison::{Metric, Verdict};
use unstall_results::ledger::CapacityRow;
use unstall_results::slo::Reading;

use crate::{Entry, numbers, vocabulary};

impl Entry<'_> {
    /// What its record shows of capacity; `None` of any other record.
    pub(crate) fn capacity(&self) -> Option<Finding> {
        // A record is validated when it is read, and its objective with it.
        unstall_results::capacity::find(self.record).ok().flatten()
    }
}

/// Its verdict, where it judges two versions.
pub(crate) fn verdict(entry: &Entry<'_>) -> Option<Verdict> {
    entry.record.load.capacity.as_ref()?;
    entry.capacity()?.verdict
}

/// What a verdict over capacities means.
pub(crate) fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "the new version takes about as much as the old one, or more",
        Verdict::Regression => "the new version takes less",
        Verdict::Inconclusive | Verdict::Invalid => vocabulary::verdict_meaning(verdict),
    }
}

/// Arrivals per second.
pub(crate) fn rate(per_second: f64) -> String {
    numbers::value(Metric::Throughput, per_second)
}

/// The capacity of a version and its interval.
pub(crate) fn estimate(capacity: Capacity) -> (String, String) {
    match capacity {
        Capacity::Found {
            rate: middle,
            low,
            high,
            ..
        } => (rate(middle), format!("{} … {}", rate(low), rate(high))),
        Capacity::AtLeast { rate: held, .. } => {
            (format!("at least {}", rate(held)), "–".to_owned())
        }
        Capacity::Below { rate: failed } => (format!("below {}", rate(failed)), "–".to_owned()),
        Capacity::Unknown => ("unknown".to_owned(), "–".to_owned()),
    }
}

/// One capacity by another, and its interval; `None` where nothing bounds it.
pub(crate) fn ratio(ratio: Option<Ratio>) -> Option<(String, String)> {
    let times = |of: f64| format!("×{of:.2}");
    match ratio? {
        Ratio {
            estimate: Some(estimate),
            low: Some(low),
            high: Some(high),
        } => Some((times(estimate), format!("{} … {}", times(low), times(high)))),
        Ratio { low: Some(low), .. } => Some((format!("at least {}", times(low)), "–".to_owned())),
        Ratio {
            high: Some(high), ..
        } => Some((format!("at most {}", times(high)), "–".to_owned())),
        _ => None,
    }
}

/// What the plan promised: `30 to 40 % more`.
pub(crate) fn promise(row: &CapacityRow) -> String {
    let [least, most] = row.promised_percent;
    format!("{least} to {most} % more")
}

/// A sign and a word for what a ratio says of the plan's goal.
pub(crate) fn goal(goal: Option<Goal>) -> &'static str {
    match goal {
        Some(Goal::Reached) => "✓ reached",
        Some(Goal::Missed) => "✕ missed",
        Some(Goal::Unclear) => "? within the interval",
        None => "–",
    }
}

/// A sign and a word for what came of a block.
pub(crate) fn end(trial: &SeenTrial) -> (&'static str, &'static str) {
    match (trial.end, trial.is_saturated) {
        (TrialEnd::Held, _) => ("✓", "held"),
        (TrialEnd::Failed, true) => ("✕", "saturated"),
        (TrialEnd::Failed, false) => ("✕", "failed"),
        (TrialEnd::Spoilt | TrialEnd::Idle, _) => ("⊘", "not judged"),
    }
}

/// The reading that is nearest to its limit, or farthest beyond it.
pub(crate) fn tightest(trial: &SeenTrial) -> Option<&Reading> {
    // What doesn't hold comes first, also where nothing was answered that could be measured.
    let order = |of: &Reading| (!of.holds, share(of));
    trial.readings.iter().max_by(|left, right| {
        let ((left, own), (right, other)) = (order(left), order(right));
        left.cmp(&right).then(own.total_cmp(&other))
    })
}

/// A reading by its limit: 1 is at the limit.
pub(crate) fn share(reading: &Reading) -> f64 {
    reading.value.map_or(0.0, |value| value / reading.limit)
}

/// `p95<200ms: 41.2 ms`, or what there is.
pub(crate) fn reading(reading: &Reading) -> String {
    let value = match reading.value {
        None => "nothing answered".to_owned(),
        Some(share) if reading.is_share => numbers::share(share),
        Some(us) => {
            let sign = if reading.at_least { ">\u{202F}" } else { "" };
            format!("{sign}{}", numbers::ms(us / 1e3))
        }
    };
    let place = match &reading.endpoint {
        Some(endpoint) if !reading.objective.starts_with(endpoint.as_str()) => {
            format!("{endpoint}, ")
        }
        _ => String::new(),
    };
    format!("{place}{}: {value}", reading.objective)
}

/// Blocks that say something, and all of them.
pub(crate) fn blocks(arm: &ArmFinding) -> String {
    let spoilt = arm.trials.iter();
    let spoilt = spoilt.filter(|of| matches!(of.end, TrialEnd::Spoilt | TrialEnd::Idle));
    let (all, spoilt) = (arm.trials.len(), spoilt.count());
    if spoilt == 0 {
        all.to_string()
    } else {
        format!("{} of {all}", all - spoilt)
    }
}
