//! A scenario in the making. All texts are templates as a scenario file has them: `${name}` is a
//! variable, and a literal `${` is written `$${`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::scrub;
use super::secret_names::is_secret_header;
use super::secrets::Secrets;
use crate::resolve::values::REQUEST_NAME_CHARS_MAX;

/// A scenario in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) describe: String,
    /// For the file's head.
    pub(super) notes: Vec<String>,
    pub(super) vars: BTreeMap<String, DraftVar>,
    pub(super) client: DraftClient,
    /// Name → base URL.
    pub(super) hosts: BTreeMap<String, String>,
    /// Headers that all requests have; found by `complete`.
    pub(super) default_headers: Vec<(String, String)>,
    pub(super) requests: Vec<DraftRequest>,
    pub(super) secrets: Secrets,
}

/// A variable in the making.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DraftVar {
    /// A value.
    Literal(Json),
    /// From the environment.
    Environment {
        name: String,
        default: Option<String>,
        secret: bool,
        note: Option<String>,
    },
}

/// How the client behaves, where that is not the default.
#[derive(Debug, Default)]
pub(super) struct DraftClient {
    pub(super) http: Option<&'static str>,
    pub(super) redirects_max: u32,
    pub(super) cookies: bool,
    pub(super) compression: bool,
}

/// A request in the making.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DraftRequest {
    /// Empty: by method and path.
    pub(super) name: String,
    pub(super) notes: Vec<String>,
    pub(super) method: String,
    pub(super) host: Option<String>,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: DraftBody,
    pub(super) status: Vec<u16>,
    pub(super) decoder: Option<&'static str>,
    pub(super) timeout: Option<String>,
}

/// A body in the making.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum DraftBody {
    #[default]
    Empty,
    Json(Json),
    Form(Vec<(String, String)>),
    Multipart(Vec<DraftPart>),
    Text {
        content_type: String,
        text: String,
    },
    File {
        content_type: String,
        file: String,
    },
}

/// A part of a multipart form in the making.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DraftPart {
    pub(super) name: String,
    /// The text, or the file's path.
    pub(super) content: String,
    pub(super) is_file: bool,
    pub(super) filename: Option<String>,
    pub(super) content_type: Option<String>,
}

impl DraftRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn remove_header(&mut self, name: &str) -> Option<String> {
        let at = self.headers.iter().position(|(header, _)| header == name)?;
        Some(self.headers.remove(at).1)
    }

    /// Sets a header; the last one wins, since a scenario has each once.
    pub(super) fn set_header(&mut self, name: &str, value: String) {
        let name = name.to_ascii_lowercase();
        match self.headers.iter_mut().find(|(header, _)| *header == name) {
            Some((_, old)) => *old = value,
            None => self.headers.push((name, value)),
        }
    }

    /// Shows each text to `act`, and whether what it makes may be left out as a whole.
    fn for_each_text(&mut self, act: &mut impl FnMut(&mut String, bool)) {
        act(&mut self.path, false);
        let pairs = self.query.iter_mut().chain(&mut self.headers);
        pairs.for_each(|(_, value)| act(value, true));
        match &mut self.body {
            DraftBody::Empty | DraftBody::File { .. } => {}
            DraftBody::Json(json) => for_each_string(json, &mut |text| act(text, false)),
            DraftBody::Form(pairs) => pairs.iter_mut().for_each(|(_, value)| act(value, true)),
            DraftBody::Multipart(parts) => {
                let texts = parts.iter_mut().filter(|part| !part.is_file);
                texts.for_each(|part| act(&mut part.content, true));
            }
            DraftBody::Text { text, .. } => act(text, false),
        }
    }
}

impl Draft {
    /// Hides what is left of secrets, declares their variables, names the requests, and moves what
    /// all of them have to one place.
    pub(super) fn complete(&mut self) {
        let mut secrets = std::mem::take(&mut self.secrets);
        self.vars.keys().for_each(|name| secrets.reserve(name));
        for request in &mut self.requests {
            super::mend::mend(request);
            request.for_each_text(&mut |text, _| *text = scrub::scrub(text, &mut secrets));
        }
        let (mut used, mut needed) = (BTreeSet::new(), BTreeSet::new());
        for request in &mut self.requests {
            request.for_each_text(&mut |text, can_be_left_out| {
                secrets.cover(text);
                used.extend(variables(text));
                if !can_be_left_out || is_mixed(text) {
                    needed.extend(variables(text));
                }
            });
        }
        for note in self.notes.iter_mut().chain(
            self.requests
                .iter_mut()
                .flat_map(|request| &mut request.notes),
        ) {
            secrets.cover_note(note);
        }
        self.keep_secret(&secrets);
        secrets.declare(&used, &mut self.vars);
        for (name, var) in &mut self.vars {
            if let DraftVar::Environment { default, .. } = var
                && default.is_none()
                && needed.contains(name)
            {
                // Without a value nothing could be sent; this one is seen to be none.
                *default = Some(format!("{name}-is-not-set-${{user}}"));
            }
        }
        let in_hosts = self.hosts.values().flat_map(|url| variables(url));
        used.extend(in_hosts);
        self.vars.retain(|name, _| used.contains(name));
        self.fill_hosts();
        self.name_requests();
        self.share_headers();
    }

