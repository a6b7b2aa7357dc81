//! The comparison of two versions: a value, which reports render and exit codes
//! follow.

use crate::bystander::doubt_of_blocks;
use crate::candidate::candidates;
use crate::comparison::{
    Cell, Comparison, Criterion, Decision, Family, Looks, Outcome, Validity, Verdict,
};
use crate::contrast::ContrastError;
use crate::criteria::{Seen, criteria};
use crate::design::{ArmName, blind_spots, pairs_min};
use crate::headline::Findings;
use crate::held;
use crate::judge::judge;
use crate::level;
use crate::looks::Standing;
use crate::merge;
use crate::need::Need;
pub use crate::order_effect::tells_order_effect;
use crate::order_effect::{OrderEffect, order_effect};
use crate::pairing::Pairing;
use crate::policy::{Policy, Unpaired};
use crate::pressure;
use crate::record::{Block, RunRecord};
use crate::saturation::{self, Saturation};
use crate::service_counters;
use crate::signflip::SignFlips;
use crate::slo::{self, SloFinding, SloOutcome};
use crate::summary::near_the_floor;
pub use crate::unpaired::compare_unpaired;
use crate::validate::{saturating_sum, total};

/// Why two versions can't be compared at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A record of one version was given where two are needed.
    #[error(
        "record {label:?} has one version only; compare it with a second record, or measure both \
         in one session with `unstall ab`"
    )]
    OneArm {
        /// The record's label.
        label: String,
    },
    /// A record that is a comparison already was given as one side of another.
    #[error(
        "record {label:?} holds two versions already; compare it alone: `unstall compare` with this one record"
    )]
    TwoArms {
        /// The record's label.
        label: String,
    },
    /// The two records measured different things.
    #[error("the records are not comparable: {}. Measure both with the same scenario and load, or in one session with `unstall ab`", differences.join("; "))]
    NotComparable {
        /// Each hard key that differs, with both values.
        differences: Vec<String>,
    },
    /// A record of three versions lacks one.
    #[error(transparent)]
    NoContrast(#[from] ContrastError),
}

/// Compares the two arms of one record, pair by pair. Of three, it is the two of the step, and
/// [`Comparison::from_start`] is the start against the version after it.
///
/// Overall, over the judged cells: invalid, else regression, else inconclusive,
/// else pass. A record without a complete pair is inconclusive, not an error.
///
/// # Errors
/// [`CompareError::OneArm`] for a record of one version.
pub fn compare(record: &RunRecord, policy: &Policy) -> Result<Comparison, CompareError> {
    if !["before", "after"]
        .iter()
        .all(|arm| record.arms.contains_key(*arm))
    {
        return Err(CompareError::OneArm {
            label: record.label.clone(),
        });
    }
    if record.has_start() {
        let contrast = |from| compare(&record.contrast(from, ArmName::After)?, policy);
        return Ok(Comparison {
            from_start: Some(Box::new(contrast(ArmName::Start)?)),
            ..contrast(ArmName::Before)?
        });
    }
    let step = record.step.as_ref();
    let policy = step.map_or_else(|| policy.clone(), |step| policy.for_step(step));
    let policy = &policy.for_scenario(&record.scenario);
    let mut pairing = Pairing::of(record, policy);
    // Every test and bound of a look is at the level of that look.
    let at_look = Policy {
        alpha: pairing.standing.alpha,
        ..policy.clone()
    };
    let policy = &at_look;
    match order_effect(record, &pairing, policy) {
        OrderEffect::None => {}
        OrderEffect::Warns(text) => pairing.warnings.push(text),
        OrderEffect::Spoils(text) => pairing.faults.push(text),
    }
    let flips = SignFlips::new(pairing.pairs, record.load.seed);
    let saturation = saturation::by_level(&record.load, &pairing);
    let candidates = candidates(record, &pairing, &saturation, policy);
    let mut cells = judge(candidates, &flips, policy);
    pairing.standing.hold_back(&mut cells);
    let pairs = pairing.levels.values().flatten();
    let (before, after) = pairs.map(|pair| (pair.before, pair.after)).unzip();
    let sides = Sides {
        before,
        after,
        broke_off: record.interrupted,
    };
    pairing.warnings.extend(sides.doubts());
    pairing.warnings.extend(near_the_floor(record));
    pairing
        .warnings
        .extend(pressure::doubt(record, &pairing, &flips));
    pairing.warnings.extend(merge::meaning(record));
    let validity = Validity {
        faults: pairing.faults,
        warnings: pairing.warnings,
    };
    let saturation = saturation.into_values().collect();
    let standing = Some(&pairing.standing);
    Ok(conclude(
        record, policy, cells, saturation, validity, standing, &sides,
    ))
}

