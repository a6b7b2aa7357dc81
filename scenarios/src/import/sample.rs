//! A value that a JSON Schema accepts: its example if it has one, else the smallest thing of its
//! kind.

use serde_json::{Map, Value as Json, json};

use super::openapi::Description;

/// Schemas may hold themselves.
const DEPTH_MAX: usize = 12;

/// A sample of a schema; `None` where nothing can be said of it.
pub(super) fn of_schema(description: &Description, schema: &Json) -> Option<Json> {
    sample(description, schema, 0)
}

fn sample(description: &Description, schema: &Json, depth: usize) -> Option<Json> {
    if depth > DEPTH_MAX {
        return None;
    }
    // A reference that leads nowhere was refused when the description was read.
    let schema = description.resolved(schema)?;
    if let Some(given) = given(schema) {
        return Some(given);
    }
    if let Some(all) = schema.get("allOf").and_then(Json::as_array) {
        return Some(merged(description, schema, all, depth));
    }
    for key in ["oneOf", "anyOf"] {
        let alternatives = schema.get(key).and_then(Json::as_array);
        let mut samples = alternatives
            .into_iter()
            .flatten()
            .filter(|alternative| alternative["type"] != "null")
            .filter_map(|alternative| sample(description, alternative, depth + 1));
        if let Some(first) = samples.next() {
            return Some(first);
        }
    }
    match kind(schema) {
        "object" => Some(object(description, schema, depth)),
        "array" => {
            let item = schema.get("items");
            let item = item.and_then(|item| sample(description, item, depth + 1));
            let count = schema["minItems"].as_u64().unwrap_or(1).clamp(1, 20);
            Some(item.map_or_else(|| json!([]), |item| vec![item; count as usize].into()))
        }
        "integer" => Some(integer(schema)),
        "number" => Some(number(schema)),
        "boolean" => Some(json!(true)),
        "null" => Some(Json::Null),
        "string" => Some(Json::String(text(schema))),
        _ => None,
    }
}

/// What the schema itself gives.
fn given(schema: &Json) -> Option<Json> {
    let first = |key: &str| schema.get(key)?.as_array()?.first().cloned();
    schema
        .get("example")
        .cloned()
        .or_else(|| first("examples"))
        .or_else(|| {
            schema
                .get("default")
                .filter(|value| !value.is_null())
                .cloned()
        })
        .or_else(|| schema.get("const").cloned())
        .or_else(|| first("enum"))
}

/// Its type; of several, the first that isn't `null`. Keys tell where the type doesn't.
fn kind(schema: &Json) -> &str {
    match &schema["type"] {
        Json::String(kind) => kind,
        Json::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Json::as_str);
            kinds.find(|kind| *kind != "null").unwrap_or("null")
        }
        _ if schema.get("properties").is_some() => "object",
        _ if schema.get("items").is_some() => "array",
        _ if schema.get("format").is_some() => "string",
        _ => "",
    }
}

fn merged(description: &Description, schema: &Json, all: &[Json], depth: usize) -> Json {
    let mut fields = Map::new();
    let mut other = Json::Null;
    let own = schema.get("properties").map(|_| {
        let mut own = schema.clone();
        if let Some(own) = own.as_object_mut() {
            own.remove("allOf");
        }
        own
    });
    for part in all.iter().chain(&own) {
        match sample(description, part, depth + 1) {
            Some(Json::Object(part)) => fields.extend(part),
            Some(value) => other = value,
            None => {}
        }
    }
    if fields.is_empty() {
        other
    } else {
        Json::Object(fields)
    }
}

/// The required properties, or all of them where none is. Read-only ones aren't sent.
fn object(description: &Description, schema: &Json, depth: usize) -> Json {
    let Some(properties) = schema.get("properties").and_then(Json::as_object) else {
        return json!({});
    };
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let mut fields = Map::new();
    for (name, property) in properties {
        let is_wanted = required.is_empty() || required.contains(&name.as_str());
        let is_read_only = description
            .resolved(property)
            .is_some_and(|property| property["readOnly"] == true);
        if is_wanted
            && !is_read_only
            && let Some(value) = sample(description, property, depth + 1)
        {
            fields.insert(name.clone(), value);
        }
    }
    Json::Object(fields)
}

fn integer(schema: &Json) -> Json {
    let at_least = schema["minimum"].as_i64();
    let above = schema["exclusiveMinimum"]
        .as_i64()
        .map(|above| above.saturating_add(1));
    let at_most = schema["maximum"].as_i64();
    let least = at_least.or(above).unwrap_or(1);
    json!(at_most.map_or(least, |at_most| least.min(at_most)))
}

fn number(schema: &Json) -> Json {
    let least = schema["minimum"].as_f64().unwrap_or(1.0);
    let at_most = schema["maximum"].as_f64();
    json!(at_most.map_or(least, |at_most| least.min(at_most)))
}

fn text(schema: &Json) -> String {
    let known = match schema["format"].as_str().unwrap_or_default() {
        "uuid" => "3fa85f64-5717-4562-b3fc-2c963f66afa6",
        "date" => "2025-01-31",
        "date-time" => "2025-01-31T12:00:00Z",
        "time" => "12:00:00",
        "duration" => "PT1M",
        "email" => "user@example.com",
        "uri" | "url" | "uri-reference" => "https://example.com/",
        "hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "byte" => "dGV4dA==",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let least = schema["minLength"].as_u64().unwrap_or(0).min(10_000) as usize;
    let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
    let mut text = "text".to_owned();
    while text.len() < least {
        text.push('x');
    }
    text.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    text
}
