//! What stands beside the cells in one line each: bystanders, streams, connections, sizes of answers and
//! what a watch saw, as plain text, for the terminal and Markdown.

use unstall_results::answers::{Answers, answers};
use unstall_results::bystander::{Bystander, bystanders};
use unstall_results::comparison::Estimate;
use unstall_results::connecting::{Connecting, connecting};
use unstall_results::level::Level;
use unstall_results::record::RunRecord;
use unstall_results::stream::{Quantiles, StreamSummary, streams};
use unstall_results::watched::{WatchedArm, watched};

use crate::{numbers, observed, vocabulary};

/// A label and what is said, not yet escaped.
pub(crate) struct Aside {
    /// What it is about.
    pub(crate) label: String,
    /// The numbers, before → after.
    pub(crate) text: String,
    /// Why they are doubtful, if they are.
    pub(crate) doubt: Option<String>,
}

/// Bystanders by level, then streams and new connections by endpoint and level, then answers by
/// endpoint, then the watch.
pub(crate) fn asides(record: &RunRecord) -> Vec<Aside> {
    let mut asides = Vec::new();
    let others = bystanders(record);
    let streams = streams(record);
    let levels = observed::levels(record);
    let several = levels.len() > 1;
    for level in &levels {
        let of_level: Vec<&Bystander> = others.iter().filter(|one| one.level == *level).collect();
        if let (Some(probe), false) = (&record.load.probe, of_level.is_empty()) {
            let at = at(*level, several);
            let label = format!("Others, GET {}{at}", probe.path);
            asides.push(bystander(label, &of_level));
        }
    }
    for endpoint in observed::endpoints(record) {
        for level in &levels {
            let of_both: Vec<&StreamSummary> = streams
                .iter()
                .filter(|stream| stream.endpoint == endpoint && stream.level == *level)
                .collect();
            if !of_both.is_empty() {
                let label = format!("Stream {endpoint}{}", at(*level, several));
                asides.push(stream(label, &of_both));
            }
        }
    }
    asides.extend(connections(record, several));
    asides.extend(sizes(record));
    let arms = watched(record);
    if !arms.is_empty() {
        asides.push(watch(&arms));
    }
    asides
}

/// New connections, of both arms in one line.
fn connections(record: &RunRecord, several: bool) -> Vec<Aside> {
    let found = connecting(record);
    let is_same = |a: &Connecting, b: &Connecting| (&a.endpoint, a.level) == (&b.endpoint, b.level);
    found
        .chunk_by(is_same)
        .map(|arms| {
            let level = at(arms[0].level, several);
            Aside {
                label: format!("New connections of {}{level}", arms[0].endpoint),
                text: connections_text(arms),
                doubt: None,
            }
        })
        .collect()
}

fn connections_text(arms: &[Connecting]) -> String {
    let opened = arrows(arms.iter().map(|arm| numbers::count(arm.opened)));
    let mut text = format!("{opened} opened");
    for (what, times) in [
        ("name", of_arms(arms, |arm| arm.dns.as_ref())),
        ("TCP", of_arms(arms, |arm| Some(&arm.tcp))),
        ("TLS", of_arms(arms, |arm| arm.tls.as_ref())),
    ] {
        if !times.is_empty() {
            let p50 = arrows(times.iter().map(|times| shown(&times.p50)));
            let p95 = arrows(times.iter().map(|times| shown(&times.p95)));
            text.push_str(&format!("; {what} p50 {p50}, p95 {p95}"));
        }
    }
    text
}

/// Sizes of answers and redirects, of both arms in one line. Answers of one size that came as they
/// are say nothing of a comparison.
fn sizes(record: &RunRecord) -> Vec<Aside> {
    let found = answers(record);
    let endpoints = found.chunk_by(|a, b| a.endpoint == b.endpoint);
    endpoints
        .filter(|arms| record.arms.len() == 1 || is_telling(arms))
        .map(|arms| Aside {
            label: format!("Answers of {}", arms[0].endpoint),
            text: sizes_text(arms),
            doubt: None,
        })
        .collect()
}

/// Whether answers came in another form than they have, from elsewhere, or from one arm otherwise
/// than from the other.
fn is_telling(arms: &[Answers]) -> bool {
    let shown = |arm: &Answers| bytes_or_dash(arm.body_bytes_each());
    let is_other = |arm: &Answers| shown(arm) != shown(&arms[0]);
    let is_special = |arm: &Answers| arm.is_encoded() || arm.redirects > 0 || is_other(arm);
    arms.len() == 1 || arms.iter().any(is_special)
}

fn sizes_text(arms: &[Answers]) -> String {
    let mut parts = Vec::new();
    let of =
        |what: fn(&Answers) -> Option<f64>| arrows(arms.iter().map(|arm| bytes_or_dash(what(arm))));
    if arms.iter().any(|arm| arm.body_bytes > 0) {
        parts.push(format!("{} each", of(Answers::body_bytes_each)));
    }
    if arms.iter().any(Answers::is_encoded) {
        parts.push(format!("{} on the wire", of(Answers::encoded_bytes_each)));
    }
    if arms.iter().any(|arm| arm.redirects > 0) {
        let redirects = arrows(arms.iter().map(|arm| numbers::count(arm.redirects)));
        parts.push(format!("redirects {redirects}"));
    }
    parts.join(", ")
}

