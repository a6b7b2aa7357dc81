//! One request: method, path, headers and body, with every variable checked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::names::Names;
use super::{answer, values};
use crate::document::{Document, Place};
use crate::error::ScenarioError;
use crate::plan::{Body, JsonBody, Request, Template};
use crate::raw::{self, values::Ordered, values::Scalar};
use crate::redaction::Redaction;
use crate::render::is_header_value;

/// How long an answer may take when a file says nothing.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Resolves requests in their order; variables become visible as they are extracted.
pub(crate) struct RequestResolver<'d> {
    document: &'d Document<'d>,
    redaction: &'d Redaction,
    pub(crate) names: Names,
    timeout: Duration,
    headers: Vec<DefaultHeader>,
}

struct DefaultHeader {
    written: String,
    name: String,
    value: Template,
}

impl<'d> RequestResolver<'d> {
    pub(crate) fn new(
        document: &'d Document<'d>,
        defaults: &raw::Defaults,
        names: Names,
        redaction: &'d Redaction,
    ) -> Result<Self, ScenarioError> {
        let place = Place::Root.key("defaults");
        let timeout = match &defaults.timeout {
            Some(text) => values::positive_duration(document, &place.key("timeout"), &text.0)?,
            None => TIMEOUT_DEFAULT,
        };
        let section = place.key("headers");
        let mut headers: Vec<DefaultHeader> = Vec::new();
        for (written, value) in &defaults.headers.0 {
            let name = values::sent_header_name(document, &section.name(written), written)?;
            check_repeat(
                document,
                &section.name(written),
                &name,
                headers.iter().map(|h| &h.name),
            )?;
            headers.push(DefaultHeader {
                written: written.clone(),
                name,
                value: header_value(document, &section.key(written), value)?,
            });
        }
        Ok(Self {
            document,
            redaction,
            names,
            timeout,
            headers,
        })
    }

    pub(crate) fn resolve(
        &mut self,
        place: &Place<'_>,
        raw: raw::Request,
    ) -> Result<Request, ScenarioError> {
        let document = self.document;
        values::request_name(document, &place.key("name"), &raw.name)?;
        values::method(document, &place.key("method"), &raw.method)?;
        let path = values::path(document, &place.key("path"), &raw.path)?;
        self.names
            .check_template(document, &place.key("path"), &path, false)?;
        let query = self.pairs(&place.key("query"), &raw.query)?;
        let headers = self.headers(place, &raw.headers)?;
        let body = self.body(place, &raw)?;
        let extract_secret: BTreeSet<String> = raw
            .extract
            .iter()
            .filter(|(name, extract)| extract.secret || self.names.is_secret(name))
            .map(|(name, _)| name.clone())
            .collect();
        let extract = self.extract(place, &raw)?;
        let answer = answer::Context {
            document,
            place,
            method: &raw.method,
            redaction: self.redaction,
            quotes_answer: extract_secret.is_empty(),
        };
        let expect = answer.expect(raw.expect.as_ref(), raw.stream.is_some())?;
        let stream = answer.stream(raw.stream.as_ref(), self.timeout)?;
        let think = match &raw.think {
            Some(text) => values::duration(document, &place.key("think"), &text.0)?,
            None => Duration::ZERO,
        };
        let timeout = match &raw.timeout {
            Some(text) => values::positive_duration(document, &place.key("timeout"), &text.0)?,
            None => self.timeout,
        };
        self.names.reveal(extract.keys());
        Ok(Request {
            name: raw.name,
            method: raw.method,
            path,
            query,
            headers,
            body,
            expect,
            extract,
            extract_secret,
            stream,
            think,
            timeout,
            judged: raw.judge.unwrap_or(true),
        })
    }

    fn pairs(
        &self,
        place: &Place<'_>,
        raw: &Ordered<Scalar>,
    ) -> Result<Vec<(String, Template)>, ScenarioError> {
        let pairs = raw.0.iter().map(|(name, value)| {
            let place = place.key(name);
            let template = scalar_template(self.document, &place, value)?;
            self.names
                .check_template(self.document, &place, &template, true)?;
            Ok((name.clone(), template))
        });
        pairs.collect()
    }

    /// The defaults' headers that the request doesn't have itself, then its own.
    fn headers(
        &self,
        request: &Place<'_>,
        raw: &Ordered<Scalar>,
    ) -> Result<Vec<(String, Template)>, ScenarioError> {
        let section = request.key("headers");
        let mut own: Vec<(String, Template)> = Vec::new();
        for (written, value) in &raw.0 {
            let name = values::sent_header_name(self.document, &section.name(written), written)?;
            let seen = own.iter().map(|(name, _)| name);
            check_repeat(self.document, &section.name(written), &name, seen)?;
            let place = section.key(written);
            let template = header_value(self.document, &place, value)?;
            self.names
                .check_template(self.document, &place, &template, true)?;
            own.push((name, template));
        }
        let mut headers = Vec::with_capacity(self.headers.len() + own.len());
        for default in &self.headers {
            if own.iter().any(|(name, _)| *name == default.name) {
                continue;
            }
            let (root, written) = (Place::Root, default.written.as_str());
            let defaults = root.key("defaults");
            let section = defaults.key("headers");
            self.names.check_template(
                self.document,
                &section.key(written),
                &default.value,
                true,
            )?;
            headers.push((default.name.clone(), default.value.clone()));
        }
        headers.append(&mut own);
        Ok(headers)
    }

