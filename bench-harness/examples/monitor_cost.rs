//! What the loop monitor takes of a real service: `monitor_cost REQUEST_NS POLL_NS PARK_NS
//! [PAIRS]`.
//!
//! First the share of the reference service's CPU per `/health` request that is the monitor's,
//! computed from what a poll and a park cost it (`cargo bench -p unstall-loop-monitor`) and how
//! many there were. Then what a watch from outside takes of the service's throughput and CPU, and
//! uses itself: the same process under the same load, with and without `unstall watch` attached, in
//! pairs that alternate in order. Prints Markdown. Needs `unstall` and `unstall-reference` beside the folder
//! of this program.

use std::error::Error;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use unstall_bench_harness::engine::{
    Amount, BlockMeasurement, BlockSpec, Progress, Stop, Warmup, run_block,
};
use unstall_bench_harness::monitor_client::{MonitorClient, Sight};
use unstall_bench_harness::process_group::{ServiceCommand, ServiceProcess};
use unstall_bench_harness::process_sample::GroupSample;
use unstall_loop_monitor::wire::Snapshot;
use unstall_scenarios::{Inputs, Plan};
use unstall_testbed::{Guard, Options, Testbed};

const SCENARIO: &str = r#"
name = "health"
describe = "The cheapest route"
[[request]]
name = "GET /health"
method = "GET"
path = "/health"
"#;
const TEMPLATE: &str = "unstall_cost_template";
const USERS: u32 = 20;
/// Requests whose polls and parks are counted.
const REQUESTS: u64 = 60_000;
/// Stretches of the request whose price is given, by the benchmark that gives it.
const STRETCHES_PRICED: f64 = 5.0;
/// Of a request's stretches, those that are no poll: the call and the dropping of the body.
const STRETCHES_BESIDE_POLLS: f64 = 2.0;
/// One stretch with or without a watch.
const STRETCH: Duration = Duration::from_secs(3);
/// For a watch to find the loops before its stretch begins.
const ATTACHED_WITHIN: Duration = Duration::from_millis(1_500);
const PAIRS: usize = 24;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [request, poll, park, pairs @ ..] = arguments.as_slice() else {
        return Err("usage: monitor_cost REQUEST_NS POLL_NS PARK_NS [PAIRS]".into());
    };
    let prices = Prices {
        request_ns: request.parse()?,
        poll_ns: poll.parse()?,
        park_ns: park.parse()?,
    };
    let pairs = pairs.first().map_or(Ok(PAIRS), |pairs| pairs.parse())?;
    let testbed = Testbed::start(&Options::default())?;
    let reference = beside("unstall-reference")?;
    testbed.create_template(TEMPLATE, |url| {
        let migrated = Command::new(&reference)
            .args(["migrate", "--database-url", url])
            .output()?;
        let said = String::from_utf8_lossy(&migrated.stderr).into_owned();
        if migrated.status.success() {
            Ok(())
        } else {
            Err(said.into())
        }
    })?;
    let mut command = ServiceCommand::new(format!(
        "'{}' --steps 0,1,2a,2b,2c,2d,3,4 --port {{port}}",
        reference.display()
    ));
    command.environment = vec![
        (
            "DATABASE_URL".into(),
            testbed.reset_database(TEMPLATE, "unstall_cost")?,
        ),
        ("REDIS_URL".into(), testbed.redis_url()),
    ];
    let guard = Arc::new(Guard::new()?);
    let service = ServiceProcess::start(&command, &guard)?;
    let plan = Arc::new(Plan::parse(
        SCENARIO,
        Path::new("health"),
        &Inputs::default(),
    )?);
    load(&plan, &service, Amount::PerEndpoint(REQUESTS / 4))?; // warm
    let mut out = std::io::stdout();
    writeln!(out, "{}", share(&plan, &service, &prices)?)?;
    writeln!(out, "{}", watched(&plan, &service, pairs)?)?;
    service.stop()?;
    Ok(())
}

/// What the monitor costs, measured elsewhere.
struct Prices {
    /// A request of one poll.
    request_ns: f64,
    /// A further poll.
    poll_ns: f64,
    /// A park and the unpark after it.
    park_ns: f64,
}

/// The monitor's part of the CPU per request.
fn share(plan: &Arc<Plan>, service: &ServiceProcess, prices: &Prices) -> Result<String, Failure> {
    let group = service.process_id().cast_signed();
    let (before, cpu_before) = (snapshot(service)?, GroupSample::take(group)?.cpu);
    let measured = load(plan, service, Amount::PerEndpoint(REQUESTS))?;
    let (after, cpu_after) = (snapshot(service)?, GroupSample::take(group)?.cpu);
    let polls = |snapshot: &Snapshot| {
        let endpoint = snapshot.endpoints.get("GET /health");
        endpoint.map_or(0, |endpoint| endpoint.polls)
    };
    let requests = measured.completed as f64;
    let polls = (polls(&after) - polls(&before)) as f64 / requests;
    // The rest: the call, and what comes after the response.
    let futures = (polls - STRETCHES_BESIDE_POLLS).max(1.0);
    let parks = after.runtime_metrics.parks - before.runtime_metrics.parks;
    let parks = parks as f64 / requests;
    let cpu_us = (cpu_after - cpu_before).as_secs_f64() * 1e6 / requests;
    let Prices {
        request_ns,
        poll_ns,
        park_ns,
    } = prices;
    let further = polls - STRETCHES_PRICED;
    let monitor_us = (request_ns + further * poll_ns + parks * park_ns) / 1e3;
    let futures_us = (futures * poll_ns + parks * park_ns) / 1e3;
    Ok(format!(
        "| per `/health` request, {USERS} users | |\n|---|---|\n\
         | CPU of the service | {cpu_us:.2} µs |\n\
         | measured stretches (call, polls, dropping of the body) | {polls:.2} |\n\
         | the monitor's price of {STRETCHES_PRICED} of them and of finding the endpoint | {request_ns:.0} ns |\n\
         | of one more, or less | {poll_ns:.0} ns |\n\
         | parks, {park_ns:.0} ns each | {parks:.3} |\n\
         | share of the CPU: polls of the handler and the body ({futures:.2}), and parks | {:.2} % |\n\
         | share of the CPU: all, with finding the endpoint, the call and the dropping | {:.2} % |\n",
        100.0 * futures_us / cpu_us,
        100.0 * monitor_us / cpu_us
    ))
}

