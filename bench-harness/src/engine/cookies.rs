//! One user's jar of cookies (RFC 6265): what answers set goes out again with the requests that it
//! is meant for, by host, path, time and `Secure`. Ports don't matter, as with browsers.
//!
//! Values are secrets: whoever has one is that user.

use cookie_store::CookieStore;
use url::Url;

use super::answer::Head;

/// A browser's bounds; what exceeds them is not kept.
const COOKIE_BYTES_MAX: usize = 4096;
const COOKIES_MAX: usize = 180;
/// A shorter value is no credential, and stands in too many texts to be taken out of them.
const SECRET_BYTES_MIN: usize = 8;

/// The cookies of one user.
#[derive(Default)]
pub(super) struct Jar {
    store: CookieStore,
    /// Set since they were asked for.
    new_secrets: Vec<String>,
}

impl Jar {
    /// Takes what an answer sets. What the rules refuse is left out, as browsers do.
    pub(super) fn take(&mut self, head: &Head, url: &Url) {
        for (name, value) in head.fields() {
            if !name.eq_ignore_ascii_case("set-cookie") {
                continue;
            }
            // What isn't text can't be sent back.
            let Ok(value) = std::str::from_utf8(value) else {
                continue;
            };
            let pair = value.split(';').next().unwrap_or(value);
            if pair.len() > COOKIE_BYTES_MAX || pair.contains(char::is_control) {
                continue;
            }
            // An error is one of the rules.
            if self.store.parse(value, url).is_ok() {
                if let Some((_, secret)) = pair.split_once('=') {
                    self.remember(secret);
                }
                self.keep_small();
            }
        }
    }

    /// The value of a request's `Cookie`; empty if there is none for it.
    pub(super) fn header(&self, url: &Url) -> String {
        let mut cookies = self.store.matches(url);
        // Longer paths first (§5.4); among equals the earlier one, which is their order already.
        cookies.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let mut header = String::new();
        for cookie in cookies {
            if !header.is_empty() {
                header.push_str("; ");
            }
            header.push_str(cookie.name());
            header.push('=');
            header.push_str(cookie.value());
        }
        header
    }

    /// Values that came since this was asked last, to be taken out of messages.
    pub(super) fn take_new_secrets(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new_secrets)
    }

    fn remember(&mut self, secret: &str) {
        let secret = secret.trim().trim_matches('"');
        if secret.len() >= SECRET_BYTES_MIN {
            self.new_secrets.push(secret.to_owned());
        }
    }

    /// Expired ones go, then the oldest of the first host.
    fn keep_small(&mut self) {
        let count = self.store.iter_any().count();
        if count <= COOKIES_MAX {
            return;
        }
        let oldest = self
            .store
            .iter_any()
            .find(|cookie| cookie.is_expired())
            .or_else(|| self.store.iter_any().next());
        let place = oldest.map(|cookie| {
            let domain = String::from(&cookie.domain);
            let path = String::from(&cookie.path);
            (domain, path, cookie.name().to_owned())
        });
        if let Some((domain, path, name)) = place {
            self.store.remove(&domain, &path, &name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    fn jar(from: &str, lines: &[&str]) -> Jar {
        let mut jar = Jar::default();
        take(&mut jar, from, lines);
        jar
    }

    fn take(jar: &mut Jar, from: &str, lines: &[&str]) {
        let mut head = Head::default();
        head.begin(200);
        for line in lines {
            head.push("Set-Cookie", line.as_bytes());
        }
        jar.take(&head, &url(from));
    }

    #[test]
    fn cookies_go_where_they_belong() {
        let jar = jar(
            "http://app.test/a/b",
            &[
                "root=1; Path=/",
                "here=2",
                "wide=3; Domain=app.test; Path=/",
                "secure=4; Secure; Path=/",
                "foreign=5; Domain=other.test",
                "sub=6; Domain=deep.app.test",
            ],
        );
        for (to, expected) in [
            ("http://app.test/a/c", "here=2; root=1; wide=3"),
            ("http://app.test/ab", "root=1; wide=3"),
            ("http://app.test:81/", "root=1; wide=3"),
            ("https://app.test/", "root=1; wide=3; secure=4"),
            ("http://deep.app.test/", "wide=3"),
            ("http://xapp.test/", ""),
            ("http://other.test/", ""),
        ] {
            assert_eq!(jar.header(&url(to)), expected, "{to}");
        }
    }

    #[test]
    fn cookies_end() {
        let mut jar = jar(
            "http://app.test/",
            &[
                "a=1; Max-Age=60",
                "b=2; Expires=Wed, 21 Oct 2015 07:28:00 GMT",
                "c=3",
            ],
        );
        assert_eq!(jar.header(&url("http://app.test/")), "a=1; c=3");
        take(&mut jar, "http://app.test/", &["a=; Max-Age=0", "c=4"]);
        assert_eq!(jar.header(&url("http://app.test/")), "c=4");
    }

    #[test]
    fn a_service_on_this_machine_may_set_secure_cookies_without_tls() {
        let jar = jar("http://127.0.0.1:8000/", &["a=1; Secure"]);
        assert_eq!(jar.header(&url("http://127.0.0.1:8000/")), "a=1");
    }

    #[test]
    fn values_are_told_once_as_secrets_and_short_ones_never() {
        let mut jar = jar(
            "http://app.test/",
            &["a=0123456789abcdef", "lang=en", "b=\"quoted-secret\""],
        );
        assert_eq!(
            jar.take_new_secrets(),
            ["0123456789abcdef", "quoted-secret"]
        );
        assert!(jar.take_new_secrets().is_empty());
    }

    #[test]
    fn a_jar_has_bounds() {
        let mut jar = Jar::default();
        for index in 0..COOKIES_MAX + 20 {
            take(&mut jar, "http://app.test/", &[&format!("c{index}=x")]);
        }
        let header = jar.header(&url("http://app.test/"));
        assert_eq!(header.split("; ").count(), COOKIES_MAX);
        assert!(
            header.ends_with(&format!("c{}=x", COOKIES_MAX + 19)),
            "the newest stay"
        );
        let long = format!("long={}", "x".repeat(COOKIE_BYTES_MAX));
        take(&mut jar, "http://app.test/", &[&long, "bad=a\u{1}b"]);
        assert!(!jar.header(&url("http://app.test/")).contains("long"));
        assert!(!jar.header(&url("http://app.test/")).contains("bad"));
    }
}
