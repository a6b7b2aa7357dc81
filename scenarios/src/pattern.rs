//! Regular expressions of scenario files: compiled once at load, bounded in size, matched
//! in linear time, so that no answer can make the load generator think for long.

use regex::bytes::{Regex, RegexBuilder};

/// Longest expression, in bytes of its text.
const TEXT_BYTES_MAX: usize = 1_000;
/// Most memory of the compiled expression, and of the automaton that is built while matching.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// An expression that takes one text out of another: its only group, or else the whole match.
#[derive(Clone)]
pub struct Pattern {
    regex: Regex,
    group: usize,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Not a regular expression of the `regex` crate's syntax.
    #[error("not a regular expression: {0}")]
    Syntax(String),
    /// More than one group.
    #[error("it has {0} groups, and which of them is meant can't be known")]
    Groups(usize),
    /// Too long, or too big when compiled.
    #[error("it is too big")]
    Big,
}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(PatternError::Big);
        }
        let regex = RegexBuilder::new(text)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => PatternError::Big,
                other => PatternError::Syntax(last_line(&other.to_string())),
            })?;
        match regex.captures_len() - 1 {
            groups @ (0 | 1) => Ok(Self {
                regex,
                group: groups,
            }),
            groups => Err(PatternError::Groups(groups)),
        }
    }

    /// What the first match takes; `None` if nothing fits, or the group took no part in it.
    pub fn find<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        if self.group == 0 {
            return self.regex.find(text).map(|found| found.as_bytes());
        }
        let captures = self.regex.captures(text)?;
        captures.get(self.group).map(|found| found.as_bytes())
    }

    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pattern({:?})", self.as_str())
    }
}

/// The library draws the expression with a mark below it; what is wrong is its last line.
fn last_line(message: &str) -> String {
    let line = message.lines().last().unwrap_or(message).trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
        let found = Pattern::new(pattern).unwrap().find(text.as_bytes());
        found.map(|bytes| std::str::from_utf8(bytes).unwrap())
    }

    #[test]
    fn takes_the_group_or_the_whole_match() {
        assert_eq!(found(r"id=(\w+)", "/x?id=a1&b=2"), Some("a1"));
        assert_eq!(found(r"id=\w+", "/x?id=a1&b=2"), Some("id=a1"));
        assert_eq!(found(r"(?:a|b)(\d)", "b7"), Some("7"));
        assert_eq!(found("a(b)?", "ac"), None);
        assert_eq!(found("x", "ac"), None);
    }

    #[test]
    fn refuses_what_could_not_be_meant_or_paid_for() {
        let error = |text: &str| Pattern::new(text).unwrap_err();
        assert_eq!(error("(a)(b)"), PatternError::Groups(2));
        assert_eq!(error(r"\w{1000}{1000}"), PatternError::Big);
        assert_eq!(error(&"a".repeat(1_001)), PatternError::Big);
        assert_eq!(
            error("(a"),
            PatternError::Syntax("unclosed group".to_owned())
        );
    }
}
