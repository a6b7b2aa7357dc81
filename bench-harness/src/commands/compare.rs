//! `unstall compare`: judge records, for people.

use crate::arguments::CompareArguments;
use crate::console::{Console, Outcome};
use crate::judgement;

pub(crate) fn execute(arguments: &CompareArguments, console: &Console) -> anyhow::Result<Outcome> {
    let records = judgement::read(&arguments.records)?;
    let policy = arguments.policy.read_for(&records)?;
    let judgement = judgement::judge(records, policy)?;
    Ok(judgement.outcome(console))
}
