//! What is a credential, by its name, and the variables that stand in its place.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{DraftVar, literal};
use crate::encode;

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
}

#[derive(Debug)]
struct Secret {
    variable: String,
    value: String,
    note: Option<String>,
}

impl Secrets {
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
        let is_free = |name: &String| self.known.iter().all(|secret| secret.variable != *name);
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

    /// A credential header's value: the scheme stays, the rest is hidden.
    pub(super) fn hide_header(&mut self, name: &str, value: &str) -> String {
        let (scheme, credential) = value.split_once(' ').unwrap_or(("", value));
        let known = SCHEMES
            .iter()
            .any(|known| known.eq_ignore_ascii_case(scheme));
        if known && !credential.trim().is_empty() {
            let hint = if scheme.eq_ignore_ascii_case("basic") {
                "basic_credentials"
            } else {
                "token"
            };
            let note = scheme
                .eq_ignore_ascii_case("basic")
                .then_some("base64 of user:password");
            let hidden = self.hide(hint, credential.trim(), note);
            return format!("{scheme} {hidden}");
        }
        self.hide(name, value, None)
    }

    /// Hides what is left of known secrets in a template.
    pub(super) fn cover(&self, text: &mut String) {
        for secret in &self.known {
            if secret.value.chars().count() < COVERED_CHARS_MIN {
                continue;
            }
            let mut encoded = String::new();
            encode::push_component(&secret.value, &mut encoded);
            for form in [literal(&secret.value), encoded] {
                if text.contains(&form) {
                    *text = text.replace(&form, &format!("${{{}}}", secret.variable));
                }
            }
        }
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

/// Whether a header carries a credential.
pub(super) fn is_secret_header(name: &str) -> bool {
    matches!(
        name.to_ascii_lowercase().as_str(),
        "authorization" | "cookie" | "proxy-authorization"
    ) || is_secret_name(name)
}

/// Whether a field, parameter or variable of this name holds a credential.
pub(super) fn is_secret_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let words = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "apikey",
        "accesskey",
        "credential",
        "authorization",
        "signature",
        "sessionid",
        "privatekey",
        "otpcode",
    ];
    let whole = [
        "pwd", "pass", "sid", "jwt", "otp", "pin", "auth", "sig", "xauth",
    ];
    // How many tokens a model may write is no credential.
    let counted = [
        "tokens",
        "tokencount",
        "tokenlimit",
        "tokentype",
        "tokenizer",
    ];
    if counted.iter().any(|word| plain.contains(word)) && !plain.contains("password") {
        return false;
    }
    words.iter().any(|word| plain.contains(word)) || whole.contains(&plain.as_str())
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
    fn credentials_are_known_by_their_names() {
        for name in [
            "password",
            "Client-Secret",
            "access_token",
            "X-Api-Key",
            "x-csrf-token",
            "refreshToken",
            "PWD",
            "sessionId",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "max_tokens",
            "token_type",
            "key",
            "id",
            "author",
            "passenger",
            "content",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

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
    fn what_is_left_of_a_secret_is_covered_in_either_form() {
        let mut secrets = Secrets::default();
        secrets.hide("token", "s3cr/et", None);
        let mut text = "/a/s3cr%2Fet?x=s3cr/et".to_owned();
        secrets.cover(&mut text);
        assert_eq!(text, "/a/${token}?x=${token}");
    }
}
