//! What `unstall watch` shows: where the loops' time went, and what kept them.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use unstall_loop_monitor::cause::{Cause, CauseClass, Frame, Target};
use unstall_loop_monitor::watched::{SleepSource, WatchSummary, WatchedCause, WatchedLoop};

use crate::console::visible;

/// Causes of a final summary; the rest is in `--json`.
pub(crate) const CAUSES_AT_END: usize = 20;
/// Causes while it goes on: what fits a small terminal beside the loops.
pub(crate) const CAUSES_LIVE: usize = 8;

/// Causes that a reader takes for one: the same call from the same line, whoever called that.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place<'a> {
    class: CauseClass,
    syscall: Option<&'a str>,
    target: Option<&'a Target>,
    endpoint: Option<&'a str>,
    blamed: Option<&'a Frame>,
}

/// The whole summary, at most so many causes of it.
pub(crate) fn render(summary: &WatchSummary, causes_max: usize) -> String {
    let mut text = heading(summary);
    text.push_str(&loops(&summary.loops));
    text.push_str(&causes(summary, causes_max));
    if !summary.notes.is_empty() {
        text.push('\n');
    }
    for note in &summary.notes {
        push_line(&mut text, format_args!("Note: {}", visible(note)));
    }
    text
}

/// One line, where nothing can be drawn again.
pub(crate) fn line(summary: &WatchSummary) -> String {
    let blocked_ns: u64 = summary.loops.iter().map(|watched| watched.blocked_ns).sum();
    let top = summary.causes.first();
    let top = top.map_or_else(String::new, |top| {
        format!("; most in {}", visible(&top.cause.to_string()))
    });
    format!(
        "{}: {} loop(s) of {}, blocked for {}{top}",
        seconds(summary.duration_ns),
        summary.loops.len(),
        visible(&summary.runtime),
        milliseconds(blocked_ns),
    )
}

fn heading(summary: &WatchSummary) -> String {
    let by = match summary.sleeps_by {
        SleepSource::Switches => "sleeps told by the kernel",
        SleepSource::Looks => "sleeps seen by looking",
    };
    let kind = match summary.runtime.as_str() {
        "unknown" => "an event loop of unknown make".to_owned(),
        runtime => visible(runtime),
    };
    format!(
        "{}\npid {}: {kind}, watched for {}, {by}, {} looks\n\n",
        visible(&summary.command),
        summary.pid,
        seconds(summary.duration_ns),
        summary.looks
    )
}

fn loops(loops: &[WatchedLoop]) -> String {
    let name =
        |watched: &WatchedLoop| format!("{} ({})", visible(&watched.name), watched.thread_id);
    let widths = loops.iter().map(|watched| name(watched).chars().count());
    let width = widths.max().unwrap_or(0).max("loop".len());
    let mut text = format!(
        "{:width$}    idle  running  waits for a core  interpreter lock  blocked\n",
        "loop"
    );
    for watched in loops {
        let shares = Shares::of(watched);
        push_line(
            &mut text,
            format_args!(
                "{:width$}  {:>6}  {:>7}  {:>16}  {:>16}  {:>7}",
                name(watched),
                shares.percent(watched.idle_ns),
                shares.percent(watched.running_ns),
                shares.percent(watched.runqueue_ns),
                shares.percent(watched.gil_ns),
                shares.percent(watched.blocked_ns),
            ),
        );
    }
    text.push('\n');
    text
}

/// Parts of the time for which one loop was watched.
struct Shares {
    all_ns: u64,
}

impl Shares {
    fn of(watched: &WatchedLoop) -> Self {
        let parts = [
            watched.idle_ns,
            watched.running_ns,
            watched.runqueue_ns,
            watched.gil_ns,
            watched.blocked_ns,
        ];
        Self {
            all_ns: parts.iter().sum(),
        }
    }

    fn percent(&self, part_ns: u64) -> String {
        let all = Duration::from_nanos(self.all_ns.max(1)).as_secs_f64();
        let share = Duration::from_nanos(part_ns).as_secs_f64() / all;
        format!("{:.1}%", share * 100.0)
    }
}

fn causes(summary: &WatchSummary, causes_max: usize) -> String {
    let places = places(&summary.causes);
    if places.is_empty() {
        return "Nothing kept a loop.\n".to_owned();
    }
    let mut text = format!(
        "{:>8} {:>10} {:>10}  what kept it\n",
        "times", "together", "longest"
    );
    for place in places.iter().take(causes_max) {
        push_line(
            &mut text,
            format_args!(
                "{:>8} {:>10} {:>10}  {}",
                place.count,
                milliseconds(place.total_ns),
                milliseconds(place.longest_ns),
                what(&place.cause)
            ),
        );
        let frame = place.cause.blamed().map(|frame| format!("from {frame}"));
        let endpoint = place.cause.endpoint.as_ref();
        let endpoint = endpoint.map(|endpoint| format!("for {endpoint}"));
        let place: Vec<String> = frame.into_iter().chain(endpoint).collect();
        if !place.is_empty() {
            let place = visible(&place.join(", "));
            push_line(&mut text, format_args!("{:32}{place}", ""));
        }
    }
    if places.len() > causes_max {
        let more = places.len() - causes_max;
        push_line(&mut text, format_args!("{:32}and {more} more", ""));
    }
    text
}

