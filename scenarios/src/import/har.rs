//! Browsers' recordings (HAR 1.2): the requests of the chosen hosts, in the order in which they
//! were made, without what a browser adds of itself and without credentials.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ambient;
use super::content;
use super::draft::{Draft, DraftBody, DraftPart, DraftRequest, host_name, literal};
use super::secret_names::{is_secret_header, is_secret_name};
use super::secrets::Secrets;
use super::url::{NO_PAIRS, Url};
use super::{ImportError, Options};

/// What a browser loads to show a page, by its own word for it.
const STATIC_RESOURCES: [&str; 7] = [
    "stylesheet",
    "image",
    "font",
    "script",
    "media",
    "manifest",
    "texttrack",
];
/// The same by media type, for browsers that say nothing.
const STATIC_TYPES: [&str; 7] = [
    "image/",
    "font/",
    "text/css",
    "text/javascript",
    "application/javascript",
    "video/",
    "audio/",
];
/// The same by the path's end.
const STATIC_ENDS: [&str; 14] = [
    ".js", ".mjs", ".css", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".ico", ".webp", ".woff",
    ".woff2", ".ttf", ".map",
];

/// Shorter values of cookies, as `1` or `true`, stand everywhere by chance.
const COOKIE_CHARS_MIN: usize = 8;

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Request,
    response: Option<Response>,
    #[serde(rename = "_resourceType")]
    resource_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Named>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    #[serde(default)]
    mime_type: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    params: Vec<Param>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Param {
    name: String,
    value: Option<String>,
    file_name: Option<String>,
    content_type: Option<String>,
}

#[derive(Deserialize, Default)]
struct Response {
    #[serde(default)]
    status: i64,
    #[serde(default)]
    headers: Vec<Named>,
    content: Option<Content>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    #[serde(default)]
    mime_type: String,
}

/// Reads a recording.
pub(super) fn read(text: &str, options: &Options) -> Result<Draft, ImportError> {
    // Some tools write a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = serde_json::Deserializer::from_str(text);
    let har: Har = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let line = error.inner().line();
        let inner = error.inner().to_string();
        let reason = inner.split(" at line ").next().unwrap_or(&inner);
        let what = match error.path().to_string().as_str() {
            "." => format!("not a recording: {reason}"),
            path => format!("`{path}`: {reason}"),
        };
        let fix = "save the recording anew: in the browser's network panel, `Save all as HAR`";
        ImportError::at_line(line, what, fix)
    })?;
    let visits: Vec<Visit> = har
        .log
        .entries
        .into_iter()
        .enumerate()
        .map(|(index, entry)| Visit::new(index, entry))
        .collect::<Result<_, ImportError>>()?;
    let hosts = chosen_hosts(&visits, options)?;
    Recording {
        draft: Draft {
            name: hosts.first().map_or("recorded", String::as_str).to_owned(),
            describe: "Recorded in a browser".to_owned(),
            ..Draft::default()
        },
        left_out: BTreeMap::new(),
        target: None,
    }
    .import(visits, &hosts, options)
}

/// An entry and its URL.
struct Visit {
    entry: Entry,
    url: Url,
}

impl Visit {
    fn new(index: usize, entry: Entry) -> Result<Self, ImportError> {
        // A recorded URL is no template.
        let url = Url::parse(&literal(&entry.request.url)).or_else(|why| {
            // Requests that never left the browser have schemes of their own.
            let inner = [
                "data:",
                "blob:",
                "chrome-extension:",
                "about:",
                "ws:",
                "wss:",
                "file:",
            ];
            if inner
                .iter()
                .any(|scheme| entry.request.url.starts_with(scheme))
            {
                return Ok(Url {
                    origin: String::new(),
                    credentials: None,
                    path: "/".to_owned(),
                    query: None,
                });
            }
            Err(ImportError::new(
                format!("/log/entries/{index}/request/url"),
                format!("the URL can't be read: {why}"),
                "take the entry out of the recording",
            ))
        })?;
        Ok(Self { entry, url })
    }

    fn is_static(&self) -> bool {
        if let Some(kind) = &self.entry.resource_type {
            return STATIC_RESOURCES.contains(&kind.as_str());
        }
        let content = self
            .entry
            .response
            .as_ref()
            .and_then(|r| r.content.as_ref());
        let media_type = content.map_or("", |content| content.mime_type.as_str());
        let path = self.url.path.to_ascii_lowercase();
        STATIC_TYPES
            .iter()
            .any(|prefix| media_type.starts_with(prefix))
            || STATIC_ENDS.iter().any(|end| path.ends_with(end))
    }

