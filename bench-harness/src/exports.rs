//! What was measured, in the forms of other tools: a file for each `--export`, its form told by
//! its suffix. `docs/exports.md` describes them.
//!
//! Rows are written block by block, so that a crash loses one block at most. They hold names of
//! the scenario and numbers, and nothing that was sent or answered.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use unstall_bench_harness::engine::EndpointSecond;
use unstall_results::level::Level;
use unstall_results::record::{Block, RunRecord};

use crate::document::{FileDocument, FileKind};

mod csv;
mod hdr_log;
mod json_lines;
mod prometheus;
mod stored;

pub(crate) use stored::of_record;

/// Forms of export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A row per second and endpoint.
    Csv,
    /// The same as JSON objects.
    JsonLines,
    /// A histogram per second and endpoint: HdrHistogram's interval log.
    HdrLog,
    /// The whole measurement, as node_exporter's textfile collector reads it.
    Prometheus,
}

impl Form {
    /// The form that a file's name asks for.
    pub(crate) fn of_suffix(path: &Path) -> Option<Self> {
        let suffix = path.extension().and_then(|suffix| suffix.to_str())?;
        let known = FORMS.iter().find(|(of, _)| suffix == *of);
        known.map(|(_, form)| *form)
    }
}

/// Suffix, form, and what it is in messages.
const FORMS: [(&str, Form); 4] = [
    ("csv", Form::Csv),
    ("jsonl", Form::JsonLines),
    ("hlog", Form::HdrLog),
    ("prom", Form::Prometheus),
];

/// All exports of one command; its sessions write to the same files in turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exports(Rc<RefCell<Vec<Export>>>);

#[derive(Debug)]
struct Export {
    form: Form,
    path: PathBuf,
    /// `None` of a form that is written as a whole.
    file: Option<File>,
}

/// The files of a command line that is not known to be right as a whole: none is touched yet.
#[derive(Debug)]
pub(crate) struct ExportFiles(Vec<(Form, PathBuf)>);

impl ExportFiles {
    /// Checks names and places.
    ///
    /// # Errors
    /// An unknown suffix, a file that is given twice, one that exists without `force`, or a place
    /// that can't be written to.
    pub(crate) fn check(paths: &[PathBuf], force: bool) -> anyhow::Result<Self> {
        let mut files: Vec<(Form, PathBuf)> = Vec::new();
        for path in paths {
            if files.iter().any(|(_, other)| other == path) {
                bail!("--export {} is given twice; give it once", path.display());
            }
            files.push((form(path, force)?, path.clone()));
        }
        Ok(Self(files))
    }

    /// Creates the files, so that one that can't be written costs no measurement.
    ///
    /// # Errors
    /// A file that can't be written.
    pub(crate) fn create(self) -> anyhow::Result<Exports> {
        let files = self.0.into_iter();
        let exports: Vec<Export> = files
            .map(|(form, path)| Export::create(form, path))
            .collect::<anyhow::Result<_>>()?;
        Ok(Exports(Rc::new(RefCell::new(exports))))
    }
}

impl Exports {
    /// Whether any of them wants each second of each endpoint.
    pub(crate) fn want_seconds(&self) -> bool {
        let exports = self.0.borrow();
        exports.iter().any(|export| export.file.is_some())
    }

    /// Adds a block.
    ///
    /// # Errors
    /// When a file can't be written.
    pub(crate) fn add(
        &self,
        record: &RunRecord,
        block: &Block,
        seconds: &[EndpointSecond],
    ) -> anyhow::Result<()> {
        let rows = rows(record, block, seconds)?;
        for export in self.0.borrow_mut().iter_mut() {
            export.add(&rows)?;
        }
        Ok(())
    }

    /// Writes what needs the whole measurement; returns all files.
    ///
    /// # Errors
    /// When a file can't be written.
    pub(crate) fn finish(&self, records: &[&RunRecord]) -> anyhow::Result<Vec<FileDocument>> {
        let exports = self.0.borrow();
        for export in exports.iter().filter(|of| of.form == Form::Prometheus) {
            replace(&export.path, &prometheus::render(records))?;
        }
        let files = exports.iter();
        Ok(files
            .map(|export| FileDocument::new(FileKind::Export, &export.path))
            .collect())
    }
}