/// The blocks of both versions that were used.
pub(crate) struct Sides<'a> {
    pub(crate) before: Vec<&'a Block>,
    pub(crate) after: Vec<&'a Block>,
    /// Either was stopped before its plan was done.
    pub(crate) broke_off: bool,
}

impl Sides<'_> {
    fn failures(&self) -> (u64, u64) {
        let of = |blocks: &[&Block]| saturating_sum(blocks.iter().map(|b| total(&b.errors)));
        (of(&self.before), of(&self.after))
    }

    /// What stood beside the load and was not as it should be: of the probe once for both versions,
    /// whichever it is.
    pub(crate) fn doubts(&self) -> impl Iterator<Item = String> {
        let of_probe = doubt_of_blocks(&self.before).or_else(|| doubt_of_blocks(&self.after));
        of_probe.into_iter().chain(self.beside_less())
    }

    fn beside_less(&self) -> Option<String> {
        held::fewer_after(&self.before, &self.after)
    }

    /// A part of a measurement, or one beside less, may show harm; that there is none only the whole
    /// can.
    fn may_pass(&self) -> bool {
        !self.broke_off && self.beside_less().is_none()
    }

    /// What criteria are judged by.
    fn seen<'c>(&self, cells: &'c [Cell], seed: u64, paired: bool) -> Seen<'c> {
        Seen {
            cells,
            counters: service_counters::compared(&self.before, &self.after, seed, paired),
        }
    }

    fn successes(&self) -> (u64, u64) {
        let of = |blocks: &[&Block]| saturating_sum(blocks.iter().map(|block| block.completed));
        (of(&self.before), of(&self.after))
    }
}

/// How much there is to conclude from.
struct Ground<'a> {
    /// Pairs that it takes to show anything.
    needed: u32,
    paired: bool,
    pairs: u32,
    looks: Option<&'a Looks>,
    before_first_look: bool,
    /// Whether a verdict may be given at all.
    enough: bool,
    /// Whether no request of either version succeeded.
    nothing: bool,
}

impl<'a> Ground<'a> {
    fn of(standing: Option<&'a Standing>, policy: &Policy, sides: &Sides<'_>) -> Self {
        let needed = pairs_min(policy.alpha);
        let pairs = standing.map_or(0, |standing| standing.pairs);
        let pairs = u32::try_from(pairs).unwrap_or(u32::MAX);
        let looks = standing.and_then(|standing| standing.looks.as_ref());
        let before_first_look = looks.is_some_and(|looks| looks.reached.is_none());
        let enough = match standing {
            Some(_) => pairs >= needed && !before_first_look,
            None => policy.unpaired == Unpaired::Judge,
        };
        Self {
            needed,
            paired: standing.is_some(),
            pairs,
            looks,
            before_first_look,
            enough,
            nothing: sides.successes() == (0, 0),
        }
    }

    /// What a measurement that settles it would take, where that can be told.
    fn need(
        &self,
        verdict: Verdict,
        cells: &[Cell],
        slos: &[SloFinding],
        record: &RunRecord,
    ) -> Option<Need> {
        let may_need = verdict == Verdict::Inconclusive
            && self.paired
            && !self.before_first_look
            && (!self.nothing || self.pairs == 0);
        may_need
            .then(|| Need::of(cells, slos, self.pairs, self.needed, record))
            .flatten()
    }
}

