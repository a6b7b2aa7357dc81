//! The twelve tools by which an agent works in one workspace, with schemas that a model can read.
//!
//! What a tool answers is always a JSON object: `success`, then what was asked for, with a flag for
//! everything that was cut; or `error`, which says what to do. A workspace that can't be written has no
//! tools that write. Which workspace and branch it is about was settled before, and isn't in any input.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::ports::workbench::Workbench;

mod command_tools;
mod cut_text;
mod failure;
mod file_tools;
mod git_tools;
mod inputs;
mod test_framework;

use failure::ToolFailure;
use inputs::{
    GitCommitInput, GitDiffInput, ListDirInput, NoInput, OpenPrInput, ReadFileInput, RunInput,
    RunTestsInput, SearchInput, StrReplaceInput, WriteFileInput,
};

/// A tool, as it is shown to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// By what it is called.
    pub name: &'static str,
    /// What it does, for the model.
    pub description: &'static str,
    /// The JSON Schema of its input, without references.
    pub input_schema: Value,
}

/// The tools of one workspace.
#[derive(Clone)]
pub struct ToolBox {
    workbench: Arc<dyn Workbench>,
}

impl ToolBox {
    /// The tools that fit what may be done with the workspace.
    #[must_use]
    pub fn for_handle(workbench: Arc<dyn Workbench>) -> Self {
        Self { workbench }
    }

    /// What there is, in a fixed order.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        let tools = self.names().map(|name| Tool {
            name: name.as_str(),
            description: name.description(),
            input_schema: name.input_schema(),
        });
        tools.collect()
    }

    /// Does what the tool of that name does. What goes wrong is told in the answer.
    pub async fn call(&self, name: &str, input: Value) -> Value {
        match self.outcome(name, input).await {
            Ok(answer) => answer,
            Err(failure) => json!({"success": false, "error": failure.to_string()}),
        }
    }

    fn names(&self) -> impl Iterator<Item = ToolName> {
        let writable = self.workbench.capabilities().writable;
        let all = ToolName::ALL.into_iter();
        all.filter(move |name| writable || !name.needs_to_write())
    }

    async fn outcome(&self, name: &str, input: Value) -> Result<Value, ToolFailure> {
        let Some(tool) = self.names().find(|tool| tool.as_str() == name) else {
            let known: Vec<&str> = self.names().map(ToolName::as_str).collect();
            return Err(ToolFailure::NoSuchTool {
                name: name.to_owned(),
                known: known.join(", "),
            });
        };
        let bench = &*self.workbench;
        match tool {
            ToolName::ReadFile => file_tools::read_file(bench, parsed(input)?).await,
            ToolName::WriteFile => file_tools::write_file(bench, parsed(input)?).await,
            ToolName::StrReplace => file_tools::str_replace(bench, parsed(input)?).await,
            ToolName::ListDir => file_tools::list_dir(bench, parsed(input)?).await,
            ToolName::Search => file_tools::search(bench, parsed(input)?).await,
            ToolName::Run => command_tools::run(bench, parsed(input)?).await,
            ToolName::RunTests => command_tools::run_tests(bench, parsed(input)?).await,
            ToolName::GitStatus => {
                let NoInput {} = parsed(input)?;
                git_tools::status(bench).await
            }
            ToolName::GitDiff => git_tools::diff(bench, parsed(input)?).await,
            ToolName::GitCommit => git_tools::commit(bench, parsed(input)?).await,
            ToolName::GitPush => {
                let NoInput {} = parsed(input)?;
                git_tools::push(bench).await
            }
            ToolName::OpenPr => git_tools::open_pr(bench, parsed(input)?).await,
        }
    }
}

impl fmt::Debug for ToolBox {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().map(ToolName::as_str).collect();
        out.debug_struct("ToolBox").field("tools", &names).finish()
    }
}

