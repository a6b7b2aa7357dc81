//! What a certificate says of a comparison: whether it holds for it at all, which limits this
//! machine can't see with so many pairs, and whether its verdicts are worth anything.

use std::fmt;

use super::certify::listed;
use super::design::version_difference;
use super::reach::{detectable, floor};
use super::{CalibratedDesign, CalibratedMachine, CellNoise, Certificate, DesignDifference};
use crate::candidate::cell_name;
use crate::compare::INVALID;
use crate::comparison::{Comparison, Decision, Metric, Scale, Verdict};
use crate::criteria::withdraw;
use crate::headline::warned;
use crate::level::Level;
use crate::need::{PAIRS_ADVISED_MAX, POWER_Z};
use crate::policy::{Consequence, Margin, Policy};
use crate::record::RunRecord;
use crate::student::student_quantile;
use crate::wording;

/// At most this many blind spots are told one by one.
const SPOTS_TOLD_MAX: usize = 5;
/// From this part of the variance on, more requests per block help most.
const WITHIN_BLOCKS_MOST: f64 = 0.5;

/// A record that a certificate says nothing of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the certificate says nothing of the record {label:?}: {}. Calibrate with the record's machine, \
     scenario and design, or leave --certificate out",
    listed(differences)
)]
pub struct CertificateMisfit {
    /// The record's label.
    pub label: String,
    /// Each key that differs.
    pub differences: Vec<DesignDifference>,
}

/// A judged cell whose limit is below what can be found.
#[derive(Debug, Clone, PartialEq)]
pub struct BlindSpot {
    /// Endpoint, or `None` for the whole service.
    pub endpoint: Option<String>,
    /// Users or rate; `None` where there is one level only.
    pub level: Option<Level>,
    /// What is judged.
    pub metric: Metric,
    /// The policy's harm limit, or its floor where that is more: 0.2 for 20 %, or a difference in the
    /// metric's unit.
    pub limit: f64,
    /// The smallest change found 8 times in 10, in the same terms.
    pub detectable: f64,
    /// With so many pairs.
    pub pairs: u32,
    /// So many would find the limit itself, where that is not beyond reason.
    pub pairs_needed: Option<u32>,
    /// How long they take.
    pub minutes_needed: Option<f64>,
    /// Whether more requests per block would help most.
    pub is_of_sample_size: bool,
}

impl fmt::Display for BlindSpot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |change: f64| match self.metric.scale() {
            Scale::Ratio => format!("{} %", wording::number(change * 100.0)),
            Scale::Difference => {
                format!("{}{}", wording::number(change), wording::unit(self.metric))
            }
        };
        write!(f, "{}", cell_name(self.endpoint.as_deref(), self.metric))?;
        if let Some(level) = self.level {
            write!(f, " at {level}")?;
        }
        write!(
            f,
            ": {} find a worsening from {} on here (8 times in 10), and the limit is {}; ",
            wording::plural(u64::from(self.pairs), "pair"),
            size(self.detectable),
            size(self.limit),
        )?;
        match (self.pairs_needed, self.minutes_needed) {
            (Some(pairs), Some(minutes)) => write!(
                f,
                "it takes {pairs} pairs, about {} minutes",
                wording::number(minutes)
            )?,
            (Some(pairs), None) => write!(f, "it takes {pairs} pairs")?,
            (None, _) => write!(
                f,
                "no reasonable number of pairs would do: quieten the machine or raise the limit"
            )?,
        }
        if self.is_of_sample_size {
            write!(f, ", or more requests per block")?;
        }
        write!(f, ".")
    }
}

impl Certificate {
    /// Whether it says anything of a record: the same machine class, scenario and design, the
    /// number of pairs apart. `begun` is false for a record of which nothing is measured yet, where
    /// the bystander probe may still turn out not to answer.
    ///
    /// # Errors
    /// [`CertificateMisfit`] names every key that differs.
    pub fn fits(&self, record: &RunRecord, begun: bool) -> Result<(), CertificateMisfit> {
        let machine = CalibratedMachine::of(record);
        let mut differences = self.machine.hard_differences(&machine);
        let design = CalibratedDesign::of(record);
        differences.extend(self.design.hard_differences(&design, begun));
        let version = &record.harness.version;
        differences.extend(version_difference(&self.harness_version, version));
        if differences.is_empty() {
            return Ok(());
        }
        Err(CertificateMisfit {
            label: record.label.clone(),
            differences,
        })
    }

