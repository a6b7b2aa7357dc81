//! A request as it goes over the wire: made once where nothing varies, and then only written.

use unstall_results::record::ErrorKind;
use unstall_scenarios::render::RenderedRequest;

use super::failure::Failure;
use super::target::Target;

/// What this generator calls itself, where the scenario doesn't say.
const AGENT: &str = concat!("unstall/", env!("CARGO_PKG_VERSION"));

/// A request, serialised for HTTP/1.1 and in parts for what frames it otherwise.
#[derive(Debug, Default)]
pub(super) struct Wire {
    method: String,
    path: String,
    authority: String,
    headers: Vec<(String, String)>,
    /// Head and body, so that one write sends both.
    http1: Vec<u8>,
    head_bytes: usize,
}

impl Wire {
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
        self.authority = target.host_header();
        self.headers = rendered.headers;
        if !self.headers.iter().any(|(name, _)| name == "user-agent") {
            self.headers
                .push(("user-agent".to_owned(), AGENT.to_owned()));
        }
        self.check()?;
        self.serialise(&rendered.body);
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

    /// The parts, for protocols that frame them in another way: method, path with its query,
    /// authority, header fields without host and length, body.
    #[expect(dead_code, reason = "HTTP/2 frames a request of these")]
    #[expect(clippy::type_complexity, reason = "five borrowed parts of one request")]
    pub(super) fn parts(&self) -> (&str, &str, &str, &[(String, String)], &[u8]) {
        let body = &self.http1[self.head_bytes..];
        (
            &self.method,
            &self.path,
            &self.authority,
            &self.headers,
            body,
        )
    }

    /// Whether the answer has no body, whatever its headers say.
    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    fn serialise(&mut self, body: &[u8]) {
        let out = &mut self.http1;
        out.clear();
        let line = [&*self.method, " ", &self.path, " HTTP/1.1\r\n"];
        line.iter()
            .for_each(|part| out.extend_from_slice(part.as_bytes()));
        field(out, "host", &self.authority);
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
