//! The functional check of an answer, and what later requests take from it.
//!
//! Runs once per answer on the load generator: a check of the status alone reads no
//! JSON, and the body is parsed once at most.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::plan::{Expect, JsonTest, Quotes, Request};
use crate::scope::Scope;

/// Headers whose values are credentials: no message shows them.
const CREDENTIAL_HEADERS: [&str; 4] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "set-cookie",
];

/// How much of an answer a message may quote, in characters.
const EXCERPT_CHARS_MAX: usize = 120;

/// Variables that an answer has brought.
pub type Values = BTreeMap<String, Json>;

/// Which part of the functional check failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckKind {
    /// The status is none of the accepted.
    Status,
    /// A header or the shape of the body is wrong.
    Check,
    /// The body isn't JSON.
    Decode,
}

/// An answer that failed its functional check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CheckFailure {
    /// Which part.
    pub kind: CheckKind,
    /// Short, without secrets.
    pub message: String,
}

impl Expect {
    /// Whether JSON must be read to check an answer.
    pub fn reads_json(&self) -> bool {
        !self.json.is_empty()
    }

    /// Checks status, headers and the JSON shape of one whole answer, for one who knows no user's
    /// own secrets: where there may be some, the answer isn't quoted.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check<'h>(
        &self,
        status: u16,
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
        body: &[u8],
    ) -> Result<(), CheckFailure> {
        self.check_head(status, headers, body)?;
        if self.reads_json() {
            let document = self.decode(None, body, "body")?;
            self.run_tests(None, &self.json, &document, body)?;
        }
        Ok(())
    }

    /// Checks status and headers alone, as a stream needs it before its first item.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check_head<'h>(
        &self,
        status: u16,
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
        body: &[u8],
    ) -> Result<(), CheckFailure> {
        self.head(None, status, headers, body)
    }

    fn head<'h>(
        &self,
        scope: Option<&Scope>,
        status: u16,
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
        body: &[u8],
    ) -> Result<(), CheckFailure> {
        if !self.status.contains(&status) {
            let expected = status_text(&self.status);
            let what = format!("status {status}, expected {expected}");
            return Err(self.failure(scope, CheckKind::Status, what, body));
        }
        if self.headers.is_empty() {
            return Ok(());
        }
        let mut missing: Vec<(&String, &String)> = self.headers.iter().collect();
        let mut seen = BTreeMap::new();
        for (name, value) in headers {
            missing.retain(|(wanted, glob)| {
                let same = wanted.eq_ignore_ascii_case(name);
                if same {
                    seen.insert(wanted.as_str(), String::from_utf8_lossy(value).into_owned());
                }
                !(same && glob_matches(glob.as_bytes(), value))
            });
        }
        let Some((name, glob)) = missing.first() else {
            return Ok(());
        };
        let is_credential = CREDENTIAL_HEADERS.contains(&name.as_str());
        let found = match seen.get(name.as_str()) {
            Some(value) => match self.shown(scope, value).filter(|_| !is_credential) {
                Some(value) => format!("is `{value}`"),
                None => "is something else".to_owned(),
            },
            None => "is missing".to_owned(),
        };
        let what = format!("header `{name}` {found}, expected `{glob}`");
        Err(self.failure(scope, CheckKind::Check, what, &[]))
    }

    pub(crate) fn run_tests(
        &self,
        scope: Option<&Scope>,
        tests: &BTreeMap<String, JsonTest>,
        document: &Json,
        body: &[u8],
    ) -> Result<(), CheckFailure> {
        let failed = tests
            .iter()
            .find(|(pointer, test)| !test.passes(document.pointer(pointer)));
        let Some((pointer, test)) = failed else {
            return Ok(());
        };
        let found = document.pointer(pointer).map_or("is missing", type_name);
        let what = format!("`{pointer}` {found}, expected {test}");
        Err(self.failure(scope, CheckKind::Check, what, body))
    }

    /// Reads `what` the bytes are, a body or an item, as JSON.
    pub(crate) fn decode(
        &self,
        scope: Option<&Scope>,
        bytes: &[u8],
        what: &str,
    ) -> Result<Json, CheckFailure> {
        serde_json::from_slice(bytes).map_err(|error| self.not_json(scope, bytes, what, &error))
    }

    pub(crate) fn not_json(
        &self,
        scope: Option<&Scope>,
        bytes: &[u8],
        what: &str,
        error: &serde_json::Error,
    ) -> CheckFailure {
        let wrong = if bytes.is_empty() {
            format!("the {what} is empty, expected JSON")
        } else {
            format!("the {what} is not JSON ({error})")
        };
        self.failure(scope, CheckKind::Decode, wrong, bytes)
    }

    pub(crate) fn failure(
        &self,
        scope: Option<&Scope>,
        kind: CheckKind,
        what: String,
        body: &[u8],
    ) -> CheckFailure {
        let excerpt = if body.is_empty() {
            None
        } else {
            self.shown(scope, &String::from_utf8_lossy(body))
        };
        let message = match excerpt {
            Some(excerpt) => format!("{what}; answer: {excerpt}"),
            None => what,
        };
        CheckFailure { kind, message }
    }

    /// A text of the answer without secrets and control characters, cut to a line's length;
    /// `None` where it may hold a secret that nobody knows here.
    fn shown(&self, scope: Option<&Scope>, text: &str) -> Option<String> {
        // The whole text is redacted before it is cut: a cut secret would slip through.
        let text = match (self.quotes, scope) {
            (Quotes::Always, _) => self.redaction.apply(text),
            (Quotes::WithScope, Some(scope)) => scope.redact(text),
            (Quotes::WithScope, None) | (Quotes::Never, _) => return None,
        };
        let mut characters = text.chars();
        let mut shown: String = characters
            .by_ref()
            .take(EXCERPT_CHARS_MAX)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if characters.next().is_some() {
            shown.push('…');
        }
        Some(shown)
    }
}

