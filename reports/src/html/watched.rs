//! What the loop waited for: where its time went, and which calls kept it, by a watch from outside.

use std::fmt::Write as _;

use unstall_results::record::{RunRecord, WatchedCause};
use unstall_results::watched::{WatchedArm, watched};

use super::table;
use crate::{escape, numbers, observed};

/// Causes that are shown at once; the rest is behind a fold.
const CAUSES_SHOWN: usize = 8;

/// Writes what the watch saw, if there was one.
pub(super) fn write(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let arms = watched(record);
    if arms.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h4>What the loop waited for</h4>\n<p class=\"others\">The service was watched from outside, without a \
         change to it{}. These numbers are shown, not judged.</p>",
        sentence(&arms)
    )?;
    shares(out, &arms)?;
    causes(out, record, &arms)?;
    notes(out, &arms)
}

/// `: its loop was blocked for 58 % of the time before, 0 % after`.
fn sentence(arms: &[WatchedArm]) -> String {
    let parts: Vec<String> = arms
        .iter()
        .filter_map(|arm| {
            let share = numbers::share(arm.share(arm.sum.blocked_us)?);
            let name = escape::markup(&arm.arm);
            Some(format!("<strong>{share}</strong> of the time {name}"))
        })
        .collect();
    if parts.is_empty() {
        return String::new();
    }
    format!(": its loop was blocked for {}", parts.join(", "))
}

fn shares(out: &mut String, arms: &[WatchedArm]) -> std::fmt::Result {
    writeln!(
        out,
        "<figure><figcaption>Where the loop’s time went</figcaption><div class=\"shares\" aria-hidden=\"true\">"
    )?;
    for arm in arms {
        write!(out, "<p><span>{}</span><i>", escape::markup(&arm.arm))?;
        for (class, _, us) in parts(arm) {
            if let Some(share) = arm.share(us).filter(|share| *share > 0.0) {
                write!(
                    out,
                    "<b class=\"{class}\" style=\"--w:{:.3}%\"></b>",
                    share * 100.0
                )?;
            }
        }
        writeln!(out, "</i></p>")?;
    }
    write!(out, "</div><p class=\"legend shares-legend\">")?;
    if let Some(arm) = arms.first() {
        for (class, name, _) in parts(arm) {
            write!(
                out,
                "<span><b class=\"{class}\" aria-hidden=\"true\"></b> {name}</span> "
            )?;
        }
    }
    writeln!(out, "</p>")?;
    share_table(out, arms)?;
    writeln!(out, "</figure>")
}

/// Class of style, name and time of each part.
fn parts(arm: &WatchedArm) -> [(&'static str, &'static str, u64); 5] {
    let sum = &arm.sum;
    [
        ("blocked", "blocked", sum.blocked_us),
        ("running", "running", sum.running_us),
        ("core", "waiting for a core", sum.runqueue_us),
        ("gil", "waiting for the interpreter lock", sum.gil_us),
        ("idle", "idle", sum.idle_us),
    ]
}

fn share_table(out: &mut String, arms: &[WatchedArm]) -> std::fmt::Result {
    let columns = [
        table::text("Arm"),
        table::number("Loops"),
        table::number("Blocked"),
        table::number("Running"),
        table::number("Waiting for a core"),
        table::number("Interpreter lock"),
        table::number("Idle"),
        table::number("Blocked per 1\u{202F}000"),
    ];
    table::open(
        out,
        "Shares of the time of all event loops, over the blocks of each arm. Idle is waiting for events; blocked is \
         every other wait, except those for a core and for Python’s interpreter lock.",
        &columns,
    )?;
    for arm in arms {
        let share = |us: u64| arm.share(us).map_or_else(|| "–".to_owned(), numbers::share);
        let sum = &arm.sum;
        table::row(
            out,
            &columns,
            &[
                escape::markup(&arm.arm),
                numbers::count(u64::from(sum.loops)),
                share(sum.blocked_us),
                share(sum.running_us),
                share(sum.runqueue_us),
                share(sum.gil_us),
                share(sum.idle_us),
                per_1000(arm, sum.blocked_us),
            ],
        )?;
    }
    table::close(out)
}

