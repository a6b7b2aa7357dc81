//! `unstall demo`: the main job on private servers. Steps of the shipped migration plan are
//! replayed as interleaved blocks, judged, and written down as one HTML report.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use unstall_bench_harness::process_group::{REFERENCE, find_program};
use unstall_reports::markdown;
use unstall_results::design::Design;
use unstall_results::policy::Policy;
use unstall_scenarios::migration::{MigrationPlan, Step};
use unstall_scenarios::plan::Plan;
use unstall_scenarios::{Inputs, catalogue};

use crate::arguments::DemoArguments;
use crate::commands::migration_step::{self, WARMUP_QUICK};
use crate::commands::report;
use crate::console::{Console, Outcome};
use crate::document::{FileDocument, FileKind};
use crate::judgement::{AFTER, BEFORE, Judgement};
use crate::opening::{self, Opening};
use crate::private_servers::PrivateServers;
use crate::record_file::{self, Placement};
use crate::session::Session;
use crate::{identity, interrupt};

/// Users at once.
const LEVEL: u32 = 20;
const PAIRS: u32 = 10;
const PAIRS_QUICK: u32 = 7;
/// The report's file name.
const REPORT: &str = "report.html";
/// The ledger's file name.
const LEDGER: &str = "async-migration-results.md";

/// One step's two versions and what drives them.
#[derive(Debug)]
struct Replay {
    step: Step,
    scenario: Arc<Plan>,
    before: String,
    after: String,
}

pub(crate) fn execute(arguments: &DemoArguments, console: &Console) -> anyhow::Result<Outcome> {
    let reference = find_program(REFERENCE)?;
    let plan = MigrationPlan::shipped()?;
    let replays = resolve_steps(&plan, &arguments.steps())?
        .into_iter()
        .map(|step| resolve(arguments, &plan, step))
        .collect::<anyhow::Result<Vec<Replay>>>()?;
    record_file::create_folder(&arguments.out)?;
    record_file::check_writable(&arguments.out)?;
    let ours = replays.iter().map(|replay| record_name(&replay.step));
    let ours: Vec<String> = ours.chain([REPORT, LEDGER].map(String::from)).collect();
    // Results of an earlier demo in this folder are moved, not replaced.
    migration_step::keep_aside(&arguments.out, &ours)?;
    let stop = interrupt::listen()?;
    let mut servers = PrivateServers::start(&reference, console)?;
    let mut judgement = Judgement::default();
    for replay in replays {
        let session = open(arguments, replay, &mut servers)?;
        console.note(format!("Step {}", session.record.label));
        judgement.measure(session, &mut servers, console, &stop)?;
        console.note(judgement.latest());
    }
    drop(servers);
    if judgement.entries.is_empty() {
        bail!("stopped before the first block; nothing was measured");
    }
    if arguments.quick && !stop.is_requested() {
        let note = migration_step::quick_note(&judgement, &format!("{PAIRS_QUICK} pairs"));
        judgement.notes.push(format!(
            "{note}; run the demo without --quick for {PAIRS} pairs"
        ));
    }
    finish(arguments, console, &judgement)
}

fn finish(
    arguments: &DemoArguments,
    console: &Console,
    judgement: &Judgement,
) -> anyhow::Result<Outcome> {
    let title = if arguments.aa {
        "The same version twice"
    } else {
        "Async migration, step by step"
    };
    let command = command_line(arguments);
    let page = arguments.out.join(REPORT);
    report::write_html(&page, judgement, title, &command)?;
    let ledger = arguments.out.join(LEDGER);
    std::fs::write(
        &ledger,
        markdown::render(
            &judgement.report(title, &command),
            markdown::Placement::FILE,
        ),
    )
    .with_context(|| format!("{} could not be written", ledger.display()))?;
    let mut outcome = judgement.outcome(console);
    outcome.text.push_str(&format!(
        "Report: {}\nLedger: {}\n",
        page.display(),
        ledger.display()
    ));
    outcome.content.files.extend([
        FileDocument::new(FileKind::Report, &page),
        FileDocument::new(FileKind::Ledger, &ledger),
    ]);
    Ok(outcome)
}

