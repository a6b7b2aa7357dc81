//! What k6 writes with `--out json=FILE`: a JSON object per line, each one a measured value.
//!
//! Every request is there, so that the record has all of its times, by the name that k6 gives it.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::ImportError;
use super::k6_summary::TIMES;
use super::lines::Lines;
use super::seen::{ENDPOINTS_MAX, OTHERS, Seen, SeenEndpoint, SeenLoad, SeenTimes};
use super::wrk::path_of;
use crate::histogram::LatencyHistogram;
use crate::record::ErrorKind;
use crate::wording;

const FIX: &str = "give what `k6 run --out json=FILE` wrote";

/// One line; what isn't needed of it is left alone.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    metric: String,
    data: Data,
}

#[derive(Debug, Deserialize)]
struct Data {
    time: Option<String>,
    value: Option<f64>,
    tags: Option<Tags>,
}

#[derive(Debug, Default, Deserialize)]
struct Tags {
    name: Option<String>,
    url: Option<String>,
    method: Option<String>,
    status: Option<String>,
    expected_response: Option<String>,
    error_code: Option<String>,
}

/// Whether a file of k6 is one of points.
pub(super) fn is_first_line(line: &str) -> bool {
    serde_json::from_str::<Line>(line).is_ok()
}

#[derive(Debug, Default)]
struct Points {
    /// In the order in which they were first seen.
    endpoints: Vec<SeenEndpoint>,
    by_name: BTreeMap<String, usize>,
    begun: Option<Timestamp>,
    ended: Option<Timestamp>,
    users: f64,
    drops: bool,
    /// Requests of which the file doesn't tell whether they failed.
    untold: u64,
    url: Option<String>,
}

pub(super) fn read<R: BufRead>(lines: &mut Lines<R>) -> Result<Seen, ImportError> {
    let mut points = Points::default();
    while let Some(text) = lines.next()? {
        if text.trim().is_empty() {
            continue;
        }
        let line: Line = match serde_json::from_str(text) {
            Ok(line) => line,
            Err(error) => {
                let message = format!("not a point of k6: {error}");
                return Err(lines.wrong(
                    message,
                    "the file is cut short or was edited: copy it again",
                ));
            }
        };
        if line.kind != "Point" {
            continue;
        }
        match line.metric.as_str() {
            "http_req_duration" => points.add(line.data, lines)?,
            "vus" => points.users = points.users.max(line.data.value.unwrap_or(0.0)),
            "dropped_iterations" => points.drops = true,
            _ => {}
        }
    }
    let (Some(begun), Some(ended)) = (points.begun, points.ended) else {
        return Err(lines.wrong("no point of http_req_duration", FIX));
    };
    let mut missing = vec!["How long requests waited for a connection, and connected.".to_owned()];
    if points.users > 0.0 {
        missing.push(format!("How its {} virtual users were used.", points.users));
    }
    if points.drops {
        missing.push("What iterations that k6 dropped would have waited.".to_owned());
    }
    if points.untold > 0 {
        missing.push(format!(
            "Whether {} failed: their points have none of the tags expected_response, error_code and \
             status (`systemTags`), and they count as answers.",
            wording::plural(points.untold, "request")
        ));
    }
    if points.by_name.contains_key(OTHERS) && points.endpoints.len() > ENDPOINTS_MAX {
        missing.push(format!(
            "Requests of more than {ENDPOINTS_MAX} names apart: the last ones are counted together."
        ));
    }
    Ok(Seen {
        tool: "k6",
        times: Some(TIMES),
        begun: Some(begun),
        // It can't be negative: it ends where it begins, or later.
        wall: Duration::try_from(ended.duration_since(begun)).unwrap_or(Duration::ZERO),
        recorded: None,
        load: SeenLoad::Unknown,
        url: points.url,
        endpoints: points.endpoints.into_iter().map(compact).collect(),
        missing,
    })
}

