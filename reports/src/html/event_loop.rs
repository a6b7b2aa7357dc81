//! Why: which route blocked the event loop, and what it cost in CPU.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use unstall_results::comparison::Metric;
use unstall_results::record::RunRecord;

use super::table;
use crate::observed::{self, RouteLoop};
use crate::{escape, numbers, vocabulary};

/// Routes with bars; the table has all of them.
const BARS_MAX: usize = 12;
/// Routes in the table, those that held the loop the longest first.
const ROUTES_MAX: usize = 200;

/// What the bars show of a route, ms per 1 000 requests.
struct Shown {
    caption: &'static str,
    /// Said when there is none of it, of the arms of which it is known.
    none: &'static str,
    /// Whether none of it is good news.
    is_good: bool,
    value: fn(&RouteLoop) -> Option<f64>,
}

const BLOCKED: Shown = Shown {
    caption: "Blocked time of the loop, ms per 1\u{202F}000 requests of the route",
    none: "No route blocked the loop",
    is_good: true,
    value: RouteLoop::blocked_ms_per_1000,
};

const HELD: Shown = Shown {
    caption: "Time that the route held the loop, ms per 1\u{202F}000 requests of the route",
    none: "No route held the loop for long enough to be shown",
    is_good: false,
    value: RouteLoop::held_ms_per_1000,
};

/// Writes blocked time and CPU by route, or says that nothing was monitored.
pub(super) fn write(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let arms = observed::arms(record);
    let by_arm: Vec<(&str, BTreeMap<&str, RouteLoop>)> = arms
        .iter()
        .map(|arm| (*arm, observed::routes(record, arm)))
        .collect();
    if record.blocks.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h4>What held the event loop</h4>")?;
    if by_arm.iter().all(|(_, routes)| routes.is_empty()) {
        return writeln!(
            out,
            "<p class=\"note\">The service had no loop monitor, so blocked time is unknown. Add the \
             <code>unstall-loop-monitor</code> layer to see it by route, or in Python \
             <code>unstall.LoopMonitor</code> to see holds.</p>"
        );
    }
    let mut all = by_arm.iter().flat_map(|(_, seen)| seen.values());
    let shown = if all.all(|seen| seen.is_blocked_unknown) {
        writeln!(
            out,
            "<p class=\"note\">This monitor measures how long each step of a request held the loop, and not \
             why: blocked time is unknown, and computing holds it too.</p>"
        )?;
        HELD
    } else {
        BLOCKED
    };
    let routes = ranked(&by_arm, &shown);
    bars(out, &routes, &by_arm, &shown)?;
    unknown_arms(out, &by_arm, &shown)?;
    route_table(out, record, &routes, &by_arm)
}

