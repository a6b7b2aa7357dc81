//! curl command lines: options become a request, and what can't be kept is said.

use std::collections::BTreeMap;

use super::ImportError;
use super::ambient;
use super::content;
use super::curl_call::{Call, no_query};
use super::curl_options::{self, Meaning};
use super::curl_values::{form_part, method, seconds, text_part, urlencoded, whole};
use super::draft::{Draft, DraftBody, DraftRequest, DraftVar, literal, variables};
use super::secret_names::{is_secret_header, is_secret_name};
use super::secrets::BASIC_NOTE;
use super::shell::{self, Command, Word};
use super::url::Url;
use crate::error::nearest;
use crate::resolve::values::is_sendable_header;

/// As many redirects as curl follows.
const REDIRECTS_MAX: u32 = 50;
const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// Reads all curl commands of a text.
pub(super) fn read(text: &str) -> Result<Draft, ImportError> {
    let found = shell::read(text)?;
    let mut import = Import::default();
    import.draft.name = "imported".to_owned();
    import.draft.describe = "Imported from curl".to_owned();
    for (name, _) in &found.variables {
        import.draft.secrets.reserve(name);
    }
    let mut others = Vec::new();
    for command in &found.commands {
        match curl_at(command) {
            Some(at) => import.command(&command.words[at + 1..])?,
            None => others.extend(command.words.first().map(|word| word.line.to_string())),
        }
    }
    if import.draft.requests.is_empty() {
        return Err(ImportError::at_line(
            1,
            "there is no curl command with a URL",
            "give a command as `curl https://api.example/v1/usage -H 'accept: application/json'`",
        ));
    }
    if !others.is_empty() {
        others.dedup();
        // Their words are not shown: `TOKEN=…` is one.
        let others = others.join(", ");
        import.draft.note(format!(
            "Other commands than curl are left out (line {others})."
        ));
    }
    import.declare(&found.variables);
    Ok(import.draft)
}

/// Where the word `curl` stands; what may stand before it is a prompt or an assignment.
fn curl_at(command: &Command) -> Option<usize> {
    command.words.iter().position(|word| {
        let name = word.text.rsplit(['/', '\\']).next().unwrap_or_default();
        matches!(name, "curl" | "curl.exe")
    })
}

#[derive(Default)]
struct Import {
    draft: Draft,
    /// Where the first request goes: the target.
    target: Option<String>,
}

impl Import {
    fn command(&mut self, words: &[Word]) -> Result<(), ImportError> {
        let mut call = Call::default();
        let mut words = words.iter();
        let mut only_urls = false;
        while let Some(word) = words.next() {
            let text = word.text.as_str();
            if only_urls || !text.starts_with('-') || text == "-" {
                call.urls.push(word.clone());
            } else if text == "--" {
                only_urls = true;
            } else if let Some(name) = text.strip_prefix("--") {
                self.long(&mut call, name, word, &mut words)?;
            } else {
                self.letters(&mut call, &text[1..], word, &mut words)?;
            }
        }
        self.finish(call)
    }