    fn status(&self) -> u16 {
        let status = self
            .entry
            .response
            .as_ref()
            .map_or(0, |response| response.status);
        u16::try_from(status).unwrap_or(0)
    }
}

/// Those asked for, or the one with the most requests that a scenario keeps.
fn chosen_hosts(visits: &[Visit], options: &Options) -> Result<Vec<String>, ImportError> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (index, visit) in visits.iter().enumerate() {
        if visit.url.origin.is_empty() {
            continue;
        }
        let count = counts.entry(visit.url.host()).or_insert((0, index));
        count.0 += usize::from(options.keeps_static || !visit.is_static());
    }
    for host in &options.hosts {
        if !counts.contains_key(host.as_str()) {
            let known: Vec<&str> = counts.keys().copied().collect();
            return Err(ImportError::new(
                "/log/entries",
                format!("the recording has no request to `{host}`"),
                crate::error::suggestion(host, known.iter().copied()),
            ));
        }
    }
    if !options.hosts.is_empty() {
        return Ok(options.hosts.clone());
    }
    // Of equally many, the first that was asked.
    let most = counts
        .iter()
        .max_by_key(|(_, (count, first))| (*count, std::cmp::Reverse(*first)));
    Ok(most
        .map(|(host, _)| (*host).to_owned())
        .into_iter()
        .collect())
}

struct Recording {
    draft: Draft,
    /// Why → how many.
    left_out: BTreeMap<String, usize>,
    target: Option<String>,
}

impl Recording {
    fn import(
        mut self,
        visits: Vec<Visit>,
        hosts: &[String],
        options: &Options,
    ) -> Result<Draft, ImportError> {
        // The first chosen host is the target, whichever was asked first.
        let wanted = hosts.first().map_or("", String::as_str);
        let first = visits.iter().find(|visit| visit.url.host() == wanted);
        self.target = first.map(|visit| visit.url.origin.clone());
        if let Some(target) = &self.target {
            let note = format!(
                "Recorded from {target}: give it, or another place that has the service, as --target."
            );
            self.draft.note(note);
        }
        for visit in visits {
            match self.why_not(&visit, hosts, options) {
                Some(why) => *self.left_out.entry(why).or_default() += 1,
                None => self.keep(visit),
            }
        }
        for (why, count) in std::mem::take(&mut self.left_out) {
            self.draft.note(format!("Left out: {count} {why}."));
        }
        self.draft.note("Left out of each request: what a browser adds of itself (sec-*, user-agent, referer, caching).");
        Ok(self.draft)
    }

    fn why_not(&self, visit: &Visit, hosts: &[String], options: &Options) -> Option<String> {
        let method = visit.entry.request.method.as_str();
        if visit.url.origin.is_empty() {
            return Some("that never were HTTP requests".to_owned());
        }
        if !hosts.iter().any(|host| host == visit.url.host()) {
            return Some(format!("to {} (keep them with --host)", visit.url.host()));
        }
        if !options.keeps_static && visit.is_static() {
            return Some("for images, styles, scripts and fonts (keep them with --all)".to_owned());
        }
        if visit.status() == 101 {
            return Some("that became WebSockets".to_owned());
        }
        let is_preflight = method == "OPTIONS" && self.has(visit, "access-control-request-method");
        if is_preflight {
            return Some("preflights of the browser".to_owned());
        }
        let is_method = super::curl_values::method(method, 1).is_ok();
        (!is_method).then(|| "with a method that can't be sent".to_owned())
    }

    fn has(&self, visit: &Visit, header: &str) -> bool {
        let mut headers = visit.entry.request.headers.iter();
        headers.any(|found| found.name.eq_ignore_ascii_case(header))
    }

