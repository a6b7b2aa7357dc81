//! From the raw form to the plan: everything that serde can't see is checked here, so
//! that a plan, once made, can be driven without surprises.

use std::collections::BTreeMap;
use std::path::Path;

use crate::document::{Document, Place, read_text};
use crate::error::{ScenarioError, suggestion};
use crate::inputs::Inputs;
use crate::plan::{Per, Plan, Probe, Setup};
use crate::raw;
use crate::redaction::Redaction;
use crate::resolve::alternatives::Extracted;
use crate::resolve::names::Names;
use crate::resolve::request::RequestResolver;

mod alternatives;
mod answer;
mod background;
mod body;
mod client;
mod extract;
mod feeder;
mod files;
mod load;
mod names;
mod random;
mod request;
mod think;
pub(crate) mod values;
mod variables;

/// The bystander's rate when a file says nothing, requests per second.
const PROBE_RATE_DEFAULT: f64 = 50.0;
/// More is load, no bystander.
const PROBE_RATE_MAX: f64 = 1_000.0;

impl Plan {
    /// Reads and resolves a scenario file. Every override must be a variable of it.
    ///
    /// # Errors
    /// An unreadable or malformed file, or inputs that don't fit it.
    pub fn load(path: &Path, inputs: &Inputs) -> Result<Self, ScenarioError> {
        Self::parse(&read_text(path)?, path, inputs)
    }

    /// Resolves a scenario's text. The origin is named in errors, and feeder files are
    /// looked for beside it. Every override must be a variable of it.
    ///
    /// # Errors
    /// A malformed text, or inputs that don't fit it.
    pub fn parse(text: &str, origin: &Path, inputs: &Inputs) -> Result<Self, ScenarioError> {
        let plan = resolve(text, origin, inputs)?;
        check_overrides(std::slice::from_ref(&plan), inputs)?;
        Ok(plan)
    }
}

/// Resolves a text, whatever overrides it leaves unused.
pub(crate) fn resolve(text: &str, origin: &Path, inputs: &Inputs) -> Result<Plan, ScenarioError> {
    let document = Document::parse(text, origin)?;
    let raw: raw::Scenario = document.read()?;
    values::scenario_name(&document, &Place::Root.key("name"), &raw.name)?;
    let variables = variables::resolve(&document, &raw.vars, inputs)?;
    let redaction = Redaction::new(variables.secrets.iter().map(String::as_str));
    let names = Names::new(&document, &raw, &variables)?;
    let client = client::resolve(&document, &raw.client)?;
    let hosts = client::hosts(&document, &raw.hosts, &variables.vars)?;
    let mut requests = RequestResolver::new(&document, &raw, names, &redaction)?;
    let in_background = requests.clone();
    let setup = resolve_setup(&document, raw.setup, &mut requests)?;
    let measured = resolve_requests(
        &document,
        &Place::Root.key("request"),
        raw.request,
        &mut requests,
    )?;
    let mut plan = Plan {
        name: raw.name,
        describe: raw.describe,
        sha256: document.identity(),
        client,
        hosts,
        vars: variables.vars,
        setup,
        requests: measured,
        probe: resolve_probe(&document, raw.probe)?,
        background: None,
        load: load::resolve(&document, raw.load)?,
        redaction: redaction.clone(),
    };
    if let Some(raw) = raw.background {
        plan.background = background::resolve(&document, raw, in_background, &plan)?;
        // The files that its requests name are a part of the scenario, too.
        plan.sha256 = document.identity();
    }
    Ok(plan)
}

/// An override that no plan has a variable for would be silently without effect.
pub(crate) fn check_overrides(plans: &[Plan], inputs: &Inputs) -> Result<(), ScenarioError> {
    let known = |name: &str| plans.iter().any(|plan| plan.vars.contains_key(name));
    let Some(name) = inputs.overrides.keys().find(|name| !known(name)) else {
        return Ok(());
    };
    let scenarios: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
    let variables = plans
        .iter()
        .flat_map(|plan| plan.vars.keys().map(String::as_str));
    Err(ScenarioError::Override {
        name: name.clone(),
        scenarios: scenarios.join(", "),
        fix: suggestion(name, variables),
    })
}

