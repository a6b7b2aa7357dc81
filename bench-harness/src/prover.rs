//! Who catches the calls of a service under proof.

pub(crate) mod served;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use unstall_bench_harness::certificate_client::CertificateClient;
use unstall_bench_harness::engine::{Stop, Target};
use unstall_bench_harness::monitor_client::{Sight, TOKEN_VARIABLE};
use unstall_bench_harness::proof::{self, Evidence, JudgedRoute};
use unstall_loop_monitor::certificate::{Certificate, PROVE_VARIABLE, ProofMethod};
use unstall_loop_monitor::outside::tracer::{self, TraceEvent, TraceOptions, Tracer};
use unstall_scenarios::plan::Plan;

use crate::console::Console;
use served::{Drives, Served};

/// Catches what a service calls between two moments.
pub(crate) trait Prover {
    /// What was caught so far. From now on nothing escapes until [`Prover::end`].
    ///
    /// # Errors
    /// If nothing can be caught, where the message says what to do, or if `stop` came before.
    fn begin(&mut self, stop: &Stop) -> anyhow::Result<Certificate>;

    /// Everything that was caught, by the same process.
    ///
    /// # Errors
    /// If it can't be had any more.
    fn end(&mut self) -> anyhow::Result<Certificate>;
}

/// What was sent and what was caught.
pub(crate) struct Caught {
    before: Certificate,
    /// Everything that was caught since the process started.
    pub(crate) after: Certificate,
    /// What was sent.
    pub(crate) drives: Drives,
    waits: BTreeMap<String, proof::Waits>,
}

impl Caught {
    /// Every route, and those that must be proven whatever the certificate names.
    pub(crate) fn judge(&self, demanded: &[String]) -> Vec<JudgedRoute> {
        proof::judge(Evidence {
            before: &self.before,
            after: &self.after,
            demanded,
            driven: &self.drives.requests,
            waits: &self.waits,
        })
    }
}

/// Sends each scenario's requests to a service under proof, and ends it where it was started here.
///
/// # Errors
/// If nothing can be caught, a scenario's setup fails, or the service is lost.
pub(crate) fn catch(
    mut served: Served,
    plans: &[Arc<Plan>],
    requests: Option<u64>,
    console: &Console,
    stop: &Stop,
) -> anyhow::Result<Caught> {
    let caught = catch_calls(&served, plans, requests, console, stop);
    // How the service ended explains best why it doesn't answer any more.
    let caught = caught.map_err(|error| served.explain(error));
    let ended = served.close();
    let caught = caught?;
    ended?;
    Ok(caught)
}

fn catch_calls(
    served: &Served,
    plans: &[Arc<Plan>],
    requests: Option<u64>,
    console: &Console,
    stop: &Stop,
) -> anyhow::Result<Caught> {
    let mut prover = choose(served)?;
    let before = prover.begin(stop)?;
    let blind = matches!(before.method, ProofMethod::Unsupported { .. });
    let counters = if blind { served.snapshot()? } else { None };
    let drives = served.drive(plans, requests, console, stop)?;
    let after = prover.end()?;
    anyhow::ensure!(
        before.start_id == after.start_id,
        "the service restarted while requests were sent, and its certificate began anew: see its \
         log, and prove again"
    );
    let waits = match counters {
        None => BTreeMap::new(),
        Some(then) => served
            .snapshot()?
            .map(|now| proof::waits(&then, &now))
            .unwrap_or_default(), // a monitor that is gone has counted nothing to show
    };
    Ok(Caught {
        before,
        after,
        drives,
        waits,
    })
}

/// Who can catch the calls of this service: a Python that was started here is traced, everybody
/// else has to catch by himself.
pub(crate) fn choose(served: &Served) -> anyhow::Result<Box<dyn Prover>> {
    let loops = python_loops(served)?;
    match loops[..] {
        [] => Ok(Box::new(Inside::new(served.target())?)),
        [pid] => Ok(Box::new(Outside { pid, tracer: None })),
        _ => bail!(
            "{} Python processes of the service run event loops, and only one can be traced at a \
             time: run the service with one worker and without a reloader",
            loops.len()
        ),
    }
}

