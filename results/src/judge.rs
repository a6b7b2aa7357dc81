//! From candidates to cells: tests by family, bounds, and what follows.
//!
//! The rules (δ, Δ and the floor are the policy's, see [`Margin`]):
//! - *regression*: worse than δ with an adjusted p ≤ α, and the Hodges–Lehmann
//!   estimate of the absolute change above the floor;
//! - *improvement*: better than 1 ÷ (1 + δ) with an adjusted p ≤ α of its own;
//! - *within limit*: the one-sided upper bound excludes Δ, or that of the absolute
//!   change excludes more than the floor: a change up to the floor is no harm, and
//!   the cell's note says so where it is beyond Δ;
//! - else *inconclusive*.
//!
//! All bounds invert the sign-flip test of the single cell. They need no
//! adjustment: a pass asks *all* cells to be within their limits.

use std::collections::BTreeMap;

use crate::candidate::{Candidate, Differences, Evidence, subject_name};
use crate::comparison::{Cell, Change, Family, Metric, Outcome, Scale};
use crate::hodges_lehmann::{HodgesLehmann, hodges_lehmann, normal_quantile};
use crate::measure::Subject;
use crate::need::{PAIRS_ADVISED_MAX, POWER_Z};
use crate::policy::{Margin, Policy};
use crate::signflip::{SignFlips, TestCell};
use crate::wording;

/// Judges all candidates with the same flips.
pub(crate) fn judge(
    candidates: Vec<Candidate<'_>>,
    flips: &SignFlips,
    policy: &Policy,
) -> Vec<Cell> {
    let mut families: BTreeMap<(Family, Option<usize>), Vec<usize>> = BTreeMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        if matches!(candidate.evidence, Evidence::Pairs(_)) {
            // Cells that are only shown stand alone: they must not dilute a family.
            let alone = (!policy.judges(candidate.subject, candidate.metric)).then_some(index);
            let family = families.entry((candidate.metric.family(), alone));
            family.or_default().push(index);
        }
    }
    let mut tested: BTreeMap<usize, Tested> = BTreeMap::new();
    for members in families.values() {
        test_family(&candidates, members, flips, policy, &mut tested);
    }
    candidates
        .into_iter()
        .enumerate()
        .map(|(index, candidate)| finish(candidate, tested.remove(&index), flips, policy))
        .collect()
}

/// As the policy calls it.
fn name_of(subject: Subject<'_>) -> Option<&str> {
    subject.map(|endpoint| endpoint.name.as_str())
}

/// What the family's tests say of one cell.
struct Tested {
    p_regression: f64,
    p_improvement: f64,
    critical_t: f64,
}

