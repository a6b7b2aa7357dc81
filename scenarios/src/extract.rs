//! What later requests take from an answer: by pointer, from a header, by a regular expression,
//! from a stream's items.

use serde_json::Value as Json;

use crate::check::{CheckFailure, CheckKind, Values};
use crate::pattern::Pattern;
use crate::plan::{Extract, ExtractFrom, Request, Which};
use crate::scope::{Scope, text_of};

impl Extract {
    /// What is taken of a value; `None` if the pattern doesn't fit.
    fn of_json(&self, value: &Json) -> Option<Json> {
        match &self.pattern {
            None => Some(value.clone()),
            Some(pattern) => by_pattern(pattern, text_of(value).as_bytes()),
        }
    }

    fn of_header(&self, value: &[u8]) -> Option<Json> {
        match &self.pattern {
            None => Some(text(value)),
            Some(pattern) => by_pattern(pattern, value),
        }
    }
}

impl Request {
    /// Whether the whole body is needed: to test it, or to take something from it.
    pub fn reads_body(&self) -> bool {
        let from_body =
            |extract: &Extract| matches!(extract.from, ExtractFrom::Json(_) | ExtractFrom::Body);
        self.expect.reads_json() || self.extract.values().any(from_body)
    }

    /// Whether something is taken from the items of its stream.
    pub fn takes_items(&self) -> bool {
        let from_item = |extract: &Extract| matches!(extract.from, ExtractFrom::Item { .. });
        self.extract.values().any(from_item)
    }

    /// Takes from one item of the stream what is to be taken from it; to be called with each, in
    /// their order. An item that isn't JSON has nothing to take.
    pub fn take_item(&self, item: &[u8], values: &mut Values) {
        let mut document = None;
        for (name, extract) in &self.extract {
            let ExtractFrom::Item { pointer, which } = &extract.from else {
                continue;
            };
            if *which == Which::First && values.contains_key(name) {
                continue;
            }
            // Parsed once, and only while something is wanted of it.
            let document = document.get_or_insert_with(|| serde_json::from_slice::<Json>(item));
            let Ok(document) = document else { return };
            let found = document.pointer(pointer);
            if let Some(value) = found.and_then(|value| extract.of_json(value)) {
                values.insert(name.clone(), value);
            }
        }
    }

    /// Whether all that is to be taken from items was there.
    ///
    /// # Errors
    /// The first variable that no item had.
    pub fn check_taken(&self, values: &Values) -> Result<(), CheckFailure> {
        for (name, extract) in &self.extract {
            let ExtractFrom::Item { pointer, .. } = &extract.from else {
                continue;
            };
            if !values.contains_key(name) {
                let what = format!("no item has `{pointer}`{}", fitting(extract));
                return Err(self.lacking(None, &what, name, &[]));
            }
        }
        Ok(())
    }

    pub(crate) fn reads_json(&self) -> bool {
        let from_json = |extract: &Extract| matches!(extract.from, ExtractFrom::Json(_));
        self.expect.reads_json() || self.extract.values().any(from_json)
    }

    pub(crate) fn takes_headers(&self) -> bool {
        let from_header = |extract: &Extract| matches!(extract.from, ExtractFrom::Header(_));
        self.extract.values().any(from_header)
    }

    pub(crate) fn take_headers(
        &self,
        headers: &[(&str, &[u8])],
        values: &mut Values,
    ) -> Result<(), CheckFailure> {
        for (name, extract) in &self.extract {
            let ExtractFrom::Header(wanted) = &extract.from else {
                continue;
            };
            let named = headers
                .iter()
                .filter(|(header, _)| header.eq_ignore_ascii_case(wanted));
            let found = named
                .filter_map(|(_, value)| extract.of_header(value))
                .next();
            let Some(value) = found else {
                let what = format!("there is no header `{wanted}`{}", fitting(extract));
                return Err(self.lacking(None, &what, name, &[]));
            };
            values.insert(name.clone(), value);
        }
        Ok(())
    }

    pub(crate) fn take_json(
        &self,
        scope: Option<&Scope>,
        document: &Json,
        body: &[u8],
        values: &mut Values,
    ) -> Result<(), CheckFailure> {
        for (name, extract) in &self.extract {
            let ExtractFrom::Json(pointer) = &extract.from else {
                continue;
            };
            let found = document.pointer(pointer);
            let Some(value) = found.and_then(|value| extract.of_json(value)) else {
                let what = match found {
                    None => format!("`{pointer}` is missing"),
                    Some(_) => format!("`{pointer}` is nothing{}", fitting(extract)),
                };
                return Err(self.lacking(scope, &what, name, body));
            };
            values.insert(name.clone(), value);
        }
        Ok(())
    }

    pub(crate) fn take_texts(
        &self,
        scope: Option<&Scope>,
        body: &[u8],
        values: &mut Values,
    ) -> Result<(), CheckFailure> {
        for (name, extract) in &self.extract {
            let (ExtractFrom::Body, Some(pattern)) = (&extract.from, &extract.pattern) else {
                continue;
            };
            let Some(value) = by_pattern(pattern, body) else {
                let what = format!("the body has nothing{}", fitting(extract));
                return Err(self.lacking(scope, &what, name, body));
            };
            values.insert(name.clone(), value);
        }
        Ok(())
    }

    fn lacking(&self, scope: Option<&Scope>, what: &str, name: &str, body: &[u8]) -> CheckFailure {
        let what = format!("{what}, and `{name}` is taken from it");
        self.expect.failure(scope, CheckKind::Check, what, body)
    }
}

fn by_pattern(pattern: &Pattern, bytes: &[u8]) -> Option<Json> {
    pattern.find(bytes).map(text)
}

/// Header values and bodies may be of any bytes; what isn't UTF-8 can be no variable's value as
/// it is.
fn text(bytes: &[u8]) -> Json {
    Json::String(String::from_utf8_lossy(bytes).into_owned())
}

fn fitting(extract: &Extract) -> String {
    match &extract.pattern {
        Some(pattern) => format!(" that fits the regex {}", pattern.as_str()),
        None => String::new(),
    }
}
