//! Writes a draft as a scenario file for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value as Json;

use super::draft::{Draft, DraftBody, DraftPart, DraftRequest, DraftVar, variables};

/// Deeper documents are written as text: the reader of TOML has a bound of its own.
const JSON_DEPTH_MAX: usize = 40;
/// The width of comments.
const COMMENT_CHARS_MAX: usize = 90;

/// The file's text.
pub(super) fn write(draft: &Draft) -> String {
    let mut out = String::new();
    for note in &draft.notes {
        comment(note, &mut out);
    }
    line(&mut out, "name", &quoted(&draft.name));
    if !draft.describe.is_empty() {
        line(&mut out, "describe", &quoted(&one_line(&draft.describe)));
    }
    write_vars(&draft.vars, &mut out);
    write_client(draft, &mut out);
    if !draft.hosts.is_empty() {
        out.push_str("\n[hosts]\n");
        for (name, url) in &draft.hosts {
            line(&mut out, &key(name), &quoted(url));
        }
    }
    if !draft.default_headers.is_empty() {
        out.push_str("\n[defaults]\n");
        line(&mut out, "headers", &table(&draft.default_headers));
    }
    for request in &draft.requests {
        out.push_str("\n[[request]]\n");
        write_request(request, &mut out);
    }
    out
}

fn write_vars(vars: &BTreeMap<String, DraftVar>, out: &mut String) {
    if vars.is_empty() {
        return;
    }
    out.push_str("\n[vars]\n");
    for (name, var) in vars {
        let (value, note) = match var {
            DraftVar::Literal(value) => (inline(value, 0).unwrap_or_else(|| quoted("")), None),
            DraftVar::Environment {
                name,
                default,
                secret,
                note,
            } => {
                let otherwise = match default {
                    Some(default) => format!("default = {}", quoted(default)),
                    None => "optional = true".to_owned(),
                };
                let secret = if *secret { ", secret = true" } else { "" };
                let value = format!("{{ env = {}, {otherwise}{secret} }}", quoted(name));
                (value, note.as_deref())
            }
        };
        let behind = note.map_or(String::new(), |note| format!("  # {}", one_line(note)));
        line(out, &key(name), &(value + &behind));
    }
}

fn write_client(draft: &Draft, out: &mut String) {
    let client = &draft.client;
    let mut lines = String::new();
    if let Some(http) = client.http {
        line(&mut lines, "http", &quoted(http));
    }
    if client.redirects_max > 0 {
        line(
            &mut lines,
            "redirects_max",
            &client.redirects_max.to_string(),
        );
    }
    if client.cookies {
        line(&mut lines, "cookies", "true");
    }
    if client.compression {
        line(&mut lines, "compression", "true");
    }
    if !lines.is_empty() {
        out.push_str("\n[client]\n");
        out.push_str(&lines);
    }
}

fn write_request(request: &DraftRequest, out: &mut String) {
    for note in &request.notes {
        comment(note, out);
    }
    line(out, "name", &quoted(&request.name));
    line(out, "method", &quoted(&request.method));
    if let Some(host) = &request.host {
        line(out, "host", &quoted(host));
    }
    line(out, "path", &quoted(&request.path));
    if !request.query.is_empty() {
        line(out, "query", &table(&request.query));
    }
    let mut headers = request.headers.clone();
    let body = body(&request.body, &mut headers);
    if !headers.is_empty() {
        line(out, "headers", &table(&headers));
    }
    out.push_str(&body);
    if let Some(timeout) = &request.timeout {
        line(out, "timeout", &quoted(timeout));
    }
    match request.status.as_slice() {
        [] => {}
        [status] => line(out, "expect", &format!("{{ status = {status} }}")),
        several => line(out, "expect", &format!("{{ status = {several:?} }}")),
    }
    if let Some(decoder) = request.decoder {
        line(
            out,
            "stream",
            &format!("{{ decoder = {} }}", quoted(decoder)),
        );
    }
}

/// The body's lines. What a body says of its own type is no header beside it.
fn body(body: &DraftBody, headers: &mut Vec<(String, String)>) -> String {
    let mut out = String::new();
    let mut drop_type = |own: &str| {
        headers.retain(|(name, value)| name != "content-type" || !value.eq_ignore_ascii_case(own));
    };
    match body {
        DraftBody::Empty => {}
        DraftBody::Json(json) => match inline(json, 0) {
            Some(inline) => {
                drop_type("application/json");
                line(&mut out, "json", &inline);
            }
            // TOML knows no null.
            None => text_body(
                &mut out,
                headers,
                "application/json",
                &quoted(&json.to_string()),
            ),
        },
        DraftBody::Form(pairs) => {
            drop_type("application/x-www-form-urlencoded");
            line(&mut out, "form", &table(pairs));
        }
        DraftBody::Multipart(parts) => {
            headers.retain(|(name, _)| name != "content-type");
            let parts = parts
                .iter()
                .map(|part| (part.name.as_str(), part_value(part)));
            line(&mut out, "multipart", &grouped_table(parts));
        }
        DraftBody::Text { content_type, text } => {
            text_body(&mut out, headers, content_type, &quoted(text));
        }
        DraftBody::File { content_type, file } => {
            let file = format!("{{ file = {} }}", quoted(file));
            text_body(&mut out, headers, content_type, &file);
        }
    }
    out
}

