//! Words of a command line, quoted as in bash. Variables stay variables; what only a running
//! shell could know is refused.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::Chars;

use super::ImportError;

/// One command: its words up to the next `;`, `&`, `|` or line end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Command {
    /// Never empty.
    pub(super) words: Vec<Word>,
}

/// One word, as a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// The line on which it begins, from 1.
    pub(super) line: usize,
}

/// What a text holds.
#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) commands: Vec<Command>,
    /// Shell variables that were used, with the defaults that stand beside them.
    pub(super) variables: Vec<(String, Option<String>)>,
}

/// Cuts a text into commands.
///
/// # Errors
/// An open quote, or what only a shell could evaluate.
pub(super) fn read(text: &str) -> Result<Commands, ImportError> {
    let mut reader = Reader {
        rest: text.chars().peekable(),
        line: 1,
        found: Commands::default(),
        command: Command::default(),
        word: None,
    };
    reader.run()?;
    let mut seen = BTreeSet::new();
    reader
        .found
        .variables
        .retain(|(name, _)| seen.insert(name.clone()));
    Ok(reader.found)
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    line: usize,
    found: Commands,
    command: Command,
    word: Option<Word>,
}

impl Reader<'_> {
    fn run(&mut self) -> Result<(), ImportError> {
        while let Some(letter) = self.next() {
            match letter {
                ' ' | '\t' | '\r' => self.end_word(),
                '\n' | ';' | '&' | '|' => self.end_command(),
                '#' if self.word.is_none() => self.skip_line(),
                '\\' => self.backslash()?,
                '\'' => self.single_quotes()?,
                '"' => self.double_quotes()?,
                '$' => self.dollar(false)?,
                '`' => return Err(self.evaluated("`…`")),
                '<' | '>' => self.redirection(letter)?,
                '(' | ')' if self.word.is_none() => self.end_command(),
                '^' if self.rest.peek() == Some(&'"') => {
                    return Err(ImportError::at_line(
                        self.line,
                        "this is quoted for the command prompt of Windows (`^\"`)",
                        "copy it anew, as `cURL (bash)`",
                    ));
                }
                other => self.push(other),
            }
        }
        self.end_command();
        Ok(())
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest.next()?;
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn word(&mut self) -> &mut String {
        let line = self.line;
        let word = self.word.get_or_insert_with(|| Word {
            text: String::new(),
            line,
        });
        &mut word.text
    }

    /// A literal letter: `${` must not become a variable.
    fn push(&mut self, letter: char) {
        let word = self.word();
        if letter == '{' && word.ends_with('$') {
            word.push('$');
        }
        word.push(letter);
    }

    fn end_word(&mut self) {
        self.command.words.extend(self.word.take());
    }

    fn end_command(&mut self) {
        self.end_word();
        let command = std::mem::take(&mut self.command);
        if !command.words.is_empty() {
            self.found.commands.push(command);
        }
    }

    fn skip_line(&mut self) {
        while self.rest.peek().is_some_and(|letter| *letter != '\n') {
            self.next();
        }
    }

    /// Outside quotes: joins lines, or takes the next letter as it is.
    fn backslash(&mut self) -> Result<(), ImportError> {
        if self.rest.peek() == Some(&'\r') {
            self.next();
        }
        match self.next() {
            Some('\n') | None => {}
            Some(letter) => self.push(letter),
        }
        Ok(())
    }

    fn single_quotes(&mut self) -> Result<(), ImportError> {
        let line = self.line;
        self.word();
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some(letter) => self.push(letter),
                None => return Err(open_quote(line, '\'')),
            }
        }
    }

    fn double_quotes(&mut self) -> Result<(), ImportError> {
        let line = self.line;
        self.word();
        loop {
            match self.next() {
                Some('"') => return Ok(()),
                Some('\\') => match self.next() {
                    Some('\n') => {}
                    Some(letter @ ('"' | '\\' | '$' | '`')) => self.push(letter),
                    Some(letter) => {
                        self.push('\\');
                        self.push(letter);
                    }
                    None => return Err(open_quote(line, '"')),
                },
                Some('$') => self.dollar(true)?,
                Some('`') => return Err(self.evaluated("`…`")),
                Some(letter) => self.push(letter),
                None => return Err(open_quote(line, '"')),
            }
        }
    }

    /// `$name`, `${name}`, `${name:-default}`, `$'…'`; any other `$` is one.
    fn dollar(&mut self, is_quoted: bool) -> Result<(), ImportError> {
        match self.rest.peek().copied() {
            Some('\'') if !is_quoted => {
                self.next();
                self.ansi_quotes()
            }
            Some('"') if !is_quoted => {
                self.next();
                self.double_quotes()
            }
            Some('(') => Err(self.evaluated("$(…)")),
            Some('{') => {
                self.next();
                self.braced()
            }
            Some(first) if first.is_ascii_alphabetic() || first == '_' => {
                let mut name = String::new();
                let belongs = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
                while let Some(letter) = self.rest.next_if(belongs) {
                    name.push(letter);
                }
                self.variable(name, None)
            }
            _ => {
                self.push('$');
                Ok(())
            }
        }
    }

    fn braced(&mut self) -> Result<(), ImportError> {
        let line = self.line;
        let mut inner = String::new();
        loop {
            match self.next() {
                Some('}') => break,
                Some(letter) => inner.push(letter),
                None => return Err(open_quote(line, '{')),
            }
        }
        let (name, default) = match inner.split_once(":-").or_else(|| inner.split_once('-')) {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (inner.as_str(), None),
        };
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name || default.as_ref().is_some_and(|text| text.contains('$')) {
            // Its default may be a credential.
            let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, rest) = inner.split_at(end.unwrap_or(inner.len()));
            let rest = if rest.is_empty() { "" } else { "…" };
            return Err(self.evaluated(&format!("${{{name}{rest}}}")));
        }
        self.variable(name.to_owned(), default)
    }

    fn variable(&mut self, name: String, default: Option<String>) -> Result<(), ImportError> {
        let line = self.line;
        let word = self.word();
        if word.ends_with('$') {
            // Together they would be an escape.
            return Err(ImportError::at_line(
                line,
                format!("a scenario can't hold a `$` in front of the variable `{name}`"),
                "make the `$` part of the variable's value",
            ));
        }
        word.push_str("${");
        word.push_str(&name);
        word.push('}');
        self.found.variables.push((name, default));
        Ok(())
    }

    /// `$'…'`, as browsers copy what has line breaks or quotes in it.
    fn ansi_quotes(&mut self) -> Result<(), ImportError> {
        let line = self.line;
        self.word();
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some('\\') => self.ansi_escape(line)?,
                Some(letter) => self.push(letter),
                None => return Err(open_quote(line, '\'')),
            }
        }
    }

    fn ansi_escape(&mut self, line: usize) -> Result<(), ImportError> {
        let Some(letter) = self.next() else {
            return Err(open_quote(line, '\''));
        };
        let plain = match letter {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'e' | 'E' => '\u{1b}',
            'x' => return self.code(line, 16, 2, None),
            'u' => return self.code(line, 16, 4, None),
            'U' => return self.code(line, 16, 8, None),
            '0'..='7' => return self.code(line, 8, 2, letter.to_digit(8)),
            other => other,
        };
        self.push(plain);
        Ok(())
    }

    /// A letter by its number.
    fn code(
        &mut self,
        line: usize,
        radix: u32,
        digits_max: usize,
        first: Option<u32>,
    ) -> Result<(), ImportError> {
        let mut number = first;
        for _ in 0..digits_max {
            let Some(digit) = self.rest.peek().and_then(|letter| letter.to_digit(radix)) else {
                break;
            };
            self.next();
            number = Some(
                number
                    .unwrap_or(0)
                    .saturating_mul(radix)
                    .saturating_add(digit),
            );
        }
        let letter = number.and_then(char::from_u32);
        // Bytes above 0x7f are part of a letter in some encoding, which one isn't said.
        let is_byte = radix == 8 || digits_max == 2;
        match letter.filter(|letter| !is_byte || letter.is_ascii()) {
            Some(letter) => {
                self.push(letter);
                Ok(())
            }
            None => Err(ImportError::at_line(
                line,
                "an escape in $'…' names a byte or code that is no letter by itself",
                "write the letter itself, or `\\uXXXX`",
            )),
        }
    }

    /// Where output goes is nobody's business here; input is.
    fn redirection(&mut self, letter: char) -> Result<(), ImportError> {
        if letter == '<' {
            return Err(ImportError::at_line(
                self.line,
                "the command reads its input from elsewhere (`<`)",
                "put what it reads into a file, and send it with `-d @FILE`",
            ));
        }
        // `2>`: the number is no word.
        if self
            .word
            .as_ref()
            .is_some_and(|word| word.text.len() == 1 && word.text.starts_with(['1', '2']))
        {
            self.word = None;
        }
        self.end_word();
        while self
            .rest
            .next_if(|letter| matches!(letter, '>' | '&' | ' ' | '\t'))
            .is_some()
        {}
        let is_target =
            |letter: &char| !letter.is_whitespace() && !matches!(letter, ';' | '&' | '|');
        while self.rest.next_if(is_target).is_some() {}
        Ok(())
    }

    fn evaluated(&self, what: &str) -> ImportError {
        ImportError::at_line(
            self.line,
            format!("{what} is known to a running shell only"),
            "write its value, or put it into an environment variable: `$NAME` becomes a variable of \
             the scenario",
        )
    }
}