    fn keep(&mut self, visit: Visit) {
        let status = visit.status();
        let Visit { entry, url } = visit;
        let mut request = DraftRequest {
            method: entry.request.method.to_ascii_uppercase(),
            path: url.path.clone(),
            query: url.query.clone().unwrap_or_default(),
            ..DraftRequest::default()
        };
        if url.query.is_none() {
            request.notes.push(format!("Lost: {NO_PAIRS}."));
        }
        if self.target.as_deref() != Some(url.origin.as_str()) {
            request.host = Some(host_name(&mut self.draft.hosts, &url));
        }
        self.headers(&mut request, &entry.request.headers);
        content::hide_query(&mut request.query, &mut self.draft.secrets);
        if let Some(data) = entry.request.post_data {
            body(&mut request, data, &mut self.draft.secrets);
        }
        let response = entry.response.unwrap_or_default();
        match status {
            0 => request
                .notes
                .push("It had no answer in the recording.".to_owned()),
            // Any 2xx is what is expected anyway, and a cached answer is none of the service's.
            200..=299 | 304 => {}
            other if (200..=599).contains(&other) => request.status = vec![other],
            _ => {}
        }
        let media_type = response.content.map(|content| content.mime_type);
        request.decoder = decoder(media_type.as_deref().unwrap_or_default());
        if response
            .headers
            .iter()
            .any(|header| header.name.eq_ignore_ascii_case("set-cookie"))
        {
            self.draft.client.cookies = true;
        }
        if let Some(before) = self
            .draft
            .requests
            .iter()
            .find(|before| **before == request)
        {
            let why = format!("that repeat {} {} exactly", before.method, before.path);
            *self.left_out.entry(why).or_default() += 1;
            return;
        }
        self.draft.requests.push(request);
    }

    fn headers(&mut self, request: &mut DraftRequest, headers: &[Named]) {
        for header in headers {
            let name = header.name.to_ascii_lowercase();
            if name == "accept-encoding" {
                self.draft.client.compression = true;
                continue;
            }
            let is_sent = !ambient::is_of_the_connection(&name)
                && !ambient::is_of_the_browser(&name)
                && !header.value.is_empty();
            if !is_sent {
                continue;
            }
            let value = if name == "cookie" {
                self.cookies(&header.value)
            } else if is_secret_header(&name) {
                let value = literal(&header.value);
                self.draft.secrets.hide_header(&name, &value)
            } else {
                literal(&header.value)
            };
            request.set_header(&name, value);
        }
    }

    /// One variable for all of them: they change while one browses. Their values are secrets by
    /// themselves, too, since pages repeat them elsewhere.
    fn cookies(&mut self, value: &str) -> String {
        let secrets = &mut self.draft.secrets;
        let all = secrets.hide_as("cookie", value);
        for (name, value) in value.split(';').filter_map(|cookie| cookie.split_once('=')) {
            if value.len() >= COOKIE_CHARS_MIN {
                secrets.hide(name, value, None);
            }
        }
        all
    }
}

fn body(request: &mut DraftRequest, data: PostData, secrets: &mut Secrets) {
    if matches!(request.method.as_str(), "GET" | "HEAD") {
        let note = format!(
            "Lost: the body of a {} request, which a scenario can't send.",
            request.method
        );
        request.notes.push(note);
        return;
    }
    let own_type = if data.mime_type.is_empty() {
        "application/octet-stream"
    } else {
        data.mime_type.as_str()
    };
    match data.text.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => content::set_body(request, &content::recorded(text), own_type, secrets),
        None if data.params.is_empty() => {}
        None => params(request, &data, secrets),
    }
}

/// A form that was recorded field by field.
fn params(request: &mut DraftRequest, data: &PostData, secrets: &mut Secrets) {
    let value = |param: &Param, secrets: &mut Secrets| {
        let text = literal(param.value.as_deref().unwrap_or_default());
        if is_secret_name(&param.name) {
            secrets.hide_value(&param.name, &text)
        } else {
            text
        }
    };
    if !data.mime_type.starts_with("multipart/") {
        let pairs = data.params.iter().map(|param| {
            let name = super::url::decode(&param.name).unwrap_or_else(|| param.name.clone());
            (name, value(param, secrets))
        });
        request.body = DraftBody::Form(pairs.collect());
        return;
    }
    let parts = data.params.iter().map(|param| DraftPart {
        name: param.name.clone(),
        content: value(param, secrets),
        is_file: false,
        filename: param.file_name.clone(),
        content_type: param.content_type.clone(),
    });
    request.body = DraftBody::Multipart(parts.collect());
}

/// How an answer of this type is read, if it is a stream.
pub(super) fn decoder(media_type: &str) -> Option<&'static str> {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    match media_type {
        "text/event-stream" => Some("sse"),
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonlines"
        | "application/json-lines" => Some("ndjson"),
        _ => None,
    }
}
