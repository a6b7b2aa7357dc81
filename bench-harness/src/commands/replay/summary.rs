//! What a replay comes to: its verdict, in words, and as a document.

use unstall_bench_harness::proof::JudgedRoute;
use unstall_loop_monitor::certificate::RouteVerdict;
use unstall_reports::{self as reports, StateFinding};
use unstall_results::comparison::{Decision, Verdict};
use unstall_results::design::ArmName;

use super::blocked;
use super::last_state::{LastState, Proof};
use super::steps::{Measurement, Replay, Replayed};
use crate::console::visible;
use crate::document::proof::ProofDocument;
use crate::document::replay::{
    How, LastStateDocument, ReplayDocument, ReplayedScenarioDocument, ReplayedStepDocument,
};
use crate::document::{ComparisonDocument, VerdictName};
use crate::judgement;

/// The worst of all that was measured and seen.
pub(crate) fn verdict(replay: &Replay<'_>, last_state: Option<&LastState>) -> Option<Verdict> {
    let measured = replay.judgement.verdict();
    measured.max(last_state.map(LastState::verdict))
}

/// Why it is no pass, as far as no comparison says so.
fn reasons(replay: &Replay<'_>, last_state: Option<&LastState>) -> Vec<String> {
    let left_out = replay.course.left_out().iter();
    let mut reasons: Vec<String> = left_out.map(|id| format!("step {id} regressed")).collect();
    let Some(state) = last_state else {
        return reasons;
    };
    match &state.blocked {
        Some(blocked) if blocked.failures > 0 => {
            reasons.push(format!(
                "{} requests of the last state failed",
                blocked.failures
            ));
        }
        Some(blocked) if !blocked.free => {
            reasons.push("the loop of the last state was blocked".to_owned());
        }
        Some(_) => {}
        None => reasons.push("nobody could tell whether the last state blocks".to_owned()),
    }
    if state.proof.as_ref().is_none_or(|proof| !proof.is_whole()) {
        reasons.push("not every route of the last state is proven".to_owned());
    }
    reasons
}

/// Step by step and of the last state, behind the tables.
pub(crate) fn text(replay: &Replay<'_>, last_state: Option<&LastState>, minutes: f64) -> String {
    let mut text = String::from("\nThe migration\n");
    for step in &replay.steps {
        text.push_str(&step_line(replay, step));
    }
    match last_state {
        Some(state) => {
            text.push_str(&format!("\nThe last state: {}\n", visible(&state.command)));
            text.push_str(&state_text(replay, state));
        }
        None => text.push_str(
            "\nThe last state was not looked at: that is done behind the plan's last step.\n",
        ),
    }
    let overall = verdict(replay, last_state).map_or("nothing was judged", judgement::name);
    let reasons = reasons(replay, last_state).join(", ");
    let because = if reasons.is_empty() {
        reasons
    } else {
        format!(" ({reasons})")
    };
    text.push_str(&format!(
        "\nThe replay: {overall}{because}, after {minutes:.1} minutes\n"
    ));
    text
}

fn step_line(replay: &Replay<'_>, step: &Replayed) -> String {
    let verdict = step.verdict(&replay.judgement);
    let verdict = verdict.map_or("not measured", judgement::name);
    let decision = decision_name(step.decision(&replay.judgement));
    let mut line = format!(
        "  {:<3} {decision:<9}  {verdict}: {}\n",
        step.step.id,
        visible(&step.step.title)
    );
    for of in step.measurements.iter().filter_map(|of| of.why.as_ref()) {
        line.push_str(&format!("                 {}\n", visible(of)));
    }
    line
}

fn state_text(replay: &Replay<'_>, state: &LastState) -> String {
    let mut text = String::new();
    let entry = state
        .capacity
        .and_then(|index| replay.judgement.entries.get(index));
    if let Some(finding) = entry.and_then(|entry| entry.capacity.as_ref()) {
        let promised = state
            .promised_percent
            .map_or_else(String::new, |[from, to]| {
                format!(" (the plan promised {from} to {to} % more per instance)")
            });
        text.push_str(&format!("  Capacity: {}{promised}\n", finding.headline));
    }
    text.push_str("  Monitor: ");
    text.push_str(&match &state.blocked {
        Some(blocked) => blocked::text(blocked),
        None => "told nothing of blocked time\n".to_owned(),
    });
    text.push_str(&match &state.proof {
        Some(proof) => proof_text(proof),
        None => "  Proof: none\n".to_owned(),
    });
    text
}

/// The same for reports.
pub(crate) fn for_readers(state: &LastState) -> reports::LastState {
    let finding = |wanted: &str, holds, found: String| StateFinding {
        wanted: wanted.to_owned(),
        holds,
        found,
    };
    let mut findings = Vec::new();
    if state.blocked.is_none() {
        findings.push(finding(
            "no poll is blocked for 200 µs or more",
            None,
            "nobody could tell".to_owned(),
        ));
    }
    if let Some(blocked) = &state.blocked {
        let first = |text: String| text.lines().next().unwrap_or_default().to_owned(); // never empty
        findings.push(finding(
            "no poll is blocked for 200 µs or more",
            Some(blocked.free),
            first(blocked::text(blocked)),
        ));
        findings.push(finding(
            "no request fails",
            Some(blocked.failures == 0),
            format!("{} requests failed", blocked.failures),
        ));
    }
    if state.proof.is_none() {
        findings.push(finding(
            "no route makes a call that can block",
            None,
            "nothing is proven".to_owned(),
        ));
    }
    if let Some(proof) = &state.proof {
        let proven = |of: &&JudgedRoute| of.verdict == RouteVerdict::Proven;
        let found = format!(
            "{} of {} routes proven by {} requests",
            proof.routes.iter().filter(proven).count(),
            proof.routes.len(),
            proof.routes.iter().map(requests).sum::<u64>()
        );
        let holds = match unstall_bench_harness::proof::overall(&proof.routes) {
            RouteVerdict::Blocking => Some(false),
            RouteVerdict::Proven if !proof.interrupted => Some(true),
            RouteVerdict::Proven | RouteVerdict::Unproven => None,
        };
        findings.push(finding(
            "no route makes a call that can block",
            holds,
            found,
        ));
    }
    reports::LastState {
        command: state.command.clone(),
        verdict: state.verdict(),
        findings,
    }
}

