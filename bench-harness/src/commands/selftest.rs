//! `unstall selftest`: does the monitor see what blocks, and only that, on this machine?

use anyhow::Context;

use crate::arguments::{SelftestArguments, SelftestSubject};
use crate::console::{Console, Outcome};
use crate::document::Content;
use crate::document::selftest::SelftestDocument;
use crate::selftest::{self, Settings, canary, host, table};

pub(crate) fn execute(arguments: &SelftestArguments, console: &Console) -> anyhow::Result<Outcome> {
    match arguments.subject {
        SelftestSubject::Canaries => {
            host::serve(arguments.host).context("the canaries could not be served")?;
            Ok(Outcome::default())
        }
        SelftestSubject::Monitor => monitor(arguments, console),
    }
}

fn monitor(arguments: &SelftestArguments, console: &Console) -> anyhow::Result<Outcome> {
    let canaries = match arguments.only.as_slice() {
        [] => canary::ALL.to_vec(),
        some => some.to_vec(),
    };
    let settings = Settings {
        canaries,
        tiers: arguments.tiers.clone(),
        count: arguments.count,
        python: arguments.python.clone(),
    };
    let findings = selftest::run(&settings, &|line| console.note(line));
    anyhow::ensure!(
        !findings.is_empty() || !findings.complaints().is_empty(),
        "nothing could be tested here:\n{}",
        table::render(&findings)
    );
    let complaints = findings.complaints();
    let mut text = table::render(&findings);
    text.push_str(if complaints.is_empty() {
        "All bars are met.\n"
    } else {
        "Some bars are not met.\n"
    });
    let content = Content {
        selftest: Some(SelftestDocument::new(&findings)),
        ..Content::default()
    };
    Ok(Outcome {
        text,
        content,
        ..Outcome::default()
    })
}
