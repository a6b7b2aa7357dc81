//! Checks what a client sent, field by field, and names every field that is wrong.
//!
//! The errors are the ones that FastAPI and pydantic 2 give, in their words and their order: the
//! original is a FastAPI service, and `reference-service/fastapi` is held against this one.

use serde_json::{Map, Value, json};

pub use self::query::Query;

mod query;

/// What no text may have: PostgreSQL keeps none with a NUL in it.
const NO_NUL: &str = r"^[^\x00]*$";

/// What a text that says something has: a character that isn't space.
const NOT_BLANK: &str = r"\S";

/// One field that is missing or wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// `body`, `query` or `path`, then the field, then the place in its list.
    location: Vec<Value>,
    /// What is wrong, for programs.
    kind: &'static str,
    /// What is wrong, in words.
    message: String,
    /// What was given.
    input: Value,
    /// What the words are made of.
    context: Option<Value>,
}

impl FieldError {
    /// What is wrong, for programs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// As it is answered.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut error = json!({
            "type": self.kind,
            "loc": self.location,
            "msg": self.message,
            "input": self.input,
        });
        if let Some(context) = &self.context {
            error["ctx"] = context.clone();
        }
        error
    }
}

/// What can be wrong with a value.
#[derive(Debug)]
struct Wrong {
    kind: &'static str,
    message: String,
    context: Option<Value>,
}

impl Wrong {
    fn new(kind: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            kind,
            message,
            context: None,
        }
    }

    fn because(mut self, context: Value) -> Self {
        self.context = Some(context);
        self
    }

    fn missing() -> Self {
        Self::new("missing", "Field required")
    }

    fn no_object() -> Self {
        let message = "Input should be a valid dictionary or object to extract fields from";
        Self::new("model_attributes_type", message)
    }

    fn no_text() -> Self {
        Self::new("string_type", "Input should be a valid string")
    }

    fn no_match(pattern: &str) -> Self {
        let message = format!("String should match pattern '{pattern}'");
        Self::new("string_pattern_mismatch", message).because(json!({ "pattern": pattern }))
    }

    fn nul() -> Self {
        Self::no_match(NO_NUL)
    }

    /// At a place, with what was given there.
    fn at(self, location: Vec<Value>, input: Value) -> FieldError {
        FieldError {
            location,
            kind: self.kind,
            message: self.message,
            input,
            context: self.context,
        }
    }
}

/// The errors of one place so far, after those of the places before it.
#[derive(Debug)]
struct Errors {
    place: &'static str,
    list: Vec<FieldError>,
}

impl Errors {
    fn of(place: &'static str) -> Self {
        let list = Vec::new();
        Self { place, list }
    }

    /// Adds an error; the empty value lets the reading go on.
    fn wrong<T: Default>(&mut self, field: &str, wrong: Wrong, input: impl Into<Value>) -> T {
        let location = vec![json!(self.place), json!(field)];
        self.list.push(wrong.at(location, input.into()));
        T::default()
    }

    fn finish(self) -> Result<(), Vec<FieldError>> {
        if self.list.is_empty() {
            Ok(())
        } else {
            Err(self.list)
        }
    }
}

/// A JSON object whose fields are taken one by one; errors gather until [`Body::finish`].
#[derive(Debug)]
pub struct Body {
    fields: Map<String, Value>,
    errors: Errors,
}

