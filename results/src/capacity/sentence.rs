//! What was found, in words.

use super::ratio::{Goal, HARM_RATIO_MIN, Ratio, goal_ratio};
use super::search::{Capacity, Ceiling};
use super::{ArmFinding, Finding, TrialEnd};
use crate::comparison::Verdict;
use crate::wording::number;

/// Puts the sentences into a finding.
pub(super) fn tell(mut finding: Finding) -> Finding {
    finding.headline = match finding.arms.as_slice() {
        [before, after] => two(before, after, finding.ratio, finding.promised_percent),
        [only] => format!("Capacity {} with {}", capacity(only.capacity), finding.slo),
        _ => String::new(),
    };
    finding.notes = notes(&finding);
    finding.next_action = next_action(&finding);
    finding
}

/// `412/s (95 % interval 395 … 431)`.
fn capacity(capacity: Capacity) -> String {
    match capacity {
        Capacity::Found {
            rate, low, high, ..
        } => format!(
            "{}/s (95 % interval {} … {})",
            number(rate),
            number(low),
            number(high)
        ),
        Capacity::AtLeast { rate, because } => {
            let why = match because {
                Ceiling::Generator => "the load generator could not offer more",
                Ceiling::Asked => "no more was asked for",
                Ceiling::Ended => "the search ended there",
            };
            format!("at least {}/s ({why})", number(rate))
        }
        Capacity::Below { rate } => {
            format!("below {}/s (the lowest rate tried)", number(rate))
        }
        Capacity::Unknown => "unknown".to_owned(),
    }
}

fn two(
    before: &ArmFinding,
    after: &ArmFinding,
    ratio: Option<Ratio>,
    promised: [u32; 2],
) -> String {
    let change = match ratio {
        Some(Ratio {
            estimate: Some(estimate),
            low: Some(low),
            high: Some(high),
        }) => format!(
            "Capacity ×{estimate:.2} (95 % interval {low:.2} … {high:.2}); {}",
            goal(ratio, promised)
        ),
        Some(Ratio { low: Some(low), .. }) => {
            format!("Capacity at least ×{}; {}", cut(low), goal(ratio, promised))
        }
        Some(Ratio {
            high: Some(high), ..
        }) => format!(
            "Capacity at most ×{}; {}",
            cut_up(high),
            goal(ratio, promised)
        ),
        _ => match (before.capacity, after.capacity) {
            (Capacity::Below { .. }, Capacity::Below { .. }) => {
                "Neither version holds the objective at any rate tried"
            }
            (Capacity::Below { .. }, _) => "Only the new version holds the objective",
            (_, Capacity::Below { .. }) => "The new version holds the objective at no rate tried",
            _ => "The ratio of both capacities is not known",
        }
        .to_owned(),
    };
    let (before, after) = (capacity(before.capacity), capacity(after.capacity));
    format!("{change}; before {before}, after {after}")
}

/// Two digits, never above what was found.
fn cut(ratio: f64) -> String {
    format!("{:.2}", (ratio * 100.0).floor() / 100.0)
}

/// Two digits, never below what was found.
fn cut_up(ratio: f64) -> String {
    format!("{:.2}", (ratio * 100.0).ceil() / 100.0)
}

/// Whether the migration's own aim is reached.
fn goal(ratio: Option<Ratio>, promised: [u32; 2]) -> String {
    let aim = format!(
        "×{:.2}, what the whole migration is to bring,",
        goal_ratio(promised)
    );
    match ratio.map(|ratio| ratio.goal(promised)) {
        Some(Goal::Reached) => format!("{aim} is reached"),
        Some(Goal::Missed) => format!("{aim} is not reached"),
        _ => format!("whether {aim} is reached can't be told"),
    }
}

