//! `[vars]`: each variable gets its value from `--var`, the environment, a file or its
//! default, in this order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::{feeder, random, values};
use crate::document::{Document, Place};
use crate::error::ScenarioError;
use crate::inputs::Inputs;
use crate::plan::{BUILT_IN_VARIABLES, Part, Pick, Random, RandomKind, Value, Var};
use crate::raw::{self, Source, Variable};
use crate::template::is_variable_name;

/// The variables of a scenario.
pub(crate) struct Variables {
    pub(crate) vars: BTreeMap<String, Var>,
    /// Texts that must not be shown.
    pub(crate) secrets: Vec<String>,
    /// Declared secret, with a value or without.
    pub(crate) secret_names: BTreeSet<String>,
    /// What to do about a variable without a value.
    pub(crate) fixes: BTreeMap<String, String>,
}

pub(crate) fn resolve(
    document: &Document<'_>,
    raw: &BTreeMap<String, Variable>,
    inputs: &Inputs,
) -> Result<Variables, ScenarioError> {
    let section = Place::Root.key("vars");
    let mut variables = Variables {
        vars: BTreeMap::new(),
        secrets: Vec::new(),
        secret_names: BTreeSet::new(),
        fixes: BTreeMap::new(),
    };
    for (name, variable) in raw {
        check_name(document, &section.name(name), name)?;
        let resolver = Resolver {
            document,
            place: section.key(name),
            name,
            inputs,
        };
        let var = match variable {
            Variable::Literal(scalar) => resolver.valued(Some(&scalar.0), None, false)?,
            Variable::Source(source) => Some(resolver.source(source)?),
        };
        if let Variable::Source(source) = variable
            && source.secret
        {
            variables.secret_names.insert(name.clone());
            variables.secrets.extend(secret_texts(var.as_ref()));
        }
        let env = match variable {
            Variable::Source(source) => source.env.as_deref(),
            Variable::Literal(_) => None,
        };
        variables.fixes.insert(name.clone(), how_to_set(name, env));
        variables
            .vars
            .insert(name.clone(), var.unwrap_or(Var::Absent));
    }
    Ok(variables)
}

fn check_name(document: &Document<'_>, place: &Place<'_>, name: &str) -> Result<(), ScenarioError> {
    if !is_variable_name(name) {
        return Err(document.error(
            place,
            format!("`{name}` can't be a variable's name"),
            "use letters, digits, `_` and `-`, and start with a letter or `_`",
        ));
    }
    if BUILT_IN_VARIABLES.contains(&name) {
        return Err(document.error(
            place,
            format!("the variable `{name}` is built in"),
            format!("choose another name, as `{name}_name`"),
        ));
    }
    Ok(())
}

fn how_to_set(name: &str, env: Option<&str>) -> String {
    match env {
        Some(env) => format!("set the environment variable {env}, or pass `--var {name}=…`"),
        None => format!("pass `--var {name}=…`"),
    }
}

/// The texts of a secret: each row of a feeder is one.
fn secret_texts(var: Option<&Var>) -> Vec<String> {
    match var {
        Some(Var::Value(value)) => vec![text_of(&value.value)],
        Some(Var::Feeder(feeder)) => feeder.values.clone(),
        Some(Var::Random(Random {
            kind: RandomKind::Choice(of),
            ..
        })) => of.iter().map(text_of).collect(),
        // The others' values are the user's own: `Scope::redact` knows them.
        Some(Var::Template(_) | Var::Random(_) | Var::Absent) | None => Vec::new(),
    }
}

