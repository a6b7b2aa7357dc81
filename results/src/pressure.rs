//! Whether one version's blocks met a busier machine than the other's.
//!
//! That something waited for a core is no fault by itself: where service, generator and stores
//! share few cores, a load that keeps them busy makes something wait most of the time, in both
//! arms alike, and it is part of what is measured. Stolen time is another matter, it is nobody's
//! of ours. But pressure that differs between the arms though they use as much CPU has come from
//! outside, and beside one of them only. So this warns, and spoils nothing.

use crate::pairing::{Pair, Pairing};
use crate::record::{Block, RunRecord};
use crate::signflip::{SignFlips, TestCell};
use crate::student::mean;
use crate::wording;

/// A smaller difference of shares is not worth a word.
const DIFFERENCE_MIN: f64 = 0.1;
/// Two-sided level of the test: 8 pairs can reach it.
const ALPHA: f64 = 0.01;
/// A version that uses so much more of the machine explains its pressure by itself.
const EXPLAINED_BY: f64 = 0.05;
/// The kernel's shares are not better than this.
const RESOLUTION: f64 = 0.001;

/// A warning where pressure goes with the arm and the arm's own use of CPU does not explain it.
pub(crate) fn doubt(
    record: &RunRecord,
    pairing: &Pairing<'_>,
    flips: &SignFlips,
) -> Option<String> {
    let (before, after) = means(pairing, |block| block.cpu_pressure_share)?;
    let differences: Vec<f64> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| after - before)
        .collect();
    let difference = mean(&differences);
    if difference.abs() < DIFFERENCE_MIN || p(&differences, flips) > ALPHA {
        return None;
    }
    let own = means(pairing, |block| own_use(record, block))
        .map(|(before, after)| mean(&after) - mean(&before));
    if own.is_some_and(|own| own * difference.signum() >= EXPLAINED_BY) {
        return None;
    }
    let percent = |shares: &[f64]| wording::number((mean(shares) * 100.0).round());
    let cause = match own {
        Some(_) => {
            "though both versions use about as much CPU: something else ran beside one of \
                    them; end it, and measure again if the result matters"
        }
        None => {
            "which the versions' own use of CPU may explain, or something else that ran \
                 beside one of them"
        }
    };
    Some(format!(
        "Something waited for a core for {} % of the time before and {} % after, {cause}.",
        percent(&before),
        percent(&after)
    ))
}

/// Two-sided p of "no difference".
fn p(differences: &[f64], flips: &SignFlips) -> f64 {
    let one_sided = |sign: f64| {
        let cell = TestCell {
            differences: differences.iter().map(|value| sign * value).collect(),
            standard_error_min: RESOLUTION,
        };
        flips.test(&[cell])[0]
    };
    (2.0 * one_sided(1.0).min(one_sided(-1.0))).min(1.0)
}

/// Per pair the mean over its levels, of both arms; `None` unless every block tells.
fn means(
    pairing: &Pairing<'_>,
    of: impl Fn(&Block) -> Option<f64>,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let levels: Vec<&Vec<Pair<'_>>> = pairing.levels.values().collect();
    let arm = |block: for<'a> fn(&Pair<'a>) -> &'a Block| -> Option<Vec<f64>> {
        (0..pairing.pairs)
            .map(|pair| {
                let values: Option<Vec<f64>> =
                    levels.iter().map(|pairs| of(block(&pairs[pair]))).collect();
                values.map(|values| mean(&values))
            })
            .collect()
    };
    let both = (arm(|pair| pair.before)?, arm(|pair| pair.after)?);
    (!both.0.is_empty()).then_some(both)
}

/// The share of the machine that service and generator used themselves.
fn own_use(record: &RunRecord, block: &Block) -> Option<f64> {
    let service_us = block.process.as_ref()?.cpu_us;
    let used_us = service_us.saturating_add(block.generator_cpu_us) as f64;
    let had_us = block.wall_ns as f64 / 1_000.0 * f64::from(record.machine.cores.max(1));
    (had_us > 0.0).then(|| used_us / had_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::synthetic::{EndpointSpec, record};

    /// The warning about a session whose arms saw these pressures and used these shares of the
    /// machine.
    fn warned(pressure: [f64; 2], own: [f64; 2]) -> Option<String> {
        let mut session = record(1, 10, 50, &[EndpointSpec::new("GET a", 10.0)]);
        for (index, block) in (0u32..).zip(&mut session.blocks) {
            let arm = usize::from(block.arm == "after");
            block.cpu_pressure_share = Some(pressure[arm] + 0.01 * f64::from(index / 2 % 3));
            block.generator_cpu_us = 0;
            if let Some(process) = &mut block.process {
                process.cpu_us = (own[arm] * 2.0 * block.wall_ns as f64 / 1_000.0) as u64;
            }
        }
        let pairing = Pairing::of(&session, &Policy::default());
        doubt(&session, &pairing, &SignFlips::new(pairing.pairs, 1))
    }

    #[test]
    fn pressure_alone_is_no_reason_for_doubt() {
        assert_eq!(warned([0.9, 0.9], [0.8, 0.8]), None);
        assert_eq!(warned([0.50, 0.55], [0.8, 0.8]), None, "a small difference");
    }

    #[test]
    fn pressure_of_one_arm_is_told_unless_it_is_its_own() {
        let found = warned([0.2, 0.6], [0.4, 0.4]).expect("a warning");
        assert_eq!(
            found,
            "Something waited for a core for 21 % of the time before and 61 % after, though both \
             versions use about as much CPU: something else ran beside one of them; end it, and \
             measure again if the result matters."
        );
        assert!(warned([0.6, 0.2], [0.4, 0.5]).is_some(), "it uses more");
        assert_eq!(warned([0.2, 0.6], [0.3, 0.7]), None, "its own");
    }

    #[test]
    fn blocks_that_do_not_tell_are_not_compared() {
        let session = record(1, 10, 50, &[EndpointSpec::new("GET a", 10.0)]);
        let pairing = Pairing::of(&session, &Policy::default());
        assert_eq!(doubt(&session, &pairing, &SignFlips::new(10, 1)), None);
    }
}
