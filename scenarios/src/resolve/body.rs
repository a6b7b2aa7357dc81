//! What a request sends: JSON, a form, a text or a file.

use super::request::{RequestResolver, each};
use super::{files, values};
use crate::document::Place;
use crate::error::ScenarioError;
use crate::plan::{Body, FormContent, FormPart, JsonBody};
use crate::raw::choices::{BodyFile, Described, FormField, RawBody, Repeated};
use crate::raw::{self, values::Ordered};
use crate::render::is_header_value;

/// The content type of a file that none is told of.
const FILE_TYPE: &str = "application/octet-stream";

impl RequestResolver<'_> {
    pub(super) fn body(
        &self,
        place: &Place<'_>,
        raw: &raw::Request,
    ) -> Result<Body, ScenarioError> {
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
            return self.multipart(&place_of_body, multipart);
        }
        match &raw.body {
            Some(body) => self.raw_body(place, body, raw.content_type.as_deref()),
            None => Ok(Body::Empty),
        }
    }

    fn multipart(
        &self,
        place: &Place<'_>,
        raw: &Ordered<Repeated<FormField>>,
    ) -> Result<Body, ScenarioError> {
        let mut parts = Vec::with_capacity(raw.0.len());
        for (name, repeated) in &raw.0 {
            each(&place.key(name), repeated, |place, field| {
                parts.push(match field {
                    FormField::Text(value) => FormPart {
                        name: name.clone(),
                        filename: None,
                        content_type: None,
                        content: FormContent::Text(self.value(place, value)?),
                    },
                    FormField::Described(described) => self.part(place, name, described)?,
                });
                Ok(())
            })?;
        }
        Ok(Body::Multipart(parts))
    }

    fn part(
        &self,
        place: &Place<'_>,
        name: &str,
        raw: &Described,
    ) -> Result<FormPart, ScenarioError> {
        let document = self.document;
        let (content, own_name, own_type) = match (&raw.file, &raw.text) {
            (Some(file), None) => {
                let bytes = files::bytes(document, &place.key("file"), file)?;
                let path = std::path::Path::new(file);
                let own_name = path.file_name().map(|name| name.to_string_lossy().into());
                (FormContent::File(bytes), own_name, Some(FILE_TYPE))
            }
            (None, Some(text)) => {
                let place = place.key("text");
                let text = values::template(document, &place, text)?;
                self.names.check_template(document, &place, &text, true)?;
                (FormContent::Text(text), None, None)
            }
            _ => {
                return Err(document.error(
                    place,
                    "a part of a multipart form needs one of `file` and `text`",
                    "write `{ file = \"a.png\", content_type = \"image/png\" }`",
                ));
            }
        };
        if let Some(content_type) = &raw.content_type {
            self.check_content_type(&place.key("content_type"), content_type)?;
        }
        let content_type = raw.content_type.as_deref().or(own_type);
        Ok(FormPart {
            name: name.to_owned(),
            filename: raw.filename.clone().or(own_name),
            content_type: content_type.map(str::to_owned),
            content,
        })
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
        body: &RawBody,
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
        self.check_content_type(&place.key("content_type"), content_type)?;
        let content_type = content_type.to_owned();
        let place = place.key("body");
        match body {
            RawBody::Text(text) => {
                let text = values::template(document, &place, text)?;
                self.names.check_template(document, &place, &text, false)?;
                Ok(Body::Raw { content_type, text })
            }
            RawBody::File(BodyFile { file }) => {
                let bytes = files::bytes(document, &place.key("file"), file)?;
                Ok(Body::File {
                    content_type,
                    bytes,
                })
            }
        }
    }

    fn check_content_type(&self, place: &Place<'_>, text: &str) -> Result<(), ScenarioError> {
        if !text.is_empty() && is_header_value(text) {
            return Ok(());
        }
        Err(self.document.error(
            place,
            "the content type is empty or has a control character",
            "write a media type, as `text/plain`",
        ))
    }
}
