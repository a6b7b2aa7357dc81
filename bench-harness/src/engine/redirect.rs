//! Where a redirect leads and what goes there (RFC 9110 §15.4), as browsers and curl do it. Pure:
//! whether the request may go there is for [`Hosts`](super::hosts::Hosts) to say.

use unstall_results::record::ErrorKind;
use url::Url;

use super::answer::Head;
use super::failure::Failure;

/// Credentials for one service, which no other may see.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// The next request of a redirected one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hop {
    /// Without a fragment or credentials.
    pub(super) url: Url,
    /// The method becomes GET, and there is no body any more.
    pub(super) becomes_get: bool,
    /// Scheme, host and port are those of the request before.
    pub(super) same_origin: bool,
}

impl Hop {
    /// What an answer asks for; `None` if it doesn't redirect.
    ///
    /// # Errors
    /// It does, to what is no URL.
    pub(super) fn of(head: &Head, method: &str, from: &Url) -> Result<Option<Self>, Failure> {
        let becomes_get = match head.status() {
            // Once meant to keep the method; no browser ever did (RFC 9110 §15.4.2, §15.4.3).
            301 | 302 => method == "POST",
            303 => method != "HEAD",
            307 | 308 => false,
            _ => return Ok(None),
        };
        let mut fields = head.fields();
        let location = fields.find(|(name, _)| name.eq_ignore_ascii_case("location"));
        // Without one it is an answer like any other.
        let Some((_, location)) = location else {
            return Ok(None);
        };
        let broken = |why: &dyn std::fmt::Display| {
            let message = format!("the Location of its {} is no URL: {why}", head.status());
            Failure::service(ErrorKind::Protocol, message)
        };
        let location = std::str::from_utf8(location).map_err(|error| broken(&error))?;
        let mut url = from.join(location).map_err(|error| broken(&error))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(broken(&format_args!("its scheme is {}", url.scheme())));
        }
        url.set_fragment(None);
        // Refused only for URLs that can't have them, which these aren't.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok(Some(Self {
            same_origin: url.origin() == from.origin(),
            becomes_get,
            url,
        }))
    }

    /// Whether a header goes along.
    pub(super) fn keeps(&self, name: &str) -> bool {
        let is_credential = || CREDENTIALS.contains(&name);
        let tells_of_body = || name.starts_with("content-");
        (self.same_origin || !is_credential()) && !(self.becomes_get && tells_of_body())
    }

    /// The path with its query.
    pub(super) fn path_and_query(&self) -> &str {
        &self.url[url::Position::BeforePath..url::Position::AfterQuery]
    }
}

/// The hops of one request so far, for messages.
#[derive(Debug, Default)]
pub(super) struct Chain(Vec<String>);

impl Chain {
    /// Hops so far.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Adds a hop. Queries stay out: they hold codes and tokens.
    pub(super) fn push(&mut self, status: u16, hop: &Hop) {
        let place = if hop.same_origin {
            hop.url.path()
        } else {
            &hop.url[..url::Position::AfterPath]
        };
        self.0.push(format!("{status} to {place}"));
    }

    /// One hop too many.
    pub(super) fn too_long(&self, begin: &str, max: u32) -> Failure {
        let message = format!(
            "redirected more than {max} times: {}; mend the service's redirects, or raise \
             redirects_max in the scenario's [client]",
            self.shown(begin)
        );
        Failure::service(ErrorKind::Status, message)
    }

    /// The last hop leads where no load may go.
    pub(super) fn astray(&self, begin: &str, url: &Url) -> Failure {
        let origin = url.origin().ascii_serialization();
        let message = format!(
            "the redirect would send load to {origin}, which is neither the target nor in the \
             scenario's [hosts]: {}; name it in [hosts] if load may go there",
            self.shown(begin)
        );
        Failure::service(ErrorKind::Status, message)
    }

    fn shown(&self, begin: &str) -> String {
        const SHOWN_MAX: usize = 6;
        let mut shown = readable(begin);
        let (first, rest) = self.0.split_at(self.0.len().min(SHOWN_MAX));
        for hop in first {
            shown.push_str(", ");
            shown.push_str(&readable(hop));
        }
        if !rest.is_empty() {
            shown.push_str(&format!(" and {} more", rest.len()));
        }
        shown
    }
}

