//! From sessions of a version against itself to a certificate.

use std::collections::{BTreeMap, BTreeSet};

use super::binomial::share;
use super::design::{different, version_difference};
use super::noise::{Scatter, Session, scatters};
use super::reach::{FamilyScatter, detectable};
use super::resampled::resample;
use super::{
    CalibratedDesign, CalibratedMachine, CalibrationSession, CellNoise, Certificate,
    CertificateSchema, DesignDifference, SCHEMA_MAJOR, SCHEMA_MINOR, SCHEMA_NAME, VerdictCounts,
};
use crate::compare::{CompareError, compare};
use crate::comparison::{Family, Verdict};
use crate::design::pairs_min;
use crate::policy::Policy;
use crate::record::RunRecord;

/// Numbers of pairs of which the certificate tells what they would find, beside the design's own.
const PAIRS_TOLD: [u32; 7] = [5, 7, 10, 14, 20, 30, 50];

/// Why sessions make no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertifyError {
    /// There is none, or all are unfinished.
    #[error("no session is complete, so there is nothing to certify; let one come to its end")]
    NoSession,
    /// A session of something else.
    #[error(
        "the session {label:?} is of another kind than the first: {}; keep the sessions of each \
         calibration in a folder of their own",
        listed(differences)
    )]
    Foreign {
        /// The record's label.
        label: String,
        /// Each key that differs.
        differences: Vec<DesignDifference>,
    },
    /// The two arms are not the same.
    #[error(
        "the session {label:?} compares two versions: a certificate is made of one version against \
         itself"
    )]
    TwoVersions {
        /// The record's label.
        label: String,
    },
    /// A session that the rule can't judge.
    #[error(transparent)]
    Compare(#[from] CompareError),
}

pub(super) fn listed(differences: &[DesignDifference]) -> String {
    let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
    differences.join("; ")
}

/// Judges each session by the rule and says what all of them show. `resampled` more sessions are
/// put together from their pairs; 0 for none.
///
/// Sessions that were interrupted are left out, and so are the policy's objectives: those are of one
/// version, so that one that is missed is no false alarm about a difference.
///
/// # Errors
/// [`CertifyError`].
pub fn certify(
    records: &[RunRecord],
    policy: &Policy,
    resampled: u32,
) -> Result<Certificate, CertifyError> {
    let policy = &Policy {
        slos: Vec::new(),
        ..policy.clone()
    };
    let whole: Vec<&RunRecord> = records.iter().filter(|of| !of.interrupted).collect();
    let first = *whole.first().ok_or(CertifyError::NoSession)?;
    let (machine, design) = (CalibratedMachine::of(first), CalibratedDesign::of(first));
    let mut told = Vec::new();
    let mut judged = Vec::new();
    let mut counts = VerdictCounts::default();
    for record in whole {
        is_of_a_kind(first, record, true)?;
        let comparison = compare(record, policy)?;
        count(&mut counts, comparison.verdict);
        told.push(CalibrationSession {
            id: record.id.clone(),
            started_utc: record.created_utc.clone(),
            verdict: comparison.verdict,
            headline: comparison.headline.clone(),
            pairs: comparison.pairs,
            minutes: minutes(record),
        });
        if comparison.verdict != Verdict::Invalid {
            judged.push(Session { record, comparison });
        }
    }
    let newest = told.iter().map(|session| session.started_utc.clone()).max();
    let pairs: u32 = told.iter().map(|session| session.pairs).sum();
    let total_minutes: f64 = told.iter().map(|session| session.minutes).sum();
    let judged_count = u32::try_from(judged.len()).unwrap_or(u32::MAX);
    Ok(Certificate {
        schema: CertificateSchema {
            name: SCHEMA_NAME.to_owned(),
            major: SCHEMA_MAJOR,
            minor: SCHEMA_MINOR,
        },
        created_utc: newest.unwrap_or_default(), // there is a first one
        harness_version: first.harness.version.clone(),
        machine,
        target: target(first),
        alpha: policy.alpha,
        counts,
        false_alarms: share(counts.regression, judged_count),
        resampled: resample(&judged, policy, resampled)?,
        minutes_per_pair: total_minutes / f64::from(pairs.max(1)),
        cells: cells(&judged, policy, design.pairs),
        sessions: told,
        design,
    })
}

