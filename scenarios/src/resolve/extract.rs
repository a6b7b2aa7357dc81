//! What an answer brings: where it stands, and what of it is taken.

use std::collections::BTreeMap;

use super::values;
use crate::document::{Document, Place};
use crate::error::ScenarioError;
use crate::pattern::{Pattern, PatternError};
use crate::plan::{Extract, ExtractFrom, Which};
use crate::raw;

/// The request whose answer it is.
pub(crate) struct Context<'c> {
    pub(crate) document: &'c Document<'c>,
    pub(crate) place: &'c Place<'c>,
    pub(crate) raw: &'c raw::Request,
}

impl Context<'_> {
    /// Resolves all of a request's; `is_secret` knows the names that are declared so.
    pub(crate) fn extracts(
        &self,
        is_secret: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, Extract>, ScenarioError> {
        let section = self.place.key("extract");
        let extracts = self.raw.extract.iter().map(|(name, raw)| {
            let place = section.key(name);
            let from = self.from(&place, raw)?;
            let extract = Extract {
                pattern: self.pattern(&place, raw)?,
                from,
                secret: raw.secret || is_secret(name),
            };
            Ok((name.clone(), extract))
        });
        extracts.collect()
    }

    fn from(&self, place: &Place<'_>, raw: &raw::Extract) -> Result<ExtractFrom, ScenarioError> {
        if raw.which.is_some() && raw.item.is_none() {
            return Err(self.document.error(
                &place.name("which"),
                "`which` without `item`",
                "take it out, or write `item = \"/pointer\"`",
            ));
        }
        match (&raw.json, &raw.header, &raw.item) {
            (Some(pointer), None, None) => {
                values::pointer(self.document, &place.key("json"), pointer)?;
                self.check_body(&place.name("json"))?;
                Ok(ExtractFrom::Json(pointer.clone()))
            }
            (None, Some(header), None) => {
                let name = values::header_name(self.document, &place.key("header"), header)?;
                Ok(ExtractFrom::Header(name))
            }
            (None, None, Some(pointer)) => {
                values::pointer(self.document, &place.key("item"), pointer)?;
                self.check_item(&place.name("item"))?;
                Ok(ExtractFrom::Item {
                    pointer: pointer.clone(),
                    which: match raw.which {
                        Some(raw::Which::Last) => Which::Last,
                        Some(raw::Which::First) | None => Which::First,
                    },
                })
            }
            (None, None, None) if raw.regex.is_some() => {
                self.check_body(&place.name("regex"))?;
                Ok(ExtractFrom::Body)
            }
            (None, None, None) => Err(self.document.error(
                place,
                "the extraction says nothing of where the value stands",
                "write `json = \"/pointer\"`, `header = \"location\"`, `item = \"/pointer\"` of a \
                 stream, or a `regex` for the body",
            )),
            _ => Err(self.document.error(
                place,
                "the extraction names more than one place",
                "keep one of `json`, `header` and `item`; `regex` may stand beside it",
            )),
        }
    }

    /// A whole body is there to extract from.
    fn check_body(&self, place: &Place<'_>) -> Result<(), ScenarioError> {
        let (what, fix) = if self.raw.stream.is_some() {
            (
                "this takes from a whole body, but the request reads a stream",
                "write `item = \"/pointer\"`, or take it from a `header`",
            )
        } else if self.raw.method == "HEAD" {
            (
                "the answer to HEAD has no body to extract from",
                "take it from a `header`, or use GET",
            )
        } else {
            return Ok(());
        };
        Err(self.document.error(place, what, fix))
    }

    fn check_item(&self, place: &Place<'_>) -> Result<(), ScenarioError> {
        let (what, fix) = match &self.raw.stream {
            None => (
                "`item` takes from a stream's item, but this request has no stream",
                "add `[request.stream]` with a `decoder`, or write `json` for a whole answer",
            ),
            Some(stream) if matches!(stream.decoder, raw::Decoder::Chunks) => (
                "the items of `chunks` are no JSON to extract from",
                "choose another decoder, or take it from a `header`",
            ),
            Some(_) => return Ok(()),
        };
        Err(self.document.error(place, what, fix))
    }

    fn pattern(
        &self,
        place: &Place<'_>,
        raw: &raw::Extract,
    ) -> Result<Option<Pattern>, ScenarioError> {
        let Some(text) = &raw.regex else {
            return Ok(None);
        };
        let pattern = Pattern::new(text).map_err(|error| {
            let fix = match &error {
                PatternError::Syntax(_) => {
                    "mend the expression; in TOML it is easiest between single quotes, as \
                     'id=(\\w+)', and look-around and back-references aren't known"
                }
                PatternError::Groups(_) => {
                    "keep one group around what is to be taken, and write the others as `(?:…)`"
                }
                PatternError::Big => "write a shorter expression with smaller repetitions",
            };
            self.document
                .error(&place.key("regex"), format!("the regex: {error}"), fix)
        })?;
        Ok(Some(pattern))
    }
}
