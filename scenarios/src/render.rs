//! Builds what is sent, by pure functions: the same scope gives the same bytes.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::plan::{Body, FormContent, FormPart, JsonPart, Pick, Plan, Request, Template, Var};
use crate::scope::{Place, RenderError, Scope};

/// A request, ready for the wire but for `host` and `content-length`, which belong
/// to whoever knows the target.
#[derive(Clone, PartialEq, Eq)]
pub struct RenderedRequest {
    /// HTTP method.
    pub method: String,
    /// The request target in origin form, percent-encoded.
    pub path_and_query: String,
    /// Headers, names lower-case, `content-type` among them when there is a body.
    pub headers: Vec<(String, String)>,
    /// The body, maybe empty.
    pub body: Vec<u8>,
}

/// Without values, some of which are secrets.
impl std::fmt::Debug for RenderedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("RenderedRequest")
            .field("method", &self.method)
            .field("headers", &headers)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// How often a request must be built anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variation {
    /// Once: it is always the same.
    Never,
    /// Once per user, after the setup.
    User,
    /// Each time.
    Iteration,
}

impl Template {
    /// The text with its variables' values.
    ///
    /// # Errors
    /// A variable without a value.
    pub fn render(&self, scope: &Scope) -> Result<String, RenderError> {
        let mut out = String::new();
        scope.write(self, Place::Plain, &mut out)?;
        Ok(out)
    }
}

impl Request {
    /// Builds the request. Headers, query parameters and form fields whose variables
    /// are all absent are left out.
    ///
    /// # Errors
    /// A variable without a value, or a header value with control characters.
    pub fn render(&self, scope: &Scope) -> Result<RenderedRequest, RenderError> {
        let mut headers = self.render_headers(scope)?;
        let (body, content_type) = self.render_body(scope)?;
        if let Some(content_type) = content_type
            && !headers.iter().any(|(name, _)| name == "content-type")
        {
            headers.push(("content-type".into(), content_type));
        }
        Ok(RenderedRequest {
            method: self.method.clone(),
            path_and_query: self.render_target(scope)?,
            headers,
            body,
        })
    }

    /// How often it must be built anew.
    pub fn variation(&self, plan: &Plan) -> Variation {
        self.templates()
            .flat_map(Template::variables)
            .chain(self.json_variables())
            .map(|name| variation_of(name, plan))
            .max()
            .unwrap_or(Variation::Never)
    }

    /// Every template but the JSON body's.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        let fields = match &self.body {
            Body::Form(fields) => fields.as_slice(),
            _ => &[],
        };
        let parts = match &self.body {
            Body::Multipart(parts) => parts.as_slice(),
            _ => &[],
        };
        let texts = parts.iter().filter_map(|part| match &part.content {
            FormContent::Text(text) => Some(text),
            FormContent::File(_) => None,
        });
        let raw = match &self.body {
            Body::Raw { text, .. } => Some(text),
            _ => None,
        };
        std::iter::once(&self.path)
            .chain(self.query.iter().map(|(_, template)| template))
            .chain(self.headers.iter().map(|(_, template)| template))
            .chain(fields.iter().map(|(_, template)| template))
            .chain(texts)
            .chain(raw)
    }

    pub(crate) fn json_variables(&self) -> impl Iterator<Item = &str> {
        let json = match &self.body {
            Body::Json(json) => Some(json),
            _ => None,
        };
        json.into_iter().flat_map(|json| json.variables())
    }

    fn render_target(&self, scope: &Scope) -> Result<String, RenderError> {
        let mut target = String::new();
        scope.write(&self.path, Place::Path, &mut target)?;
        write_pairs(&self.query, Place::Query, Some('?'), scope, &mut target)?;
        Ok(target)
    }

    fn render_headers(&self, scope: &Scope) -> Result<Vec<(String, String)>, RenderError> {
        let mut headers = Vec::with_capacity(self.headers.len() + 1);
        for (name, template) in &self.headers {
            if scope.leaves_out(template) {
                continue;
            }
            let value = template.render(scope)?;
            if !is_header_value(&value) {
                return Err(RenderError::Header { name: name.clone() });
            }
            headers.push((name.clone(), value));
        }
        Ok(headers)
    }

    fn render_body(&self, scope: &Scope) -> Result<(Vec<u8>, Option<String>), RenderError> {
        let mut text = String::new();
        let content_type = match &self.body {
            Body::Empty => return Ok((Vec::new(), None)),
            Body::Json(json) => {
                for part in &json.parts {
                    match part {
                        JsonPart::Text(literal) => text.push_str(literal),
                        JsonPart::Value(name) => scope.write_json(name, &mut text)?,
                        JsonPart::Inside(name) => {
                            scope.write_variable(name, Place::JsonString, &mut text)?;
                        }
                    }
                }
                "application/json".to_owned()
            }
            Body::Form(fields) => {
                write_pairs(fields, Place::Form, None, scope, &mut text)?;
                "application/x-www-form-urlencoded".to_owned()
            }
            Body::Multipart(parts) => return render_multipart(parts, scope),
            Body::File {
                content_type,
                bytes,
            } => return Ok((bytes.to_vec(), Some(content_type.clone()))),
            Body::Raw {
                content_type,
                text: template,
            } => {
                scope.write(template, Place::Plain, &mut text)?;
                content_type.clone()
            }
        };
        Ok((text.into_bytes(), Some(content_type)))
    }
}

