//! What two records must have in common before their numbers may be set side by side, and what is
//! only told where it differs.

use crate::level::{Level, UNKNOWN};
use crate::record::{Arm, OpenLoad, RunRecord};

/// From when to when the times of our own records run.
pub(crate) const OWN_TIMES: &str = "from the intended moment to the end of the answer";

/// One property of a record; `None` where it is not known.
pub(crate) type Key = (&'static str, Option<String>);

/// What forbids a comparison, and what couldn't be looked at.
#[derive(Debug, Default)]
pub(crate) struct Hard {
    /// Each hard key that differs, with both values.
    pub(crate) differences: Vec<String>,
    /// Hard keys that one of the two doesn't tell.
    unknown: Vec<&'static str>,
}

impl Hard {
    /// That nobody knows whether some keys agree.
    pub(crate) fn untold(&self) -> Option<String> {
        (!self.unknown.is_empty()).then(|| {
            format!(
                "Not known of both, and taken for the same: {}.",
                self.unknown.join(", ")
            )
        })
    }
}

/// The hard keys of two records: scenario, load model, counts, probe, state reset, machine class,
/// what their times are, and the major version of the tool.
pub(crate) fn hard(before: &RunRecord, after: &RunRecord) -> Hard {
    let mut found = Hard::default();
    for ((key, one), (_, other)) in hard_keys(before).into_iter().zip(hard_keys(after)) {
        match (one, other) {
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => found
                .differences
                .push(format!("{key} {one} before, {other} after")),
            _ => found.unknown.push(key),
        }
    }
    found
}

/// What is told where it differs, and forbids nothing.
pub(crate) fn soft(before: &RunRecord, after: &RunRecord) -> Vec<String> {
    soft_keys(before)
        .into_iter()
        .zip(soft_keys(after))
        .filter(|((_, one), (_, other))| one != other)
        .map(|((key, one), (_, other))| format!("{key}: {one} before, {other} after"))
        .collect()
}

/// In an order that reads well.
pub(crate) fn hard_keys(record: &RunRecord) -> Vec<Key> {
    let imported = record.arms.values().find_map(|arm| arm.imported.as_ref());
    let own = imported.is_none();
    let known = |text: &str| (text != UNKNOWN).then(|| text.to_owned());
    let major = &record.harness.version;
    let major = major.split('.').next().unwrap_or(major).to_owned();
    let times = match imported {
        Some(imported) => imported.times.clone(),
        None => Some(OWN_TIMES.to_owned()),
    };
    let requests = record.load.requests_per_endpoint.to_string();
    vec![
        ("scenario", Some(record.scenario.name.clone())),
        ("scenario's hash", known(&record.scenario.sha256)),
        ("load model", known(&record.load.model)),
        // Without the same levels there would be nothing to set side by side.
        ("levels", Some(levels(record))),
        ("arrivals", own.then(|| arrivals(record.load.open.as_ref()))),
        ("requests per endpoint", own.then_some(requests)),
        ("bystander probe", own.then(|| probe(record))),
        ("state reset", known(&record.load.state_reset)),
        ("machine class", known(&record.machine.class)),
        ("unstall's major version", Some(major)),
        ("times", times),
    ]
}

fn levels(record: &RunRecord) -> String {
    let levels = record.load.levels.iter();
    let levels: Vec<String> = levels
        .map(|level| Level::of(&record.load, *level).to_string())
        .collect();
    levels.join(", ")
}

/// How an open load came.
pub(crate) fn arrivals(open: Option<&OpenLoad>) -> String {
    let Some(open) = open else {
        return "none".to_owned();
    };
    let stages: Vec<String> = open
        .stages
        .iter()
        .map(|stage| {
            let rate = stage.rate_per_second.map(|rate| format!("{rate}/s for "));
            format!("{}{} ms", rate.unwrap_or_default(), stage.duration_ms)
        })
        .collect();
    format!(
        "{}, {}, at most {} in flight",
        open.arrivals,
        stages.join(", "),
        open.in_flight_max
    )
}

pub(crate) fn probe(record: &RunRecord) -> String {
    record.load.probe.as_ref().map_or_else(
        || "none".to_owned(),
        |probe| format!("{} {}/s", probe.path, probe.rate_per_second),
    )
}

fn soft_keys(record: &RunRecord) -> Vec<(&'static str, String)> {
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let arm = record.arms.values().next();
    let of_arm = |value: fn(&Arm) -> &Option<String>| known(arm.map_or(&None, value));
    let mut keys = vec![("measured", record.created_utc.clone())];
    keys.extend(of_machine(record));
    keys.extend([
        ("service commit", of_arm(|arm| &arm.git)),
        ("command", of_arm(|arm| &arm.command)),
        ("URL", of_arm(|arm| &arm.url)),
    ]);
    keys
}

/// The soft keys of the machine and of what was on it.
pub(crate) fn of_machine(record: &RunRecord) -> Vec<(&'static str, String)> {
    let known = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    let machine = &record.machine;
    let quota = machine.cgroup_quota_cores.map(|cores| cores.to_string());
    let steal = record.blocks.iter().filter_map(|block| block.steal_share);
    let steal = steal.fold(0.0, f64::max) * 100.0;
    let pressure = record
        .blocks
        .iter()
        .filter_map(|block| block.cpu_pressure_share);
    // In tens: it is never twice the same.
    let pressure = pressure
        .reduce(f64::max)
        .map(|share| format!("about {:.0} %", (share * 10.0).round() * 10.0));
    let round_trip = record.load.store_round_trip_us.map(|us| format!("{us} µs"));
    vec![
        ("CPU", machine.cpu.clone()),
        ("cores", machine.cores.to_string()),
        ("memory", format!("{} MiB", machine.memory_mib)),
        ("kernel", machine.kernel.clone()),
        ("governor", known(machine.governor.clone())),
        ("CPU quota", known(quota)),
        ("co-located", machine.colocated.to_string()),
        ("most CPU time stolen", format!("{steal:.0} %")),
        (
            "most time with something waiting for a core",
            known(pressure),
        ),
        ("store round trip", known(round_trip)),
        ("unstall", record.harness.version.clone()),
    ]
}
