//! A snapshot in Prometheus' text exposition format 0.0.4: base units, one family at a time.

use std::fmt::Write as _;

use crate::wire::{Blocked, Endpoint, Histogram, Snapshot};

/// Renders every counter of a snapshot.
pub(crate) fn render(snapshot: &Snapshot) -> String {
    let mut page = Page::default();
    page.requests(snapshot);
    page.holds(snapshot);
    page.blocked(snapshot);
    page.process(snapshot);
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
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

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    fn requests(&mut self, snapshot: &Snapshot) {
        self.per_endpoint(
            snapshot,
            "unstall_requests_total",
            "counter",
            "Requests begun.",
            |endpoint| endpoint.requests as f64,
        );
        self.per_endpoint(
            snapshot,
            "unstall_polls_total",
            "counter",
            "Polls of handlers and bodies.",
            |endpoint| endpoint.polls as f64,
        );
    }

    fn holds(&mut self, snapshot: &Snapshot) {
        let name = "unstall_hold_seconds";
        self.family(
            name,
            "histogram",
            "Wall time of a poll, in which its loop did nothing else.",
        );
        for (key, endpoint) in &snapshot.endpoints {
            let (method, route) = split_key(key);
            let labels = [("method", method), ("route", route)];
            self.histogram(name, &labels, &endpoint.hold, Some(endpoint.hold_ns_sum));
        }
        self.per_endpoint(
            snapshot,
            "unstall_request_hold_seconds_max",
            "gauge",
            "Largest sum of one request's polls since the process started.",
            |endpoint| seconds(endpoint.request_hold_ns_max),
        );
        self.family(
            "unstall_holds_over_total",
            "counter",
            "Polls longer than 1, 10 and 100 ms.",
        );
        for (key, endpoint) in &snapshot.endpoints {
            let (method, route) = split_key(key);
            let over = endpoint.holds_over;
            for (level, count) in [
                ("0.001", over.ms_1),
                ("0.01", over.ms_10),
                ("0.1", over.ms_100),
            ] {
                let labels = [("method", method), ("route", route), ("over", level)];
                self.sample("unstall_holds_over_total", &labels, count as f64);
            }
        }
    }

    fn blocked(&mut self, snapshot: &Snapshot) {
        let name = "unstall_blocked_seconds_total";
        self.family(
            name,
            "counter",
            "Time a poll kept its thread waiting, by class: slept (gave up its core) or fault (page from disk).",
        );
        let none = ("*", "(unattributed)");
        let all = snapshot
            .endpoints
            .iter()
            .map(|(key, endpoint)| (split_key(key), &endpoint.blocked))
            .chain([(none, &snapshot.unattributed)]);
        let all: Vec<((&str, &str), &Blocked)> = all.collect();
        for ((method, route), blocked) in &all {
            for (class, ns) in [("slept", blocked.slept_ns), ("fault", blocked.fault_ns)] {
                let labels = [("method", *method), ("route", *route), ("class", class)];
                self.sample(name, &labels, seconds(ns));
            }
        }
        let name = "unstall_blocked_polls_total";
        self.family(
            name,
            "counter",
            "Polls that were blocked for at least 200 microseconds.",
        );
        for ((method, route), blocked) in &all {
            let labels = [("method", *method), ("route", *route)];
            self.sample(name, &labels, blocked.events_over_200us as f64);
        }
    }

    fn process(&mut self, snapshot: &Snapshot) {
        self.family("unstall_threads", "gauge", "Threads of the process.");
        let threads = snapshot.threads;
        for (kind, count) in [
            ("worker", threads.workers),
            ("pool", threads.pool),
            ("other", threads.other),
        ] {
            self.sample("unstall_threads", &[("kind", kind)], count as f64);
        }
        if let Some(lag) = &snapshot.loop_lag {
            let name = "unstall_loop_lag_seconds";
            self.family(
                name,
                "histogram",
                "Delay of a timer beyond its due time; the sum is a lower bound.",
            );
            self.histogram(name, &[], lag, None);
        }
        let runtime = &snapshot.runtime_metrics;
        for (name, kind, help, value) in [
            (
                "unstall_loop_busy_seconds_total",
                "counter",
                "Time that workers were busy.",
                seconds(runtime.busy_ns),
            ),
            (
                "unstall_loop_parks_total",
                "counter",
                "Times that a worker parked.",
                runtime.parks as f64,
            ),
            (
                "unstall_tasks_alive",
                "gauge",
                "Tasks alive now.",
                runtime.alive_tasks as f64,
            ),
            (
                "unstall_global_queue_depth",
                "gauge",
                "Tasks waiting in the global queue now.",
                runtime.global_queue_depth as f64,
            ),
        ] {
            self.family(name, kind, help);
            self.sample(name, &[], value);
        }
    }

    fn per_endpoint(
        &mut self,
        snapshot: &Snapshot,
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&Endpoint) -> f64,
    ) {
        self.family(name, kind, help);
        for (key, endpoint) in &snapshot.endpoints {
            let (method, route) = split_key(key);
            self.sample(
                name,
                &[("method", method), ("route", route)],
                value(endpoint),
            );
        }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// Without a sum of its own, a histogram's sum is taken from the buckets' lower bounds.
    fn histogram(
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

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
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

/// `METHOD route`; a route may hold spaces, a method can't.
fn split_key(key: &str) -> (&str, &str) {
    key.split_once(' ').unwrap_or(("*", key))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Backslash, quote and line feed, as the format asks.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Monitor;
    use crate::wire::RuntimeMetrics;
    use proptest::prelude::*;

    fn snapshot_with(key: &str) -> Snapshot {
        let mut snapshot = Monitor::builder().build().snapshot();
        let blocked = Blocked {
            slept_ns: 1_500_000_000,
            fault_ns: 2_000,
            events_over_200us: 3,
            ..Blocked::default()
        };
        let endpoint = Endpoint {
            requests: 4,
            polls: 9,
            hold_ns_sum: 1_600_000_000,
            request_hold_ns_max: 1_550_000_000,
            hold: Histogram {
                log2_us: vec![5, 0, 4],
            },
            blocked,
            ..Endpoint::default()
        };
        snapshot.endpoints.insert(key.to_owned(), endpoint);
        snapshot.loop_lag = Some(Histogram {
            log2_us: vec![1, 2],
        });
        snapshot.threads = crate::wire::Threads {
            workers: 1,
            pool: 2,
            other: 3,
        };
        snapshot.runtime_metrics = RuntimeMetrics {
            busy_ns: 2_500_000_000,
            alive_tasks: 7,
            global_queue_depth: 0,
            parks: 11,
        };
        snapshot
    }

    struct Sample {
        labels: Vec<(String, String)>,
        value: f64,
    }

    /// One line by the format's grammar, its labels unescaped.
    fn parse(line: &str) -> Option<Sample> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name_end = line.find(|c| !is_name(c))?;
        let mut rest = &line[name_end..];
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while !rest.starts_with('}') {
                let (label, after) = rest.split_once("=\"")?;
                let (value, after) = quoted(after)?;
                labels.push((label.to_owned(), value));
                rest = after.strip_prefix(',').unwrap_or(after);
            }
            rest = &rest[1..];
        }
        let value = rest.strip_prefix(' ')?.parse().ok()?;
        Some(Sample { labels, value })
    }

    /// Up to the closing quote, unescaped, and what follows it.
    fn quoted(text: &str) -> Option<(String, &str)> {
        let mut value = String::new();
        let mut characters = text.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => return Some((value, &text[at + 1..])),
                '\\' => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        }
        None
    }

    #[test]
    fn the_page_reads_as_shown() {
        insta::assert_snapshot!(render(&snapshot_with("GET /users/{id}")));
    }

    proptest! {
        #[test]
        fn every_route_survives_the_format(route in "\\PC*|[\\\\\"\n{}, =]*") {
            let page = render(&snapshot_with(&format!("GET {route}")));
            let mut seen = 0;
            for line in page.lines().filter(|line| !line.starts_with('#')) {
                let sample = parse(line).expect(line);
                prop_assert!(sample.value.is_finite());
                seen += sample
                    .labels
                    .iter()
                    .filter(|(label, value)| label == "route" && *value == route)
                    .count();
            }
            prop_assert!(seen >= 10, "{}", page);
        }
    }
}