/// The form that a file's name asks for.
fn form(path: &Path, force: bool) -> anyhow::Result<Form> {
    let Some(form) = Form::of_suffix(path) else {
        bail!(
            "--export {} has no suffix that names a form; end it in .csv or .jsonl (a row per \
             second and endpoint), .hlog (HdrHistogram's interval log) or .prom (Prometheus)",
            path.display()
        );
    };
    if path.exists() && !force {
        bail!(
            "{} exists; choose another --export, or add --force to replace it",
            path.display()
        );
    }
    // That there is room is seen now; the trial goes away by itself.
    drop(temporary(path)?);
    Ok(form)
}

impl Export {
    fn create(form: Form, path: PathBuf) -> anyhow::Result<Self> {
        let mut export = Self {
            form,
            path,
            file: None,
        };
        let head = match form {
            Form::Csv => csv::head(),
            Form::JsonLines => String::new(),
            Form::HdrLog => hdr_log::head(Timestamp::now()),
            // What the last measurement said stays until this one is over.
            Form::Prometheus => return Ok(export),
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = options.open(&export.path).with_context(|| {
            format!(
                "{} can't be written to; choose another place with --export",
                export.path.display()
            )
        })?;
        export.file = Some(file);
        export.append(&head)?;
        Ok(export)
    }

    fn add(&mut self, rows: &[Row<'_>]) -> anyhow::Result<()> {
        let text = match self.form {
            Form::Csv => csv::rows(rows),
            Form::JsonLines => json_lines::rows(rows)?,
            Form::HdrLog => hdr_log::rows(rows)?,
            Form::Prometheus => return Ok(()),
        };
        self.append(&text)
    }

    fn append(&mut self, text: &str) -> anyhow::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.write_all(text.as_bytes())
            .with_context(|| failed(&self.path))
    }
}

/// Replaces a file in one step: whoever reads it meanwhile reads a whole one.
pub(crate) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut temporary = temporary(path)?;
    temporary
        .write_all(text.as_bytes())
        .with_context(|| failed(path))?;
    temporary.persist(path).with_context(|| failed(path))?;
    Ok(())
}

/// A file beside another one, gone unless it is kept.
fn temporary(path: &Path) -> anyhow::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    // Who collects it is another user.
    builder.permissions(std::fs::Permissions::from_mode(0o644));
    builder.tempfile_in(folder).with_context(|| failed(path))
}

fn failed(path: &Path) -> String {
    format!(
        "{} could not be written; make room there, or choose another place with --export",
        path.display()
    )
}

/// One second of one endpoint, or a whole block of it.
#[derive(Debug)]
struct Row<'a> {
    /// Its beginning.
    begun: Timestamp,
    /// Its length in seconds, of a whole block.
    whole: Option<f64>,
    second: &'a EndpointSecond,
    scenario: &'a str,
    arm: &'a str,
    /// Whether the record has two arms.
    compares: bool,
    pair: u32,
    level: Level,
    /// Whether the record has several levels.
    several_levels: bool,
    endpoint: &'a str,
    /// Whether the block may be judged.
    is_valid: bool,
}

fn rows<'a>(
    record: &'a RunRecord,
    block: &'a Block,
    seconds: &'a [EndpointSecond],
) -> anyhow::Result<Vec<Row<'a>>> {
    let begun: Timestamp = block
        .started_utc
        .parse()
        .context("the block's own time can't be read; this is a fault of unstall")?;
    let rows = seconds.iter().filter_map(|second| {
        let endpoint = record.scenario.endpoints.get(second.endpoint)?;
        Some(Row {
            whole: None,
            begun: begun
                .checked_add(SignedDuration::from_secs(i64::from(second.second)))
                .unwrap_or(begun),
            second,
            scenario: &record.scenario.name,
            arm: &block.arm,
            compares: record.arms.len() > 1,
            pair: block.pair,
            level: Level::of(&record.load, block.level),
            // A search adds levels as it goes.
            several_levels: record.load.levels.len() > 1 || record.load.capacity.is_some(),
            endpoint: &endpoint.name,
            is_valid: block.validity.ok,
        })
    });
    Ok(rows.collect())
}

impl Row<'_> {
    fn quantile_us(&self, q: f64) -> Option<u64> {
        self.second.response.quantile_us(q)
    }

    /// Which second of its block it is; `None` of a whole block.
    fn number(&self) -> Option<u32> {
        self.whole.is_none().then_some(self.second.second)
    }

    fn concurrency(&self) -> Option<u32> {
        match self.level {
            Level::Users(users) => Some(users),
            Level::MilliRate(_) | Level::Unknown => None,
        }
    }
}
