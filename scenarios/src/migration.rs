//! The migration plan: which steps a service goes through, what each is judged on, and
//! the command that serves the state behind each.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::catalogue;
use crate::document::{Document, Place, read_text};
use crate::error::{ScenarioError, suggestion};

const SHIPPED: &str = include_str!("../migrations/async-migration.toml");

/// A migration, step by step.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
#[schemars(title = "Unstall migration plan")]
pub struct MigrationPlan {
    /// Its name: lower-case letters, digits and `-`.
    pub name: String,
    /// The state before the first step.
    pub start: Start,
    /// What the whole migration is to bring, if that is to be measured.
    #[serde(default)]
    pub capacity: Option<CapacityGoal>,
    /// The steps, in the order in which they are merged.
    #[serde(rename = "step", default)]
    #[schemars(length(min = 1))]
    pub steps: Vec<Step>,
}

/// The state before the first step.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Start {
    /// What the state is, in a few words.
    pub title: String,
    /// The command that serves it; `{port}` stands for a free port.
    pub command: String,
}

/// What the service is to take at the end of the migration, beside what it takes at its start.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct CapacityGoal {
    /// The scenario to drive it with: a name of the catalogue, or a path.
    pub scenario: String,
    /// What must hold, as `p95<200ms,errors<0.1%`.
    pub objective: String,
    /// The first rate to try, in arrivals per second.
    #[schemars(range(min = 1))]
    pub from_per_second: u32,
    /// No higher rate than this is tried.
    #[schemars(range(min = 1))]
    pub to_per_second: u32,
    /// By how many percent the capacity is to grow: from, to.
    pub promised_percent: [u32; 2],
}

/// One step: one pull request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Step {
    /// Short and unique, as `2a`.
    pub id: String,
    /// What the step does, in a few words.
    pub title: String,
    /// The pull request's branch.
    #[serde(default)]
    pub branch: String,
    /// How likely the step breaks something.
    pub risk: Risk,
    /// What gets better.
    pub impact: String,
    /// The command that serves the state behind this step and all before it; `{port}`
    /// stands for a free port.
    pub command: String,
    /// The scenarios to measure it with: names of the catalogue, or paths.
    #[schemars(length(min = 1))]
    pub scenarios: Vec<String>,
    /// The step's own endpoints, on which the criteria are judged.
    #[schemars(length(min = 1))]
    pub endpoints: Vec<String>,
    /// What must hold for the step to be kept.
    pub criteria: Criteria,
}

/// How likely a step breaks something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Risk {
    /// Small and apart from the rest.
    Low,
    /// A new part, or two ways side by side.
    Medium,
    /// Much code at once.
    High,
}

/// What must hold for a step to be kept; what isn't named isn't judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Criteria {
    /// The 95th percentile of the response time.
    pub p95: Option<LatencyCriterion>,
    /// Failed requests.
    pub errors: Option<ErrorCriterion>,
    /// Time for which the event loop was blocked, per request.
    pub blocked: Option<FallCriterion>,
    /// Threads of the service.
    pub threads: Option<FallCriterion>,
    /// Faults that the service counts in its monitor.
    pub faults: Option<FallCriterion>,
}

/// What a latency must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyCriterion {
    /// Get shorter.
    Better,
    /// Get shorter, or stay within the margin.
    BetterOrFlat,
}

/// What errors must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCriterion {
    /// Not get more.
    NoneNew,
}

/// What a quantity must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FallCriterion {
    /// Fall.
    Down,
    /// Fall, or stay within the margin.
    DownOrFlat,
}

impl Risk {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl MigrationPlan {
    /// The plan that comes with the program.
    ///
    /// # Errors
    /// None that a released program has: a test reads it.
    pub fn shipped() -> Result<Self, ScenarioError> {
        Self::parse(SHIPPED, Path::new("migrations/async-migration.toml"))
    }

    /// Reads and checks a plan's file.
    ///
    /// # Errors
    /// An unreadable or malformed file.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        Self::parse(&read_text(path)?, path)
    }

    /// Checks a plan's text; the origin is named in errors.
    ///
    /// # Errors
    /// A malformed text.
    pub fn parse(text: &str, origin: &Path) -> Result<Self, ScenarioError> {
        let document = Document::parse(text, origin)?;
        let plan: Self = document.read()?;
        let root = Place::Root;
        crate::resolve::values::scenario_name(&document, &root.key("name"), &plan.name)?;
        let start = root.key("start");
        check_text(&document, &start.key("title"), &plan.start.title)?;
        check_text(&document, &start.key("command"), &plan.start.command)?;
        if let Some(goal) = &plan.capacity {
            check_capacity(&document, &root.key("capacity"), goal)?;
        }
        let section = root.key("step");
        if plan.steps.is_empty() {
            return Err(document.error(
                &section,
                "the plan has no step",
                "add a `[[step]]` with `id`, `title`, `command`, `scenarios` and `endpoints`",
            ));
        }
        let endpoints = catalogue_endpoints()?;
        for (index, step) in plan.steps.iter().enumerate() {
            let place = section.item(index);
            check_id(&document, &place.key("id"), step, &plan.steps[..index])?;
            check_step(&document, &place, step, &endpoints)?;
        }
        Ok(plan)
    }

