//! What k6 writes with `--summary-export`, or by `handleSummary` and `JSON.stringify`: percentiles
//! of all requests together.
//!
//! `http_req_duration` runs from the first byte sent to the answer's end, whatever the status was;
//! connecting and waiting for a connection are apart from it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::seen::{Seen, SeenEndpoint, SeenLoad, SeenTimes};
use super::{ImportError, malformed, wrk};
use crate::record::{ErrorKind, StatedPercentile};

/// From when to when `http_req_duration` runs.
pub(super) const TIMES: &str = "from the first byte written to the end of the answer";

#[derive(Debug, Deserialize)]
struct Document {
    metrics: BTreeMap<String, BTreeMap<String, Value>>,
}

impl Document {
    /// A number of a metric, which may stand below `values`.
    fn number(&self, metric: &str, name: &str) -> Option<f64> {
        let metric = self.metrics.get(metric)?;
        let value = match metric.get("values") {
            Some(values) => values.get(name),
            None => metric.get(name),
        };
        value?.as_f64()
    }

    /// Names and numbers of a metric.
    fn numbers(&self, metric: &str) -> Vec<(String, f64)> {
        let Some(metric) = self.metrics.get(metric) else {
            return Vec::new();
        };
        let number = |(name, value): (&String, &Value)| Some((name.clone(), value.as_f64()?));
        match metric.get("values").and_then(Value::as_object) {
            Some(values) => values.iter().filter_map(number).collect(),
            None => metric.iter().filter_map(number).collect(),
        }
    }
}

pub(super) fn read(text: &str, origin: &Path) -> Result<Seen, ImportError> {
    const FIX: &str = "give what `k6 run --summary-export FILE` or `--out json=FILE` wrote";
    let document: Document = serde_json::from_str(text).map_err(|error| {
        let message = format!("not a summary of k6: {error}");
        malformed(origin, error.line().max(1), message, FIX)
    })?;
    let absent = |what: &str| malformed(origin, 1, format!("metrics has no {what}"), FIX);
    let count = document
        .number("http_reqs", "count")
        .ok_or_else(|| absent("http_reqs.count"))?;
    let rate = document
        .number("http_reqs", "rate")
        .ok_or_else(|| absent("http_reqs.rate"))?;
    let wall = Duration::try_from_secs_f64(count / rate)
        .map_err(|_| absent("http_reqs.rate above 0, so how long it took can't be told"))?;
    // A rate metric passes when its value is true: here, when the request failed.
    let failed = document
        .number("http_req_failed", "passes")
        .ok_or_else(|| absent("http_req_failed.passes"))?;
    // Floats beyond their range become the largest number.
    let (count, failed) = (count as u64, failed as u64);
    let stated = stated(&document);
    if stated.is_empty() {
        return Err(absent("http_req_duration"));
    }
    let mut missing = vec![
        "Which of its requests took how long: the summary has them all together.".to_owned(),
        "How long requests waited for a connection, and connected.".to_owned(),
    ];
    if failed > 0 {
        missing.push(format!(
            "Of what kind {failed} failures are, and which times are theirs: they are among the \
             others."
        ));
    }
    if let Some(users) = document.number("vus_max", "max") {
        missing.push(format!("How its {users} virtual users were used."));
    }
    let errors = (failed > 0).then_some((ErrorKind::Status, failed));
    Ok(Seen {
        tool: "k6",
        times: Some(TIMES),
        begun: None,
        wall,
        recorded: None,
        load: SeenLoad::Unknown,
        url: None,
        endpoints: vec![SeenEndpoint {
            name: "all requests".to_owned(),
            method: "?".to_owned(),
            path: "?".to_owned(),
            completed: count.saturating_sub(failed),
            errors: errors.into_iter().collect(),
            cut_off: 0,
            times: SeenTimes::Stated(stated),
            body_bytes: document.number("data_received", "count").unwrap_or(0.0) as u64,
        }],
        missing,
    })
}

/// `min`, `med`, `p(95)`, `max`, in ms.
fn stated(document: &Document) -> Vec<StatedPercentile> {
    let share = |name: &str| match name {
        "min" => Some(0.0),
        "med" => Some(0.5),
        "max" => Some(1.0),
        _ => {
            let percent = name.strip_prefix("p(")?.strip_suffix(')')?;
            let percent: f64 = percent.parse().ok()?;
            (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
        }
    };
    let numbers = document.numbers("http_req_duration").into_iter();
    let stated = numbers.filter_map(|(name, ms)| {
        let us = ms * 1_000.0;
        (us.is_finite() && us >= 0.0).then_some(())?;
        Some(StatedPercentile {
            share: share(&name)?,
            us,
        })
    });
    wrk::ascending(stated.collect())
}
