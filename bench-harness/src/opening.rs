//! What is decided before a session's first block: plans, load and the record's head.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use unstall_bench_harness::engine::{self, Amount, LoadModel, Target, Warmup};
use unstall_bench_harness::{limits, machine, time_wait};
use unstall_results::level;
use unstall_results::record::{
    self, Arm as ArmIdentity, EndpointIdentity, Harness, Load, OpenLoad, ProbeLoad, RunRecord,
    ScenarioIdentity, StepIdentity,
};
use unstall_scenarios::plan::{HttpVersion, Plan};
use unstall_scenarios::{Inputs, catalogue};
use unstall_testbed::Guard;

use crate::console::Console;
use crate::exports::Exports;
use crate::identity;
use crate::record_file::{Placement, RecordFile};
use crate::session::{Session, Turn};

mod load;

pub(crate) use load::{Beside, OpenLevels};

/// What a command decides about a session.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) placement: Placement<'a>,
    pub(crate) label: String,
    pub(crate) plan: Arc<Plan>,
    pub(crate) load: Load,
    pub(crate) turns: Vec<Turn>,
    pub(crate) arms: BTreeMap<String, ArmIdentity>,
    pub(crate) step: Option<StepIdentity>,
    /// Generator, service and stores share this machine's cores.
    pub(crate) colocated: bool,
    /// Whether the services' event loops are watched from outside.
    pub(crate) watch: bool,
}

impl Opening<'_> {
    /// The session before its first block.
    pub(crate) fn session(self) -> anyhow::Result<Session> {
        let id = identity::new_id();
        let file = RecordFile::choose(self.placement, &self.plan.name, &id)?;
        let record = RunRecord {
            schema: record::Schema {
                name: record::SCHEMA_NAME.to_owned(),
                major: record::SCHEMA_MAJOR,
                minor: record::SCHEMA_MINOR,
            },
            id,
            label: self.label,
            created_utc: identity::utc_now(),
            harness: Harness {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                git: option_env!("UNSTALL_COMMIT").map(ToOwned::to_owned),
            },
            machine: machine::detect(self.colocated),
            floor: None,
            scenario: ScenarioIdentity {
                name: self.plan.name.clone(),
                sha256: self.plan.sha256.clone(),
                endpoints: self.plan.requests.iter().map(endpoint).collect(),
            },
            load: self.load,
            step: self.step,
            arms: self.arms,
            blocks: Vec::new(),
            interrupted: false,
            merged: None,
            contrast: None,
        };
        Ok(Session {
            plan: self.plan,
            record,
            file,
            turns: self.turns,
            guard: guard()?,
            watch: self.watch,
            probed: BTreeSet::new(),
            exports: Exports::default(),
        })
    }
}

fn endpoint(request: &unstall_scenarios::plan::Request) -> EndpointIdentity {
    EndpointIdentity {
        name: request.name.clone(),
        method: request.method.clone(),
        path: request.path.to_string(),
        timeout_ms: u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX),
        judged: request.judged,
        share: request
            .alternative
            .as_ref()
            .map(|alternative| alternative.share.end - alternative.share.start),
    }
}

/// Opens every scenario before anything is sent, so that a mistake in the last one costs no time.
///
/// A scenario named twice would write one record over the other.
pub(crate) fn plans(names: &[String], inputs: &Inputs) -> anyhow::Result<Vec<Arc<Plan>>> {
    let plans = catalogue::open_all(names, inputs)?;
    let mut seen = BTreeSet::new();
    for plan in &plans {
        if !seen.insert(plan.name.as_str()) {
            bail!("the scenario `{}` is named twice; name it once", plan.name);
        }
    }
    Ok(plans.into_iter().map(Arc::new).collect())
}

/// The load model's name in a record.
pub(crate) fn model(open: Option<&OpenLoad>) -> String {
    let name = if open.is_some() {
        level::OPEN
    } else {
        "closed"
    };
    name.to_owned()
}

