//! What is known of the state behind the last step: how much it takes beside the start, whether its
//! loop is blocked anywhere, and what is proven of each route.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use unstall_bench_harness::engine::{Amount, LoadModel, OpenLoad};
use unstall_bench_harness::proof::{self, JudgedRoute};
use unstall_loop_monitor::certificate::{Certificate, ProofMethod, RouteVerdict};
use unstall_results::comparison::Verdict;
use unstall_results::level::OPEN;
use unstall_results::record::{CapacityLoad, Load, RunRecord};
use unstall_results::slo::Slo;
use unstall_scenarios::migration::{CapacityGoal, MigrationPlan, Step};
use unstall_scenarios::plan::{Arrivals, Plan};

use super::blocked::Blocked;
use super::steps::{Replay, Settled, no_scenario, open_scenario, ours};
use crate::commands::capacity::rate_search::{BlockShape, RateSearch};
use crate::commands::capacity::{self, LOWEST_OF_FROM};
use crate::commands::migration_step::{arm, monitored};
use crate::commands::prove;
use crate::document::FileDocument;
use crate::document::FileKind;
use crate::document::replay::BlockedDocument;
use crate::judgement::{AFTER, BEFORE, ONLY};
use crate::opening::{self, Opening};
use crate::prover;
use crate::prover::served::Served;
use crate::session::{Session, Turn};

/// The scenario that has every route.
const EVERY_ROUTE: &str = "every-route";
/// Users and passes of the look at every route: each route many times, and several at once.
const LOOK: (u32, u64) = (10, 50);
/// The same with `--quick`.
const LOOK_QUICK: (u32, u64) = (4, 12);
/// Half the width of a capacity's interval to aim at, and the blocks of each version for it.
const CAPACITY_PRECISION: f64 = 0.05;
const CAPACITY_BLOCKS_MAX: u32 = 40;
/// Least length of a block of the search.
const CAPACITY_BLOCK: Duration = Duration::from_secs(5);
/// File names.
const CAPACITY: &str = "capacity.json";
pub(super) const LAST_STATE: &str = "last-state.json";
const PROOF: &str = "proof.json";

/// The plan's question about capacity, checked before anything is measured.
#[derive(Debug)]
pub(crate) struct Question {
    goal: CapacityGoal,
    slo: Slo,
    /// `None` if this version doesn't have the scenario.
    scenario: Option<Arc<Plan>>,
}

/// What is known.
#[derive(Debug)]
pub(crate) struct LastState {
    pub(crate) command: String,
    /// Which of the judgement's entries tells the capacity.
    pub(crate) capacity: Option<usize>,
    pub(crate) promised_percent: Option<[u32; 2]>,
    pub(crate) blocked: Option<BlockedDocument>,
    pub(crate) proof: Option<Proof>,
}

/// What was caught.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) certificate: Certificate,
    pub(crate) routes: Vec<JudgedRoute>,
    pub(crate) interrupted: bool,
}

impl Question {
    /// What the plan asks, if it does.
    ///
    /// # Errors
    /// An objective that can't be read, or isn't about the scenario.
    pub(crate) fn of(plan: &MigrationPlan) -> anyhow::Result<Option<Self>> {
        let Some(goal) = plan.capacity.clone() else {
            return Ok(None);
        };
        let slo = Slo::parse(&goal.objective)
            .with_context(|| format!("the objective of the plan `{}`", plan.name))?;
        let scenario = open_scenario(&goal.scenario)?;
        if let Some(scenario) = &scenario {
            capacity::check(&slo, scenario)?;
        }
        Ok(Some(Self {
            goal,
            slo,
            scenario,
        }))
    }
}

impl LastState {
    /// What it means for the whole, beside the capacity, which the judgement knows.
    pub(crate) fn verdict(&self) -> Verdict {
        // A proof says in which call a thread slept; without one a block may be the machine's.
        let blocked = match &self.blocked {
            Some(blocked) if blocked.failures > 0 => Verdict::Regression,
            Some(blocked) if blocked.free => Verdict::Pass,
            Some(_) | None => Verdict::Inconclusive,
        };
        blocked.max(
            self.proof
                .as_ref()
                .map_or(Verdict::Inconclusive, Proof::verdict),
        )
    }
}

impl Proof {
    /// Whether every route was exercised and made no call that can block.
    pub(crate) fn is_whole(&self) -> bool {
        self.verdict() == Verdict::Pass
    }