/// Verdict and sentences from judged cells; `standing` is `None` of different sessions.
pub(crate) fn conclude(
    record: &RunRecord,
    policy: &Policy,
    cells: Vec<Cell>,
    mut saturation: Vec<Saturation>,
    validity: Validity,
    standing: Option<&Standing>,
    sides: &Sides<'_>,
) -> Comparison {
    let ground = Ground::of(standing, policy, sides);
    let unseen = unseen(record, &cells, policy);
    let slos = objectives(record, policy, &saturation, &ground, sides);
    let may_pass = unseen.is_none() && sides.may_pass();
    let verdict = Evidence::new(&cells, &slos, &validity, &ground, may_pass).verdict();
    let worst_cell = worst_cell(&cells);
    let seen = sides.seen(&cells, record.load.seed, ground.paired);
    let (criteria, doubt) = criteria_of(record, &seen, policy, unusable(verdict, &ground));
    saturation.retain(Saturation::is_any);
    let need = ground.need(verdict, &cells, &slos, record);
    let findings = Findings {
        verdict,
        consequence: policy.consequence(verdict, sides.broke_off),
        saturation: &saturation,
        doubt: doubt.map(|index| &criteria[index]),
        cells: &cells,
        slos: &slos,
        worst: worst_cell.map(|index| &cells[index]),
        unseen,
        broke_off: sides.broke_off,
        beside_less: sides.beside_less(),
        step: record.step.as_ref(),
        faults: &validity.faults,
        failures: sides.failures(),
        successes: sides.successes(),
        pairs: ground.pairs,
        pairs_min: ground.needed,
        paired: ground.paired,
        policy,
        looks: ground.looks,
        need: need.as_ref(),
    };
    Comparison {
        label: record.label.clone(),
        scenario: record.scenario.name.clone(),
        step: record.step.clone(),
        verdict,
        consequence: findings.consequence,
        decision: decision(verdict, doubt.is_none(), &cells),
        headline: findings.headline(),
        next_action: findings.next_action(),
        reasons: findings.reasons(),
        blind_spots: blind_spots_of(record, ground.paired.then_some(ground.pairs), policy),
        pairs: ground.pairs,
        alpha: policy.alpha,
        looks: ground.looks.cloned(),
        pairs_needed: need.as_ref().map(|need| need.pairs),
        minutes_needed: need.as_ref().and_then(|need| need.minutes),
        neediest_cell: need.as_ref().and_then(|need| need.cell),
        paired: ground.paired,
        criteria,
        saturation,
        validity,
        worst_cell,
        counters: seen.counters.unwrap_or_default(),
        cells,
        slos,
        from_start: None,
    }
}

/// The policy's objectives; before the first look only what one request proves.
fn objectives(
    record: &RunRecord,
    policy: &Policy,
    saturation: &[Saturation],
    ground: &Ground<'_>,
    sides: &Sides<'_>,
) -> Vec<SloFinding> {
    let looks = ground.looks.filter(|_| ground.before_first_look);
    let first_look = looks.and_then(|looks| looks.planned.first().copied());
    slo::judge(
        policy,
        record,
        &sides.before,
        &sides.after,
        saturation,
        first_look,
    )
}

/// A step's criteria, and the index of the one that keeps it from being kept.
fn criteria_of(
    record: &RunRecord,
    seen: &Seen<'_>,
    policy: &Policy,
    unusable: Option<&str>,
) -> (Vec<Criterion>, Option<usize>) {
    let Some(step) = &record.step else {
        return (Vec::new(), None);
    };
    let judged = criteria(step, &record.scenario, seen, policy, unusable);
    (judged.criteria, judged.doubt)
}

/// What criteria say of an invalid measurement.
pub(crate) const INVALID: &str = "the measurement is invalid";

/// Why a step's criteria may not be judged at all.
fn unusable(verdict: Verdict, ground: &Ground<'_>) -> Option<&'static str> {
    match verdict {
        Verdict::Invalid => Some(INVALID),
        _ if ground.paired && !ground.enough => Some("too few pairs"),
        _ if !ground.enough => Some("different sessions"),
        _ if ground.nothing => Some("nothing succeeded"),
        _ => None,
    }
}

/// What neither the load model nor the design could have shown.
fn blind_spots_of(record: &RunRecord, pairs: Option<u32>, policy: &Policy) -> Vec<String> {
    let requests = record.load.requests_per_endpoint;
    let mut spots = blind_spots(requests, pairs, policy.alpha);
    spots.extend(level::blindness(&record.load).map(ToOwned::to_owned));
    spots
}

/// A step is kept only if its criteria hold, whatever the verdict's floors forgive. A step that
/// made nothing worse isn't reverted for an objective that is still missed.
fn decision(verdict: Verdict, criteria_hold: bool, cells: &[Cell]) -> Decision {
    match verdict {
        Verdict::Pass if criteria_hold => Decision::Keep,
        Verdict::Regression if has_regressed(cells) => Decision::Revert,
        Verdict::Pass | Verdict::Regression | Verdict::Inconclusive | Verdict::Invalid => {
            Decision::Undecided
        }
    }
}

fn has_regressed(cells: &[Cell]) -> bool {
    let mut judged = cells.iter().filter(|cell| cell.judged);
    judged.any(|cell| cell.outcome == Outcome::Regression)
}

/// All that a verdict follows from.
struct Evidence<'a> {
    cells: &'a [Cell],
    slos: &'a [SloFinding],
    validity: &'a Validity,
    /// Nothing succeeded, in neither version.
    is_empty: bool,
    /// The difference of the versions may be judged.
    may_judge: bool,
    may_pass: bool,
}