    /// A step by its id.
    pub fn step(&self, id: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.id == id)
    }

    /// The command that serves the state before a step: that of the step before, or
    /// of the start.
    pub fn predecessor_command(&self, id: &str) -> Option<&str> {
        let index = self.steps.iter().position(|step| step.id == id)?;
        Some(match index.checked_sub(1) {
            Some(before) => &self.steps[before].command,
            None => &self.start.command,
        })
    }

    /// What to say about an id that no step has.
    pub fn unknown_step(&self, id: &str) -> String {
        let ids = self.steps.iter().map(|step| step.id.as_str());
        format!(
            "the plan `{}` has no step `{id}`\n  fix: {}",
            self.name,
            suggestion(id, ids)
        )
    }
}

fn check_text(document: &Document<'_>, place: &Place<'_>, text: &str) -> Result<(), ScenarioError> {
    if text.trim().is_empty() {
        return Err(document.error(place, "the text is empty", "write it out"));
    }
    Ok(())
}

fn check_capacity(
    document: &Document<'_>,
    place: &Place<'_>,
    goal: &CapacityGoal,
) -> Result<(), ScenarioError> {
    check_text(document, &place.key("scenario"), &goal.scenario)?;
    check_text(document, &place.key("objective"), &goal.objective)?;
    let (from, to) = (goal.from_per_second, goal.to_per_second);
    if from == 0 || from > to {
        return Err(document.error(
            &place.key("from_per_second"),
            format!("no rate lies between {from} and {to} per second"),
            "begin with 1 or more, and not above `to_per_second`",
        ));
    }
    let [least, most] = goal.promised_percent;
    if least > most {
        return Err(document.error(
            &place.key("promised_percent"),
            format!("{least} to {most} % is no range"),
            "write the lower end first, as `[30, 40]`",
        ));
    }
    Ok(())
}

fn check_id(
    document: &Document<'_>,
    place: &Place<'_>,
    step: &Step,
    earlier: &[Step],
) -> Result<(), ScenarioError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if step.id.is_empty() || step.id.len() > 20 || !step.id.chars().all(plain) {
        return Err(document.error(
            place,
            format!("`{}` can't be a step's id", step.id),
            "use 1 to 20 letters, digits and `-`, as `2a`",
        ));
    }
    // `--steps start` names the state before all steps.
    if step.id == "start" {
        return Err(document.error(
            place,
            "`start` is the state before the first step",
            "choose another id, as `0`",
        ));
    }
    if earlier.iter().any(|other| other.id == step.id) {
        return Err(document.error(
            place,
            format!("there is a step `{}` already", step.id),
            "give each step its own id",
        ));
    }
    Ok(())
}

/// Scenario → its endpoints, of the shipped ones.
fn catalogue_endpoints() -> Result<BTreeMap<String, Vec<String>>, ScenarioError> {
    let entries = catalogue::list()?;
    Ok(entries
        .into_iter()
        .map(|entry| (entry.name, entry.endpoints))
        .collect())
}

fn check_step(
    document: &Document<'_>,
    place: &Place<'_>,
    step: &Step,
    catalogue: &BTreeMap<String, Vec<String>>,
) -> Result<(), ScenarioError> {
    for (key, text) in [
        ("title", &step.title),
        ("impact", &step.impact),
        ("command", &step.command),
    ] {
        check_text(document, &place.key(key), text)?;
    }
    for (key, list) in [
        ("scenarios", &step.scenarios),
        ("endpoints", &step.endpoints),
    ] {
        if list.is_empty() {
            let fix = "name at least one, else the step can't be measured";
            return Err(document.error(&place.key(key), format!("`{key}` is empty"), fix));
        }
    }
    check_criteria(document, place, step.criteria)?;
    // A scenario that isn't in the catalogue may have any endpoint.
    let known: Option<Vec<&Vec<String>>> = step
        .scenarios
        .iter()
        .map(|name| catalogue.get(name))
        .collect();
    let Some(known) = known else {
        return Ok(());
    };
    let section = place.key("endpoints");
    for (index, endpoint) in step.endpoints.iter().enumerate() {
        if !known.iter().any(|endpoints| endpoints.contains(endpoint)) {
            let names = known.iter().flat_map(|endpoints| endpoints.iter());
            return Err(document.error(
                &section.item(index),
                format!("no endpoint `{endpoint}` in {}", step.scenarios.join(", ")),
                suggestion(endpoint, names.map(String::as_str)),
            ));
        }
    }
    Ok(())
}

fn check_criteria(
    document: &Document<'_>,
    place: &Place<'_>,
    criteria: Criteria,
) -> Result<(), ScenarioError> {
    let Criteria {
        p95,
        errors,
        blocked,
        threads,
        faults,
    } = criteria;
    let falls = [blocked, threads, faults];
    if p95.is_none() && errors.is_none() && falls.iter().all(Option::is_none) {
        return Err(document.error(
            &place.key("criteria"),
            "the step is judged on nothing",
            "name at least one criterion, as `criteria = { p95 = \"better-or-flat\", errors = \"none-new\" }`",
        ));
    }
    Ok(())
}
