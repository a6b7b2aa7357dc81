//! Values of the raw form for which a plain text or number does, and a list or table says more.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use super::values::{DurationText, Read, Scalar, ScalarOr};

/// A parameter, field or part: once, or as often as the list is long.
#[derive(Debug, JsonSchema)]
#[schemars(untagged, rename = "Repeated{T}")]
pub(crate) enum Repeated<T> {
    /// Once.
    One(T),
    /// Once for each.
    Many(Vec<T>),
}

/// What may be repeated, and how that is told.
pub(crate) trait Repeatable {
    /// What is expected, in a reader's words.
    const EXPECTED: &'static str;
}

impl Repeatable for Scalar {
    const EXPECTED: &'static str = "a string, a number, true, false, or a list of them";
}

impl Repeatable for FormField {
    const EXPECTED: &'static str =
        "a string, a number, true, false, a table as { file = \"a.png\" }, or a list of them";
}

struct RepeatedReader<T>(PhantomData<T>);

impl<'d, T: Repeatable + Deserialize<'d>> Visitor<'d> for RepeatedReader<T> {
    type Value = Repeated<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Repeated<T>, E> {
        T::deserialize(text.into_deserializer()).map(Repeated::One)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Repeated<T>, E> {
        T::deserialize(number.into_deserializer()).map(Repeated::One)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Repeated<T>, E> {
        T::deserialize(number.into_deserializer()).map(Repeated::One)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Repeated<T>, E> {
        T::deserialize(number.into_deserializer()).map(Repeated::One)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Repeated<T>, E> {
        T::deserialize(value.into_deserializer()).map(Repeated::One)
    }

    fn visit_seq<A: SeqAccess<'d>>(self, items: A) -> Result<Repeated<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(Repeated::Many)
    }

    fn visit_map<A: MapAccess<'d>>(self, map: A) -> Result<Repeated<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Repeated::One)
    }
}

impl<'d, T: Repeatable + Deserialize<'d>> Deserialize<'d> for Repeated<T> {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RepeatedReader(PhantomData))
    }
}

/// A field of a multipart form: a text, or a table that says more of it.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum FormField {
    /// A text.
    Text(Scalar),
    /// A file, or a text with a content type.
    Described(Described),
}

/// A part of a multipart form: `file` or `text`, and what is told of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Described {
    /// A file beside the scenario; its bytes are sent as they are.
    pub(crate) file: Option<String>,
    /// A text with variables.
    pub(crate) text: Option<String>,
    /// The name that is told of it [the file's].
    pub(crate) filename: Option<String>,
    /// Its content type [application/octet-stream for a file].
    pub(crate) content_type: Option<String>,
}

impl<'d> Deserialize<'d> for FormField {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(ScalarOr {
                expected: "a string, a number, true, false, or a table as { file = \"a.png\" }",
                table: PhantomData::<Described>,
            })
            .map(|read| match read {
                Read::Scalar(scalar) => Self::Text(scalar),
                Read::Table(described) => Self::Described(described),
            })
    }
}

/// A body that is neither JSON nor a form.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum RawBody {
    /// A text with variables.
    Text(String),
    /// A file's bytes.
    File(BodyFile),
}

/// A file's bytes as a body.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a table as `{ file = \"body.bin\" }`"
)]
pub(crate) struct BodyFile {
    /// A file beside the scenario; its bytes are sent as they are.
    pub(crate) file: String,
}

/// A pause: always as long, or drawn.
#[derive(Debug, JsonSchema)]
#[schemars(untagged, rename = "Think")]
pub(crate) enum ThinkText {
    /// Always as long.
    Fixed(DurationText),
    /// Drawn by the run's seed.
    Drawn(DrawnThink),
}

/// A drawn pause: `min` and `max`, or `mean`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a table as `{ min = \"50ms\", max = \"150ms\" }`"
)]
pub(crate) struct DrawnThink {
    /// The shortest; each pause up to `max` is as likely.
    pub(crate) min: Option<DurationText>,
    /// The longest.
    pub(crate) max: Option<DurationText>,
    /// The mean of exponentially distributed pauses.
    pub(crate) mean: Option<DurationText>,
}

/// Reads a text, or a table as `T`.
struct TextOr<T> {
    expected: &'static str,
    table: PhantomData<T>,
}

enum Found<T> {
    Text(String),
    Table(T),
}

impl<'d, T: Deserialize<'d>> Visitor<'d> for TextOr<T> {
    type Value = Found<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E>(self, text: &str) -> Result<Found<T>, E> {
        Ok(Found::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'d>>(self, map: A) -> Result<Found<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Found::Table)
    }
}

impl<'d> Deserialize<'d> for RawBody {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        let found = deserializer.deserialize_any(TextOr {
            expected: "a string, or a table as { file = \"body.bin\" }",
            table: PhantomData::<BodyFile>,
        });
        found.map(|found| match found {
            Found::Text(text) => Self::Text(text),
            Found::Table(file) => Self::File(file),
        })
    }
}

impl<'d> Deserialize<'d> for ThinkText {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        let found = deserializer.deserialize_any(TextOr {
            expected: "a duration as \"100ms\", or a table as { min = \"50ms\", max = \"150ms\" }",
            table: PhantomData::<DrawnThink>,
        });
        found.map(|found| match found {
            Found::Text(text) => Self::Fixed(DurationText(text)),
            Found::Table(drawn) => Self::Drawn(drawn),
        })
    }
}
