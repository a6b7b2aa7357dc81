//! `unstall selftest`: does the monitor see what blocks, and only that, on this machine? Does the
//! load engine count rightly whatever a service does? Does the gate say what it has to?

use anyhow::Context;

use crate::arguments::{GateTestArguments, HttpArguments, MonitorArguments, SelftestCommand};
use crate::console::{Console, Outcome};
use crate::document::Content;
use crate::document::known_change::KnownChangeDocument;
use crate::document::selftest::SelftestDocument;
use crate::document::torture::TortureDocument;
use crate::selftest::{self, Settings, canary, host, table};
use crate::{identity, interrupt, known_change, torture};

pub(crate) fn execute(command: &SelftestCommand, console: &Console) -> anyhow::Result<Outcome> {
    match command {
        SelftestCommand::Canaries { host } => {
            host::serve(*host).context("the canaries could not be served")?;
            Ok(Outcome::default())
        }
        SelftestCommand::HttpAlone { name } => {
            torture::execute_alone(name).context("the case could not tell what came of it")?;
            Ok(Outcome::default())
        }
        SelftestCommand::KnownChange(arguments) => {
            known_change::service::serve(arguments).context("the service could not be served")?;
            Ok(Outcome::default())
        }
        SelftestCommand::Gate(arguments) => gate(arguments, console),
        SelftestCommand::Monitor(arguments) => monitor(arguments, console),
        SelftestCommand::Http(arguments) => http(arguments, console),
    }
}

fn gate(arguments: &GateTestArguments, console: &Console) -> anyhow::Result<Outcome> {
    let settings = known_change::Settings {
        only: arguments.only.clone(),
        pairs: arguments.pairs,
        seed: identity::seed(arguments.seed),
    };
    let stop = interrupt::listen()?;
    let findings = known_change::run(&settings, console, &stop)?;
    let text = known_change::table::render(&findings);
    anyhow::ensure!(
        !findings.is_empty(),
        "nothing could be tested here:\n{text}"
    );
    let content = Content {
        known_changes: Some(KnownChangeDocument::new(&findings)),
        ..Content::default()
    };
    Ok(Outcome {
        text,
        content,
        ..Outcome::default()
    })
}

fn http(arguments: &HttpArguments, console: &Console) -> anyhow::Result<Outcome> {
    let findings = torture::run(&arguments.only, &|line| console.note(line));
    let text = torture::table::render(&findings);
    anyhow::ensure!(
        !findings.is_empty(),
        "nothing could be tested here:\n{text}"
    );
    let content = Content {
        torture: Some(TortureDocument::new(&findings)),
        ..Content::default()
    };
    Ok(Outcome {
        text,
        content,
        ..Outcome::default()
    })
}

fn monitor(arguments: &MonitorArguments, console: &Console) -> anyhow::Result<Outcome> {
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
