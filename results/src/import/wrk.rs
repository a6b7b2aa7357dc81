//! What wrk prints, with `--latency`.
//!
//! Its times run from the first written byte to the answer's end, whatever the status was, and are
//! kept to two decimals. It states four percentiles and the longest.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;

use super::ImportError;
use super::lines::Lines;
use super::quantity::{bytes, share, time_us};
use super::seen::{Seen, SeenEndpoint, SeenLoad, SeenTimes};
use crate::record::{ErrorKind, StatedPercentile};

/// What wrk and wrk2 have in common.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) url: Option<String>,
    pub(super) connections: Option<u32>,
    /// Longest, of the statistics of all threads.
    pub(super) longest_us: Option<f64>,
    requests: Option<u64>,
    wall: Option<Duration>,
    read_bytes: u64,
    errors: BTreeMap<ErrorKind, u64>,
    /// Requests that took longer than the tool's timeout; it counts them and goes on waiting.
    timeouts: u64,
}

pub(super) fn read<R: BufRead>(lines: &mut Lines<R>) -> Result<Seen, ImportError> {
    let mut printed = Printed::default();
    let mut stated = Vec::new();
    let mut is_table = false;
    while let Some(line) = lines.next()? {
        let line = line.trim().to_owned();
        if line.starts_with("Latency Distribution (HdrHistogram") {
            return Err(lines.wrong("this is wrk2's output", "import it as wrk2"));
        }
        if line == "Latency Distribution" {
            is_table = true;
        } else if let Some(percentile) = percentile(&line).filter(|_| is_table) {
            stated.push(percentile);
        } else {
            is_table = false;
            printed.read(&line, lines)?;
        }
    }
    if stated.is_empty() {
        return Err(lines.wrong(
            "no \"Latency Distribution\"",
            "run wrk with --latency, and give all that it prints",
        ));
    }
    if let Some(us) = printed.longest_us {
        stated.push(StatedPercentile { share: 1.0, us });
    }
    let connections = printed.connections;
    let load = |users| SeenLoad::Closed { users };
    let mut seen = printed.seen("wrk", load(connections.unwrap_or(0)), stated, lines)?;
    if connections.is_none() {
        return Err(lines.wrong(
            "no line \"N threads and M connections\"",
            "give all that wrk printed, from its first line on",
        ));
    }
    seen.times = Some("from the first byte written to the end of the answer");
    Ok(seen)
}

/// `50%  250.00us`, `99.999%   12.35ms`.
pub(super) fn percentile(line: &str) -> Option<StatedPercentile> {
    let (first, second) = line.split_once(char::is_whitespace)?;
    Some(StatedPercentile {
        share: share(first)?,
        us: time_us(second.trim())?,
    })
}

impl Printed {
    /// Takes what a line tells; most of them tell nothing that is needed.
    pub(super) fn read<R: BufRead>(
        &mut self,
        line: &str,
        lines: &Lines<R>,
    ) -> Result<(), ImportError> {
        let wrong = |what: &str| {
            Err(lines.wrong(
                format!("{line:?}, expected {what}"),
                "give all that the tool printed, as it was",
            ))
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Running", _, "test", "@", url] => self.url = Some((*url).to_owned()),
            [_, "threads", "and", count, "connections"] => match count.parse() {
                Ok(count) => self.connections = Some(count),
                Err(_) => return wrong("a number of connections"),
            },
            ["Latency", _, _, longest, _] => match time_us(longest) {
                Some(us) => self.longest_us = Some(us),
                None => return wrong("the longest time in the third column"),
            },
            [count, "requests", "in", time, read, "read"] => {
                let time = time.trim_end_matches(',');
                match (count.parse(), time_us(time), bytes(read)) {
                    (Ok(count), Some(us), Some(bytes)) => {
                        self.requests = Some(count);
                        self.wall = Some(Duration::from_secs_f64(us.min(1e15) / 1e6));
                        self.read_bytes = bytes;
                    }
                    _ => return wrong("requests, a time and bytes"),
                }
            }
            ["Socket", "errors:", rest @ ..] if self.read_socket_errors(rest).is_none() => {
                return wrong("numbers of connect, read, write and timeout");
            }
            ["Non-2xx", "or", "3xx", "responses:", count] => match count.parse() {
                Ok(count) => {
                    self.errors.insert(ErrorKind::Status, count);
                }
                Err(_) => return wrong("a number of responses"),
            },
            _ => {}
        }
        Ok(())
    }

    /// `connect 0, read 0, write 0, timeout 3`.
    fn read_socket_errors(&mut self, words: &[&str]) -> Option<()> {
        for pair in words.chunks(2) {
            let [name, count] = pair else {
                return None;
            };
            let count: u64 = count.trim_end_matches(',').parse().ok()?;
            let kind = match *name {
                "connect" => ErrorKind::Connect,
                "read" | "write" => ErrorKind::Reset,
                "timeout" => {
                    self.timeouts = count;
                    continue;
                }
                _ => return None,
            };
            let sum = self.errors.entry(kind).or_insert(0);
            *sum = sum.saturating_add(count);
        }
        Some(())
    }

    /// All of it, with these percentiles.
    pub(super) fn seen<R: BufRead>(
        self,
        tool: &'static str,
        load: SeenLoad,
        stated: Vec<StatedPercentile>,
        lines: &Lines<R>,
    ) -> Result<Seen, ImportError> {
        let (Some(requests), Some(wall)) = (self.requests, self.wall) else {
            return Err(lines.wrong(
                "no line like \"1000 requests in 10.00s, 1.00MB read\"",
                "give all that the tool printed; it prints this when it is over",
            ));
        };
        let mut missing = Vec::new();
        let refused = self.errors.get(&ErrorKind::Status).copied().unwrap_or(0);
        if refused > 0 {
            missing.push(format!(
                "Which times are those of the {refused} answers with a status of 400 or more: they \
                 are among the others."
            ));
        }
        if self.timeouts > 0 {
            missing.push(format!(
                "What became of {} requests that took longer than the tool's timeout: it goes on \
                 waiting for them.",
                self.timeouts
            ));
        }
        let url = self.url.as_deref();
        let path = url.map_or_else(|| "/".to_owned(), path_of);
        let errors = self.errors.into_iter().filter(|(_, count)| *count > 0);
        Ok(Seen {
            tool,
            times: None,
            begun: None,
            wall,
            recorded: None,
            load,
            endpoints: vec![SeenEndpoint {
                name: path.clone(),
                // A script may have sent anything.
                method: "?".to_owned(),
                path,
                completed: requests.saturating_sub(refused),
                errors: errors.collect(),
                cut_off: 0,
                times: SeenTimes::Stated(ascending(stated)),
                body_bytes: self.read_bytes,
            }],
            url: self.url,
            missing,
        })
    }
}

/// `http://host/a?b` → `/a`.
pub(super) fn path_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    rest.find('/')
        .map_or("/", |slash| &rest[slash..])
        .to_owned()
}

/// By share. Times are rounded as they are printed, so that one may stand a digit below another
/// with a lower share: it is raised to that.
pub(super) fn ascending(mut stated: Vec<StatedPercentile>) -> Vec<StatedPercentile> {
    stated.sort_by(|one, other| {
        let by_share = one.share.total_cmp(&other.share);
        by_share.then(one.us.total_cmp(&other.us))
    });
    let mut longest = 0.0f64;
    for percentile in &mut stated {
        longest = longest.max(percentile.us);
        percentile.us = longest;
    }
    stated
}
