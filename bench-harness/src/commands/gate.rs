//! `unstall gate`: judge records for a pipeline, in the forms that pipelines read.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unstall_reports::{annotations, junit, markdown};

use crate::arguments::GateArguments;
use crate::console::{Console, Outcome};
use crate::document::{FileDocument, FileKind};
use crate::judgement;
use crate::judgement::certified::{self, Certified};
use crate::record_file;

/// Where GitHub shows Markdown beside a job.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

pub(crate) fn execute(arguments: &GateArguments, console: &Console) -> anyhow::Result<Outcome> {
    refuse_to_lose_a_file(arguments)?;
    let records = judgement::read(&arguments.records)?;
    let policy = arguments.policy.read_for(&records)?;
    let mut judgement = judgement::judge(records, policy)?;
    if let Some(path) = &arguments.certificate {
        judgement.certify(Certified::read(path)?)?;
    }
    let report = judgement.report("Latency gate", &command_line(arguments));
    let mut outcome = judgement.outcome(console);
    let wanted = [
        (
            &arguments.junit,
            FileKind::Junit,
            junit::render as fn(&_) -> String,
        ),
        (&arguments.markdown, FileKind::Markdown, markdown::render),
    ];
    for (path, kind, render) in wanted {
        if let Some(path) = path {
            write(path, &render(&report))?;
            outcome.content.files.push(FileDocument::new(kind, path));
        }
    }
    if arguments.github {
        // GitHub reads commands at the start of a line of the log.
        outcome.text.push_str(&annotations::render(&report));
        if let Some(path) = std::env::var_os(STEP_SUMMARY).filter(|path| !path.is_empty()) {
            append(&PathBuf::from(path), &markdown::render(&report))?;
        }
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
        }
    }
    if arguments.junit.is_some() && arguments.junit == arguments.markdown {
        bail!("--junit and --markdown name the same file; name two");
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| {
        format!(
            "{} could not be written; choose another place",
            path.display()
        )
    })
}

fn append(path: &Path, text: &str) -> anyhow::Result<()> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| {
            format!(
                "{STEP_SUMMARY} names {}, which can't be written",
                path.display()
            )
        })
}

fn command_line(arguments: &GateArguments) -> String {
    let records: Vec<String> = arguments
        .records
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let certificate = certified::words(arguments.certificate.as_deref());
    format!(
        "unstall gate {}{}{}",
        records.join(" "),
        arguments.policy.words(),
        certificate
    )
}