impl Request {
    /// Checks an answer and takes this request's variables from it, parsing once. What stands in
    /// a stream's items is taken while they are read: see [`Request::take_item`].
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn accept<'h>(
        &self,
        scope: &Scope,
        status: u16,
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
        body: &[u8],
    ) -> Result<Values, CheckFailure> {
        let scope = Some(scope);
        let mut values = Values::new();
        if self.takes_headers() {
            let headers: Vec<(&str, &[u8])> = headers.into_iter().collect();
            let again = headers.iter().copied();
            self.expect.head(scope, status, again, body)?;
            self.take_headers(&headers, &mut values)?;
        } else {
            self.expect.head(scope, status, headers, body)?;
        }
        if self.reads_json() {
            let document = self.expect.decode(scope, body, "body")?;
            let tests = &self.expect.json;
            self.expect.run_tests(scope, tests, &document, body)?;
            self.take_json(scope, &document, body, &mut values)?;
        }
        self.take_texts(scope, body, &mut values)?;
        Ok(values)
    }
}

impl JsonTest {
    /// Whether a value (or its absence) passes.
    pub fn passes(&self, value: Option<&Json>) -> bool {
        match (self, value) {
            (Self::Optional(_), None | Some(Json::Null)) => true,
            (Self::Optional(test), value) => test.passes(value),
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::NonEmpty, Some(Json::String(text))) => !text.is_empty(),
            (Self::NonEmpty, Some(Json::Array(items))) => !items.is_empty(),
            (Self::NonEmpty, Some(_)) => false,
            (Self::Equals(wanted), Some(value)) => equal(wanted, value),
            (Self::Type(name), Some(value)) => is_of_type(value, name),
        }
    }
}

