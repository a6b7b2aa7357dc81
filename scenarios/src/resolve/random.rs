//! Random variables: what may be drawn, and from what.

use sha2::{Digest, Sha256};

use crate::document::{Document, Place};
use crate::error::ScenarioError;
use crate::plan::{Random, RandomKind};
use crate::raw::{RandomWord, Source};

/// Longer texts belong into a file.
const LENGTH_MAX: u64 = 10_000;

pub(crate) fn resolve(
    document: &Document<'_>,
    place: &Place<'_>,
    name: &str,
    word: RandomWord,
    source: &Source,
) -> Result<Random, ScenarioError> {
    check_keys(document, place, word, source)?;
    let kind = match word {
        RandomWord::Uuid => RandomKind::Uuid,
        RandomWord::Int => {
            let (Some(min), Some(max)) = (source.min, source.max) else {
                return Err(document.error(
                    place,
                    "a random `int` needs `min` and `max`",
                    "write `{ random = \"int\", min = 1, max = 100 }`",
                ));
            };
            if min > max {
                return Err(document.error(
                    &place.key("max"),
                    format!("`max` {max} is smaller than `min` {min}"),
                    "write the smaller number as `min`",
                ));
            }
            RandomKind::Int { min, max }
        }
        RandomWord::Choice => match source.of.as_deref() {
            Some([]) | None => {
                return Err(document.error(
                    place,
                    "a random `choice` has nothing to choose from",
                    "write `{ random = \"choice\", of = [\"a\", \"b\"] }`",
                ));
            }
            Some(of) => RandomKind::Choice(of.iter().map(|scalar| scalar.0.clone()).collect()),
        },
        RandomWord::Text => match source.length {
            Some(length @ 1..=LENGTH_MAX) => RandomKind::Text {
                // At most 10 000, as just seen.
                length: length as usize,
            },
            _ => {
                return Err(document.error(
                    place,
                    format!("a random `text` needs a `length` from 1 to {LENGTH_MAX}"),
                    "write `{ random = \"text\", length = 12 }`",
                ));
            }
        },
    };
    Ok(Random {
        salt: salt(name),
        kind,
        secret: source.secret,
    })
}

/// Keys that mean nothing beside this kind.
fn check_keys(
    document: &Document<'_>,
    place: &Place<'_>,
    word: RandomWord,
    source: &Source,
) -> Result<(), ScenarioError> {
    let is = |wanted: RandomWord| word == wanted;
    let stray = [
        ("env", source.env.is_some()),
        ("default", source.default.is_some()),
        ("optional", source.optional),
        ("file", source.file.is_some()),
        ("column", source.column.is_some()),
        ("pick", source.pick.is_some()),
        ("min", source.min.is_some() && !is(RandomWord::Int)),
        ("max", source.max.is_some() && !is(RandomWord::Int)),
        ("of", source.of.is_some() && !is(RandomWord::Choice)),
        ("length", source.length.is_some() && !is(RandomWord::Text)),
    ];
    let Some((key, _)) = stray.iter().find(|(_, given)| *given) else {
        return Ok(());
    };
    Err(document.error(
        &place.name(key),
        format!("`{key}` means nothing beside this `random`"),
        "take it out: a random variable has `random` and, by its kind, `min` and `max`, `of`, or \
         `length`",
    ))
}

/// The same for a name in every version of this program, so that a seed keeps its meaning.
fn salt(name: &str) -> u64 {
    let digest = Sha256::digest(name.as_bytes());
    digest
        .iter()
        .take(8)
        .fold(0, |salt, byte| (salt << 8) | u64::from(*byte))
}
