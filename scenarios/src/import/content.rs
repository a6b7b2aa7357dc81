//! A body by its content type: JSON where it is JSON, a form where it is one, else text.

use serde_json::Value as Json;

use super::draft::{DraftBody, DraftRequest, for_each_string, literal};
use super::multipart;
use super::secrets::{Secrets, is_secret_name};
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
        json(text, secrets).map(DraftBody::Json)
    } else if media_type == FORM_TYPE {
        form(text, secrets).map(DraftBody::Form)
    } else if media_type == "multipart/form-data" {
        multipart::parse(&content_type, text).map(DraftBody::Multipart)
    } else {
        None
    };
    if parsed.is_none() && media_type == FORM_TYPE && json(text, secrets).is_some() {
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
            part.content = hide(secrets, &part.name, &part.content);
        }
    }
}

pub(super) fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json")
}

/// A JSON document whose strings are templates, credentials hidden. Only objects and lists: that
/// is what a scenario's `json` is read as by everybody.
fn json(text: &str, secrets: &mut Secrets) -> Option<Json> {
    // What isn't JSON is told by being sent as text.
    let mut document: Json = serde_json::from_str(text).ok()?;
    if !document.is_object() && !document.is_array() {
        return None;
    }
    // Numbers that would change, as 1e400 or 30 digits, keep their text.
    let again = serde_json::to_string(&document).ok()?;
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).count();
    if digits(&again) != digits(text) {
        return None;
    }
    hide_fields(&mut document, secrets);
    Some(document)
}

/// Hides the strings of fields that are named as credentials.
pub(super) fn hide_fields(document: &mut Json, secrets: &mut Secrets) {
    match document {
        Json::Object(fields) => {
            for (name, field) in fields {
                if is_secret_name(name) {
                    for_each_string(field, &mut |text| *text = hide(secrets, name, text));
                } else {
                    hide_fields(field, secrets);
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| hide_fields(item, secrets)),
        _ => {}
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
            *value = hide(secrets, name, value);
        }
    }
    Some(pairs)
}

/// Hides a literal value; one that is made of variables has nothing to hide.
pub(super) fn hide(secrets: &mut Secrets, name: &str, value: &str) -> String {
    if value.is_empty() || !super::draft::variables(value).is_empty() {
        return value.to_owned();
    }
    let plain = value.replace("$${", "${");
    secrets.hide(name, &plain, None)
}

/// Hides the values of a query's parameters that are named as credentials.
pub(super) fn hide_query(query: &mut [(String, String)], secrets: &mut Secrets) {
    for (name, value) in query {
        if is_secret_name(name) {
            *value = hide(secrets, name, value);
        }
    }
}

/// A text that was recorded, as a template.
pub(super) fn recorded(text: &str) -> String {
    literal(text)
}
