//! Globs over names: `*` is any run of characters, also an empty one and across `/`; `?` is
//! exactly one character. Everything else is itself, and capitals count.

use std::fmt;

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// The pattern as written.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether all of a text is described. Takes time by the product of both lengths at most,
    /// whatever stars the pattern has.
    pub fn matches(&self, text: &str) -> bool {
        let pattern: Vec<char> = self.0.chars().collect();
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut seen) = (0, 0);
        // The last star, and what it has swallowed so far.
        let mut star: Option<(usize, usize)> = None;
        while seen < text.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(one) if *one == '?' || *one == text[seen] => {
                    at += 1;
                    seen += 1;
                }
                _ => {
                    let Some((star_at, swallowed)) = star else {
                        return false;
                    };
                    star = Some((star_at, swallowed + 1));
                    at = star_at + 1;
                    seen = swallowed + 1;
                }
            }
        }
        pattern[at..].iter().all(|rest| *rest == '*')
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_and_question_marks() {
        let cases = [
            ("GET /api/*/usage*", "GET /api/v1/usage", true),
            ("GET /api/*/usage*", "GET /api/v1/users/3/usage?x=1", true),
            ("GET /api/*/usage*", "GET /api/usage", false),
            ("POST *", "POST /messages", true),
            ("POST *", "POST", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("?", "ü", true),
            ("?", "", false),
            ("response_*", "response_p95", true),
            ("*_p9?", "response_p95", true),
            ("*_p9?", "response_p9", false),
            ("get *", "GET /", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                Glob::new(pattern).matches(text),
                expected,
                "{pattern} {text}"
            );
        }
    }

    /// The definition, which takes exponential time.
    fn by_definition(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|n| by_definition(rest, &text[n..])),
            Some((one, rest)) => text
                .split_first()
                .is_some_and(|(c, text)| (*one == '?' || one == c) && by_definition(rest, text)),
        }
    }

    proptest! {
        #[test]
        fn it_is_what_it_is_defined_as(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let chars = |of: &str| of.chars().collect::<Vec<char>>();
            let expected = by_definition(&chars(&pattern), &chars(&text));
            prop_assert_eq!(Glob::new(&pattern).matches(&text), expected);
        }
    }
}