    /// Judged cells whose limit this machine can't see with as many pairs as were compared, the
    /// blindest first.
    pub fn blind_spots(&self, comparison: &Comparison) -> Vec<BlindSpot> {
        let one_level = self.design.levels.len() < 2;
        let mut spots = Vec::new();
        for cell in comparison.cells.iter().filter(|cell| cell.judged) {
            if cell.change.is_none() {
                continue;
            }
            let noise = self.cell(cell.endpoint.as_deref(), cell.level.key(), cell.metric);
            let Some(found) = noise.and_then(|noise| self.sight(noise, comparison, cell.margin))
            else {
                continue;
            };
            spots.extend(found.map(|spot| BlindSpot {
                level: (!one_level).then_some(cell.level),
                ..spot
            }));
        }
        spots.sort_by(|one, other| {
            let blindness = |spot: &BlindSpot| spot.detectable / spot.limit;
            blindness(other).total_cmp(&blindness(one))
        });
        spots
    }

    /// Judged cells of a comparison that the certificate doesn't know.
    fn unknown(&self, comparison: &Comparison) -> usize {
        let cells = comparison.cells.iter();
        cells
            .filter(|cell| cell.judged && cell.change.is_some())
            .filter(|cell| {
                let noise = self.cell(cell.endpoint.as_deref(), cell.level.key(), cell.metric);
                noise.is_none_or(|noise| noise.detectable.is_empty())
            })
            .count()
    }

    /// `None` where nothing is known of the cell, `Some(None)` where its limit can be seen.
    fn sight(
        &self,
        noise: &CellNoise,
        comparison: &Comparison,
        margin: Margin,
    ) -> Option<Option<BlindSpot>> {
        let pairs = comparison.pairs;
        // The table is of the sessions' own level; a look, or another policy, may have less.
        let strictness = strictness(pairs, self.alpha, comparison.alpha);
        let beyond = noise.beyond_margin(pairs)? * strictness;
        let found = detectable(noise.metric, margin, noise.value, pairs, beyond);
        let limit = margin.harm.max(floor(noise.metric, margin, noise.value));
        if found.change <= limit {
            return Some(None);
        }
        let room = match noise.metric.scale() {
            Scale::Ratio => limit.ln_1p() - margin.regression.ln_1p(),
            Scale::Difference => limit - margin.regression,
        };
        let pairs_needed = noise.pairs_for(room / strictness, pairs);
        let by_requests = noise.sd_within_blocks.is_some_and(|within| {
            within.powi(2) > WITHIN_BLOCKS_MOST * noise.sd_between_pairs.powi(2)
        });
        Some(Some(BlindSpot {
            endpoint: noise.endpoint.clone(),
            level: None,
            metric: noise.metric,
            limit,
            detectable: found.change,
            pairs,
            minutes_needed: pairs_needed.map(|pairs| f64::from(pairs) * self.minutes_per_pair),
            pairs_needed,
            is_of_sample_size: by_requests,
        }))
    }

    /// Why verdicts with it are worth nothing: none of its sessions could be judged, or identical
    /// code alarms more often than α allows, beyond chance.
    pub fn distrust(&self) -> Option<String> {
        let alarms = self.false_alarms;
        if alarms.of == 0 {
            return Some(format!(
                "Of {} of a version against itself none could be judged, so nothing is known of \
                 false alarms here; mend what made them invalid, and calibrate again",
                wording::plural(self.sessions.len() as u64, "session"),
            ));
        }
        (alarms.low > self.alpha).then(|| {
            format!(
                "A version against itself alarmed here in {} of {}, and the rule allows {} % of \
                 them; find out what changes between blocks (state, caches, other programs, clock \
                 speed), and calibrate again",
                alarms.count,
                wording::plural(u64::from(alarms.of), "session"),
                wording::number(self.alpha * 100.0),
            )
        })
    }

    /// That fewer than half of its sessions say anything.
    pub fn doubt(&self) -> Option<String> {
        let (judged, all) = (u64::from(self.false_alarms.of), self.sessions.len() as u64);
        (judged > 0 && judged * 2 < all).then(|| {
            format!(
                "Only {judged} of {} of the certificate could be judged, the others were invalid: it \
                 is of the machine's better hours.",
                wording::plural(all, "session")
            )
        })
    }

