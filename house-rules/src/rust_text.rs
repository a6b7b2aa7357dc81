//! Rust source with comments and literals blanked out, so that rules can look for words and braces
//! without a parser: columns don't matter to them, lines do.

/// Replaces what is inside comments, strings and characters by blanks, and keeps all line breaks.
#[must_use]
pub fn code_only(source: &str) -> String {
    let mut blanker = Blanker {
        chars: source.chars().collect(),
        at: 0,
        out: String::with_capacity(source.len()),
    };
    while blanker.at < blanker.chars.len() {
        blanker.step();
    }
    blanker.out
}

struct Blanker {
    chars: Vec<char>,
    at: usize,
    out: String,
}

impl Blanker {
    fn step(&mut self) {
        match self.chars[self.at] {
            '/' if self.is_ahead("//") => self.blank_while(|rest| rest[0] != '\n'),
            '/' if self.is_ahead("/*") => self.blank_comment(),
            '"' => self.blank_string(),
            'r' if !self.is_in_word() => match self.raw_hashes() {
                Some(hashes) => self.blank_raw_string(hashes),
                None => self.keep(),
            },
            '\'' if self.is_character() => {
                self.blank();
                self.blank_escaped_until('\'');
            }
            _ => self.keep(),
        }
    }

    fn is_ahead(&self, text: &str) -> bool {
        let rest = &self.chars[self.at..];
        text.chars()
            .enumerate()
            .all(|(index, c)| rest.get(index) == Some(&c))
    }

    /// Is the character before part of the same word, as in `for"`? A `b` or `c` before `r` is
    /// the prefix of a raw byte or C string.
    fn is_in_word(&self) -> bool {
        let before = |back: usize| self.at.checked_sub(back).map(|at| self.chars[at]);
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        match before(1) {
            Some('b' | 'c') => is_word(before(2)),
            other => is_word(other),
        }
    }

    /// The hashes of a raw string that begins here, at its `r`.
    fn raw_hashes(&self) -> Option<usize> {
        let rest = &self.chars[self.at + 1..];
        let hashes = rest.iter().take_while(|c| **c == '#').count();
        (rest.get(hashes) == Some(&'"')).then_some(hashes)
    }

    /// Tells `'a'` and `'\n'` from the lifetime `'a`.
    fn is_character(&self) -> bool {
        let rest = &self.chars[self.at + 1..];
        rest.first() == Some(&'\\') || rest.get(1) == Some(&'\'')
    }

    fn keep(&mut self) {
        self.out.push(self.chars[self.at]);
        self.at += 1;
    }

    fn blank(&mut self) {
        let c = self.chars[self.at];
        self.out.push(if c == '\n' { '\n' } else { ' ' });
        self.at += 1;
    }

    fn blank_while(&mut self, go_on: impl Fn(&[char]) -> bool) {
        while self.at < self.chars.len() && go_on(&self.chars[self.at..]) {
            self.blank();
        }
    }

    fn blank_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            let opens = self.is_ahead("/*");
            let closes = self.is_ahead("*/");
            depth = depth + usize::from(opens) - usize::from(closes);
            self.blank();
            if opens || closes {
                self.blank();
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn blank_string(&mut self) {
        self.blank();
        self.blank_escaped_until('"');
    }

    fn blank_escaped_until(&mut self, end: char) {
        while self.at < self.chars.len() {
            let c = self.chars[self.at];
            self.blank();
            if c == end {
                return;
            }
            if c == '\\' && self.at < self.chars.len() {
                self.blank();
            }
        }
    }

    fn blank_raw_string(&mut self, hashes: usize) {
        let end: String = std::iter::once('"')
            .chain(std::iter::repeat_n('#', hashes))
            .collect();
        for _ in 0..hashes + 2 {
            self.blank();
        }
        while self.at < self.chars.len() && !self.is_ahead(&end) {
            self.blank();
        }
        for _ in 0..end.len().min(self.chars.len() - self.at) {
            self.blank();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_blank_and_code_is_kept() {
        for (source, kept) in [
            ("let a = \"unsafe {\"; b", "let a = ; b"),
            ("a // unsafe \"\nb", "a \nb"),
            ("a /* x /* { */ } */ b", "a  b"),
            (
                "let q = '\"'; let b = '{'; let n = '\\''; z",
                "let q = ; let b = ; let n = ; z",
            ),
            (
                "fn f<'a>(x: &'a str) { 'l: loop {} }",
                "fn f<'a>(x: &'a str) { 'l: loop {} }",
            ),
            ("r#\"a \" { \"# b", " b"),
            ("br\"\\\" c", "b c"),
            ("for\"}\" d", "for d"),
            ("\"a\\\"} \\\\\" e", " e"),
        ] {
            let got: String = code_only(source);
            let squeeze = |text: &str| {
                text.split(' ')
                    .filter(|word| !word.is_empty())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            assert_eq!(squeeze(&got), squeeze(kept), "{source}");
        }
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = "a\n/* \n\n */ b\n\"x\ny\" c\nr#\"\n\n\"# d\n";
        let code = code_only(source);
        assert_eq!(code.lines().count(), source.lines().count());
        assert_eq!(code.lines().nth(3).map(str::trim), Some("b"));
        assert_eq!(code.lines().nth(5).map(str::trim), Some("c"));
        assert_eq!(code.lines().nth(8).map(str::trim), Some("d"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_keeps_its_line_breaks(text in r#"([a-z\n"'\\/*#{} ]|r#|b'|//){0,60}"#) {
            let breaks = |text: &str| -> Vec<usize> {
                text.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(at, _)| at).collect()
            };
            proptest::prop_assert_eq!(breaks(&code_only(&text)), breaks(&text));
        }
    }
}