fn open_quote(line: usize, quote: char) -> ImportError {
    ImportError::at_line(
        line,
        format!("`{quote}` is never closed"),
        "copy the whole command, with its closing quote",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let commands = read(text).unwrap().commands.into_iter();
        commands
            .map(|command| command.words.into_iter().map(|word| word.text).collect())
            .collect()
    }

    #[test]
    fn quotes_are_those_of_bash() {
        for (text, expected) in [
            ("a 'b c' \"d e\"f", &["a", "b c", "d ef"][..]),
            ("a \\\n  b", &["a", "b"]),
            ("a \\\r\n  b", &["a", "b"]),
            (r#"'a\n' "a\n\"\\" a\ b"#, &["a\\n", "a\\n\"\\", "a b"]),
            (r"$'a\n\t\x41\u00e9\'\101'", &["a\n\tAé'A"]),
            ("'${x} $y'", &["$${x} $y"]),
            ("\"$x-${y}\" \\$z $5", &["${x}-${y}", "$z", "$5"]),
            ("a '' b", &["a", "", "b"]),
            ("it's ok'", &["its ok"]),
            ("a > out.json 2>&1 b", &["a", "b"]),
            ("a # b c", &["a"]),
            ("a#b", &["a#b"]),
            ("'{\"a\": \"b\"}'", &["{\"a\": \"b\"}"]),
        ] {
            assert_eq!(words(text), [expected.to_vec()], "{text}");
        }
    }

    #[test]
    fn commands_end_where_they_end() {
        assert_eq!(
            words("a b | jq .; c &\nd && e"),
            [
                vec!["a", "b"],
                vec!["jq", "."],
                vec!["c"],
                vec!["d"],
                vec!["e"]
            ]
        );
    }

    #[test]
    fn variables_are_told_with_their_defaults() {
        let found = read("curl \"$A/${B:-b c}\" $A").unwrap();
        let expected = [
            ("A".to_owned(), None),
            ("B".to_owned(), Some("b c".to_owned())),
        ];
        assert_eq!(found.variables, expected);
    }

    #[test]
    fn what_needs_a_shell_is_refused_at_its_line() {
        for text in [
            "\n'a",
            "\n\"a",
            "\n$(date)",
            "\n`date`",
            "\n\"$(id)\"",
            "\n${x/a/b}",
            "\na <b",
            "\ncurl ^\"a^\"",
            "\n$'\\xff'",
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.place, "line 2", "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[\\PC\n]{0,60}|[a'\"$\\\\{}( \n]{0,40}") {
            if let Ok(found) = read(&text) {
                prop_assert!(found.commands.iter().all(|command| !command.words.is_empty()));
                // Every word is a template.
                for word in found.commands.iter().flat_map(|command| &command.words) {
                    prop_assert!(crate::plan::Template::parse(&word.text).is_ok(), "{}", word.text);
                }
            }
        }

        #[test]
        fn a_single_quoted_text_is_itself(text in "[^']{0,40}") {
            let quoted = format!("'{text}'");
            let expected = super::super::draft::literal(&text);
            prop_assert_eq!(words(&quoted), [vec![expected]]);
        }
    }
}
