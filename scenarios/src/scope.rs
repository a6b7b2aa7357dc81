//! What variables mean at one moment of one user: the plan's values, the built-in
//! ones, and what earlier answers brought.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use crate::draw::{Draws, mixed};
use crate::encode;
use crate::plan::{Feeder, Part, Pick, Plan, Setup, Template, Var};
use crate::redaction::Redaction;
use crate::template::push_json_escaped;

/// Salts of draws that no variable has: those are digests of names.
const ALTERNATIVES_SALT: u64 = 1 << 32;
const THINK_SALT: u64 = 2 << 32;
/// The turn of setup requests, far from any that an iteration has.
const SETUP_TURN: u64 = u64::MAX >> 1;

/// Why a request couldn't be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A variable that only an answer gives, and none did.
    #[error(
        "variable `{name}` has no value: the request that extracts it has failed or was skipped"
    )]
    NoValue {
        /// The variable.
        name: String,
    },
    /// A header's value that would break the message.
    #[error(
        "header `{name}`: its value has a line break or another control character; take it out of the variable it comes from"
    )]
    Header {
        /// The header.
        name: String,
    },
}

/// One user's variables.
#[derive(Clone)]
pub struct Scope {
    plan: Arc<Plan>,
    user: u32,
    users: u32,
    iteration: u64,
    /// Which iteration this is of all users': rows and draws hang on it.
    turn: u64,
    /// Before the first iteration: the setup's draws are not those of iteration 0.
    is_setup: bool,
    seed: u64,
    /// From the setup: kept over all iterations.
    prepared: BTreeMap<String, Json>,
    /// From this iteration's answers.
    answered: BTreeMap<String, Json>,
    /// Secrets that no variable has, the newest last.
    hidden: Vec<String>,
}

/// Without values, some of which are secrets.
impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope")
            .field("user", &self.user)
            .field("iteration", &self.iteration)
            .finish_non_exhaustive()
    }
}

/// How a value is written into its surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Unchanged.
    Plain,
    /// A path: literals keep their slashes, values don't.
    Path,
    /// A query parameter.
    Query,
    /// A URL-encoded form field.
    Form,
    /// Between the quotes of a JSON string.
    JsonString,
}

