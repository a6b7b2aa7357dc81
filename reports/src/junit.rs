//! The report as JUnit XML: a suite per measurement; in it a test case for the verdict, one per
//! judged cell, one per objective of the policy and one per criterion of the step.
//!
//! The file and the exit code never disagree: a suite has a failure or an error exactly if its verdict
//! makes the gate fail. So a regression and a missed objective are failures; what can't be told is one, too, of the case
//! `verdict`, unless the policy makes it a warning, and then it is skipped, so that no viewer paints it
//! green. An invalid measurement is an error. Cells and criteria that decide nothing by themselves are
//! skipped with their reason, and so are response times at a level that a version didn't keep up with: they
//! tell for how long it ran.
//!
//! Viewers tell cases apart by `classname` and `name` and drop the second of two that are alike
//! (GitLab), show the body of a failure (GitLab) or its message (GitHub's actions), and add up times
//! (Jenkins): so both are unique in the file, every failure has both, and the time of the measurement is
//! that of the case `verdict`, since cells took none of their own.

mod xml;

use unstall_results::capacity::Finding;
use unstall_results::comparison::{Cell, Comparison, Criterion, Outcome, Verdict};
use unstall_results::record::RunRecord;
use unstall_results::slo::{SloFinding, SloOutcome};

use crate::guilty_lines::{GuiltyLine, for_cell, guilty_lines};
use crate::ranking::Group;
use crate::{Entry, Report, numbers, objectives, observed, ranking, vocabulary};

/// Cells of a suite: more make a file that no viewer opens (GitLab takes 30 MB).
const CELLS_MAX: usize = 5_000;

/// Renders the comparisons as JUnit XML; records of one version have no verdict
/// and are left out.
pub fn render(report: &Report<'_>) -> String {
    let mut suites: Vec<Suite> = report
        .entries
        .iter()
        .filter_map(|entry| match (entry.comparison, entry.capacity()) {
            (Some(comparison), _) => Some(suite(entry, comparison)),
            (None, Some(finding)) => capacity_suite(entry, finding),
            (None, None) => None,
        })
        .collect();
    xml::make_unique(&mut suites);
    xml::document(&report.title, &suites)
}

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Passed,
    Failed,
    Errored,
    Skipped,
}

/// One line of a viewer. Texts aren't escaped yet.
struct Case {
    name: String,
    status: Status,
    kind: &'static str,
    /// One line.
    message: String,
    /// What a reader of a failure needs besides, a line each.
    details: Vec<String>,
}

