//! `unstall results show`: what a record is, and what came of it.

use std::path::Path;

use unstall_results::level::Level;
use unstall_results::merge;
use unstall_results::policy::Policy;
use unstall_results::record::{Arm, RunRecord};
use unstall_results::store;

use crate::console::{Console, Outcome, visible};
use crate::document::StoredDocument;
use crate::judgement::Judgement;

pub(super) fn execute(path: &Path, console: &Console) -> anyhow::Result<Outcome> {
    let record = store::read(path)?;
    let stored = StoredDocument::new(path, Ok(record.clone()));
    let mut text = String::new();
    for (name, fact) in facts(path, &record) {
        text.push_str(&format!("{name:<10} {}\n", visible(&fact)));
    }
    let mut judgement = Judgement::by(Policy::default());
    judgement.add(record)?;
    let mut outcome = judgement.outcome(console);
    outcome.text = format!("{text}\n{}", outcome.text);
    outcome.content.records.push(stored);
    // Showing judges nothing: `compare` and `gate` do, and exit by it.
    outcome.verdict = None;
    outcome.status = None;
    Ok(outcome)
}

fn facts(path: &Path, record: &RunRecord) -> Vec<(&'static str, String)> {
    let load = &record.load;
    let levels = load.levels.iter();
    let levels: Vec<String> = levels
        .map(|level| Level::of(load, *level).to_string())
        .collect();
    let invalid = record.blocks.iter().filter(|block| !block.validity.ok);
    let mut facts = vec![
        ("file", path.display().to_string()),
        (
            "record",
            format!(
                "{}, format {}.{}",
                record.id, record.schema.major, record.schema.minor
            ),
        ),
        ("label", record.label.clone()),
        (
            "scenario",
            format!(
                "{}, sha256 {}",
                record.scenario.name, record.scenario.sha256
            ),
        ),
        (
            "measured",
            format!(
                "{} by unstall {}",
                record.created_utc, record.harness.version
            ),
        ),
        (
            "machine",
            format!("{}, {}", record.machine.class, record.machine.cpu),
        ),
        ("load", format!("{}, {}", load.model, levels.join(", "))),
        ("state", load.state_reset.clone()),
        (
            "blocks",
            format!(
                "{}, {} of them invalid",
                record.blocks.len(),
                invalid.count()
            ),
        ),
    ];
    if record.interrupted {
        facts.push(("stopped", "before its plan was done".to_owned()));
    }
    facts.extend(versions(record));
    facts.extend(sessions(record));
    facts
}

fn versions(record: &RunRecord) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    for (name, arm) in record.arms.iter().rev() {
        facts.push(("version", format!("{name}: {}", version(arm))));
        if let Some(imported) = &arm.imported {
            let from = format!("from {} ({})", imported.tool, imported.file);
            facts.push(("imported", from));
            let times = imported.times.as_deref().unwrap_or("not known");
            facts.push(("times", times.to_owned()));
            let missing = imported.missing.iter();
            facts.extend(missing.map(|sentence| ("not known", sentence.clone())));
        }
    }
    facts
}

fn sessions(record: &RunRecord) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(merged) = &record.merged {
        facts.extend(merge::meaning(record).map(|meaning| ("merged", meaning)));
        facts.extend(merged.sessions.iter().map(|session| {
            let out = match session.pairs_left_out {
                0 => String::new(),
                pairs => format!(", {pairs} left out"),
            };
            let pairs = session.pairs;
            let told = format!(
                "{} of {}: {pairs} pairs{out}",
                session.id, session.created_utc
            );
            ("session", told)
        }));
        let differences = merged.differences.iter();
        facts.extend(differences.map(|difference| ("differs", difference.clone())));
    }
    facts
}

fn version(arm: &Arm) -> String {
    let what = arm.command.as_ref().or(arm.url.as_ref());
    let what = what.map_or("unknown", String::as_str);
    match &arm.git {
        Some(commit) => format!("{what}, commit {commit}"),
        None => what.to_owned(),
    }
}