    /// Variables of the input that stand where credentials do are secret, and a default that stands
    /// beside such a one is the credential.
    fn keep_secret(&mut self, secrets: &Secrets) {
        let mut lost = Vec::new();
        for (name, var) in &mut self.vars {
            if let DraftVar::Environment {
                default, secret, ..
            } = var
            {
                *secret |= secrets.is_marked(name);
                if default
                    .take_if(|text| *secret || holds_credential(text))
                    .is_some()
                {
                    lost.push(name.clone());
                }
            }
        }
        for name in lost {
            self.note(format!(
                "Left out: the default of {name}, which holds a credential."
            ));
        }
    }

    /// A host's URL must be known before the run.
    fn fill_hosts(&mut self) {
        for url in self.hosts.values() {
            for name in variables(url) {
                if let Some(DraftVar::Environment { default, .. }) = self.vars.get_mut(&name)
                    && variables(default.as_deref().unwrap_or("${user}")).len() == 1
                {
                    let scheme = if url.contains("://") { "" } else { "http://" };
                    *default = Some(format!("{scheme}host-is-not-set.invalid"));
                }
            }
        }
    }

    fn name_requests(&mut self) {
        let mut seen = BTreeSet::new();
        for request in &mut self.requests {
            let name = if request.name.trim().is_empty() {
                format!("{} {}", request.method, request.path)
            } else {
                std::mem::take(&mut request.name)
            };
            let name: String = name
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let mut candidate = cut(name.trim(), REQUEST_NAME_CHARS_MAX);
            let mut number = 2;
            while !seen.insert(candidate.clone()) {
                let suffix = format!(" ({number})");
                candidate = cut(name.trim(), REQUEST_NAME_CHARS_MAX - suffix.len()) + &suffix;
                number += 1;
            }
            request.name = candidate;
        }
    }

    /// A header that each request has with one value becomes a default.
    fn share_headers(&mut self) {
        let [first, _, ..] = self.requests.as_slice() else {
            return;
        };
        // Those of the defaults go to the target only.
        let all_to_target = self.requests.iter().all(|request| request.host.is_none());
        let shared: Vec<(String, String)> = first
            .headers
            .iter()
            .filter(|header| self.requests.iter().all(|r| r.headers.contains(header)))
            .filter(|header| all_to_target || !self.is_credential(header))
            .cloned()
            .collect();
        for request in &mut self.requests {
            request.headers.retain(|header| !shared.contains(header));
        }
        self.default_headers = shared;
    }

    /// Whether a header is a credential, by its name or by what it holds.
    fn is_credential(&self, (name, value): &(String, String)) -> bool {
        let is_secret = |name: &String| {
            let var = self.vars.get(name);
            matches!(var, Some(DraftVar::Environment { secret: true, .. }))
        };
        is_secret_header(name) || variables(value).iter().any(is_secret)
    }

    /// A note of the file, once.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Whether a text would not be written as it is.
fn holds_credential(text: &str) -> bool {
    scrub::scrub(text, &mut Secrets::default()) != text
}

fn cut(text: &str, chars_max: usize) -> String {
    let cut: String = text.chars().take(chars_max).collect();
    cut.trim_end().to_owned()
}

/// A literal text as a template.
pub(super) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// The literal parts of a template changed by `change`, its variables kept.
pub(super) fn map_literals(template: &str, change: impl Fn(&str) -> String) -> String {
    use crate::plan::{Part, Template};
    let Ok(parsed) = Template::parse(template) else {
        // What isn't one has no variables.
        return literal(&change(template));
    };
    let parts = parsed.parts.iter().map(|part| match part {
        Part::Literal(text) => literal(&change(text)),
        Part::Variable(name) => format!("${{{name}}}"),
    });
    parts.collect()
}

/// The names of a template's variables.
pub(super) fn variables(template: &str) -> Vec<String> {
    crate::plan::Template::parse(template)
        .map(|parsed| parsed.variables().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// Whether a text uses several variables: it is left out only when all are absent.
fn is_mixed(template: &str) -> bool {
    variables(template).len() > 1
}

/// Shows each string of a document to `act`.
pub(super) fn for_each_string(json: &mut Json, act: &mut impl FnMut(&mut String)) {
    match json {
        Json::String(text) => act(text),
        Json::Array(items) => items.iter_mut().for_each(|item| for_each_string(item, act)),
        Json::Object(fields) => fields
            .values_mut()
            .for_each(|field| for_each_string(field, act)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// The name of a service beside the target, declared when it is new.
pub(super) fn host_name(hosts: &mut BTreeMap<String, String>, url: &super::url::Url) -> String {
    let known = hosts.iter().find(|(_, origin)| **origin == url.origin);
    if let Some((name, _)) = known {
        return name.clone();
    }
    let base = super::secrets::variable_name(url.host());
    let numbered = (2..).map(|number| format!("{base}_{number}"));
    let name = std::iter::once(base.clone())
        .chain(numbered)
        .find(|name| !hosts.contains_key(name))
        .unwrap_or(base);
    hosts.insert(name.clone(), url.origin.clone());
    name
}
