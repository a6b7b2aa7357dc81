//! The lines of the service's sources that keep the event loop in the new version more than they did
//! in the old one: what a pipeline can point at beside a regression.
//!
//! A watch from outside tells lines by their share of the loop's time, the monitor's stalls tell which
//! endpoint's requests they kept waiting. Neither proves that a line made a cell worse, so the words
//! say what was seen and no more.

use std::collections::BTreeMap;

use unstall_results::comparison::{Cell, Family, Metric};
use unstall_results::record::{RunRecord, WatchedCause};
use unstall_results::watched::{WatchedArm, watched};

use crate::{numbers, observed, vocabulary};

/// A line that takes less of the loop's time than this explains nothing.
const SHARE_MIN: f64 = 0.01;

/// A line of source that keeps the loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GuiltyLine {
    /// As the watch spells it.
    pub(crate) file: String,
    /// From 1.
    pub(crate) line: u32,
    /// What was seen, one sentence, not yet escaped.
    pub(crate) sentence: String,
    /// The endpoint whose requests it kept waiting or was called for; `None` where that isn't known:
    /// a held loop keeps everybody.
    endpoint: Option<String>,
    /// How much more of the loop's time it takes than before, or of the waiting of the endpoint.
    rise: f64,
}

/// All of a record's, the one that rose most first.
pub(crate) fn guilty_lines(record: &RunRecord) -> Vec<GuiltyLine> {
    let mut lines = from_stalls(record);
    lines.extend(from_watch(record));
    lines.sort_by(|a, b| b.rise.total_cmp(&a.rise));
    lines
}

/// The line to look at for a cell that got worse: one that is known to concern its endpoint before one
/// that kept everybody. What threads and errors do is no line's that keeps the loop.
pub(crate) fn for_cell<'l>(lines: &'l [GuiltyLine], cell: &Cell) -> Option<&'l GuiltyLine> {
    let is_of_loop = cell.family == Family::Latency
        || matches!(cell.metric, Metric::BlockedMsPer1000 | Metric::ProbeP90);
    let of_endpoint = |line: &&GuiltyLine| {
        cell.endpoint.is_none() || line.endpoint.as_ref() == cell.endpoint.as_ref()
    };
    let found = lines.iter().find(of_endpoint);
    let found = found.or_else(|| lines.iter().find(|line| line.endpoint.is_none()));
    found.filter(|_| is_of_loop)
}

/// `function at file:line`, cut.
fn place(line: &str) -> Option<(&str, &str, u32)> {
    let (rest, number) = line.rsplit_once(':')?;
    let (function, file) = rest.rsplit_once(" at ")?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    (!file.is_empty()).then_some((function, file, number))
}

fn from_watch(record: &RunRecord) -> Vec<GuiltyLine> {
    let arms = watched(record);
    let of = |name: &str| arms.iter().find(|arm| arm.arm == name);
    let (before, Some(after)) = (of("before"), of("after")) else {
        return Vec::new();
    };
    let causes = after.sum.causes.iter();
    causes
        .filter(|cause| cause.is_blocking)
        .filter_map(|cause| {
            let (function, file, line) = place(cause.line.as_ref()?)?;
            let share = after.share(cause.total_us)?;
            // What wasn't watched before can't be called new.
            let earlier = share_of_line(before?, cause)?;
            let rise = share - earlier;
            (rise >= SHARE_MIN).then(|| GuiltyLine {
                file: file.to_owned(),
                line,
                sentence: format!(
                    "{function} at {file}:{line} kept the event loop for {} of the time, {} before: {}",
                    numbers::share(share),
                    numbers::share(earlier),
                    call(cause)
                ),
                endpoint: cause.endpoint.as_ref().and_then(|route| endpoint_of(record, route)),
                rise,
            })
        })
        .collect()
}

fn share_of_line(arm: &WatchedArm, cause: &WatchedCause) -> Option<f64> {
    let same = |known: &&WatchedCause| (&known.class, &known.line) == (&cause.class, &cause.line);
    let total = arm.sum.causes.iter().filter(same);
    arm.share(observed::total(total.map(|known| known.total_us)))
}

