//! Checks the parameters behind a path's question mark.

use std::collections::HashMap;

use serde_json::{Value, json};
use speedate::{Date, DateTime, Time};
use strum::EnumMessage;

use super::{Errors, FieldError, Wrong};

/// Digits that fit into either half of an entry's id, which Redis keeps in 64 bits.
const ENTRY_ID_DIGITS_MAX: usize = 19;

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
        match self.values.contains_key(field) {
            true => self.optional_text(field).unwrap_or_default(), // none after an error
            false => self.missing(field),
        }
    }

    /// An optional text.
    pub fn optional_text(&mut self, field: &str) -> Option<String> {
        let text = self.values.remove(field)?;
        if text.contains('\0') {
            return self.errors.wrong(field, Wrong::nul(), text);
        }
        Some(text)
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
        self.errors.wrong(field, Wrong::no_match(&pattern), text)
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

    #[test]
    fn no_text_has_a_nul() {
        let mut given = query("a", "x\0");
        assert_eq!(given.optional_text("a"), None);
        assert!(given.finish().is_err());
        let mut given = query("a", "x\0");
        given.text("a");
        assert_eq!(given.finish().expect_err("once").len(), 1);
    }
}