/// The bystander probe beside the load, where the scenario names a route for it.
pub(crate) fn probe(plan: &Plan) -> Option<ProbeLoad> {
    plan.probe.as_ref().map(|probe| ProbeLoad {
        path: probe.path.clone(),
        rate_per_second: probe.rate,
    })
}

/// What ends started services, however this process ends.
pub(crate) fn guard() -> anyhow::Result<Arc<Guard>> {
    let guard = Guard::new().context("the guard of started services could not be started")?;
    Ok(Arc::new(guard))
}

/// Rounds per user and least time of the warm-up; 0 rounds mean none at all.
pub(crate) fn warmup(rounds: Option<u32>) -> (u32, u64) {
    let usual = Warmup::default();
    match rounds {
        Some(0) => (0, 0),
        rounds => (
            rounds.unwrap_or(usual.rounds_per_user),
            u64::try_from(usual.lasting_at_least.as_millis()).unwrap_or(u64::MAX),
        ),
    }
}

/// Sees to it that so many users can have their connections, each user one to the target, which is
/// `None` for a service that is started, and to each of the plan's `[hosts]`.
///
/// # Errors
/// This machine doesn't allow so many.
pub(crate) fn allow_users(users: u32, plan: &Plan, target: Option<&Target>) -> anyhow::Result<()> {
    let started = Target::loopback(0);
    let services = engine::services(plan, target.unwrap_or(&started))?;
    let (connections, to_one_address) = connections_per_user(&services);
    let users = u64::from(users);
    limits::allow_connections(users * connections, users * to_one_address)?;
    Ok(())
}

/// One user's connections, and as many of them as go to the same address by TCP.
fn connections_per_user(services: &[(Option<String>, Target)]) -> (u64, u64) {
    let over_tcp = services.iter().filter(|(_, one)| one.socket().is_none());
    let proxied = over_tcp
        .clone()
        .filter(|(_, one)| one.access().is_proxied());
    // Two services at one address would be one; only a proxy stands for several.
    let to_one_address = proxied.count().max(over_tcp.count().min(1));
    (services.len() as u64, to_one_address as u64)
}