impl Body {
    /// Reads an object.
    ///
    /// # Errors
    /// One error if the text isn't JSON, or is not an object.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<FieldError>> {
        let whole = |wrong: Wrong, input| Err(vec![wrong.at(vec![json!("body")], input)]);
        if bytes.is_empty() {
            return whole(Wrong::missing(), Value::Null);
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Ok(Self {
                fields,
                errors: Errors::of("body"),
            }),
            Ok(other) => whole(Wrong::no_object(), other),
            Err(error) => Err(vec![not_json(bytes, &error)]),
        }
    }

    /// The errors of a text that isn't sent as JSON.
    #[must_use]
    pub fn not_an_object(text: &str) -> Vec<FieldError> {
        vec![Wrong::no_object().at(vec![json!("body")], json!(text))]
    }

    /// A required text. After an error the value is empty, and [`Body::finish`] refuses.
    pub fn text(&mut self, field: &str) -> String {
        match self.fields.get(field) {
            Some(Value::String(text)) if text.contains('\0') => {
                self.errors.wrong(field, Wrong::nul(), text.clone())
            }
            Some(Value::String(text)) => text.clone(),
            Some(other) => self.errors.wrong(field, Wrong::no_text(), other.clone()),
            None => self.missing(field),
        }
    }

    /// A required text of more than space.
    pub fn text_not_blank(&mut self, field: &str) -> String {
        let errors = self.errors.list.len();
        let text = self.text(field);
        if text.trim().is_empty() && self.errors.list.len() == errors {
            return self.errors.wrong(field, Wrong::no_match(NOT_BLANK), text);
        }
        text
    }

    /// A required choice of two or more.
    pub fn choice(&mut self, field: &str, choices: &[&'static str]) -> &'static str {
        let Some(given) = self.fields.get(field) else {
            return self.missing(field);
        };
        match choices.iter().find(|choice| given.as_str() == Some(choice)) {
            Some(choice) => choice,
            None => {
                let expected = expected(choices);
                let wrong = Wrong::new("enum", format!("Input should be {expected}"))
                    .because(json!({ "expected": expected }));
                self.errors.wrong(field, wrong, given.clone())
            }
        }
    }

    /// A choice that may be left out or null.
    pub fn optional_choice(
        &mut self,
        field: &str,
        choices: &[&'static str],
    ) -> Option<&'static str> {
        self.is_given(field).then(|| self.choice(field, choices))
    }

    /// A text that may be left out or null.
    pub fn optional_text(&mut self, field: &str) -> Option<String> {
        self.is_given(field).then(|| self.text(field))
    }

    /// A list of texts that may be left out or null.
    pub fn optional_texts(&mut self, field: &str) -> Option<Vec<String>> {
        self.is_given(field).then(|| self.texts(field))
    }

    /// An object that may be left out or null.
    pub fn optional_object(&mut self, field: &str) -> Option<Map<String, Value>> {
        match self.fields.get(field) {
            None | Some(Value::Null) => None,
            Some(object @ Value::Object(_)) if has_nul(object) => {
                self.errors.wrong(field, Wrong::nul(), object.clone())
            }
            Some(Value::Object(object)) => Some(object.clone()),
            Some(other) => {
                let wrong = Wrong::new("dict_type", "Input should be a valid dictionary");
                self.errors.wrong(field, wrong, other.clone())
            }
        }
    }

    fn is_given(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(|given| !given.is_null())
    }

    /// A required list of texts.
    pub fn texts(&mut self, field: &str) -> Vec<String> {
        let given = match self.fields.get(field) {
            Some(Value::Array(given)) => given,
            Some(other) => {
                let wrong = Wrong::new("list_type", "Input should be a valid list");
                return self.errors.wrong(field, wrong, other.clone());
            }
            None => return self.missing(field),
        };
        let mut texts = Vec::with_capacity(given.len());
        for (index, item) in given.iter().enumerate() {
            let wrong = match item {
                Value::String(text) if text.contains('\0') => Wrong::nul(),
                Value::String(text) => {
                    texts.push(text.clone());
                    continue;
                }
                _ => Wrong::no_text(),
            };
            let location = vec![json!("body"), json!(field), json!(index)];
            self.errors.list.push(wrong.at(location, item.clone()));
        }
        texts
    }

    /// A required list of at least one text.
    pub fn texts_not_empty(&mut self, field: &str) -> Vec<String> {
        let errors = self.errors.list.len();
        let texts = self.texts(field);
        if texts.is_empty() && self.errors.list.len() == errors {
            let message = "List should have at least 1 item after validation, not 0";
            let wrong = Wrong::new("too_short", message)
                .because(json!({ "field_type": "List", "min_length": 1, "actual_length": 0 }));
            return self.errors.wrong(field, wrong, json!([]));
        }
        texts
    }

    /// An optional list of nodes: objects with a `node_id`.
    pub fn optional_nodes(&mut self, field: &str) {
        let nodes = match self.fields.get(field) {
            None | Some(Value::Null) => return,
            Some(Value::Array(nodes)) => nodes,
            Some(other) => {
                let wrong = Wrong::new("list_type", "Input should be a valid list");
                return self.errors.wrong(field, wrong, other.clone());
            }
        };
        for (index, node) in nodes.iter().enumerate() {
            let mut location = vec![json!("body"), json!(field), json!(index)];
            let (wrong, input) = match node {
                Value::Object(fields) => {
                    location.push(json!("node_id"));
                    match fields.get("node_id") {
                        Some(Value::String(_)) => continue,
                        Some(other) => (Wrong::no_text(), other),
                        None => (Wrong::missing(), node),
                    }
                }
                other => (Wrong::no_object(), other),
            };
            self.errors.list.push(wrong.at(location, input.clone()));
        }
    }

    /// What was given instead of the field is the whole object.
    fn missing<T: Default>(&mut self, field: &str) -> T {
        let given = Value::Object(self.fields.clone());
        self.errors.wrong(field, Wrong::missing(), given)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// Every error so far.
    pub fn finish(self) -> Result<(), Vec<FieldError>> {
        self.errors.finish()
    }
}

/// What stands where JSON was expected; the place is counted in bytes from the body's start.
fn not_json(bytes: &[u8], error: &serde_json::Error) -> FieldError {
    let lines_before = bytes.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines_before
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    let place = json!(before + error.column());
    Wrong::new("json_invalid", "JSON decode error")
        .because(json!({ "error": error.to_string() }))
        .at(vec![json!("body"), place], json!({}))
}

/// `'a', 'b' or 'c'`
fn expected(choices: &[&str]) -> String {
    let quoted: Vec<String> = choices.iter().map(|choice| format!("'{choice}'")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}

/// What was read from two places of a request.
///
/// # Errors
/// The errors of both, in order. But text that isn't JSON is told before anything else is looked at.
pub fn both<A, B>(
    one: Result<A, Vec<FieldError>>,
    other: Result<B, Vec<FieldError>>,
) -> Result<(A, B), Vec<FieldError>> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Ok(_), Err(errors)) | (Err(errors), Ok(_)) => Err(errors),
        (Err(_), Err(other)) if other.iter().any(|error| error.kind == "json_invalid") => {
            Err(other)
        }
        (Err(mut errors), Err(other)) => {
            errors.extend(other);
            Err(errors)
        }
    }
}