enum Found<'s> {
    Text(Cow<'s, str>),
    Json(Cow<'s, Json>),
    Number(u64),
    Absent,
}

impl Scope {
    /// The scope of one of `users` users, before its first iteration. The seed
    /// decides whatever is drawn, so that a run can be repeated.
    pub fn new(plan: Arc<Plan>, user: u32, users: u32, seed: u64) -> Self {
        Self {
            plan,
            user,
            users: users.max(1),
            iteration: 0,
            turn: u64::from(user),
            is_setup: true,
            seed,
            prepared: BTreeMap::new(),
            answered: BTreeMap::new(),
            hidden: Vec::new(),
        }
    }

    /// Starts an iteration: what the last one's answers brought is forgotten, so that
    /// a failed extraction can't pass unseen.
    pub fn begin_iteration(&mut self, iteration: u64) {
        let (user, users) = (u64::from(self.user), u64::from(self.users));
        self.iteration = iteration;
        self.turn = iteration.wrapping_mul(users).wrapping_add(user);
        self.is_setup = false;
        self.answered.clear();
    }

    /// Starts the iteration of an open load's arrival, whose rows and draws are its own whichever
    /// user serves it.
    pub fn begin_arrival(&mut self, arrival: u64) {
        self.iteration = arrival;
        self.turn = arrival;
        self.is_setup = false;
        self.answered.clear();
    }

    /// Whether this iteration sends a request of the plan, by its index: of neighbours with a
    /// weight it sends one.
    pub fn takes(&self, request: usize) -> bool {
        let Some(request) = self.plan.requests.get(request) else {
            return false;
        };
        let Some(alternative) = &request.alternative else {
            return true;
        };
        let salt = ALTERNATIVES_SALT + alternative.first as u64;
        let drawn = self.draws(salt).unit();
        alternative.share.contains(&drawn)
    }

    /// The pause behind a request of the plan, by its index.
    pub fn think(&self, request: usize) -> Duration {
        let Some(think) = self.plan.requests.get(request).map(|request| request.think) else {
            return Duration::ZERO;
        };
        let salt = THINK_SALT + request as u64;
        think.draw(&mut self.draws(salt))
    }

    /// Keeps values for the whole run: what a setup request extracted.
    pub fn prepare(&mut self, values: BTreeMap<String, Json>) {
        self.prepared.extend(values);
    }

    /// Keeps values until the next iteration: what a measured request extracted.
    pub fn answer(&mut self, values: BTreeMap<String, Json>) {
        self.answered.extend(values);
    }

    /// Has further secrets taken out of messages, such as a session's cookie; the newest of many
    /// are remembered.
    pub fn hide(&mut self, secrets: Vec<String>) {
        const HIDDEN_MAX: usize = 256;
        if secrets.is_empty() {
            return;
        }
        self.hidden.extend(secrets);
        let too_many = self.hidden.len().saturating_sub(HIDDEN_MAX);
        self.hidden.drain(..too_many);
    }

    /// What the setup has brought so far, to be shared with other users.
    pub fn prepared(&self) -> &BTreeMap<String, Json> {
        &self.prepared
    }

    /// The plan it belongs to.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Whether a variable has a value now.
    pub fn has_value(&self, name: &str) -> bool {
        !matches!(self.find(name), None | Some(Found::Absent))
    }

    /// Whether a setup request is to be left out, because its `unless` has a value.
    pub fn skips(&self, setup: &Setup) -> bool {
        setup
            .unless
            .as_deref()
            .is_some_and(|name| self.has_value(name))
    }

    /// The text without the plan's secrets and without the user's own.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.own_redaction() {
            None => self.plan.redact(text),
            Some(own) => {
                let shown = own.apply(text);
                Cow::Owned(self.plan.redact(&shown).into_owned())
            }
        }
    }

    /// The user's own secrets: those that answers brought, and those that are drawn.
    fn own_redaction(&self) -> Option<Redaction> {
        let requests = self.plan.setup.iter().map(|setup| &setup.request);
        let extracted = requests
            .chain(&self.plan.requests)
            .flat_map(|request| &request.extract)
            .filter(|(_, extract)| extract.secret)
            .flat_map(|(name, _)| [self.answered.get(name), self.prepared.get(name)])
            .flatten()
            .map(|value| text_of(value).into_owned());
        let drawn = self.plan.vars.values().filter_map(|var| match var {
            Var::Random(random) if random.secret => {
                let mut draws = self.draws(random.salt);
                Some(text_of(&draws.value(&random.kind)).into_owned())
            }
            _ => None,
        });
        let secrets: Vec<String> = extracted.chain(drawn).collect();
        let secrets: Vec<&str> = secrets
            .iter()
            .chain(&self.hidden)
            .map(String::as_str)
            .collect();
        (!secrets.is_empty()).then(|| Redaction::new(secrets))
    }

    fn draws(&self, salt: u64) -> Draws {
        let turn = if self.is_setup {
            SETUP_TURN.wrapping_add(self.turn)
        } else {
            self.turn
        };
        Draws::new(self.seed, turn, salt)
    }

    fn find(&self, name: &str) -> Option<Found<'_>> {
        if let Some(value) = self.answered.get(name).or_else(|| self.prepared.get(name)) {
            return Some(Found::Json(Cow::Borrowed(value)));
        }
        match name {
            "user" => return Some(Found::Number(u64::from(self.user))),
            "iteration" => return Some(Found::Number(self.iteration)),
            _ => {}
        }
        Some(match self.plan.vars.get(name)? {
            Var::Value(value) => Found::Json(Cow::Borrowed(&value.value)),
            Var::Template(template) => Found::Text(Cow::Owned(self.built_in_text(template))),
            Var::Feeder(feeder) => Found::Text(Cow::Borrowed(self.row(feeder))),
            Var::Random(random) => {
                let mut draws = self.draws(random.salt);
                Found::Json(Cow::Owned(draws.value(&random.kind)))
            }
            Var::Absent => Found::Absent,
        })
    }

    /// A default's text. Only built-in variables may stand in it (checked at load).
    fn built_in_text(&self, template: &Template) -> String {
        let mut out = String::new();
        for part in &template.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Variable(name) if name == "user" => out.push_str(&self.user.to_string()),
                Part::Variable(_) => out.push_str(&self.iteration.to_string()),
            }
        }
        out
    }

    fn row<'f>(&self, feeder: &'f Feeder) -> &'f str {
        let rows = feeder.values.len() as u64;
        let index = match feeder.pick {
            Pick::RoundRobin => self.turn,
            Pick::Random => mixed(self.seed ^ mixed(self.turn)),
            Pick::PerUser => u64::from(self.user),
        } % rows.max(1);
        // A feeder without rows is refused at load.
        feeder.values.get(index as usize).map_or("", String::as_str)
    }

    /// Whether a template's variables are all absent, so that what it would make is left out.
    pub(crate) fn leaves_out(&self, template: &Template) -> bool {
        let mut variables = template.variables().peekable();
        variables.peek().is_some()
            && variables.all(|name| matches!(self.find(name), Some(Found::Absent)))
    }

    pub(crate) fn write(
        &self,
        template: &Template,
        place: Place,
        out: &mut String,
    ) -> Result<(), RenderError> {
        template.parts.iter().try_for_each(|part| match part {
            Part::Literal(text) => {
                match place {
                    Place::Path => encode::push_path(text, out),
                    other => push(text, other, out),
                }
                Ok(())
            }
            Part::Variable(name) => self.write_variable(name, place, out),
        })
    }

    pub(crate) fn write_variable(
        &self,
        name: &str,
        place: Place,
        out: &mut String,
    ) -> Result<(), RenderError> {
        match self.find(name) {
            Some(Found::Text(text)) => push(&text, place, out),
            Some(Found::Json(value)) => push(&text_of(&value), place, out),
            Some(Found::Number(number)) => out.push_str(&number.to_string()),
            Some(Found::Absent) | None => return Err(RenderError::NoValue { name: name.into() }),
        }
        Ok(())
    }

    /// Writes a variable as a whole JSON value, with its type.
    pub(crate) fn write_json(&self, name: &str, out: &mut String) -> Result<(), RenderError> {
        match self.find(name) {
            Some(Found::Text(text)) => {
                out.push('"');
                push_json_escaped(&text, out);
                out.push('"');
            }
            Some(Found::Json(value)) => out.push_str(&value.to_string()),
            Some(Found::Number(number)) => out.push_str(&number.to_string()),
            Some(Found::Absent) | None => return Err(RenderError::NoValue { name: name.into() }),
        }
        Ok(())
    }
}

fn push(text: &str, place: Place, out: &mut String) {
    match place {
        Place::Plain => out.push_str(text),
        Place::Path | Place::Query => encode::push_component(text, out),
        Place::Form => encode::push_form(text, out),
        Place::JsonString => push_json_escaped(text, out),
    }
}

/// A value inside a text: strings as they are, everything else as JSON.
pub(crate) fn text_of(value: &Json) -> Cow<'_, str> {
    match value {
        Json::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