    fn body(&self, place: &Place<'_>, raw: &raw::Request) -> Result<Body, ScenarioError> {
        let document = self.document;
        let given: Vec<&str> = [
            ("json", raw.json.is_some()),
            ("form", raw.form.is_some()),
            ("multipart", raw.multipart.is_some()),
            ("body", raw.body.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, given)| given.then_some(key))
        .collect();
        if let [first, second, ..] = given.as_slice() {
            return Err(document.error(
                &place.name(second),
                format!("the request has two bodies: `{first}` and `{second}`"),
                "keep one of `json`, `form`, `multipart` and `body`",
            ));
        }
        if raw.content_type.is_some() && raw.body.is_none() {
            return Err(document.error(
                &place.name("content_type"),
                "`content_type` without `body`",
                "take it out: `json`, `form` and `multipart` bring their own",
            ));
        }
        let Some(key) = given.first() else {
            return Ok(Body::Empty);
        };
        if matches!(raw.method.as_str(), "GET" | "HEAD") {
            return Err(document.error(
                &place.name(key),
                format!("a {} request has a body", raw.method),
                "put the values into `query`, or use another method",
            ));
        }
        let place_of_body = place.key(key);
        if let Some(json) = &raw.json {
            return self.json_body(&place_of_body, json);
        }
        if let Some(form) = &raw.form {
            return self.pairs(&place_of_body, form).map(Body::Form);
        }
        if let Some(multipart) = &raw.multipart {
            return self.pairs(&place_of_body, multipart).map(Body::Multipart);
        }
        let text = raw.body.as_deref().unwrap_or_default();
        self.raw_body(place, text, raw.content_type.as_deref())
    }

    fn json_body(
        &self,
        place: &Place<'_>,
        json: &serde_json::Value,
    ) -> Result<Body, ScenarioError> {
        self.check_json(place, json)?;
        let body = JsonBody::compile(json)
            .map_err(|error| values::template_error(self.document, place, &error))?;
        Ok(Body::Json(body))
    }

    /// Checks the texts one by one, since only here each has its own place.
    fn check_json(&self, place: &Place<'_>, json: &serde_json::Value) -> Result<(), ScenarioError> {
        match json {
            serde_json::Value::String(text) => {
                let template = values::template(self.document, place, text)?;
                self.names
                    .check_template(self.document, place, &template, false)
            }
            serde_json::Value::Array(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| self.check_json(&place.item(index), item)),
            serde_json::Value::Object(fields) => fields
                .iter()
                .try_for_each(|(key, field)| self.check_json(&place.key(key), field)),
            _ => Ok(()),
        }
    }

    fn raw_body(
        &self,
        place: &Place<'_>,
        text: &str,
        content_type: Option<&str>,
    ) -> Result<Body, ScenarioError> {
        let document = self.document;
        let Some(content_type) = content_type else {
            return Err(document.error(
                &place.name("body"),
                "`body` without `content_type`",
                "add `content_type = \"text/plain\"`, or what the body is",
            ));
        };
        if content_type.is_empty() || !is_header_value(content_type) {
            return Err(document.error(
                &place.key("content_type"),
                "the content type is empty or has a control character",
                "write a media type, as `text/plain`",
            ));
        }
        let text = values::template(document, &place.key("body"), text)?;
        self.names
            .check_template(document, &place.key("body"), &text, false)?;
        Ok(Body::Raw {
            content_type: content_type.to_owned(),
            text,
        })
    }

    fn extract(
        &self,
        place: &Place<'_>,
        raw: &raw::Request,
    ) -> Result<BTreeMap<String, String>, ScenarioError> {
        let section = place.key("extract");
        if !raw.extract.is_empty() && (raw.stream.is_some() || raw.method == "HEAD") {
            return Err(self.document.error(
                &section,
                "`extract` from a stream or a HEAD answer",
                "extract from a request with a JSON answer",
            ));
        }
        let extracts = raw.extract.iter().map(|(name, extract)| {
            let of = section.key(name);
            values::pointer(self.document, &of.key("json"), &extract.json)?;
            Ok((name.clone(), extract.json.clone()))
        });
        extracts.collect()
    }
}

fn scalar_template(
    document: &Document<'_>,
    place: &Place<'_>,
    scalar: &Scalar,
) -> Result<Template, ScenarioError> {
    match &scalar.0 {
        serde_json::Value::String(text) => values::template(document, place, text),
        other => Ok(Template::literal(other.to_string())),
    }
}

fn header_value(
    document: &Document<'_>,
    place: &Place<'_>,
    scalar: &Scalar,
) -> Result<Template, ScenarioError> {
    let template = scalar_template(document, place, scalar)?;
    if is_header_value(&template.to_string()) {
        return Ok(template);
    }
    Err(document.error(
        place,
        "the header's value has a line break or another control character",
        "write it on one line, without control characters",
    ))
}

fn check_repeat<'n>(
    document: &Document<'_>,
    place: &Place<'_>,
    name: &String,
    mut seen: impl Iterator<Item = &'n String>,
) -> Result<(), ScenarioError> {
    if seen.any(|other| other == name) {
        return Err(document.error(
            place,
            format!("the header `{name}` stands here twice, in other letter cases"),
            "keep one of them: header names know no letter case",
        ));
    }
    Ok(())
}