/// A Python's loop is known by its wait for events, and it may still be busy with the very answer
/// that showed the service to be ready.
fn python_loops(served: &Served) -> anyhow::Result<Vec<u32>> {
    const WITHIN: Duration = Duration::from_secs(2);
    const LOOK: Duration = Duration::from_millis(5);
    let started = Instant::now();
    loop {
        let processes = served.process_ids()?;
        let loops = tracer::python_loops(&processes);
        // A Python may only have started a service in another language.
        let is_over = started.elapsed() >= WITHIN || !tracer::runs_python(&processes);
        if !loops.is_empty() || is_over {
            return Ok(loops);
        }
        thread::sleep(LOOK);
    }
}

/// A tracer of a Python service, whose interpreter can't catch its own calls.
#[derive(Debug)]
struct Outside {
    pid: u32,
    tracer: Option<Tracer>,
}

impl Prover for Outside {
    fn begin(&mut self, stop: &Stop) -> anyhow::Result<Certificate> {
        let (options, sink) = (TraceOptions::default(), Box::new(|_: &TraceEvent| {}));
        let tracer = Tracer::attach_unless(self.pid, options, sink, || stop.is_requested())?;
        let certificate = tracer.certificate();
        self.tracer = Some(tracer);
        Ok(certificate)
    }

    fn end(&mut self) -> anyhow::Result<Certificate> {
        let tracer = self.tracer.take();
        let tracer = tracer.context("nothing was traced; this is a fault of unstall")?;
        if let Some(end) = tracer.wait_for_end(Duration::ZERO) {
            bail!("the trace ended before the requests did: {end}");
        }
        Ok(tracer.finish())
    }
}

/// The service's own monitor, which catches inside of the service and answers with a certificate.
#[derive(Debug)]
struct Inside {
    client: CertificateClient,
}

impl Inside {
    fn new(target: &Target) -> anyhow::Result<Self> {
        Ok(Self {
            client: CertificateClient::new(target)?,
        })
    }

    /// One certificate, seen `looks` times: each look is a connection of its own, so that
    /// several processes behind one port show themselves.
    fn look(&self, looks: u32) -> anyhow::Result<Certificate> {
        let mut certificate = self.read()?;
        let mut start_ids = BTreeSet::from([certificate.start_id.clone()]);
        for _ in 1..looks {
            certificate = self.read()?;
            start_ids.insert(certificate.start_id.clone());
        }
        if start_ids.len() > 1 {
            bail!(
                "several processes answer at {}, each with a certificate of its own: run the \
                 service with one worker",
                self.client.url()
            );
        }
        Ok(certificate)
    }

    fn read(&self) -> anyhow::Result<Certificate> {
        let url = self.client.url();
        match self.client.read()? {
            Sight::Seen(certificate) => Ok(certificate),
            Sight::Refused(reason) => {
                bail!("{url} is not answered: {reason} ({TOKEN_VARIABLE} is what unstall sends)")
            }
            Sight::Nothing => bail!(
                "there is no certificate at {url}: build the service's monitor with \
                 `Monitor::builder().prove_from_environment()` (feature `prove` of \
                 unstall-loop-monitor), serve `monitor.router()`, and start the service with \
                 {PROVE_VARIABLE}=1, which `--target` does for a command. A Python service is \
                 traced instead: give --target the command that starts it, or name its process by \
                 --pid"
            ),
        }
    }
}

impl Prover for Inside {
    fn begin(&mut self, _stop: &Stop) -> anyhow::Result<Certificate> {
        const LOOKS: u32 = 3;
        self.look(LOOKS)
    }

    fn end(&mut self) -> anyhow::Result<Certificate> {
        const LOOKS: u32 = 2;
        self.look(LOOKS)
            .context("the service gave no certificate after the requests")
    }
}
