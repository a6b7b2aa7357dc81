//! OpenAPI 3.0 and 3.1: one request per operation, filled with the description's own examples or
//! the smallest value that its schemas accept.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::ImportError;
use super::draft::{Draft, DraftRequest, DraftVar, literal};
use super::openapi_security::Credential;
use super::sample;
use super::secret_names::is_secret_name;
use super::secrets::{snake_case, variable_name};

/// A path's methods, in the order in which they stand in a scenario.
const METHODS: [&str; 7] = ["get", "head", "options", "post", "put", "patch", "delete"];
/// References may lead to references.
const REFERENCES_MAX: usize = 32;

/// A description, as one document.
pub(super) struct Description {
    pub(super) root: Json,
}

impl Description {
    /// What a value stands for: itself, or what it refers to; `None` if that is nowhere.
    pub(super) fn resolved<'v>(&'v self, value: &'v Json) -> Option<&'v Json> {
        let mut value = value;
        for _ in 0..REFERENCES_MAX {
            let Some(reference) = value.get("$ref").and_then(Json::as_str) else {
                return Some(value);
            };
            value = self.root.pointer(reference.strip_prefix('#')?)?;
        }
        None
    }

    /// As [`Self::resolved`], with an error for people.
    pub(super) fn resolve<'v>(
        &'v self,
        value: &'v Json,
        place: &str,
    ) -> Result<&'v Json, ImportError> {
        self.resolved(value).ok_or_else(|| {
            let reference = value["$ref"].as_str().unwrap_or_default();
            let (what, fix) = if reference.starts_with('#') {
                ("leads nowhere, or in a circle", "add what it names, or take it out")
            } else {
                (
                    "leads into another file",
                    "bundle the description into one file first (redocly bundle, swagger-cli bundle)",
                )
            };
            ImportError::new(place, format!("the reference `{reference}` {what}"), fix)
        })
    }

    fn object(&self, pointer: &str) -> impl Iterator<Item = (&String, &Json)> {
        let object = self.root.pointer(pointer).and_then(Json::as_object);
        object.into_iter().flatten()
    }
}

/// Reads a description.
pub(super) fn read(text: &str) -> Result<Draft, ImportError> {
    let root = parse(text.trim_start_matches('\u{feff}'))?;
    check_version(&root)?;
    let description = Description { root };
    let mut import = Import {
        draft: Draft {
            name: description.root["info"]["title"]
                .as_str()
                .unwrap_or("api")
                .to_owned(),
            describe: describe(&description.root),
            ..Draft::default()
        },
        description: &description,
        schemes: BTreeMap::new(),
        credentials: BTreeMap::new(),
    };
    import.servers();
    for (path, item) in description.object("/paths") {
        let place = format!("#/paths/{}", escaped(path));
        let item = description.resolve(item, &place)?;
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                let place = format!("{place}/{method}");
                import.operation(path, item, method, operation, &place)?;
            }
        }
    }
    if import.draft.requests.is_empty() {
        return Err(ImportError::new(
            "#/paths",
            "the description has no operation",
            "add at least one path with `get`, `post`, …",
        ));
    }
    Ok(import.draft)
}

/// JSON by its first letter, else YAML.
fn parse(text: &str) -> Result<Json, ImportError> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| {
            let message = error.to_string();
            let reason = message.split(" at line ").next().unwrap_or(&message);
            let fix = "mend the JSON here";
            ImportError::at_line(error.line(), format!("not JSON: {reason}"), fix)
        });
    }
    super::yaml::parse(text)
}

fn check_version(root: &Json) -> Result<(), ImportError> {
    let version = match &root["openapi"] {
        Json::String(version) => version.clone(),
        Json::Null if root.get("swagger").is_some() => {
            return Err(ImportError::new(
                "#/swagger",
                "this is Swagger 2, expected OpenAPI 3.0 or 3.1",
                "convert it first (swagger2openapi, or editor.swagger.io)",
            ));
        }
        other => other.to_string(),
    };
    if version.starts_with("3.0") || version.starts_with("3.1") {
        return Ok(());
    }
    let what = match version.as_str() {
        "null" => "`openapi` is missing, expected 3.0 or 3.1".to_owned(),
        version => format!("version {version}, expected 3.0 or 3.1"),
    };
    let fix = "give an OpenAPI description, as JSON or YAML, that begins with `openapi: 3.1.0`";
    Err(ImportError::new("#/openapi", what, fix))
}

