//! `unstall prove`: send a few requests, and say which routes made no call that can block.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use unstall_bench_harness::engine::Stop;
use unstall_bench_harness::proof::{self, Evidence};
use unstall_loop_monitor::certificate::{Certificate, ProofMethod};
use unstall_scenarios::plan::Plan;

use crate::arguments::ProveArguments;
use crate::console::{Console, Outcome};
use crate::document::proof::ProofDocument;
use crate::document::{Content, FileDocument, FileKind};
use crate::proof_text::{self, Style};
use crate::prover::served::{Drives, Served};
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
    let mut served = Served::open(&version, &plans, &arguments.ready, &stop)?;
    let caught = catch(arguments, &plans, &served, console, &stop);
    // How the service ended explains best why it doesn't answer any more.
    let caught = caught.map_err(|error| served.explain(error));
    let ended = served.close();
    let caught = caught?;
    ended?;
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

/// What was sent and what was caught.
struct Caught {
    before: Certificate,
    after: Certificate,
    drives: Drives,
    waits: BTreeMap<String, proof::Waits>,
}

fn catch(
    arguments: &ProveArguments,
    plans: &[Arc<Plan>],
    served: &Served,
    console: &Console,
    stop: &Stop,
) -> anyhow::Result<Caught> {
    let mut prover = prover::choose(served)?;
    let before = prover.begin(stop)?;
    let blind = matches!(before.method, ProofMethod::Unsupported { .. });
    let counters = if blind { served.snapshot()? } else { None };
    let drives = served.drive(plans, arguments.requests, console, stop)?;
    let after = prover.end()?;
    anyhow::ensure!(
        before.start_id == after.start_id,
        "the service restarted while requests were sent, and its certificate began anew: see its \
         log, and prove again"
    );
    let waits = match counters {
        None => BTreeMap::new(),
        Some(then) => served
            .snapshot()?
            .map(|now| proof::waits(&then, &now))
            .unwrap_or_default(), // a monitor that is gone has counted nothing to show
    };
    Ok(Caught {
        before,
        after,
        drives,
        waits,
    })
}

fn outcome(arguments: &ProveArguments, console: &Console, caught: &Caught) -> Outcome {
    let routes = proof::judge(Evidence {
        before: &caught.before,
        after: &caught.after,
        demanded: &arguments.routes,
        driven: &caught.drives.requests,
        waits: &caught.waits,
    });
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
