//! Values of the raw form that may be written in more than one way. Serde's own
//! untagged enums would do, but lose the place of an error and say only that nothing
//! matched.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::{Source, Variable};

/// A number and its unit: `us`, `ms`, `s`, `m` or `h`.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "Duration")]
pub(crate) struct DurationText(
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?(us|ms|s|m|h)$"))] pub(crate) String,
);

impl<'d> Deserialize<'d> for DurationText {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = DurationText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with its unit, as \"30s\"")
            }

            fn visit_str<E>(self, text: &str) -> Result<DurationText, E> {
                Ok(DurationText(text.to_owned()))
            }
        }
        deserializer.deserialize_str(Reader)
    }
}

#[derive(JsonSchema)]
#[schemars(untagged, rename = "Status")]
#[expect(dead_code, reason = "stands for statuses in the JSON Schema only")]
pub(crate) enum StatusSchema {
    One(#[schemars(range(min = 200, max = 599))] u16),
    Many(#[schemars(length(min = 1), inner(range(min = 200, max = 599)))] Vec<u16>),
}

/// A number of users, or a variable that is one.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "Users")]
#[expect(
    dead_code,
    reason = "stands for numbers of users in the JSON Schema only"
)]
pub(crate) enum UsersSchema {
    Number(#[schemars(range(min = 0, max = 10_000))] u32),
    Variable(String),
}

/// Accepted statuses, written as one number or a list.
#[derive(Debug)]
pub(crate) struct Statuses(pub(crate) Vec<u16>);

impl<'d> Deserialize<'d> for Statuses {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'d> Visitor<'d> for Reader {
            type Value = Statuses;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status as 200, or a list as [200, 404]")
            }

            fn visit_i64<E: serde::de::Error>(self, status: i64) -> Result<Statuses, E> {
                u16::try_from(status)
                    .map(|status| Statuses(vec![status]))
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(status), &self))
            }

            fn visit_u64<E: serde::de::Error>(self, status: u64) -> Result<Statuses, E> {
                u16::try_from(status)
                    .map(|status| Statuses(vec![status]))
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(status), &self))
            }

            fn visit_seq<A: SeqAccess<'d>>(self, items: A) -> Result<Statuses, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(items)).map(Statuses)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A test, written as a word or as `{ equals = … }`.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Test {
    /// `any`, `string`, `number`, `integer`, `boolean`, `array`, `object`, `null`,
    /// `non-empty`; with a `?` behind it the value may also be null or missing.
    Word(
        #[schemars(regex(
            pattern = r"^(any|string|number|integer|boolean|array|object|null|non-empty)\??$"
        ))]
        String,
    ),
    /// Equal to a value.
    Equals(Equals),
}

/// Equal to a value.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table as `{ equals = 1 }`")]
pub(crate) struct Equals {
    /// The value, without variables.
    pub(crate) equals: Json,
}

impl<'d> Deserialize<'d> for Test {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'d> Visitor<'d> for Reader {
            type Value = Test;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a test as \"string\" or { equals = 1 }")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Test, E> {
                Ok(Test::Word(word.to_owned()))
            }

            fn visit_map<A: MapAccess<'d>>(self, map: A) -> Result<Test, A::Error> {
                Equals::deserialize(MapAccessDeserializer::new(map)).map(Test::Equals)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl<'d> Deserialize<'d> for Variable {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(ScalarOr {
                expected: "a string, a number, true, false, or a table as { env = \"NAME\" }",
                table: PhantomData::<Source>,
            })
            .map(|read| match read {
                Read::Scalar(scalar) => Self::Literal(scalar),
                Read::Table(source) => Self::Source(source),
            })
    }
}

/// A string, number or boolean.
#[derive(Debug, Clone, JsonSchema)]
pub(crate) struct Scalar(#[schemars(with = "ScalarSchema")] pub(crate) Json);

#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "stands for scalars in the JSON Schema only")]
enum ScalarSchema {
    Text(String),
    Number(f64),
    Boolean(bool),
}

impl<'d> Deserialize<'d> for Scalar {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(ScalarOr {
                expected: "a string, a number, true or false",
                table: PhantomData::<NoTable>,
            })
            .map(|read| match read {
                Read::Scalar(scalar) => scalar,
                Read::Table(never) => match never {},
            })
    }
}

/// For values that may not be a table.
enum NoTable {}

impl<'d> Deserialize<'d> for NoTable {
    fn deserialize<D: Deserializer<'d>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::invalid_type(
            serde::de::Unexpected::Map,
            &"a string, a number, true or false",
        ))
    }
}

pub(super) enum Read<T> {
    Scalar(Scalar),
    Table(T),
}

pub(super) struct ScalarOr<T> {
    pub(super) expected: &'static str,
    pub(super) table: PhantomData<T>,
}

impl<'d, T: Deserialize<'d>> Visitor<'d> for ScalarOr<T> {
    type Value = Read<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E>(self, text: &str) -> Result<Read<T>, E> {
        Ok(Read::Scalar(Scalar(text.into())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Read<T>, E> {
        Ok(Read::Scalar(Scalar(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Read<T>, E> {
        Ok(Read::Scalar(Scalar(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Read<T>, E> {
        Ok(Read::Scalar(Scalar(number.into())))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Read<T>, E> {
        Ok(Read::Scalar(Scalar(value.into())))
    }

    fn visit_map<A: MapAccess<'d>>(self, map: A) -> Result<Read<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Read::Table)
    }
}

/// A table whose order counts, as that of query parameters.
#[derive(Debug)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'d, T: Deserialize<'d>> Deserialize<'d> for Ordered<T> {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);
        impl<'d, T: Deserialize<'d>> Visitor<'d> for Reader<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'d>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(Reader(PhantomData))
    }
}
