//! What oha prints with `--output-format json`.
//!
//! Its times run from taking a request up, connecting included where it connects, to the answer's
//! end, whatever the status was; with a rate and its option for it, from the moment at which the
//! request was due. The document tells neither the rate nor the number of connections.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::seen::{Seen, SeenEndpoint, SeenLoad, SeenTimes};
use super::{ImportError, malformed, wrk};
use crate::record::{ErrorKind, StatedPercentile};
use crate::validate::saturating_sum;

/// What is read of the document; the rest of it is left alone.
#[derive(Debug, Deserialize)]
struct Document {
    summary: Summary,
    #[serde(rename = "latencyPercentiles")]
    percentiles: BTreeMap<String, Option<f64>>,
    #[serde(rename = "statusCodeDistribution")]
    statuses: BTreeMap<String, u64>,
    #[serde(rename = "errorDistribution", default)]
    errors: BTreeMap<String, u64>,
}

/// Times are in seconds.
#[derive(Debug, Deserialize)]
struct Summary {
    total: f64,
    slowest: Option<f64>,
    fastest: Option<f64>,
    #[serde(rename = "totalData")]
    bytes: Option<u64>,
}

/// How oha calls what was under way when its time was over.
const CUT_OFF: &str = "aborted due to deadline";

pub(super) fn read(text: &str, origin: &Path) -> Result<Seen, ImportError> {
    let document: Document = serde_json::from_str(text).map_err(|error| {
        malformed(
            origin,
            error.line().max(1),
            format!("not the JSON document of oha: {error}"),
            "run oha with --output-format json (older: -j)",
        )
    })?;
    let summary = &document.summary;
    let wall = Duration::try_from_secs_f64(summary.total)
        .map_err(|error| malformed(origin, 1, format!("summary.total: {error}"), super::REPORT))?;
    let mut errors: BTreeMap<ErrorKind, u64> = BTreeMap::new();
    let mut add = |kind, count| {
        let sum = errors.entry(kind).or_insert(0);
        *sum = u64::saturating_add(*sum, count);
    };
    let mut completed = 0u64;
    let mut refused = 0u64;
    for (status, count) in &document.statuses {
        match status.parse() {
            Ok(200..=399u16) => completed = completed.saturating_add(*count),
            _ => refused = refused.saturating_add(*count),
        }
    }
    if refused > 0 {
        add(ErrorKind::Status, refused);
    }
    let mut cut_off = 0;
    for (words, count) in &document.errors {
        if words == CUT_OFF {
            cut_off = *count;
        } else {
            add(kind(words), *count);
        }
    }
    let mut missing = Vec::new();
    if refused > 0 {
        missing.push(format!(
            "Which times are those of the {refused} answers with a status that is no success: they \
             are among the others."
        ));
    }
    Ok(Seen {
        tool: "oha",
        times: Some("from taking the request up, with connecting, to the end of the answer"),
        begun: None,
        wall,
        recorded: None,
        load: SeenLoad::Unknown,
        url: None,
        endpoints: vec![SeenEndpoint {
            name: "all requests".to_owned(),
            method: "?".to_owned(),
            path: "?".to_owned(),
            completed,
            errors: errors.clone(),
            cut_off,
            times: SeenTimes::Stated(stated(&document, origin)?),
            body_bytes: summary.bytes.unwrap_or(0),
        }],
        missing: missing.into_iter().chain(other_errors(&document)).collect(),
    })
}

/// Failures in oha's words, without those that the end of the run cut off.
fn others_of(document: &Document) -> impl Iterator<Item = (&String, &u64)> {
    let errors = document.errors.iter();
    errors.filter(|(words, _)| *words != CUT_OFF)
}

/// Failures as oha words them.
fn other_errors(document: &Document) -> Option<String> {
    let words: Vec<String> = others_of(document)
        .map(|(words, count)| format!("{count} × {words}"))
        .collect();
    (!words.is_empty()).then(|| {
        let sum = saturating_sum(others_of(document).map(|(_, count)| *count));
        format!(
            "Of what kind {sum} failures are, beyond the tool's words: {}.",
            words.join("; ")
        )
    })
}

fn kind(words: &str) -> ErrorKind {
    let words = words.to_lowercase();
    if words.contains("timeout") || words.contains("timed out") {
        ErrorKind::Timeout
    } else if words.contains("dns") || words.contains("resolve") {
        ErrorKind::Dns
    } else if words.contains("tls") || words.contains("certificate") {
        ErrorKind::Tls
    } else if words.contains("connect") || words.contains("refused") {
        ErrorKind::Connect
    } else {
        ErrorKind::Reset
    }
}

/// `p50`, `p99.9`; fastest and slowest beside them.
fn stated(document: &Document, origin: &Path) -> Result<Vec<StatedPercentile>, ImportError> {
    let mut stated = Vec::new();
    let summary = &document.summary;
    let ends = [(0.0, summary.fastest), (1.0, summary.slowest)];
    for (share, seconds) in ends {
        stated.extend(seconds.map(|seconds| StatedPercentile {
            share,
            us: seconds * 1e6,
        }));
    }
    for (name, seconds) in &document.percentiles {
        let percent: Option<f64> = name.strip_prefix('p').and_then(|text| text.parse().ok());
        let Some(percent) = percent.filter(|percent| (0.0..=100.0).contains(percent)) else {
            return Err(malformed(
                origin,
                1,
                format!("latencyPercentiles: {name:?}, expected a name like p99"),
                super::REPORT,
            ));
        };
        stated.extend(seconds.map(|seconds| StatedPercentile {
            share: percent / 100.0,
            us: seconds * 1e6,
        }));
    }
    if stated.iter().any(|of| !of.us.is_finite() || of.us < 0.0) {
        let fix = "give the document as oha wrote it";
        return Err(malformed(origin, 1, "a time below 0", fix));
    }
    Ok(wrk::ascending(stated))
}
