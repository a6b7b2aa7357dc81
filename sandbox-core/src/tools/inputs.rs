//! What each tool is given. The comments here are what a model reads in the tools' schemas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::test_framework::TestFramework;
use crate::domain::CommandKind;

/// Of `sandbox_read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFileInput {
    /// The file, relative to the root of the working tree.
    pub path: String,
    /// The first line to read, counted from 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub first_line: u64,
    /// How many lines to read at most.
    #[serde(default = "lines_max")]
    #[schemars(range(min = 1))]
    pub lines_max: u64,
}

/// Of `sandbox_write_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFileInput {
    /// The file, relative to the root of the working tree. Folders that are missing are made.
    pub path: String,
    /// The whole new content.
    pub content: String,
}

/// Of `sandbox_str_replace`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StrReplaceInput {
    /// The file, relative to the root of the working tree.
    pub path: String,
    /// The text to replace, exactly as it is in the file, without line numbers. Unless all are to be
    /// replaced it must be there exactly once, so give enough of what is around it.
    #[schemars(length(min = 1))]
    pub old: String,
    /// The text to put in its place.
    pub new: String,
    /// Replace it wherever it is.
    #[serde(default)]
    pub replace_all: bool,
}

/// Of `sandbox_list_dir`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListDirInput {
    /// The folder, relative to the root of the working tree, which is the default.
    #[serde(default)]
    pub path: String,
}

/// Of `sandbox_search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchInput {
    /// A regular expression, as ripgrep takes it, that is looked for in each line.
    pub pattern: String,
    /// The folder or file to search, relative to the root of the working tree, which is the default.
    #[serde(default)]
    pub path: String,
    /// Search only files that this glob names, such as `*.rs`; with `!` in front, all others.
    #[serde(default)]
    pub glob: Option<String>,
    /// Tell capitals from small letters.
    #[serde(default = "yes")]
    pub case_sensitive: bool,
    /// How many hits to answer at most.
    #[serde(default = "hits_max")]
    #[schemars(range(min = 1, max = 1000))]
    pub hits_max: usize,
}

/// Of `sandbox_run`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunInput {
    /// The program and its arguments. No shell reads them: for pipes and the like, give
    /// `["bash", "-c", "…"]`.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// The folder to start in, relative to the root of the working tree, which is the default.
    #[serde(default)]
    pub cwd: String,
    /// After this many seconds it is killed, with whatever it has started.
    #[serde(default = "run_timeout_s")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_s: u64,
    /// What it reads on its standard input.
    #[serde(default)]
    pub stdin: Option<String>,
    /// What it does to the working tree. Commands that only read run beside others, and can't write.
    #[serde(default)]
    pub kind: RunKind,
}

/// What a command does to the working tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunKind {
    Read,
    #[default]
    Write,
    Install,
    Test,
}

impl From<RunKind> for CommandKind {
    fn from(kind: RunKind) -> Self {
        match kind {
            RunKind::Read => Self::Read,
            RunKind::Write => Self::Write,
            RunKind::Install => Self::Install,
            RunKind::Test => Self::Test,
        }
    }
}

/// Of `sandbox_run_tests`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunTestsInput {
    /// The folder to test, relative to the root of the working tree, which is the default.
    #[serde(default)]
    pub path: String,
    /// By what to test; found out by the folder's files if it isn't given.
    #[serde(default)]
    pub framework: Option<TestFramework>,
    /// What to hand on to it, such as the name of a test.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// After this many seconds it is killed, with whatever it has started.
    #[serde(default = "tests_timeout_s")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_s: u64,
}

/// Of tools that need to be told nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoInput {}

/// Of `sandbox_git_diff`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitDiffInput {
    /// A branch, tag or commit: show all that was done since the working tree's branch left it. By
    /// default what isn't committed is shown.
    #[serde(default)]
    pub base: Option<String>,
}

/// Of `sandbox_git_commit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitCommitInput {
    /// The message: a line that says what and why, and more below an empty line if needed.
    #[schemars(length(min = 1))]
    pub message: String,
    /// Commit these files or folders only, relative to the root of the working tree. By default all
    /// changes are committed, new files included.
    #[serde(default)]
    pub paths: Vec<String>,
}

/// Of `sandbox_open_pr`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenPrInput {
    /// Its title.
    #[schemars(length(min = 1))]
    pub title: String,
    /// Its description, in Markdown.
    #[serde(default)]
    pub body: String,
}

const fn one() -> u64 {
    1
}

const fn yes() -> bool {
    true
}

/// As much as most files have.
const fn lines_max() -> u64 {
    2000
}

/// As many as one can look at.
const fn hits_max() -> usize {
    100
}

/// Two minutes: a usual build.
const fn run_timeout_s() -> u64 {
    120
}

/// Ten minutes: a usual test run with its build.
const fn tests_timeout_s() -> u64 {
    600
}
