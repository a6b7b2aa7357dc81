//! A value that a JSON Schema accepts: its example if it has one, else the smallest thing of its
//! kind.

use serde_json::{Map, Value as Json, json};

use super::openapi::Description;

/// The values of one sample: schemas that hold each other could make one without end.
const VALUES_MAX: usize = 5_000;
/// As many characters of a given example count as one value.
const VALUE_CHARS: usize = 100;
/// More items than this show nothing more.
const ITEMS_MAX: u64 = 20;
/// Deeper ones are nobody's example.
const DEPTH_MAX: usize = 50;

/// A sample of a schema; `None` where nothing can be said of it.
pub(super) fn of_schema(description: &Description, schema: &Json) -> Option<Json> {
    let mut sampler = Sampler {
        description,
        within: Vec::new(),
        values: 0,
    };
    sampler.sample(schema)
}

struct Sampler<'d> {
    description: &'d Description,
    /// The schemas around this one: inside of itself a schema is left out.
    within: Vec<*const Json>,
    values: usize,
}

impl Sampler<'_> {
    fn sample(&mut self, schema: &Json) -> Option<Json> {
        // A reference that leads nowhere makes no sample, as if it weren't there.
        let description = self.description;
        let schema = description.resolved(schema)?;
        self.values += 1;
        let is_within_itself = self.within.contains(&std::ptr::from_ref(schema));
        if is_within_itself || self.within.len() >= DEPTH_MAX || self.values > VALUES_MAX {
            return None;
        }
        if let Some(given) = given(schema) {
            self.values += given.to_string().len() / VALUE_CHARS;
            return Some(given);
        }
        self.within.push(std::ptr::from_ref(schema));
        let made = self.made(schema);
        self.within.pop();
        made
    }

    fn made(&mut self, schema: &Json) -> Option<Json> {
        if let Some(all) = schema.get("allOf").and_then(Json::as_array) {
            return Some(self.merged(schema, all));
        }
        for key in ["oneOf", "anyOf"] {
            let alternatives = schema.get(key).and_then(Json::as_array);
            let mut samples = alternatives
                .into_iter()
                .flatten()
                .filter(|alternative| alternative["type"] != "null")
                .filter_map(|alternative| self.sample(alternative));
            if let Some(first) = samples.next() {
                return Some(first);
            }
        }
        match kind(schema) {
            "object" => Some(Json::Object(self.fields(schema))),
            "array" => Some(self.array(schema)),
            "integer" => Some(integer(schema)),
            "number" => Some(number(schema)),
            "boolean" => Some(json!(true)),
            "null" => Some(Json::Null),
            "string" => Some(Json::String(text(schema))),
            _ => None,
        }
    }

    fn merged(&mut self, schema: &Json, all: &[Json]) -> Json {
        let mut fields = Map::new();
        let mut other = Json::Null;
        for part in all {
            match self.sample(part) {
                Some(Json::Object(part)) => fields.extend(part),
                Some(value) => other = value,
                None => {}
            }
        }
        fields.extend(self.fields(schema));
        if fields.is_empty() {
            other
        } else {
            Json::Object(fields)
        }
    }

    /// The required properties, or all of them where none is. Read-only ones aren't sent.
    fn fields(&mut self, schema: &Json) -> Map<String, Json> {
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        let mut fields = Map::new();
        let properties = schema.get("properties").and_then(Json::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let is_wanted = required.is_empty() || required.contains(&name.as_str());
            let resolved = self.description.resolved(property);
            let is_read_only = resolved.is_some_and(|property| property["readOnly"] == true);
            if is_wanted
                && !is_read_only
                && let Some(value) = self.sample(property)
            {
                fields.insert(name.clone(), value);
            }
        }
        fields
    }

    fn array(&mut self, schema: &Json) -> Json {
        let before = self.values;
        let item = schema.get("items").and_then(|item| self.sample(item));
        let Some(item) = item else {
            return json!([]);
        };
        let wanted = schema["minItems"].as_u64().unwrap_or(1).clamp(1, ITEMS_MAX);
        // Items that hold items: each of them counts.
        let more = (self.values - before).saturating_mul(wanted as usize - 1);
        self.values = self.values.saturating_add(more);
        let count = if self.values > VALUES_MAX { 1 } else { wanted };
        vec![item; count as usize].into()
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