/// A form field that must be there; an empty one isn't.
///
/// # Errors
/// One error if it isn't, or has a NUL in it.
pub fn form_field(given: Option<String>, field: &str) -> Result<String, Vec<FieldError>> {
    let wrong = |wrong: Wrong, input| Err(vec![wrong.at(vec![json!("body"), json!(field)], input)]);
    match given.filter(|text| !text.is_empty()) {
        None => wrong(Wrong::missing(), Value::Null),
        Some(text) if text.contains('\0') => wrong(Wrong::nul(), json!(text)),
        Some(text) => Ok(text),
    }
}

/// Ids in a path, with their names.
///
/// # Errors
/// One error for each that has a NUL in it.
pub fn path_ids<'a>(
    ids: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), Vec<FieldError>> {
    let mut errors = Errors::of("path");
    for (name, id) in ids {
        if id.contains('\0') {
            errors.wrong::<()>(name, Wrong::nul(), id);
        }
    }
    errors.finish()
}

/// Whether a text in it, or a field's name, has a NUL in it.
#[must_use]
pub fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_field_is_named() {
        let mut body =
            Body::parse(br#"{"title":1,"status":"ACTIVE","project_ids":[],"tags":["a",2]}"#)
                .expect("an object");
        body.text("title");
        body.choice("status", &["active", "archived"]);
        body.texts_not_empty("project_ids");
        body.texts("agent_ids");
        body.texts("tags");
        let errors = body.finish().expect_err("all are wrong");
        let told: Vec<Value> = errors.iter().map(FieldError::to_json).collect();
        let given = json!({ "title": 1, "status": "ACTIVE", "project_ids": [], "tags": ["a", 2] });
        let expected = "'active' or 'archived'";
        let too_short = "List should have at least 1 item after validation, not 0";
        assert_eq!(
            json!(told),
            json!([
                {"type": "string_type", "loc": ["body", "title"], "msg": "Input should be a valid string", "input": 1},
                {"type": "enum", "loc": ["body", "status"], "msg": "Input should be 'active' or 'archived'",
                 "input": "ACTIVE", "ctx": { "expected": expected }},
                {"type": "too_short", "loc": ["body", "project_ids"], "msg": too_short, "input": [],
                 "ctx": {"field_type": "List", "min_length": 1, "actual_length": 0}},
                {"type": "missing", "loc": ["body", "agent_ids"], "msg": "Field required", "input": given},
                {"type": "string_type", "loc": ["body", "tags", 1], "msg": "Input should be a valid string", "input": 2},
            ])
        );
    }

    #[test]
    fn what_is_no_json_is_placed() {
        let error = Body::parse(b"{\n  1}").expect_err("no name")[0].to_json();
        assert_eq!(error["loc"], json!(["body", 5]), "{error}");
    }

    #[test]
    fn errors_of_query_and_body_come_together() {
        let errors = |body: &[u8]| {
            let hidden = ("hidden".to_owned(), "perhaps".to_owned());
            let mut given = Query::new([hidden].into());
            given.optional_flag("hidden");
            let read = both(given.finish(), Body::parse(body));
            let errors = read.expect_err("hidden is wrong");
            errors.iter().map(FieldError::kind).collect::<Vec<_>>()
        };
        assert_eq!(errors(b"{}"), ["bool_parsing"]);
        assert_eq!(errors(b"[]"), ["bool_parsing", "model_attributes_type"]);
        assert_eq!(errors(b"{"), ["json_invalid"]);
    }

    #[test]
    fn bodies_that_are_no_objects_are_refused() {
        assert_eq!(Body::parse(b"").expect_err("empty")[0].kind(), "missing");
        assert_eq!(
            Body::parse(b"{").expect_err("cut")[0].kind(),
            "json_invalid"
        );
        assert_eq!(
            Body::parse(b"[]").expect_err("a list")[0].kind(),
            "model_attributes_type"
        );
    }

    #[test]
    fn nodes_are_objects_with_an_id() {
        let check = |text: &str| {
            let mut body = Body::parse(text.as_bytes()).expect("an object");
            body.optional_nodes("node_ids");
            body.finish()
        };
        for good in [
            "{}",
            r#"{"node_ids":null}"#,
            r#"{"node_ids":[]}"#,
            r#"{"node_ids":[{"node_id":"n","name":"f"}]}"#,
        ] {
            check(good).expect(good);
        }
        for bad in [
            r#"{"node_ids":"n"}"#,
            r#"{"node_ids":["n"]}"#,
            r#"{"node_ids":[{"name":"f"}]}"#,
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_text_has_a_nul() {
        let mut body = Body::parse(
            br#"{"a":"\u0000","b":["x","y\u0000"],"c":{"d":[{"\u0000":1}]},"e":"\\u0000"}"#,
        )
        .expect("an object");
        body.text("a");
        body.optional_texts("b");
        body.optional_object("c");
        assert_eq!(body.text("e"), r"\u0000", "that is no NUL");
        let mut errors = body.finish().expect_err("three are wrong");
        errors.extend(form_field(Some("x\0".to_owned()), "f").expect_err("a NUL"));
        let ids = [("id", "c-1"), ("session_id", "s\0")];
        errors.extend(path_ids(ids).expect_err("the second is wrong"));
        let places: Vec<String> = errors
            .iter()
            .map(|error| {
                assert_eq!(error.kind(), "string_pattern_mismatch");
                error.to_json()["loc"].to_string()
            })
            .collect();
        assert_eq!(
            places,
            [
                r#"["body","a"]"#,
                r#"["body","b",1]"#,
                r#"["body","c"]"#,
                r#"["body","f"]"#,
                r#"["path","session_id"]"#,
            ]
        );
    }
}