/// The steps of the plan that were asked for, in the plan's order.
fn resolve_steps(plan: &MigrationPlan, wanted: &[String]) -> anyhow::Result<Vec<Step>> {
    for id in wanted {
        if plan.step(id).is_none() {
            bail!(
                "{}; the demo replays {}",
                plan.unknown_step(id),
                replayable(plan).join(", ")
            );
        }
    }
    Ok(plan
        .steps
        .iter()
        .filter(|step| wanted.contains(&step.id))
        .cloned()
        .collect())
}

fn resolve(arguments: &DemoArguments, plan: &MigrationPlan, step: Step) -> anyhow::Result<Replay> {
    let scenario = first_scenario(&step)?;
    let Some(before) = plan.predecessor_command(&step.id) else {
        bail!("step {} has no version before it to compare with", step.id);
    };
    if catalogue::get(scenario).is_none() {
        bail!(
            "step {} is driven by the scenario `{scenario}`, which this version does not have yet; \
             the demo replays {}",
            step.id,
            replayable(plan).join(", ")
        );
    }
    let plans = opening::plans(std::slice::from_ref(scenario), &Inputs::default())?;
    let after = if arguments.aa { before } else { &step.command };
    Ok(Replay {
        before: migration_step::monitored(before),
        after: migration_step::monitored(after),
        scenario: plans
            .into_iter()
            .next()
            .context("a scenario without a plan")?,
        step,
    })
}

fn open(
    arguments: &DemoArguments,
    replay: Replay,
    servers: &mut PrivateServers,
) -> anyhow::Result<Session> {
    let path = arguments.out.join(record_name(&replay.step));
    let seed = identity::seed(arguments.seed);
    let pairs = if arguments.quick { PAIRS_QUICK } else { PAIRS };
    let requests = migration_step::requests(&replay.scenario);
    let design = Design::new(pairs, vec![LEVEL], Policy::default().alpha, seed, requests)?;
    let warmup = if arguments.quick {
        WARMUP_QUICK
    } else {
        opening::warmup(None)
    };
    let load =
        migration_step::closed_load(&design, requests, warmup, &replay.scenario, seed, servers);
    let step = &replay.step;
    let session = Opening {
        placement: Placement {
            out: Some(&path),
            several: false,
            force: false,
        },
        label: if arguments.aa {
            format!("{}, the same version twice", step.id)
        } else {
            format!("{} {}", step.id, step.title)
        },
        plan: replay.scenario,
        load,
        turns: migration_step::closed_turns(&design, requests),
        arms: BTreeMap::from([
            (
                BEFORE.to_owned(),
                migration_step::arm(&replay.before, servers.program()),
            ),
            (
                AFTER.to_owned(),
                migration_step::arm(&replay.after, servers.program()),
            ),
        ]),
        // The criteria of a step say nothing about a version against itself.
        step: (!arguments.aa).then(|| migration_step::identity(step)),
        colocated: true,
        watch: false,
    }
    .session()
    // Earlier results were moved aside: what is there now is somebody else's.
    .with_context(|| {
        let folder = arguments.out.display();
        format!("another demo seems to be writing to {folder}; give each an --out of its own")
    })?;
    servers.set_versions([(BEFORE, replay.before), (AFTER, replay.after)]);
    Ok(session)
}

fn record_name(step: &Step) -> String {
    format!("{}.json", record_file::file_name(&step.id))
}

/// What the demo measures a step with: it is a tour, and `unstall replay` takes all of them.
fn first_scenario(step: &Step) -> anyhow::Result<&String> {
    let first = step.scenarios.first();
    first.with_context(|| format!("step {} has no scenario to measure it with", step.id))
}

/// Steps whose first scenario this version has.
fn replayable(plan: &MigrationPlan) -> Vec<&str> {
    let is_known = |scenario: &String| catalogue::get(scenario).is_some();
    let known = |step: &&Step| first_scenario(step).is_ok_and(is_known);
    plan.steps
        .iter()
        .filter(known)
        .map(|step| step.id.as_str())
        .collect()
}

fn command_line(arguments: &DemoArguments) -> String {
    let mut line = "unstall demo".to_owned();
    if arguments.quick {
        line.push_str(" --quick");
    }
    if arguments.aa {
        line.push_str(" --aa");
    }
    line.push_str(&format!(" --steps {}", arguments.steps().join(",")));
    if let Some(seed) = arguments.seed {
        line.push_str(&format!(" --seed {seed}"));
    }
    line
}
