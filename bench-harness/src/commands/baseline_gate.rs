//! Records against the baselines of a branch: advice, with the baseline's age and machine, unless
//! the policy says to judge what was measured in different sessions.

use std::path::Path;

use anyhow::bail;
use unstall_results::baseline::{self, Baselines};
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;

use crate::judgement::{Judgement, against_each_other};

/// Compares each record with the baseline of its own scenario and machine class.
///
/// # Errors
/// A record of two versions, or one without a baseline.
pub(crate) fn judge(
    records: Vec<RunRecord>,
    folder: &Path,
    branch: &str,
    policy: Policy,
) -> anyhow::Result<Judgement> {
    let baselines = Baselines::in_folder(folder);
    let mut judgement = Judgement::by(policy);
    for record in records {
        if record.arms.len() > 1 {
            bail!(
                "the record `{}` holds both versions; judge it without --baseline",
                record.label
            );
        }
        let found = baselines.find(branch, &record)?;
        let provenance = baseline::provenance(&found, &record, branch);
        let mut judged = against_each_other(&[found, record], &judgement.policy)?;
        if let Some(comparison) = &mut judged.comparison {
            comparison.validity.warnings.insert(0, provenance);
        }
        judgement.entries.push(judged);
    }
    Ok(judgement)
}
