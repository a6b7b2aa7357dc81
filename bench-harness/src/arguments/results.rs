//! The command line of `unstall results`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `unstall results …`
#[derive(Debug, Subcommand)]
pub(crate) enum ResultsCommand {
    /// List the records of a folder, each with what it says
    #[command(
        after_help = "Examples:\n  unstall results list\n  unstall results list ci --json\n\n\
                            A file that can't be read is listed with its mistake. The verdict is \
                            that of the default policy."
    )]
    List {
        /// The folder
        #[arg(value_name = "DIR", default_value = crate::record_file::DEFAULT_FOLDER)]
        folder: PathBuf,
    },
    /// Show one record: what measured what, where and how, and what came of it
    #[command(after_help = "Example:\n  unstall results show ab.json")]
    Show {
        /// The record
        #[arg(value_name = "RECORD")]
        record: PathBuf,
    },
    /// Put sessions of one design together: one record with more pairs
    Merge(MergeArguments),
    /// Make a record of what k6, wrk, wrk2, oha or an HdrHistogram log says
    Import(ImportArguments),
    /// Write a record in the form of another tool
    Export(ExportArguments),
    /// Keep a record per branch and machine class, for `gate --baseline`
    #[command(subcommand)]
    Baseline(BaselineCommand),
}

impl ResultsCommand {
    /// The name that the JSON document carries.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::List { .. } => "results list",
            Self::Show { .. } => "results show",
            Self::Merge(_) => "results merge",
            Self::Import(_) => "results import",
            Self::Export(_) => "results export",
            Self::Baseline(BaselineCommand::Set { .. }) => "results baseline set",
            Self::Baseline(BaselineCommand::List { .. }) => "results baseline list",
        }
    }
}

/// `unstall results merge`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  unstall results merge monday.json tuesday.json -o both.json\n\n\
                        Scenario, load, versions and machine class must be the same. Unless \
                        --planned is given, each session counts as a look at the result."
)]
pub(crate) struct MergeArguments {
    /// Records of `ab` (or of `run`), two or more
    #[arg(required = true, num_args = 2.., value_name = "RECORD")]
    pub(crate) records: Vec<PathBuf>,
    /// The new record
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// What it calls itself [default: as the first session]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// The number of sessions was settled before the first was judged: they are one look
    #[arg(long)]
    pub(crate) planned: bool,
    /// Replace the file of --out if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// `unstall results import`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  k6 run --out json=k6.json script.js && \
                        unstall results import k6 k6.json -o before.json\n  \
                        wrk --latency http://127.0.0.1:8000/ | unstall results import wrk - -o wrk.json\n  \
                        unstall results import hlog latency.hlog -o run.json --concurrency 20\n\n\
                        Comparing with an import is advice: it has no blocks to test.")]
pub(crate) struct ImportArguments {
    /// What the file is
    #[arg(value_enum, value_name = "FORMAT")]
    pub(crate) from: ResultsFrom,
    /// The file, or `-` for the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The new record
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// What it calls itself [default: by file and tool]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Name of the scenario; records are compared within one [default: the tool's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Option<String>,
    /// Name of the file's only endpoint
    #[arg(long, value_name = "NAME")]
    pub(crate) endpoint: Option<String>,
    /// Users at once that waited for their answers, where the file doesn't tell
    #[arg(short, long, value_name = "N", conflicts_with = "rate")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) concurrency: Option<u32>,
    /// Requests per second that were to go out, whatever the answers did
    #[arg(long, value_name = "R", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Unit of the values of an HdrHistogram log, which doesn't tell it
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = ValueUnit::Ns)]
    pub(crate) unit: ValueUnit,
    /// It was measured on this machine
    #[arg(long)]
    pub(crate) here: bool,
    /// Replace the file of --out if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// `unstall results export`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall results export ab.json -o ab.hlog\n  \
                        unstall results export ab.json --format csv | column -ts,"
)]
pub(crate) struct ExportArguments {
    /// The record
    #[arg(value_name = "RECORD")]
    pub(crate) record: PathBuf,
    /// The form [default: as the suffix of --out says]
    #[arg(long, value_enum, value_name = "FORM", required_unless_present = "out")]
    pub(crate) format: Option<ExportForm>,
    /// The file [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the file of --out if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// `unstall results baseline …`
#[derive(Debug, Subcommand)]
pub(crate) enum BaselineCommand {
    /// Make a record of `run` the baseline of a branch, for its machine class and scenario
    #[command(after_help = "Example:\n  unstall results baseline set run.json --branch main")]
    Set {
        /// The record
        #[arg(value_name = "RECORD")]
        record: PathBuf,
        /// The folder of baselines
        #[arg(value_name = "DIR", default_value = BASELINES)]
        folder: PathBuf,
        /// The branch that was measured
        #[arg(long, value_name = "NAME")]
        branch: String,
    },
    /// List the baselines of a folder
    #[command(after_help = "Example:\n  unstall results baseline list")]
    List {
        /// The folder of baselines
        #[arg(value_name = "DIR", default_value = BASELINES)]
        folder: PathBuf,
    },
}

/// The folder of baselines that were given no place.
const BASELINES: &str = "unstall-baselines";

/// What results are imported from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultsFrom {
    /// `k6 run --out json=FILE`, or `--summary-export FILE`
    K6,
    /// What `wrk --latency` prints
    Wrk,
    /// What `wrk2 --latency` prints
    Wrk2,
    /// `oha --output-format json`
    Oha,
    /// HdrHistogram's interval log
    Hlog,
}

/// Units of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ValueUnit {
    /// Nanoseconds, as HdrHistogram's tools take for granted
    Ns,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
}

/// Forms of export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    /// A row per block and endpoint
    Csv,
    /// The same as JSON objects, one a line
    Jsonl,
    /// HdrHistogram's interval log: a histogram per block and endpoint
    Hlog,
    /// Prometheus' text form
    Prom,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is no number; write requests per second, like 250"))?;
    if (0.001..=4_000_000.0).contains(&rate) {
        Ok(rate)
    } else {
        Err("a rate is between 0.001 and 4 000 000 per second".to_owned())
    }
}