fn text_of(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

struct Resolver<'r, 't> {
    document: &'r Document<'t>,
    place: Place<'r>,
    name: &'r str,
    inputs: &'r Inputs,
}

impl Resolver<'_, '_> {
    fn source(&self, source: &Source) -> Result<Var, ScenarioError> {
        if let Some(word) = source.random {
            let random = random::resolve(self.document, &self.place, self.name, word, source)?;
            // A value from outside wins here, too: a run can be repeated with the one that failed.
            return Ok(match self.inputs.overrides.get(self.name) {
                Some(text) => Var::Value(Value {
                    value: text.clone().into(),
                    secret: source.secret,
                }),
                None => Var::Random(random),
            });
        }
        if let Some(key) = only_with_random(source) {
            return Err(self.document.error(
                &self.place.name(key),
                format!("`{key}` without `random`"),
                "add `random = \"int\"`, `\"choice\"` or `\"text\"`, or take it out",
            ));
        }
        if let Some(file) = &source.file {
            return self.feeder(source, file);
        }
        if let Some(key) = only_with_file(source) {
            return Err(self.document.error(
                &self.place.name(key),
                format!("`{key}` without `file`"),
                "add `file = \"rows.csv\"`, or take it out",
            ));
        }
        if let Some(env) = &source.env
            && (env.is_empty() || env.contains(['=', '\0']))
        {
            return Err(self.document.error(
                &self.place.key("env"),
                format!("`{env}` can't be an environment variable's name"),
                "write its name alone, as `env = \"AUTH_TOKEN\"`",
            ));
        }
        let default = source.default.as_ref().map(|scalar| &scalar.0);
        match self.valued(default, source.env.as_deref(), source.secret)? {
            Some(var) => Ok(var),
            None if source.optional => Ok(Var::Absent),
            None => Err(self.document.error(
                &self.place,
                format!("the variable `{}` has no value", self.name),
                format!(
                    "{}; or give it a `default`, or `optional = true`",
                    how_to_set(self.name, source.env.as_deref())
                ),
            )),
        }
    }

    /// The value from outside, or else the literal or default.
    fn valued(
        &self,
        default: Option<&Json>,
        env: Option<&str>,
        secret: bool,
    ) -> Result<Option<Var>, ScenarioError> {
        let given = self.inputs.overrides.get(self.name);
        let from_environment = env
            .and_then(|env| self.inputs.environment.get(env))
            .filter(|value| !value.is_empty());
        if let Some(text) = given.or(from_environment) {
            let value = self.typed(text, default)?;
            return Ok(Some(Var::Value(Value { value, secret })));
        }
        match default {
            // Beside an environment variable only what that brings is secret: a default that is
            // made of built-in variables is for development, and anybody can guess it.
            Some(Json::String(text)) => self.default_text(text, secret, env.is_some()).map(Some),
            Some(value) => Ok(Some(Var::Value(Value {
                value: value.clone(),
                secret,
            }))),
            None => Ok(None),
        }
    }

    /// A text from outside takes the type of the literal or default it replaces.
    fn typed(&self, text: &str, default: Option<&Json>) -> Result<Json, ScenarioError> {
        let parsed = || serde_json::from_str::<Json>(text).ok();
        let (value, kind) = match default {
            Some(Json::Number(_)) => (parsed().filter(Json::is_number), "number"),
            Some(Json::Bool(_)) => (parsed().filter(Json::is_boolean), "boolean"),
            _ => return Ok(Json::String(text.to_owned())),
        };
        // The text isn't shown: it may be a secret that went into the wrong variable.
        value.ok_or_else(|| {
            self.document.error(
                &self.place,
                format!(
                    "the variable `{}` is a {kind} here, but what was given from outside is none",
                    self.name
                ),
                format!("give a {kind}, or make the default a string"),
            )
        })
    }

    fn default_text(
        &self,
        text: &str,
        secret: bool,
        has_environment: bool,
    ) -> Result<Var, ScenarioError> {
        let template = values::template(self.document, &self.place, text)?;
        if let Some(literal) = template.as_literal() {
            return Ok(Var::Value(Value {
                value: literal.into(),
                secret,
            }));
        }
        let stranger = template.parts.iter().find_map(|part| match part {
            Part::Variable(name) if !BUILT_IN_VARIABLES.contains(&name.as_str()) => Some(name),
            _ => None,
        });
        if let Some(stranger) = stranger {
            return Err(self.document.error(
                &self.place,
                format!("the value of `{}` uses the variable `{stranger}`", self.name),
                "use only `${user}` and `${iteration}` in values; put the others where this one is used",
            ));
        }
        if secret && !has_environment {
            return Err(self.document.error(
                &self.place,
                format!("the secret `{}` is made of built-in variables", self.name),
                "take out `secret`: anybody can guess it",
            ));
        }
        Ok(Var::Template(template))
    }

    fn feeder(&self, source: &Source, file: &str) -> Result<Var, ScenarioError> {
        let excluded = [
            ("env", source.env.is_some()),
            ("default", source.default.is_some()),
            ("optional", source.optional),
        ];
        if let Some((key, _)) = excluded.iter().find(|(_, given)| *given) {
            return Err(self.document.error(
                &self.place.name(key),
                format!("`{key}` beside `file`"),
                "keep one of them: a file always has a value",
            ));
        }
        if let Some(text) = self.inputs.overrides.get(self.name) {
            return Ok(Var::Value(Value {
                value: text.clone().into(),
                secret: source.secret,
            }));
        }
        let Some(column) = &source.column else {
            return Err(self.document.error(
                &self.place,
                "`file` without `column`",
                "add `column = \"…\"`: a name from the file's header line, or a key of its JSON lines",
            ));
        };
        let pick = match source.pick {
            Some(raw::Pick::Random) => Pick::Random,
            Some(raw::Pick::PerUser) => Pick::PerUser,
            Some(raw::Pick::RoundRobin) | None => Pick::RoundRobin,
        };
        feeder::load(self.document, &self.place, file, column, pick).map(Var::Feeder)
    }
}

fn only_with_random(source: &Source) -> Option<&'static str> {
    let keys = [
        ("min", source.min.is_some()),
        ("max", source.max.is_some()),
        ("of", source.of.is_some()),
        ("length", source.length.is_some()),
    ];
    let stray = keys.iter().find(|(_, given)| *given);
    stray.map(|(key, _)| *key)
}

fn only_with_file(source: &Source) -> Option<&'static str> {
    let column = source.column.as_ref().map(|_| "column");
    column.or(source.pick.map(|_| "pick"))
}
