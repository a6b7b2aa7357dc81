//! The error of a text that is no name: what it should have been, and why it isn't.

/// Characters of a refused text that are shown; the rest would only fill a log.
const SHOWN_CHARS_MAX: usize = 80;

/// A text that can't be what it was given as. Nothing was done with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{shown} is not a valid {kind}: {reason}")]
pub struct Invalid {
    kind: &'static str,
    shown: String,
    reason: &'static str,
}

impl Invalid {
    /// Refuses `value`, which is shown escaped and shortened.
    pub(crate) fn new(kind: &'static str, value: &str, reason: &'static str) -> Self {
        let mut start: String = value.chars().take(SHOWN_CHARS_MAX).collect();
        if start.len() < value.len() {
            start.push('…');
        }
        Self {
            kind,
            shown: format!("{start:?}"),
            reason,
        }
    }

    /// Refuses a value that may hold a secret, and is never shown.
    pub(crate) fn unshown(kind: &'static str, reason: &'static str) -> Self {
        Self {
            kind,
            shown: "what was given".to_owned(),
            reason,
        }
    }

    /// What the text should have been, in words: `branch name`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Why it isn't, and what it must look like.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_text_is_shown_escaped_and_shortened() {
        let shown = Invalid::new("user id", "a\nb", "no line breaks").to_string();
        assert_eq!(shown, r#""a\nb" is not a valid user id: no line breaks"#);
        let long = Invalid::new("user id", &"ä".repeat(500), "too long").to_string();
        assert!(long.chars().count() < 130, "{long}");
        assert!(long.contains('…'));
    }
}