    /// Adds to a comparison of `record` what the certificate knows; the verdict is invalid where
    /// verdicts are worth nothing.
    ///
    /// # Errors
    /// [`CertificateMisfit`] where it says nothing of the record.
    pub fn apply(
        &self,
        record: &RunRecord,
        comparison: &mut Comparison,
        policy: &Policy,
    ) -> Result<(), CertificateMisfit> {
        self.fits(record, true)?;
        let spots = self.blind_spots(comparison);
        let told = spots.iter().take(SPOTS_TOLD_MAX).map(ToString::to_string);
        comparison.blind_spots.extend(told);
        let more = spots.len().saturating_sub(SPOTS_TOLD_MAX);
        if more > 0 {
            let cells = wording::plural(more as u64, "more cell");
            let text = format!("The limits of {cells} can't be seen here either.");
            comparison.blind_spots.push(text);
        }
        let unknown = self.unknown(comparison);
        if unknown > 0 {
            comparison.blind_spots.push(format!(
                "The certificate says nothing of {}, so what can be seen there is not known.",
                wording::plural(unknown as u64, "judged cell")
            ));
        }
        if record.load.pairs != self.design.pairs || record.load.looks != self.design.looks {
            comparison.blind_spots.push(format!(
                "The false alarms of the certificate are those of sessions with {}.",
                wording::plural(u64::from(self.design.pairs), "pair")
            ));
        }
        let other = self.other_rule(comparison, policy);
        if !other.is_empty() {
            comparison.blind_spots.push(format!(
                "The certificate is of another policy ({}): how often this one calls identical \
                 versions worse is not known; calibrate with it.",
                other.join("; ")
            ));
        }
        comparison.validity.warnings.extend(self.doubt());
        let here = CalibratedMachine::of(record);
        let soft = self.machine.soft_differences(&here);
        comparison
            .validity
            .warnings
            .extend(soft.iter().map(|difference| format!("{difference}.")));
        if let Some(fault) = self.distrust() {
            let consequence = policy.consequence(Verdict::Invalid, record.interrupted);
            spoil(comparison, fault, consequence);
        }
        Ok(())
    }
}

/// The verdict is worth nothing, and says why.
fn spoil(comparison: &mut Comparison, fault: String, consequence: Option<Consequence>) {
    if comparison.verdict != Verdict::Invalid {
        let what = fault.split(';').next().unwrap_or(&fault);
        comparison.headline = format!("Not usable: {what}");
        "Mend the fault named here, calibrate, and measure again."
            .clone_into(&mut comparison.next_action);
    }
    comparison.verdict = Verdict::Invalid;
    comparison.consequence = consequence;
    comparison.decision = Decision::Undecided;
    withdraw(&mut comparison.criteria, INVALID);
    comparison.validity.faults.push(fault);
    let warned = warned(Verdict::Invalid, consequence).into_iter();
    let faults = comparison.validity.faults.iter().cloned();
    comparison.reasons = warned.chain(faults).collect();
}

impl CellNoise {
    /// What so many pairs need beyond the margin: as measured, or from the nearest smaller number
    /// by the square root of the pairs. `None` where nothing is known.
    fn beyond_margin(&self, pairs: u32) -> Option<f64> {
        let smaller = self.detectable.iter().rev().find(|of| of.pairs <= pairs);
        let known = smaller.or_else(|| self.detectable.first())?;
        let part = (f64::from(known.pairs) / f64::from(pairs.max(1))).sqrt();
        Some(known.beyond_margin * part)
    }

    /// The fewest pairs, more than there are, that need no more than this beyond the margin, if that
    /// is a sensible number.
    fn pairs_for(&self, room: f64, have: u32) -> Option<u32> {
        let mut more = self.detectable.iter().filter(|of| of.pairs > have);
        if let Some(told) = more.find(|of| of.beyond_margin <= room) {
            return Some(told.pairs);
        }
        let last = self.detectable.last()?;
        let pairs = f64::from(last.pairs) * (last.beyond_margin / room).powi(2);
        // Fewer can't do, whatever the table's own noise says of them.
        let pairs = pairs.max(f64::from(have) + 1.0);
        // Not where there is no room at all: a comparison with NaN is false.
        (room > 0.0 && pairs <= PAIRS_ADVISED_MAX).then_some(pairs.ceil() as u32)
    }
}

/// How many times as far beyond the margin a change must be to be found at the level `own`, if so
/// many pairs find it at the level `certified`. At a larger level it is told as at the certified one,
/// which is no less.
fn strictness(pairs: u32, certified: f64, own: f64) -> f64 {
    if own >= certified || pairs < 2 {
        return 1.0;
    }
    let beyond = |alpha: f64| student_quantile(1.0 - alpha, pairs - 1) + POWER_Z;
    beyond(own) / beyond(certified)
}
