//! `unstall results export`: a record in the form of another tool.

use anyhow::bail;
use unstall_results::store;

use crate::arguments::{ExportArguments, ExportForm};
use crate::console::Outcome;
use crate::document::{Content, FileDocument, FileKind};
use crate::exports::{self, Form};
use crate::record_file;

pub(super) fn execute(arguments: &ExportArguments) -> anyhow::Result<Outcome> {
    let record = store::read(&arguments.record)?;
    let named = arguments.out.as_deref().and_then(Form::of_suffix);
    let form = match (arguments.format, named) {
        (Some(ExportForm::Csv), _) => Form::Csv,
        (Some(ExportForm::Jsonl), _) => Form::JsonLines,
        (Some(ExportForm::Hlog), _) => Form::HdrLog,
        (Some(ExportForm::Prom), _) => Form::Prometheus,
        (None, Some(form)) => form,
        (None, None) => bail!(
            "--out has no suffix that names a form; end it in .csv, .jsonl, .hlog or .prom, or \
             give --format"
        ),
    };
    let text = exports::of_record(&record, form)?;
    let Some(out) = &arguments.out else {
        let content = Content {
            text: Some(text.clone()),
            ..Content::default()
        };
        return Ok(Outcome {
            verdict: None,
            status: None,
            text,
            content,
        });
    };
    record_file::refuse_to_replace("--out", out, [arguments.record.as_path()])?;
    super::refuse_to_replace(out, arguments.force)?;
    exports::replace(out, &text)?;
    Ok(super::written(
        FileDocument::new(FileKind::Export, out),
        Vec::new(),
    ))
}