/// The cause without its line, which has a line of its own.
fn what(cause: &Cause) -> String {
    let call = Cause {
        frames: Vec::new(),
        ..cause.clone()
    };
    visible(&call.to_string())
}

fn places(causes: &[WatchedCause]) -> Vec<WatchedCause> {
    let mut index: HashMap<Place<'_>, usize> = HashMap::new();
    let mut places: Vec<WatchedCause> = Vec::new();
    for watched in causes {
        let cause = &watched.cause;
        let place = Place {
            class: cause.class,
            syscall: cause.syscall.as_deref(),
            target: cause.target.as_ref(),
            endpoint: cause.endpoint.as_deref(),
            blamed: cause.blamed(),
        };
        if let Some(at) = index.get(&place) {
            let known = &mut places[*at];
            known.count += watched.count;
            known.total_ns += watched.total_ns;
            known.longest_ns = known.longest_ns.max(watched.longest_ns);
        } else {
            index.insert(place, places.len());
            places.push(watched.clone());
        }
    }
    places.sort_by_key(|place| std::cmp::Reverse(place.total_ns));
    places
}

fn push_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String has no way to fail.
    let _ = text.write_fmt(line);
    text.push('\n');
}

fn seconds(ns: u64) -> String {
    format!("{:.1} s", Duration::from_nanos(ns).as_secs_f64())
}

fn milliseconds(ns: u64) -> String {
    let ms = Duration::from_nanos(ns).as_secs_f64() * 1e3;
    if ms < 100.0 {
        format!("{ms:.1} ms")
    } else {
        format!("{ms:.0} ms")
    }
}

#[cfg(test)]
mod tests {
    use unstall_loop_monitor::wire::Schema;

    use super::*;

    fn cause(frames: Vec<Frame>) -> Cause {
        Cause {
            class: CauseClass::Io,
            syscall: Some("recvfrom".to_owned()),
            target: Some(Target {
                what: "127.0.0.1:6379".to_owned(),
                name: Some("redis".to_owned()),
            }),
            endpoint: Some("usage() in usage.py".to_owned()),
            frames,
        }
    }

    fn frame(function: &str, line: u32, is_own: bool) -> Frame {
        Frame {
            function: function.to_owned(),
            file: Some("app.py".to_owned()),
            line: Some(line),
            is_own,
        }
    }

    fn summary(causes: Vec<WatchedCause>) -> WatchSummary {
        WatchSummary {
            schema: Schema {
                name: "unstall.watch".to_owned(),
                major: 1,
                minor: 0,
            },
            pid: 42,
            command: "uvicorn app:app".to_owned(),
            runtime: "asyncio".to_owned(),
            duration_ns: 2_000_000_000,
            sleeps_by: SleepSource::Switches,
            looks: 7,
            loops: vec![WatchedLoop {
                thread_id: 42,
                name: "uvicorn".to_owned(),
                idle_ns: 1_000_000_000,
                running_ns: 500_000_000,
                runqueue_ns: 0,
                gil_ns: 100_000_000,
                blocked_ns: 400_000_000,
            }],
            causes,
            notes: vec!["Something.".to_owned()],
        }
    }

    #[test]
    fn one_line_that_was_reached_in_two_ways_is_one_place() {
        let watched = |caller: u32, total_ns| WatchedCause {
            cause: cause(vec![frame("get", 3, true), frame("handle", caller, true)]),
            count: 2,
            total_ns,
            longest_ns: 1_500_000,
        };
        let text = render(
            &summary(vec![watched(9, 3_000_000), watched(8, 300_000_000)]),
            5,
        );
        let expected = "\
uvicorn app:app
pid 42: asyncio, watched for 2.0 s, sleeps told by the kernel, 7 looks

loop            idle  running  waits for a core  interpreter lock  blocked
uvicorn (42)   50.0%    25.0%              0.0%              5.0%    20.0%

   times   together    longest  what kept it
       4     303 ms     1.5 ms  I/O in recvfrom on redis at 127.0.0.1:6379
                                from get at app.py:3, for usage() in usage.py

Note: Something.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn nobody_else_s_words_move_the_cursor_or_begin_a_line() {
        let bad = |word: &str| format!("{word}\u{1b}[2J\nNote: forged");
        let mut cause = cause(vec![frame(&bad("get"), 3, true)]);
        cause.endpoint = Some(bad("usage"));
        cause.frames[0].file = Some(bad("app.py"));
        cause.target.as_mut().expect("there").name = Some(bad("redis"));
        let mut summary = summary(vec![WatchedCause {
            cause,
            count: 1,
            total_ns: 1,
            longest_ns: 1,
        }]);
        summary.command = bad("uvicorn");
        summary.runtime = bad("asyncio");
        summary.loops[0].name = bad("thread");
        summary.notes = vec![bad("Something.")];
        for text in [render(&summary, 5), line(&summary)] {
            assert!(!text.contains('\u{1b}'), "{text:?}");
            assert!(!text.contains("\nNote: forged"), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_said_plainly() {
        let text = render(&summary(Vec::new()), 5);
        assert!(text.contains("Nothing kept a loop.\n"), "{text}");
        let line = line(&summary(Vec::new()));
        assert_eq!(line, "2.0 s: 1 loop(s) of asyncio, blocked for 400 ms");
    }
}
