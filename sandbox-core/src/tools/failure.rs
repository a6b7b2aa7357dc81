//! Why a tool didn't do what it was asked: a text for the model that asked.

use crate::domain::Invalid;
use crate::ports::files::FilesError;
use crate::ports::workbench::WorkbenchError;

/// Why a tool didn't do it.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolFailure {
    /// There is no such tool for this workspace.
    #[error("there is no tool {name:?} here; there are {known}")]
    NoSuchTool {
        /// As it was asked for.
        name: String,
        /// Which there are.
        known: String,
    },
    /// The input doesn't fit the schema.
    #[error("the input can't be used: {0}; see the tool's schema")]
    Input(String),
    /// The text to replace isn't there.
    #[error(
        "the text to replace isn't in {path}; read the file, and give the text exactly as it is there"
    )]
    TextNotFound {
        /// The file.
        path: String,
    },
    /// The text to replace is there more than once.
    #[error(
        "the text to replace is {times} times in {path}; give more of what is around it, or replace all"
    )]
    TextAmbiguous {
        /// The file.
        path: String,
        /// How often.
        times: usize,
    },
    /// The file is too large for a tool, or would become so.
    #[error("{path} has or would have more than {bytes_max} bytes; use a command for it")]
    TooLarge {
        /// The file.
        path: String,
        /// How large it may be.
        bytes_max: usize,
    },
    /// The file has fewer lines.
    #[error("{path} has {lines} lines, so line {asked} can't be read; begin earlier")]
    PastTheEnd {
        /// The file.
        path: String,
        /// How many it has.
        lines: u64,
        /// Which was asked for.
        asked: u64,
    },
    /// Nothing says how to test.
    #[error(
        "nothing in {path} says how it is tested ({looked_for}); name the framework, or run a command"
    )]
    NoTests {
        /// The folder.
        path: String,
        /// What was looked for.
        looked_for: &'static str,
    },
    /// A name isn't one.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Something with files.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// Something with the workspace.
    #[error(transparent)]
    Workbench(#[from] WorkbenchError),
}
