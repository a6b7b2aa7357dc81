//! The steps of a replay, one after the other: each measured with its scenarios, and left out of
//! what comes later if it regressed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use unstall_bench_harness::engine::Stop;
use unstall_results::comparison::{Decision, Verdict};
use unstall_results::design::Design;
use unstall_results::record::RunRecord;
use unstall_scenarios::migration::Step;
use unstall_scenarios::plan::Plan;
use unstall_scenarios::{Inputs, catalogue};

use super::course::{Course, States};
use super::earlier::{self, Earlier};
use crate::arguments::ReplayArguments;
use crate::commands::migration_step::{self, WARMUP_QUICK, arm, monitored};
use crate::console::Console;
use crate::document::replay::How;
use crate::identity;
use crate::judgement::{AFTER, BEFORE, Judgement, START};
use crate::opening::{self, Opening};
use crate::private_servers::PrivateServers;
use crate::record_file::{self, Placement};
use crate::session::Session;

/// Users at once, if the scenario has such a level.
const USERS: u32 = 20;

/// A step and what it is measured with.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) step: Step,
    scenarios: Vec<Scenario>,
}

#[derive(Debug)]
enum Scenario {
    Known(Arc<Plan>),
    /// The plan names it, and this version doesn't have it.
    Unknown(String),
}

/// What became of a step.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) step: Step,
    pub(crate) states: Option<States>,
    pub(crate) left_out: bool,
    pub(crate) measurements: Vec<Measurement>,
}

/// What became of one of its scenarios.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) scenario: String,
    pub(crate) how: How,
    pub(crate) why: Option<String>,
    pub(crate) record: Option<PathBuf>,
    /// Which of the judgement's entries it is.
    pub(crate) entry: Option<usize>,
}

/// A replay under way.
pub(crate) struct Replay<'a> {
    pub(crate) arguments: &'a ReplayArguments,
    pub(crate) console: &'a Console,
    pub(crate) stop: &'a Stop,
    pub(crate) servers: PrivateServers,
    pub(crate) course: Course,
    pub(crate) judgement: Judgement,
    pub(crate) steps: Vec<Replayed>,
}

impl Part {
    /// Opens the scenarios, so that a mistake in the last one costs no time.
    ///
    /// # Errors
    /// A scenario that is there and can't be read.
    pub(crate) fn resolve(step: &Step) -> anyhow::Result<Self> {
        let scenarios = step.scenarios.iter().map(|name| {
            Ok(match open_scenario(name)? {
                Some(plan) => Scenario::Known(plan),
                None => Scenario::Unknown(name.clone()),
            })
        });
        Ok(Self {
            step: step.clone(),
            scenarios: scenarios.collect::<anyhow::Result<_>>()?,
        })
    }

    /// Whether there is anything to measure it with.
    pub(crate) fn is_measurable(&self) -> bool {
        let known = |of: &Scenario| matches!(of, Scenario::Known(_));
        self.scenarios.iter().any(known)
    }

    /// The file names of its records.
    pub(crate) fn record_names(&self) -> impl Iterator<Item = String> {
        self.scenarios.iter().filter_map(move |of| match of {
            Scenario::Known(plan) => Some(record_name(&self.step, plan)),
            Scenario::Unknown(_) => None,
        })
    }
}

fn record_name(step: &Step, plan: &Plan) -> String {
    record_file::file_name(&format!("{}-{}.json", step.id, plan.name))
}

/// A scenario by its name or path; `None` of a name that isn't in the catalogue.
///
/// # Errors
/// If it can't be read.
pub(super) fn open_scenario(name: &str) -> anyhow::Result<Option<Arc<Plan>>> {
    if !name.ends_with(".toml") && catalogue::get(name).is_none() {
        return Ok(None);
    }
    let mut plans = opening::plans(&[name.to_owned()], &Inputs::default())?;
    Ok(plans.pop())
}

/// Why a scenario of the plan can't be driven.
pub(super) fn no_scenario(name: &str) -> String {
    format!(
        "its scenario `{name}` is not in this version's catalogue (`unstall scenarios list`), and \
         no path of a file"
    )
}

impl Replayed {
    /// Keep only if all that was to be measured says so.
    pub(crate) fn decision(&self, judgement: &Judgement) -> Decision {
        let of = |one: &Measurement| {
            let entry = judgement.entries.get(one.entry?)?;
            Some(entry.comparison.as_ref()?.decision)
        };
        let decisions: Vec<_> = self.measurements.iter().map(of).collect();
        if decisions.contains(&Some(Decision::Revert)) {
            Decision::Revert
        } else if !decisions.is_empty() && decisions.iter().all(|of| *of == Some(Decision::Keep)) {
            Decision::Keep
        } else {
            Decision::Undecided
        }
    }