fn parsed<T: DeserializeOwned>(input: Value) -> Result<T, ToolFailure> {
    // Models leave out the input of tools that need none.
    let input = if input.is_null() { json!({}) } else { input };
    serde_json::from_value(input).map_err(|error| ToolFailure::Input(error.to_string()))
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // Names of our types, and notes on them, are nothing for a model.
    schema.remove("title");
    schema.remove("description");
    // Some models want it also where there is nothing to give.
    schema
        .ensure_object()
        .entry("properties")
        .or_insert_with(|| json!({}));
    schema.to_value()
}

/// Which tools there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolName {
    ReadFile,
    WriteFile,
    StrReplace,
    ListDir,
    Search,
    Run,
    RunTests,
    GitStatus,
    GitDiff,
    GitCommit,
    GitPush,
    OpenPr,
}

impl ToolName {
    const ALL: [Self; 12] = [
        Self::ReadFile,
        Self::WriteFile,
        Self::StrReplace,
        Self::ListDir,
        Self::Search,
        Self::Run,
        Self::RunTests,
        Self::GitStatus,
        Self::GitDiff,
        Self::GitCommit,
        Self::GitPush,
        Self::OpenPr,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::ReadFile => "sandbox_read_file",
            Self::WriteFile => "sandbox_write_file",
            Self::StrReplace => "sandbox_str_replace",
            Self::ListDir => "sandbox_list_dir",
            Self::Search => "sandbox_search",
            Self::Run => "sandbox_run",
            Self::RunTests => "sandbox_run_tests",
            Self::GitStatus => "sandbox_git_status",
            Self::GitDiff => "sandbox_git_diff",
            Self::GitCommit => "sandbox_git_commit",
            Self::GitPush => "sandbox_git_push",
            Self::OpenPr => "sandbox_open_pr",
        }
    }

    /// Does it write files or the repository? A command may read only, and is kept to that elsewhere.
    const fn needs_to_write(self) -> bool {
        match self {
            Self::ReadFile
            | Self::ListDir
            | Self::Search
            | Self::Run
            | Self::GitStatus
            | Self::GitDiff => false,
            Self::WriteFile
            | Self::StrReplace
            | Self::RunTests
            | Self::GitCommit
            | Self::GitPush
            | Self::OpenPr => true,
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::ReadFile => {
                "Reads a text file of the working tree. Each line is answered with its number and a tab in front."
            }
            Self::WriteFile => {
                "Writes a whole file of the working tree, new or in place of the old one. To change a part, use sandbox_str_replace."
            }
            Self::StrReplace => "Replaces a text in a file of the working tree by another.",
            Self::ListDir => "Lists a folder of the working tree.",
            Self::Search => {
                "Searches the files of the working tree for a regular expression, leaving out binary and ignored ones. Hits are answered as file:line:snippet."
            }
            Self::Run => {
                "Runs a command in the sandbox of the working tree, and answers its exit code and output. Long output loses its middle."
            }
            Self::RunTests => {
                "Runs the repository's tests, by what its files say or by what is named."
            }
            Self::GitStatus => {
                "Tells the branch, the last commit, and what differs from it in the working tree."
            }
            Self::GitDiff => {
                "Shows what isn't committed as a patch, or all that was done since the branch left a base."
            }
            Self::GitCommit => "Commits changes of the working tree on its branch.",
            Self::GitPush => "Pushes the branch of the working tree to the origin.",
            Self::OpenPr => "Opens a pull request of the branch, which must have been pushed.",
        }
    }

    fn input_schema(self) -> Value {
        match self {
            Self::ReadFile => schema_of::<ReadFileInput>(),
            Self::WriteFile => schema_of::<WriteFileInput>(),
            Self::StrReplace => schema_of::<StrReplaceInput>(),
            Self::ListDir => schema_of::<ListDirInput>(),
            Self::Search => schema_of::<SearchInput>(),
            Self::Run => schema_of::<RunInput>(),
            Self::RunTests => schema_of::<RunTestsInput>(),
            Self::GitStatus | Self::GitPush => schema_of::<NoInput>(),
            Self::GitDiff => schema_of::<GitDiffInput>(),
            Self::GitCommit => schema_of::<GitCommitInput>(),
            Self::OpenPr => schema_of::<OpenPrInput>(),
        }
    }
}
