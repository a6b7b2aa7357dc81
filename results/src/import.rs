//! Results of other tools as records: k6, wrk, wrk2, oha, and HdrHistogram's interval log.
//!
//! Each form is read into what the tool saw (`seen::Seen`), which is then made a record of one
//! version. What a tool doesn't tell stays unknown and is listed in the record; nothing is
//! interpolated. There are no blocks, so that a comparison with an import is advice.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use crate::record::{Machine, RunRecord};

mod hdr_log;
mod hdr_payload;
mod k6_points;
mod k6_summary;
mod lines;
mod oha;
mod quantity;
mod resolve;
mod seen;
mod wrk;
mod wrk2;

use lines::Lines;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportForm {
    /// k6: `--out json=FILE` (a point per line) or `--summary-export FILE`.
    K6,
    /// wrk: what `wrk --latency` prints.
    Wrk,
    /// wrk2: what `wrk --latency` of that program prints.
    Wrk2,
    /// oha: `--output-format json` (older: `-j`).
    Oha,
    /// HdrHistogram's interval log, version 1.1 to 1.3.
    HdrLog,
}

/// In which unit a log's values are: the log itself doesn't say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogUnit {
    /// As HdrHistogram's own tools take for granted.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
}

/// What a file can't tell, and who imports it may know.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// What the file is.
    pub form: ImportForm,
    /// Its name, for messages and for the record.
    pub origin: PathBuf,
    /// Id of the record.
    pub id: String,
    /// Version of the program that imports.
    pub harness_version: String,
    /// When it is imported, RFC 3339, UTC: the record's time where the file tells none.
    pub now_utc: String,
    /// Label of the record; else tool and file.
    pub label: Option<String>,
    /// Name of the scenario; else the tool's.
    pub scenario: Option<String>,
    /// Name of the only endpoint; else as the tool calls it.
    pub endpoint: Option<String>,
    /// Users at the same time, of a closed load.
    pub concurrency: Option<u32>,
    /// Arrivals per second, of an open load.
    pub rate_per_second: Option<f64>,
    /// Unit of a log's values.
    pub unit: LogUnit,
    /// The machine that measured, where it is known.
    pub machine: Option<Machine>,
}

/// Why a file can't be imported. Messages name the file, the line and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file could not be read.
    #[error("{path}: can't be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// It is not what it should be.
    #[error("{}:{line}: {message}\n  fix: {fix}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What was found, and what was expected.
        message: String,
        /// What to do.
        fix: String,
    },
}

/// Reads what a tool wrote into a record of one version.
///
/// # Errors
/// [`ImportError`], with the file and the line.
pub fn import(input: impl BufRead, options: &ImportOptions) -> Result<RunRecord, ImportError> {
    let mut lines = Lines::new(input, &options.origin);
    let seen = match options.form {
        ImportForm::K6 => {
            if k6_points::is_first_line(lines.peek()?) {
                k6_points::read(&mut lines)?
            } else {
                k6_summary::read(&lines.rest()?, &options.origin)?
            }
        }
        ImportForm::Wrk => wrk::read(&mut lines)?,
        ImportForm::Wrk2 => wrk2::read(&mut lines)?,
        ImportForm::Oha => oha::read(&lines.rest()?, &options.origin)?,
        ImportForm::HdrLog => hdr_log::read(&mut lines, options.unit)?,
    };
    let record = resolve::record(seen, options)?;
    record
        .validate()
        .map_err(|violation| malformed(&options.origin, 1, violation.to_string(), REPORT))?;
    Ok(record)
}

/// What can't be put right by whoever reads the message.
const REPORT: &str =
    "this is a form that unstall doesn't know yet: please report it, with the file";

fn malformed(path: &Path, line: usize, message: impl Into<String>, fix: &str) -> ImportError {
    ImportError::Malformed {
        path: path.to_owned(),
        line,
        message: message.into(),
        fix: fix.to_owned(),
    }
}
