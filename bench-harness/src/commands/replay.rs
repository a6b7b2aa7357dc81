//! `unstall replay`: a whole migration on private servers, each step against the one before it and
//! against the start, with the ledger, and what is known of the last state.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, bail};
use unstall_bench_harness::process_group::{REFERENCE, find_program};
use unstall_reports::markdown;
use unstall_results::comparison::Verdict;
use unstall_scenarios::migration::{MigrationPlan, Step};

use crate::arguments::ReplayArguments;
use crate::commands::{migration_step, report};
use crate::console::{Console, Outcome};
use crate::document::{FileDocument, FileKind};
use crate::interrupt;
use crate::judgement::Judgement;
use crate::private_servers::PrivateServers;
use crate::record_file;
use course::Course;
use last_state::{LastState, Question};
use steps::{Part, Replay};

mod blocked;
mod course;
mod earlier;
mod last_state;
mod steps;
mod summary;

/// The report's file name.
const REPORT: &str = "report.html";
/// The ledger's file name.
const LEDGER: &str = "async-migration-results.md";
/// Its title, and that of the report.
const TITLE: &str = "Async migration, step by step";

pub(crate) fn execute(arguments: &ReplayArguments, console: &Console) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    let reference = find_program(REFERENCE)?;
    let plan = match &arguments.plan {
        Some(path) => MigrationPlan::load(path)?,
        None => MigrationPlan::shipped()?,
    };
    let parts = parts(&plan, arguments.steps().as_deref())?;
    let question = Question::of(&plan)?.filter(|_| !arguments.quick);
    let course = Course::new(plan)?;
    record_file::create_folder(&arguments.out)?;
    record_file::check_writable(&arguments.out)?;
    // Until the end, or that of this process.
    let _lock = earlier::lock(&arguments.out)?;
    let stop = interrupt::listen()?;
    let servers = PrivateServers::start(&reference, console)?;
    let mut replay = Replay {
        arguments,
        console,
        stop: &stop,
        servers,
        course,
        judgement: Judgement::default(),
        steps: Vec::new(),
    };
    for part in &parts {
        if stop.is_requested() {
            replay.skip_step(part);
        } else {
            replay.replay_step(part)?;
        }
    }
    let last = replay.course.plan().steps.last().cloned();
    let is_replayed = |last: &Step| parts.iter().any(|part| part.step.id == last.id);
    // A state on the way is to be better than the one before, and not yet free of everything.
    let last_state = match last.filter(is_replayed).filter(|_| !stop.is_requested()) {
        Some(last) => Some(replay.look_at_last_state(&last, question.as_ref())?),
        None => None,
    };
    replay.judgement.last_state = last_state.as_ref().map(summary::for_readers);
    if arguments.quick && !stop.is_requested() {
        let made = format!("{} triples", arguments.triples());
        let note = migration_step::quick_note(&replay.judgement, &made);
        replay.judgement.notes.push(format!(
            "{note}, and it does not ask for the capacity; run the replay without --quick for that"
        ));
    }
    if replay.judgement.entries.is_empty() {
        bail!(
            "nothing was measured: {}",
            replay.judgement.notes.join("; ")
        );
    }
    if stop.is_requested() {
        let again = format!(
            "{} --out {}",
            arguments.command_line(),
            arguments.out.display()
        );
        let note = format!("stopped before all was measured; `{again}` goes on from here");
        replay.judgement.leave_open(Verdict::Inconclusive, note);
    }
    finish(&replay, last_state.as_ref(), begun)
}

/// The steps that were asked for, in the plan's order, with their scenarios.
fn parts(plan: &MigrationPlan, wanted: Option<&[String]>) -> anyhow::Result<Vec<Part>> {
    let wanted: Option<BTreeSet<&String>> = wanted.map(|ids| ids.iter().collect());
    if let Some(unknown) = wanted.iter().flatten().find(|id| plan.step(id).is_none()) {
        bail!("{}", plan.unknown_step(unknown));
    }
    let is_wanted = |step: &&Step| wanted.as_ref().is_none_or(|ids| ids.contains(&step.id));
    let steps = plan.steps.iter().filter(is_wanted);
    let parts = steps
        .map(Part::resolve)
        .collect::<anyhow::Result<Vec<Part>>>()?;
    if !parts.iter().any(Part::is_measurable) {
        let names = parts.iter().flat_map(|part| &part.step.scenarios);
        let names: Vec<&str> = names.map(String::as_str).collect();
        bail!(
            "there is nothing to measure these steps with: this version's catalogue has none of {} \
             (`unstall scenarios list`)",
            names.join(", ")
        );
    }
    let mut taken = BTreeSet::from([last_state::LAST_STATE.to_owned()]);
    for name in parts.iter().flat_map(|part| part.record_names()) {
        if taken.contains(&name) {
            bail!(
                "the plan has two measurements for the record {name}: name each scenario of a step \
                 once, and choose ids and names that don't make the same together"
            );
        }
        taken.insert(name);
    }
    Ok(parts)
}

fn finish(
    replay: &Replay<'_>,
    last_state: Option<&LastState>,
    begun: Instant,
) -> anyhow::Result<Outcome> {
    let Replay {
        arguments,
        console,
        judgement,
        ..
    } = replay;
    let command = arguments.command_line();
    let page = arguments.out.join(REPORT);
    report::write_html(&page, judgement, TITLE, &command)?;
    let ledger = arguments.out.join(LEDGER);
    let text = markdown::render(
        &judgement.report(TITLE, &command),
        markdown::Placement::FILE,
    );
    std::fs::write(&ledger, text)
        .with_context(|| format!("{} could not be written", ledger.display()))?;
    let mut outcome = judgement.outcome(console);
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    outcome.verdict = summary::verdict(replay, last_state);
    outcome
        .text
        .push_str(&summary::text(replay, last_state, minutes));
    outcome.text.push_str(&format!(
        "Report: {}\nLedger: {}\n",
        page.display(),
        ledger.display()
    ));
    outcome.content.files.extend([
        FileDocument::new(FileKind::Report, &page),
        FileDocument::new(FileKind::Ledger, &ledger),
    ]);
    outcome.content.replay = Some(summary::document(replay, last_state, minutes)?);
    Ok(outcome)
}
