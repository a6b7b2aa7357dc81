//! `unstall demo`: the main job on private servers. Steps of the shipped migration plan are
//! replayed as interleaved blocks, judged, and written down as one HTML report.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use unstall_bench_harness::engine::{Amount, LoadModel};
use unstall_bench_harness::process_group::{REFERENCE, find_program};
use unstall_reports::markdown;
use unstall_results::comparison::Metric;
use unstall_results::design::Design;
use unstall_results::policy::Policy;
use unstall_results::record::{Arm, Load, StepIdentity};
use unstall_scenarios::migration::{
    Criteria, ErrorCriterion, FallCriterion, LatencyCriterion, MigrationPlan, Step,
};
use unstall_scenarios::plan::Plan;
use unstall_scenarios::{Inputs, catalogue};

use crate::arguments::DemoArguments;
use crate::commands::report;
use crate::console::{Console, Outcome};
use crate::document::{FileDocument, FileKind};
use crate::judgement::{AFTER, BEFORE, Judgement};
use crate::opening::{self, Opening};
use crate::private_servers::PrivateServers;
use crate::record_file::{self, Placement};
use crate::session::{self, Session};
use crate::{identity, interrupt};

/// Users at once.
const LEVEL: u32 = 20;
/// Requests per endpoint and block: as many as a p95 takes.
const REQUESTS: u64 = 400;
const PAIRS: u32 = 10;
const PAIRS_QUICK: u32 = 7;
/// Rounds per user and ms: enough to open every connection of the pools, which is most of
/// what a warm-up does for a service without a compiler at run time.
const WARMUP_QUICK: (u32, u64) = (2, 500);
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
    keep_aside(&arguments.out, &replays)?;
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
        judgement.notes.push(quick_note(&judgement));
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
    let [scenario] = step.scenarios.as_slice() else {
        bail!(
            "step {} has {} scenarios, and the demo takes steps with one; it replays {}",
            step.id,
            step.scenarios.len(),
            replayable(plan).join(", ")
        );
    };
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
    let with_monitor = |command: &str| format!("{command} --monitor full-split");
    let after = if arguments.aa { before } else { &step.command };
    Ok(Replay {
        before: with_monitor(before),
        after: with_monitor(after),
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
    let design = Design::new(pairs, vec![LEVEL], Policy::default().alpha, seed, REQUESTS)?;
    let amount = Amount::PerEndpoint(REQUESTS);
    let turns = session::turns(&design, |users| LoadModel::Closed { users, amount });
    let usual = opening::warmup(None);
    let (warmup_per_user, warmup_ms_min) = if arguments.quick { WARMUP_QUICK } else { usual };
    let load = Load {
        model: "closed".to_owned(),
        levels: design.levels().to_vec(),
        requests_per_endpoint: REQUESTS,
        warmup_per_user,
        warmup_ms_min,
        pairs: design.pairs(),
        seed,
        state_reset: servers.state_reset().to_owned(),
        store_round_trip_us: Some(servers.round_trip_us()),
        store_round_trip_us_measured: Some(servers.round_trip_us_measured()),
        probe: opening::probe(&replay.scenario),
        open: None,
        capacity: None,
        looks: Vec::new(),
    };
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
        turns,
        arms: BTreeMap::from([
            (BEFORE.to_owned(), arm(&replay.before)),
            (AFTER.to_owned(), arm(&replay.after)),
        ]),
        // The criteria of a step say nothing about a version against itself.
        step: (!arguments.aa).then(|| identity(step)),
        colocated: true,
        watch: false,
    }
    .session()
    // Earlier results were moved aside: what is there now is somebody else's.
    .with_context(|| {
        let folder = arguments.out.display();
        format!("another demo seems to be writing to {folder}; give each an --out of its own")
    })?;
    servers.set_versions(replay.before, replay.after);
    Ok(session)
}

fn arm(line: &str) -> Arm {
    Arm {
        command: Some(line.to_owned()),
        url: None,
        // Both arms are programs of this repository, built with this one.
        git: option_env!("UNSTALL_COMMIT").map(ToOwned::to_owned),
        access: None,
        imported: None,
    }
}

fn identity(step: &Step) -> StepIdentity {
    StepIdentity {
        id: step.id.clone(),
        title: step.title.clone(),
        branch: step.branch.clone(),
        risk: step.risk.as_str().to_owned(),
        impact: step.impact.clone(),
        endpoints: step.endpoints.clone(),
        criteria: criteria(step.criteria),
    }
}

/// The criteria in the record's words, which are those of the plan's file.
fn criteria(criteria: Criteria) -> BTreeMap<String, String> {
    let fall = |criterion| match criterion {
        FallCriterion::Down => "down",
        FallCriterion::DownOrFlat => "down-or-flat",
    };
    let p95 = criteria.p95.map(|criterion| match criterion {
        LatencyCriterion::Better => "better",
        LatencyCriterion::BetterOrFlat => "better-or-flat",
    });
    let errors = criteria.errors.map(|criterion| match criterion {
        ErrorCriterion::NoneNew => "none-new",
    });
    let named = [
        ("p95", p95),
        ("errors", errors),
        ("blocked", criteria.blocked.map(fall)),
        ("threads", criteria.threads.map(fall)),
    ];
    let given = named
        .into_iter()
        .filter_map(|(name, expected)| Some((name, expected?)));
    given
        .map(|(name, expected)| (name.to_owned(), expected.to_owned()))
        .collect()
}

fn record_name(step: &Step) -> String {
    format!("{}.json", record_file::file_name(&step.id))
}

/// Results of an earlier demo in this folder are moved, not replaced.
fn keep_aside(folder: &Path, replays: &[Replay]) -> anyhow::Result<()> {
    let ours = replays
        .iter()
        .map(|replay| record_name(&replay.step))
        .chain([REPORT.to_owned(), LEDGER.to_owned()]);
    let present: Vec<String> = ours.filter(|name| folder.join(name).exists()).collect();
    if present.is_empty() {
        return Ok(());
    }
    let aside = folder.join("earlier").join(identity::new_id());
    record_file::create_folder(&aside)?;
    for name in present {
        let (from, to) = (folder.join(&name), aside.join(&name));
        std::fs::rename(&from, &to).with_context(|| {
            format!("{} could not be moved to {}", from.display(), to.display())
        })?;
    }
    Ok(())
}

/// What so short a run can't see, in numbers of its own.
fn quick_note(judgement: &Judgement) -> String {
    let detectable = judgement
        .entries
        .iter()
        .filter_map(|entry| entry.comparison.as_ref())
        .flat_map(|comparison| &comparison.cells)
        .filter(|cell| cell.judged && cell.metric == Metric::ResponseP95)
        .filter_map(|cell| cell.change.as_ref()?.minimum_detectable)
        .reduce(f64::max);
    let smallest = detectable.map_or_else(String::new, |ratio| {
        format!(
            ", and a p95 that gets worse by less than about {:.0} %",
            (ratio - 1.0) * 100.0
        )
    });
    format!(
        "--quick made {PAIRS_QUICK} pairs of {REQUESTS} requests per endpoint after a short \
         warm-up. It does not see p99{smallest}; run the demo without --quick for {PAIRS} pairs"
    )
}

/// Steps whose scenario this version has.
fn replayable(plan: &MigrationPlan) -> Vec<&str> {
    let known = |step: &&Step| match step.scenarios.as_slice() {
        [scenario] => catalogue::get(scenario).is_some(),
        _ => false,
    };
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