/// `I/O in recvfrom on redis at 127.0.0.1:6379`.
fn call(cause: &WatchedCause) -> String {
    let mut text = vocabulary::cause_class(&cause.class).to_owned();
    for (word, part) in [("in", &cause.syscall), ("on", &cause.target)] {
        if let Some(part) = part {
            text.push_str(&format!(" {word} {part}"));
        }
    }
    text
}

/// The scenario's name of a route, by method and path: services name routes by templates
/// (`/items/{id}`), scenarios have variables there (`/items/${id}`).
fn endpoint_of(record: &RunRecord, route: &str) -> Option<String> {
    let endpoints = record.scenario.endpoints.iter();
    let mut named = endpoints.filter(|endpoint| {
        endpoint.name == route
            || route.split_once(' ').is_some_and(|(method, template)| {
                method == endpoint.method && is_path_of(template, &endpoint.path)
            })
    });
    named.next().map(|endpoint| endpoint.name.clone())
}

fn is_path_of(template: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or(path);
    let (theirs, mine) = (template.split('/'), path.split('/'));
    theirs.clone().count() == mine.clone().count()
        && theirs
            .zip(mine)
            .all(|(theirs, mine)| theirs == mine || theirs.starts_with('{') || mine.contains("${"))
}

/// Lines that held the loop while requests of an endpoint were under way, by their share of all the
/// time of these requests.
fn from_stalls(record: &RunRecord) -> Vec<GuiltyLine> {
    let before = waiting_us(record, "before");
    let mut lines = Vec::new();
    for ((text, victim), after_us) in waiting_us(record, "after") {
        let Some((function, file, line)) = place(text) else {
            continue;
        };
        let before_us = before.get(&(text, victim)).copied().unwrap_or(0.0);
        let (Some(after_all), Some(before_all)) = (
            response_us(record, "after", victim),
            response_us(record, "before", victim),
        ) else {
            continue;
        };
        let (share, earlier) = (after_us / after_all, before_us / before_all);
        let rise = share - earlier;
        if rise < SHARE_MIN {
            continue;
        }
        lines.push(GuiltyLine {
            file: file.to_owned(),
            line,
            sentence: format!(
                "{function} at {file}:{line} held the event loop while {} of {victim}'s time passed, {} before",
                numbers::share(share.min(1.0)),
                numbers::share(earlier.min(1.0)),
            ),
            endpoint: Some(victim.to_owned()),
            rise,
        });
    }
    lines
}

/// (line, victim) → what requests of the victim waited meanwhile, in sum.
fn waiting_us<'r>(record: &'r RunRecord, arm: &str) -> BTreeMap<(&'r str, &'r str), f64> {
    let mut waiting = BTreeMap::new();
    let blocks = observed::blocks(record);
    for block in blocks.into_iter().filter(|block| block.arm == arm) {
        let blames = block.stalls.iter().flat_map(|stalls| &stalls.blame);
        for blame in blames {
            if let Some(line) = &blame.line {
                let key = (line.as_str(), blame.victim.as_str());
                *waiting.entry(key).or_default() += numbers::as_f64(blame.overlapped_us);
            }
        }
    }
    waiting
}