/// What one stretch came to.
#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    requests_per_second: f64,
    /// Of the service, in µs.
    cpu_per_request: f64,
    /// Of the watch, over the service's own.
    watch_share: f64,
}

/// With a watch over without, pair by pair.
fn watched(plan: &Arc<Plan>, service: &ServiceProcess, pairs: usize) -> Result<String, Failure> {
    let (mut rates, mut prices, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        let mut seen = [Stretch::default(); 2];
        for turn in 0..2 {
            let is_watched = (pair + turn) % 2 == 0;
            seen[usize::from(is_watched)] = stretch(plan, service, is_watched)?;
        }
        let [without, with] = seen;
        rates.push(with.requests_per_second / without.requests_per_second);
        prices.push(with.cpu_per_request / without.cpu_per_request);
        shares.push(with.watch_share);
    }
    Ok(format!(
        "| `unstall watch` attached, {pairs} pairs | median | 95 % interval of the median | lowest, highest |\n\
         |---|---|---|---|\n{}\n{}\n{}\n",
        row("throughput, with ÷ without", rates),
        row("CPU of the service per request, with ÷ without", prices),
        row("CPU of the watch ÷ CPU of the service", shares),
    ))
}

/// Loads the service for a while.
fn stretch(
    plan: &Arc<Plan>,
    service: &ServiceProcess,
    is_watched: bool,
) -> Result<Stretch, Failure> {
    let watch = is_watched
        .then(|| start_watch(service.process_id()))
        .transpose()?;
    // Also without, so that both begin alike.
    thread::sleep(ATTACHED_WITHIN);
    let group = service.process_id().cast_signed();
    let watch_cpu = |watch: &Option<Child>| -> Result<Duration, Failure> {
        let group = watch.as_ref().map(|watch| watch.id().cast_signed());
        Ok(group.map_or(Ok(Duration::ZERO), |group| {
            GroupSample::take(group).map(|sample| sample.cpu)
        })?)
    };
    let (own_before, watch_before) = (GroupSample::take(group)?.cpu, watch_cpu(&watch)?);
    let measured = load(plan, service, Amount::For(STRETCH))?;
    let own = GroupSample::take(group)?.cpu - own_before;
    let watching = watch_cpu(&watch)?.saturating_sub(watch_before);
    if let Some(mut watch) = watch {
        if let Some(status) = watch.try_wait()? {
            return Err(format!("the watch ended before its stretch: {status}").into());
        }
        watch.kill()?;
        watch.wait()?;
    }
    let requests = measured.completed as f64;
    Ok(Stretch {
        requests_per_second: requests / measured.wall.as_secs_f64(),
        cpu_per_request: own.as_secs_f64() * 1e6 / requests,
        watch_share: watching.as_secs_f64() / own.as_secs_f64(),
    })
}

fn row(name: &str, mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (low, high) = interval(&values);
    format!(
        "| {name} | {:.4} | {low:.4} – {high:.4} | {:.4}, {:.4} |",
        median(&values),
        values[0],
        values[values.len() - 1]
    )
}

fn start_watch(pid: u32) -> Result<Child, Failure> {
    let watch = Command::new(beside("unstall")?)
        .args([
            "watch",
            "--pid",
            &pid.to_string(),
            "--duration",
            "60s",
            "--json",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Its CPU is a group's.
        .process_group(0)
        .spawn()?;
    Ok(watch)
}

fn load(
    plan: &Arc<Plan>,
    service: &ServiceProcess,
    amount: Amount,
) -> Result<BlockMeasurement, Failure> {
    let spec = BlockSpec {
        warmup: Warmup {
            rounds_per_user: 1,
            lasting_at_least: Duration::ZERO,
        },
        threads: Some(1),
        ..BlockSpec::closed(USERS, amount)
    };
    let progress = Arc::new(Progress::new());
    Ok(run_block(
        plan,
        service.target(),
        &spec,
        &Stop::new(),
        &progress,
    )?)
}

fn snapshot(service: &ServiceProcess) -> Result<Snapshot, Failure> {
    match MonitorClient::new(service.target())?.read()? {
        Sight::Seen(snapshot) => Ok(snapshot),
        other => Err(format!("the reference service shows no monitor: {other:?}").into()),
    }
}

/// A program in this one's folder or the one above, as cargo lays them.
fn beside(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()?;
    let found = own
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(name));
    let mut found = found.filter(|path| path.is_file());
    let missing = || format!("{name} is missing beside {}; build it too", own.display());
    Ok(found.next().ok_or_else(missing)?)
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// Order statistics that hold the median with at least 95 %, by the binomial distribution; the
/// extremes where there are too few for that.
fn interval(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    let mut choose = 1.0;
    let mut tail = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let all = tail;
    let mut best = (sorted[0], sorted[count - 1]);
    for cut in 1..count / 2 {
        choose *= (count - cut + 1) as f64 / cut as f64;
        tail += choose * all;
        if 2.0 * tail > 0.05 {
            break;
        }
        best = (sorted[cut], sorted[count - 1 - cut]);
    }
    best
}
