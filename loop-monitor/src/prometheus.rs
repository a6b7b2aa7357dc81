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

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    fn requests(&mut self, snapshot: &Snapshot) {
        self.per_endpoint(
            snapshot,
            "unstall_requests_total",
            "Requests begun.",
            |endpoint| endpoint.requests as f64,
        );
        self.per_endpoint(
            snapshot,
            "unstall_polls_total",
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
            "Time in which the thread slept inside a poll.",
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
            self.family(name, "histogram", "Delay of a timer beyond its due time.");
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
        help: &str,
        value: impl Fn(&Endpoint) -> f64,
    ) {
        self.family(name, "counter", help);
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

    /// Without a sum of its own, a histogram's sum is estimated from the buckets' lower bounds.
    fn histogram(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        histogram: &Histogram,
        sum_ns: Option<u64>,
    ) {
        let mut total = 0;
        let mut floor_us = 0.0;
        let bucket = format!("{name}_bucket");
        for (index, count) in histogram.log2_us.iter().enumerate() {
            total += count;
            let upper_us = 2f64.powi(i32::try_from(index).unwrap_or(i32::MAX).saturating_add(1));
            if index > 0 {
                floor_us += *count as f64 * upper_us / 2.0;
            }
            let upper = (upper_us / 1e6).to_string();
            self.sample(&bucket, &with(labels, "le", &upper), total as f64);
        }
        self.sample(&bucket, &with(labels, "le", "+Inf"), total as f64);
        let sum = sum_ns.map_or(floor_us / 1e6, seconds);
        self.sample(&format!("{name}_sum"), labels, sum);
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
