//! One block: warm up, look at the service, load it, look again, and write down what was seen.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use unstall_results::bystander;
use unstall_results::open_lag_limit_us;
use unstall_results::policy::{
    GENERATOR_BUSY_SHARE_MAX, GENERATOR_LAG_P99_US_MAX, Policy, STEAL_SHARE_MAX,
};
use unstall_results::record::{
    BackgroundSamples, Block, BlockValidity, LocalFault, MonitorEndpoint, ProbeSamples, ProcessUse,
    Stalls, Watched,
};
use unstall_scenarios::plan::Plan;

use crate::block_watch::BlockWatch;
use crate::engine::{
    BlockMeasurement, BlockSpec, Ended, EndpointSecond, EngineError, ErrorExample, Progress, Stop,
    Target, WarmBlock,
};
use crate::limits;
use crate::machine::{CpuPressure, CpuTimes};
use crate::monitor_client::{Edge, MonitorClient, MonitorError, Sight, TOKEN_VARIABLE};
use crate::monitor_difference::{Delta, Difference, difference, misses_requests};
use crate::process_group::ServiceProcess;
use crate::stalls;

/// Where a block stands in its measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockPlace {
    /// Arm that is measured.
    pub arm: String,
    /// Pair, from 0.
    pub pair: u32,
    /// 0 or 1: first or second within its pair.
    pub position: u32,
}

/// The service under load.
#[derive(Debug, Clone, Copy)]
pub enum Service<'a> {
    /// One that runs already.
    Running(&'a Target),
    /// One that was started for this block: its resources are counted too.
    Started(&'a ServiceProcess),
}

impl Service<'_> {
    /// Where it listens.
    pub fn target(&self) -> &Target {
        match self {
            Self::Running(target) => target,
            Self::Started(process) => process.target(),
        }
    }
}

/// A measured block with what belongs to no record.
#[derive(Debug, Clone)]
pub struct MeasuredBlock {
    /// For the record.
    pub block: Block,
    /// Why it ended.
    pub ended: Ended,
    /// What errors looked like.
    pub examples: Vec<ErrorExample>,
    /// Each second of each endpoint, if that was asked for.
    pub endpoint_seconds: Vec<EndpointSecond>,
    /// What a person should know, with what to do about it.
    pub warnings: Vec<String>,
    /// Why the probe's route is none that can be probed, if it gave no good answer before
    /// the load.
    pub probe_refusal: Option<String>,
    /// Why the service's loops could not be watched, if that was asked for.
    pub watch_refusal: Option<String>,
}

/// Why a block could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// The engine could not drive it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The service's monitor can't be understood.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// The kernel's counters can't be read.
    #[error("the service's processes can't be watched: {0}")]
    Process(#[source] io::Error),
}

