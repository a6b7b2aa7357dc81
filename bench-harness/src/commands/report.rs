//! `unstall report`: records as one HTML file, as Markdown, JSON or CSV.

use std::path::{Path, PathBuf};

use unstall_reports::{csv, html, markdown};
use unstall_results::policy::Policy;
use unstall_results::record::RunRecord;

use crate::arguments::{ReportArguments, ReportFormat};
use crate::console::{Console, Outcome};
use crate::document::{FileDocument, FileKind};
use crate::judgement::certified::{self, Certified};
use crate::judgement::{self, Judgement};
use crate::record_file;
use unstall_bench_harness::command_line::{shell_path, shell_paths};

const TITLE: &str = "Latency report";

/// Where HTML goes by default: nobody reads it on a terminal.
const HTML_DEFAULT: &str = "report.html";

pub(crate) fn execute(arguments: &ReportArguments, console: &Console) -> anyhow::Result<Outcome> {
    let format = arguments.format();
    let html = || (format == ReportFormat::Html).then(|| PathBuf::from(HTML_DEFAULT));
    let out = arguments.out.clone().or_else(html);
    if let Some(out) = &out {
        let inputs = arguments.records.iter().chain(&arguments.policy.file);
        let inputs = inputs.chain(&arguments.certificate);
        record_file::refuse_to_replace("-o", out, inputs.map(PathBuf::as_path))?;
    }
    let records = judgement::read(&arguments.records)?;
    let policy = arguments.policy.read_for(&records)?;
    let mut judgement = judge(records, policy)?;
    if let Some(path) = &arguments.certificate {
        judgement.certify(Certified::read(path)?)?;
    }
    let text = rendered(&judgement, format, &command_line(arguments), console)?;
    let mut outcome = judgement.outcome(console);
    match out {
        Some(path) => {
            record_file::write_text(&path, "the report", &text)?;
            let line = format!("Report: {}\n", path.display());
            outcome.text.push_str(&line);
            let file = FileDocument::new(FileKind::Report, &path);
            outcome.content.files.push(file);
        }
        // The document on stdout is the outcome itself.
        None if format == ReportFormat::Json => {}
        None => {
            outcome.text.clone_from(&text);
            outcome.content.text = Some(text);
        }
    }
    Ok(outcome)
}

fn rendered(
    judgement: &Judgement,
    format: ReportFormat,
    command: &str,
    console: &Console,
) -> anyhow::Result<String> {
    let report = judgement.report(TITLE, command);
    Ok(match format {
        ReportFormat::Html => html::render(&report),
        ReportFormat::Md => markdown::render(&report, markdown::Placement::FILE),
        ReportFormat::Json => judgement
            .outcome(console)
            .into_document("report")
            .to_json()?,
        ReportFormat::Csv => csv::render(&report),
    })
}

fn command_line(arguments: &ReportArguments) -> String {
    let mut command = format!(
        "unstall report {}{}{}",
        shell_paths(&arguments.records),
        arguments.policy.words(),
        certified::words(arguments.certificate.as_deref())
    );
    if let Some(out) = &arguments.out {
        command.push_str(&format!(" -o {}", shell_path(out)));
    }
    if let Some(format) = arguments.format_given() {
        command.push_str(&format!(" --format {format}"));
    }
    command
}

/// Writes the HTML file.
pub(crate) fn write_html(
    path: &Path,
    judgement: &Judgement,
    title: &str,
    command: &str,
) -> anyhow::Result<()> {
    let page = html::render(&judgement.report(title, command));
    record_file::write_text(path, "the report", &page)
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