/// Says where a version's blocks may use up this machine's ports: one that runs already, or, as
/// `None`, one that is started anew, at an address of its own, for each block.
pub(crate) fn note_ports(
    console: &Console,
    session: &Session,
    versions: &[(&'static str, Option<&Target>)],
) {
    let rounds = session.record.load.warmup_per_user;
    let mut told = BTreeSet::new();
    for (arm, target) in versions {
        if target.is_some_and(|target| target.socket().is_some()) {
            continue;
        }
        let is_here = target.is_none_or(Target::is_here);
        let own = session.turns.iter().filter(|turn| turn.arm == *arm);
        let blocks: Vec<&LoadModel> = own.map(|turn| &turn.load).collect();
        // A search has none yet, and goes up to what the service can do.
        let unbounded = LoadModel::Closed {
            users: 1,
            amount: Amount::For(Duration::ZERO),
        };
        let addresses: Vec<Vec<&LoadModel>> = match target {
            _ if blocks.is_empty() => vec![vec![&unbounded]],
            Some(_) => vec![blocks],
            None => blocks.into_iter().map(|block| vec![block]).collect(),
        };
        let foreseen = addresses
            .iter()
            .filter_map(|blocks| time_wait::foresee(&session.plan, is_here, blocks, rounds));
        told.extend(foreseen.map(|shortage| format!("{}: {shortage}", session.plan.name)));
    }
    for line in told {
        console.note(line);
    }
}

/// Whether anything answers there in the way that the plans ask for, up to the end of a TLS
/// handshake, and in their `[hosts]`, too; looked at before the first block: a wrong URL or CA is a
/// mistake of the command line, not a service that got worse.
///
/// # Errors
/// When no connection can be opened.
pub(crate) fn reachable(target: &Target, plans: &[Arc<Plan>]) -> anyhow::Result<()> {
    let mut tried = Vec::new();
    for plan in plans {
        for (name, service) in engine::services(plan, target)? {
            reach(name.as_deref(), &service, plan.client.http, &mut tried)?;
        }
    }
    Ok(())
}

/// The same of the plans' `[hosts]` alone, beside services that are started here.
///
/// # Errors
/// When no connection can be opened.
pub(crate) fn hosts_reachable(plans: &[Arc<Plan>]) -> anyhow::Result<()> {
    let mut tried = Vec::new();
    for plan in plans {
        // Where the service will listen doesn't matter to the others.
        for (name, service) in engine::services(plan, &Target::loopback(0))? {
            if name.is_some() {
                reach(name.as_deref(), &service, plan.client.http, &mut tried)?;
            }
        }
    }
    Ok(())
}

fn reach(
    name: Option<&str>,
    service: &Target,
    http: HttpVersion,
    tried: &mut Vec<(String, HttpVersion)>,
) -> anyhow::Result<()> {
    const WITHIN: Duration = Duration::from_secs(5);
    let trial = (service.to_string(), http);
    if tried.contains(&trial) {
        return Ok(());
    }
    tried.push(trial);
    engine::reach(service, WITHIN).with_context(|| match name {
        None => {
            format!("{service} can't be reached: start the service there first, or mend the URL")
        }
        Some(name) => format!(
            "{service}, which is `{name}` in the scenario's [hosts], can't be reached: start the \
             service there first, or mend the URL"
        ),
    })
}

/// Levels of concurrency, each once.
pub(crate) fn distinct(levels: Vec<u32>) -> anyhow::Result<Vec<u32>> {
    let mut seen = BTreeSet::new();
    for level in &levels {
        if !seen.insert(*level) {
            bail!("the level {level} is named twice in -c; name it once");
        }
    }
    Ok(levels)
}

/// Whether so many requests give each user one at least: else the level would be a lie.
pub(crate) fn busy(levels: &[u32], requests: u64) -> anyhow::Result<()> {
    match levels.iter().find(|level| u64::from(**level) > requests) {
        None => Ok(()),
        Some(level) => bail!(
            "{requests} requests per endpoint leave some of {level} users without any: use \
             `-c {requests}` or fewer, or `--requests {level}` or more"
        ),
    }
}

#[cfg(test)]
mod tests {
    use unstall_bench_harness::engine::{Access, TargetOptions};

    use super::*;

    #[test]
    fn every_user_has_a_request() {
        assert!(busy(&[10, 20], 20).is_ok());
        let error = busy(&[10, 50], 20).expect_err("30 users have none");
        assert!(error.to_string().contains("--requests 50"), "{error}");
    }

    #[test]
    fn a_user_has_a_connection_to_each_service() {
        let parse = |given: &str| (None, Target::parse(given).expect("a URL"));
        let proxied = Access::resolve(&TargetOptions {
            proxy: Some("http://127.0.0.1:3128".to_owned()),
            ..TargetOptions::default()
        });
        let proxied = proxied.expect("a proxy");
        let through = |given: &str| {
            let target = Target::reached_by(given, &proxied);
            (None, target.expect("a URL"))
        };
        for (services, expected) in [
            (vec![parse("http://a.test")], (1, 1)),
            (vec![parse("unix:/a")], (1, 0)),
            (vec![parse("unix:/a"), parse("unix:/b")], (2, 0)),
            (vec![parse("unix:/a"), parse("http://a.test")], (2, 1)),
            (vec![parse("http://a.test"), parse("http://b.test")], (2, 1)),
            (
                vec![through("http://a.test"), through("http://b.test")],
                (2, 2),
            ),
        ] {
            assert_eq!(connections_per_user(&services), expected, "{services:?}");
        }
    }

    #[test]
    fn no_warmup_means_none_at_all() {
        assert_eq!(warmup(Some(0)), (0, 0));
        assert_eq!(warmup(Some(2)), (2, 1_000));
        assert_eq!(warmup(None), (5, 1_000));
    }

    #[test]
    fn a_level_counts_once() {
        assert!(distinct(vec![10, 20, 10]).is_err());
        assert_eq!(distinct(vec![50, 20]).expect("distinct"), [50, 20]);
    }
}
