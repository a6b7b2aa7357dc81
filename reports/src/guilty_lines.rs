//! The lines of the service's sources that keep the event loop in the new version more than they did
//! in the old one: what a pipeline can point at beside a regression.
//!
//! A watch from outside tells lines by their share of the loop's time, the monitor's stalls tell which
//! endpoint's requests they kept waiting. Neither proves that a line made a cell worse, so the words
//! say what was seen and no more. A function is the same wherever its lines have moved to: see
//! `guilty_lines/places.rs`.

mod places;

use unstall_results::blame::{BlamedArm, blamed};
use unstall_results::comparison::{Cell, Family, Metric};
use unstall_results::record::{RunRecord, WatchedCause};
use unstall_results::watched::{WatchedArm, watched};

use crate::{numbers, vocabulary};
use places::{Lines, Places, place};

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
    /// How much more of the loop's time it takes than before, or of the time of the endpoint's requests.
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

fn from_watch(record: &RunRecord) -> Vec<GuiltyLine> {
    let arms = watched(record);
    let of = |name: &str| arms.iter().find(|arm| arm.arm == name);
    // What wasn't watched before can't be called new.
    let (Some(before), Some(after)) = (of("before"), of("after")) else {
        return Vec::new();
    };
    let (before, after_places) = (places_of_causes(before), places_of_causes(after));
    let found = after_places.iter().filter_map(|(key, sum)| {
        let earlier = after_places.earlier(key, &before);
        let rise = sum.share - earlier.share();
        let causes = after.sum.causes.iter().filter(|cause| {
            let at = cause.line.as_deref().and_then(place);
            cause.is_blocking
                && cause.class == key.kind
                && at
                    .is_some_and(|(function, file, _)| (function, file) == (key.function, key.file))
        });
        let causes: Vec<&WatchedCause> = causes.collect();
        let longest = causes.iter().max_by_key(|cause| cause.total_us)?;
        let is_one = causes
            .iter()
            .all(|cause| cause.endpoint == longest.endpoint);
        let route = longest.endpoint.as_ref().filter(|_| is_one);
        (rise >= SHARE_MIN).then(|| GuiltyLine {
            file: key.file.to_owned(),
            line: sum.line,
            sentence: format!(
                "{} kept the event loop for {} of the time, {}: {}",
                sum.spelled(key),
                numbers::share(sum.share),
                earlier.spelled(),
                call(longest)
            ),
            endpoint: route.and_then(|route| endpoint_of(record, route)),
            rise,
        })
    });
    found.collect()
}

/// By class of what was waited for, since a function can compute more and read less.
fn places_of_causes(arm: &WatchedArm) -> Places<'_> {
    let mut lines = Lines::default();
    for cause in arm.sum.causes.iter().filter(|cause| cause.is_blocking) {
        let share = arm.share(cause.total_us);
        if let (Some(line), Some(share)) = (&cause.line, share) {
            lines.add(&cause.class, line, share);
        }
    }
    lines.by_function()
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
/// time of these requests: the same numbers as those of who kept whom waiting.
fn from_stalls(record: &RunRecord) -> Vec<GuiltyLine> {
    let arms = blamed(record);
    let of = |name: &str| arms.iter().find(|arm| arm.arm == name);
    let (Some(before), Some(after)) = (of("before"), of("after")) else {
        return Vec::new();
    };
    let (earlier_places, places) = (places_of_blames(before), places_of_blames(after));
    let found = places.iter().filter_map(|(key, sum)| {
        // What nobody looked at before can't be called new.
        before.share(0, key.kind)?;
        let earlier = places.earlier(key, &earlier_places);
        let rise = sum.share - earlier.share();
        (rise >= SHARE_MIN).then(|| GuiltyLine {
            file: key.file.to_owned(),
            line: sum.line,
            sentence: format!(
                "{} held the event loop for {} of the time that {} took, {}",
                sum.spelled(key),
                numbers::share(sum.share),
                key.kind,
                earlier.spelled()
            ),
            endpoint: Some(key.kind.to_owned()),
            rise,
        })
    });
    found.collect()
}

/// By victim.
fn places_of_blames(arm: &BlamedArm) -> Places<'_> {
    let mut lines = Lines::default();
    for blame in &arm.sum.blame {
        let share = arm.share(blame.overlapped_us, &blame.victim);
        if let (Some(line), Some(share)) = (&blame.line, share) {
            lines.add(&blame.victim, line, share);
        }
    }
    lines.by_function()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unstall_results::record::{Blame, Stalls, UnderWay};
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
    fn what_only_moved_is_nobodys_fault() {
        let mut moved = record(0.4, 0.4);
        let after = moved.blocks.iter_mut().filter(|block| block.arm == "after");
        for cause in
            after.flat_map(|block| block.watch.iter_mut().flat_map(|watch| &mut watch.causes))
        {
            let line = cause.line.as_ref().expect("a line");
            let line = line.replace(" at app/", " at /build/branch/app/");
            cause.line = Some(format!("{line}3"));
        }
        assert!(files(&moved).is_empty());
        let mut risen = record(0.2, 0.4);
        for block in risen
            .blocks
            .iter_mut()
            .filter(|block| block.arm == "before")
        {
            for cause in block.watch.iter_mut().flat_map(|watch| &mut watch.causes) {
                cause.line = cause.line.as_ref().map(|line| line.replace(":41", ":38"));
            }
        }
        let lines = guilty_lines(&risen);
        assert!(
            lines[0].sentence.starts_with(
                "usage_today at app/stores.py:41 kept the event loop for 28 % of the time, 14 % before"
            ),
            "{}",
            lines[0].sentence
        );
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
            let under_way = UnderWay {
                requests: 10,
                under_way_us: 200_000,
            };
            block.stalls = Some(Stalls {
                blame: if is_after { blame } else { Vec::new() },
                victims: [("GET usage".to_owned(), under_way)].into(),
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
