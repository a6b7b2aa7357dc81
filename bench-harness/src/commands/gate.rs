//! `unstall gate`: judge records for a pipeline, in the forms that pipelines read.

mod github;

use std::path::PathBuf;

use anyhow::bail;
use unstall_reports::junit;
use unstall_reports::markdown::{self, Limit, Placement};

use super::baseline_gate;
use crate::arguments::GateArguments;
use crate::console::{Console, Outcome};
use crate::document::{FileDocument, FileKind};
use crate::judgement;
use crate::judgement::certified::{self, Certified};
use crate::record_file;
use unstall_bench_harness::command_line::{shell_path, shell_paths, shell_word};

pub(crate) fn execute(arguments: &GateArguments, console: &Console) -> anyhow::Result<Outcome> {
    refuse_to_lose_a_file(arguments)?;
    let records = judgement::read(&arguments.records)?;
    let policy = arguments.policy.read_for(&records)?;
    let mut judgement = match &arguments.baseline {
        Some(folder) => baseline_gate::judge(records, folder, &arguments.branch, policy)?,
        None => judgement::judge(records, policy)?,
    };
    if let Some(path) = &arguments.certificate {
        judgement.certify(Certified::read(path)?)?;
    }
    let report = judgement.report("Latency gate", &command_line(arguments));
    let mut outcome = judgement.outcome(console);
    if let Some(path) = &arguments.junit {
        record_file::write_text(path, "the test cases", &junit::render(&report))?;
        let file = FileDocument::new(FileKind::Junit, path);
        outcome.content.files.push(file);
    }
    let marker = arguments.marker.as_deref();
    if let Some(path) = &arguments.markdown {
        let limit = Limit::Comment;
        let text = markdown::render(&report, Placement { limit, marker });
        record_file::write_text(path, "the summary", &text)?;
        let file = FileDocument::new(FileKind::Markdown, path);
        outcome.content.files.push(file);
    }
    if arguments.github {
        github::tell(&report, marker, &mut outcome)?;
    }
    Ok(outcome)
}

/// Before anything is written: one output is neither an input nor the other output.
fn refuse_to_lose_a_file(arguments: &GateArguments) -> anyhow::Result<()> {
    let outputs = [
        ("--junit", &arguments.junit),
        ("--markdown", &arguments.markdown),
    ];
    for (option, path) in outputs {
        if let Some(path) = path {
            let inputs = arguments.records.iter();
            let inputs = inputs
                .chain(&arguments.policy.file)
                .chain(&arguments.certificate);
            record_file::refuse_to_replace(option, path, inputs.map(PathBuf::as_path))?;
            let baselines = arguments.baseline.as_ref();
            let baselines = baselines.and_then(|folder| folder.canonicalize().ok());
            if let (Some(folder), Ok(path)) = (baselines, path.canonicalize())
                && path.starts_with(folder)
                && path.extension().is_some_and(|suffix| suffix == "json")
            {
                bail!(
                    "{option} {} would replace a record in the folder of baselines; name another file",
                    path.display()
                );
            }
        }
    }
    match (&arguments.junit, &arguments.markdown) {
        (Some(junit), Some(markdown)) if record_file::is_same_file(junit, markdown) => {
            bail!("--junit and --markdown name the same file; name two")
        }
        _ => Ok(()),
    }
}

fn command_line(arguments: &GateArguments) -> String {
    let certificate = certified::words(arguments.certificate.as_deref());
    let baseline = arguments.baseline.as_ref().map(|folder| {
        format!(
            " --baseline {} --branch {}",
            shell_path(folder),
            shell_word(&arguments.branch)
        )
    });
    format!(
        "unstall gate {}{}{}{}",
        shell_paths(&arguments.records),
        baseline.unwrap_or_default(),
        arguments.policy.words(),
        certificate
    )
}
