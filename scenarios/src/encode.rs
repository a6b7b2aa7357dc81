//! Percent-encoding of what goes into a request target or a form.

use std::fmt::Write as _;

/// Appends a path or query component: everything but RFC 3986's unreserved
/// characters is encoded, the slash too.
pub(crate) fn push_component(raw: &str, out: &mut String) {
    push_encoded(raw, out, is_unreserved);
}

/// Appends a form field: as a component, with `+` for a space.
pub(crate) fn push_form(raw: &str, out: &mut String) {
    for (at, word) in raw.split(' ').enumerate() {
        if at > 0 {
            out.push('+');
        }
        push_component(word, out);
    }
}

/// Appends a path that the scenario's author wrote: what a path may contain stays,
/// `%` too, for those who encoded it themselves.
pub(crate) fn push_path(raw: &str, out: &mut String) {
    push_encoded(raw, out, |byte| {
        is_unreserved(byte) || b"/%:@!$&'()*+,;=".contains(&byte)
    });
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn push_encoded(raw: &str, out: &mut String, keep: impl Fn(u8) -> bool) {
    for byte in raw.bytes() {
        if keep(byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String can't fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(push: fn(&str, &mut String), raw: &str) -> String {
        let mut out = String::new();
        push(raw, &mut out);
        out
    }

    #[test]
    fn each_place_has_its_own_rules() {
        assert_eq!(
            encoded(push_component, "octo/hé lo+&"),
            "octo%2Fh%C3%A9%20lo%2B%26"
        );
        assert_eq!(encoded(push_form, "a b+c"), "a+b%2Bc");
        assert_eq!(encoded(push_path, "/a b/%2F?"), "/a%20b/%2F%3F");
    }
}