/// Measures one block. Blocks the calling thread until its end.
///
/// # Errors
/// [`BlockError`] if nothing could be measured; whatever the service does, also to
/// die, is in the block.
pub fn measure(
    plan: &Arc<Plan>,
    service: Service<'_>,
    place: &BlockPlace,
    spec: &BlockSpec,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Result<MeasuredBlock, BlockError> {
    // More looks at the first edge: workers that alternate must be found before they count.
    const LOOKS_BEFORE: u32 = 3;
    const LOOKS_AFTER: u32 = 2;
    let monitored = service.target().clone().speaking(plan.client.http);
    let monitor = MonitorClient::new(&monitored)?;
    let warm = WarmBlock::prepare(plan, service.target(), spec, stop, progress)?;
    let before = match monitor.edge(LOOKS_BEFORE) {
        // What keeps a service from answering here is the load's to find out.
        Err(error @ MonitorError::NoAnswer(_)) => Err(error),
        edge => Ok(edge?),
    };
    if matches!(&before, Ok(Sight::Seen(edge)) if stalls::can_be_placed(edge)) {
        warm.keep_times();
    }
    let watch = spec.watch.then(|| BlockWatch::attach(service.target()));
    let sampler = match service {
        Service::Started(process) => Some(process.sample().map_err(BlockError::Process)?),
        Service::Running(_) => None,
    };
    if let Some(Ok(watch)) = &watch {
        watch.begin();
    }
    let cpu_before = CpuTimes::now();
    let pressure_before = CpuPressure::now();
    let mut measurement = warm.measure()?;
    let pressure_after = CpuPressure::now();
    let cpu_after = CpuTimes::now();
    let watched = watch.map(|watch| {
        watch
            .map_err(|error| error.to_string())
            .map(BlockWatch::end)
    });
    let process = sampler
        .map(|sampler| sampler.end().map_err(BlockError::Process))
        .transpose()?;
    // The block is measured by now: no answer of the monitor is worth losing it.
    let after = match &before {
        Ok(Sight::Seen(before)) => monitor.edge_after(before, LOOKS_AFTER),
        _ => Ok(Sight::Nothing),
    };
    measurement.held = None;
    let surroundings = Surroundings {
        process_start_id: start_id(&before, service),
        process,
        steal_share: cpu_after
            .zip(cpu_before)
            .and_then(|(after, before)| after.steal_share_since(&before)),
        cpu_pressure_share: pressure_after
            .zip(pressure_before)
            .and_then(|(after, before)| after.share_since(&before)),
        before,
        after,
        watched,
    };
    Ok(assemble(plan, place, spec, measurement, surroundings))
}

/// What was seen beside the load.
struct Surroundings {
    process_start_id: Option<String>,
    process: Option<ProcessUse>,
    steal_share: Option<f64>,
    cpu_pressure_share: Option<f64>,
    before: Result<Sight<Edge>, MonitorError>,
    after: Result<Sight<Edge>, MonitorError>,
    /// What was seen, or why the loops could not be watched.
    watched: Option<Result<Option<Watched>, String>>,
}

/// The monitor's own id where there is one: it is the process that answered.
fn start_id(sight: &Result<Sight<Edge>, MonitorError>, service: Service<'_>) -> Option<String> {
    match (sight, service) {
        (Ok(Sight::Seen(edge)), _) => Some(edge.snapshot.start_id.clone()),
        (_, Service::Started(process)) => Some(process.start_id().to_owned()),
        (_, Service::Running(_)) => None,
    }
}

fn assemble(
    plan: &Plan,
    place: &BlockPlace,
    spec: &BlockSpec,
    mut measurement: BlockMeasurement,
    surroundings: Surroundings,
) -> MeasuredBlock {
    let probe_path = spec.probe.as_ref().map(|probe| probe.path.as_str());
    let (delta, mut warnings) = monitor_delta(plan, probe_path, &surroundings);
    let delta = delta.filter(|delta| sees_all(delta, &measurement, &mut warnings));
    let stalls = match delta {
        Some(_) => found_stalls(plan, &surroundings, &mut measurement, &mut warnings),
        None => None,
    };
    let (monitor, service_counters, of_probe) = delta.map_or((None, None, None), |delta| {
        (Some(delta.monitor), delta.service_counters, delta.probe)
    });
    let (probe, probe_refusal) = probed(&measurement, of_probe);
    warnings.extend(probe.as_ref().and_then(bystander::doubt));
    warnings.extend(gone(&measurement, spec));
    warnings.extend(measurement.background.as_ref().and_then(let_go));
    warnings.extend(measurement.doubtful_gaps());
    let (watch, watch_refusal) = seen_or_refused(surroundings.watched, &mut warnings);
    let validity = validity(&measurement, spec, surroundings.steal_share, &warnings);
    let block = Block {
        arm: place.arm.clone(),
        pair: place.pair,
        position: place.position,
        level: spec.load.level().key(),
        process_start_id: surroundings.process_start_id,
        started_utc: measurement.started_utc,
        started_mono_ns: measurement.started_mono_ns,
        wall_ns: u64::try_from(measurement.wall.as_nanos()).unwrap_or(u64::MAX),
        offered: measurement.offered,
        sent: measurement.sent,
        completed: measurement.completed,
        errors: measurement.errors,
        local_faults: measurement.local_faults,
        generator_lag: measurement.generator_lag,
        endpoints: measurement.endpoints,
        probe,
        background: measurement.background,
        series: measurement.series,
        monitor,
        service_counters,
        process: surroundings.process,
        watch,
        open: measurement.open,
        generator_busy_share: measurement.generator_busy_share,
        generator_cpu_us: u64::try_from(measurement.generator_cpu.as_micros()).unwrap_or(u64::MAX),
        stalls,
        steal_share: surroundings.steal_share,
        cpu_pressure_share: surroundings.cpu_pressure_share,
        validity,
    };
    MeasuredBlock {
        block,
        ended: measurement.ended,
        examples: measurement.examples,
        endpoint_seconds: measurement.endpoint_seconds,
        warnings,
        probe_refusal,
        watch_refusal,
    }
}

/// Whether the monitor counted what was sent: else its counts are left out.
fn sees_all(delta: &Delta, measurement: &BlockMeasurement, warnings: &mut Vec<String>) -> bool {
    let misses = misses_requests(&delta.monitor, &measurement.endpoints);
    if misses {
        warnings.push(REQUESTS_UNSEEN.to_owned());
    }
    !misses
}

/// What the probe saw, with what its route did, and why it can't be used.
fn probed(
    measurement: &BlockMeasurement,
    of_probe: Option<MonitorEndpoint>,
) -> (Option<ProbeSamples>, Option<String>) {
    let Some(probe) = measurement.probe.clone() else {
        return (None, None);
    };
    let samples = ProbeSamples {
        monitor: of_probe,
        ..probe.samples
    };
    (Some(samples), probe.refusal)
}

/// The stalls between the two edges, where one process served the whole block.
fn found_stalls(
    plan: &Plan,
    surroundings: &Surroundings,
    measurement: &mut BlockMeasurement,
    warnings: &mut Vec<String>,
) -> Option<Stalls> {
    let (Ok(Sight::Seen(before)), Ok(Sight::Seen(after))) =
        (&surroundings.before, &surroundings.after)
    else {
        return None;
    };
    let found = stalls::of_block(plan, before, after, measurement)?;
    warnings.extend(found.note);
    Some(found.stalls)
}

fn gone(measurement: &BlockMeasurement, spec: &BlockSpec) -> Option<String> {
    (measurement.ended == Ended::ServiceGone).then(|| {
        format!(
            "the service gave no answer at all for {} s and was given up after {} requests: \
             see its log; the block holds what came before",
            spec.patience.as_secs_f64(),
            measurement.offered,
        )
    })
}

/// What kept a background from being as large as it was to be, which is the service's doing, and
/// may be the very thing that the scenario is there to show.
fn let_go(background: &BackgroundSamples) -> Option<String> {
    let BackgroundSamples {
        users,
        open_at_begin,
        open_at_end,
        ended,
        errors,
        local_faults: _, // said where they make the block invalid
    } = background;
    if open_at_begin.min(open_at_end) == users && errors.is_empty() {
        return None;
    }
    let mut seen = format!(
        "beside the load {users} streams were to be held open: {open_at_begin} were when it began, \
         {open_at_end} when it ended"
    );
    if *ended > 0 {
        seen += &format!("; {ended} came to their end and were opened again");
    }
    for (kind, count) in errors {
        seen += &format!("; {count} failed ({})", kind.as_str());
    }
    Some(seen)
}

/// What was seen of the loops, and why nothing was, which is also a warning.
fn seen_or_refused(
    watched: Option<Result<Option<Watched>, String>>,
    warnings: &mut Vec<String>,
) -> (Option<Watched>, Option<String>) {
    match watched {
        Some(Ok(Some(watched))) => (Some(watched), None),
        Some(Ok(None)) => {
            let refusal = "the watch failed while it went on (see stderr)".to_owned();
            seen_or_refused(Some(Err(refusal)), warnings)
        }
        Some(Err(refusal)) => {
            warnings.push(format!("the service's loops were not watched: {refusal}"));
            (None, Some(refusal))
        }
        None => (None, None),
    }
}

const REQUESTS_UNSEEN: &str = "the loop monitor counted fewer requests than were answered, so its \
    counters are left out: either several processes answer behind one port (run the service with \
    one worker), or something in front of the monitor answers (make the monitor the outermost layer)";

const SEVERAL_WORKERS: &str = "several processes answer behind one port, so the loop monitor's \
    counters can't be told apart and are left out: run the service with one worker";

/// The monitor's difference, and what to tell about it or when there is none to be had.
fn monitor_delta(
    plan: &Plan,
    probe_path: Option<&str>,
    surroundings: &Surroundings,
) -> (Option<Delta>, Vec<String>) {
    let before = match &surroundings.before {
        Ok(Sight::Seen(before)) => before,
        Ok(Sight::Refused(reason)) => {
            let warning = format!(
                "the loop monitor is not read: {reason} ({TOKEN_VARIABLE} is what unstall sends)"
            );
            return (None, vec![warning]);
        }
        Ok(Sight::Nothing) => return (None, Vec::new()),
        Err(error) => {
            let warning = format!(
                "{error}; this block has none of its counters: see the service's log, and \
                 measure again if it has a monitor"
            );
            return (None, vec![warning]);
        }
    };
    let after = match &surroundings.after {
        Ok(Sight::Seen(after)) => Some(difference(before, after, plan, probe_path)),
        Ok(Sight::Refused(_) | Sight::Nothing) => None,
        Err(error) => {
            let warning = format!("{error}; its counters of this block are left out");
            return (None, vec![warning]);
        }
    };
    let warning = match after {
        Some(Difference::Of(delta)) => {
            let warnings = delta.shared_with_probe.iter().map(|endpoint| {
                format!(
                    "the bystander probe asks for the route of `{endpoint}`, so the loop monitor \
                     counts both together: name a route of its own in the scenario's [probe]"
                )
            });
            let warnings = warnings.collect();
            return (Some(*delta), warnings);
        }
        Some(Difference::Restarted) => {
            "the service restarted during the block: see its log; the loop monitor's \
             counters of this block are left out"
        }
        Some(Difference::SeveralWorkers) => SEVERAL_WORKERS,
        None => {
            "the loop monitor answered before the block and not after it: see the service's \
             log; its counters of this block are left out"
        }
    };
    (None, vec![warning.to_owned()])
}

/// A generator whose thread computes all the time measures itself. Short blocks are left alone: a
/// few requests to a service that does nothing are sent as fast as they can be.
fn too_busy(measurement: &BlockMeasurement, less: &str) -> Option<String> {
    const LASTED_AT_LEAST: Duration = Duration::from_secs(1);
    let share = measurement.generator_busy_share?;
    (share > GENERATOR_BUSY_SHARE_MAX && measurement.wall >= LASTED_AT_LEAST).then(|| {
        format!(
            "a thread of the load generator computed for {:.0} % of the time (at most {:.0} %), so \
             it was the limit and not the service: {less}, or measure from a faster machine",
            share * 100.0,
            GENERATOR_BUSY_SHARE_MAX * 100.0
        )
    })
}

/// Arrivals that wait at one thread while users are free at another wait for us. As with lateness,
/// one in a hundred is too many.
fn missed(measurement: &BlockMeasurement) -> Option<String> {
    const MISSED_SHARE_MAX: f64 = 0.01;
    let arrivals = measurement.open.as_ref()?.arrivals;
    let missed = measurement.missed_with_users_free;
    (missed as f64 > MISSED_SHARE_MAX * arrivals as f64).then(|| {
        format!(
            "{missed} of {arrivals} arrivals waited at one thread of the load generator while users \
             were free at another (at most {:.0} %): allow more arrivals in flight (--in-flight)",
            MISSED_SHARE_MAX * 100.0
        )
    })
}

/// Only faults of our own make a block invalid; `notes` about the service are kept beside.
fn validity(
    measurement: &BlockMeasurement,
    spec: &BlockSpec,
    steal_share: Option<f64>,
    notes: &[String],
) -> BlockValidity {
    let mut reasons = Vec::new();
    let of_background = measurement.background.iter();
    let of_background = of_background.flat_map(|background| &background.local_faults);
    for (fault, count) in measurement.local_faults.iter().chain(of_background) {
        reasons.push(match fault {
            LocalFault::NoDescriptors => {
                let most = limits::descriptors_allowed();
                let most = most.map_or_else(String::new, |most| format!(" of the {most} allowed"));
                format!("{count} requests found no free descriptor{most}: raise `ulimit -n`")
            }
            LocalFault::NoPorts => format!(
                "{count} requests found no free port on this machine: let the service keep \
                 connections alive, or widen net.ipv4.ip_local_port_range"
            ),
        });
    }
    let lag_p99_us = measurement.generator_lag.quantile_us(0.99).unwrap_or(0);
    let (lag_us_max, less) = match &measurement.open {
        Some(_) => {
            let asked = spec.lag_p99_max.map(|most| most.as_micros());
            let asked = asked.and_then(|us| u64::try_from(us).ok());
            let usual = || open_lag_limit_us(&measurement.endpoints, &Policy::default());
            (asked.unwrap_or_else(usual), "offer a lower rate")
        }
        None => (GENERATOR_LAG_P99_US_MAX, "use fewer users"),
    };
    if lag_p99_us > lag_us_max {
        reasons.push(format!(
            "the load generator let its requests go late (p99 {:.1} ms, at most {} ms): \
             free some CPU on this machine, or {less}",
            lag_p99_us as f64 / 1_000.0,
            lag_us_max as f64 / 1_000.0,
        ));
    }
    reasons.extend(too_busy(measurement, less));
    reasons.extend(missed(measurement));
    if let Some(share) = steal_share.filter(|share| *share > STEAL_SHARE_MAX) {
        reasons.push(format!(
            "the hypervisor took {:.0} % of the CPU time (at most {:.0} %): \
             measure on a quieter machine",
            share * 100.0,
            STEAL_SHARE_MAX * 100.0,
        ));
    }
    let ok = reasons.is_empty();
    reasons.extend(notes.iter().cloned());
    BlockValidity { ok, reasons }
}
