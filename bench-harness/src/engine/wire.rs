//! A request as it goes over the wire: made once where nothing varies, and then only written.

use http::HeaderValue;
use unstall_results::record::ErrorKind;
use unstall_scenarios::render::RenderedRequest;

use super::failure::Failure;
use super::redirect::Hop;
use super::target::Target;

/// What this generator calls itself, where the scenario doesn't say.
pub(super) const AGENT: &str = concat!("unstall/", env!("CARGO_PKG_VERSION"));

const COOKIE: &str = "cookie";

/// A request, serialised for HTTP/1.1 and in parts for what frames it otherwise.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// Which of the [`Hosts`](super::hosts::Hosts) it goes to; 0 is the target.
    pub(super) service: usize,
    method: String,
    path: String,
    authority: String,
    /// Where a proxy forwards requests: what stands before the path, and what it wants to know.
    forwarded: Option<Forwarded>,
    headers: Vec<(String, String)>,
    /// The scenario's own cookies, without those of the user's jar.
    own_cookie: Option<String>,
    /// Head and body, so that one write sends both.
    http1: Vec<u8>,
    head_bytes: usize,
}

/// What a request is made of.
pub(super) struct Parts<'w> {
    pub(super) method: &'w str,
    /// With its query.
    pub(super) path: &'w str,
    pub(super) authority: &'w str,
    /// Header fields without host and length.
    pub(super) fields: &'w [(String, String)],
    pub(super) body: &'w [u8],
}

/// A request is addressed to a proxy, which forwards it.
#[derive(Debug)]
struct Forwarded {
    /// The target's URL without its path.
    origin: String,
    authorization: Option<HeaderValue>,
}

impl Wire {
    /// Nothing yet, to go to one of the hosts.
    pub(super) fn to(service: usize) -> Self {
        Self {
            service,
            ..Self::default()
        }
    }

    /// Joins a rendered request with what only the engine knows: the target.
    ///
    /// # Errors
    /// Something in it would be read by the service as something else.
    pub(super) fn new(rendered: RenderedRequest, target: &Target) -> Result<Self, Failure> {
        let mut wire = Self::default();
        wire.replace(rendered, target)?;
        Ok(wire)
    }

    /// The same, in the memory of the request before.
    ///
    /// # Errors
    /// As [`Wire::new`]; then there is nothing to be sent.
    pub(super) fn replace(
        &mut self,
        rendered: RenderedRequest,
        target: &Target,
    ) -> Result<(), Failure> {
        self.method = rendered.method;
        self.path.clear();
        self.path.push_str(target.base_path());
        self.path.push_str(&rendered.path_and_query);
        self.address(target);
        self.headers = rendered.headers;
        let own = self.headers.iter().find(|(name, _)| name == COOKIE);
        self.own_cookie = own.map(|(_, value)| value.clone());
        if !self.headers.iter().any(|(name, _)| name == "user-agent") {
            self.headers
                .push(("user-agent".to_owned(), AGENT.to_owned()));
        }
        self.check()?;
        self.serialise(&rendered.body);
        Ok(())
    }

    /// The request that a redirect of this one asks for.
    ///
    /// # Errors
    /// As [`Wire::new`].
    pub(super) fn redirected(
        &self,
        hop: &Hop,
        service: usize,
        target: &Target,
    ) -> Result<Self, Failure> {
        let kept = self.headers.iter();
        let kept = kept.filter(|(name, _)| name != COOKIE && hop.keeps(name));
        let mut headers: Vec<(String, String)> = kept.cloned().collect();
        let own_cookie = self.own_cookie.clone().filter(|_| hop.keeps(COOKIE));
        let own = own_cookie.iter().cloned();
        headers.extend(own.map(|value| (COOKIE.to_owned(), value)));
        let (method, body) = if hop.becomes_get {
            ("GET", &[][..])
        } else {
            (self.method.as_str(), self.parts().body)
        };
        let mut wire = Self {
            service,
            method: method.to_owned(),
            path: hop.path_and_query().to_owned(),
            headers,
            own_cookie,
            ..Self::default()
        };
        wire.address(target);
        wire.check()?;
        wire.serialise(body);
        Ok(wire)
    }

    /// Takes the cookies along that a user's jar has for this request, behind the scenario's own.
    ///
    /// # Errors
    /// As [`Wire::new`].
    pub(super) fn carry(&mut self, cookies: &str) -> Result<(), Failure> {
        let own = self.own_cookie.as_deref().unwrap_or("");
        let separator = if own.is_empty() || cookies.is_empty() {
            ""
        } else {
            "; "
        };
        let value = [own, separator, cookies].concat();
        let field = self.headers.iter().position(|(name, _)| name == COOKIE);
        let present = field.map_or("", |index| &self.headers[index].1);
        if present == value {
            return Ok(());
        }
        if let Some(index) = field {
            self.headers.remove(index);
        }
        if !value.is_empty() {
            self.headers.push((COOKIE.to_owned(), value));
        }
        self.check()?;
        let body = self.http1.split_off(self.head_bytes);
        self.serialise(&body);
        Ok(())
    }

    /// A request for a path and nothing more.
    pub(super) fn get(path: &str, target: &Target) -> Result<Self, Failure> {
        let rendered = RenderedRequest {
            method: "GET".to_owned(),
            path_and_query: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        Self::new(rendered, target)
    }

    /// All of it, as HTTP/1.1 has it.
    pub(super) fn http1(&self) -> &[u8] {
        &self.http1
    }

    /// The parts, for protocols that frame them in another way.
    pub(super) fn parts(&self) -> Parts<'_> {
        Parts {
            method: &self.method,
            path: &self.path,
            authority: &self.authority,
            fields: &self.headers,
            body: &self.http1[self.head_bytes..],
        }
    }