fn describe(root: &Json) -> String {
    let title = root["info"]["title"].as_str().unwrap_or("an API");
    format!("Every operation of {title}, by its OpenAPI description")
}

/// A key inside a JSON pointer.
pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// An import in the making.
pub(super) struct Import<'d> {
    pub(super) description: &'d Description,
    pub(super) draft: Draft,
    /// Security scheme → how it is sent; declared once it is used.
    pub(super) schemes: BTreeMap<String, Vec<Credential>>,
    /// What a credential is for → its variable.
    credentials: BTreeMap<String, String>,
}

impl Import<'_> {
    fn servers(&mut self) {
        let servers = self.description.root["servers"].as_array();
        for server in servers.into_iter().flatten() {
            let url = server["url"].as_str().unwrap_or_default();
            let note = if url.starts_with('/') && url.len() > 1 {
                format!("All paths are below {url}: give --target http://HOST{url}.")
            } else if url.contains("://") {
                format!("A server of the description: --target {url}")
            } else {
                continue;
            };
            self.draft.note(note);
        }
    }

    fn operation(
        &mut self,
        path: &str,
        item: &Json,
        method: &str,
        operation: &Json,
        place: &str,
    ) -> Result<(), ImportError> {
        let upper = method.to_ascii_uppercase();
        if operation["deprecated"] == true {
            self.draft
                .note(format!("Left out: {upper} {path}, which is deprecated."));
            return Ok(());
        }
        let mut request = DraftRequest {
            name: format!("{upper} {path}"),
            method: upper,
            path: literal(path),
            ..DraftRequest::default()
        };
        if let Some(summary) = operation["summary"]
            .as_str()
            .or(operation["operationId"].as_str())
        {
            request.notes.push(summary.to_owned());
        }
        if method == "delete" {
            request
                .notes
                .push("It takes away what later iterations may ask for.".to_owned());
        }
        self.parameters(&mut request, item, operation, place)?;
        self.check_path(&request, place)?;
        self.body(&mut request, operation, place)?;
        self.answers(&mut request, operation, place)?;
        self.security(&mut request, operation, place)?;
        self.draft.requests.push(request);
        Ok(())
    }

    /// The path's and the operation's, of which the latter wins.
    fn parameters(
        &mut self,
        request: &mut DraftRequest,
        item: &Json,
        operation: &Json,
        place: &str,
    ) -> Result<(), ImportError> {
        let mut parameters: BTreeMap<(String, String), &Json> = BTreeMap::new();
        let mut order = Vec::new();
        let description = self.description;
        for owner in [item, operation] {
            let listed = owner["parameters"].as_array();
            for (index, parameter) in listed.into_iter().flatten().enumerate() {
                let place = format!("{place}/parameters/{index}");
                let parameter = description.resolve(parameter, &place)?;
                let text = |key: &str| parameter[key].as_str().unwrap_or_default().to_owned();
                let key = (text("in"), text("name"));
                if !order.contains(&key) {
                    order.push(key.clone());
                }
                parameters.insert(key, parameter);
            }
        }
        for key in order {
            let Some(parameter) = parameters.get(&key) else {
                continue;
            };
            let (place_in, name) = key;
            let is_path = place_in == "path";
            if is_path || parameter["required"] == true {
                self.parameter(request, &place_in, &name, parameter);
            }
        }
        Ok(())
    }

    fn parameter(&mut self, request: &mut DraftRequest, place: &str, name: &str, parameter: &Json) {
        let value = self.parameter_value(parameter);
        let texts = match &value {
            Json::Array(items) => items.iter().map(plain).collect(),
            other => vec![plain(other)],
        };
        let text = texts.first().cloned().unwrap_or_default();
        let secret = is_secret_name(name) && place != "path";
        match place {
            "path" => {
                let variable = self.variable(name, &value);
                let written = format!("{{{name}}}");
                request.path = request.path.replace(&written, &format!("${{{variable}}}"));
            }
            "query" => {
                let hidden = secret.then(|| self.credential(name));
                let values = hidden.map_or(texts, |hidden| vec![hidden]);
                let pairs = values.into_iter().map(|value| (name.to_owned(), value));
                request.query.extend(pairs);
            }
            "header" => {
                // These are said to be ignored here.
                let ignored = ["accept", "content-type", "authorization"];
                if !ignored.contains(&name.to_ascii_lowercase().as_str()) {
                    let value = if secret { self.credential(name) } else { text };
                    request.set_header(name, value);
                }
            }
            "cookie" => {
                let value = if secret { self.credential(name) } else { text };
                add_cookie(request, name, &value);
            }
            _ => {}
        }
    }

    fn parameter_value(&self, parameter: &Json) -> Json {
        if let Some(example) = self.example(parameter) {
            return example;
        }
        let by_content = parameter["content"]
            .as_object()
            .and_then(|content| content.values().next());
        if let Some(media) = by_content {
            // A parameter of this kind is JSON in a string.
            let value = self.media_value(media).unwrap_or(Json::Null);
            return Json::String(value.to_string());
        }
        sample::of_schema(self.description, &parameter["schema"])
            .unwrap_or_else(|| Json::String("text".to_owned()))
    }

    /// `example`, or the first of `examples`, beside a schema.
    fn example(&self, owner: &Json) -> Option<Json> {
        if let Some(example) = owner.get("example") {
            return Some(example.clone());
        }
        let first = owner.get("examples")?.as_object()?.values().next()?;
        self.description.resolved(first)?.get("value").cloned()
    }

    pub(super) fn media_value(&self, media: &Json) -> Option<Json> {
        self.example(media)
            .or_else(|| sample::of_schema(self.description, media.get("schema")?))
    }

    /// A variable for a path's parameter: one name and value is one variable.
    fn variable(&mut self, name: &str, value: &Json) -> String {
        let value = match value {
            Json::String(text) => Json::String(literal(text)),
            Json::Number(_) | Json::Bool(_) => value.clone(),
            other => Json::String(literal(&plain(other))),
        };
        let base = variable_name(name);
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let wanted = DraftVar::Literal(value);
        let variable = std::iter::once(base.clone())
            .chain(numbered)
            .find(|name| self.draft.vars.get(name).is_none_or(|var| *var == wanted))
            .unwrap_or(base);
        self.draft.vars.insert(variable.clone(), wanted);
        variable
    }

    /// A secret variable for a field or parameter, which the environment fills.
    pub(super) fn credential(&mut self, name: &str) -> String {
        self.credential_for(&format!("field {}", snake_case(name)), name, None)
    }

    /// A secret variable that the environment fills: one for each `purpose`, so that none goes where
    /// another is asked for.
    pub(super) fn credential_for(
        &mut self,
        purpose: &str,
        name: &str,
        note: Option<&str>,
    ) -> String {
        if let Some(variable) = self.credentials.get(purpose) {
            return format!("${{{variable}}}");
        }
        let base = snake_case(name);
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let is_free = |name: &String| {
            let mut taken = self.draft.vars.keys();
            taken.all(|taken| !taken.eq_ignore_ascii_case(name))
        };
        let variable = std::iter::once(base.clone())
            .chain(numbered)
            .find(is_free)
            .unwrap_or(base);
        let wanted = DraftVar::Environment {
            name: variable.to_ascii_uppercase(),
            default: None,
            secret: true,
            note: note.map(str::to_owned),
        };
        self.draft.vars.insert(variable.clone(), wanted);
        let shown = format!("${{{variable}}}");
        self.credentials.insert(purpose.to_owned(), variable);
        shown
    }

    /// Every `{name}` of the path must have been a parameter.
    fn check_path(&self, request: &DraftRequest, place: &str) -> Result<(), ImportError> {
        let path = request.path.replace("${", "");
        let Some((_, rest)) = path.split_once('{') else {
            return Ok(());
        };
        let name = rest.split('}').next().unwrap_or(rest);
        Err(ImportError::new(
            format!("{place}/parameters"),
            format!("the path's `{{{name}}}` is no parameter"),
            format!("add a parameter `{name}` with `in: path`"),
        ))
    }
}

pub(super) fn add_cookie(request: &mut DraftRequest, name: &str, value: &str) {
    let cookie = format!("{name}={value}");
    let joined = match request.header("cookie") {
        Some(before) => format!("{before}; {cookie}"),
        None => cookie,
    };
    request.set_header("cookie", joined);
}

/// A value inside a text, as a template.
pub(super) fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => literal(text),
        other => literal(&other.to_string()),
    }
}