/// A path as people read it, without its percent-encoding: services write the same text in several
/// ways, and a secret in it has to be known again in all of them.
fn readable(path: &str) -> String {
    let mut rest = path.as_bytes();
    let mut text = Vec::with_capacity(rest.len());
    while let [first, behind @ ..] = rest {
        rest = behind;
        let byte = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => byte_of(*high, *low).inspect(|_| rest = behind),
            _ => None,
        };
        text.push(byte.unwrap_or(*first));
    }
    let text = String::from_utf8_lossy(&text);
    // What would steer a terminal is no part of a path that anybody reads.
    text.replace(char::is_control, "\u{fffd}")
}

/// Two hexadecimal digits (RFC 3986 §2.1).
fn byte_of(high: u8, low: u8) -> Option<u8> {
    let digit = |letter: u8| char::from(letter).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(status: u16, method: &str, location: &str) -> Result<Option<Hop>, Failure> {
        let mut head = Head::default();
        head.begin(status);
        head.push("LOCATION", location.as_bytes());
        let from = Url::parse("http://app.test:8000/a/b?c=d").expect("a URL");
        Hop::of(&head, method, &from)
    }

    fn followed(location: &str) -> Hop {
        let hop = hop(302, "GET", location).expect("a URL");
        hop.expect("a redirect")
    }

    #[test]
    fn methods_are_kept_or_changed_by_the_standard() {
        for (status, method, becomes_get) in [
            (301, "POST", true),
            (302, "POST", true),
            (303, "POST", true),
            (307, "POST", false),
            (308, "POST", false),
            (301, "PUT", false),
            (302, "DELETE", false),
            (303, "PUT", true),
            (303, "HEAD", false),
            (301, "GET", false),
        ] {
            let hop = hop(status, method, "/x")
                .expect("a URL")
                .expect("a redirect");
            assert_eq!(hop.becomes_get, becomes_get, "{status} {method}");
        }
        for status in [200, 201, 300, 304, 305, 306, 404] {
            assert_eq!(hop(status, "GET", "/x"), Ok(None), "{status}");
        }
    }

    #[test]
    fn locations_are_read_as_browsers_do() {
        for (location, expected) in [
            ("/x?y=z#part", "http://app.test:8000/x?y=z"),
            ("x", "http://app.test:8000/a/x"),
            ("../x", "http://app.test:8000/x"),
            ("?q", "http://app.test:8000/a/b?q"),
            ("", "http://app.test:8000/a/b?c=d"),
            ("//other.test/x", "http://other.test/x"),
            ("https://me:secret@other.test/", "https://other.test/"),
            ("/a b/é", "http://app.test:8000/a%20b/%C3%A9"),
        ] {
            assert_eq!(followed(location).url.as_str(), expected, "{location}");
        }
        for wrong in [
            "http://",
            "http://a:b:c/",
            "javascript:x",
            "ftp://app.test/",
        ] {
            let failure = hop(302, "GET", wrong).expect_err(wrong);
            assert!(failure.message.contains("Location"), "{failure:?}");
        }
    }

    #[test]
    fn credentials_stay_with_their_service() {
        for (location, is_kept) in [
            ("http://app.test:8000/x", true),
            ("http://app.test/x", false),
            ("https://app.test:8000/x", false),
            ("http://other.test:8000/x", false),
        ] {
            for name in CREDENTIALS {
                assert_eq!(followed(location).keeps(name), is_kept, "{location} {name}");
            }
            assert!(followed(location).keeps("accept"));
        }
        let get = hop(303, "POST", "/x").expect("a URL").expect("a redirect");
        assert!(!get.keeps("content-type") && get.keeps("authorization"));
    }

    #[test]
    fn paths_are_shown_as_people_read_them() {
        for (path, shown) in [
            ("/a%20b/%c3%A9", "/a b/é"),
            ("/s/a%2Bb%2f%3D", "/s/a+b/="),
            ("/100%/%4/%zz%+1", "/100%/%4/%zz%+1"),
            ("/%1b[2J/%ff", "/\u{fffd}[2J/\u{fffd}"),
        ] {
            assert_eq!(readable(path), shown);
        }
    }

    #[test]
    fn the_chain_is_named_without_queries() {
        let mut chain = Chain::default();
        chain.push(302, &followed("/x?token=secret"));
        chain.push(307, &followed("https://other.test/y?code=secret"));
        let failure = chain.too_long("GET /a", 1);
        assert!(
            failure
                .message
                .contains("GET /a, 302 to /x, 307 to https://other.test/y;"),
            "{failure:?}"
        );
        assert!(!failure.message.contains("secret"));
        let failure = chain.astray("GET /a", &followed("https://other.test:9/y").url);
        assert!(
            failure.message.contains("load to https://other.test:9,"),
            "{failure:?}"
        );
    }
}
