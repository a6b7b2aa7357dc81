//! `unstall prove`: send a few requests, and say which routes made no call that can block.

use std::path::Path;

use anyhow::Context;
use unstall_loop_monitor::certificate::Certificate;

use crate::arguments::ProveArguments;
use crate::console::{Console, Outcome};
use crate::document::proof::ProofDocument;
use crate::document::{Content, FileDocument, FileKind};
use crate::proof_text::{self, Style};
use crate::prover::Caught;
use crate::prover::served::Served;
use crate::version::Version;
use crate::{inputs, interrupt, opening, prover};

pub(crate) fn execute(arguments: &ProveArguments, console: &Console) -> anyhow::Result<Outcome> {
    if let Some(pid) = arguments.pid {
        return super::prove_process::execute(pid, arguments, console);
    }
    let target = arguments.target.as_deref();
    let target = target.context("nothing to prove: name it by --target or --pid")?;
    let access = arguments.access.resolve(console)?;
    let version = Version::parse(target, "--target takes", &access)?;
    arguments.access.refuse_unused(&[&version])?;
    let inputs = inputs::gather(arguments.variables.clone());
    let plans = opening::plans(&arguments.scenarios, &inputs)?;
    let stop = interrupt::listen()?;
    let served = Served::open(&version, &plans, &arguments.ready, &stop)?;
    let caught = prover::catch(served, &plans, arguments.requests, console, &stop)?;
    let mut outcome = outcome(arguments, console, &caught);
    if let Some(path) = &arguments.out {
        write(path, &caught.after)?;
        let file = FileDocument::new(FileKind::Certificate, path);
        outcome
            .text
            .push_str(&format!("Certificate: {}\n", file.path));
        outcome.content.files.push(file);
    }
    Ok(outcome)
}

fn outcome(arguments: &ProveArguments, console: &Console, caught: &Caught) -> Outcome {
    let routes = caught.judge(&arguments.routes);
    let interrupted = caught.drives.interrupted;
    let style = Style {
        colour: console.colour,
        // Without it paths are shown as they are.
        folder: std::env::current_dir().ok(),
    };
    Outcome {
        verdict: None,
        status: None,
        text: proof_text::render(&caught.after, &routes, interrupted, style),
        content: Content {
            proof: Some(ProofDocument::new(&caught.after, &routes, interrupted)),
            ..Content::default()
        },
    }
}

pub(super) fn write(path: &Path, certificate: &Certificate) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(certificate)
        .context("the certificate could not be written as JSON; this is a fault of unstall")?;
    text.push('\n');
    std::fs::write(path, text).with_context(|| {
        format!(
            "the certificate could not be written to {}; name another file with --out",
            path.display()
        )
    })
}
