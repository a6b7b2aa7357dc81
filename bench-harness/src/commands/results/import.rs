//! `unstall results import`: what another tool measured, as a record.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use unstall_bench_harness::machine;
use unstall_results::import::{ImportForm, ImportOptions, LogUnit, import};

use crate::arguments::{ImportArguments, ResultsFrom, ValueUnit};
use crate::console::Outcome;
use crate::identity;

pub(super) fn execute(arguments: &ImportArguments) -> anyhow::Result<Outcome> {
    super::refuse_to_replace(&arguments.out, arguments.force)?;
    let is_piped = arguments.file == Path::new("-");
    let origin = if is_piped {
        PathBuf::from("standard input")
    } else {
        arguments.file.clone()
    };
    let input: Box<dyn Read> =
        if is_piped {
            Box::new(std::io::stdin())
        } else {
            let file = File::open(&arguments.file);
            Box::new(file.with_context(|| {
                format!("{} can't be read; name a file, or `-`", origin.display())
            })?)
        };
    let options = ImportOptions {
        form: match arguments.from {
            ResultsFrom::K6 => ImportForm::K6,
            ResultsFrom::Wrk => ImportForm::Wrk,
            ResultsFrom::Wrk2 => ImportForm::Wrk2,
            ResultsFrom::Oha => ImportForm::Oha,
            ResultsFrom::Hlog => ImportForm::HdrLog,
        },
        origin,
        id: identity::new_id(),
        harness_version: env!("CARGO_PKG_VERSION").to_owned(),
        now_utc: identity::utc_now(),
        label: arguments.label.clone(),
        scenario: arguments.scenario.clone(),
        endpoint: arguments.endpoint.clone(),
        concurrency: arguments.concurrency,
        rate_per_second: arguments.rate,
        unit: match arguments.unit {
            ValueUnit::Ns => LogUnit::Nanoseconds,
            ValueUnit::Us => LogUnit::Microseconds,
            ValueUnit::Ms => LogUnit::Milliseconds,
        },
        // Whether load and service shared its cores, nobody knows.
        machine: arguments.here.then(|| machine::detect(false)),
    };
    let record = import(BufReader::with_capacity(1 << 16, input), &options)?;
    let file = super::write(&arguments.out, &record, arguments.force)?;
    let imported = record.arms.values().filter_map(|arm| arm.imported.as_ref());
    let missing = imported.flat_map(|of| of.missing.iter());
    let notes = missing.map(|sentence| format!("Not known: {sentence}"));
    Ok(super::written(file, notes.collect()))
}
