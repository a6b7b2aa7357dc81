//! Who may use which variable: an extracted one is visible to later requests only,
//! and one without a value only where it can be left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Document, Place};
use crate::error::{ScenarioError, nearest, suggestion};
use crate::plan::{BUILT_IN_VARIABLES, Template, Var};
use crate::raw;
use crate::resolve::variables::Variables;
use crate::template::is_variable_name;

/// The variables as the requests come to see them, one after the other.
#[derive(Clone)]
pub(crate) struct Names {
    /// With a value here.
    available: BTreeSet<String>,
    /// Declared, optional, and without a value; the fix says how to give one.
    absent: BTreeMap<String, String>,
    /// Extracted by some request, maybe a later one.
    extracted: BTreeSet<String>,
    /// Extracted by alternatives of which an iteration may have sent none.
    sometimes: BTreeSet<String>,
    /// Declared secret, in `[vars]` or where it is extracted.
    secret: BTreeSet<String>,
}

impl Names {
    pub(crate) fn new(
        document: &Document<'_>,
        raw: &raw::Scenario,
        variables: &Variables,
    ) -> Result<Self, ScenarioError> {
        let built_in = BUILT_IN_VARIABLES.iter().map(|name| (*name).to_owned());
        let mut names = Self {
            available: built_in.collect(),
            absent: BTreeMap::new(),
            extracted: BTreeSet::new(),
            sometimes: BTreeSet::new(),
            secret: variables.secret_names.clone(),
        };
        for (name, var) in &variables.vars {
            if matches!(var, Var::Absent) {
                let fix = variables.fixes.get(name).cloned().unwrap_or_default();
                names.absent.insert(name.clone(), fix);
            } else {
                names.available.insert(name.clone());
            }
        }
        let root = Place::Root;
        let (setup, requests) = (root.key("setup"), root.key("request"));
        let background = root.key("background");
        let in_background = background.key("request");
        for (index, setup_request) in raw.setup.iter().enumerate() {
            names.extracts(document, &setup.item(index), &setup_request.extract)?;
        }
        for (index, request) in raw.request.iter().enumerate() {
            names.extracts(document, &requests.item(index), &request.extract)?;
        }
        let of_background = raw.background.iter().flat_map(|users| &users.request);
        for (index, request) in of_background.enumerate() {
            names.extracts(document, &in_background.item(index), &request.extract)?;
        }
        Ok(names)
    }

    /// Some request extracts these.
    fn extracts(
        &mut self,
        document: &Document<'_>,
        request: &Place<'_>,
        extract: &BTreeMap<String, raw::Extract>,
    ) -> Result<(), ScenarioError> {
        let place = request.key("extract");
        for (name, taken) in extract {
            check_extracted_name(document, &place.name(name), name)?;
            self.extracted.insert(name.clone());
            // What is a secret once is one wherever it comes from.
            if taken.secret {
                self.secret.insert(name.clone());
            }
        }
        Ok(())
    }

    /// A request has been passed: later ones see what it extracts.
    pub(crate) fn reveal<'n>(&mut self, extracted: impl IntoIterator<Item = &'n String>) {
        for name in extracted {
            self.absent.remove(name);
            self.sometimes.remove(name);
            self.available.insert(name.clone());
        }
    }

    /// An alternative has been passed: what it extracts may be there or not.
    pub(crate) fn reveal_sometimes<'n>(&mut self, extracted: impl IntoIterator<Item = &'n String>) {
        self.sometimes.extend(extracted.into_iter().cloned());
    }

    pub(crate) fn is_secret(&self, name: &str) -> bool {
        self.secret.contains(name)
    }

    /// Checks a text's variables; with `leaves_out`, the text may vanish as a whole.
    pub(crate) fn check_template(
        &self,
        document: &Document<'_>,
        place: &Place<'_>,
        template: &Template,
        leaves_out: bool,
    ) -> Result<(), ScenarioError> {
        let mut variables = template.variables().peekable();
        let vanishes = leaves_out
            && variables.peek().is_some()
            && template
                .variables()
                .all(|name| self.absent.contains_key(name));
        if vanishes {
            return Ok(());
        }
        variables.try_for_each(|name| self.check_use(document, place, name))
    }

    pub(crate) fn check_use(
        &self,
        document: &Document<'_>,
        place: &Place<'_>,
        name: &str,
    ) -> Result<(), ScenarioError> {
        if self.available.contains(name) {
            return Ok(());
        }
        self.check_known(document, place, name)?;
        if self.sometimes.contains(name) {
            return Err(document.error(
                place,
                format!("the variable `{name}` is extracted by requests with a `weight`, and an iteration may send none of them"),
                format!("extract `{name}` in each of the alternatives, in a request without `weight`, or give it a value in `[vars]`"),
            ));
        }
        let (what, fix) = match self.absent.get(name) {
            Some(fix) => (
                format!("the variable `{name}` has no value here, and this can't be left out"),
                fix.clone(),
            ),
            None => (
                format!("the variable `{name}` is used before a request extracts it"),
                format!("move this request behind the one that extracts `{name}`"),
            ),
        };
        Err(document.error(place, what, fix))
    }

    /// Checks that a variable exists, with a value or without.
    pub(crate) fn check_known(
        &self,
        document: &Document<'_>,
        place: &Place<'_>,
        name: &str,
    ) -> Result<(), ScenarioError> {
        let mut known: BTreeSet<&str> = self.available.iter().map(String::as_str).collect();
        known.extend(self.absent.keys().map(String::as_str));
        known.extend(self.extracted.iter().map(String::as_str));
        if known.contains(name) {
            return Ok(());
        }
        let fix = match nearest(name, known.iter().copied()) {
            Some(_) => suggestion(name, known.iter().copied()),
            None => format!("declare `{name}` in `[vars]`, or extract it in an earlier request"),
        };
        Err(document.error(place, format!("there is no variable `{name}`"), fix))
    }
}

fn check_extracted_name(
    document: &Document<'_>,
    place: &Place<'_>,
    name: &str,
) -> Result<(), ScenarioError> {
    if is_variable_name(name) && !BUILT_IN_VARIABLES.contains(&name) {
        return Ok(());
    }
    Err(document.error(
        place,
        format!("`{name}` can't be the name of an extracted variable"),
        "use letters, digits, `_` and `-`, start with a letter or `_`, and leave `user` and `iteration` alone",
    ))
}
