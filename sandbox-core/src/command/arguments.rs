//! The command line, as clap reads it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Nothing is unused for longer that anybody asks for.
const TEN_YEARS_S: u64 = 10 * 366 * 24 * 60 * 60;

/// Working trees of repositories, kept for whoever comes back, with commands run in isolation.
///
/// Without PostgreSQL and Redis one command at a time has the root to itself; with both, any number of
/// processes work below one root. Exit codes: 0 done, 1 the command that was run failed or the doctor
/// found something, 2 a mistake or something that is missing, 130 and 143 stopped by SIGINT or SIGTERM.
#[derive(Debug, Parser)]
#[command(
    name = "unstall-sandbox",
    version,
    after_help = "Examples:\n  unstall-sandbox acquire octo/hello --conversation 7\n  \
                  unstall-sandbox exec WORKSPACE -- make test\n  unstall-sandbox evict --dry-run"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) task: Task,
}

/// Where everything is.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Where repositories and trees lie [default: unstall/sandbox in the data folder of the user]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "SANDBOX_REPOS_BASE_PATH"
    )]
    pub(crate) root: Option<PathBuf>,
    /// The SQLite file of records [default: sandbox.sqlite in the root]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SANDBOX_METADATA_PATH"
    )]
    pub(crate) metadata: Option<PathBuf>,
    /// PostgreSQL, for many processes; needs Redis too
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "DATABASE_URL",
        hide_env_values = true
    )]
    pub(crate) database_url: Option<String>,
    /// Redis, for the locks of many processes; needs PostgreSQL too
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "REDIS_URL",
        hide_env_values = true
    )]
    pub(crate) redis_url: Option<String>,
    /// Reach repositories by this scheme, too: `file` (with the rights of this process), `ssh` (with its
    /// user's keys) or `http` (on this machine) [default: https alone]
    #[arg(
        long,
        global = true,
        value_name = "SCHEME",
        env = "UNSTALL_SANDBOX_SCHEMES",
        value_delimiter = ','
    )]
    pub(crate) allow_scheme: Vec<String>,
    /// Print one JSON document on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Get a workspace: the same one each time it is asked for
    Acquire(Acquire),
    /// Run a command in a workspace
    Exec(Exec),
    /// List workspaces
    Ls,
    /// Show how a workspace differs
    Diff(Diff),
    /// Commit a workspace's changes
    Commit(Commit),
    /// Let go what is idle, or a workspace; changes are saved first, ignored files aren't
    Evict(Evict),
    /// See whether all that is needed is there
    Doctor,
}

impl Task {
    /// Its name.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Acquire(_) => "acquire",
            Self::Exec(_) => "exec",
            Self::Ls => "ls",
            Self::Diff(_) => "diff",
            Self::Commit(_) => "commit",
            Self::Evict(_) => "evict",
            Self::Doctor => "doctor",
        }
    }
}

/// For what a workspace is.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Mode {
    /// To read a branch or commit
    Analysis,
    /// To edit in a conversation or on a branch
    Edit,
    /// To do a task
    Task,
}

/// Which workspace to get.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall-sandbox acquire octo/hello --conversation 7\n  \
                        unstall-sandbox acquire octo/hello --mode analysis --base v1.2\n  \
                        unstall-sandbox acquire octo/hello --url file:///srv/hello --allow-scheme file --branch fix --create-branch"
)]
pub(crate) struct Acquire {
    /// The repository: owner/repo
    pub(crate) repo: String,
    /// Where it is [default: on github.com, or at GITHUB_BASE_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Branch, tag or commit to start from [default: the repository's main branch]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// The branch to be on [default: one named after the conversation or task]
    #[arg(long)]
    pub(crate) branch: Option<String>,
    /// Make the branch if it isn't there
    #[arg(long)]
    pub(crate) create_branch: bool,
    /// For what it is
    #[arg(long, value_enum, default_value = "edit")]
    pub(crate) mode: Mode,
    /// The conversation whose edits it holds
    #[arg(long, value_name = "ID")]
    pub(crate) conversation: Option<String>,
    /// The task whose work it holds
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// Afterwards make a tree ready for whoever asks for the same base next
    #[arg(long)]
    pub(crate) prepare: bool,
    /// For whom it is
    #[arg(long, value_name = "ID", default_value = "local")]
    pub(crate) user: String,
    /// For which project it is
    #[arg(long, value_name = "ID", default_value = "default")]
    pub(crate) project: String,
}

/// What a command does to the tree.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Kind {
    /// It only looks, and is run where it can't write
    Read,
    /// It changes files
    Write,
    /// It installs packages
    Install,
    /// It runs tests
    Test,
}

/// What to run.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall-sandbox exec WORKSPACE -- rg -n main src\n  \
                        unstall-sandbox exec WORKSPACE --timeout-s 600 -- cargo test"
)]
pub(crate) struct Exec {
    /// The workspace's id
    pub(crate) workspace: String,
    /// What it does to the tree [default: by its first words; what isn't known writes]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<Kind>,
    /// Seconds after which it is killed, with all it started
    #[arg(long, value_name = "S", default_value_t = 120)]
    pub(crate) timeout_s: u64,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What to show.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  unstall-sandbox diff WORKSPACE --base main")]
pub(crate) struct Diff {
    /// The workspace's id
    pub(crate) workspace: String,
    /// From where on it is compared [default: from its last commit]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
}

/// What to commit.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  unstall-sandbox commit WORKSPACE --message 'Fix the lock' --push"
)]
pub(crate) struct Commit {
    /// The workspace's id
    pub(crate) workspace: String,
    /// Says why
    #[arg(short, long)]
    pub(crate) message: String,
    /// Who made the change
    #[arg(
        long,
        value_name = "NAME",
        env = "GIT_AUTHOR_NAME",
        default_value = "unstall-sandbox"
    )]
    pub(crate) author_name: String,
    /// Their address
    #[arg(
        long,
        value_name = "MAIL",
        env = "GIT_AUTHOR_EMAIL",
        default_value = "unstall-sandbox@localhost"
    )]
    pub(crate) author_email: String,
    /// Push the branch afterwards
    #[arg(long)]
    pub(crate) push: bool,
    /// Only these paths, relative to the tree
    pub(crate) paths: Vec<PathBuf>,
}

/// What to let go.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  unstall-sandbox evict --dry-run\n  unstall-sandbox evict WORKSPACE"
)]
pub(crate) struct Evict {
    /// A workspace's id; else whatever should go
    pub(crate) workspace: Option<String>,
    /// Let go what is unused for so long, instead of after the usual times; clean trees only
    #[arg(long, value_name = "S", conflicts_with = "workspace",
          value_parser = clap::value_parser!(u64).range(..=TEN_YEARS_S))]
    pub(crate) unused_for_s: Option<u64>,
    /// Say what would go and why, and do nothing
    #[arg(long, conflicts_with = "workspace")]
    pub(crate) dry_run: bool,
}
