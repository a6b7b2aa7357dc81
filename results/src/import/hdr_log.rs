//! HdrHistogram's interval log, as the Java, JavaScript, Python, C and Rust libraries write it:
//! a line per interval, its histogram in base64, and perhaps a tag.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;

use jiff::Timestamp;

use super::hdr_payload::{Bin, decode};
use super::lines::Lines;
use super::seen::{ENDPOINTS_MAX, OTHERS, Seen, SeenEndpoint, SeenLoad, SeenTimes};
use super::{ImportError, LogUnit};
use crate::comparability::OWN_TIMES;
use crate::histogram::LatencyHistogram;

/// What stands in the head of a log that this program wrote.
const OURS: &str = "Written by unstall: response times from the intended moment";
const UNTAGGED: &str = "all requests";
const FIX: &str = "give an interval log of HdrHistogram, as its log writer wrote it";
/// Time stamps smaller than that are offsets from the log's start: there was no such log in 1970.
const YEAR_SECONDS: f64 = 365.0 * 86_400.0;

#[derive(Debug, Default)]
struct Log {
    start: Option<f64>,
    base: Option<f64>,
    is_ours: bool,
    first: Option<f64>,
    last: f64,
    /// Tag → times; in the order of names.
    tags: BTreeMap<String, LatencyHistogram>,
}

pub(super) fn read<R: BufRead>(lines: &mut Lines<R>, unit: LogUnit) -> Result<Seen, ImportError> {
    let mut log = Log::default();
    while let Some(line) = lines.next()? {
        let line = line.trim().to_owned();
        if let Some(comment) = line.strip_prefix('#') {
            log.comment(comment);
        } else if !line.is_empty() && !line.starts_with("\"StartTimestamp\"") {
            log.interval(&line, unit)
                .map_err(|message| lines.wrong(message, FIX))?;
        }
    }
    let Some(first) = log.first else {
        return Err(lines.wrong("no interval in it", FIX));
    };
    let begun = log.epoch_seconds(first);
    let mut missing = vec![
        "Failures: a log of times has none.".to_owned(),
        "When requests of an interval ended within it.".to_owned(),
    ];
    if !log.is_ours {
        missing.push(format!(
            "The unit of its values: they were read as {} (--unit).",
            name(unit)
        ));
    }
    if log.tags.len() > ENDPOINTS_MAX {
        missing.push(format!(
            "More than {ENDPOINTS_MAX} tags apart: the last ones are counted together."
        ));
    }
    Ok(Seen {
        tool: "hlog",
        times: log.is_ours.then_some(OWN_TIMES),
        begun,
        wall: Duration::try_from_secs_f64(log.last - first).unwrap_or(Duration::ZERO),
        recorded: None,
        load: SeenLoad::Unknown,
        url: None,
        endpoints: log.tags.into_iter().map(endpoint).collect(),
        missing,
    })
}

fn name(unit: LogUnit) -> &'static str {
    match unit {
        LogUnit::Nanoseconds => "nanoseconds",
        LogUnit::Microseconds => "microseconds",
        LogUnit::Milliseconds => "milliseconds",
    }
}

fn endpoint((tag, mut answers): (String, LatencyHistogram)) -> SeenEndpoint {
    answers.compact();
    SeenEndpoint {
        name: tag,
        method: "?".to_owned(),
        path: "?".to_owned(),
        completed: answers.count(),
        errors: BTreeMap::new(),
        cut_off: 0,
        times: SeenTimes::All {
            answers,
            failures: LatencyHistogram::new(),
        },
        body_bytes: 0,
    }
}

impl Log {
    /// `[StartTime: 1441812279.474 (seconds since epoch), Wed Sep 09 …]`
    fn comment(&mut self, comment: &str) {
        let comment = comment.trim_start_matches('[');
        let seconds = |rest: &str| -> Option<f64> {
            let number = rest.trim_start().split([' ', ',', ']']).next()?;
            number
                .parse()
                .ok()
                .filter(|seconds: &f64| seconds.is_finite())
        };
        if let Some(rest) = comment.strip_prefix("StartTime:") {
            self.start = seconds(rest);
        } else if let Some(rest) = comment.strip_prefix("BaseTime:") {
            self.base = seconds(rest);
        } else if comment.starts_with(OURS) {
            self.is_ours = true;
        }
    }

    /// `Tag=name,0.127,1.007,2.769,HISTFAAA…`
    fn interval(&mut self, line: &str, unit: LogUnit) -> Result<(), String> {
        let (tag, rest) = match line.strip_prefix("Tag=") {
            Some(tagged) => {
                let split = tagged.split_once(',');
                split.ok_or_else(|| "a tag without an interval behind it".to_owned())?
            }
            None => (UNTAGGED, line),
        };
        let fields: Vec<&str> = rest.split(',').map(str::trim).collect();
        let [start, length, _longest, histogram] = fields.as_slice() else {
            return Err(format!(
                "{} fields, expected start, length, maximum and histogram",
                fields.len()
            ));
        };
        let seconds = |name: &str, text: &str| {
            let number = text.parse().ok();
            let number = number.filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
            number.ok_or_else(|| format!("{name} {text:?}, expected seconds"))
        };
        let start = seconds("start", start)?;
        let length = seconds("length", length)?;
        let bins = decode(histogram).map_err(|error| format!("its histogram is {error}"))?;
        self.first = Some(self.first.map_or(start, |first| first.min(start)));
        self.last = self.last.max(start + length);
        let is_new = !self.tags.contains_key(tag);
        let tag = if is_new && self.tags.len() >= ENDPOINTS_MAX {
            OTHERS
        } else {
            tag
        };
        let times = self.tags.entry(tag.to_owned()).or_default();
        for Bin { middle, count } in bins {
            times.record_us_times(microseconds(middle, unit), count);
        }
        Ok(())
    }

    /// When an interval began, as HdrHistogram's own readers tell it: stamps count from the base
    /// time if there is one, and else from the start if they can't be absolute.
    fn epoch_seconds(&self, stamp: f64) -> Option<Timestamp> {
        let offset = match (self.base, self.start) {
            (Some(base), _) => base,
            (None, Some(start)) if stamp < start - YEAR_SECONDS => start,
            (None, Some(_)) => 0.0,
            (None, None) if stamp > YEAR_SECONDS => 0.0,
            (None, None) => return None,
        };
        let micros = (offset + stamp) * 1e6;
        // A float beyond its range becomes the largest number, which is no time.
        Timestamp::from_microsecond(micros as i64).ok()
    }
}

fn microseconds(value: u64, unit: LogUnit) -> u64 {
    match unit {
        LogUnit::Nanoseconds => value.saturating_add(500) / 1_000,
        LogUnit::Microseconds => value,
        LogUnit::Milliseconds => value.saturating_mul(1_000),
    }
}
