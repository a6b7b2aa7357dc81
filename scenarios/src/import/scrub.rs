//! Credentials inside of texts: in JSON that is none for a parser, in JSON inside of strings, in
//! YAML, XML, forms and URLs. What a text is, is not asked: whatever stands behind a name that is
//! a credential's is hidden.

use std::sync::LazyLock;

use regex::Regex;

use super::scrub_json;
use super::secret_names::is_secret_name;
use super::secrets::Secrets;

/// Strings inside of strings inside of …
const DEPTH_MAX: usize = 4;

/// Each has a group `name` (or is a credential by its form), and of `a`, `b`, `c` the value.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // name="value", name='value', name=value
        r#"(?<name>[A-Za-z_][\w.\-\[\]]*)\s*=\s*(?:"(?<a>[^"]*)"|'(?<b>[^']*)'|(?<c>(?:\$\{[^}]*\}|[^\s"'\\&;<>,{}])+))"#,
        // name: "value", name: 'value'
        r#"(?<name>[A-Za-z_][\w.\-]*)\s*:\s*(?:"(?<a>(?:[^"\\]|\\.)*)"|'(?<b>[^']*)')"#,
        // A line of YAML, or of headers.
        r#"(?m)^[ \t\-]*(?<name>[A-Za-z_][\w.\-]*):[ \t]+(?<a>[^\s"'\[{|>&][^\r\n]*)"#,
        // <name>value</name>
        r"(?s)<(?:[\w.\-]+:)?(?<name>[\w.\-]+)(?:\s[^<>]*)?>\s*(?:<!\[CDATA\[(?<a>.*?)\]\]>|(?<b>[^<>\s][^<>]*))",
        // A part of a multipart form.
        r#"name="(?<name>[^"]+)"[^\r\n]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n(?<a>[^\r\n]+)"#,
        // user:password of a URL
        r#"://(?<a>[^/\s"'@<>?#:]*:[^/\s"'@<>?#]+)@"#,
    ]
    .iter()
    // They are constants, and a test reads each.
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// A template with variables in the places of credentials.
pub(super) fn scrub(text: &str, secrets: &mut Secrets) -> String {
    scrub_at(text, secrets, 0)
}

/// The same inside of a string that stands so deep.
pub(super) fn scrub_at(text: &str, secrets: &mut Secrets, depth: usize) -> String {
    if depth > DEPTH_MAX {
        return text.to_owned();
    }
    let text = scrub_json::scrub(text, secrets, depth);
    PATTERNS
        .iter()
        .fold(text, |text, pattern| hide(&text, pattern, secrets))
}

fn hide(text: &str, pattern: &Regex, secrets: &mut Secrets) -> String {
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = pattern.captures_at(text, at) {
        let name = found.name("name");
        let value = ["a", "b", "c"].iter().find_map(|group| found.name(group));
        // The value of another name may hold pairs of its own.
        at = match (name, &value) {
            (Some(name), _) if !is_secret_name(name.as_str()) => name.end(),
            (_, Some(value)) => value.end(),
            (Some(name), None) => name.end(),
            // An empty match goes nowhere.
            (None, None) => break,
        };
        let (Some(value), true) = (value, name.is_none_or(|name| is_secret_name(name.as_str())))
        else {
            continue;
        };
        let hint = name.map_or("url_credentials", |name| name.as_str());
        out.push_str(&text[copied..value.start()]);
        out.push_str(&secrets.hide_value(hint, value.as_str()));
        copied = value.end();
    }
    out.push_str(&text[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(PATTERNS.len(), 6);
    }

    #[test]
    fn credentials_are_found_in_texts_of_any_kind() {
        for (text, expected) in [
            ("a=1&password=hush!{", "a=1&password=${password}{"),
            (
                "<a:Password Type=\"t\">hush</a:Password>",
                "<a:Password Type=\"t\">${password}</a:Password>",
            ),
            (
                "<pin><![CDATA[hush]]></pin>",
                "<pin><![CDATA[${pin}]]></pin>",
            ),
            ("<u password='hush'/>", "<u password='${password}'/>"),
            (
                "login(user: \"a\", password: \"hush\")",
                "login(user: \"a\", password: \"${password}\")",
            ),
            (
                "user: a\npassword: hush hush\n",
                "user: a\npassword: ${password}\n",
            ),
            (
                "https://joe:hush@a.example/x",
                "https://${url_credentials}@a.example/x",
            ),
            ("next=\"/x?token=hush\"", "next=\"/x?token=${token}\""),
            ("/a;jsessionid=hush?x", "/a;jsessionid=${jsessionid}"),
            ("token=${T}", "token=${T}"),
            (
                "--X\r\nContent-Disposition: form-data; name=\"pin\"\r\n\r\nhush\r\n",
                "--X\r\nContent-Disposition: form-data; name=\"pin\"\r\n\r\n${pin}\r\n",
            ),
            ("max_tokens=5&a==&=", "max_tokens=5&a==&="),
            ("plain text", "plain text"),
        ] {
            let mut secrets = Secrets::default();
            assert_eq!(scrub(text, &mut secrets), expected, "{text}");
        }
    }
}