fn test_family(
    candidates: &[Candidate<'_>],
    members: &[usize],
    flips: &SignFlips,
    policy: &Policy,
    tested: &mut BTreeMap<usize, Tested>,
) {
    let cells = |direction: f64| -> Vec<TestCell> {
        members
            .iter()
            .filter_map(|index| {
                let candidate = &candidates[*index];
                let Evidence::Pairs(differences) = &candidate.evidence else {
                    return None;
                };
                let margin = policy.margin(name_of(candidate.subject), candidate.metric);
                let margin = on_scale(candidate.metric, margin.regression);
                let beyond = differences
                    .worse
                    .iter()
                    .map(|worse| direction * worse - margin);
                Some(TestCell {
                    differences: beyond.collect(),
                    standard_error_min: differences.standard_error_min,
                })
            })
            .collect()
    };
    let worse = flips.test(&cells(1.0));
    let better = flips.test(&cells(-1.0));
    let critical_t = flips.critical_t(&cells(1.0), policy.alpha);
    for (position, index) in members.iter().enumerate() {
        tested.insert(
            *index,
            Tested {
                p_regression: worse[position],
                p_improvement: better[position],
                critical_t,
            },
        );
    }
}

/// A margin or limit on the scale of the differences.
fn on_scale(metric: Metric, margin: f64) -> f64 {
    match metric.scale() {
        Scale::Ratio => margin.ln_1p(),
        Scale::Difference => margin,
    }
}

fn finish(
    candidate: Candidate<'_>,
    tested: Option<Tested>,
    flips: &SignFlips,
    policy: &Policy,
) -> Cell {
    let metric = candidate.metric;
    let margin = policy.margin(name_of(candidate.subject), metric);
    let judged = candidate.is_settled || policy.judges(candidate.subject, metric);
    let (outcome, change) = match (&candidate.evidence, tested) {
        (Evidence::Pairs(differences), Some(tested)) => {
            conclude(metric, differences, &tested, flips, margin, policy.alpha)
        }
        (Evidence::None(outcome), _) => (*outcome, None),
        // Every candidate with pairs is a member of one family.
        (Evidence::Pairs(_), None) => (Outcome::Inconclusive { pairs_needed: None }, None),
    };
    let floor_note = change
        .as_ref()
        .filter(|change| outcome == Outcome::WithinLimit && is_beyond_limit(metric, change, margin))
        .map(|_| floor_note(metric, margin));
    let measured = !matches!(
        outcome,
        Outcome::NotMeasured | Outcome::Insufficient { .. } | Outcome::Pooled | Outcome::Saturated
    );
    Cell {
        endpoint: subject_name(candidate.subject),
        level: candidate.level,
        metric,
        family: metric.family(),
        judged: judged && measured,
        margin,
        before: candidate.before,
        after: candidate.after,
        change,
        outcome,
        note: match (candidate.note, floor_note) {
            (Some(note), Some(floor)) => Some(format!("{note} {floor}")),
            (note, floor) => note.or(floor),
        },
    }
}

/// True where only the floor keeps a change from counting as possible harm.
pub(crate) fn is_beyond_limit(metric: Metric, change: &Change, margin: Margin) -> bool {
    let limit = margin.harm;
    match metric.scale() {
        Scale::Ratio if metric.larger_is_better() => change.lower_bound <= 1.0 / (1.0 + limit),
        Scale::Ratio => change.upper_bound >= 1.0 + limit,
        Scale::Difference => change.upper_bound >= limit,
    }
}

fn floor_note(metric: Metric, margin: Margin) -> String {
    format!(
        "Beyond the limit as a share, but not above {}{}, up to which a change counts as no harm.",
        wording::number(margin.floor),
        wording::unit(metric)
    )
}

/// One cell's numbers, larger is worse.
struct Harm {
    centre: HodgesLehmann,
    upper: f64,
    lower: f64,
    absolute: f64,
    absolute_upper: f64,
    spread: f64,
}

impl Harm {
    /// `None` with too few pairs for a bound, which has no candidate.
    fn of(differences: &Differences, flips: &SignFlips, alpha: f64) -> Option<Self> {
        let count = differences.worse.len() as f64;
        let mean = differences.worse.iter().sum::<f64>() / count;
        let squares: f64 = differences
            .worse
            .iter()
            .map(|worse| (worse - mean).powi(2))
            .sum();
        Some(Self {
            centre: hodges_lehmann(&differences.worse, 1.0 - alpha)?,
            upper: flips.upper_bound(&differences.worse, alpha)?,
            lower: flips.lower_bound(&differences.worse, alpha)?,
            absolute: hodges_lehmann(&differences.worse_absolute, 1.0 - alpha)?.estimate,
            absolute_upper: flips.upper_bound(&differences.worse_absolute, alpha)?,
            spread: (squares / (count - 1.0).max(1.0)).sqrt(),
        })
    }
}

fn conclude(
    metric: Metric,
    differences: &Differences,
    tested: &Tested,
    flips: &SignFlips,
    margin: Margin,
    alpha: f64,
) -> (Outcome, Option<Change>) {
    let Some(harm) = Harm::of(differences, flips, alpha) else {
        return (Outcome::Inconclusive { pairs_needed: None }, None);
    };
    // A count moves in whole steps: what is exactly the floor must be settled too, and it
    // is no regression.
    let within = harm.upper < on_scale(metric, margin.harm) || harm.absolute_upper <= margin.floor;
    let outcome = if tested.p_regression <= alpha && harm.absolute > margin.floor {
        Outcome::Regression
    } else if tested.p_improvement <= alpha {
        Outcome::Improvement
    } else if within {
        Outcome::WithinLimit
    } else {
        Outcome::Inconclusive {
            pairs_needed: pairs_needed(metric, &harm, margin, alpha, tested.critical_t)
                .map(|pairs| pairs.max(differences.worse.len() as u32 + 1)),
        }
    };
    let detectable = minimum_detectable(metric, differences, &harm, margin, tested.critical_t);
    (
        outcome,
        Some(change(metric, &harm, tested, detectable, alpha)),
    )
}

/// Back from "larger is worse" on the test's scale to after ÷ before, or after − before.
fn change(metric: Metric, harm: &Harm, tested: &Tested, detectable: f64, alpha: f64) -> Change {
    let natural = |worse: f64| {
        let signed = if metric.larger_is_better() {
            -worse
        } else {
            worse
        };
        match metric.scale() {
            Scale::Ratio => signed.exp(),
            Scale::Difference => signed,
        }
    };
    let ends = |one: f64, other: f64| {
        let (one, other) = (natural(one), natural(other));
        (one.min(other), one.max(other))
    };
    let (low, high) = ends(harm.centre.low, harm.centre.high);
    let (lower_bound, upper_bound) = ends(harm.lower, harm.upper);
    Change {
        scale: metric.scale(),
        estimate: natural(harm.centre.estimate),
        low,
        high,
        confidence: harm.centre.confidence.min(1.0 - alpha),
        upper_bound,
        lower_bound,
        p_regression: tested.p_regression,
        p_improvement: tested.p_improvement,
        minimum_detectable: Some(natural(detectable)),
    }
}

/// The worsening that this family's test would have found 8 times in 10, given the
/// spread seen: the margin, plus the critical T and the normal quantile of 80 %
/// in standard errors (an approximation), and never less than the floor.
fn minimum_detectable(
    metric: Metric,
    differences: &Differences,
    harm: &Harm,
    margin: Margin,
    critical_t: f64,
) -> f64 {
    let count = differences.worse.len() as f64;
    let error = (harm.spread / count.sqrt()).max(differences.standard_error_min);
    let by_test = on_scale(metric, margin.regression) + (critical_t.max(0.0) + POWER_Z) * error;
    let by_floor = match metric.scale() {
        Scale::Ratio => {
            let before = differences.before_mean.max(metric.resolution());
            (margin.floor / before).ln_1p()
        }
        Scale::Difference => margin.floor,
    };
    by_test.max(by_floor)
}

/// Pairs with which this cell would probably be settled one way or the other, if the estimate and
/// spread are what they seem. A pass is shown by the cell's own bound; a regression by the family's
/// test, whose critical T is larger the more cells there are, and never by a change below the floor.
fn pairs_needed(
    metric: Metric,
    harm: &Harm,
    margin: Margin,
    alpha: f64,
    critical_t: f64,
) -> Option<u32> {
    let estimate = harm.centre.estimate;
    let to_pass = on_scale(metric, margin.harm) - estimate;
    let to_fail = estimate - on_scale(metric, margin.regression);
    let z = normal_quantile(1.0 - alpha);
    let pairs = |critical: f64, gap: f64| {
        let errors = critical + POWER_Z;
        (gap > 0.0).then(|| (errors * harm.spread / gap).powi(2).ceil() + 1.0)
    };
    let by_bound = pairs(z, to_pass);
    let by_test = pairs(z.max(critical_t), to_fail).filter(|_| harm.absolute > margin.floor);
    let needed = by_bound.into_iter().chain(by_test).reduce(f64::min)?;
    // A comparison with NaN is false: no advice then.
    (needed <= PAIRS_ADVISED_MAX).then_some(needed as u32)
}