fn resolve_setup(
    document: &Document<'_>,
    raw: Vec<raw::Setup>,
    requests: &mut RequestResolver<'_>,
) -> Result<Vec<Setup>, ScenarioError> {
    let section = Place::Root.key("setup");
    let mut indexed: Vec<(usize, raw::Setup)> = raw.into_iter().enumerate().collect();
    // What runs once runs first, whatever the file's order: users come later.
    indexed.sort_by_key(|(_, setup)| matches!(setup.per, Some(raw::Per::User)));
    let mut resolved = Vec::with_capacity(indexed.len());
    for (index, setup) in indexed {
        let place = section.item(index);
        if let Some(unless) = &setup.unless {
            requests
                .names
                .check_known(document, &place.key("unless"), unless)?;
        }
        let per = match setup.per {
            Some(raw::Per::User) => Per::User,
            Some(raw::Per::Run) | None => Per::Run,
        };
        let unless = setup.unless.clone();
        let request = requests.resolve(&place, as_request(setup))?;
        requests.names.reveal(request.extract.keys());
        resolved.push(Setup {
            per,
            unless,
            request,
        });
    }
    Ok(resolved)
}

/// A setup request is a request that isn't measured: named for messages, without
/// think time, never a stream.
fn as_request(setup: raw::Setup) -> raw::Request {
    let name = setup
        .name
        .unwrap_or_else(|| format!("setup {} {}", setup.method, setup.path));
    raw::Request {
        name: name.chars().take(values::REQUEST_NAME_CHARS_MAX).collect(),
        method: setup.method,
        host: setup.host,
        weight: None,
        path: setup.path,
        query: setup.query,
        headers: setup.headers,
        json: setup.json,
        form: setup.form,
        multipart: setup.multipart,
        body: setup.body,
        content_type: setup.content_type,
        expect: setup.expect,
        extract: setup.extract,
        stream: None,
        think: None,
        timeout: setup.timeout,
        judge: None,
    }
}

fn resolve_requests(
    document: &Document<'_>,
    section: &Place<'_>,
    raw: Vec<raw::Request>,
    requests: &mut RequestResolver<'_>,
) -> Result<Vec<crate::plan::Request>, ScenarioError> {
    if raw.is_empty() {
        let (what, table) = match section {
            Place::Key(Place::Root, _) => ("the scenario has no request", "[[request]]"),
            _ => ("the background has no request", "[[background.request]]"),
        };
        let fix = format!("add a `{table}` with `name`, `method` and `path`");
        return Err(document.error(section, what, fix));
    }
    let alternatives = alternatives::resolve(document, section, &raw)?;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut resolved = Vec::with_capacity(raw.len());
    let mut group = Extracted::default();
    for (index, request) in raw.into_iter().enumerate() {
        let place = section.item(index);
        if let Some(first) = seen.insert(request.name.clone(), index) {
            return Err(document.error(
                &place.key("name"),
                format!(
                    "request {} already has the name `{}`",
                    first + 1,
                    request.name
                ),
                "give each request its own name: it is the endpoint's in the record",
            ));
        }
        let alternative = alternatives[index].clone();
        let mut request = requests.resolve(&place, request)?;
        let extracted = request.extract.keys();
        match &alternative {
            None => requests.names.reveal(extracted),
            Some(_) => {
                group.add(extracted.clone());
                requests.names.reveal_sometimes(extracted);
                let behind = alternatives.get(index + 1);
                let is_last = behind.is_none_or(|next| next.is_none());
                if is_last {
                    requests.names.reveal(&std::mem::take(&mut group).by_all());
                }
            }
        }
        request.alternative = alternative;
        resolved.push(request);
    }
    Ok(resolved)
}

fn resolve_probe(
    document: &Document<'_>,
    raw: Option<raw::Probe>,
) -> Result<Option<Probe>, ScenarioError> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let place = Place::Root.key("probe");
    let path = values::literal_path(document, &place.key("path"), &raw.path)?;
    let rate = raw.rate.unwrap_or(PROBE_RATE_DEFAULT);
    values::rate(document, &place.key("rate"), rate, PROBE_RATE_MAX)?;
    Ok(Some(Probe { path, rate }))
}
