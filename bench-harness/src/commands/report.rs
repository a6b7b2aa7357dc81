//! `unstall report`: records as one HTML file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use unstall_reports::html;
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;

use crate::arguments::ReportArguments;
use crate::console::{Console, Outcome};
use crate::document::{FileDocument, FileKind};
use crate::judgement::certified::{self, Certified};
use crate::judgement::{self, Judgement};
use crate::record_file;

pub(crate) fn execute(arguments: &ReportArguments, console: &Console) -> anyhow::Result<Outcome> {
    let inputs = arguments.records.iter().chain(&arguments.policy.file);
    let inputs = inputs.chain(&arguments.certificate);
    let inputs = inputs.map(PathBuf::as_path);
    record_file::refuse_to_replace("-o", &arguments.out, inputs)?;
    let records = judgement::read(&arguments.records)?;
    let policy = arguments.policy.read_for(&records)?;
    let mut judgement = judge(records, policy)?;
    if let Some(path) = &arguments.certificate {
        judgement.certify(Certified::read(path)?)?;
    }
    let names: Vec<String> = arguments
        .records
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let command = format!(
        "unstall report {}{} -o {}",
        names.join(" "),
        arguments.policy.words() + &certified::words(arguments.certificate.as_deref()),
        arguments.out.display()
    );
    write_html(&arguments.out, &judgement, "Latency report", &command)?;
    let mut outcome = judgement.outcome(console);
    outcome
        .text
        .push_str(&format!("Report: {}\n", arguments.out.display()));
    outcome
        .content
        .files
        .push(FileDocument::new(FileKind::Report, &arguments.out));
    Ok(outcome)
}

/// Writes the HTML file.
pub(crate) fn write_html(
    path: &Path,
    judgement: &Judgement,
    title: &str,
    command: &str,
) -> anyhow::Result<()> {
    let page = html::render(&judgement.report(title, command));
    fs::write(path, page).with_context(|| {
        format!(
            "the report {} could not be written; choose another place",
            path.display()
        )
    })
}

/// Records of one version are shown as they are; two of them that can be compared, compared.
fn judge(records: Vec<RunRecord>, policy: Policy) -> anyhow::Result<Judgement> {
    let mut judgement = Judgement::by(policy);
    let one_version = records
        .iter()
        .filter(|record| record.arms.len() == 1 && record.load.capacity.is_none())
        .count();
    if records.len() == 2 && one_version == 2 {
        match judgement::against_each_other(&records, judgement.policy()) {
            Ok(judged) => {
                judgement.entries.push(judged);
                return Ok(judgement);
            }
            Err(error) => {
                judgement
                    .notes
                    .push(format!("{error:#}; each record is shown by itself"));
            }
        }
    }
    for record in records {
        judgement.add(record)?;
    }
    Ok(judgement)
}
