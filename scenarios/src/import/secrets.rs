//! The credentials of an import, and the variables that stand in their places.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{DraftVar, literal, variables};
use crate::encode;
use crate::plan::{Part, Template};

/// What the variable of `Basic` holds.
pub(super) const BASIC_NOTE: &str = "base64 of user:password";
/// Shorter texts stand in too many places by chance to be searched for.
const COVERED_CHARS_MIN: usize = 6;
/// Words of authorization headers that say how, and are no secret.
const SCHEMES: [&str; 8] = [
    "Bearer",
    "Basic",
    "Digest",
    "Token",
    "ApiKey",
    "Key",
    "JWT",
    "Negotiate",
];

/// The secrets of an import.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// Variable → value, in the order in which they were found.
    known: Vec<Secret>,
    /// Variables that the input has by itself, in capital letters, as the environment has them.
    reserved: BTreeSet<String>,
    /// Those of them that stand where a credential does.
    marked: BTreeSet<String>,
}

#[derive(Debug)]
struct Secret {
    variable: String,
    value: String,
    note: Option<String>,
}

impl Secrets {
    /// Keeps a name for a variable that the input has by itself: what fills that one must never be
    /// sent as a credential, nor the other way round.
    pub(super) fn reserve(&mut self, name: &str) {
        self.reserved.insert(name.to_ascii_uppercase());
    }

    /// Whether a variable of the input stands where a credential does.
    pub(super) fn is_marked(&self, variable: &str) -> bool {
        self.marked.contains(variable)
    }

    /// Hides a credential that is written as a template. Variables by themselves show nothing, and
    /// are secret from here on; text beside them may be a part of the credential.
    pub(super) fn hide_value(&mut self, hint: &str, value: &str) -> String {
        let used = variables(value);
        if used.is_empty() {
            return self.hide(hint, &value.replace("$${", "${"), None);
        }
        let (_, credential) = split_scheme(value);
        let shows_nothing = Template::parse(credential).is_ok_and(|template| {
            template.parts.iter().all(|part| match part {
                Part::Literal(text) => !text.chars().any(char::is_alphanumeric),
                Part::Variable(_) => true,
            })
        });
        if shows_nothing {
            self.marked.extend(used);
            return value.to_owned();
        }
        self.hide(hint, value, None)
    }

    /// Puts a variable in a value's place: the same for the same value. An empty one is none.
    pub(super) fn hide(&mut self, hint: &str, value: &str, note: Option<&str>) -> String {
        if value.is_empty() {
            return String::new();
        }
        let known = self.known.iter().find(|secret| secret.value == value);
        if let Some(secret) = known {
            return format!("${{{}}}", secret.variable);
        }
        let base = snake_case(hint);
        let is_free = |name: &String| {
            self.known.iter().all(|secret| secret.variable != *name)
                && !self.reserved.contains(&name.to_ascii_uppercase())
        };
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let variable = std::iter::once(base.clone())
            .chain(numbered)
            .find(is_free)
            .unwrap_or(base);
        let shown = format!("${{{variable}}}");
        self.known.push(Secret {
            variable,
            value: value.to_owned(),
            note: note.map(str::to_owned),
        });
        shown
    }

    /// Puts one variable in the place of several values.
    pub(super) fn hide_as(&mut self, variable: &str, value: &str) -> String {
        let is_known = |secret: &Secret| secret.variable == variable && secret.value == value;
        if !self.known.iter().any(is_known) {
            self.known.push(Secret {
                variable: variable.to_owned(),
                value: value.to_owned(),
                note: None,
            });
        }
        format!("${{{variable}}}")
    }

    /// A credential header's value, as a template: the scheme stays, the rest is hidden.
    pub(super) fn hide_header(&mut self, name: &str, value: &str) -> String {
        let (scheme, credential) = split_scheme(value);
        if scheme.is_empty() {
            return self.hide_value(name, value);
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return format!("{scheme} {}", self.hide_value("token", credential));
        }
        let hidden = self.hide_value("basic_credentials", credential);
        let made = self.known.last_mut();
        if let Some(made) = made.filter(|made| hidden == format!("${{{}}}", made.variable)) {
            made.note = Some(BASIC_NOTE.to_owned());
        }
        format!("{scheme} {hidden}")
    }

    /// Hides what is left of known secrets in a template.
    pub(super) fn cover(&self, text: &mut String) {
        let Ok(template) = Template::parse(text) else {
            return;
        };
        let mut parts = template.parts;
        let mut is_changed = false;
        for (form, variable) in self.covered() {
            // Names of variables aren't searched: one may be called as another's value.
            let is_in = |part: &Part| matches!(part, Part::Literal(text) if text.contains(&form));
            if parts.iter().any(is_in) {
                is_changed = true;
                parts = parts
                    .into_iter()
                    .flat_map(|part| cut_out(part, &form, variable))
                    .collect();
            }
        }
        if is_changed {
            *text = written(&parts);
        }
    }

    /// The same in a text for people.
    pub(super) fn cover_note(&self, text: &mut String) {
        for (form, _) in self.covered() {
            if text.contains(&form) {
                *text = text.replace(&form, "…");
            }
        }
    }

