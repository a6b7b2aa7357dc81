//! Which kind a command is of, by its first words.

use std::ffi::OsString;
use std::path::Path;

use crate::domain::CommandKind;

/// Programs that only look, whatever their arguments are.
const READERS: [&str; 23] = [
    "basename",
    "cat",
    "cmp",
    "diff",
    "dirname",
    "du",
    "echo",
    "fd",
    "file",
    "find",
    "grep",
    "head",
    "jq",
    "ls",
    "pwd",
    "readlink",
    "realpath",
    "rg",
    "sha256sum",
    "stat",
    "tail",
    "tree",
    "wc",
];
/// Commands of git that only look, whatever their arguments are.
const GIT_READERS: [&str; 12] = [
    "blame",
    "cat-file",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "rev-list",
    "rev-parse",
    "show",
];
/// Package managers, by the words that install.
const INSTALLERS: [(&str, &[&str]); 9] = [
    ("apt-get", &["install"]),
    ("bun", &["install", "add"]),
    ("npm", &["install", "ci", "i"]),
    ("pip", &["install"]),
    ("pip3", &["install"]),
    ("pnpm", &["install", "add", "i"]),
    ("poetry", &["install", "add"]),
    ("uv", &["sync", "add", "pip"]),
    ("yarn", &["install", "add"]),
];
/// What runs tests: the program and its first word, if it needs one.
const TESTERS: [(&str, Option<&str>); 8] = [
    ("cargo", Some("test")),
    ("go", Some("test")),
    ("make", Some("test")),
    ("npm", Some("test")),
    ("pnpm", Some("test")),
    ("pytest", None),
    ("tox", None),
    ("yarn", Some("test")),
];

/// The kind of a command by its first words. What isn't known writes.
///
/// A reader's options may run or write something all the same (`find -delete`). That needs no list:
/// what is taken for reading is run where nothing can be written.
#[must_use]
pub(super) fn classify(cmd: &[OsString]) -> CommandKind {
    let program = cmd.first().map(Path::new).and_then(Path::file_name);
    let Some(program) = program.and_then(|name| name.to_str()) else {
        return CommandKind::Write;
    };
    let word = cmd.get(1).and_then(|word| word.to_str()).unwrap_or("");
    let installs = |(name, words): &(&str, &[&str])| *name == program && words.contains(&word);
    let tests = |(name, first): &(&str, Option<&str>)| {
        *name == program && first.is_none_or(|first| first == word)
    };
    if READERS.contains(&program) || (program == "git" && is_git_reader(&cmd[1..])) {
        CommandKind::Read
    } else if INSTALLERS.iter().any(installs) {
        CommandKind::Install
    } else if TESTERS.iter().any(tests) {
        CommandKind::Test
    } else {
        CommandKind::Write
    }
}

fn is_git_reader(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().filter_map(|word| word.to_str());
    match words.find(|word| *word != "--no-pager" && *word != "--no-optional-locks") {
        Some("status") => true,
        Some(word) => GIT_READERS.contains(&word),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> CommandKind {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        classify(&words)
    }

    #[test]
    fn what_is_not_known_writes() {
        for line in [
            "sh -c ls",
            "sed -i s/a/b/ x",
            "git commit -m x",
            "git",
            "git checkout x",
            "./cat2",
            "",
        ] {
            assert_eq!(kind(line), CommandKind::Write, "{line}");
        }
        assert_eq!(classify(&[]), CommandKind::Write);
    }

    #[test]
    fn readers_installers_and_testers_are_told_apart() {
        for line in [
            "rg x",
            "/usr/bin/cat a",
            "git --no-pager log -1",
            "git status --short",
            "ls",
        ] {
            assert_eq!(kind(line), CommandKind::Read, "{line}");
        }
        for line in ["npm ci", "pip install x", "uv sync"] {
            assert_eq!(kind(line), CommandKind::Install, "{line}");
        }
        for line in ["cargo test", "pytest -k x", "npm test"] {
            assert_eq!(kind(line), CommandKind::Test, "{line}");
        }
    }
}
