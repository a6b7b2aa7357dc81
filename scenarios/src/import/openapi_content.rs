//! What an operation sends and what it answers, by its description.

use serde_json::Value as Json;

use super::ImportError;
use super::content;
use super::draft::{DraftBody, DraftPart, DraftRequest, for_each_string, literal};
use super::har::decoder;
use super::openapi::{Import, plain};
use super::secret_names::is_secret_name;

impl Import<'_> {
    pub(super) fn body(
        &mut self,
        request: &mut DraftRequest,
        operation: &Json,
        place: &str,
    ) -> Result<(), ImportError> {
        let Some(body) = operation.get("requestBody") else {
            return Ok(());
        };
        let body = self
            .description
            .resolve(body, &format!("{place}/requestBody"))?;
        let Some(content) = body["content"].as_object() else {
            return Ok(());
        };
        if matches!(request.method.as_str(), "GET" | "HEAD") {
            let note = format!("Lost: the body of a {} request.", request.method);
            request.notes.push(note);
            return Ok(());
        }
        let is_form = |name: &str| name.starts_with("application/x-www-form-urlencoded");
        let is_multipart = |name: &str| name.starts_with("multipart/form-data");
        let media_type = |name: &str| name.split(';').next().unwrap_or(name).trim().to_owned();
        let preferred = content
            .iter()
            .find(|(name, _)| content::is_json(&media_type(name)))
            .or_else(|| content.iter().find(|(name, _)| is_form(name)))
            .or_else(|| content.iter().find(|(name, _)| is_multipart(name)))
            .or_else(|| content.iter().next());
        let Some((name, media)) = preferred else {
            return Ok(());
        };
        let value = self.media_value(media);
        request.body = if content::is_json(&media_type(name)) {
            if media_type(name) != "application/json" {
                request.set_header("content-type", name.clone());
            }
            let mut value = value.unwrap_or_else(|| serde_json::json!({}));
            for_each_string(&mut value, &mut |text| *text = literal(text));
            self.hide(&mut value);
            DraftBody::Json(value)
        } else if is_form(name) {
            let pairs = self.fields(value);
            let pairs = pairs.into_iter().flat_map(|(name, values)| {
                values.into_iter().map(move |value| (name.clone(), value))
            });
            DraftBody::Form(pairs.collect())
        } else if is_multipart(name) {
            self.multipart(request, media, value)
        } else {
            DraftBody::Text {
                content_type: name.replace('*', "plain"),
                text: value.as_ref().map(plain).unwrap_or_default(),
            }
        };
        Ok(())
    }

    /// Strings of fields that are named as credentials become secret variables.
    fn hide(&mut self, value: &mut Json) {
        match value {
            Json::Object(fields) => {
                for (name, field) in fields {
                    if is_secret_name(name) && field.is_string() {
                        *field = Json::String(self.credential(name));
                    } else {
                        self.hide(field);
                    }
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            _ => {}
        }
    }

    fn fields(&mut self, value: Option<Json>) -> Vec<(String, Vec<String>)> {
        let Some(Json::Object(fields)) = value else {
            return Vec::new();
        };
        let fields = fields.into_iter().map(|(name, value)| {
            let values = if is_secret_name(&name) {
                vec![self.credential(&name)]
            } else if let Json::Array(items) = &value {
                items.iter().map(plain).collect()
            } else {
                vec![plain(&value)]
            };
            (name, values)
        });
        fields.collect()
    }

    fn multipart(
        &mut self,
        request: &mut DraftRequest,
        media: &Json,
        value: Option<Json>,
    ) -> DraftBody {
        let schema = media
            .get("schema")
            .and_then(|schema| self.description.resolved(schema));
        let properties = schema.and_then(|schema| schema["properties"].as_object());
        let is_file = |name: &str| {
            let property = properties.and_then(|properties| properties.get(name));
            let property = property.and_then(|property| self.description.resolved(property));
            property.is_some_and(|property| {
                property["format"] == "binary" || property.get("contentMediaType").is_some()
            })
        };
        let Some(Json::Object(fields)) = value else {
            return DraftBody::Multipart(Vec::new());
        };
        let files: Vec<String> = fields
            .keys()
            .filter(|name| is_file(name))
            .cloned()
            .collect();
        let mut parts = Vec::new();
        for (name, values) in self.fields(Some(Json::Object(fields))) {
            let is_file = files.contains(&name);
            if is_file {
                request.notes.push(format!(
                    "`{name}` is a file: put one beside this, and write {{ file = \"NAME\" }}."
                ));
            }
            let values = values.into_iter().take(1);
            parts.extend(values.map(|content| DraftPart {
                name: name.clone(),
                content,
                is_file: false,
                filename: is_file.then(|| "file.bin".to_owned()),
                content_type: is_file.then(|| "application/octet-stream".to_owned()),
            }));
        }
        DraftBody::Multipart(parts)
    }

    /// The declared successes, and whether they are streams.
    pub(super) fn answers(
        &self,
        request: &mut DraftRequest,
        operation: &Json,
        place: &str,
    ) -> Result<(), ImportError> {
        let responses = operation["responses"].as_object();
        let mut declared: Vec<(u16, &String, &Json)> = responses
            .into_iter()
            .flatten()
            .filter_map(|(status, response)| Some((status.parse().ok()?, status, response)))
            .collect();
        declared.sort_by_key(|(status, ..)| *status);
        let lowest = if declared
            .iter()
            .any(|(status, ..)| (200..300).contains(status))
        {
            200..300
        } else {
            300..400
        };
        declared.retain(|(status, ..)| lowest.contains(status));
        for (status, written, response) in declared {
            request.status.push(status);
            let place = format!("{place}/responses/{written}");
            let response = self.description.resolve(response, &place)?;
            let types = response["content"].as_object().into_iter().flatten();
            let mut types = types.map(|(name, _)| name.as_str());
            if let Some(name) = types.next() {
                if request.header("accept").is_none() && !name.contains('*') {
                    request.set_header("accept", name.to_owned());
                }
                request.decoder = request
                    .decoder
                    .or(decoder(name))
                    .filter(|_| request.method != "HEAD");
            }
        }
        Ok(())
    }
}
