//! From what a tool saw to a record of one version, with all that isn't known said.

use std::collections::BTreeMap;
use std::time::Duration;

use super::seen::{Seen, SeenEndpoint, SeenLoad, SeenTimes};
use super::{ImportError, ImportOptions, malformed};
use crate::histogram::LatencyHistogram;
use crate::level::{CLOSED, Level, OPEN, UNKNOWN};
use crate::record::{
    Arm, Block, BlockValidity, EndpointIdentity, EndpointSamples, ErrorKind, Harness, Imported,
    Load, Machine, OpenLoad, OpenStage, RunRecord, SCHEMA_MAJOR, SCHEMA_MINOR, SCHEMA_NAME,
    ScenarioIdentity, Schema,
};
use crate::validate::saturating_sum;

/// The arm of a record of one version.
const ONLY: &str = "run";

pub(super) fn record(mut seen: Seen, options: &ImportOptions) -> Result<RunRecord, ImportError> {
    let file = options
        .origin
        .file_name()
        .unwrap_or(options.origin.as_os_str());
    let file = file.to_string_lossy().into_owned();
    name_endpoint(&mut seen, options)?;
    refuse_another_load(&seen, options)?;
    if seen.endpoints.iter().all(|of| ended(of) == 0) {
        return Err(malformed(
            &options.origin,
            1,
            "not one request ended in it",
            "give the output of a run that got answers",
        ));
    }
    let (load, level) = load(&seen, options);
    let begun = seen.begun.map(|begun| begun.to_string());
    let begun = begun.unwrap_or_else(|| options.now_utc.clone());
    let missing = missing(&seen, options);
    let imported = Imported {
        tool: seen.tool.to_owned(),
        file: file.clone(),
        times: seen.times.map(ToOwned::to_owned),
        missing,
        recorded: seen.recorded,
        percentiles: stated(&seen),
    };
    let label = options.label.clone();
    Ok(RunRecord {
        schema: Schema {
            name: SCHEMA_NAME.to_owned(),
            major: SCHEMA_MAJOR,
            minor: SCHEMA_MINOR,
        },
        id: options.id.clone(),
        label: label.unwrap_or_else(|| format!("{file} (imported from {})", seen.tool)),
        created_utc: begun.clone(),
        harness: Harness {
            version: options.harness_version.clone(),
            git: None,
        },
        machine: options.machine.clone().unwrap_or_else(unknown_machine),
        floor: None,
        scenario: ScenarioIdentity {
            name: options
                .scenario
                .clone()
                .unwrap_or_else(|| seen.tool.to_owned()),
            sha256: UNKNOWN.to_owned(),
            endpoints: seen.endpoints.iter().map(identity).collect(),
        },
        load,
        step: None,
        arms: BTreeMap::from([(ONLY.to_owned(), arm(&seen, imported))]),
        blocks: vec![block(seen, level, begun)],
        interrupted: false,
        merged: None,
        contrast: None,
    })
}

fn arm(seen: &Seen, imported: Imported) -> Arm {
    Arm {
        command: None,
        url: seen.url.clone(),
        git: None,
        access: None,
        imported: Some(imported),
    }
}

/// Gives the only endpoint the name that the user has for it.
fn name_endpoint(seen: &mut Seen, options: &ImportOptions) -> Result<(), ImportError> {
    let Some(name) = &options.endpoint else {
        return Ok(());
    };
    match seen.endpoints.as_mut_slice() {
        [only] => only.name.clone_from(name),
        several => {
            let names: Vec<&str> = several.iter().map(|of| of.name.as_str()).take(8).collect();
            return Err(malformed(
                &options.origin,
                1,
                format!("it holds {} endpoints: {}", several.len(), names.join(", ")),
                "leave --endpoint out: it names the only endpoint of a file",
            ));
        }
    }
    Ok(())
}

/// What the tool can't have done isn't believed.
fn refuse_another_load(seen: &Seen, options: &ImportOptions) -> Result<(), ImportError> {
    let (what, option) = match seen.load {
        SeenLoad::Closed { .. } if options.rate_per_second.is_some() => {
            ("sends when an answer is there, at no rate", "--rate")
        }
        SeenLoad::Closed { users } if options.concurrency.is_some_and(|of| of != users) => {
            ("says itself how many connections it had", "--concurrency")
        }
        SeenLoad::Open { .. } if options.concurrency.is_some() => {
            ("sends at a rate, whatever the answers do", "--concurrency")
        }
        _ => return Ok(()),
    };
    Err(malformed(
        &options.origin,
        1,
        format!("{} {what}", seen.tool),
        &format!("leave {option} out"),
    ))
}

/// How it was sent, as the tool tells it or else the user, and the level's number.
fn load(seen: &Seen, options: &ImportOptions) -> (Load, u32) {
    let millis = u64::try_from(seen.wall.as_millis()).unwrap_or(u64::MAX);
    let open = |in_flight_max| OpenLoad {
        arrivals: UNKNOWN.to_owned(),
        stages: vec![OpenStage {
            rate_per_second: None,
            duration_ms: millis,
        }],
        in_flight_max,
    };
    let (model, level, open) = match (seen.load, options.concurrency, options.rate_per_second) {
        (SeenLoad::Open { connections }, _, Some(rate)) => {
            (OPEN, Level::of_rate(rate).key(), Some(open(connections)))
        }
        (SeenLoad::Unknown, None, Some(rate)) => (OPEN, Level::of_rate(rate).key(), Some(open(0))),
        (SeenLoad::Closed { users }, ..) | (SeenLoad::Unknown, Some(users), _) => {
            (CLOSED, users, None)
        }
        (SeenLoad::Open { .. } | SeenLoad::Unknown, ..) => (UNKNOWN, 0, None),
    };
    let load = Load {
        model: model.to_owned(),
        levels: vec![level],
        // Time ended it, or what the tool doesn't tell.
        requests_per_endpoint: 0,
        warmup_per_user: 0,
        warmup_ms_min: 0,
        pairs: 0,
        seed: 0,
        state_reset: UNKNOWN.to_owned(),
        store_round_trip_us: None,
        store_round_trip_us_measured: None,
        probe: None,
        open,
        capacity: None,
        looks: Vec::new(),
    };
    (load, level)
}

