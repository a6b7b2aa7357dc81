//! A snapshot in Prometheus' text exposition format: which families there are, and of what.

use std::collections::BTreeMap;

use crate::exposition::{Page, seconds};
use crate::wire::{Blocked, Endpoint, Pool, PoolJobs, Snapshot};

/// Renders every counter of a snapshot.
pub(crate) fn render(snapshot: &Snapshot) -> String {
    let mut page = Page::default();
    page.requests(snapshot);
    page.holds(snapshot);
    page.blocked(snapshot);
    page.parts(snapshot);
    page.tasks(snapshot);
    // Absent where jobs can't be wrapped.
    if let Some(pool) = &snapshot.pool {
        page.pool(pool);
        page.pool_durations(pool);
    }
    if let Some(counters) = &snapshot.counters {
        page.counters(counters);
    }
    page.process(snapshot);
    page.text
}

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

    /// What a request's time on the loop was for.
    fn parts(&mut self, snapshot: &Snapshot) {
        let holds = "unstall_part_hold_seconds_total";
        let blocked = "unstall_part_blocked_seconds_total";
        for (name, help) in [
            (
                holds,
                "Wall time of polls by part of the request: handler, body, or after it.",
            ),
            (
                blocked,
                "Time that polls kept their thread waiting, by part of the request.",
            ),
        ] {
            self.family(name, "counter", help);
            for (key, endpoint) in &snapshot.endpoints {
                let (method, route) = split_key(key);
                let parts = &endpoint.parts;
                for (part, counters) in [
                    ("handler", &parts.handler),
                    ("body", &parts.body),
                    ("after", &parts.after),
                ] {
                    let labels = [("method", method), ("route", route), ("part", part)];
                    let ns = if name == holds {
                        counters.hold_ns_sum
                    } else {
                        counters.blocked_ns
                    };
                    self.sample(name, &labels, seconds(ns));
                }
            }
        }
    }

    fn tasks(&mut self, snapshot: &Snapshot) {
        let tasks = &snapshot.tasks;
        for (name, help, value) in [
            (
                "unstall_tasks_begun_total",
                "Tasks begun, of those that were wrapped.",
                (|task| task.requests) as fn(&Endpoint) -> u64,
            ),
            ("unstall_task_polls_total", "Polls of tasks.", |task| {
                task.polls
            }),
        ] {
            self.family(name, "counter", help);
            for (task, counters) in tasks {
                self.sample(name, &[("task", task)], value(counters) as f64);
            }
        }
        let name = "unstall_task_hold_seconds";
        let help = "Wall time of a task's poll, in which its loop did nothing else.";
        self.family(name, "histogram", help);
        for (task, counters) in tasks {
            let sum_ns = Some(counters.hold_ns_sum);
            self.histogram(name, &[("task", task)], &counters.hold, sum_ns);
        }
        let name = "unstall_task_blocked_seconds_total";
        let help = "Time a task's poll kept its thread waiting, by class: slept or fault.";
        self.family(name, "counter", help);
        for (task, counters) in tasks {
            let blocked = &counters.blocked;
            for (class, ns) in [("slept", blocked.slept_ns), ("fault", blocked.fault_ns)] {
                self.sample(name, &[("task", task), ("class", class)], seconds(ns));
            }
        }
    }

    fn pool(&mut self, pool: &Pool) {
        for (name, help, value) in [
            (
                "unstall_pool_saturation",
                "Wrapped jobs that run now, as a share of the threads that the pool may have.",
                pool.saturation,
            ),
            (
                "unstall_pool_threads_max",
                "Threads that the blocking pool may have.",
                pool.threads_max as f64,
            ),
        ] {
            self.family(name, "gauge", help);
            self.sample(name, &[], value);
        }
        for (name, kind, help, value) in [
            (
                "unstall_pool_jobs_total",
                "counter",
                "Jobs handed over to the blocking pool, of those that were wrapped.",
                (|jobs| jobs.submitted) as fn(&PoolJobs) -> u64,
            ),
            (
                "unstall_pool_jobs_cancelled_total",
                "counter",
                "Jobs given up before they began.",
                |jobs| jobs.cancelled,
            ),
            (
                "unstall_pool_queued",
                "gauge",
                "Jobs that wait for a thread now.",
                |jobs| jobs.queued,
            ),
            (
                "unstall_pool_running",
                "gauge",
                "Jobs that run now.",
                |jobs| jobs.running,
            ),
        ] {
            self.family(name, kind, help);
            for (job, counters) in &pool.jobs {
                self.sample(name, &[("job", job)], value(counters) as f64);
            }
        }
    }

    fn pool_durations(&mut self, pool: &Pool) {
        let name = "unstall_pool_wait_seconds";
        self.family(name, "histogram", "Time that a job waited for a thread.");
        for (job, counters) in &pool.jobs {
            let sum_ns = Some(counters.wait_ns_sum);
            self.histogram(name, &[("job", job)], &counters.wait, sum_ns);
        }
        let name = "unstall_pool_run_seconds";
        self.family(name, "histogram", "Time that a job kept its thread.");
        for (job, counters) in &pool.jobs {
            let sum_ns = Some(counters.run_ns_sum);
            self.histogram(name, &[("job", job)], &counters.run, sum_ns);
        }
    }

    /// What the service counts by itself.
    fn counters(&mut self, counters: &BTreeMap<String, u64>) {
        let name = "unstall_service_count_total";
        self.family(name, "counter", "What the service counts by itself.");
        for (counter, value) in counters {
            self.sample(name, &[("counter", counter)], *value as f64);
        }
    }

    /// The oldest poll per worker; threads outside of loops share a label.
    fn worker_stall(&mut self, snapshot: &Snapshot) {
        let name = "unstall_worker_poll_age_seconds";
        let help = "Age of the monitored poll that the worker is in now; 0 between polls.";
        self.family(name, "gauge", help);
        let mut ages: BTreeMap<Option<u64>, u64> = BTreeMap::new();
        for worker in &snapshot.workers {
            let age = ages.entry(worker.worker).or_default();
            *age = (*age).max(worker.poll_age_ns.unwrap_or(0));
        }
        for (worker, age_ns) in ages {
            let worker = worker.map_or("none".to_owned(), |worker| worker.to_string());
            self.sample(name, &[("worker", &worker)], seconds(age_ns));
        }
    }

    fn process(&mut self, snapshot: &Snapshot) {
        self.worker_stall(snapshot);
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
}