fn variation_of(name: &str, plan: &Plan) -> Variation {
    let of_template = |template: &Template| {
        template
            .variables()
            .map(|name| variation_of(name, plan))
            .max()
            .unwrap_or(Variation::Never)
    };
    let by_answers = plan
        .requests
        .iter()
        .any(|request| request.extract.contains_key(name));
    let by_setup = plan
        .setup
        .iter()
        .any(|setup| setup.request.extract.contains_key(name));
    match name {
        _ if by_answers => Variation::Iteration,
        _ if by_setup => Variation::User,
        "iteration" => Variation::Iteration,
        "user" => Variation::User,
        _ => match plan.vars.get(name) {
            Some(Var::Value(_) | Var::Absent) => Variation::Never,
            Some(Var::Template(template)) => of_template(template),
            Some(Var::Feeder(feeder)) if feeder.pick == Pick::PerUser => Variation::User,
            Some(Var::Feeder(_) | Var::Random(_)) | None => Variation::Iteration,
        },
    }
}

/// Whether a header may carry it: visible ASCII, spaces, tabs and bytes above 0x7f.
pub(crate) fn is_header_value(value: &str) -> bool {
    value
        .bytes()
        .all(|byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f))
}

fn write_pairs(
    pairs: &[(String, Template)],
    place: Place,
    first: Option<char>,
    scope: &Scope,
    out: &mut String,
) -> Result<(), RenderError> {
    let mut separator = first;
    for (name, template) in pairs {
        if scope.leaves_out(template) {
            continue;
        }
        out.extend(separator);
        separator = Some('&');
        match place {
            Place::Form => crate::encode::push_form(name, out),
            _ => crate::encode::push_component(name, out),
        }
        out.push('=');
        scope.write(template, place, out)?;
    }
    Ok(())
}

/// Builds a multipart form (RFC 7578), with its content type. The boundary is the first of a
/// fixed row that no part contains, so that equal scopes give equal bytes.
fn render_multipart(
    parts: &[FormPart],
    scope: &Scope,
) -> Result<(Vec<u8>, Option<String>), RenderError> {
    let mut contents = Vec::with_capacity(parts.len());
    for part in parts {
        match &part.content {
            FormContent::Text(template) if scope.leaves_out(template) => {}
            FormContent::Text(template) => {
                let text = template.render(scope)?.into_bytes();
                contents.push((part, Cow::Owned(text)));
            }
            FormContent::File(bytes) => contents.push((part, Cow::Borrowed(bytes.as_ref()))),
        }
    }
    let boundary = (0u64..)
        .map(|number| format!("unstall-boundary-{number}"))
        .find(|boundary| {
            let finder = |(_, content): &(_, Cow<'_, [u8]>)| contains(content, boundary.as_bytes());
            !contents.iter().any(finder)
        })
        .unwrap_or_else(|| "unstall-boundary".to_owned());
    let mut body = Vec::new();
    for (part, content) in &contents {
        body.extend_from_slice(part_head(part, &boundary).as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let content_type = format!("multipart/form-data; boundary={boundary}");
    Ok((body, Some(content_type)))
}

fn part_head(part: &FormPart, boundary: &str) -> String {
    let name = quoted(&part.name);
    let mut head = format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"");
    // Writing to a String can't fail.
    if let Some(filename) = &part.filename {
        let _ = write!(head, "; filename=\"{}\"", quoted(filename));
    }
    if let Some(content_type) = &part.content_type {
        let _ = write!(head, "\r\ncontent-type: {content_type}");
    }
    head + "\r\n\r\n"
}

/// As browsers do: what would end the name or its line is percent-encoded.
fn quoted(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    // Most windows differ in their first byte; a file is read once per building.
    bytes
        .windows(wanted.len())
        .any(|window| window.first() == wanted.first() && window == wanted)
}
