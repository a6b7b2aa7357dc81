//! Keeps secrets out of messages and records: every form in which a request may
//! carry a secret (as it is, percent-encoded, inside a JSON string) is replaced.

use std::borrow::Cow;
use std::sync::Arc;

use crate::encode;
use crate::template::push_json_escaped;

const MASK: &str = "[secret]";

/// The texts that must not be shown. Cheap to clone.
#[derive(Clone, Default)]
pub struct Redaction {
    /// Longest first, so that a secret that contains another is hidden whole.
    needles: Arc<[String]>,
}

impl Redaction {
    /// Hides these secrets; empty ones are ignored.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut needles: Vec<String> = secrets
            .into_iter()
            .filter(|secret| !secret.is_empty())
            .flat_map(forms)
            .collect();
        needles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        needles.dedup();
        Self {
            needles: needles.into(),
        }
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.needles.is_empty()
    }

    /// The text with each secret replaced.
    pub fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        for needle in self.needles.iter() {
            if shown.contains(needle.as_str()) {
                shown = Cow::Owned(shown.replace(needle.as_str(), MASK));
            }
        }
        shown
    }
}

impl std::fmt::Debug for Redaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redaction({} texts)", self.needles.len())
    }
}

fn forms(secret: &str) -> [String; 4] {
    let mut json = String::new();
    push_json_escaped(secret, &mut json);
    let mut query = String::new();
    encode::push_component(secret, &mut query);
    let mut form = String::new();
    encode::push_form(secret, &mut form);
    [secret.to_owned(), json, query, form]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_every_form() {
        let redaction = Redaction::new(["a \"b\"&", "a", ""]);
        for text in [
            "a \"b\"&",
            "a \\\"b\\\"&",
            "a%20%22b%22%26",
            "a+%22b%22%26",
            "a",
        ] {
            assert_eq!(redaction.apply(&format!("<{text}>")), "<[secret]>");
        }
        assert!(matches!(redaction.apply("zzz"), Cow::Borrowed("zzz")));
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(
            format!("{:?}", Redaction::new(["hush"])),
            "Redaction(1 texts)"
        );
    }
}