/// ms per 1 000 requests of all endpoints; numerically µs per request.
fn per_1000(arm: &WatchedArm, us: u64) -> String {
    if arm.requests == 0 {
        return "–".to_owned();
    }
    numbers::ms(numbers::as_f64(us) / numbers::as_f64(arm.requests))
}

fn causes(out: &mut String, record: &RunRecord, arms: &[WatchedArm]) -> std::fmt::Result {
    let mut rows: Vec<(&WatchedArm, &WatchedCause)> = arms
        .iter()
        .flat_map(|arm| arm.sum.causes.iter().map(move |cause| (arm, cause)))
        .filter(|(_, cause)| cause.is_blocking)
        .collect();
    rows.sort_by_key(|(_, cause)| std::cmp::Reverse(cause.total_us));
    if rows.is_empty() {
        let seen: Vec<&str> = arms.iter().map(|arm| arm.arm.as_str()).collect();
        let unseen = observed::unseen(record, &seen);
        let text = match unseen.is_empty() {
            true => "✓ No call that kept the loop was seen in any arm.".to_owned(),
            false => format!(
                "No call that kept the loop was seen in {}; {} wasn’t watched.",
                escape::markup(&seen.join(" and ")),
                escape::markup(&unseen.join(" and "))
            ),
        };
        return writeln!(out, "<p class=\"note\">{text}</p>");
    }
    let (shown, folded) = rows.split_at(rows.len().min(CAUSES_SHOWN));
    cause_table(out, shown)?;
    if !folded.is_empty() {
        let count = u64::try_from(folded.len()).unwrap_or(u64::MAX);
        writeln!(
            out,
            "<details><summary>{} more</summary>",
            numbers::count(count)
        )?;
        cause_table(out, folded)?;
        writeln!(out, "</details>")?;
    }
    for arm in arms.iter().filter(|arm| arm.sum.others_us > 0) {
        writeln!(
            out,
            "<p class=\"note\">{}: further causes together {}.</p>",
            escape::markup(&arm.arm),
            numbers::ms_from_us(arm.sum.others_us)
        )?;
    }
    Ok(())
}

fn cause_table(out: &mut String, rows: &[(&WatchedArm, &WatchedCause)]) -> std::fmt::Result {
    let columns = [
        table::text("What kept it"),
        table::text("On"),
        table::text("From"),
        table::text("Arm"),
        table::number("Times"),
        table::number("Per 1\u{202F}000"),
        table::number("Longest"),
    ];
    table::open(
        out,
        "Calls in which the loop’s thread waited, the longest in sum first; per 1\u{202F}000 requests of all \
         endpoints.",
        &columns,
    )?;
    for (arm, cause) in rows {
        let or_dash = |text: &Option<String>| {
            text.as_ref().map_or_else(
                || "–".to_owned(),
                |text| format!("<bdi>{}</bdi>", escape::markup(text)),
            )
        };
        let from = match (&cause.line, &cause.endpoint) {
            (_, None) => or_dash(&cause.line),
            (_, Some(endpoint)) => format!(
                "{}<br><small><bdi>{}</bdi></small>",
                or_dash(&cause.line),
                escape::markup(endpoint)
            ),
        };
        table::row(
            out,
            &columns,
            &[
                what(cause),
                or_dash(&cause.target),
                from,
                escape::markup(&arm.arm),
                numbers::count(cause.count),
                per_1000(arm, cause.total_us),
                numbers::ms_from_us(cause.longest_us),
            ],
        )?;
    }
    table::close(out)
}

/// `I/O in recvfrom`.
fn what(cause: &WatchedCause) -> String {
    let class = crate::vocabulary::cause_class(&cause.class);
    match &cause.syscall {
        Some(call) => format!(
            "{} in <code>{}</code>",
            escape::markup(class),
            escape::markup(call)
        ),
        None => escape::markup(class),
    }
}

fn notes(out: &mut String, arms: &[WatchedArm]) -> std::fmt::Result {
    let mut notes: Vec<&String> = Vec::new();
    for note in arms.iter().flat_map(|arm| &arm.sum.notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    for note in notes {
        writeln!(out, "<p class=\"note\">{}</p>", escape::markup_prose(note))?;
    }
    Ok(())
}
