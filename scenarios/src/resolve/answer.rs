//! What a right answer looks like: the functional check, and how a stream is read.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Json;

use super::values;
use crate::document::{Document, Place};
use crate::error::{ScenarioError, suggestion};
use crate::plan::{Decoder, Expect, JsonTest, Quotes, Stream};
use crate::raw::{self, values::Test};
use crate::redaction::Redaction;

/// The longest silence of a stream when a file says nothing, unless the timeout is shorter.
const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// The words of a test, but for the `?` that any may have behind it.
const WORDS: [&str; 9] = [
    "any",
    "string",
    "number",
    "integer",
    "boolean",
    "array",
    "object",
    "null",
    "non-empty",
];

/// What an answer's checks need to know of their request.
pub(crate) struct Context<'c> {
    pub(crate) document: &'c Document<'c>,
    /// The request.
    pub(crate) place: &'c Place<'c>,
    pub(crate) method: &'c str,
    pub(crate) redaction: &'c Redaction,
    pub(crate) quotes: Quotes,
}

impl Context<'_> {
    pub(crate) fn expect(
        &self,
        raw: Option<&raw::Expect>,
        is_stream: bool,
    ) -> Result<Expect, ScenarioError> {
        let mut expect = Expect {
            status: (200..300).collect(),
            headers: BTreeMap::new(),
            json: BTreeMap::new(),
            each: BTreeMap::new(),
            redaction: self.redaction.clone(),
            quotes: self.quotes,
        };
        let Some(raw) = raw else {
            return Ok(expect);
        };
        let place = self.place.key("expect");
        if let Some(statuses) = &raw.status {
            expect.status = self.statuses(&place.key("status"), &statuses.0)?;
        }
        let headers = place.key("headers");
        for (written, glob) in &raw.headers {
            let name = values::header_name(self.document, &headers.name(written), written)?;
            expect.headers.insert(name, glob.clone());
        }
        self.check_kind(&place, raw, is_stream)?;
        expect.json = self.tests(&place.key("json"), &raw.json)?;
        if let Some(each) = &raw.each {
            let place = place.key("each");
            expect.each = self.tests(&place.key("json"), &each.json)?;
        }
        Ok(expect)
    }

    /// `json` is for whole answers, `each` for a stream's items.
    fn check_kind(
        &self,
        place: &Place<'_>,
        raw: &raw::Expect,
        is_stream: bool,
    ) -> Result<(), ScenarioError> {
        let (key, what, fix) = if raw.each.is_some() && !is_stream {
            let fix = "add `[request.stream]` with a `decoder`, or write `json = { … }` for a whole answer";
            (
                "each",
                "`each` tests a stream's items, but this request has no stream",
                fix,
            )
        } else if !raw.json.is_empty() && is_stream {
            let fix = "write `each = { json = { … } }`";
            (
                "json",
                "`json` tests a whole answer, but this request reads a stream",
                fix,
            )
        } else if !raw.json.is_empty() && self.method == "HEAD" {
            (
                "json",
                "the answer to HEAD has no body to test",
                "test the status and headers only",
            )
        } else {
            return Ok(());
        };
        Err(self.document.error(&place.name(key), what, fix))
    }

    fn statuses(&self, place: &Place<'_>, statuses: &[u16]) -> Result<Vec<u16>, ScenarioError> {
        if statuses.is_empty() {
            return Err(self.document.error(
                place,
                "no status is accepted",
                "write one, as `status = 200`, or a list of them",
            ));
        }
        for (index, status) in statuses.iter().enumerate() {
            if (200..=599).contains(status) {
                continue;
            }
            let item = place.item(index);
            return Err(self.document.error(
                &item,
                format!("{status} is no final HTTP status"),
                "write statuses from 200 to 599",
            ));
        }
        Ok(statuses.to_vec())
    }

    fn tests(
        &self,
        place: &Place<'_>,
        raw: &BTreeMap<String, Test>,
    ) -> Result<BTreeMap<String, JsonTest>, ScenarioError> {
        let tests = raw.iter().map(|(pointer, test)| {
            values::pointer(self.document, &place.name(pointer), pointer)?;
            let place = place.key(pointer);
            let test = match test {
                Test::Word(word) => self.word(&place, word)?,
                Test::Equals(test) => self.equals(&place, &test.equals)?,
            };
            Ok((pointer.clone(), test))
        });
        tests.collect()
    }

    fn word(&self, place: &Place<'_>, word: &str) -> Result<JsonTest, ScenarioError> {
        let (name, optional) = match word.strip_suffix('?') {
            Some(name) => (name, true),
            None => (word, false),
        };
        let test = match name {
            "any" => JsonTest::Any,
            "non-empty" => JsonTest::NonEmpty,
            name if WORDS.contains(&name) => JsonTest::Type(name.to_owned()),
            _ => {
                let fix = suggestion(name, WORDS);
                return Err(self.document.error(
                    place,
                    format!("`{word}` is no test"),
                    format!("{fix} (with a `?` behind it, also null or missing; a value itself is {{ equals = … }})"),
                ));
            }
        };
        Ok(if optional {
            JsonTest::Optional(Box::new(test))
        } else {
            test
        })
    }

    /// Checks run without a scope, so a variable would be taken as its own text.
    fn equals(&self, place: &Place<'_>, value: &Json) -> Result<JsonTest, ScenarioError> {
        if value.to_string().contains("${") {
            return Err(self.document.error(
                place,
                "`equals` has a variable",
                "compare with a fixed value, or test the type, as \"string\"",
            ));
        }
        Ok(JsonTest::Equals(value.clone()))
    }

    pub(crate) fn stream(
        &self,
        raw: Option<&raw::Stream>,
        timeout: Duration,
    ) -> Result<Option<Stream>, ScenarioError> {
        let Some(raw) = raw else {
            return Ok(None);
        };
        let place = self.place.key("stream");
        let complete = place.key("complete");
        let decoder = match raw.decoder {
            raw::Decoder::Sse => Decoder::Sse,
            raw::Decoder::Ndjson => Decoder::Ndjson,
            raw::Decoder::JsonObjects => Decoder::JsonObjects,
            raw::Decoder::Chunks => Decoder::Chunks,
        };
        let meaningful = self.item_test(&place.key("meaningful"), raw.meaningful.as_ref())?;
        let last = self.item_test(&complete.key("last"), raw.complete.last.as_ref())?;
        if decoder == Decoder::Chunks && (meaningful.is_some() || last.is_some()) {
            return Err(self.document.error(
                &place.key("decoder"),
                "the items of `chunks` are no JSON to be tested",
                "take out `meaningful` and `last`, or choose another decoder",
            ));
        }
        let items_min = raw.complete.items_min.unwrap_or(1);
        self.check_counts(&place, raw, items_min)?;
        let idle_timeout = match &raw.idle_timeout {
            Some(text) => {
                values::positive_duration(self.document, &place.key("idle_timeout"), &text.0)?
            }
            None => IDLE_TIMEOUT_DEFAULT.min(timeout),
        };
        Ok(Some(Stream {
            decoder,
            meaningful,
            items_min,
            last,
            end_marker: raw.complete.end_marker.clone(),
            leave_after: raw.leave_after,
            idle_timeout,
        }))
    }

    fn check_counts(
        &self,
        place: &Place<'_>,
        raw: &raw::Stream,
        items_min: u64,
    ) -> Result<(), ScenarioError> {
        let complete = place.key("complete");
        if items_min == 0 {
            return Err(self.document.error(
                &complete.key("items_min"),
                "a stream without items would be complete",
                "write 1 or more",
            ));
        }
        let Some(leave_after) = raw.leave_after else {
            return Ok(());
        };
        if leave_after == 0 {
            return Err(self.document.error(
                &place.key("leave_after"),
                "a stream would be left before its first item",
                "write 1 or more",
            ));
        }
        let raw::Complete {
            items_min,
            last,
            end_marker,
        } = &raw.complete;
        if items_min.is_some() || last.is_some() || end_marker.is_some() {
            return Err(self.document.error(
                &place.name("leave_after"),
                "a stream that is left before its end can't be complete",
                "take out `leave_after` or `complete`",
            ));
        }
        Ok(())
    }

    fn item_test(
        &self,
        place: &Place<'_>,
        raw: Option<&raw::ItemTest>,
    ) -> Result<Option<(String, JsonTest)>, ScenarioError> {
        let Some(raw) = raw else {
            return Ok(None);
        };
        values::pointer(self.document, &place.key("json"), &raw.json)?;
        let test = match (&raw.is, &raw.equals) {
            (Some(word), None) => self.word(&place.key("is"), word)?,
            (None, Some(value)) => self.equals(&place.key("equals"), value)?,
            _ => {
                return Err(self.document.error(
                    place,
                    "the test needs one of `is` and `equals`",
                    "write `{ json = \"/message\", is = \"non-empty\" }`",
                ));
            }
        };
        Ok(Some((raw.json.clone(), test)))
    }
}