impl Points {
    fn add<R: BufRead>(&mut self, data: Data, lines: &Lines<R>) -> Result<(), ImportError> {
        let ended: Option<Timestamp> = data.time.as_deref().and_then(|time| time.parse().ok());
        let (Some(ended), Some(ms)) = (ended, data.value) else {
            return Err(lines.wrong("a point without its time or value", FIX));
        };
        let Ok(took) = Duration::try_from_secs_f64(ms / 1_000.0) else {
            return Err(lines.wrong(format!("{ms} ms, expected a time from 0"), FIX));
        };
        let begun = SignedDuration::try_from(took)
            .ok()
            .and_then(|took| ended.checked_sub(took).ok())
            .unwrap_or(ended);
        self.begun = Some(self.begun.map_or(begun, |earliest| earliest.min(begun)));
        self.ended = Some(self.ended.map_or(ended, |latest| latest.max(ended)));
        let tags = data.tags.unwrap_or_default();
        let failure = failure(&tags);
        if failure.is_none() {
            self.untold += 1;
        }
        let endpoint = self.endpoint(tags);
        let SeenTimes::All { answers, failures } = &mut endpoint.times else {
            return Ok(());
        };
        match failure.flatten() {
            None => {
                endpoint.completed += 1;
                answers.record(took);
            }
            Some(kind) => {
                *endpoint.errors.entry(kind).or_insert(0) += 1;
                failures.record(took);
            }
        }
        Ok(())
    }

    fn endpoint(&mut self, tags: Tags) -> &mut SeenEndpoint {
        let method = tags.method.unwrap_or_else(|| "?".to_owned());
        let url = tags.url.unwrap_or_default();
        let name = tags.name.unwrap_or_else(|| url.clone());
        // Without a name of its own a request is called by its URL; with one, its URL is not told.
        let is_url = url.contains("://");
        let shown = if name.contains("://") {
            path_of(&name)
        } else {
            name
        };
        let mut name = format!("{method} {shown}");
        if !self.by_name.contains_key(&name) && self.by_name.len() >= ENDPOINTS_MAX {
            OTHERS.clone_into(&mut name);
        }
        if self.url.is_none() && is_url {
            self.url = Some(url.split(['?', '#']).next().unwrap_or(&url).to_owned());
        }
        let next = self.endpoints.len();
        let index = *self.by_name.entry(name.clone()).or_insert(next);
        if index == next {
            self.endpoints.push(SeenEndpoint {
                name,
                method,
                path: if is_url {
                    path_of(&url)
                } else {
                    "?".to_owned()
                },
                completed: 0,
                errors: BTreeMap::new(),
                cut_off: 0,
                times: SeenTimes::All {
                    answers: LatencyHistogram::new(),
                    failures: LatencyHistogram::new(),
                },
                body_bytes: 0,
            });
        }
        &mut self.endpoints[index]
    }
}

fn compact(mut endpoint: SeenEndpoint) -> SeenEndpoint {
    if let SeenTimes::All { answers, failures } = &mut endpoint.times {
        answers.compact();
        failures.compact();
    }
    endpoint
}

/// Whether k6 took the request for a failure, and of which kind by its error codes; `None` where no tag
/// tells. What k6 itself says comes first: a script may expect a 404, and refuse a 200.
fn failure(tags: &Tags) -> Option<Option<ErrorKind>> {
    let number = |tag: &Option<String>| tag.as_deref().and_then(|text| text.parse::<u32>().ok());
    let status = number(&tags.status);
    let code = number(&tags.error_code).filter(|code| *code != 0);
    let by_status = || status.map(|status| (200..400).contains(&status));
    let is_expected = match tags.expected_response.as_deref() {
        Some(expected) => expected == "true",
        None if code.is_some() => false,
        None => by_status()?,
    };
    if is_expected {
        return Some(None);
    }
    Some(Some(match code.unwrap_or(0) {
        1050 | 1211 => ErrorKind::Timeout,
        1100..1200 => ErrorKind::Dns,
        1220 => ErrorKind::Reset,
        1200..1300 => ErrorKind::Connect,
        1300..1400 => ErrorKind::Tls,
        1600..1700 => ErrorKind::Protocol,
        _ if status == Some(0) => ErrorKind::Reset,
        _ => ErrorKind::Status,
    }))
}
