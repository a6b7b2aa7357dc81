//! `unstall compare`: judge records, for people.

use unstall_results::policy::Policy;

use crate::arguments::CompareArguments;
use crate::console::{Console, Outcome};
use crate::judgement;

pub(crate) fn execute(arguments: &CompareArguments, console: &Console) -> anyhow::Result<Outcome> {
    let records = judgement::read(&arguments.records)?;
    let judgement = judgement::judge(records, &Policy::default())?;
    Ok(judgement.outcome(console))
}