/// One line if all is proven, else one for each route that isn't, with the first that blocks it;
/// all of it is in the certificate.
fn proof_text(proof: &Proof) -> String {
    if proof.is_whole() {
        let requests: u64 = proof.routes.iter().map(requests).sum();
        return format!(
            "  Proof: {} routes, none made a call that can block ({requests} requests)\n",
            proof.routes.len()
        );
    }
    let mut text = String::from("  Proof:\n");
    let open = proof.routes.iter();
    for route in open.filter(|of| of.verdict != RouteVerdict::Proven) {
        let finding = route.proof.findings.first();
        let cause = finding.map(|of| format!("{} ({} times)", of.cause, of.count));
        let word = match route.verdict {
            RouteVerdict::Blocking => "blocking",
            RouteVerdict::Proven | RouteVerdict::Unproven => "unproven",
        };
        let why = route.reason.clone().or(cause).unwrap_or_default(); // one of them is there
        text.push_str(&format!(
            "    {word} {}: {}\n",
            visible(&route.route),
            visible(&why)
        ));
    }
    if proof.interrupted {
        text.push_str("    stopped before every request was sent\n");
    }
    text
}

fn requests(route: &JudgedRoute) -> u64 {
    route.proof.requests
}

fn decision_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Keep => "keep",
        Decision::Revert => "revert",
        Decision::Undecided => "undecided",
    }
}

/// The same for programs.
///
/// # Errors
/// A record of three versions that lacks one: a fault of unstall.
pub(crate) fn document(
    replay: &Replay<'_>,
    last_state: Option<&LastState>,
    minutes: f64,
) -> anyhow::Result<ReplayDocument> {
    let plan = replay.course.plan();
    let steps = replay.steps.iter().map(|step| step_document(replay, step));
    Ok(ReplayDocument {
        plan: plan.name.clone(),
        quick: replay.arguments.quick,
        interrupted: replay.stop.is_requested(),
        triples: replay.arguments.triples(),
        minutes,
        start_command: replay.course.start(),
        reasons: reasons(replay, last_state),
        steps: steps.collect::<anyhow::Result<_>>()?,
        left_out: replay.course.left_out().to_vec(),
        last_state: last_state.map(|state| LastStateDocument {
            command: state.command.clone(),
            capacity: index_among(replay, state.capacity, |of| of.capacity.is_some()),
            promised_percent: state.promised_percent,
            blocked: state.blocked.clone(),
            proof: state.proof.as_ref().map(|proof| {
                ProofDocument::new(&proof.certificate, &proof.routes, proof.interrupted)
            }),
        }),
    })
}

fn step_document(replay: &Replay<'_>, step: &Replayed) -> anyhow::Result<ReplayedStepDocument> {
    let measurements = step.measurements.iter();
    let measurements = measurements.map(|of| measurement_document(replay, of));
    Ok(ReplayedStepDocument {
        id: step.step.id.clone(),
        title: step.step.title.clone(),
        branch: step.step.branch.clone(),
        risk: step.step.risk.as_str(),
        impact: step.step.impact.clone(),
        verdict: step.verdict(&replay.judgement).map(VerdictName::from),
        decision: decision_name(step.decision(&replay.judgement)),
        left_out: step.left_out,
        before_command: step.states.as_ref().map(|states| states.before.clone()),
        after_command: step.states.as_ref().map(|states| states.after.clone()),
        measurements: measurements.collect::<anyhow::Result<_>>()?,
    })
}

fn measurement_document(
    replay: &Replay<'_>,
    of: &Measurement,
) -> anyhow::Result<ReplayedScenarioDocument> {
    let entry = of
        .entry
        .and_then(|index| replay.judgement.entries.get(index));
    let start = entry.and_then(|entry| {
        let from_start = entry.comparison.as_ref()?.from_start.as_ref()?;
        Some((&entry.record, from_start))
    });
    let from_start = match start {
        Some((record, comparison)) => {
            let contrast = record.contrast(ArmName::Start, ArmName::After)?;
            Some(ComparisonDocument::new(&contrast, comparison))
        }
        None => None,
    };
    Ok(ReplayedScenarioDocument {
        scenario: of.scenario.clone(),
        how: of.how,
        why: of.why.clone().filter(|_| of.how != How::Kept),
        record: of.record.as_ref().map(|path| path.display().to_string()),
        comparison: index_among(replay, of.entry, |of| of.comparison.is_some()),
        from_start,
    })
}

/// Where an entry stands in a list of the document, which has only those of one kind.
fn index_among(
    replay: &Replay<'_>,
    entry: Option<usize>,
    is_listed: impl Fn(&judgement::Judged) -> bool,
) -> Option<usize> {
    let index = entry?;
    let entries = &replay.judgement.entries;
    let is_there = entries.get(index).is_some_and(&is_listed);
    is_there.then(|| entries[..index].iter().filter(|of| is_listed(of)).count())
}