/// `METHOD route`; a route may hold spaces, a method can't.
fn split_key(key: &str) -> (&str, &str) {
    key.split_once(' ').unwrap_or(("*", key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Monitor;
    use crate::wire::{Histogram, Part, Parts, RuntimeMetrics, Worker};
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
            parts: Parts {
                after: Part {
                    polls: 4,
                    hold_ns_sum: 600_000_000,
                    blocked_ns: 500_000_000,
                },
                ..Parts::default()
            },
            ..Endpoint::default()
        };
        snapshot.tasks.insert(key.to_owned(), endpoint.clone());
        snapshot.endpoints.insert(key.to_owned(), endpoint);
        let jobs = PoolJobs {
            submitted: 5,
            finished: 2,
            queued: 1,
            running: 2,
            wait: Histogram { log2_us: vec![4] },
            wait_ns_sum: 3_000,
            ..PoolJobs::default()
        };
        snapshot.pool = Some(Pool {
            threads_max: 8,
            saturation: 0.25,
            jobs: BTreeMap::from([(key.to_owned(), jobs)]),
            ..Pool::default()
        });
        snapshot.counters = Some(BTreeMap::from([(key.to_owned(), 3)]));
        snapshot.workers = [(Some(0), Some(250_000_000)), (Some(1), None), (None, None)]
            .map(|(worker, poll_age_ns)| Worker {
                thread_id: 7,
                worker,
                poll_age_ns,
                endpoint: None,
            })
            .into();
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
