//! Checks what a client sent, field by field, and names every field that is wrong.
//!
//! The errors are the ones that FastAPI and pydantic 2 give, in their words and their order: the
//! original is a FastAPI service, and `reference-service/fastapi` is held against this one.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use speedate::{Date, DateTime, Time};
use strum::EnumMessage;

/// Digits that fit into either half of an entry's id, which Redis keeps in 64 bits.
const ENTRY_ID_DIGITS_MAX: usize = 19;

/// One field that is missing or wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// `body` or `query`, then the field, then the place in its list.
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
            Some(Value::String(text)) => text.clone(),
            Some(other) => self.errors.wrong(field, Wrong::no_text(), other.clone()),
            None => self.missing(field),
        }
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

    /// A list of texts that may be left out or null.
    pub fn optional_texts(&mut self, field: &str) -> Option<Vec<String>> {
        self.is_given(field).then(|| self.texts(field))
    }

    /// An object that may be left out or null.
    pub fn optional_object(&mut self, field: &str) -> Option<Map<String, Value>> {
        match self.fields.get(field) {
            None | Some(Value::Null) => None,
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
            if let Value::String(text) = item {
                texts.push(text.clone());
            } else {
                let location = vec![json!("body"), json!(field), json!(index)];
                let error = Wrong::no_text().at(location, item.clone());
                self.errors.list.push(error);
            }
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
/// One error if it isn't.
pub fn form_field(given: Option<String>, field: &str) -> Result<String, Vec<FieldError>> {
    let location = || vec![json!("body"), json!(field)];
    given
        .filter(|text| !text.is_empty())
        .ok_or_else(|| vec![Wrong::missing().at(location(), Value::Null)])
}

/// Query parameters, taken one by one; errors gather until [`Query::finish`].
#[derive(Debug)]
pub struct Query {
    values: HashMap<String, String>,
    errors: Errors,
}

impl Query {
    /// Starts with decoded parameters.
    #[must_use]
    pub fn new(values: HashMap<String, String>) -> Self {
        Self {
            values,
            errors: Errors::of("query"),
        }
    }

    /// A required text.
    pub fn text(&mut self, field: &str) -> String {
        match self.values.remove(field) {
            Some(text) => text,
            None => self.missing(field),
        }
    }

    /// An optional text.
    pub fn optional_text(&mut self, field: &str) -> Option<String> {
        self.values.remove(field)
    }

    /// An optional whole number of at least `min`.
    pub fn optional_count(&mut self, field: &str, min: usize) -> Option<usize> {
        let text = self.values.remove(field)?;
        let wrong = match text.parse::<i128>().map(usize::try_from) {
            Ok(Ok(number)) if number >= min => return Some(number),
            // More than there can be of anything.
            Ok(Err(_)) if !text.starts_with('-') => return Some(usize::MAX),
            Ok(_) => {
                let message = format!("Input should be greater than or equal to {min}");
                Wrong::new("greater_than_equal", message).because(json!({ "ge": min }))
            }
            Err(_not_a_number) => {
                let message =
                    "Input should be a valid integer, unable to parse string as an integer";
                Wrong::new("int_parsing", message)
            }
        };
        self.errors.wrong(field, wrong, text)
    }

    /// An optional yes or no, as clients of Python services write it.
    pub fn optional_flag(&mut self, field: &str) -> Option<bool> {
        let text = self.values.remove(field)?;
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => Some(true),
            "false" | "0" | "no" | "off" | "f" | "n" => Some(false),
            _ => {
                let message = "Input should be a valid boolean, unable to interpret input";
                let wrong = Wrong::new("bool_parsing", message);
                self.errors.wrong(field, wrong, text)
            }
        }
    }

    /// An optional id of a stream's entry: `<ms>` or `<ms>-<sequence>`.
    pub fn optional_entry_id(&mut self, field: &str) -> Option<String> {
        let text = self.values.remove(field)?;
        let is_number = |part: &str| {
            (1..=ENTRY_ID_DIGITS_MAX).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let (ms, sequence) = text.split_once('-').unwrap_or((&text, "0"));
        if is_number(ms) && is_number(sequence) {
            return Some(text);
        }
        let number = format!("[0-9]{{1,{ENTRY_ID_DIGITS_MAX}}}");
        let pattern = format!("^{number}(-{number})?$");
        let message = format!("String should match pattern '{pattern}'");
        let wrong =
            Wrong::new("string_pattern_mismatch", message).because(json!({ "pattern": pattern }));
        self.errors.wrong(field, wrong, text)
    }

    /// A required moment: a date, a date and time (taken as UTC), one with an offset, or a number
    /// of seconds. In seconds since 1970.
    pub fn moment(&mut self, field: &str) -> f64 {
        let Some(text) = self.values.remove(field) else {
            return self.missing(field);
        };
        match parse_moment(&text) {
            Ok(moment_s) => moment_s,
            Err(error) => {
                let reason = error.get_documentation().unwrap_or("invalid");
                let message = format!("Input should be a valid datetime or date, {reason}");
                let wrong = Wrong::new("datetime_from_date_parsing", message)
                    .because(json!({ "error": reason }));
                self.errors.wrong(field, wrong, text)
            }
        }
    }

    fn missing<T: Default>(&mut self, field: &str) -> T {
        self.errors.wrong(field, Wrong::missing(), Value::Null)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// Every error so far.
    pub fn finish(self) -> Result<(), Vec<FieldError>> {
        self.errors.finish()
    }
}

/// Reads a moment as pydantic does; if it is neither, the error says why it isn't a date.
fn parse_moment(text: &str) -> Result<f64, speedate::ParseError> {
    let moment = match DateTime::parse_str(text) {
        Ok(moment) => moment,
        Err(_no_time) => DateTime {
            date: Date::parse_str(text)?,
            time: MIDNIGHT,
        },
    };
    // Exact: years have four digits.
    Ok(moment.timestamp_tz() as f64 + f64::from(moment.time.microsecond) / 1e6)
}

const MIDNIGHT: Time = Time {
    hour: 0,
    minute: 0,
    second: 0,
    microsecond: 0,
    tz_offset: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn query(field: &str, value: &str) -> Query {
        Query::new(HashMap::from([(field.to_owned(), value.to_owned())]))
    }

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
            let mut given = query("hidden", "perhaps");
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
    fn moments_come_with_and_without_time_and_offset() {
        for (text, expected_s) in [
            ("1970-01-02", 86_400.0),
            ("1970-01-01T00:00:01", 1.0),
            ("1970-01-01 00:00:01", 1.0),
            ("1970-01-01T00:00:01.5Z", 1.5),
            ("1970-01-01T01:00:00+01:00", 0.0),
            ("1969-12-31T23:59:59.5Z", -0.5),
            ("86400", 86_400.0),
        ] {
            let mut given = query("at", text);
            assert_eq!(given.moment("at"), expected_s, "{text}");
            given.finish().expect(text);
        }
        for text in [
            "",
            "yesterday",
            "2024-13-01",
            "12:00",
            "2024-01-01T01:00:00 01:00",
        ] {
            let mut given = query("at", text);
            given.moment("at");
            assert!(given.finish().is_err(), "{text}");
        }
    }

    #[test]
    fn entry_ids_are_one_number_or_two() {
        for good in ["0", "0-0", "1700000000000-12"] {
            let mut given = query("cursor", good);
            assert_eq!(given.optional_entry_id("cursor").as_deref(), Some(good));
            given.finish().expect(good);
        }
        for bad in [
            "",
            "-",
            "1-",
            "-1",
            "+1",
            "1-+2",
            "$",
            "1-2-3",
            "99999999999999999999",
        ] {
            let mut given = query("cursor", bad);
            given.optional_entry_id("cursor");
            assert!(given.finish().is_err(), "{bad}");
        }
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
    fn counts_and_flags() {
        assert_eq!(query("limit", "5").optional_count("limit", 1), Some(5));
        assert_eq!(query("hidden", "True").optional_flag("hidden"), Some(true));
        for (field, value) in [("limit", "0"), ("limit", "-1"), ("limit", "x")] {
            let mut given = query(field, value);
            given.optional_count(field, 1);
            assert!(given.finish().is_err(), "{value}");
        }
        let mut given = query("hidden", "perhaps");
        given.optional_flag("hidden");
        assert!(given.finish().is_err());
    }
}