    fn verdict(&self) -> Verdict {
        let is_blind = matches!(self.certificate.method, ProofMethod::Unsupported { .. });
        match proof::overall(&self.routes) {
            RouteVerdict::Proven if !self.interrupted => Verdict::Pass,
            RouteVerdict::Blocking => Verdict::Regression,
            RouteVerdict::Unproven if !self.interrupted && !is_blind => Verdict::Regression,
            RouteVerdict::Proven | RouteVerdict::Unproven => Verdict::Inconclusive,
        }
    }
}

impl Replay<'_> {
    /// Looks at the state behind the last step that was kept.
    ///
    /// # Errors
    /// When a file can't be written.
    pub(crate) fn look_at_last_state(
        &mut self,
        last: &Step,
        question: Option<&Question>,
    ) -> anyhow::Result<LastState> {
        let command = self.course.state_behind(last);
        self.console.note(format!("The last state: {command}"));
        let capacity = match question {
            Some(question) => self.find_capacity(question, &command)?,
            None => None,
        };
        let plan = open_scenario(EVERY_ROUTE)?;
        let plan =
            plan.context("the catalogue has no `every-route`; this is a fault of unstall")?;
        let look = self.look_at_routes(&plan, &command);
        let look = self.or_note(look, "not every route of the last state was looked at");
        let mut blocked = Blocked::default();
        let measured = self.judgement.entries.iter().map(|entry| &entry.record);
        for record in measured.chain(&look) {
            blocked.add(record, &monitored(&command));
        }
        let proof = self.prove(&plan, &command);
        let proof = self.or_note(proof, "nothing is proven of the last state");
        if let Some(proof) = &proof {
            let path = self.arguments.out.join(PROOF);
            prove::write(&path, &proof.certificate)?;
            let file = FileDocument::new(FileKind::Certificate, &path);
            self.judgement.files.push(file);
        }
        Ok(LastState {
            command,
            capacity,
            promised_percent: question.map(|of| of.goal.promised_percent),
            blocked: blocked.document().filter(|_| look.is_some()),
            proof,
        })
    }

    /// What can't be looked at is told, and what was measured before isn't lost for it.
    fn or_note<T>(&mut self, found: anyhow::Result<T>, what: &str) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            // The end of everything tells that it was stopped.
            Err(_) if self.stop.is_requested() => None,
            Err(error) => {
                let note = format!("{what}: {error:#}");
                self.judgement.leave_open(Verdict::Inconclusive, note);
                None
            }
        }
    }

    /// Which entry of the judgement says what the start and the last state can take.
    fn find_capacity(
        &mut self,
        question: &Question,
        command: &str,
    ) -> anyhow::Result<Option<usize>> {
        let Some(plan) = &question.scenario else {
            let why = no_scenario(&question.goal.scenario);
            let note = format!("the capacity was not measured: {why}");
            self.console.note(&note);
            self.judgement.leave_open(Verdict::Inconclusive, note);
            return Ok(None);
        };
        let path = self.arguments.out.join(CAPACITY);
        let versions = [(BEFORE, self.course.start()), (AFTER, command.to_owned())];
        // Each poll's exact split costs what a service in use wouldn't pay: the commands as they are.
        let session = self.open_search(question, plan, &versions, &path)?;
        let entries = self.judgement.entries.len();
        match self.settle(session, &path)? {
            Settled::Kept(record) => self.judgement.take_up(*record, path)?,
            Settled::Open { session, .. } => {
                let mut search = search(question, plan, &session)?;
                self.servers.set_versions(versions);
                let (console, stop) = (self.console, self.stop);
                self.judgement.measure_by(
                    *session,
                    &mut search,
                    &mut self.servers,
                    console,
                    stop,
                )?;
            }
        }
        Ok((self.judgement.entries.len() > entries).then_some(entries))
    }

    fn open_search(
        &self,
        question: &Question,
        plan: &Arc<Plan>,
        versions: &[(&'static str, String)],
        path: &Path,
    ) -> anyhow::Result<Session> {
        let (from, to) = (question.goal.from_per_second, question.goal.to_per_second);
        let from = f64::from(from);
        let (warmup_per_user, warmup_ms_min) = opening::warmup(None);
        let shape = shape(plan);
        opening::allow_users(shape.in_flight_max, plan, None)?;
        let load = Load {
            model: OPEN.to_owned(),
            levels: Vec::new(),
            requests_per_endpoint: 0,
            warmup_per_user,
            warmup_ms_min,
            pairs: 0,
            seed: self.seed(path),
            state_reset: self.servers.state_reset().to_owned(),
            store_round_trip_us: Some(self.servers.round_trip_us()),
            store_round_trip_us_measured: Some(self.servers.round_trip_us_measured()),
            probe: opening::probe(plan),
            open: Some(shape.record()),
            capacity: Some(CapacityLoad {
                slo: question.slo.to_string(),
                from_per_second: from,
                lowest_per_second: from * LOWEST_OF_FROM,
                highest_per_second: f64::from(to),
                precision: CAPACITY_PRECISION,
                blocks_max: CAPACITY_BLOCKS_MAX,
                promised_percent: question.goal.promised_percent,
            }),
            looks: Vec::new(),
        };
        let arms = versions.iter();
        Opening {
            placement: ours(path),
            label: "Capacity, start and end".to_owned(),
            plan: Arc::clone(plan),
            load,
            turns: Vec::new(),
            arms: arms
                .map(|(name, line)| ((*name).to_owned(), arm(line, self.servers.program())))
                .collect(),
            step: None,
            colocated: true,
            watch: false,
        }
        .session()
    }

    /// One block with every route, whose monitor tells where the loop was blocked.
    fn look_at_routes(&mut self, plan: &Arc<Plan>, command: &str) -> anyhow::Result<RunRecord> {
        let path = self.arguments.out.join(LAST_STATE);
        let line = monitored(command);
        let (users, requests) = if self.arguments.quick {
            LOOK_QUICK
        } else {
            LOOK
        };
        let (warmup_per_user, warmup_ms_min) = opening::warmup(Some(1));
        let load = Load {
            model: opening::model(None),
            levels: vec![users],
            requests_per_endpoint: requests,
            warmup_per_user,
            warmup_ms_min,
            pairs: 0,
            seed: self.seed(&path),
            state_reset: self.servers.state_reset().to_owned(),
            store_round_trip_us: Some(self.servers.round_trip_us()),
            store_round_trip_us_measured: Some(self.servers.round_trip_us_measured()),
            probe: opening::probe(plan),
            open: None,
            capacity: None,
            looks: Vec::new(),
        };
        let turn = Turn {
            arm: ONLY,
            pair: 0,
            position: 0,
            load: LoadModel::Closed {
                users,
                amount: Amount::PerEndpoint(requests),
            },
        };
        let session = Opening {
            placement: ours(&path),
            label: "The last state, every route".to_owned(),
            plan: Arc::clone(plan),
            load,
            turns: vec![turn],
            arms: BTreeMap::from([(ONLY.to_owned(), arm(&line, self.servers.program()))]),
            step: None,
            colocated: true,
            watch: false,
        }
        .session()?;
        let record = match self.settle(session, &path)? {
            Settled::Kept(record) => *record,
            Settled::Open { mut session, .. } => {
                self.servers.set_versions([(ONLY, line)]);
                let mut turns = session.planned();
                let (console, stop) = (self.console, self.stop);
                let ended = session.measure(&mut turns, &mut self.servers, console, stop)?;
                match ended.broken {
                    Some(error) => return Err(error),
                    None => ended.record,
                }
            }
        };
        let file = FileDocument::new(FileKind::Record, &path);
        self.judgement.files.push(file);
        Ok(record)
    }

    /// Sends a few requests to each route while the service's own monitor catches its calls.
    fn prove(&mut self, plan: &Arc<Plan>, command: &str) -> anyhow::Result<Proof> {
        let service = self.servers.command(command)?;
        let served = Served::start(service, self.stop)?;
        let plans = std::slice::from_ref(plan);
        let caught = prover::catch(served, plans, None, self.console, self.stop)?;
        Ok(Proof {
            routes: caught.judge(&[]),
            interrupted: caught.drives.interrupted,
            certificate: caught.after,
        })
    }
}

fn search(question: &Question, plan: &Plan, session: &Session) -> anyhow::Result<RateSearch> {
    let load = &session.record.load;
    let bounds = load.capacity.as_ref().map(CapacityLoad::bounds);
    Ok(RateSearch::new(
        question.slo.clone(),
        session.record.scenario.endpoints.clone(),
        bounds.context("the record has no question of capacity; this is a fault of unstall")?,
        shape(plan),
        &[BEFORE, AFTER],
        load.seed,
    ))
}

fn shape(plan: &Plan) -> BlockShape {
    let of_scenario = plan.load.open.as_ref().map(|open| open.arrivals);
    BlockShape {
        arrivals: of_scenario.unwrap_or(Arrivals::Poisson),
        length: CAPACITY_BLOCK,
        in_flight_max: OpenLoad::in_flight_max_of(plan),
    }
}
