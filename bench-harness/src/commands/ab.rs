//! `unstall ab`: two versions in interleaved blocks, judged.

use std::collections::BTreeMap;
use std::sync::Arc;

use unstall_bench_harness::engine::{Amount, LoadModel, Stop};
use unstall_bench_harness::floor;
use unstall_results::design::Design;
use unstall_results::policy::Policy;
use unstall_results::record::{Load, RunRecord};
use unstall_scenarios::plan::Plan;

use crate::arguments::AbArguments;
use crate::console::{Console, Outcome};
use crate::exports::ExportFiles;
use crate::judgement::certified::Certified;
use crate::judgement::{AFTER, BEFORE, Judgement};
use crate::opening::{self, Beside, OpenLevels, Opening};
use crate::record_file::Placement;
use crate::session::{self, Session};
use crate::version::{Version, Versions};
use crate::{identity, inputs, interrupt};

/// Requests per endpoint and block where neither scenario nor command line says: enough to
/// judge a p95.
const REQUESTS_DEFAULT: u64 = 400;

/// What takes a version, in messages.
const SIDES: &str = "--before and --after take";

pub(crate) fn execute(arguments: &AbArguments, console: &Console) -> anyhow::Result<Outcome> {
    let certified = arguments.certificate.as_deref().map(Certified::read);
    let certified = certified.transpose()?;
    let stop = interrupt::listen()?;
    let expects = |record: &RunRecord| match &certified {
        Some(certified) => certified.expects(record),
        None => Ok(()),
    };
    let mut judgement = measure(arguments, &expects, console, &stop)?;
    if let Some(certified) = certified {
        judgement.certify(certified)?;
    }
    let mut outcome = judgement.outcome(console);
    for file in &judgement.files {
        outcome.text.push_str(&file.lines());
    }
    Ok(outcome)
}

/// All that is looked at before anything is started.
struct Prepared {
    policy: Policy,
    before: Version,
    after: Version,
    plans: Vec<Arc<Plan>>,
    exports: ExportFiles,
    sessions: Vec<Session>,
}

impl Prepared {
    /// Reads everything, and lets `expects` have a look at each record's head.
    fn of(
        arguments: &AbArguments,
        expects: &dyn Fn(&RunRecord) -> anyhow::Result<()>,
        console: &Console,
    ) -> anyhow::Result<Self> {
        let access = arguments.access.resolve(console)?;
        let before = Version::parse(&arguments.before, SIDES, &access)?;
        let after = Version::parse(&arguments.after, SIDES, &access)?;
        arguments.access.refuse_unused(&[&before, &after])?;
        let policy = arguments.policy.read()?;
        let inputs = inputs::gather(arguments.scenario.variables.clone());
        let plans = opening::plans(&arguments.scenario.scenarios, &inputs)?;
        let common = &arguments.scenario;
        let exports = ExportFiles::check(&common.exports, common.force)?;
        let sessions = plans
            .iter()
            .map(|plan| open(arguments, &before, &after, Arc::clone(plan), policy.alpha))
            .collect::<anyhow::Result<Vec<Session>>>()?;
        for session in &sessions {
            expects(&session.record)?;
        }
        let measured = sessions.iter().map(|session| &session.record);
        let measured: Vec<_> = measured.map(|of| (&of.scenario, &of.load)).collect();
        policy.check_plans(&measured)?;
        Ok(Self {
            policy,
            before,
            after,
            plans,
            exports,
            sessions,
        })
    }
}

/// Whether it could be measured as far as can be known without starting anything: scenario, policy and
/// design, and what `expects` says of each record's head.
///
/// # Errors
/// As for [`measure`].
pub(crate) fn check(
    arguments: &AbArguments,
    expects: &dyn Fn(&RunRecord) -> anyhow::Result<()>,
    console: &Console,
) -> anyhow::Result<()> {
    Prepared::of(arguments, expects, console).map(|_| ())
}

/// Measures both versions, after `expects` has had a look at each record's head.
///
/// # Errors
/// Whatever makes a measurement impossible; the message says what to do.
pub(crate) fn measure(
    arguments: &AbArguments,
    expects: &dyn Fn(&RunRecord) -> anyhow::Result<()>,
    console: &Console,
    stop: &Stop,
) -> anyhow::Result<Judgement> {
    let Prepared {
        policy,
        before,
        after,
        plans,
        exports,
        sessions,
    } = Prepared::of(arguments, expects, console)?;
    for version in [&before, &after] {
        version.reachable(&plans)?;
    }
    let targets = [(BEFORE, before.target()), (AFTER, after.target())];
    for session in &sessions {
        opening::note_ports(console, session, &targets);
    }
    let exports = exports.create()?;
    let by_arm = BTreeMap::from([(BEFORE, before), (AFTER, after)]);
    let mut versions = Versions::starting(by_arm, &arguments.start, stop)?;
    let floor = floor::measure()?;
    let mut judgement = Judgement::by(policy);
    for mut session in sessions {
        session.exports = exports.clone();
        session.record.floor = Some(floor.clone());
        judgement.measure(session, &mut versions, console, stop)?;
    }
    judgement.check_policy();
    judgement.finish_exports(&exports)?;
    Ok(judgement)
}