    fn long<'w>(
        &mut self,
        call: &mut Call,
        name: &str,
        word: &Word,
        words: &mut impl Iterator<Item = &'w Word>,
    ) -> Result<(), ImportError> {
        // `--no-` turns an option off, which most are already.
        let negated = name.strip_prefix("no-").and_then(curl_options::by_name);
        let Some((takes_value, meaning)) = curl_options::by_name(name).or(negated) else {
            // What doesn't belong into a name may be its value: `--oauth2-bearer=…`.
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.');
            let name = &name[..end.unwrap_or(name.len())];
            return Err(unknown(&format!("--{name}"), name, word.line));
        };
        if negated.is_some() && curl_options::by_name(name).is_none() {
            return Ok(());
        }
        let value = if takes_value { words.next() } else { None };
        if takes_value && value.is_none() {
            return Err(without_value(&format!("--{name}"), word.line));
        }
        let value = value.map_or("", |value| value.text.as_str());
        self.option(call, &format!("--{name}"), meaning, value, word.line)
    }

    /// Letters in one word: `-sSLd@file`.
    fn letters<'w>(
        &mut self,
        call: &mut Call,
        letters: &str,
        word: &Word,
        words: &mut impl Iterator<Item = &'w Word>,
    ) -> Result<(), ImportError> {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let shown = format!("-{letter}");
            let Some((_, takes_value, meaning)) = curl_options::by_letter(letter) else {
                return Err(unknown(&shown, "", word.line));
            };
            if !takes_value {
                self.option(call, &shown, meaning, "", word.line)?;
                continue;
            }
            let attached = rest.as_str();
            if !attached.is_empty() {
                return self.option(call, &shown, meaning, attached, word.line);
            }
            let Some(value) = words.next() else {
                return Err(without_value(&shown, word.line));
            };
            return self.option(call, &shown, meaning, &value.text, word.line);
        }
        Ok(())
    }

    fn option(
        &mut self,
        call: &mut Call,
        shown: &str,
        meaning: Meaning,
        value: &str,
        line: usize,
    ) -> Result<(), ImportError> {
        match meaning {
            Meaning::Method => call.request.method = value.to_owned(),
            Meaning::Header => self.header(call, value, line)?,
            Meaning::Data | Meaning::DataBinary | Meaning::DataRaw | Meaning::Json => {
                call.json |= meaning == Meaning::Json;
                let may_be_file = meaning != Meaning::DataRaw;
                call.add_data(value, may_be_file, line)?;
            }
            Meaning::DataUrlencode => call.data.push(urlencoded(value, line)?),
            Meaning::Form => call.parts.push(form_part(value, line)?),
            Meaning::FormString => call.parts.push(text_part(value, line)?),
            Meaning::User => self.user(call, value),
            Meaning::Bearer => {
                self.header(call, &format!("authorization: Bearer {value}"), line)?
            }
            Meaning::Cookie if value.contains('=') => {
                self.header(call, &format!("cookie: {value}"), line)?;
            }
            Meaning::Cookie | Meaning::CookieJar => {
                self.draft.client.cookies = true;
                self.draft.note(format!(
                    "{shown}: each user begins with an empty jar of cookies."
                ));
            }
            Meaning::Agent => call.request.set_header("user-agent", value.to_owned()),
            Meaning::Referer => call.request.set_header("referer", value.to_owned()),
            Meaning::Range => call.request.set_header("range", format!("bytes={value}")),
            Meaning::Url => call.urls.push(Word {
                text: value.to_owned(),
                line,
            }),
            Meaning::UrlQuery => call.add_query(value, line)?,
            Meaning::Upload => call.upload(value, line)?,
            Meaning::MaxTime => call.request.timeout = Some(seconds(shown, value, line)?),
            Meaning::MaxRedirects => call.redirects_max = Some(whole(shown, value, line)?),
            Meaning::Get => call.get = true,
            Meaning::Head => call.head = true,
            Meaning::Location => call.follows = true,
            Meaning::Compressed => self.draft.client.compression = true,
            Meaning::NoBuffer | Meaning::Output => {}
            Meaning::Http1 => self.draft.client.http = Some("1.1"),
            Meaning::Http2 => self.draft.client.http = Some("2"),
            Meaning::Next => self.finish(std::mem::take(call))?,
            Meaning::CommandLine(option) => self.kept_elsewhere(shown, option, value),
            Meaning::Lost(why) => {
                // Without its value, which may be a credential.
                self.draft.note(format!("Lost: {shown}: {why}."));
            }
            Meaning::Refused(fix) => {
                let what = format!("`{shown}` can't be imported");
                return Err(ImportError::at_line(line, what, fix));
            }
        }
        Ok(())
    }

    fn kept_elsewhere(&mut self, shown: &str, option: &str, value: &str) {
        let value = match option {
            // It may hold a password.
            "--proxy" => "URL",
            // Behind the file a password may stand (`file:password`), or in a PKCS #11 URI.
            "--client-certificate" | "--client-key" => value.split(':').next().unwrap_or(value),
            _ => value,
        };
        let separator = if option.ends_with(':') { "" } else { " " };
        let given = format!("{option}{separator}{value}");
        self.draft.note(format!(
            "{shown}: pass `{}` to `unstall run`.",
            given.trim_end()
        ));
    }

    fn header(&mut self, call: &mut Call, value: &str, line: usize) -> Result<(), ImportError> {
        if value.starts_with('@') {
            return Err(ImportError::at_line(
                line,
                "`-H @file` reads headers from a file",
                "write each as `-H 'name: value'`",
            ));
        }
        let Some((name, value)) = value.split_once(':') else {
            if value.ends_with(';') {
                let name = value.trim_end_matches(';');
                let shown = if is_sendable_header(&name.to_ascii_lowercase()) {
                    format!(" `{name}`")
                } else {
                    String::new()
                };
                call.request
                    .notes
                    .push(format!("Lost: the empty header{shown}."));
                return Ok(());
            }
            return Err(ImportError::at_line(
                line,
                "a header has no `:`",
                "write it as `-H 'name: value'`",
            ));
        };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if value.is_empty() {
            return Ok(());
        }
        if name == "accept-encoding" {
            self.draft.client.compression = true;
        } else if ambient::is_of_the_connection(&name) {
            call.request
                .notes
                .push(format!("Lost: the header `{name}`, which the engine sets."));
        } else {
            let value = self.secret_value(&name, value);
            call.request.set_header(&name, value);
        }
        Ok(())
    }

    /// A credential's value is hidden; a shell variable in its place is one.
    fn secret_value(&mut self, name: &str, value: &str) -> String {
        let secrets = &mut self.draft.secrets;
        if !is_secret_header(name) {
            return value.to_owned();
        }
        if name != "cookie" || variables(value).is_empty() {
            return secrets.hide_header(name, value);
        }
        // Some come from the shell: each by itself.
        let cookies = value.split(';').map(|cookie| match cookie.split_once('=') {
            Some((name, value)) => format!("{name}={}", secrets.hide_value(name, value)),
            None => secrets.hide_value("cookie", cookie),
        });
        cookies.collect::<Vec<_>>().join(";")
    }

    /// `-u user:password`.
    fn user(&mut self, call: &mut Call, value: &str) {
        let hidden = self
            .draft
            .secrets
            .hide("basic_credentials", value, Some(BASIC_NOTE));
        call.request
            .set_header("authorization", format!("Basic {hidden}"));
    }

    fn finish(&mut self, mut call: Call) -> Result<(), ImportError> {
        let urls = std::mem::take(&mut call.urls);
        if urls.is_empty() && call.request == DraftRequest::default() && call.data.is_empty() {
            return Ok(());
        }
        let Some(first) = urls.first() else {
            return Err(ImportError::at_line(
                1,
                "a curl command has no URL",
                "add its URL",
            ));
        };
        let line = first.line;
        self.set_body(&mut call, line)?;
        if call.follows {
            let hops = call.redirects_max.unwrap_or(REDIRECTS_MAX).min(100);
            self.draft.client.redirects_max = self.draft.client.redirects_max.max(hops);
        }
        for url in &urls {
            let request = self.located(call.request.clone(), &call.query, url)?;
            self.draft.requests.push(request);
        }
        Ok(())
    }

    /// The request with what its URL says.
    fn located(
        &mut self,
        mut request: DraftRequest,
        query: &[(String, String)],
        url: &Word,
    ) -> Result<DraftRequest, ImportError> {
        let parsed = Url::parse(&url.text).map_err(|why| {
            let what = format!("`{}` is no URL: {why}", scheme_and_host(&url.text));
            let fix = "write it as `https://host/path`, and check that quotes stand around options";
            ImportError::at_line(url.line, what, fix)
        })?;
        if let Some(credentials) = &parsed.credentials
            && request.header("authorization").is_none()
        {
            let hidden =
                self.draft
                    .secrets
                    .hide("basic_credentials", credentials, Some(BASIC_NOTE));
            request.set_header("authorization", format!("Basic {hidden}"));
        }
        request.host = self.host(&parsed);
        request.path.clone_from(&parsed.path);
        let Some(own) = parsed.query else {
            return Err(no_query(url.line));
        };
        request.query = own;
        request.query.extend_from_slice(query);
        content::hide_query(&mut request.query, &mut self.draft.secrets);
        let accepts_events = request
            .header("accept")
            .is_some_and(|accept| accept.starts_with("text/event-stream"));
        if accepts_events {
            request.decoder = Some("sse");
        }
        Ok(request)
    }

    /// The first service is the target, the others have names.
    fn host(&mut self, url: &Url) -> Option<String> {
        let target = self.target.get_or_insert_with(|| url.origin.clone());
        if *target == url.origin {
            let target = target.clone();
            self.draft.note(format!("The requests went to {target}: give it, or another place that has the service, as --target."));
            return None;
        }
        Some(super::draft::host_name(&mut self.draft.hosts, url))
    }

    fn set_body(&mut self, call: &mut Call, line: usize) -> Result<(), ImportError> {
        if call.get {
            call.data_to_query(line)?;
        }
        let has_body = !call.data.is_empty() || call.data_file.is_some() || !call.parts.is_empty();
        if call.json {
            for name in ["content-type", "accept"] {
                if call.request.header(name).is_none() {
                    call.request.set_header(name, "application/json".to_owned());
                }
            }
        }
        if call.request.method.is_empty() {
            let by_options = if call.head {
                "HEAD"
            } else if call.upload {
                "PUT"
            } else if has_body && !call.get {
                "POST"
            } else {
                "GET"
            };
            call.request.method = by_options.to_owned();
        }
        call.request.method = method(&call.request.method, line)?;
        let method = call.request.method.as_str();
        if has_body && matches!(method, "GET" | "HEAD") {
            let note =
                format!("Lost: the body of a {method} request, which a scenario can't send.");
            call.request.notes.push(note);
            return Ok(());
        }
        if !call.parts.is_empty() {
            call.request.remove_header("content-type");
            let mut parts = std::mem::take(&mut call.parts);
            for part in parts
                .iter_mut()
                .filter(|part| !part.is_file && is_secret_name(&part.name))
            {
                part.content = self.draft.secrets.hide_value(&part.name, &part.content);
            }
            call.request.body = DraftBody::Multipart(parts);
        } else if let Some(file) = call.data_file.take() {
            let own = if call.upload {
                "application/octet-stream"
            } else {
                FORM_TYPE
            };
            let content_type = call
                .request
                .header("content-type")
                .unwrap_or(own)
                .to_owned();
            call.request.body = DraftBody::File { content_type, file };
        } else if !call.data.is_empty() {
            let separator = if call.json { "" } else { "&" };
            let text = call.data.join(separator);
            content::set_body(&mut call.request, &text, FORM_TYPE, &mut self.draft.secrets);
        }
        Ok(())
    }

    /// Shell variables that are still used, filled by the environment as they were.
    fn declare(&mut self, found: &[(String, Option<String>)]) {
        let defaults: BTreeMap<&str, &Option<String>> = found
            .iter()
            .map(|(name, default)| (name.as_str(), default))
            .collect();
        for (name, default) in defaults {
            self.draft.vars.insert(
                name.to_owned(),
                DraftVar::Environment {
                    name: name.to_owned(),
                    default: default.as_deref().map(literal),
                    secret: is_secret_name(name),
                    note: None,
                },
            );
        }
    }
}

/// A URL for a message: everything behind its host, and in front of it, may be a secret.
fn scheme_and_host(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}{host}")
}

fn unknown(shown: &str, name: &str, line: usize) -> ImportError {
    let fix = match nearest(name, curl_options::names()) {
        Some(meant) => format!("did you mean `--{meant}`? Or take it out"),
        None => "take it out, or write what it does into the scenario by hand".to_owned(),
    };
    ImportError::at_line(
        line,
        format!("`{shown}` is not known as an option of curl"),
        fix,
    )
}

fn without_value(shown: &str, line: usize) -> ImportError {
    ImportError::at_line(
        line,
        format!("`{shown}` has no value behind it"),
        "copy the whole command",
    )
}