    /// The worst of its measurements' verdicts.
    pub(crate) fn verdict(&self, judgement: &Judgement) -> Option<Verdict> {
        let of = |one: &Measurement| {
            let entry = judgement.entries.get(one.entry?)?;
            Some(entry.comparison.as_ref()?.verdict)
        };
        self.measurements.iter().filter_map(of).max()
    }
}

impl Replay<'_> {
    /// Measures a step with each of its scenarios.
    ///
    /// # Errors
    /// When nothing can be measured at all, or a record not be written.
    pub(crate) fn replay_step(&mut self, part: &Part) -> anyhow::Result<()> {
        let step = &part.step;
        let states = self.course.states(step)?;
        self.console
            .note(format!("Step {}: {}", step.id, step.title));
        let mut replayed = Replayed {
            step: step.clone(),
            states: Some(states.clone()),
            left_out: false,
            measurements: Vec::new(),
        };
        for scenario in &part.scenarios {
            replayed.measurements.push(match scenario {
                Scenario::Known(plan) => self.measure(step, plan, &states)?,
                Scenario::Unknown(name) => self.leave_unmeasured(step, name),
            });
        }
        let decision = replayed.decision(&self.judgement);
        if decision == Decision::Undecided {
            self.withhold(&replayed);
        }
        if decision == Decision::Revert {
            replayed.left_out = true;
            self.course.leave_out(&step.id);
            let note = format!(
                "step {} regressed: all that comes later is measured without it",
                step.id
            );
            self.console.note(&note);
            self.judgement.notes.push(note);
        }
        self.steps.push(replayed);
        Ok(())
    }

    /// What was not measured keeps no step. Ledgers know only what was, and so none of it may say
    /// that the step is kept.
    fn withhold(&mut self, replayed: &Replayed) {
        if replayed.measurements.iter().all(|of| of.entry.is_some()) {
            return;
        }
        for index in replayed.measurements.iter().filter_map(|of| of.entry) {
            let entry = self.judgement.entries.get_mut(index);
            if let Some(comparison) = entry.and_then(|entry| entry.comparison.as_mut()) {
                comparison.decision = Decision::Undecided;
            }
        }
    }

    /// A step that nobody comes to any more.
    pub(crate) fn skip_step(&mut self, part: &Part) {
        let names = part.step.scenarios.iter();
        let measurements = names.map(|name| Measurement {
            scenario: name.clone(),
            how: How::NotMeasured,
            why: Some("the replay was stopped before".to_owned()),
            record: None,
            entry: None,
        });
        self.steps.push(Replayed {
            step: part.step.clone(),
            states: None,
            left_out: false,
            measurements: measurements.collect(),
        });
    }

    fn leave_unmeasured(&mut self, step: &Step, name: &str) -> Measurement {
        let why = no_scenario(name);
        let note = format!("step {} is undecided: {why}", step.id);
        self.console.note(&note);
        self.judgement.leave_open(Verdict::Inconclusive, note);
        Measurement {
            scenario: name.to_owned(),
            how: How::NoScenario,
            why: Some(why),
            record: None,
            entry: None,
        }
    }

    fn measure(
        &mut self,
        step: &Step,
        plan: &Arc<Plan>,
        states: &States,
    ) -> anyhow::Result<Measurement> {
        let path = self.arguments.out.join(record_name(step, plan));
        let (entries, notes) = (self.judgement.entries.len(), self.judgement.notes.len());
        let session = self.open(step, plan, states, &path)?;
        let how = match self.settle(session, &path)? {
            Settled::Kept(record) => {
                self.judgement.take_up(*record, path.clone())?;
                How::Kept
            }
            Settled::Open { session, how } => {
                let versions = [(BEFORE, &states.before), (AFTER, &states.after)].into_iter();
                let start = states.start.as_ref().map(|start| (START, start));
                let versions = versions.chain(start);
                self.servers
                    .set_versions(versions.map(|(arm, line)| (arm, monitored(line))));
                let (console, stop) = (self.console, self.stop);
                self.judgement
                    .measure(*session, &mut self.servers, console, stop)?;
                how
            }
        };
        let entry = (self.judgement.entries.len() > entries).then_some(entries);
        if entry.is_some() {
            self.console.note(self.judgement.latest());
        }
        let how = if entry.is_some() {
            how
        } else {
            How::NotMeasured
        };
        // What a session told last is why it ended.
        let why = self.judgement.notes[notes..].last().cloned();
        Ok(Measurement {
            scenario: plan.name.clone(),
            how,
            why: why.filter(|_| entry.is_none()),
            record: entry.is_some().then_some(path),
            entry,
        })
    }

    /// What an earlier run has left is kept, or gone on with; what isn't of this replay is moved.
    pub(super) fn settle(
        &self,
        mut session: Session,
        path: &std::path::Path,
    ) -> anyhow::Result<Settled> {
        let how = match earlier::look(path, &session.record) {
            Earlier::Nothing => How::Measured,
            Earlier::Whole(record) => {
                self.console
                    .note(format!("{} is complete and kept", path.display()));
                return Ok(Settled::Kept(record));
            }
            Earlier::Part(record) => {
                let blocks = record.blocks.len();
                session.go_on(*record);
                self.console.note(format!(
                    "{} is gone on with: {} of its {blocks} blocks are of whole triples",
                    path.display(),
                    session.record.blocks.len()
                ));
                How::GoneOn
            }
            Earlier::Other(why) => {
                let name = path.file_name().map(|name| name.to_string_lossy().into());
                let names: Vec<String> = name.into_iter().collect();
                migration_step::keep_aside(&self.arguments.out, &names)?;
                self.console.note(format!(
                    "{} is of another measurement ({why}) and was moved to {}",
                    path.display(),
                    self.arguments.out.join("earlier").display()
                ));
                How::Measured
            }
        };
        Ok(Settled::Open {
            session: Box::new(session),
            how,
        })
    }

    fn open(
        &self,
        step: &Step,
        plan: &Arc<Plan>,
        states: &States,
        path: &std::path::Path,
    ) -> anyhow::Result<Session> {
        let seed = self.seed(path);
        let requests = migration_step::requests(plan);
        let levels = self.levels(plan)?;
        opening::busy(&levels, requests)?;
        for users in &levels {
            opening::allow_users(*users, plan, None)?;
        }
        let alpha = self.judgement.policy().alpha;
        let mut design = Design::new(self.arguments.triples(), levels, alpha, seed, requests)?;
        if states.start.is_some() {
            design = design.with_start();
        }
        let warmup = if self.arguments.quick {
            WARMUP_QUICK
        } else {
            opening::warmup(None)
        };
        let load =
            migration_step::closed_load(&design, requests, warmup, plan, seed, &self.servers);
        let start = states.start.as_ref().map(|start| (START, start));
        let arms = [(BEFORE, &states.before), (AFTER, &states.after)];
        let arms: BTreeMap<_, _> = arms
            .into_iter()
            .chain(start)
            .map(|(name, line)| {
                (
                    name.to_owned(),
                    arm(&monitored(line), self.servers.program()),
                )
            })
            .collect();
        let mut label = format!("{} {}", step.id, step.title);
        if step.scenarios.len() > 1 {
            label.push_str(&format!(", {}", plan.name));
        }
        Opening {
            placement: ours(path),
            label,
            plan: Arc::clone(plan),
            load,
            turns: migration_step::closed_turns(&design, requests),
            arms,
            step: Some(migration_step::identity(step)),
            colocated: true,
            watch: false,
        }
        .session()
    }

    /// The seed asked for, or that of what there is to go on with, or any.
    pub(super) fn seed(&self, path: &std::path::Path) -> u64 {
        let given = self.arguments.seed.or_else(|| earlier::seed(path));
        identity::seed(given)
    }

    fn levels(&self, plan: &Plan) -> anyhow::Result<Vec<u32>> {
        if !self.arguments.concurrency.is_empty() {
            return opening::distinct(self.arguments.concurrency.clone());
        }
        let levels = plan.load.concurrency.iter().copied();
        let nearest = levels.min_by_key(|level| level.abs_diff(USERS));
        Ok(vec![nearest.unwrap_or(USERS)])
    }
}

/// What there is to do about a measurement.
pub(super) enum Settled {
    /// Nothing: it is there.
    Kept(Box<RunRecord>),
    /// All of it, or what is left.
    Open { session: Box<Session>, how: How },
}

/// A record that only this replay writes: what was there has been looked at.
pub(super) fn ours(path: &std::path::Path) -> Placement<'_> {
    Placement {
        out: Some(path),
        several: false,
        force: true,
    }
}
