//! Where the numbers come from: machine, load, what each arm ran, what was sent.

use std::fmt::Write as _;

use unstall_results::level::Level;
use unstall_results::record::{Arm, ArmAccess, Block, CapacityLoad, Load, RunRecord};

use super::table;
use crate::{escape, numbers, observed, vocabulary};

/// Endpoints in the table of the scenario.
const ENDPOINTS_MAX: usize = 200;

/// Writes the environment of one record.
pub(super) fn write(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    writeln!(out, "<h4>Environment</h4>")?;
    if record.machine.colocated {
        let meaning = match record.load.capacity {
            Some(_) => {
                "with cores of its own the service may take more; of two versions the ratio is what holds."
            }
            None => "compare the arms, do not read the absolute numbers as capacity.",
        };
        writeln!(
            out,
            "<p class=\"banner\"><strong>Co-located.</strong> Load generator, service and stores share the \
             cores of one machine: {meaning}</p>"
        )?;
    }
    let is_insecure = |arm: &Arm| arm.access.as_ref().is_some_and(|access| access.insecure);
    if record.arms.values().any(is_insecure) {
        writeln!(
            out,
            "<p class=\"banner\"><strong>Certificates not verified.</strong> The service was reached with \
             <code>--insecure</code>: anybody may have answered.</p>"
        )?;
    }
    if record.interrupted {
        writeln!(
            out,
            "<p class=\"banner\"><strong>Stopped early.</strong> The measurement ended before its plan was done.</p>"
        )?;
    }
    writeln!(out, "<dl class=\"env\">")?;
    for (term, description) in facts(record) {
        writeln!(out, "<div><dt>{term}</dt><dd>{description}</dd></div>")?;
    }
    writeln!(out, "</dl>")?;
    requests(out, record)
}

/// (term, safe markup).
fn facts(record: &RunRecord) -> Vec<(&'static str, String)> {
    let machine = &record.machine;
    let text = escape::markup;
    let mut facts = vec![
        ("Machine", text(&machine.class)),
        (
            "CPU",
            format!(
                "{}, {}",
                text(&machine.cpu),
                vocabulary::plural(machine.cores.into(), "core", "cores")
            ),
        ),
        ("Kernel", text(&machine.kernel)),
    ];
    if let Some(governor) = &machine.governor {
        facts.push(("Governor", text(governor)));
    }
    if let Some(quota) = machine.cgroup_quota_cores {
        facts.push(("CPU quota", format!("{} cores", numbers::tick(quota))));
    }
    if let Some(floor) = &record.floor {
        facts.push((
            "Floor",
            format!(
                "a server that does nothing: p50 {}, p99 {}, at most {} per second",
                numbers::ms_from_us(floor.response_us_p50),
                numbers::ms_from_us(floor.response_us_p99),
                numbers::tick(floor.requests_per_second.round())
            ),
        ));
    }
    facts.extend(load(record));
    facts.extend(held(record));
    facts.extend(arms(record));
    let git = record
        .harness
        .git
        .as_ref()
        .map_or_else(String::new, |git| format!(" ({})", text(git)));
    facts.push(("Unstall", format!("{}{git}", text(&record.harness.version))));
    facts.push((
        "Record",
        format!("{}, {}", text(&record.id), text(&record.created_utc)),
    ));
    facts
}

/// Who sent when.
fn model(load: &Load) -> String {
    let levels = load.levels.iter().map(|level| Level::of(load, *level));
    let levels: Vec<String> = levels.map(numbers::level_number).collect();
    let levels = match &load.capacity {
        Some(capacity) => searched(capacity, levels.len()),
        None => levels.join(", "),
    };
    let model = escape::markup(&load.model);
    let Some(open) = &load.open else {
        return format!("{model}, concurrency {levels}");
    };
    let seconds = |ms: u64| numbers::tick(numbers::as_f64(ms) / 1_000.0);
    let stages: Vec<String> = open
        .stages
        .iter()
        .map(|stage| {
            let rate = stage.rate_per_second.map(|rate| format!("{rate}/s for "));
            // Without a rate of its own, the stage has its level's.
            format!(
                "{}{} s",
                rate.unwrap_or_default(),
                seconds(stage.duration_ms)
            )
        })
        .collect();
    format!(
        "{model}, {} arrivals at {levels} ({}), at most {} in flight",
        escape::markup(&open.arrivals),
        stages.join(", then "),
        numbers::count(open.in_flight_max.into())
    )
}

/// What a search was given, instead of all rates that it has tried.
fn searched(capacity: &CapacityLoad, tried: usize) -> String {
    format!(
        "{tried} rates from {}/s on, at most {}/s, for a capacity to ±{} %, with at most {} blocks \
         of each version",
        numbers::tick(capacity.from_per_second),
        numbers::tick(capacity.highest_per_second),
        numbers::tick(capacity.precision * 100.0),
        capacity.blocks_max
    )
}