impl<'a> Evidence<'a> {
    fn new(
        cells: &'a [Cell],
        slos: &'a [SloFinding],
        validity: &'a Validity,
        ground: &Ground<'_>,
        may_pass: bool,
    ) -> Self {
        Self {
            cells,
            slos,
            validity,
            is_empty: ground.nothing,
            may_judge: ground.enough,
            may_pass,
        }
    }

    /// invalid > regression > inconclusive > pass.
    fn verdict(&self) -> Verdict {
        if !self.validity.faults.is_empty() {
            return Verdict::Invalid;
        }
        if self.is_empty {
            return Verdict::Inconclusive;
        }
        let slo = |is: fn(&SloOutcome) -> bool| self.slos.iter().any(|of| is(&of.outcome));
        // An objective is of one version, so it doesn't matter whether there are pairs.
        if slo(|of| *of == SloOutcome::Missed) {
            return Verdict::Regression;
        }
        if !self.may_judge {
            return Verdict::Inconclusive;
        }
        if has_regressed(self.cells) {
            return Verdict::Regression;
        }
        let judged = || self.cells.iter().filter(|cell| cell.judged);
        let settled = judged()
            .all(|cell| matches!(cell.outcome, Outcome::WithinLimit | Outcome::Improvement));
        let open = slo(|of| matches!(of, SloOutcome::CantTell { .. }));
        if self.may_pass && judged().next().is_some() && settled && !open {
            Verdict::Pass
        } else {
            Verdict::Inconclusive
        }
    }
}

/// The latency of an endpoint of which no percentile could be judged although the policy
/// and the scenario judge some: a service may be ten times slower there and nothing would have
/// told. The cell is the one that takes the fewest requests.
fn unseen<'c>(record: &RunRecord, cells: &'c [Cell], policy: &Policy) -> Option<&'c Cell> {
    let is_wanted = |cell: &Cell| {
        let mut endpoints = record.scenario.endpoints.iter();
        let endpoint = endpoints.find(|of| Some(&of.name) == cell.endpoint.as_ref());
        policy.judges(endpoint, cell.metric)
    };
    let needed = |cell: &Cell| match cell.outcome {
        Outcome::Insufficient { requests_needed } if cell.family == Family::Latency => {
            Some(requests_needed)
        }
        // Nobody ever asked for it. Only streams have a first item.
        Outcome::NotMeasured if cell.metric.is_response() && cell.endpoint.is_some() => {
            Some(u64::MAX)
        }
        _ => None,
    };
    let is_seen = |of: &Cell| {
        cells.iter().any(|cell| {
            cell.judged
                && cell.family == Family::Latency
                && (cell.level, &cell.endpoint) == (of.level, &of.endpoint)
        })
    };
    cells
        .iter()
        .filter(|cell| needed(cell).is_some() && is_wanted(cell))
        .filter(|cell| !is_seen(cell))
        .min_by_key(|cell| needed(cell))
}

/// The judged cell that is worst: by what follows from it, then by how close its
/// upper bound comes to the harm limit.
fn worst_cell(cells: &[Cell]) -> Option<usize> {
    let rank = |cell: &Cell| {
        let outcome = match cell.outcome {
            Outcome::Regression => 3,
            Outcome::Inconclusive { .. } => 2,
            Outcome::WithinLimit => 1,
            Outcome::Improvement
            | Outcome::Insufficient { .. }
            | Outcome::Pooled
            | Outcome::Saturated
            | Outcome::NotMeasured => 0,
        };
        (outcome, cell.limit_used())
    };
    let judged = cells.iter().enumerate().filter(|(_, cell)| cell.judged);
    judged
        .max_by(|(_, one), (_, other)| {
            let ((outcome, used), (other_outcome, other_used)) = (rank(one), rank(other));
            outcome
                .cmp(&other_outcome)
                .then(used.total_cmp(&other_used))
        })
        .map(|(index, _)| index)
}
