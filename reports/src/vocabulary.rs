//! The words and signs of a report, in one place, so that every format says the
//! same thing in the same words and no meaning hangs on a colour alone.

use unstall_results::comparison::{Cell, Decision, Metric, Outcome, Verdict};
use unstall_results::record::ErrorKind;
use unstall_results::summary::Summary;

use crate::numbers;

/// The verdict as a word.
pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Regression => "regression",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Invalid => "invalid",
    }
}

/// A sign beside the word, distinct in shape.
pub(crate) fn verdict_sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "✓",
        Verdict::Regression => "✕",
        Verdict::Inconclusive => "?",
        Verdict::Invalid => "⊘",
    }
}

/// The sign and the word.
pub(crate) fn verdict_in_words(of: Verdict) -> String {
    format!("{} {}", verdict_sign(of), verdict(of))
}

/// What a verdict means, for a reader who meets the word for the first time.
pub(crate) fn verdict_meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "every judged cell is within its harm limit",
        Verdict::Regression => {
            "at least one judged cell is significantly worse, or an objective is missed"
        }
        Verdict::Inconclusive => "not enough evidence either way",
        Verdict::Invalid => "a fault of the measurement itself: do not use the numbers",
    }
}

/// Whether something that was wanted holds: a sign and a word.
pub(crate) fn holds(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "✓ holds",
        Some(false) => "✕ does not hold",
        None => "? not known",
    }
}

/// The decision for a step, as a word.
pub(crate) fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::Keep => "keep",
        Decision::Revert => "revert",
        Decision::Undecided => "undecided",
    }
}

/// Why a watched loop could not go on, as words; one that this version doesn't know as it is.
pub(crate) fn cause_class(class: &str) -> &str {
    match class {
        "io" => "I/O",
        "lock" => "lock",
        "sleep" => "sleep",
        "spawn" => "child process",
        "gil" => "interpreter lock",
        "log" => "log",
        "fault" => "page fault",
        "cpu" => "CPU",
        "runqueue" => "wait for a core",
        "unknown" => "unnamed wait",
        other => other,
    }
}

/// Short name of a metric, as it stands in a row.
pub(crate) fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::ResponseP50 => "p50",
        Metric::ResponseP95 => "p95",
        Metric::ResponseP99 => "p99",
        Metric::TtftP50 => "first item p50",
        Metric::TtftP95 => "first item p95",
        Metric::ErrorRate => "errors",
        Metric::BlockedMsPer1000 => "blocked per 1\u{202F}000",
        Metric::Threads => "threads",
        Metric::CpuUsPerRequest => "CPU per request",
        Metric::Throughput => "throughput",
        Metric::RssMib => "memory",
        Metric::ProbeP90 => "bystander p90",
    }
}

/// What an objective without an endpoint is about.
pub(crate) const ALL_REQUESTS: &str = "all requests";

/// The cell's endpoint, not yet escaped.
pub(crate) fn cell_endpoint(cell: &Cell) -> &str {
    cell.endpoint.as_deref().unwrap_or("whole service")
}

/// What follows from a cell: a sign and words.
pub(crate) fn outcome(cell: &Cell) -> (&'static str, String) {
    match cell.outcome {
        Outcome::Regression => ("✕", "worse".to_owned()),
        Outcome::Improvement => ("✓", "better".to_owned()),
        Outcome::WithinLimit => ("=", "within limit".to_owned()),
        Outcome::Inconclusive {
            pairs_needed: Some(pairs),
        } => ("?", format!("can’t tell, needs about {pairs} pairs")),
        Outcome::Inconclusive { pairs_needed: None } => ("?", "can’t tell".to_owned()),
        Outcome::Insufficient { requests_needed: 0 } => ("·", "insufficient data".to_owned()),
        Outcome::Insufficient { requests_needed } => (
            "·",
            format!(
                "insufficient data, needs {} requests per block",
                numbers::count(requests_needed)
            ),
        ),
        Outcome::Pooled => ("·", "all blocks together".to_owned()),
        Outcome::Saturated => ("·", "saturated".to_owned()),
        Outcome::NotMeasured => ("·", "not measured".to_owned()),
    }
}

/// Which way a change went, as a sign for the eye, read from the number as it is
/// shown: what rounds to nothing has no direction.
pub(crate) fn arrow(shown_change: &str) -> &'static str {
    match shown_change.chars().next() {
        Some('−' | '<') => "▼",
        Some('+' | '×') => "▲",
        _ => "=",
    }
}

/// What a reader must know about a cell, where its outcome does not say it already.
pub(crate) fn note(cell: &Cell) -> Option<&str> {
    match cell.outcome {
        Outcome::Insufficient {
            requests_needed: 1..,
        } => None,
        _ => cell.note.as_deref(),
    }
}

/// Whether a criterion was met, as a sign and a word.
pub(crate) fn criterion(met: Option<bool>) -> (&'static str, &'static str) {
    match met {
        Some(true) => ("✓", "met"),
        Some(false) => ("✕", "not met"),
        None => ("?", "can’t tell"),
    }
}

/// Why a request failed.
pub(crate) fn error_kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Status => "unexpected status",
        ErrorKind::Connect => "no connection",
        ErrorKind::Dns => "name not resolved",
        ErrorKind::Tls => "TLS handshake",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Reset => "connection reset",
        ErrorKind::Protocol => "not HTTP",
        ErrorKind::Decode => "body not decodable",
        ErrorKind::CheckFailed => "check failed",
        ErrorKind::Truncated => "stream truncated",
    }
}

/// `1 pair`, `10 pairs`.
pub(crate) fn plural(count: u64, one: &str, many: &str) -> String {
    format!(
        "{}\u{202F}{}",
        numbers::count(count),
        if count == 1 { one } else { many }
    )
}

/// What is known of a whole service in one line: rate, CPU, threads, memory, blocked time.
pub(crate) fn whole_service(summary: &Summary) -> String {
    let shown = |of: Metric, value: Option<f64>| value.map(|value| numbers::value(of, value));
    let saturated = summary.is_saturated.then(|| "saturated".to_owned());
    let parts = [
        saturated,
        summary.arrivals.clone(),
        shown(Metric::Throughput, Some(summary.throughput_per_second)),
        shown(Metric::BlockedMsPer1000, summary.blocked_ms_per_1000)
            .map(|blocked| format!("blocked {blocked} per 1\u{202F}000 requests")),
        shown(Metric::CpuUsPerRequest, summary.cpu_us_per_request)
            .map(|cpu| format!("CPU {cpu} per request")),
        shown(Metric::Threads, summary.threads).map(|threads| format!("threads {threads}")),
        shown(Metric::RssMib, summary.rss_mib).map(|memory| format!("memory {memory}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}
