//! What wrk2 prints, with `--latency`: the percentiles of its HdrHistogram as a spectrum.
//!
//! Its times run from the moment at which a request was due to the answer's end. It begins to
//! record after it has calibrated itself, and doesn't print the rate that it was given.

use std::io::BufRead;

use super::ImportError;
use super::lines::Lines;
use super::seen::{Seen, SeenLoad, SeenTimes};
use super::wrk::{Printed, ascending, percentile};
use crate::record::StatedPercentile;

/// Which table the lines are in.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Table {
    None,
    /// Rounded to two decimals.
    Percentiles,
    /// With three decimals, in ms.
    Spectrum,
    /// Of times that run from the moment of sending, which `--u_latency` adds.
    Uncorrected,
}

pub(super) fn read<R: BufRead>(lines: &mut Lines<R>) -> Result<Seen, ImportError> {
    let mut printed = Printed::default();
    let mut table = Table::None;
    let mut stated: Vec<StatedPercentile> = Vec::new();
    let mut recorded = None;
    while let Some(line) = lines.next()? {
        let line = line.trim().to_owned();
        if line.starts_with("Latency Distribution (HdrHistogram - Uncorrected") {
            table = Table::Uncorrected;
        } else if line.starts_with("Latency Distribution (HdrHistogram") {
            table = Table::Percentiles;
        } else if line.starts_with("Detailed Percentile spectrum") && table != Table::Uncorrected {
            table = Table::Spectrum;
        } else if let Some(rest) = line.strip_prefix("#[Max") {
            if table == Table::Spectrum {
                recorded = total_count(rest);
            }
        } else if line.starts_with("-----") {
            table = Table::None;
        } else {
            match table {
                Table::Percentiles => stated.extend(percentile(&line)),
                Table::Spectrum => stated.extend(spectrum_line(&line, lines)?),
                Table::Uncorrected => {}
                Table::None => printed.read(&line, lines)?,
            }
        }
    }
    if stated.is_empty() {
        return Err(lines.wrong(
            "no \"Latency Distribution (HdrHistogram - Recorded Latency)\"",
            "run wrk2 with --latency; what wrk itself prints is imported as wrk",
        ));
    }
    let load = SeenLoad::Open {
        connections: printed.connections.unwrap_or(0),
    };
    let mut seen = printed.seen("wrk2", load, Vec::new(), lines)?;
    // The same as an open load of our own has.
    seen.times = Some(crate::comparability::OWN_TIMES);
    for endpoint in &mut seen.endpoints {
        endpoint.times = SeenTimes::Stated(ascending(std::mem::take(&mut stated)));
    }
    seen.recorded = recorded;
    if let Some(recorded) = recorded {
        seen.missing.push(format!(
            "The times of the requests before wrk2 had calibrated itself: its percentiles are those \
             of {recorded} requests."
        ));
    }
    Ok(seen)
}

/// `6.463     0.500000        19750         2.00`; `None` for the heads of the table.
fn spectrum_line<R: BufRead>(
    line: &str,
    lines: &Lines<R>,
) -> Result<Option<StatedPercentile>, ImportError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [value, share, _count, _] = words.as_slice() else {
        return Ok(None);
    };
    if *value == "Value" {
        return Ok(None);
    }
    let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
    match (number(value), number(share)) {
        (Some(ms), Some(share)) if ms >= 0.0 && (0.0..=1.0).contains(&share) => {
            Ok(Some(StatedPercentile {
                share,
                us: ms * 1_000.0,
            }))
        }
        _ => Err(lines.wrong(
            format!("{line:?}, expected a time in ms, a share, a count and a number"),
            "give all that the tool printed, as it was",
        )),
    }
}

/// `     =       12.344, Total count    =        39500]`
fn total_count(rest: &str) -> Option<u64> {
    let (_, count) = rest.rsplit_once('=')?;
    count.trim().trim_end_matches(']').parse().ok()
}