fn bytes_or_dash(bytes: Option<f64>) -> String {
    bytes.map_or_else(|| "–".to_owned(), numbers::bytes)
}

fn of_arms(arms: &[Connecting], of: impl Fn(&Connecting) -> Option<&Quantiles>) -> Vec<&Quantiles> {
    arms.iter().filter_map(of).collect()
}

/// The share of blocked time in every arm, and of each the call that kept its loop the longest.
fn watch(arms: &[WatchedArm]) -> Aside {
    let shares = arrows(arms.iter().map(|arm| {
        let share = arm.share(arm.sum.blocked_us);
        share.map_or_else(|| "–".to_owned(), numbers::share)
    }));
    let worst = arms.iter().filter_map(|arm| {
        let cause = arm.sum.causes.iter().find(|cause| cause.is_blocking)?;
        let mut text = format!("{}: {}", arm.arm, vocabulary::cause_class(&cause.class));
        for (word, part) in [
            ("in", &cause.syscall),
            ("on", &cause.target),
            ("from", &cause.line),
        ] {
            if let Some(part) = part {
                text.push_str(&format!(" {word} {part}"));
            }
        }
        Some(text)
    });
    let parts: Vec<String> = std::iter::once(format!("blocked {shares} of the time"))
        .chain(worst)
        .collect();
    let only_looked = arms.iter().any(|arm| arm.sum.sleeps_by == "looks");
    Aside {
        label: "Watched loop".to_owned(),
        text: parts.join("; "),
        doubt: only_looked.then(|| {
            "short sleeps may be missed: the kernel didn't tell of each, see the report's notes"
                .to_owned()
        }),
    }
}

/// Whether there is more than one level, so that each must be named.
pub(crate) fn several_levels(mut levels: impl Iterator<Item = Level>) -> bool {
    let first = levels.next();
    levels.any(|level| Some(level) != first)
}

fn at(level: Level, several: bool) -> String {
    if several {
        format!(" at {level}")
    } else {
        String::new()
    }
}

fn bystander(label: String, arms: &[&Bystander]) -> Aside {
    let times = |of: fn(&Bystander) -> &Estimate| arrows(arms.iter().map(|arm| shown(of(arm))));
    let mut text = format!(
        "p50 {}, p90 {}, p99 {}, longest {}",
        times(|arm| &arm.p50),
        times(|arm| &arm.p90),
        times(|arm| &arm.p99),
        arrows(arms.iter().map(|arm| numbers::estimate_ms(&arm.longest))),
    );
    let failed = |arm: &Bystander| observed::total(arm.errors.values().copied());
    if arms.iter().any(|arm| failed(arm) > 0) {
        let failed = arrows(arms.iter().map(|arm| numbers::count(failed(arm))));
        text.push_str(&format!(", failed {failed}"));
    }
    Aside {
        label,
        text,
        doubt: arms.iter().find_map(|arm| arm.doubt.clone()),
    }
}

fn stream(label: String, arms: &[&StreamSummary]) -> Aside {
    let times = |of: fn(&StreamSummary) -> &Estimate| arrows(arms.iter().map(|arm| shown(of(arm))));
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    Aside {
        label,
        text: format!(
            "first item p50 {}, gap p50 {}, gap p99 {}, longest gap {}; {} items in one read, truncated {}",
            times(|arm| &arm.ttft.p50),
            times(|arm| &arm.gap.p50),
            times(|arm| &arm.gap.p99),
            arrows(
                arms.iter()
                    .map(|arm| or_dash(arm.gap_ms_max.map(numbers::ms)))
            ),
            arrows(
                arms.iter()
                    .map(|arm| or_dash(arm.coalesced_share.map(numbers::share)))
            ),
            arrows(arms.iter().map(|arm| numbers::count(arm.truncated))),
        ),
        doubt: None,
    }
}

/// A percentile, or that the sample is too small for it.
fn shown(estimate: &Estimate) -> String {
    match numbers::percentile(estimate) {
        Some((value, _)) => value,
        None => "too few".to_owned(),
    }
}

/// `41.2 → 6.1 ms`: the unit once where all have the same.
fn arrows(values: impl Iterator<Item = String>) -> String {
    let values: Vec<String> = values.collect();
    let unit = |value: &str| {
        value
            .rsplit_once(numbers::NARROW)
            .map(|(_, unit)| unit.to_owned())
    };
    let last = values.last().and_then(|value| unit(value));
    let shared = last.filter(|unit| unit.chars().all(|letter| !letter.is_ascii_digit()));
    let count = values.len();
    let shown = values.iter().enumerate().map(|(index, value)| {
        let suffix = shared
            .as_ref()
            .map(|unit| format!("{}{unit}", numbers::NARROW));
        match suffix.and_then(|suffix| value.strip_suffix(&suffix).map(str::to_owned)) {
            Some(number) if index + 1 < count => number,
            _ => value.clone(),
        }
    });
    shown.collect::<Vec<_>>().join(" → ")
}
