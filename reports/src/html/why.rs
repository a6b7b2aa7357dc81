//! Why the numbers are as they are: what blocked the event loop and what it cost in CPU, by route, by call
//! and by line of source, and what others felt of it. Each part is there only if something measured it.

use std::fmt::Write as _;

use unstall_results::comparison::Metric;
use unstall_results::record::{RunRecord, WatchedCause};
use unstall_results::watched::{WatchedArm, watched};

use super::{blame, bystander, event_loop, watched as watched_section};
use crate::{escape, numbers, observed, vocabulary};

/// Less blocked time of a route than this is none, ms per 1 000 requests: the monitor's own reading
/// of the kernel's counters can cost as much.
const BLOCKED_MS_MIN: f64 = 0.5;

/// Writes the part.
pub(super) fn write(out: &mut String, anchor: &str, record: &RunRecord) -> std::fmt::Result {
    if record.blocks.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3 id=\"{anchor}-why\">Why</h3>")?;
    event_loop::write(out, record)?;
    blame::write(out, record)?;
    watched_section::write(out, record)?;
    bystander::write(out, anchor, record)
}

/// What held the loop the longest, version by version, in one line of safe markup: by call and line
/// where a watch told them, else by route. `None` where nothing measured it.
pub(super) fn in_one_line(record: &RunRecord) -> Option<String> {
    let by_watch: Vec<String> = watched(record).iter().map(of_watched).collect();
    let parts = match by_watch.is_empty() {
        true => observed::arms(record)
            .into_iter()
            .filter_map(|arm| {
                Some(format!(
                    "{}: {}",
                    escape::markup(arm),
                    by_route(record, arm)?
                ))
            })
            .collect(),
        false => by_watch,
    };
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn of_watched(arm: &WatchedArm) -> String {
    let longest = arm.sum.causes.iter().filter(|cause| cause.is_blocking);
    let name = escape::markup(&arm.arm);
    match longest.max_by_key(|cause| cause.total_us) {
        Some(cause) => format!("{name}: {}", call(cause, arm.requests)),
        None => format!("{name}: no call that kept it was seen"),
    }
}

/// `I/O in recvfrom on Redis, app/store.py:88, 310 ms per 1 000 requests`.
fn call(cause: &WatchedCause, requests: u64) -> String {
    let mut text = escape::markup(vocabulary::cause_class(&cause.class));
    if let Some(syscall) = &cause.syscall {
        text.push_str(&format!(" in <code>{}</code>", escape::markup(syscall)));
    }
    if let Some(target) = &cause.target {
        text.push_str(&format!(" on <bdi>{}</bdi>", escape::markup(target)));
    }
    if let Some(line) = &cause.line {
        text.push_str(&format!(", <code>{}</code>", escape::markup(line)));
    }
    if requests > 0 {
        let ms = numbers::as_f64(cause.total_us) / numbers::as_f64(requests);
        text.push_str(&format!(", {}", per_1000(ms)));
    }
    text
}

/// `POST messages, 310 ms per 1 000 requests`; `None` where blocked time is unknown.
fn by_route(record: &RunRecord, arm: &str) -> Option<String> {
    let routes = observed::routes(record, arm);
    let worst = routes
        .iter()
        .filter_map(|(route, seen)| Some((route, seen.blocked_ms_per_1000()?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    match worst? {
        (_, ms) if ms < BLOCKED_MS_MIN => Some("nothing worth naming".to_owned()),
        (route, ms) => Some(format!(
            "<bdi>{}</bdi>, {}",
            escape::markup(route),
            per_1000(ms)
        )),
    }
}

fn per_1000(ms: f64) -> String {
    format!(
        "<span class=\"w\">{} per 1\u{202F}000 requests</span>",
        numbers::value(Metric::BlockedMsPer1000, ms)
    )
}