fn text_body(
    out: &mut String,
    headers: &mut Vec<(String, String)>,
    content_type: &str,
    body: &str,
) {
    // `content_type` is the header; only one with variables stays a header, which wins.
    let is_own = |(name, value): &(String, String)| {
        name == "content-type" && variables(value).is_empty() && !value.is_empty()
    };
    let own = headers.iter().position(is_own);
    let own = own.map(|at| headers.remove(at).1);
    line(out, "body", body);
    let content_type = own.as_deref().unwrap_or(content_type);
    line(out, "content_type", &quoted(content_type));
}

fn part_value(part: &DraftPart) -> String {
    let told: Vec<String> = [
        ("filename", &part.filename),
        ("content_type", &part.content_type),
    ]
    .into_iter()
    .filter_map(|(key, value)| {
        let value = value.as_ref()?;
        Some(format!(", {key} = {}", quoted(value)))
    })
    .collect();
    let content = quoted(&part.content);
    if part.is_file {
        format!("{{ file = {content}{} }}", told.concat())
    } else if told.is_empty() {
        content
    } else {
        format!("{{ text = {content}{} }}", told.concat())
    }
}

fn line(out: &mut String, key: &str, value: &str) {
    // Writing to a String can't fail.
    let _ = writeln!(out, "{key} = {value}");
}

/// Pairs as an inline table of texts.
fn table(pairs: &[(String, String)]) -> String {
    grouped_table(
        pairs
            .iter()
            .map(|(name, value)| (name.as_str(), quoted(value))),
    )
}

/// An inline table; a name that comes again makes a list.
fn grouped_table<'p>(pairs: impl Iterator<Item = (&'p str, String)>) -> String {
    let mut grouped: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, value) in pairs {
        match grouped.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => grouped.push((name, vec![value])),
        }
    }
    let entries: Vec<String> = grouped
        .into_iter()
        .map(|(name, values)| match values.as_slice() {
            [value] => format!("{} = {value}", key(name)),
            several => format!("{} = [{}]", key(name), several.join(", ")),
        })
        .collect();
    format!("{{ {} }}", entries.join(", "))
}

/// A document as an inline value; `None` if TOML can't hold it.
fn inline(json: &Json, depth: usize) -> Option<String> {
    if depth > JSON_DEPTH_MAX {
        return None;
    }
    match json {
        Json::Null => None,
        Json::Bool(value) => Some(value.to_string()),
        Json::Number(number) if number.is_i64() => Some(number.to_string()),
        Json::Number(number) if number.is_u64() => None,
        // With its point or exponent, so that it stays a float.
        Json::Number(number) => number.as_f64().map(|value| format!("{value:?}")),
        Json::String(text) => Some(quoted(text)),
        Json::Array(items) => {
            let items: Option<Vec<String>> =
                items.iter().map(|item| inline(item, depth + 1)).collect();
            Some(format!("[{}]", items?.join(", ")))
        }
        Json::Object(fields) if fields.is_empty() => Some("{}".to_owned()),
        Json::Object(fields) => {
            let fields: Option<Vec<String>> = fields
                .iter()
                .map(|(name, field)| Some(format!("{} = {}", key(name), inline(field, depth + 1)?)))
                .collect();
            Some(format!("{{ {} }}", fields?.join(", ")))
        }
    }
}

/// A key, bare where it may be.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// A basic string. One with backslashes or quotes reads better as a literal one.
fn quoted(text: &str) -> String {
    let is_plain = !text.chars().any(|c| c.is_control() || c == '\'');
    if is_plain && text.contains(['"', '\\']) {
        return format!("'{text}'");
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                // Writing to a String can't fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ");
    line.chars().filter(|c| !c.is_control()).collect()
}

fn comment(text: &str, out: &mut String) {
    let mut width = 0;
    for word in one_line(text).split(' ') {
        let letters = word.chars().count();
        if width == 0 || width + letters > COMMENT_CHARS_MAX {
            if width > 0 {
                out.push('\n');
            }
            out.push('#');
            width = 0;
        }
        out.push(' ');
        out.push_str(word);
        width += letters + 1;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_toml_can_not_hold_is_none() {
        let document = serde_json::json!({"a b": [1, 1.0, true, "x\"y"], "e": {}});
        let text = inline(&document, 0).unwrap();
        assert_eq!(text, r#"{ "a b" = [1, 1.0, true, 'x"y'], e = {} }"#);
        assert_eq!(inline(&serde_json::json!([null]), 0), None);
        assert_eq!(inline(&serde_json::json!(u64::MAX), 0), None);
    }

    proptest! {
        #[test]
        fn any_text_survives_as_a_value_and_as_a_key(text in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
            let file = format!("{} = {}", key(&text), quoted(&text));
            let read: serde_json::Value = toml::from_str(&file).unwrap();
            prop_assert_eq!(read, serde_json::json!({ text.clone(): text }));
        }

        #[test]
        fn any_note_is_a_comment(text in "\\PC{0,200}|[\\x00-\\x7f]{0,60}") {
            let mut out = String::new();
            comment(&text, &mut out);
            let read: serde_json::Value = toml::from_str(&out).unwrap();
            prop_assert_eq!(read, serde_json::json!({}));
        }
    }
}
