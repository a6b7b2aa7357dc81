//! The arguments of `unstall report`, in their raw form.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::PolicyArguments;

/// `unstall report`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  unstall report ab.json -o report.html\n  \
                        unstall report ab.json -o cells.csv\n  \
                        unstall report ab.json --format md >> \"$GITHUB_STEP_SUMMARY\"\n\n\
                        The exit code is that of the verdict, as for compare.")]
pub(crate) struct ReportArguments {
    /// Records of `ab` or `run`
    #[arg(required = true, value_name = "RECORD")]
    pub(crate) records: Vec<PathBuf>,
    /// What to write [default: what the suffix of -o says, else html]
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<ReportFormat>,
    /// The file [default: report.html for html, else stdout]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
    /// Judge and show with what `unstall calibrate` found on this machine
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
}

/// The forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// One page that needs nothing else
    Html,
    /// Markdown, as GitHub and GitLab read it
    Md,
    /// The document of --json
    Json,
    /// One row per cell, a header first
    Csv,
}

impl ReportArguments {
    /// The form asked for, or that of the file's suffix.
    pub(crate) fn format(&self) -> ReportFormat {
        let suffix = self.out.as_ref().and_then(|path| path.extension());
        let of_suffix = || match suffix.and_then(|suffix| suffix.to_str()) {
            Some("md") => ReportFormat::Md,
            Some("json") => ReportFormat::Json,
            Some("csv") => ReportFormat::Csv,
            _ => ReportFormat::Html,
        };
        self.format.unwrap_or_else(of_suffix)
    }

    /// The form as it was asked for by name.
    pub(crate) fn format_given(&self) -> Option<String> {
        let value = self.format?.to_possible_value()?;
        Some(value.get_name().to_owned())
    }

    /// Whether stdout gets the document and nothing else, as with `--json`.
    pub(crate) fn prints_document(&self) -> bool {
        self.out.is_none() && self.format() == ReportFormat::Json
    }
}