/// All the time that an endpoint's requests took, failures included; `None` without any, or where
/// a block has no stalls told, so that shares would not mean the same.
fn response_us(record: &RunRecord, arm: &str, endpoint: &str) -> Option<f64> {
    let blocks = observed::blocks(record);
    let mut sum_us = 0.0;
    for block in blocks.into_iter().filter(|block| block.arm == arm) {
        block.stalls.as_ref()?;
        let Some(samples) = block.endpoints.get(endpoint) else {
            continue;
        };
        for histogram in [&samples.response, &samples.failed] {
            let times = histogram.iter();
            sum_us += times
                .map(|(us, count)| numbers::as_f64(us) * numbers::as_f64(count))
                .sum::<f64>();
        }
    }
    (sum_us > 0.0).then_some(sum_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unstall_results::record::{Blame, Stalls};
    use unstall_results::synthetic::{self, EndpointSpec, WatchSpec};

    fn record(blocked_before: f64, blocked_after: f64) -> RunRecord {
        let endpoints = [
            EndpointSpec::new("GET usage", 10.0),
            EndpointSpec::new("GET other", 10.0),
        ];
        let mut record = synthetic::record(1, 5, 40, &endpoints);
        synthetic::add_watch(
            &mut record,
            WatchSpec {
                blocked_before,
                blocked_after,
                ..WatchSpec::default()
            },
        );
        record
    }

    fn files(record: &RunRecord) -> Vec<(String, u32)> {
        let lines = guilty_lines(record).into_iter();
        lines.map(|line| (line.file, line.line)).collect()
    }

    #[test]
    fn lines_that_rose_come_first_and_the_others_not_at_all() {
        let stores = |line| ("app/stores.py".to_owned(), line);
        // 5 % of 40 % is still more than a hundredth.
        let all = vec![stores(41), stores(77), ("app/retry.py".to_owned(), 9)];
        assert_eq!(files(&record(0.0, 0.4)), all);
        assert_eq!(files(&record(0.0, 0.1)), all[..2]);
        assert!(files(&record(0.4, 0.4)).is_empty());
        assert!(files(&record(0.5, 0.0)).is_empty());
        let mut unwatched = record(0.0, 0.4);
        for block in unwatched
            .blocks
            .iter_mut()
            .filter(|block| block.arm == "before")
        {
            block.watch = None;
        }
        assert!(
            files(&unwatched).is_empty(),
            "new is what was looked for before"
        );
    }

    #[test]
    fn a_line_without_a_number_is_no_place() {
        assert_eq!(
            place("<lambda> at a b.py:7"),
            Some(("<lambda>", "a b.py", 7))
        );
        assert_eq!(place("f at C:\\x.py:3"), Some(("f", "C:\\x.py", 3)));
        for none in [
            "f at x.py",
            "f at x.py:0",
            "f at :3",
            "x.py:3",
            "",
            "f at x.py:three",
        ] {
            assert_eq!(place(none), None, "{none}");
        }
    }

    #[test]
    fn a_route_is_found_by_its_template() {
        let mut record = record(0.0, 0.4);
        record.scenario.endpoints[1].path = "/items/${id}/parts?all=1".to_owned();
        let named = |route: &str| endpoint_of(&record, route);
        assert_eq!(named("GET /items/{id}/parts"), Some("GET other".to_owned()));
        assert_eq!(named("GET other"), Some("GET other".to_owned()));
        assert_eq!(named("POST /items/{id}/parts"), None);
        assert_eq!(named("GET /items/{id}"), None);
    }

    #[test]
    fn a_cell_takes_the_line_that_kept_its_own_requests() {
        let mut record = record(0.0, 0.9);
        for block in &mut record.blocks {
            let blame = |line: &str, victim: &str, overlapped_us| Blame {
                culprit: "GET other".to_owned(),
                line: Some(line.to_owned()),
                victim: victim.to_owned(),
                requests: 10,
                overlapped_us,
            };
            let blame = vec![
                blame("g at app/own.py:3", "GET usage", 60_000),
                blame("h at app/less.py:4", "GET usage", 30_000),
                blame("no place", "GET usage", 90_000),
            ];
            let is_after = block.arm == "after";
            block.stalls = Some(Stalls {
                blame: if is_after { blame } else { Vec::new() },
                ..Stalls::default()
            });
        }
        let lines = guilty_lines(&record);
        let comparison = unstall_results::compare::compare(&record, &Default::default());
        let mut cell = comparison.expect("two versions").cells[0].clone();
        let line_for = |cell: &Cell| for_cell(&lines, cell).map(|line| line.file.as_str());
        cell.metric = Metric::ResponseP95;
        cell.family = Family::Latency;
        cell.endpoint = Some("GET usage".to_owned());
        assert_eq!(line_for(&cell), Some("app/own.py"));
        cell.endpoint = Some("GET other".to_owned());
        assert_eq!(line_for(&cell), Some("app/stores.py"), "it kept everybody");
        (cell.metric, cell.family) = (Metric::ErrorRate, Family::Errors);
        assert_eq!(line_for(&cell), None);
    }
}
