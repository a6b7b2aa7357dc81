//! Prometheus' text exposition format 0.0.4: families, samples, labels and how they are escaped.

use std::fmt::Write as _;

use crate::wire::Histogram;

/// A page that grows family by family.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) text: String,
}

/// Upper bounds of the buckets that are exposed, 2 µs to 16.8 s: always the same ones, so that
/// histograms of several moments and processes can be added. What is above is in `+Inf` only.
const BUCKET_BOUNDS_US: [u64; 24] = {
    let mut bounds = [0; 24];
    let mut index = 0;
    while index < bounds.len() {
        bounds[index] = 2 << index;
        index += 1;
    }
    bounds
};

pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    /// Begins a family; its samples follow.
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// Without a sum of its own, a histogram's sum is taken from the buckets' lower bounds.
    pub(crate) fn histogram(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        histogram: &Histogram,
        sum_ns: Option<u64>,
    ) {
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (index, bound) in BUCKET_BOUNDS_US.iter().enumerate() {
            below += histogram.log2_us.get(index).unwrap_or(&0);
            let bound = (*bound as f64 / 1e6).to_string();
            self.sample(&bucket, &with(labels, "le", &bound), below as f64);
        }
        let total: u64 = histogram.log2_us.iter().sum();
        self.sample(&bucket, &with(labels, "le", "+Inf"), total as f64);
        let sum = sum_ns.unwrap_or_else(|| sum_floor_ns(histogram));
        self.sample(&format!("{name}_sum"), labels, seconds(sum));
        self.sample(&format!("{name}_count"), labels, total as f64);
    }

    pub(crate) fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        let mut text = String::new();
        for (index, (label, value)) in labels.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            text.push_str(&format!("{comma}{label}=\"{}\"", escaped(value)));
        }
        if text.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{text}}} {value}"));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "{line}");
    }
}

fn sum_floor_ns(histogram: &Histogram) -> u64 {
    // Bucket 0 begins at 0, and a shift beyond u64 can't come from the monitor's 40 buckets.
    let floor_us = |index: usize| 1u64.checked_shl(u32::try_from(index).unwrap_or(u32::MAX));
    (1..)
        .zip(histogram.log2_us.iter().skip(1))
        .filter_map(|(index, count)| floor_us(index)?.checked_mul(*count))
        .fold(0, |sum: u64, us| {
            sum.saturating_add(us.saturating_mul(1_000))
        })
}

fn with<'a>(labels: Labels<'a>, name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut labels = labels.to_vec();
    labels.push((name, value));
    labels
}

/// Base units, as the format asks.
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Backslash, quote and line feed, as the format asks.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