struct Suite {
    name: String,
    class: String,
    /// If the record has a time that can be read as one.
    timestamp: Option<String>,
    duration_ms: u64,
    properties: Vec<(&'static str, String)>,
    /// The first one took the suite's time.
    cases: Vec<Case>,
    output: Vec<String>,
}

impl Suite {
    fn count(&self, status: Status) -> usize {
        self.cases
            .iter()
            .filter(|case| case.status == status)
            .count()
    }
}

/// `unstall.SCENARIO`, with the measurement's name where that is another: viewers make a package of
/// what stands before the last point.
fn class(entry: &Entry<'_>) -> String {
    let scenario = &entry.record.scenario.name;
    let name = entry.short_name();
    let class = if name == *scenario {
        scenario.clone()
    } else {
        format!("{scenario} {name}")
    };
    format!("unstall.{}", class.replace('.', "_"))
}

fn suite(entry: &Entry<'_>, comparison: &Comparison) -> Suite {
    let lines = guilty_lines(entry.record);
    let judged = ranking::cells(comparison, Group::Judged);
    let mut cases = vec![verdict_case(comparison, &lines)];
    cases.extend(
        judged
            .iter()
            .take(CELLS_MAX)
            .map(|cell| cell_case(cell, comparison.verdict, &lines)),
    );
    cases.extend(
        objectives::worst_first(comparison)
            .into_iter()
            .map(|slo| objective_case(slo, comparison.verdict)),
    );
    cases.extend(
        comparison
            .criteria
            .iter()
            .map(|criterion| criterion_case(criterion, comparison.verdict)),
    );
    let mut output = vec![comparison.headline.clone(), comparison.next_action.clone()];
    output.extend(comparison.validity.warnings.iter().cloned());
    output.extend(comparison.blind_spots.iter().cloned());
    if judged.len() > CELLS_MAX {
        let left = judged.len() - CELLS_MAX;
        output.push(format!("{left} more cells, none worse than those listed"));
    }
    let mut properties = properties(entry.record);
    properties.extend([
        (
            "verdict",
            vocabulary::verdict(comparison.verdict).to_owned(),
        ),
        ("pairs", comparison.pairs.to_string()),
        ("alpha", comparison.alpha.to_string()),
        ("paired", comparison.paired.to_string()),
    ]);
    Suite {
        name: entry.short_name(),
        class: class(entry),
        timestamp: timestamp(entry.record),
        duration_ms: duration_ms(entry.record),
        properties,
        cases,
        output,
    }
}

/// Two versions' capacities; of one version there is no verdict.
fn capacity_suite(entry: &Entry<'_>, finding: Finding) -> Option<Suite> {
    let verdict = finding.verdict?;
    let mut output = vec![finding.headline.clone(), finding.next_action.clone()];
    output.extend(finding.notes);
    let mut properties = properties(entry.record);
    properties.push(("verdict", vocabulary::verdict(verdict).to_owned()));
    Some(Suite {
        name: entry.short_name(),
        class: class(entry),
        timestamp: timestamp(entry.record),
        duration_ms: duration_ms(entry.record),
        properties,
        cases: vec![Case {
            name: "capacity".to_owned(),
            status: status_of(verdict, false),
            kind: vocabulary::verdict(verdict),
            message: finding.headline,
            details: vec![format!("Next: {}", finding.next_action)],
        }],
        output,
    })
}

/// Where and what: enough to measure it again.
fn properties(record: &RunRecord) -> Vec<(&'static str, String)> {
    let mut properties = vec![
        ("scenario", record.scenario.name.clone()),
        ("scenario.sha256", record.scenario.sha256.clone()),
        ("record", record.id.clone()),
        ("machine", record.machine.class.clone()),
        ("unstall", record.harness.version.clone()),
        ("load", record.load.model.clone()),
        ("seed", record.load.seed.to_string()),
        ("state-reset", record.load.state_reset.clone()),
    ];
    for (arm, name) in [("before", "before.git"), ("after", "after.git")] {
        let git = record.arms.get(arm).and_then(|arm| arm.git.clone());
        properties.extend(git.map(|git| (name, git)));
    }
    properties.retain(|(_, value)| !value.is_empty());
    properties
}

/// `2026-01-01T00:00:00`, without a zone, as the format has it; records are in UTC.
fn timestamp(record: &RunRecord) -> Option<String> {
    let text = record.created_utc.get(..19)?;
    let is_digit = |letter: char| letter.is_ascii_digit();
    let shape = text.replace(is_digit, "0");
    (shape == "0000-00-00T00:00:00").then(|| text.to_owned())
}

/// How long load was sent, all blocks together.
fn duration_ms(record: &RunRecord) -> u64 {
    let wall_ns = record.blocks.iter().map(|block| block.wall_ns);
    observed::total(wall_ns) / 1_000_000
}

/// What the gate makes of a verdict.
fn status_of(verdict: Verdict, is_only_warned: bool) -> Status {
    match verdict {
        Verdict::Pass => Status::Passed,
        Verdict::Regression => Status::Failed,
        Verdict::Inconclusive | Verdict::Invalid if is_only_warned => Status::Skipped,
        Verdict::Inconclusive => Status::Failed,
        Verdict::Invalid => Status::Errored,
    }
}

fn verdict_case(comparison: &Comparison, lines: &[GuiltyLine]) -> Case {
    let mut details = comparison.validity.faults.clone();
    details.extend(comparison.reasons.iter().cloned());
    details.extend(
        lines
            .iter()
            .map(|line| format!("Look at: {}", line.sentence)),
    );
    details.push(format!("Next: {}", comparison.next_action));
    let mut message = comparison.headline.clone();
    for fault in &comparison.validity.faults {
        message = format!("{message} {fault}");
    }
    Case {
        name: "verdict".to_owned(),
        status: status_of(comparison.verdict, comparison.is_only_warned()),
        kind: vocabulary::verdict(comparison.verdict),
        message,
        details,
    }
}

fn cell_case(cell: &Cell, verdict: Verdict, lines: &[GuiltyLine]) -> Case {
    // Numbers of an invalid measurement must not be used, so none of its cells passes.
    let (status, kind) = match cell.outcome {
        _ if verdict == Verdict::Invalid => (Status::Skipped, "invalid"),
        Outcome::Regression if verdict == Verdict::Regression => (Status::Failed, "regression"),
        // Two sessions whose difference is shown and not judged.
        Outcome::Regression => (Status::Skipped, "advisory"),
        Outcome::Improvement | Outcome::WithinLimit => (Status::Passed, "pass"),
        Outcome::Inconclusive { .. } => (Status::Skipped, "inconclusive"),
        Outcome::Insufficient { .. } => (Status::Skipped, "insufficient"),
        Outcome::Pooled => (Status::Skipped, "pooled"),
        Outcome::Saturated => (Status::Skipped, "saturated"),
        Outcome::NotMeasured => (Status::Skipped, "not-measured"),
    };
    let (_, words) = vocabulary::outcome(cell);
    let values = numbers::before_after(cell.metric, &cell.before, &cell.after);
    let change = match &cell.change {
        Some(change) => format!(
            ", {} [{}]",
            numbers::change(cell.metric, change),
            numbers::interval(cell.metric, change)
        ),
        // Without numbers to compare, the words are all there is.
        None => vocabulary::note(cell).map_or_else(String::new, |note| format!(". {note}")),
    };
    let mut details = Vec::new();
    if let (Outcome::Regression, Some(change)) = (cell.outcome, &cell.change) {
        let bound = numbers::scaled(cell.metric, change.scale, change.lower_bound);
        // Of two sessions there is no test, and p is 1.
        let p = Some(change.p_regression).filter(|p| *p < 1.0);
        let p = p.map_or_else(String::new, |p| format!(", adjusted p = {p:.3}"));
        details.push(format!("At least {bound}{p}"));
    }
    details.extend(vocabulary::note(cell).map(str::to_owned));
    details.extend(for_cell(lines, cell).map(|line| format!("Look at: {}", line.sentence)));
    Case {
        name: format!(
            "{} {} {}",
            vocabulary::cell_endpoint(cell),
            cell.level.to_string().replace(' ', ""),
            vocabulary::metric(cell.metric)
        ),
        status,
        kind,
        message: format!("{words}: {values}{change}"),
        details,
    }
}

fn objective_case(slo: &SloFinding, verdict: Verdict) -> Case {
    let (status, kind) = match slo.outcome {
        _ if verdict == Verdict::Invalid => (Status::Skipped, "invalid"),
        SloOutcome::Met => (Status::Passed, "pass"),
        SloOutcome::Missed if verdict == Verdict::Regression => (Status::Failed, "objective"),
        SloOutcome::Missed => (Status::Skipped, "advisory"),
        SloOutcome::CantTell { .. } => (Status::Skipped, "inconclusive"),
    };
    let (_, words) = objectives::outcome(slo, verdict);
    Case {
        name: format!(
            "objective {} {} {}",
            objectives::subject(slo),
            slo.level.to_string().replace(' ', ""),
            slo.objective
        ),
        status,
        kind,
        message: format!("{words}: {}", objectives::found(slo)),
        details: Vec::new(),
    }
}

/// A criterion makes a step undecided and fails no gate, so it is met or skipped.
fn criterion_case(criterion: &Criterion, verdict: Verdict) -> Case {
    let (_, words) = vocabulary::criterion(criterion.met);
    let (status, kind) = match criterion.met {
        _ if verdict == Verdict::Invalid => (Status::Skipped, "invalid"),
        Some(true) => (Status::Passed, "pass"),
        Some(false) => (Status::Skipped, "criterion-not-met"),
        None => (Status::Skipped, "criterion-untold"),
    };
    Case {
        name: format!("criterion {}", criterion.name),
        status,
        kind,
        message: format!(
            "{words}: expected {}, found {}",
            criterion.expected, criterion.found
        ),
        details: Vec::new(),
    }
}