fn missing(seen: &Seen, options: &ImportOptions) -> Vec<String> {
    let mut missing = seen.missing.clone();
    if seen.begun.is_none() {
        missing.push("When it was measured: its time is that of the import.".to_owned());
    }
    if options.machine.is_none() {
        missing.push("The machine that measured.".to_owned());
    }
    let is_told = options.concurrency.is_some() || options.rate_per_second.is_some();
    match seen.load {
        SeenLoad::Open { .. } if options.rate_per_second.is_none() => {
            missing.push("The rate at which requests were to go out (--rate).".to_owned());
        }
        SeenLoad::Unknown if !is_told => missing.push(
            "Whether users waited for their answers (--concurrency) or not (--rate).".to_owned(),
        ),
        _ => {}
    }
    let cut_off = saturating_sum(seen.endpoints.iter().map(|of| of.cut_off));
    if cut_off > 0 {
        missing.push(format!(
            "What became of {cut_off} requests that were under way at the end."
        ));
    }
    missing.push(
        "How the numbers vary from block to block: it is one stretch of load, with its warm-up."
            .to_owned(),
    );
    missing
}

fn stated(seen: &Seen) -> BTreeMap<String, Vec<crate::record::StatedPercentile>> {
    let stated = seen.endpoints.iter().filter_map(|of| match &of.times {
        SeenTimes::Stated(percentiles) => Some((of.name.clone(), percentiles.clone())),
        SeenTimes::All { .. } => None,
    });
    stated.collect()
}

fn unknown_machine() -> Machine {
    Machine {
        class: UNKNOWN.to_owned(),
        cpu: UNKNOWN.to_owned(),
        cores: 0,
        memory_mib: 0,
        kernel: UNKNOWN.to_owned(),
        governor: None,
        cgroup_quota_cores: None,
        colocated: false,
    }
}

fn identity(endpoint: &SeenEndpoint) -> EndpointIdentity {
    let longest_us = match &endpoint.times {
        SeenTimes::All { answers, failures } => answers.max_us().max(failures.max_us()),
        SeenTimes::Stated(percentiles) => percentiles.last().map(|last| last.us.ceil() as u64),
    };
    EndpointIdentity {
        name: endpoint.name.clone(),
        method: endpoint.method.clone(),
        path: endpoint.path.clone(),
        // Tools don't tell it: a failure counts as no faster than the slowest answer.
        timeout_ms: longest_us.unwrap_or(0).div_ceil(1_000),
        judged: true,
        share: None,
    }
}

fn ended(endpoint: &SeenEndpoint) -> u64 {
    saturating_sum(
        endpoint
            .errors
            .values()
            .copied()
            .chain([endpoint.completed]),
    )
}

fn block(seen: Seen, level: u32, begun: String) -> Block {
    let wall = seen.wall.max(Duration::from_nanos(1));
    let mut errors: BTreeMap<ErrorKind, u64> = BTreeMap::new();
    for (kind, count) in seen.endpoints.iter().flat_map(|of| &of.errors) {
        let sum = errors.entry(*kind).or_insert(0);
        *sum = sum.saturating_add(*count);
    }
    let cut_off = seen.endpoints.iter().map(|of| of.cut_off);
    let offered = saturating_sum(cut_off.chain(seen.endpoints.iter().map(ended)));
    Block {
        arm: ONLY.to_owned(),
        pair: 0,
        position: 0,
        level,
        process_start_id: None,
        started_utc: begun,
        started_mono_ns: 0,
        wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
        offered,
        sent: offered,
        completed: saturating_sum(seen.endpoints.iter().map(|of| of.completed)),
        errors,
        local_faults: BTreeMap::new(),
        generator_lag: LatencyHistogram::new(),
        endpoints: seen.endpoints.into_iter().map(samples).collect(),
        probe: None,
        series: Vec::new(),
        monitor: None,
        background: None,
        service_counters: None,
        process: None,
        watch: None,
        open: None,
        stalls: None,
        generator_cpu_us: 0,
        generator_busy_share: None,
        steal_share: None,
        cpu_pressure_share: None,
        validity: BlockValidity {
            ok: true,
            reasons: Vec::new(),
        },
    }
}

fn samples(endpoint: SeenEndpoint) -> (String, EndpointSamples) {
    let (response, failed) = match endpoint.times {
        SeenTimes::All { answers, failures } => (answers, failures),
        SeenTimes::Stated(_) => Default::default(),
    };
    let samples = EndpointSamples {
        completed: endpoint.completed,
        errors: endpoint.errors,
        response,
        failed,
        body_bytes: endpoint.body_bytes,
        encoded_bytes: endpoint.body_bytes,
        ..EndpointSamples::default()
    };
    (endpoint.name, samples)
}
