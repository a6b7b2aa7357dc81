//! URLs, taken apart as a scenario needs them: where to, which path, which parameters. Texts are
//! templates, since variables of a shell may stand anywhere in a URL.

use super::draft::map_literals;

/// A URL's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    /// Scheme, host and port, as `https://api.example:8443`; or a variable that holds them.
    pub(super) origin: String,
    /// User name and password, if there are any.
    pub(super) credentials: Option<String>,
    /// From `/`, still percent-encoded.
    pub(super) path: String,
    /// Decoded parameters, in order; `None` for a query that a scenario can't say ([`NO_PAIRS`]).
    pub(super) query: Option<Vec<(String, String)>>,
}

impl Url {
    /// Takes a URL apart; without a scheme it is plain HTTP, as for curl.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => ("http".to_owned(), text),
        };
        if !matches!(scheme.as_str(), "http" | "https") && !is_variable(&scheme) {
            return Err("its scheme is neither http nor https");
        }
        let rest = rest.split('#').next().unwrap_or(rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials.to_owned()), host),
            None => (None, authority),
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("it has no host");
        }
        let (path, query) = behind.split_once('?').unwrap_or((behind, ""));
        let host = host.to_ascii_lowercase_outside_variables();
        // `$BASE/path`: the variable brings its own scheme.
        let origin = if !text.contains("://") && host.starts_with("${") {
            host
        } else {
            format!("{scheme}://{}", without_default_port(&scheme, &host))
        };
        Ok(Self {
            origin,
            credentials,
            path: if path.is_empty() { "/" } else { path }.to_owned(),
            query: pairs(query),
        })
    }

    /// Host and port.
    pub(super) fn host(&self) -> &str {
        let host = self.origin.split_once("://");
        host.map_or(self.origin.as_str(), |(_, host)| host)
    }
}

trait Lower {
    fn to_ascii_lowercase_outside_variables(&self) -> String;
}

impl Lower for str {
    fn to_ascii_lowercase_outside_variables(&self) -> String {
        map_literals(self, str::to_ascii_lowercase)
    }
}

fn is_variable(text: &str) -> bool {
    text.starts_with("${") && text.ends_with('}')
}

fn without_default_port<'h>(scheme: &str, host: &'h str) -> &'h str {
    let port = if scheme == "https" { ":443" } else { ":80" };
    host.strip_suffix(port).unwrap_or(host)
}

/// Of a query that [`pairs`] refuses.
pub(super) const NO_PAIRS: &str =
    "a query whose percent-codes are no UTF-8, or one with a variable in a parameter's name";

/// Decoded pairs of a query or a URL-encoded form; `None` if it can't be one.
pub(super) fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pieces = text.split('&').filter(|piece| !piece.is_empty());
    pieces
        .map(|piece| {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            let name = decode(name)?;
            // A parameter's name is no template.
            (!name.contains("${")).then_some(())?;
            Some((name, decode(value)?))
        })
        .collect()
}

/// A template whose literal parts are percent-decoded, `+` as a space; `None` if they are no
/// UTF-8 then.
pub(super) fn decode(text: &str) -> Option<String> {
    let is_text = std::cell::Cell::new(true);
    let decoded = map_literals(text, |part| {
        decode_literal(part).unwrap_or_else(|| {
            is_text.set(false);
            String::new()
        })
    });
    is_text.get().then_some(decoded)
}

fn decode_literal(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let encoded = (first == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match encoded {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Percent-encodes the literal parts of a template as a form field.
pub(super) fn encode(text: &str) -> String {
    map_literals(text, |part| {
        let mut encoded = String::new();
        crate::encode::push_form(part, &mut encoded);
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = Url::parse("https://User:pw@API.example:443/a%20b?x=1+2&y=%C3%A9&z#top").unwrap();
        assert_eq!(url.origin, "https://api.example");
        assert_eq!(url.host(), "api.example");
        assert_eq!(url.credentials.as_deref(), Some("User:pw"));
        assert_eq!(url.path, "/a%20b");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            url.query.expect("pairs"),
            [pair("x", "1 2"), pair("y", "é"), pair("z", "")]
        );
        assert_eq!(Url::parse("http://x/?a=%ff").unwrap().query, None);
        assert_eq!(
            Url::parse("localhost:8000").unwrap().origin,
            "http://localhost:8000"
        );
        assert_eq!(
            Url::parse("http://[::1]:80?a=b").unwrap().origin,
            "http://[::1]"
        );
        assert!(Url::parse("ftp://x/").is_err() && Url::parse("http:///x").is_err());
    }

    #[test]
    fn variables_stay_variables() {
        let url = Url::parse("${BASE}/v1/${id}?q=${Q}%24%7Bx%7D").unwrap();
        assert_eq!(url.origin, "${BASE}");
        assert_eq!(url.path, "/v1/${id}");
        assert_eq!(
            url.query.expect("pairs"),
            [("q".to_owned(), "${Q}$${x}".to_owned())]
        );
        assert_eq!(
            Url::parse("http://${Host}:8000/").unwrap().origin,
            "http://${Host}:8000"
        );
    }
}
