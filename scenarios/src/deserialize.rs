//! Serde over a TOML tree that keeps the place of everything, with errors of its own:
//! the stock deserializer's come as finished sentences, and ours name the nearest
//! right key and what to do.

use std::ops::Range;

use serde::de::{self, Deserializer, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeString, DeValue};

use crate::error::nearest;

/// What is wrong, without the file's name.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) span: Option<Range<usize>>,
    pub(crate) what: String,
    pub(crate) fix: String,
}

impl Problem {
    fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            span: None,
            what: what.into(),
            fix: fix.into(),
        }
    }

    /// Sets the place, unless something further inside did.
    fn at(mut self, span: Range<usize>) -> Self {
        self.span.get_or_insert(span);
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.what, self.fix)
    }
}

impl std::error::Error for Problem {}

impl de::Error for Problem {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::new(
            message.to_string(),
            "see the format's example (`unstall scenarios show`)",
        )
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let expected = friendly(&expected.to_string());
        Self::new(
            format!("found {}, expected {expected}", describe(found)),
            format!("write {expected} instead"),
        )
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self::new(
            format!(
                "`{found}` is not known here, expected one of {}",
                listed(expected)
            ),
            meant(found, expected),
        )
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        Self::new(
            format!(
                "unknown key `{found}`, expected one of {}",
                listed(expected)
            ),
            meant(found, expected),
        )
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(
            format!("`{field}` is missing"),
            format!("add `{field} = …` to this table"),
        )
    }
}

/// The fix for a name out of a list that the message has given already.
fn meant(found: &str, expected: &[&str]) -> String {
    match nearest(found, expected.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "write one of these, or take it out".to_owned(),
    }
}

fn listed(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn describe(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Map => "a table".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Str(text) => {
            let shown: String = text.chars().take(60).collect();
            format!("the string \"{shown}\"")
        }
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("the number {value}"),
        Unexpected::Signed(value) => format!("the number {value}"),
        Unexpected::Float(value) => format!("the number {value}"),
        other => other.to_string(),
    }
}

/// Serde's names of Rust types, in a reader's words.
fn friendly(expected: &str) -> String {
    match expected {
        "a map" => "a table",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "u16" | "u32" | "u64" => "a whole number, 0 or more",
        "f64" => "a number",
        other => other,
    }
    .to_owned()
}

/// One value of the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'d, 't>(&'d Spanned<DeValue<'t>>);

impl<'d, 't> Node<'d, 't> {
    pub(crate) fn new(value: &'d Spanned<DeValue<'t>>) -> Self {
        Self(value)
    }
}

impl<'d, 't> Deserializer<'d> for Node<'d, 't> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.0.get_ref() {
            DeValue::String(text) => visitor.visit_borrowed_str(text),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_err(|error| {
                    Problem::new(
                        format!("the number {number} can't be used: {error}"),
                        "write a whole number of at most 64 bits",
                    )
                })
                .and_then(|number| visitor.visit_i64(number)),
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => visitor.visit_f64(number),
                _ => Err(Problem::new(
                    format!("{} is no finite number", number.as_str()),
                    "write a finite number",
                )),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            // Dates are texts to HTTP and to JSON.
            DeValue::Datetime(value) => visitor.visit_string(value.to_string()),
            DeValue::Array(items) => visitor.visit_seq(Items(items.iter())),
            DeValue::Table(table) => {
                let mut entries: Vec<_> = table.iter().collect();
                // The tree is sorted by name; the file's order is that of the keys' places.
                entries.sort_by_key(|(key, _)| key.span().start);
                visitor.visit_map(Entries {
                    entries: entries.into_iter(),
                    value: None,
                })
            }
        }
        .map_err(|problem| problem.at(self.0.span()))
    }

    fn deserialize_option<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'d>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    /// Every enum of the formats is a word.
    fn deserialize_enum<V: Visitor<'d>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.0.get_ref() {
            DeValue::String(word) => visitor.visit_enum(
                IntoDeserializer::<Problem>::into_deserializer(word.as_ref()),
            ),
            _ => self.deserialize_any(Word).map(|never| match never {}),
        }
        .map_err(|problem| problem.at(self.0.span()))
    }

    forward_to_deserialize_any! {
        <V: Visitor<'d>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// Accepts nothing: its purpose is the right error for what isn't a word.
struct Word;

enum Never {}

impl Visitor<'_> for Word {
    type Value = Never;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a word in quotes")
    }
}

struct Items<'d, 't>(std::slice::Iter<'d, Spanned<DeValue<'t>>>);

impl<'d, 't> de::SeqAccess<'d> for Items<'d, 't> {
    type Error = Problem;

    fn next_element_seed<S: de::DeserializeSeed<'d>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Problem> {
        self.0
            .next()
            .map(|item| seed.deserialize(Node(item)))
            .transpose()
    }
}

type Entry<'d, 't> = (&'d Spanned<DeString<'t>>, &'d Spanned<DeValue<'t>>);

struct Entries<'d, 't> {
    entries: std::vec::IntoIter<Entry<'d, 't>>,
    value: Option<Entry<'d, 't>>,
}

impl<'d, 't> de::MapAccess<'d> for Entries<'d, 't> {
    type Error = Problem;

    fn next_key_seed<S: de::DeserializeSeed<'d>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Problem> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some((key, value));
        let name = de::value::BorrowedStrDeserializer::new(key.get_ref());
        seed.deserialize(name)
            .map(Some)
            .map_err(|problem: Problem| problem.at(key.span()))
    }

    fn next_value_seed<S: de::DeserializeSeed<'d>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, Problem> {
        match self.value.take() {
            Some((key, value)) => seed.deserialize(Node(value)).map_err(|mut problem| {
                // A message of a single value reads better with its key.
                if problem.what.starts_with("found ") && problem.span == Some(value.span()) {
                    problem.what = format!("`{}`: {}", key.get_ref(), problem.what);
                }
                problem
            }),
            None => Err(de::Error::custom("a value was asked for before its key")),
        }
    }
}
