//! The functional check of a stream's items: what each must be, which is the first that means
//! something, and what the last must be.
//!
//! Runs once per item on the load generator, so an item is parsed only while a test needs it.
//! What its decoder calls JSON is at least walked through: a stream of broken documents is no
//! success.

use serde::de::IgnoredAny;
use serde_json::Value as Json;

use crate::check::CheckFailure;
use crate::plan::{Decoder, JsonTest, Request, Stream};

impl Stream {
    /// Whether an item is the body's final marker.
    pub fn is_end_marker(&self, item: &[u8]) -> bool {
        self.end_marker
            .as_ref()
            .is_some_and(|marker| marker.as_bytes() == item)
    }

    /// Whether the decoder's items are JSON by its definition.
    fn has_json_items(&self) -> bool {
        matches!(self.decoder, Decoder::Ndjson | Decoder::JsonObjects)
    }

    /// What the last item lacks to complete the stream, if anything.
    pub fn lacks_in_last(&self, item: &[u8]) -> Option<String> {
        let (pointer, test) = self.last.as_ref()?;
        let passes = serde_json::from_slice::<Json>(item)
            .is_ok_and(|document| test.passes(document.pointer(pointer)));
        (!passes).then(|| format!("`{pointer}` of the last item is not {test}"))
    }
}

impl Request {
    /// Checks one item of this request's stream. With `asks_meaning` also tells whether it
    /// passes `meaningful`, as every item does without that test; an item of `sse` that is no
    /// JSON doesn't.
    ///
    /// # Errors
    /// The first test of `each` that fails, or an item that isn't the JSON it should be.
    pub fn accept_item(&self, item: &[u8], asks_meaning: bool) -> Result<bool, CheckFailure> {
        let Some(stream) = &self.stream else {
            return Ok(false);
        };
        let meaningful = stream.meaningful.as_ref().filter(|_| asks_meaning);
        if !self.expect.each.is_empty() || (meaningful.is_some() && stream.has_json_items()) {
            // The user's scope isn't at hand here, so what only it knows is never quoted.
            let document = self.expect.decode(None, item, "item")?;
            let tests = &self.expect.each;
            self.expect.run_tests(None, tests, &document, item)?;
            return Ok(passes(meaningful, &document));
        }
        if stream.has_json_items() {
            serde_json::from_slice::<IgnoredAny>(item)
                .map_err(|error| self.expect.not_json(None, item, "item", &error))?;
        }
        if meaningful.is_none() {
            return Ok(true);
        }
        let document = serde_json::from_slice::<Json>(item);
        Ok(document.is_ok_and(|document| passes(meaningful, &document)))
    }
}

fn passes(meaningful: Option<&(String, JsonTest)>, document: &Json) -> bool {
    meaningful.is_none_or(|(pointer, test)| test.passes(document.pointer(pointer)))
}