impl std::fmt::Display for JsonTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("any value"),
            Self::Type(name) => f.write_str(name),
            Self::NonEmpty => f.write_str("a non-empty string or array"),
            Self::Equals(value) => write!(f, "{value}"),
            Self::Optional(test) => write!(f, "{test}, null or nothing"),
        }
    }
}

/// Equality in which `1` and `1.0` are the same number, at any depth.
fn equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

fn is_of_type(value: &Json, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "is null",
        Json::Bool(_) => "is a boolean",
        Json::Number(_) => "is a number",
        Json::String(text) if text.is_empty() => "is an empty string",
        Json::String(_) => "is a string",
        Json::Array(items) if items.is_empty() => "is an empty array",
        Json::Array(_) => "is an array",
        Json::Object(_) => "is an object",
    }
}

fn status_text(accepted: &[u16]) -> String {
    if accepted.len() > 8 {
        return match (accepted.first(), accepted.last()) {
            (Some(first), Some(last)) => format!("{first}–{last}"),
            _ => "none".to_owned(),
        };
    }
    let texts: Vec<String> = accepted.iter().map(u16::to_string).collect();
    texts.join(" or ")
}

/// Whether a value matches a pattern in which `*` is any run of bytes; letters match
/// in either case, since media types do.
fn glob_matches(glob: &[u8], value: &[u8]) -> bool {
    let (mut at_glob, mut at_value) = (0, 0);
    // Where to go back to: behind the last star, and how much it has taken.
    let mut star: Option<(usize, usize)> = None;
    while at_value < value.len() {
        match glob.get(at_glob) {
            Some(b'*') => {
                at_glob += 1;
                star = Some((at_glob, at_value));
            }
            Some(byte) if byte.eq_ignore_ascii_case(&value[at_value]) => {
                at_glob += 1;
                at_value += 1;
            }
            _ => match star {
                Some((behind, taken)) => {
                    at_glob = behind;
                    at_value = taken + 1;
                    star = Some((behind, at_value));
                }
                None => return false,
            },
        }
    }
    glob[at_glob..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let matches = |glob: &str, value: &str| glob_matches(glob.as_bytes(), value.as_bytes());
        assert!(matches(
            "text/event-stream*",
            "text/event-stream; charset=utf-8"
        ));
        assert!(matches("*", ""));
        assert!(matches("a*b*c", "A-xb-b-c"));
        assert!(matches("", ""));
        assert!(!matches("", "a"));
        assert!(!matches("a*b", "ac"));
        assert!(!matches("text/plain", "text/plain;x"));
    }

    #[test]
    fn json_tests() {
        let document = serde_json::json!({"s": "", "n": 1, "f": 1.5, "l": [1], "z": null});
        let passes = |pointer: &str, test: JsonTest| test.passes(document.pointer(pointer));
        let of_type = |name: &str| JsonTest::Type(name.into());
        assert!(passes("/s", of_type("string")));
        assert!(!passes("/s", JsonTest::NonEmpty));
        assert!(passes("/l", JsonTest::NonEmpty));
        assert!(passes("/n", of_type("integer")) && !passes("/f", of_type("integer")));
        assert!(passes("/n", JsonTest::Equals(serde_json::json!(1.0))));
        assert!(passes("/z", JsonTest::Any) && !passes("/none", JsonTest::Any));
        let optional = |name: &str| JsonTest::Optional(Box::new(of_type(name)));
        assert!(passes("/z", optional("string")) && passes("/none", optional("string")));
        assert!(passes("/s", optional("string")) && !passes("/n", optional("string")));
    }

    proptest::proptest! {
        #[test]
        fn a_glob_of_stars_around_a_part_matches_what_contains_it(
            before in "[ab]{0,5}", part in "[ab]{0,5}", after in "[ab]{0,5}",
        ) {
            let glob = format!("*{part}*");
            let value = format!("{before}{part}{after}");
            proptest::prop_assert!(glob_matches(glob.as_bytes(), value.as_bytes()));
        }
    }
}
