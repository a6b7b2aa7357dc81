//! A whole measurement in Prometheus' text form, for node_exporter's textfile collector: what the
//! last measurement said, and when.

use std::fmt::{Display, Write as _};

use unstall_results::capacity::{self, Capacity};
use unstall_results::level::Level;
use unstall_results::record::RunRecord;
use unstall_results::summary::{Summary, summarise};

/// One family of samples, all gauges: each measurement stands for itself.
struct Family {
    name: &'static str,
    help: &'static str,
    samples: Vec<(Labels, f64)>,
}

/// Names and values.
type Labels = Vec<(&'static str, String)>;

/// Renders the samples of all records.
pub(super) fn render(records: &[&RunRecord]) -> String {
    let mut families = families();
    for record in records {
        for summary in summarise(record) {
            add_summary(&mut families, record, &summary);
        }
        add_blocks(&mut families, record);
        add_capacity(&mut families, record);
    }
    let mut text = String::new();
    for family in families.iter().filter(|of| !of.samples.is_empty()) {
        let Family { name, help, .. } = family;
        // Writing to a string can't fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in &family.samples {
            let labels: Vec<String> = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
        }
    }
    text
}

const REQUESTS: usize = 0;
const RESPONSE: usize = 1;
const RESPONSE_MAX: usize = 2;
const THROUGHPUT: usize = 3;
const BLOCKS: usize = 4;
const CAPACITY: usize = 5;
const MEASURED: usize = 6;

fn families() -> [Family; 7] {
    let family = |name, help| Family {
        name,
        help,
        samples: Vec::new(),
    };
    [
        family(
            "unstall_requests",
            "Requests of the valid blocks, by how they ended.",
        ),
        family(
            "unstall_response_seconds",
            "Quantiles of response time from the intended moment; failures count as slower.",
        ),
        family(
            "unstall_response_max_seconds",
            "Longest response time of a request that succeeded.",
        ),
        family(
            "unstall_throughput_per_second",
            "Requests that succeeded, per second of load.",
        ),
        family(
            "unstall_blocks",
            "Stretches of load, by whether their numbers may be used.",
        ),
        family(
            "unstall_capacity_per_second",
            "Highest rate of arrivals at which the objective holds: its estimate and interval.",
        ),
        family(
            "unstall_measured_timestamp_seconds",
            "When the measurement began.",
        ),
    ]
}

fn of_record(record: &RunRecord) -> Labels {
    vec![("scenario", record.scenario.name.clone())]
}

fn of_arm(record: &RunRecord, arm: &str) -> Labels {
    let mut labels = of_record(record);
    labels.push(("arm", arm.to_owned()));
    labels
}

fn with(labels: &Labels, name: &'static str, value: impl Display) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.to_string()));
    labels
}

fn add_summary(families: &mut [Family], record: &RunRecord, summary: &Summary) {
    let level = match summary.level {
        Level::Users(users) => format!("c={users}"),
        other => other.to_string(),
    };
    let labels = with(&of_arm(record, &summary.arm), "level", level);
    let Some(endpoint) = &summary.endpoint else {
        let throughput = (labels, summary.throughput_per_second);
        families[THROUGHPUT].samples.push(throughput);
        return;
    };
    let labels = with(&labels, "endpoint", endpoint);
    let completed = (
        with(&labels, "outcome", "completed"),
        float(summary.completed),
    );
    families[REQUESTS].samples.push(completed);
    for (kind, count) in &summary.errors {
        let labels = with(&labels, "outcome", kind.as_str());
        families[REQUESTS].samples.push((labels, float(*count)));
    }
    for percentile in &summary.percentiles {
        // Too few requests for an interval are too few for the quantile, and a bound is no value.
        let estimate = &percentile.estimate;
        if let Some(ms) = estimate
            .value
            .filter(|_| estimate.low.is_some() && !estimate.at_least)
        {
            let labels = with(&labels, "quantile", percentile.q);
            families[RESPONSE].samples.push((labels, ms / 1e3));
        }
    }
    if let Some(us) = summary.response_us_max {
        families[RESPONSE_MAX]
            .samples
            .push((labels, float(us) / 1e6));
    }
}

fn add_blocks(families: &mut [Family], record: &RunRecord) {
    for arm in record.arms.keys() {
        for valid in [true, false] {
            let blocks = record.blocks.iter();
            let count = blocks
                .filter(|block| block.arm == *arm && block.validity.ok == valid)
                .count();
            let labels = with(&of_arm(record, arm), "valid", valid);
            families[BLOCKS].samples.push((labels, float(count as u64)));
        }
    }
    if let Ok(began) = record.created_utc.parse::<jiff::Timestamp>() {
        let sample = (of_record(record), began.as_duration().as_secs_f64());
        families[MEASURED].samples.push(sample);
    }
}

fn add_capacity(families: &mut [Family], record: &RunRecord) {
    // An objective that can't be read is told where the record is judged.
    let Ok(Some(finding)) = capacity::find(record) else {
        return;
    };
    for arm in finding.arms {
        let bounds = match arm.capacity {
            Capacity::Found {
                rate, low, high, ..
            } => vec![("estimate", rate), ("low", low), ("high", high)],
            Capacity::AtLeast { rate, .. } => vec![("low", rate)],
            Capacity::Below { rate } => vec![("high", rate)],
            Capacity::Unknown => Vec::new(),
        };
        for (bound, rate) in bounds {
            let labels = with(&of_arm(record, &arm.arm), "bound", bound);
            families[CAPACITY].samples.push((labels, rate));
        }
    }
}

/// Exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts and times below 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}

/// A label's value may hold anything but these as they are.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
