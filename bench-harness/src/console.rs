//! Where words go: results on stdout, progress on stderr, or one JSON document on stdout.
//!
//! No command prints by itself, so that `--json`, a closed pipe and a full disk are
//! handled in this one place.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use console::Term;
use unstall_results::comparison::Verdict;

use crate::document::{Content, Document, VerdictName};
use crate::exit::ExitStatus;

/// Columns of a table that goes to a file or a pipe.
const WIDTH_ELSEWHERE: usize = 100;

/// What a command hands back: never printed before it is complete.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The judgement, where the command judges versions; that of a proof or a self-test is in its
    /// content.
    pub(crate) verdict: Option<Verdict>,
    /// How to exit, where a policy says otherwise than the verdict.
    pub(crate) status: Option<ExitStatus>,
    /// For people, plain or coloured, ending in a newline.
    pub(crate) text: String,
    /// The same for programs.
    pub(crate) content: Content,
}

impl Outcome {
    /// The judgement by its name, of versions, of a proof or of a self-test.
    fn verdict(&self) -> Option<VerdictName> {
        let of_proof = self.content.proof.as_ref().map(|proof| proof.verdict());
        let of_selftest = self.content.selftest.as_ref().map(|found| found.verdict());
        let of_torture = self.content.torture.as_ref().map(|found| found.verdict());
        let of_content = of_proof.or(of_selftest).or(of_torture);
        of_content.or_else(|| self.verdict.map(VerdictName::from))
    }
}

/// The terminal, as far as the command needs to know it.
#[derive(Debug)]
pub(crate) struct Console {
    json: bool,
    /// Whether the stream that gets the tables takes colours.
    pub(crate) colour: bool,
    /// Columns of that stream.
    pub(crate) width: usize,
    /// Whether stderr is a terminal, so that a progress bar can redraw itself.
    pub(crate) interactive: bool,
}

impl Console {
    /// Looks at the streams and `NO_COLOR` once.
    pub(crate) fn detect(json: bool) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        // With --json the tables go to stderr, so that stdout holds one document only.
        let tables = if json { Term::stderr() } else { Term::stdout() };
        Self {
            json,
            colour: tables.is_term() && !no_colour,
            width: tables
                .size_checked()
                .map_or(WIDTH_ELSEWHERE, |(_, columns)| columns.into()),
            interactive: io::stderr().is_terminal(),
        }
    }

    /// Says one line about the work under way, on stderr.
    pub(crate) fn note(&self, line: impl AsRef<str>) {
        to_stderr(line.as_ref());
    }

    /// Prints the result and returns how to exit.
    pub(crate) fn finish(&self, command: &str, result: anyhow::Result<Outcome>) -> ExitStatus {
        let (status, printed) = match result {
            Ok(outcome) => {
                let of_verdict = outcome.verdict().map_or(ExitStatus::Pass, ExitStatus::from);
                let status = outcome.status.unwrap_or(of_verdict);
                (status, self.print(command, status, outcome))
            }
            Err(error) => {
                to_stderr(&describe(&error));
                let status = ExitStatus::Usage;
                let document = Document::of_error(command, status, &error);
                let printed = if self.json {
                    print_document(&document)
                } else {
                    Ok(())
                };
                (status, printed)
            }
        };
        match printed {
            Ok(()) => status,
            Err(error) => {
                to_stderr(&describe(&error));
                ExitStatus::Usage
            }
        }
    }

    fn print(&self, command: &str, status: ExitStatus, outcome: Outcome) -> anyhow::Result<()> {
        if self.json {
            to_stderr(outcome.text.trim_end_matches('\n'));
            let verdict = outcome.verdict();
            let document = Document::new(command, verdict, status, outcome.content);
            print_document(&document)
        } else {
            to_stdout(&outcome.text)
        }
    }
}

/// What a service or a process says, fit for a terminal: on one line, and without anything that
/// moves its cursor or turns the order of letters.
pub(crate) fn visible(words: &str) -> String {
    const CHARS_MAX: usize = 1_000;
    let blank = |letter: char| if is_plain(letter) { letter } else { ' ' };
    words.chars().take(CHARS_MAX).map(blank).collect()
}

fn is_plain(letter: char) -> bool {
    let turns = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}');
    !letter.is_control() && !turns
}

/// An error with its causes, as a reader wants it: what went wrong first, then why. It may hold
/// what others say; its own lines stay lines.
fn describe(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}");
    for cause in error.chain().skip(1) {
        let cause = cause.to_string().replace('\n', "\n  ");
        // Some messages say their cause themselves.
        if !text.contains(&cause) {
            text.push_str(&format!("\n  because: {cause}"));
        }
    }
    text.replace(|letter| letter != '\n' && !is_plain(letter), " ")
}

/// Prints a document on stdout.
pub(crate) fn print_document(document: &Document) -> anyhow::Result<()> {
    to_stdout(&document.to_json()?)
}

/// Writes to stdout. A reader that has gone (`unstall … | head`) is not an error: it has
/// read what it wanted, and the exit code still tells the verdict.
pub(crate) fn to_stdout(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("stdout could not be written; make room there or send it elsewhere")
        }
        _ => Ok(()),
    }
}

/// Writes one line to stderr. Should stderr be gone there is nowhere left to say so.
pub(crate) fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_others_say_moves_the_cursor() {
        assert_eq!(visible("a\u{1b}[2J\nb\u{202e}c\u{9b}d"), "a [2J b c d");
        let error = anyhow::anyhow!("first\nsecond \u{1b}[1A\r");
        assert_eq!(describe(&error), "error: first\nsecond  [1A ");
    }
}