/// One more of a verdict.
pub(super) fn count(counts: &mut VerdictCounts, verdict: Verdict) {
    let counted = match verdict {
        Verdict::Pass => &mut counts.pass,
        Verdict::Inconclusive => &mut counts.inconclusive,
        Verdict::Regression => &mut counts.regression,
        Verdict::Invalid => &mut counts.invalid,
    };
    *counted += 1;
}

/// Whether two records are sessions of the same calibration: one version against itself, on the same
/// machine, by the same design. `begun` is false for a record of which nothing is measured yet, where
/// the bystander probe may still turn out not to answer.
///
/// # Errors
/// [`CertifyError::TwoVersions`] or [`CertifyError::Foreign`].
pub fn is_of_a_kind(
    first: &RunRecord,
    record: &RunRecord,
    begun: bool,
) -> Result<(), CertifyError> {
    let mut runs = record.arms.values();
    let label = || record.label.clone();
    if let (Some(one), Some(other)) = (runs.next(), runs.next())
        && (&one.command, &one.url) != (&other.command, &other.url)
    {
        return Err(CertifyError::TwoVersions { label: label() });
    }
    let machine = CalibratedMachine::of(first);
    let mut differences = machine.hard_differences(&CalibratedMachine::of(record));
    let design = CalibratedDesign::of(first);
    let own = CalibratedDesign::of(record);
    differences.extend(design.hard_differences(&own, begun));
    let (version, own_version) = (&first.harness.version, &record.harness.version);
    differences.extend(version_difference(version, own_version));
    differences.extend(different("target", target(first), target(record)));
    let (pairs, own_pairs) = (design.pairs.to_string(), own.pairs.to_string());
    differences.extend(different("pairs", pairs, own_pairs));
    let looks = |of: &CalibratedDesign| format!("{:?}", of.looks);
    differences.extend(different("looks", looks(&design), looks(&own)));
    if differences.is_empty() {
        return Ok(());
    }
    Err(CertifyError::Foreign {
        label: label(),
        differences,
    })
}

fn target(record: &RunRecord) -> String {
    let arm = record.arms.values().next();
    let named = arm.and_then(|arm| arm.command.clone().or_else(|| arm.url.clone()));
    named.unwrap_or_else(|| "unknown".to_owned())
}

/// How long a session lasted: from its first block's beginning to the last one's end.
pub fn minutes(record: &RunRecord) -> f64 {
    let blocks = record.blocks.iter();
    let begin = blocks.clone().map(|block| block.started_mono_ns).min();
    let end = blocks
        .map(|block| block.started_mono_ns.saturating_add(block.wall_ns))
        .max();
    match (begin, end) {
        (Some(begin), Some(end)) => end.saturating_sub(begin) as f64 / 60e9,
        _ => 0.0,
    }
}

/// The noise of every cell, and of the judged ones what could be found in it.
fn cells(sessions: &[Session<'_>], policy: &Policy, planned: u32) -> Vec<CellNoise> {
    let scatters = scatters(sessions);
    let mut noises: Vec<CellNoise> = scatters.iter().map(Scatter::noise).collect();
    let mut numbers: BTreeSet<u32> = PAIRS_TOLD.into_iter().chain([planned]).collect();
    numbers.retain(|pairs| *pairs >= pairs_min(policy.alpha));
    let mut families: BTreeMap<Family, Vec<&Scatter>> = BTreeMap::new();
    for scatter in scatters.iter().filter(|scatter| scatter.judged) {
        families.entry(scatter.family).or_default().push(scatter);
    }
    for members in families.into_values() {
        let family = FamilyScatter::of(members);
        for pairs in &numbers {
            let beyond = family.beyond_margins(*pairs, policy.alpha);
            for (scatter, beyond) in family.cells().iter().zip(beyond) {
                let noise = noises.iter_mut().find(|noise| {
                    (&noise.endpoint, noise.level, noise.metric)
                        == (&scatter.endpoint, scatter.level, scatter.metric)
                });
                if let Some(noise) = noise {
                    let margin = scatter.margin;
                    let found = detectable(noise.metric, margin, noise.value, *pairs, beyond);
                    noise.detectable.push(found);
                }
            }
        }
    }
    noises
}
