//! A body by its content type: JSON where it is JSON, a form where it is one, else text.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::draft::{DraftBody, DraftRequest, for_each_string, literal};
use super::multipart;
use super::secret_names::{is_secret_name, is_secret_parameter};
use super::secrets::Secrets;
use super::url;

const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// Sets a request's body from what was sent. `text` is a template; the type is the request's
/// header, or else `own_type`.
pub(super) fn set_body(
    request: &mut DraftRequest,
    text: &str,
    own_type: &str,
    secrets: &mut Secrets,
) {
    let content_type = request
        .header("content-type")
        .unwrap_or(own_type)
        .to_owned();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let media_type = media_type.to_ascii_lowercase();
    let parsed = if is_json(&media_type) {
        json(request, text, secrets).map(DraftBody::Json)
    } else if media_type == FORM_TYPE {
        form(text, secrets).map(DraftBody::Form)
    } else if media_type == "multipart/form-data" {
        multipart::parse(&content_type, text).map(DraftBody::Multipart)
    } else {
        None
    };
    if parsed.is_none() && media_type == FORM_TYPE && document(text).is_some() {
        request.notes.push(
            "The body is JSON, but was sent as a form, as it stands here. If it should be JSON, \
             write content_type = \"application/json\"."
                .to_owned(),
        );
    }
    request.body = parsed.unwrap_or_else(|| DraftBody::Text {
        content_type,
        text: text.to_owned(),
    });
    if let DraftBody::Multipart(parts) = &mut request.body {
        let secret = parts.iter_mut().filter(|part| is_secret_name(&part.name));
        for part in secret.filter(|part| !part.is_file) {
            part.content = secrets.hide_value(&part.name, &part.content);
        }
    }
}

pub(super) fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json")
}

/// A JSON document whose strings are templates, credentials hidden.
fn json(request: &mut DraftRequest, text: &str, secrets: &mut Secrets) -> Option<Json> {
    let mut document = document(text)?;
    for name in hide_fields(&mut document, secrets) {
        request.notes.push(format!(
            "`{name}` was a number: its variable is sent as a text."
        ));
    }
    Some(document)
}

/// A text as a document, if that is what it is and stays. Only objects and lists: that is what a
/// scenario's `json` is read as by everybody.
fn document(text: &str) -> Option<Json> {
    // What isn't JSON is told by being sent as text.
    let document: Json = serde_json::from_str(text).ok()?;
    if !document.is_object() && !document.is_array() {
        return None;
    }
    // Numbers that would change, as 10.00 or 30 digits, keep their text; its credentials are hidden
    // as those of any text.
    let again = serde_json::to_string(&document).ok()?;
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).count();
    (digits(&again) == digits(text)).then_some(document)
}

/// Hides the strings and numbers of fields that are named as credentials; the names of those that
/// were numbers.
fn hide_fields(document: &mut Json, secrets: &mut Secrets) -> BTreeSet<String> {
    let mut numbers = BTreeSet::new();
    match document {
        Json::Object(fields) => {
            for (name, field) in fields {
                if is_secret_name(name) {
                    if as_texts(field) {
                        numbers.insert(name.clone());
                    }
                    for_each_string(field, &mut |text| *text = secrets.hide_value(name, text));
                } else {
                    numbers.append(&mut hide_fields(field, secrets));
                }
            }
        }
        Json::Array(items) => {
            for item in items {
                numbers.append(&mut hide_fields(item, secrets));
            }
        }
        _ => {}
    }
    numbers
}

/// Turns numbers into texts; whether there was one.
fn as_texts(value: &mut Json) -> bool {
    match value {
        Json::Number(number) => {
            *value = Json::String(number.to_string());
            true
        }
        // All of them, also behind the first.
        Json::Array(items) => {
            items
                .iter_mut()
                .filter_map(|item| as_texts(item).then_some(()))
                .count()
                > 0
        }
        Json::Object(fields) => {
            let fields = fields.values_mut();
            fields
                .filter_map(|field| as_texts(field).then_some(()))
                .count()
                > 0
        }
        Json::Null | Json::Bool(_) | Json::String(_) => false,
    }
}

/// The fields of a URL-encoded form, if that is all that the text can be.
fn form(text: &str, secrets: &mut Secrets) -> Option<Vec<(String, String)>> {
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"<>\\^`|".contains(c);
    let shape = text.split('&').all(|piece| {
        piece
            .split_once('=')
            .is_some_and(|(name, _)| !name.is_empty())
    });
    // Braces may only be those of variables.
    let braces = super::draft::map_literals(text, |part| part.replace(['{', '}'], " "));
    if text.is_empty() || !shape || !braces.chars().all(|c| is_plain(c) || c == '$') {
        return None;
    }
    let mut pairs = url::pairs(text)?;
    for (name, value) in &mut pairs {
        if is_secret_name(name) {
            *value = secrets.hide_value(name, value);
        }
    }
    Some(pairs)
}

/// Hides the values of a query's parameters that are named as credentials.
pub(super) fn hide_query(query: &mut [(String, String)], secrets: &mut Secrets) {
    for (name, value) in query {
        if is_secret_parameter(name, value) {
            *value = secrets.hide_value(name, value);
        }
    }
}

/// A text that was recorded, as a template.
pub(super) fn recorded(text: &str) -> String {
    literal(text)
}