/// What was sent, and from what state.
fn load(record: &RunRecord) -> Vec<(&'static str, String)> {
    let load = &record.load;
    let text = escape::markup;
    let mut facts = vec![("Load", model(load))];
    let requests = match load.requests_per_endpoint {
        // Time ends a block.
        0 => String::new(),
        requests => format!(
            "{} per endpoint, level and block; ",
            numbers::count(requests)
        ),
    };
    facts.push((
        "Requests",
        format!(
            "{requests}warm-up {} per user, at least {}",
            numbers::count(load.warmup_per_user.into()),
            numbers::ms_from_us(load.warmup_ms_min.saturating_mul(1_000))
        ),
    ));
    if let Some(probe) = &load.probe {
        facts.push((
            "Bystander probe",
            format!(
                "<code>GET {}</code>, {} per second beside the load",
                text(&probe.path),
                numbers::tick(probe.rate_per_second)
            ),
        ));
    }
    if load.pairs > 0 {
        facts.push(("Planned pairs", numbers::count(load.pairs.into())));
        if !load.looks.is_empty() {
            let looks: Vec<String> = load.looks.iter().map(u32::to_string).collect();
            facts.push(("Looks", format!("after {} pairs", looks.join(", "))));
        }
    }
    facts.push(("Seed", load.seed.to_string()));
    facts.push(("State reset", text(&load.state_reset)));
    if let Some(stated) = load.store_round_trip_us {
        let measured = load
            .store_round_trip_us_measured
            .map_or_else(String::new, |us| {
                format!(", measured {}", numbers::ms_from_us(us))
            });
        facts.push((
            "Store round trip",
            format!("{} stated{measured}", numbers::ms_from_us(stated)),
        ));
    }
    facts
}

/// Streams that were held open beside the load, and how many of them each arm took.
fn held(record: &RunRecord) -> Option<(&'static str, String)> {
    let seen = |block: &Block| block.background.clone();
    let users = record.blocks.iter().filter_map(seen);
    let users = users.map(|background| background.users).max()?;
    let arms = observed::arms(record).into_iter().filter_map(|arm| {
        let blocks = record.blocks.iter().filter(|block| block.arm == arm);
        let held = blocks.filter_map(seen);
        let held = held.map(|one| (one.open_at_begin.min(one.open_at_end), one.open_at_begin));
        let least = held.clone().map(|(least, _)| least).min()?;
        let most = held.map(|(_, most)| most).max()?;
        let arm = escape::markup(arm);
        let [least, most] = [least, most].map(|users| numbers::count(users.into()));
        Some(if least == most {
            format!("{arm} {most}")
        } else {
            format!("{arm} {least} to {most}")
        })
    });
    let arms: Vec<String> = arms.collect();
    let asked = numbers::count(users.into());
    let text = format!("{asked} asked for; open: {}", arms.join(", "));
    Some(("Streams held open", text))
}

/// What each arm ran.
fn arms(record: &RunRecord) -> impl Iterator<Item = (&'static str, String)> {
    observed::arms(record).into_iter().filter_map(|name| {
        let arm = record.arms.get(name)?;
        let what = match arm.command.as_ref().or(arm.url.as_ref()) {
            Some(started_or_found) => format!("<code>{}</code>", escape::markup(started_or_found)),
            None => "unknown".to_owned(),
        };
        let git = arm
            .git
            .as_ref()
            .map_or_else(String::new, |git| format!(" at {}", escape::markup(git)));
        let term = match name {
            "before" => "Before",
            "after" => "After",
            _ => "Service",
        };
        let access = arm.access.as_ref().map_or_else(String::new, access);
        Some((term, format!("{what}{git}{access}")))
    })
}

/// What stood between the generator and an arm.
fn access(access: &ArmAccess) -> String {
    let mut text = String::new();
    if let Some(proxy) = &access.proxy {
        let proxy = escape::markup(proxy);
        text.push_str(&format!(", through the proxy <code>{proxy}</code>"));
    }
    if access.full_handshakes {
        text.push_str(", every TLS handshake a full one");
    }
    if access.insecure {
        text.push_str(", certificates not verified");
    }
    text
}

fn requests(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let columns = [
        table::text("Endpoint"),
        table::text("Method"),
        table::text("Path"),
        table::number("Timeout"),
    ];
    writeln!(
        out,
        "<details><summary>Scenario <bdi>{}</bdi>: what each user sends</summary>",
        escape::markup(&record.scenario.name)
    )?;
    table::open(
        out,
        &format!(
            "In this order. SHA-256 of the scenario {}",
            escape::markup(&record.scenario.sha256)
        ),
        &columns,
    )?;
    let endpoints = &record.scenario.endpoints;
    for endpoint in endpoints.iter().take(ENDPOINTS_MAX) {
        table::row(
            out,
            &columns,
            &[
                format!("<bdi>{}</bdi>", escape::markup(&endpoint.name)),
                escape::markup(&endpoint.method),
                format!("<code>{}</code>", escape::markup(&endpoint.path)),
                numbers::ms_from_us(endpoint.timeout_ms.saturating_mul(1_000)),
            ],
        )?;
    }
    table::close(out)?;
    table::more(out, endpoints.len().saturating_sub(ENDPOINTS_MAX), "")?;
    writeln!(out, "</details>")
}
