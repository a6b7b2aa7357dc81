//! Checks what a client sent, field by field, and names every field that is wrong.
//!
//! The form of an error (`loc`, `msg`, `type`) is the one that clients of the original service read.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// One field that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// `body` or `query`.
    pub place: &'static str,
    /// The field; empty for the whole place.
    pub field: String,
    /// What is wrong, in words.
    pub message: String,
    /// What is wrong, for programs.
    pub kind: &'static str,
}

impl FieldError {
    fn new(
        place: &'static str,
        field: &str,
        kind: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            place,
            field: field.to_owned(),
            message: message.into(),
            kind,
        }
    }

    /// As it is answered.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let loc: Vec<&str> = [self.place, &self.field]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        json!({ "loc": loc, "msg": self.message, "type": self.kind })
    }
}

/// The errors of one place so far.
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

    fn missing<T: Default>(&mut self, field: &str) -> T {
        self.wrong(field, "missing", "Field required")
    }

    /// Adds an error; the empty value lets the reading go on.
    fn wrong<T: Default>(
        &mut self,
        field: &str,
        kind: &'static str,
        message: impl Into<String>,
    ) -> T {
        let error = FieldError::new(self.place, field, kind, message);
        self.list.push(error);
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
        if bytes.is_empty() {
            return Err(vec![FieldError::new(
                "body",
                "",
                "missing",
                "Field required",
            )]);
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Ok(Self {
                fields,
                errors: Errors::of("body"),
            }),
            Ok(_) => Err(vec![FieldError::new(
                "body",
                "",
                "model_attributes_type",
                "Input should be a valid dictionary or object to extract fields from",
            )]),
            Err(error) => {
                let message = format!("JSON decode error: {error}");
                Err(vec![FieldError::new("body", "", "json_invalid", message)])
            }
        }
    }

    /// A required text. After an error the value is empty, and [`Body::finish`] refuses.
    pub fn text(&mut self, field: &str) -> String {
        match self.fields.remove(field) {
            Some(Value::String(text)) => text,
            Some(_) => self
                .errors
                .wrong(field, "string_type", "Input should be a valid string"),
            None => self.errors.missing(field),
        }
    }

    /// A required choice.
    pub fn choice(&mut self, field: &str, choices: &[&'static str]) -> &'static str {
        let Some(given) = self.fields.remove(field) else {
            return self.errors.missing(field);
        };
        match choices.iter().find(|choice| given.as_str() == Some(choice)) {
            Some(choice) => choice,
            None => {
                let message = format!("Input should be one of '{}'", choices.join("', '"));
                self.errors.wrong(field, "enum", message)
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
        match self.fields.remove(field) {
            None | Some(Value::Null) => None,
            Some(Value::Object(object)) => Some(object),
            Some(_) => self
                .errors
                .wrong(field, "dict_type", "Input should be a valid dictionary"),
        }
    }

    fn is_given(&self, field: &str) -> bool {
        self.fields.get(field).is_some_and(|given| !given.is_null())
    }

    /// A required list of texts.
    pub fn texts(&mut self, field: &str) -> Vec<String> {
        let Some(given) = self.fields.remove(field) else {
            return self.errors.missing(field);
        };
        match serde_json::from_value(given) {
            Ok(texts) => texts,
            Err(_not_a_list_of_texts) => self.errors.wrong(
                field,
                "list_type",
                "Input should be a valid list of strings",
            ),
        }
    }

    /// A required list of at least one text.
    pub fn texts_not_empty(&mut self, field: &str) -> Vec<String> {
        let errors = self.errors.list.len();
        let texts = self.texts(field);
        if texts.is_empty() && self.errors.list.len() == errors {
            return self
                .errors
                .wrong(field, "too_short", "List should have at least 1 item");
        }
        texts
    }

    /// An optional list of nodes: objects with a `node_id`.
    pub fn optional_nodes(&mut self, field: &str) {
        let nodes = match self.fields.remove(field) {
            None | Some(Value::Null) => return,
            Some(Value::Array(nodes)) => nodes,
            Some(_) => {
                return self
                    .errors
                    .wrong(field, "list_type", "Input should be a valid list");
            }
        };
        if !nodes.iter().all(|node| node["node_id"].is_string()) {
            self.errors.wrong(
                field,
                "model_type",
                "Input should be a list of objects with a node_id",
            )
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// Every error so far.
    pub fn finish(self) -> Result<(), Vec<FieldError>> {
        self.errors.finish()
    }
}

/// A form field that must be there.
///
/// # Errors
/// One error if it isn't.
pub fn form_field(given: Option<String>, field: &str) -> Result<String, Vec<FieldError>> {
    given.ok_or_else(|| vec![FieldError::new("body", field, "missing", "Field required")])
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
        self.values
            .remove(field)
            .unwrap_or_else(|| self.errors.missing(field))
    }

    /// An optional text.
    pub fn optional_text(&mut self, field: &str) -> Option<String> {
        self.values.remove(field)
    }

    /// An optional whole number of at least `min`.
    pub fn optional_count(&mut self, field: &str, min: usize) -> Option<usize> {
        let text = self.values.remove(field)?;
        match text.parse() {
            Ok(number) if number >= min => Some(number),
            Ok(_) => {
                let message = format!("Input should be greater than or equal to {min}");
                self.errors.wrong(field, "greater_than_equal", message)
            }
            Err(_not_a_number) => {
                self.errors
                    .wrong(field, "int_parsing", "Input should be a valid integer")
            }
        }
    }

    /// An optional yes or no, as clients of Python services write it.
    pub fn optional_flag(&mut self, field: &str) -> Option<bool> {
        let text = self.values.remove(field)?;
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => Some(true),
            "false" | "0" | "no" | "off" | "f" | "n" => Some(false),
            _ => self
                .errors
                .wrong(field, "bool_parsing", "Input should be a valid boolean"),
        }
    }

    /// An optional id of a stream's entry: `<ms>` or `<ms>-<sequence>`.
    pub fn optional_entry_id(&mut self, field: &str) -> Option<String> {
        let text = self.values.remove(field)?;
        let is_number = |part: &str| part.parse::<u64>().is_ok() && !part.starts_with('+');
        let (ms, sequence) = text.split_once('-').unwrap_or((&text, "0"));
        if is_number(ms) && is_number(sequence) {
            return Some(text);
        }
        self.errors.wrong(
            field,
            "string_pattern_mismatch",
            r"String should match pattern '^\d+(-\d+)?$'",
        )
    }

    /// A required moment: a date, a date and time (taken as UTC), or one with an offset.
    /// In seconds since 1970.
    pub fn moment(&mut self, field: &str) -> f64 {
        let Some(text) = self.values.remove(field) else {
            return self.errors.missing(field);
        };
        match parse_moment(&text) {
            Some(moment_s) => moment_s,
            None => self.errors.wrong(
                field,
                "datetime_from_date_parsing",
                "Input should be a valid datetime or date",
            ),
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// Every error so far.
    pub fn finish(self) -> Result<(), Vec<FieldError>> {
        self.errors.finish()
    }
}

fn parse_moment(text: &str) -> Option<f64> {
    // An unescaped `+` of an offset arrives as a space.
    let text = match text.rsplit_once(' ') {
        Some((head, offset)) if head.contains(':') => format!("{head}+{offset}"),
        _ => text.to_owned(),
    };
    let timestamp = text.parse::<jiff::Timestamp>().or_else(|_no_offset| {
        let civil: jiff::civil::DateTime = text.parse()?;
        jiff::tz::TimeZone::UTC.to_timestamp(civil)
    });
    let duration = timestamp.ok()?.as_duration();
    Some(duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(field: &str, value: &str) -> Query {
        Query::new(HashMap::from([(field.to_owned(), value.to_owned())]))
    }

    #[test]
    fn every_wrong_field_is_named() {
        let mut body =
            Body::parse(br#"{"title":1,"status":"ACTIVE","project_ids":[]}"#).expect("an object");
        body.text("title");
        body.choice("status", &["active", "archived"]);
        body.texts_not_empty("project_ids");
        body.texts("agent_ids");
        let errors = body.finish().expect_err("all are wrong");
        let kinds: Vec<_> = errors.iter().map(|e| (e.field.as_str(), e.kind)).collect();
        assert_eq!(
            kinds,
            [
                ("title", "string_type"),
                ("status", "enum"),
                ("project_ids", "too_short"),
                ("agent_ids", "missing")
            ]
        );
        assert_eq!(
            errors[3].to_json(),
            json!({"loc": ["body", "agent_ids"], "msg": "Field required", "type": "missing"})
        );
    }

    #[test]
    fn bodies_that_are_no_objects_are_refused() {
        assert_eq!(Body::parse(b"").expect_err("empty")[0].kind, "missing");
        assert_eq!(Body::parse(b"{").expect_err("cut")[0].kind, "json_invalid");
        assert_eq!(
            Body::parse(b"[]").expect_err("a list")[0].kind,
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
            ("1970-01-01T01:00:00 01:00", 0.0),
        ] {
            let mut given = query("at", text);
            assert_eq!(given.moment("at"), expected_s, "{text}");
            given.finish().expect(text);
        }
        for text in ["", "yesterday", "2024-13-01", "12:00"] {
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