/// The levels of load, each with its key in the record.
struct Levels {
    keys: Vec<u32>,
    requests_per_endpoint: u64,
    open: Option<OpenLevels>,
}

impl Levels {
    fn of(arguments: &AbArguments, plan: &Plan) -> anyhow::Result<Self> {
        let beside = Beside {
            asks_for_closed: !arguments.design.concurrency.is_empty()
                || arguments.design.requests.is_some(),
            duration: arguments.design.duration,
        };
        if let Some(open) = OpenLevels::choose(&arguments.design.open, beside, plan)? {
            return Ok(Self {
                keys: open.keys(),
                requests_per_endpoint: open.arrivals_min(),
                open: Some(open),
            });
        }
        let requests = arguments
            .design
            .requests
            .or(plan.load.requests)
            .unwrap_or(REQUESTS_DEFAULT);
        let users = users(arguments, plan);
        opening::busy(&users, requests)?;
        Ok(Self {
            keys: users,
            requests_per_endpoint: requests,
            open: None,
        })
    }

    /// The load of one of the keys.
    fn load(&self, key: u32) -> LoadModel {
        let open = self.open.as_ref().and_then(|open| open.load(key));
        open.unwrap_or(LoadModel::Closed {
            users: key,
            amount: Amount::PerEndpoint(self.requests_per_endpoint),
        })
    }

    fn users_max(&self) -> u32 {
        let users = self.keys.iter().map(|key| self.load(*key).users());
        users.max().unwrap_or(0)
    }
}

/// Everything that is decided before the first block.
fn open(
    arguments: &AbArguments,
    before: &Version,
    after: &Version,
    plan: Arc<Plan>,
    alpha: f64,
) -> anyhow::Result<Session> {
    let common = &arguments.scenario;
    let seed = identity::seed(arguments.start.seed);
    let levels = Levels::of(arguments, &plan)?;
    let requests = levels.requests_per_endpoint;
    for version in [before, after] {
        opening::allow_users(levels.users_max(), &plan, version.target())?;
    }
    // Looks replace the pairs, so whatever those are they must not be refused.
    let planned = &arguments.design;
    let last = planned.looks.last().copied().unwrap_or_default(); // none: the pairs
    let pairs = last.max(planned.pairs);
    let design = Design::new(pairs, levels.keys.clone(), alpha, seed, requests)?
        .with_looks(planned.looks.clone(), alpha)?;
    let turns = session::turns(&design, |key| levels.load(key));
    let open_record = levels.open.as_ref().and_then(OpenLevels::record);
    let (warmup_per_user, warmup_ms_min) = opening::warmup(common.warmup);
    let load = Load {
        model: opening::model(open_record.as_ref()),
        levels: design.levels().to_vec(),
        requests_per_endpoint: requests,
        warmup_per_user,
        warmup_ms_min,
        pairs: design.pairs(),
        seed,
        state_reset: arguments.start.state_reset(),
        store_round_trip_us: None,
        store_round_trip_us_measured: None,
        probe: opening::probe(&plan),
        open: open_record,
        capacity: None,
        looks: design.looks().to_vec(),
    };
    Opening {
        placement: Placement::of(common),
        label: common.label.clone().unwrap_or_else(|| plan.name.clone()),
        plan,
        load,
        turns,
        arms: BTreeMap::from([
            (BEFORE.to_owned(), before.arm()),
            (AFTER.to_owned(), after.arm()),
        ]),
        step: None,
        colocated: before.is_local() || after.is_local(),
        watch: common.watch,
    }
    .session()
}

/// The levels asked for; else the usual one, or the scenario's own if it makes too few requests
/// to keep so many users busy.
fn users(arguments: &AbArguments, plan: &Plan) -> Vec<u32> {
    const USUAL: u32 = 20;
    if !arguments.design.concurrency.is_empty() {
        return arguments.design.concurrency.clone();
    }
    match plan.load.requests {
        Some(requests) if requests < u64::from(USUAL) => plan.load.concurrency.clone(),
        _ => vec![USUAL],
    }
}
