//! One request: method, path, headers and body, with every variable checked.

use std::time::Duration;

use super::names::Names;
use super::{answer, extract, think, values};
use crate::document::{Document, Place};
use crate::error::{ScenarioError, suggestion};
use crate::plan::{Quotes, Request, Template};
use crate::raw::{self, choices::Repeated, values::Ordered, values::Scalar};
use crate::redaction::Redaction;
use crate::render::is_header_value;

/// How long an answer may take when a file says nothing.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Resolves requests in their order; variables become visible as they are extracted.
#[derive(Clone)]
pub(crate) struct RequestResolver<'d> {
    pub(super) document: &'d Document<'d>,
    redaction: &'d Redaction,
    pub(crate) names: Names,
    /// Names of `[hosts]`.
    hosts: Vec<String>,
    /// Each user has secrets of its own, which come with its answers or are drawn.
    has_own_secrets: bool,
    timeout: Duration,
    headers: Vec<DefaultHeader>,
}

#[derive(Clone)]
struct DefaultHeader {
    written: String,
    name: String,
    value: Template,
}

impl<'d> RequestResolver<'d> {
    pub(crate) fn new(
        document: &'d Document<'d>,
        scenario: &raw::Scenario,
        names: Names,
        redaction: &'d Redaction,
    ) -> Result<Self, ScenarioError> {
        let defaults = &scenario.defaults;
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
            hosts: scenario.hosts.keys().cloned().collect(),
            has_own_secrets: has_own_secrets(scenario, &names),
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
        self.check_host(place, raw.host.as_deref())?;
        let path = values::path(document, &place.key("path"), &raw.path)?;
        self.names
            .check_template(document, &place.key("path"), &path, false)?;
        let query = self.pairs(&place.key("query"), &raw.query)?;
        let headers = self.headers(place, &raw.headers, raw.host.is_some())?;
        let body = self.body(place, &raw)?;
        let extract = extract::Context {
            document,
            place,
            raw: &raw,
        };
        let extract = extract.extracts(|name| self.names.is_secret(name))?;
        let holds_secret = extract.values().any(|extract| extract.secret);
        let answer = answer::Context {
            document,
            place,
            method: &raw.method,
            redaction: self.redaction,
            quotes: match (holds_secret, self.has_own_secrets) {
                (true, _) => Quotes::Never,
                (false, true) => Quotes::WithScope,
                (false, false) => Quotes::Always,
            },
        };
        let expect = answer.expect(raw.expect.as_ref(), raw.stream.is_some())?;
        let stream = answer.stream(raw.stream.as_ref(), self.timeout)?;
        let think = think::resolve(document, &place.key("think"), raw.think.as_ref())?;
        let timeout = match &raw.timeout {
            Some(text) => values::positive_duration(document, &place.key("timeout"), &text.0)?,
            None => self.timeout,
        };
        Ok(Request {
            name: raw.name,
            method: raw.method,
            host: raw.host,
            weight: raw.weight,
            alternative: None,
            path,
            query,
            headers,
            body,
            expect,
            extract,
            stream,
            think,
            timeout,
            judged: raw.judge.unwrap_or(true),
        })
    }

    fn check_host(&self, place: &Place<'_>, host: Option<&str>) -> Result<(), ScenarioError> {
        let Some(host) = host else {
            return Ok(());
        };
        if self.hosts.iter().any(|known| known == host) {
            return Ok(());
        }
        let fix = if self.hosts.is_empty() {
            format!("add `[hosts]` with `{host} = \"http://127.0.0.1:9001\"`, or take it out")
        } else {
            suggestion(host, self.hosts.iter().map(String::as_str))
        };
        let what = format!("`[hosts]` has no `{host}`");
        Err(self.document.error(&place.key("host"), what, fix))
    }

    pub(super) fn pairs(
        &self,
        place: &Place<'_>,
        raw: &Ordered<Repeated<Scalar>>,
    ) -> Result<Vec<(String, Template)>, ScenarioError> {
        let mut pairs = Vec::with_capacity(raw.0.len());
        for (name, repeated) in &raw.0 {
            each(&place.key(name), repeated, |place, value| {
                pairs.push((name.clone(), self.value(place, value)?));
                Ok(())
            })?;
        }
        Ok(pairs)
    }

    /// A value that may be left out.
    pub(super) fn value(
        &self,
        place: &Place<'_>,
        value: &Scalar,
    ) -> Result<Template, ScenarioError> {
        let template = scalar_template(self.document, place, value)?;
        self.names
            .check_template(self.document, place, &template, true)?;
        Ok(template)
    }

    /// The defaults' headers that the request doesn't have itself, then its own. Credentials among
    /// the defaults are the target's: another service is sent what the request itself says.
    fn headers(
        &self,
        request: &Place<'_>,
        raw: &Ordered<Scalar>,
        to_another_service: bool,
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
            if own.iter().any(|(name, _)| *name == default.name)
                || (to_another_service && self.is_credential(default))
            {
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

    /// Whether a default's header is one by its name, or by what it holds.
    fn is_credential(&self, default: &DefaultHeader) -> bool {
        let name = default.name.as_str();
        let mut variables = default.value.variables();
        matches!(name, "authorization" | "cookie" | "proxy-authorization")
            || variables.any(|name| self.names.is_secret(name))
    }
}

/// Goes through what may be repeated, with the place of each.
pub(super) fn each<T>(
    place: &Place<'_>,
    repeated: &Repeated<T>,
    mut act: impl FnMut(&Place<'_>, &T) -> Result<(), ScenarioError>,
) -> Result<(), ScenarioError> {
    match repeated {
        Repeated::One(value) => act(place, value),
        Repeated::Many(values) => values
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| act(&place.item(index), value)),
    }
}

/// Whether some secrets are known only once a user has them.
fn has_own_secrets(scenario: &raw::Scenario, names: &Names) -> bool {
    let setup = scenario.setup.iter().map(|setup| &setup.extract);
    let background = scenario.background.iter();
    let background = background.flat_map(|background| &background.request);
    let requests = scenario.request.iter().chain(background);
    let extracted = setup
        .chain(requests.map(|request| &request.extract))
        .flatten()
        .any(|(name, extract)| extract.secret || names.is_secret(name));
    let drawn = scenario.vars.values().any(|variable| match variable {
        raw::Variable::Source(source) => source.secret && source.random.is_some(),
        raw::Variable::Literal(_) => false,
    });
    // A session's cookie is one.
    let kept = scenario.client.cookies.unwrap_or(false);
    extracted || drawn || kept
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
