//! The service under proof: started with its proof asked for, or running already; sent a few
//! requests; and ended with all that it has started.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use unstall_bench_harness::engine::{
    self, Amount, BlockSpec, Ended, LoadModel, Stop, Target, Warmup,
};
use unstall_bench_harness::monitor_client::{MonitorClient, Sight};
use unstall_bench_harness::process_group::{ServiceCommand, ServiceProcess};
use unstall_bench_harness::proof::{self, Driven};
use unstall_loop_monitor::certificate::PROVE_VARIABLE;
use unstall_loop_monitor::wire::Snapshot;
use unstall_scenarios::plan::Plan;

use crate::console::Console;
use crate::opening;
use crate::version::Version;

/// Requests per endpoint where the command line says nothing: a proof is about paths, and more of
/// the same request exercises no other path.
const REQUESTS_DEFAULT: u64 = 20;
/// Users at once: two, so that what contends for a lock is exercised too.
const USERS: u64 = 2;

/// A service that answers.
#[derive(Debug)]
pub(crate) struct Served {
    target: Target,
    process: Option<ServiceProcess>,
}

/// What was sent to a service.
#[derive(Debug, Default)]
pub(crate) struct Drives {
    /// Every request of every scenario.
    pub(crate) requests: Vec<Driven>,
    /// Ctrl-C came before everything was sent.
    pub(crate) interrupted: bool,
}

impl Served {
    /// Starts the service if it is given as a command; else sees that it is there.
    ///
    /// # Errors
    /// If it isn't there, or doesn't become ready.
    pub(crate) fn open(
        version: &Version,
        plans: &[Arc<Plan>],
        ready: &str,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        match version {
            Version::Url { target, .. } => {
                opening::reachable(target, plans)?;
                Ok(Self {
                    target: target.clone(),
                    process: None,
                })
            }
            Version::Command(line) => {
                opening::hosts_reachable(plans)?;
                let mut command = ServiceCommand::new(line);
                ready.clone_into(&mut command.ready_path);
                Self::start(command, stop)
            }
        }
    }

    /// Starts a service with its proof asked for.
    ///
    /// # Errors
    /// If it doesn't become ready.
    pub(crate) fn start(mut command: ServiceCommand, stop: &Stop) -> anyhow::Result<Self> {
        command.stop = Some(stop.clone());
        let proof = (PROVE_VARIABLE.to_owned(), "1".to_owned());
        command.environment.push(proof);
        let process = ServiceProcess::start(&command, &opening::guard()?)?;
        Ok(Self {
            target: process.target().clone(),
            process: Some(process),
        })
    }

    /// Where it listens.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The numbers of its processes, where it was started here.
    ///
    /// # Errors
    /// If `/proc` can't be read.
    pub(crate) fn process_ids(&self) -> anyhow::Result<Vec<u32>> {
        let process = self.process.as_ref();
        let ids = process.map_or_else(|| Ok(Vec::new()), ServiceProcess::process_ids);
        ids.context("the service's processes can't be listed")
    }

    /// What the loop monitor's counters say, if the service has one that lets us read.
    pub(crate) fn snapshot(&self) -> anyhow::Result<Option<Snapshot>> {
        Ok(match MonitorClient::new(&self.target)?.read()? {
            Sight::Seen(snapshot) => Some(snapshot),
            Sight::Refused(_) | Sight::Nothing => None,
        })
    }

    /// Sends each scenario's requests, one scenario after the other.
    ///
    /// # Errors
    /// If a scenario's setup fails, or the service doesn't answer any more. Requests that
    /// fail are no error here.
    pub(crate) fn drive(
        &self,
        plans: &[Arc<Plan>],
        requests: Option<u64>,
        console: &Console,
        stop: &Stop,
    ) -> anyhow::Result<Drives> {
        let mut drives = Drives::default();
        for plan in plans {
            let usual = REQUESTS_DEFAULT.min(plan.load.requests.unwrap_or(u64::MAX));
            let spec = spec(requests.unwrap_or(usual));
            console.note(format!("{}: a few requests of each kind", plan.name));
            let sent = engine::run_block(plan, &self.target, &spec, stop, &Arc::default());
            let measurement = match sent {
                Ok(measurement) => measurement,
                // Ctrl-C also ends what prepares the requests; that is no fault of it.
                Err(_) if stop.is_requested() => {
                    drives.interrupted = true;
                    break;
                }
                Err(error) => return Err(error).context(format!("scenario {}", plan.name)),
            };
            drives.requests.extend(proof::driven(plan, &measurement));
            match measurement.ended {
                Ended::Complete => {}
                Ended::Stopped => {
                    drives.interrupted = true;
                    break;
                }
                Ended::ServiceGone => bail!(
                    "the service gave no answer at all for {} s during the scenario {}: see its \
                     log",
                    spec.patience.as_secs_f64(),
                    plan.name
                ),
            }
        }
        Ok(drives)
    }

    /// An error, with the end of the service in front if that is what led to it.
    pub(crate) fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        let Some(process) = &mut self.process else {
            return error;
        };
        // Its sockets close a moment before its end can be seen.
        let deadline = Instant::now() + Duration::from_millis(500);
        loop {
            match process.exit_status() {
                Ok(Some(status)) => {
                    let output = process.output();
                    return error.context(format!(
                        "the service ended ({status}) while it was under proof, so nothing is \
                         proven; its last output:\n{output}"
                    ));
                }
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                // It runs, or nobody can tell: the error stands for itself.
                Ok(None) | Err(_) => return error,
            }
        }
    }

    /// Ends what was started.
    ///
    /// # Errors
    /// If the kernel refuses a signal.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        if let Some(process) = self.process {
            process.stop().context("the service could not be ended")?;
        }
        Ok(())
    }
}

/// Few users and no warm-up: the first request's path is a path, too.
fn spec(requests: u64) -> BlockSpec {
    BlockSpec {
        load: LoadModel::Closed {
            users: u32::try_from(requests.min(USERS)).unwrap_or(1), // at most 2
            amount: Amount::PerEndpoint(requests),
        },
        warmup: Warmup {
            rounds_per_user: 0,
            lasting_at_least: Duration::ZERO,
        },
        threads: Some(1),
        ..BlockSpec::default()
    }
}