    /// Whether the answer has no body, whatever its headers say.
    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    fn address(&mut self, target: &Target) {
        self.authority = target.host_header();
        self.forwarded = target.forwarding_proxy().map(|proxy| Forwarded {
            origin: format!("{}://{}", target.scheme(), self.authority),
            authorization: proxy.authorization().cloned(),
        });
    }

    fn serialise(&mut self, body: &[u8]) {
        let out = &mut self.http1;
        out.clear();
        let origin = self.forwarded.as_ref().map_or("", |to| &to.origin);
        let line = [&*self.method, " ", origin, &self.path, " HTTP/1.1\r\n"];
        line.iter()
            .for_each(|part| out.extend_from_slice(part.as_bytes()));
        field(out, "host", &self.authority);
        let authorization = self
            .forwarded
            .as_ref()
            .and_then(|to| to.authorization.as_ref());
        if let Some(authorization) = authorization {
            out.extend_from_slice(b"proxy-authorization: ");
            out.extend_from_slice(authorization.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        for (name, value) in &self.headers {
            field(out, name, value);
        }
        if !body.is_empty() || expects_body(&self.method) {
            field(out, "content-length", &body.len().to_string());
        }
        out.extend_from_slice(b"\r\n");
        self.head_bytes = out.len();
        out.extend_from_slice(body);
    }

    /// Nothing may end a line, or the request, but where this module does.
    fn check(&self) -> Result<(), Failure> {
        let unusable =
            |what: String| Failure::service(ErrorKind::CheckFailed, format!("not sent: {what}"));
        if !is_token(&self.method) {
            return Err(unusable(format!("`{}` is no method", self.method)));
        }
        let is_target = |byte: u8| byte > b' ' && byte != 0x7f;
        if !(self.path.starts_with('/') || self.path == "*") || !self.path.bytes().all(is_target) {
            return Err(unusable(
                "its path and query are no request target".to_owned(),
            ));
        }
        for (name, value) in &self.headers {
            let is_text = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            if !is_token(name) || !value.bytes().all(is_text) {
                return Err(unusable(format!(
                    "`{name}` is no header, or its value none"
                )));
            }
        }
        Ok(())
    }
}

fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Whether a length of 0 has to be said (RFC 9110 §8.6): some services wait for a body otherwise.
fn expects_body(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(method: &str, body: &str) -> RenderedRequest {
        RenderedRequest {
            method: method.to_owned(),
            path_and_query: "/it?a=b".to_owned(),
            headers: vec![("accept".to_owned(), "*/*".to_owned())],
            body: body.as_bytes().to_vec(),
        }
    }

    #[test]
    fn a_request_is_written_as_the_standard_has_it() {
        let target = Target::parse("http://127.0.0.1:81/base").expect("a URL");
        let mut wire = Wire::new(rendered("GET", ""), &target).expect("it can be sent");
        let text = |wire: &Wire| String::from_utf8(wire.http1().to_vec()).expect("it is text");
        let head = format!(
            "GET /base/it?a=b HTTP/1.1\r\nhost: 127.0.0.1:81\r\naccept: */*\r\nuser-agent: {AGENT}\r\n"
        );
        assert_eq!(text(&wire), format!("{head}\r\n"));
        wire.replace(rendered("POST", "body"), &target)
            .expect("it can be sent");
        let head = head.replace("GET", "POST");
        assert_eq!(text(&wire), format!("{head}content-length: 4\r\n\r\nbody"));
        wire.replace(rendered("POST", ""), &target)
            .expect("it can be sent");
        assert_eq!(text(&wire), format!("{head}content-length: 0\r\n\r\n"));
    }

    #[test]
    fn cookies_of_a_jar_come_and_go() {
        let mut wire = Wire::new(rendered("POST", "body"), &Target::loopback(80)).expect("sent");
        let bare = wire.http1().to_vec();
        let text = |wire: &Wire| String::from_utf8(wire.http1().to_vec()).expect("it is text");
        wire.carry("a=1; b=2").expect("cookies");
        assert!(
            text(&wire).contains("cookie: a=1; b=2\r\n"),
            "{}",
            text(&wire)
        );
        assert!(text(&wire).ends_with("\r\ncontent-length: 4\r\n\r\nbody"));
        wire.carry("").expect("none");
        assert_eq!(wire.http1(), bare);

        let mut own = rendered("GET", "");
        own.headers.push(("cookie".to_owned(), "own=0".to_owned()));
        let mut wire = Wire::new(own, &Target::loopback(80)).expect("sent");
        for _ in 0..2 {
            wire.carry("a=1").expect("cookies");
            assert_eq!(text(&wire).matches("cookie: own=0; a=1\r\n").count(), 1);
        }
    }

    #[test]
    fn what_would_be_read_as_something_else_is_not_sent() {
        let target = Target::loopback(80);
        for spoil in [
            (|it| it.method = "GE T".to_owned()) as fn(&mut RenderedRequest),
            |it| it.method.clear(),
            |it| it.path_and_query = "/a b".to_owned(),
            |it| it.path_and_query = "/a\r\nx: y".to_owned(),
            |it| it.path_and_query = "a".to_owned(),
            |it| it.headers[0].0 = "a:b".to_owned(),
            |it| it.headers[0].1 = "a\r\nb: c".to_owned(),
            |it| it.headers[0].1 = "a\0".to_owned(),
        ] {
            let mut request = rendered("GET", "");
            spoil(&mut request);
            let failure = Wire::new(request, &target).expect_err("it must not be sent");
            assert!(failure.message.starts_with("not sent: "), "{failure:?}");
        }
    }
}