fn notes(finding: &Finding) -> Vec<String> {
    let mut notes = Vec::new();
    for arm in &finding.arms {
        let of = match finding.arms.len() {
            1 => String::new(),
            _ => format!("{}: ", arm.arm),
        };
        if let Capacity::Found {
            is_precise: false, ..
        } = arm.capacity
        {
            notes.push(format!(
                "{of}the interval is wider than was asked for: the blocks near the capacity differ \
                 too much from each other"
            ));
        }
        if let Capacity::AtLeast { rate, .. } = arm.capacity {
            let held = arm.trials.iter().filter(|of| of.end == TrialEnd::Held);
            if held.filter(|of| of.rate == rate).count() == 1 {
                notes.push(format!("{of}one block held at {}/s", number(rate)));
            }
        }
        let failed = arm.trials.iter().filter(|of| of.end == TrialEnd::Failed);
        let slowest = failed.min_by(|left, right| left.rate.total_cmp(&right.rate));
        if let Some(trial) = slowest {
            notes.push(format!(
                "{of}at {}/s, the lowest rate that failed, {}",
                number(trial.rate),
                why_failed(trial)
            ));
            if trial.is_capped {
                notes.push(format!(
                    "{of}there, as many arrivals were in flight as are allowed, and later ones \
                     waited on this side: raise --in-flight if the service is to see them"
                ));
            }
        }
        let idle = arm.trials.iter().filter(|of| of.end == TrialEnd::Idle);
        let idle = idle.count();
        if idle > 0 {
            notes.push(format!(
                "{of}in {idle} of {} blocks nothing was sent that the objective is about",
                arm.trials.len()
            ));
        }
        let spoilt = arm.trials.iter().filter(|of| of.end == TrialEnd::Spoilt);
        let spoilt = spoilt.count();
        if spoilt > 0 {
            notes.push(format!(
                "{of}{spoilt} of {} blocks say nothing of the service, because of a fault on this \
                 side",
                arm.trials.len()
            ));
        }
    }
    notes
}

/// What kept a block from holding.
fn why_failed(trial: &super::SeenTrial) -> String {
    let mut reasons: Vec<String> = Vec::new();
    if trial.is_saturated {
        reasons.push(match trial.ended_per_second {
            Some(ended) => format!("arrivals piled up ({}/s were done)", number(ended)),
            None => "arrivals piled up".to_owned(),
        });
    }
    let broken = trial.readings.iter().filter(|reading| !reading.holds);
    reasons.extend(broken.map(reading));
    reasons.join("; ")
}

/// `p95<200ms did not hold on GET usage (231 ms)`.
fn reading(reading: &crate::slo::Reading) -> String {
    let place = match &reading.endpoint {
        Some(endpoint) if !reading.objective.starts_with(endpoint.as_str()) => {
            format!(" on {endpoint}")
        }
        _ => String::new(),
    };
    format!(
        "{} did not hold{place} ({})",
        reading.objective,
        value(reading)
    )
}

fn value(reading: &crate::slo::Reading) -> String {
    let Some(value) = reading.value else {
        return "nothing was answered".to_owned();
    };
    if reading.is_share {
        return format!("{} %", number(value * 100.0));
    }
    let sign = if reading.at_least { "> " } else { "" };
    format!("{sign}{} ms", number(value / 1e3))
}

fn next_action(finding: &Finding) -> String {
    if finding.is_stopped {
        return "Measure again, to the end".to_owned();
    }
    let obstacle = if finding.arms.iter().any(super::is_idle) {
        let rare = "Begin with a higher --from: what the objective is about is too rare among the \
                    requests";
        Some(rare)
    } else {
        let obstacles = finding.arms.iter().filter_map(|arm| obstacle(arm.capacity));
        obstacles
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, text)| text)
    };
    let text = obstacle.unwrap_or(match finding.verdict {
        Some(Verdict::Regression) => {
            "Find out what holds the new version up at the rate at which it fails: `unstall watch`"
        }
        Some(Verdict::Inconclusive) => "Ask for more precision with --precision",
        Some(Verdict::Pass) => "Keep the new version; plan with the lower end of its interval",
        _ => "Plan with the lower end of the interval",
    });
    match finding.verdict {
        Some(Verdict::Inconclusive) if finding.ratio.is_some_and(|of| of.estimate.is_some()) => {
            format!(
                "{text} (a pass keeps the whole interval above ×{HARM_RATIO_MIN:.2}, a regression \
                 is a whole interval below)"
            )
        }
        _ => text.to_owned(),
    }
}

/// What to do about a capacity that isn't known well enough, the most pressing first.
fn obstacle(capacity: Capacity) -> Option<(u8, &'static str)> {
    Some(match capacity {
        Capacity::Unknown => (0, "See why the blocks are not valid, and measure again"),
        Capacity::Below { .. } => (
            1,
            "Look at the service with `unstall run` at one user, or ask with a lower --from or \
             another --slo",
        ),
        Capacity::AtLeast { because, .. } => match because {
            Ceiling::Generator => (
                2,
                "Give the load generator cores of its own, or another machine, to ask for more",
            ),
            Ceiling::Asked => (3, "Ask for more with a higher --to"),
            Ceiling::Ended => (
                4,
                "Measure again with more --blocks, or begin with a higher --from",
            ),
        },
        Capacity::Found {
            is_precise: false, ..
        } => (
            5,
            "Measure with longer blocks (--block), or on a quieter machine",
        ),
        Capacity::Found { .. } => return None,
    })
}