    /// The secrets in each form in which they may stand elsewhere, with their variables.
    fn covered(&self) -> impl Iterator<Item = (String, &str)> {
        let long = |secret: &&Secret| secret.value.chars().count() >= COVERED_CHARS_MIN;
        self.known.iter().filter(long).flat_map(|secret| {
            let (mut component, mut form) = (String::new(), String::new());
            encode::push_component(&secret.value, &mut component);
            encode::push_form(&secret.value, &mut form);
            let json = serde_json::Value::from(secret.value.as_str()).to_string();
            let json = json.trim_matches('"').to_owned();
            [secret.value.clone(), component, form, json]
                .map(|form| (form, secret.variable.as_str()))
        })
    }

    /// Declares the variables that are used, to be filled by the environment.
    pub(super) fn declare(self, used: &BTreeSet<String>, vars: &mut BTreeMap<String, DraftVar>) {
        let used = self
            .known
            .into_iter()
            .filter(|secret| used.contains(&secret.variable));
        for secret in used {
            let environment = secret.variable.to_ascii_uppercase().replace('-', "_");
            vars.insert(
                secret.variable,
                DraftVar::Environment {
                    name: environment,
                    default: None,
                    secret: true,
                    note: secret.note,
                },
            );
        }
    }
}

/// The scheme of an authorization, and what is behind it; without a scheme, all.
fn split_scheme(value: &str) -> (&str, &str) {
    match value.split_once(' ') {
        Some((scheme, rest))
            if !rest.trim().is_empty()
                && SCHEMES
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(scheme)) =>
        {
            (scheme, rest.trim())
        }
        _ => ("", value),
    }
}

/// A part with a variable in each place of `form`.
fn cut_out(part: Part, form: &str, variable: &str) -> Vec<Part> {
    let Part::Literal(text) = &part else {
        return vec![part];
    };
    let mut parts = Vec::new();
    for (index, piece) in text.split(form).enumerate() {
        if index > 0 {
            parts.push(Part::Variable(variable.to_owned()));
        }
        if !piece.is_empty() {
            parts.push(Part::Literal(piece.to_owned()));
        }
    }
    parts
}

/// The text of a template's parts. A `$` in front of a variable can't be written, and goes.
fn written(parts: &[Part]) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Literal(text) => out.push_str(&literal(text)),
            Part::Variable(name) => {
                while out.ends_with('$') {
                    out.pop();
                }
                out.push_str(&format!("${{{name}}}"));
            }
        }
    }
    out
}

/// What a variable may be called, out of any name.
pub(super) fn variable_name(hint: &str) -> String {
    let mut name = String::new();
    for letter in hint.chars().take(60) {
        if letter.is_ascii_alphanumeric() {
            name.push(letter);
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = name.trim_end_matches('_');
    let starts_right = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_built_in = crate::plan::BUILT_IN_VARIABLES.contains(&name);
    if starts_right && !is_built_in {
        name.to_owned()
    } else {
        format!("value_{name}").trim_end_matches('_').to_owned()
    }
}

/// A credential's variable: in small letters, since it becomes one of the environment's in
/// capital ones.
pub(super) fn snake_case(hint: &str) -> String {
    let mut spread = String::new();
    for letter in hint.chars() {
        let is_hump = letter.is_ascii_uppercase()
            && spread.ends_with(|before: char| before.is_ascii_lowercase());
        if is_hump {
            spread.push('_');
        }
        spread.push(letter);
    }
    variable_name(&spread).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_one_variable() {
        let mut secrets = Secrets::default();
        assert_eq!(
            secrets.hide_header("authorization", "Bearer abc"),
            "Bearer ${token}"
        );
        assert_eq!(secrets.hide("password", "abc", None), "${token}");
        assert_eq!(secrets.hide("token", "other", None), "${token_2}");
        assert_eq!(secrets.hide("user", "x", None), "${value_user}");
        assert_eq!(
            secrets.hide("accessToken", "third", None),
            "${access_token}"
        );
        assert_eq!(secrets.hide("X-API-Key", "fourth", None), "${x_api_key}");
        assert_eq!(secrets.hide("cookie", "", None), "");
    }

    #[test]
    fn a_variable_of_the_input_is_no_credential_of_ours() {
        let mut secrets = Secrets::default();
        secrets.reserve("TOKEN");
        assert_eq!(secrets.hide("token", "abc", None), "${token_2}");
    }

    #[test]
    fn variables_by_themselves_show_nothing() {
        let mut secrets = Secrets::default();
        for value in ["${T}", "Bearer ${T}", "${T}:${U}", "Basic ${T}"] {
            assert_eq!(secrets.hide_value("password", value), value);
        }
        assert!(secrets.is_marked("T") && secrets.is_marked("U"));
        assert_eq!(secrets.hide_value("password", "abc${T}"), "${password}");
        assert_eq!(
            secrets.hide_header("authorization", "Bearer a${T}"),
            "Bearer ${token}"
        );
    }

    #[test]
    fn what_is_covered_is_no_name_of_a_variable() {
        let mut secrets = Secrets::default();
        let mut text = secrets.hide("password", "password", None);
        secrets.cover(&mut text);
        assert_eq!(text, "${password}");
        let mut text = "cost: $password".to_owned();
        secrets.cover(&mut text);
        assert_eq!(text, "cost: ${password}");
    }

    #[test]
    fn what_is_left_of_a_secret_is_covered_in_either_form() {
        let mut secrets = Secrets::default();
        secrets.hide("token", "s3cr/et", None);
        let mut text = "/a/s3cr%2Fet?x=s3cr/et".to_owned();
        secrets.cover(&mut text);
        assert_eq!(text, "/a/${token}?x=${token}");
    }
}