/// Routes by the most of it in any arm.
fn ranked<'r>(
    by_arm: &[(&str, BTreeMap<&'r str, RouteLoop>)],
    shown: &Shown,
) -> Vec<(&'r str, f64)> {
    let mut worst: BTreeMap<&str, f64> = BTreeMap::new();
    for (_, routes) in by_arm {
        for (route, seen) in routes {
            // A route without requests has no rate; it stays in the table with a dash.
            let value = (shown.value)(seen).unwrap_or(0.0);
            let entry = worst.entry(route).or_insert(0.0);
            *entry = entry.max(value);
        }
    }
    let mut routes: Vec<(&str, f64)> = worst.into_iter().collect();
    routes.sort_by(|a, b| b.1.total_cmp(&a.1));
    routes
}

fn bars(
    out: &mut String,
    routes: &[(&str, f64)],
    by_arm: &[(&str, BTreeMap<&str, RouteLoop>)],
    shown: &Shown,
) -> std::fmt::Result {
    let max = routes.first().map_or(0.0, |route| route.1);
    if max <= 0.0 {
        return writeln!(out, "<p class=\"note\">{}</p>", none_of_it(by_arm, shown));
    }
    writeln!(
        out,
        "<figure><figcaption>{}</figcaption><div class=\"bars\" aria-hidden=\"true\">",
        shown.caption
    )?;
    for (route, _) in routes.iter().take(BARS_MAX) {
        write!(
            out,
            "<p class=\"route\"><bdi>{}</bdi></p>",
            escape::markup(route)
        )?;
        for (arm, seen) in by_arm {
            let Some(value) = seen.get(route).and_then(shown.value) else {
                continue;
            };
            let class = if *arm == "before" { "before" } else { "after" };
            writeln!(
                out,
                "<p class=\"bar {class}\"><span>{}</span><i style=\"--w:{:.2}%\"></i><b>{}</b></p>",
                escape::markup(arm),
                100.0 * value / max,
                numbers::value(Metric::BlockedMsPer1000, value)
            )?;
        }
    }
    writeln!(out, "</div></figure>")?;
    if routes.len() > BARS_MAX {
        writeln!(
            out,
            "<p class=\"note\">{} more below.</p>",
            vocabulary::plural(
                u64::try_from(routes.len() - BARS_MAX).unwrap_or(u64::MAX),
                "route",
                "routes"
            )
        )?;
    }
    Ok(())
}

/// The arms of which it is known, and those of which it isn't.
fn known_and_not<'a>(
    by_arm: &[(&'a str, BTreeMap<&str, RouteLoop>)],
    shown: &Shown,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let is_known = |seen: &BTreeMap<&str, RouteLoop>| {
        let mut asked = seen.values().filter(|route| route.requests > 0).peekable();
        asked.peek().is_some() && asked.all(|route| (shown.value)(route).is_some())
    };
    let (known, not): (Vec<_>, Vec<_>) = by_arm.iter().partition(|(_, seen)| is_known(seen));
    let names = |arms: Vec<&(&'a str, _)>| arms.into_iter().map(|(arm, _)| *arm).collect();
    (names(known), names(not))
}

fn none_of_it(by_arm: &[(&str, BTreeMap<&str, RouteLoop>)], shown: &Shown) -> String {
    let (known, not) = known_and_not(by_arm, shown);
    match (known.is_empty(), not.is_empty()) {
        (true, _) => "Of no arm is it known whether a route blocked the loop.".to_owned(),
        (false, true) => {
            let sign = if shown.is_good { "✓ " } else { "" };
            format!("{sign}{} in any arm.", shown.none)
        }
        (false, false) => format!(
            "{} in {}.",
            shown.none,
            escape::markup(&known.join(" and "))
        ),
    }
}

/// What has no bars isn't free of it.
fn unknown_arms(
    out: &mut String,
    by_arm: &[(&str, BTreeMap<&str, RouteLoop>)],
    shown: &Shown,
) -> std::fmt::Result {
    match known_and_not(by_arm, shown) {
        (known, not) if !known.is_empty() && !not.is_empty() => writeln!(
            out,
            "<p class=\"note\">Of {} it isn’t known: no monitor measured it there.</p>",
            escape::markup(&not.join(" and "))
        ),
        _ => Ok(()),
    }
}

fn route_table(
    out: &mut String,
    record: &RunRecord,
    routes: &[(&str, f64)],
    by_arm: &[(&str, BTreeMap<&str, RouteLoop>)],
) -> std::fmt::Result {
    let columns = [
        table::text("Route"),
        table::text("Arm"),
        table::number("Requests"),
        table::number("Blocked per 1\u{202F}000"),
        table::number("Blocks ≥\u{202F}200\u{202F}µs"),
        table::number("Longest block"),
        table::number("Held per 1\u{202F}000"),
        table::number("Longest hold"),
        table::number("CPU per request"),
    ];
    writeln!(
        out,
        "<details><summary>Table: event loop by route</summary>"
    )?;
    table::open(
        out,
        "What each route did to the loop. A hold is one uninterrupted poll; blocked is the part of it in which the \
         thread slept or waited for a page. CPU is measured inside polls, where the monitor splits them.",
        &columns,
    )?;
    for (route, _) in routes.iter().take(ROUTES_MAX) {
        for (arm, seen) in by_arm {
            let Some(seen) = seen.get(route) else {
                continue;
            };
            table::row(out, &columns, &route_cells(route, arm, seen))?;
        }
    }
    table::close(out)?;
    table::more(out, routes.len().saturating_sub(ROUTES_MAX), " routes")?;
    let unattributed: Vec<String> = by_arm
        .iter()
        .filter_map(|(arm, _)| {
            let us = observed::unattributed_us(record, arm)?;
            Some(format!(
                "{} {}",
                escape::markup(arm),
                numbers::ms_from_us(us)
            ))
        })
        .collect();
    if !unattributed.is_empty() {
        writeln!(
            out,
            "<p class=\"note\">Blocked time that no route could be charged with: {}.</p>",
            unattributed.join(", ")
        )?;
    }
    writeln!(out, "</details>")
}

fn route_cells(route: &str, arm: &str, seen: &RouteLoop) -> Vec<String> {
    let or_dash = |metric: Metric, value: Option<f64>| {
        value.map_or_else(|| "–".to_owned(), |value| numbers::value(metric, value))
    };
    let if_blocked_known = |text: String| match seen.is_blocked_unknown {
        true => "–".to_owned(),
        false => text,
    };
    vec![
        format!("<bdi>{}</bdi>", escape::markup(route)),
        escape::markup(arm),
        numbers::count(seen.requests),
        or_dash(Metric::BlockedMsPer1000, seen.blocked_ms_per_1000()),
        if_blocked_known(numbers::count(seen.blocks_over_200us)),
        if_blocked_known(numbers::ms_from_us(seen.blocked_us_max)),
        or_dash(Metric::BlockedMsPer1000, seen.held_ms_per_1000()),
        numbers::ms_from_us(seen.hold_us_max),
        or_dash(Metric::CpuUsPerRequest, seen.cpu_us_per_request()),
    ]
}
