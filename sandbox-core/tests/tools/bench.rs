//! A workbench on the git and the files of this machine, in place of the service: no locks, no sandbox.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;
use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::{
    BranchName, Capabilities, CommandKind, CommitId, TreePath, WorkspaceMode,
};
use unstall_sandbox_core::files::TreeFiles;
use unstall_sandbox_core::ports::Answer;
use unstall_sandbox_core::ports::caches::GitError;
use unstall_sandbox_core::ports::files::{
    Entry, Expected, FileAccess, FileRead, FilesError, Listing, SearchFound, SearchRequest, Written,
};
use unstall_sandbox_core::ports::runtimes::{CapturedOutput, ExecRequest, ExecResult};
use unstall_sandbox_core::ports::workbench::{OpenedPullRequest, Workbench, WorkbenchError};
use unstall_sandbox_core::ports::workspaces::{
    Change, ChangeKind, DiffBase, Pushed, TreeDiff, TreeStatus,
};
use unstall_sandbox_core::tools::ToolBox;

/// Programs that are really run; others only seem to be, as not every machine has them.
const HERE: [&str; 5] = ["cat", "ls", "make", "seq", "true"];

/// A tree with one commit on `work`, cloned from an origin beside it, and the tools for it.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) tools: ToolBox,
    pub(crate) commands: Arc<Mutex<Vec<(ExecRequest, CommandKind)>>>,
}

impl Place {
    pub(crate) async fn of(mode: WorkspaceMode) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        for args in [
            vec!["init", "-q", "--bare", "-b", "main", "origin"],
            vec!["clone", "-q", "origin", "tree"],
        ] {
            git(folder.path(), &args).await.expect("git works");
        }
        put(&tree.join("README.md"), "hello\n").await;
        for args in [
            vec!["add", "-A"],
            vec!["commit", "-q", "-m", "first"],
            vec!["push", "-q", "origin", "HEAD:main"],
            vec!["switch", "-q", "-c", "work"],
        ] {
            git(&tree, &args).await.expect("git works");
        }
        let pool = BlockingPool::new(2).expect("threads");
        let commands = Arc::default();
        let bench = Bench {
            files: TreeFiles::open(tree.clone(), pool).await.expect("a tree"),
            tree,
            mode,
            commands: Arc::clone(&commands),
        };
        Self {
            folder,
            tools: ToolBox::for_handle(Arc::new(bench)),
            commands,
        }
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    pub(crate) async fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        put(&self.tree().join(path), content).await;
    }

    pub(crate) async fn content(&self, path: &str) -> String {
        let bytes = tokio::fs::read(self.tree().join(path)).await.expect(path);
        String::from_utf8(bytes).expect("a text")
    }

    pub(crate) async fn git(&self, args: &[&str]) -> String {
        git(&self.tree(), args).await.expect("git works")
    }

    /// Calls a tool that must succeed.
    pub(crate) async fn done(&self, name: &str, input: Value) -> Value {
        let answer = self.tools.call(name, input).await;
        assert_eq!(answer["success"], true, "{name}: {answer}");
        answer
    }

    /// Calls a tool that must fail, and answers what it says.
    pub(crate) async fn refused(&self, name: &str, input: Value) -> String {
        let answer = self.tools.call(name, input).await;
        assert_eq!(answer["success"], false, "{name}: {answer}");
        answer["error"].as_str().expect("a text").to_owned()
    }
}

async fn put(path: &Path, content: impl AsRef<[u8]>) {
    let folder = path.parent().expect("a folder");
    tokio::fs::create_dir_all(folder).await.expect("a folder");
    tokio::fs::write(path, content).await.expect("a file");
}

async fn git(folder: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = output_of(command).await;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[expect(clippy::disallowed_methods, reason = "it waits on a thread for that")]
async fn output_of(mut command: Command) -> Output {
    command.stdin(Stdio::null());
    let ended = tokio::task::spawn_blocking(move || command.output());
    ended
        .await
        .expect("no panic")
        .expect("the program is there")
}

struct Bench {
    files: TreeFiles,
    tree: PathBuf,
    mode: WorkspaceMode,
    commands: Arc<Mutex<Vec<(ExecRequest, CommandKind)>>>,
}

impl Bench {
    async fn git(&self, doing: &'static str, args: &[&str]) -> Result<String, WorkbenchError> {
        let failed = |said| GitError::Failed {
            doing,
            code: None,
            said,
        };
        Ok(git(&self.tree, args).await.map_err(failed)?)
    }

    async fn head(&self) -> Result<CommitId, WorkbenchError> {
        let head = self.git("asking for HEAD", &["rev-parse", "HEAD"]).await?;
        Ok(CommitId::parse(head.trim()).expect("a commit"))
    }

    async fn branch(&self) -> Result<BranchName, WorkbenchError> {
        let args = ["rev-parse", "--abbrev-ref", "HEAD"];
        let name = self.git("asking for the branch", &args).await?;
        Ok(BranchName::parse(name.trim()).expect("a branch"))
    }
}

impl Workbench for Bench {
    fn capabilities(&self) -> Capabilities {
        Capabilities::from_mode(self.mode)
    }

    fn exec(
        &self,
        request: ExecRequest,
        kind: CommandKind,
    ) -> Answer<'_, ExecResult, WorkbenchError> {
        Box::pin(async move {
            let commands = Arc::clone(&self.commands);
            commands
                .lock()
                .expect("no panic")
                .push((request.clone(), kind));
            let folder = self.tree.join(request.cwd.unwrap_or_default());
            let (program, args): (&OsString, _) = request.cmd.split_first().expect("a program");
            if !HERE.iter().any(|here| program == here) {
                return Ok(ExecResult {
                    exit_code: 0,
                    stdout: CapturedOutput::default(),
                    stderr: CapturedOutput::default(),
                    timed_out: false,
                    truncated: false,
                });
            }
            let mut command = Command::new(program);
            command.args(args).current_dir(folder);
            let output = output_of(command).await;
            let captured = |head| CapturedOutput {
                head,
                ..CapturedOutput::default()
            };
            Ok(ExecResult {
                exit_code: output.status.code().expect("no signal"),
                stdout: captured(output.stdout),
                stderr: captured(output.stderr),
                timed_out: false,
                truncated: false,
            })
        })
    }

    fn status(&self) -> Answer<'_, TreeStatus, WorkbenchError> {
        Box::pin(async move {
            let args = ["status", "--porcelain", "-z", "-uall"];
            let text = self.git("asking for the status", &args).await?;
            let changes = text.split_terminator('\0').map(|line| Change {
                kind: match &line[..2] {
                    "??" => ChangeKind::Untracked,
                    " D" => ChangeKind::Deleted,
                    _ => ChangeKind::Modified,
                },
                path: PathBuf::from(&line[3..]),
                renamed_from: None,
            });
            let ahead = ["rev-list", "--count", "origin/main..HEAD"];
            let unsaved = self.git("counting commits", &ahead).await?;
            Ok(TreeStatus {
                head: self.head().await?,
                branch: Some(self.branch().await?),
                changes: changes.collect(),
                is_truncated: false,
                has_unsaved_commits: unsaved.trim() != "0",
            })
        })
    }

    fn diff(&self, base: DiffBase, bytes_max: usize) -> Answer<'_, TreeDiff, WorkbenchError> {
        Box::pin(async move {
            let range = match &base {
                DiffBase::Head => "HEAD".to_owned(),
                DiffBase::ForkOf(base) => format!("origin/{base}"),
            };
            let mut text = self.git("comparing", &["diff", &range]).await?;
            let is_truncated = text.len() > bytes_max;
            text.truncate(text.floor_char_boundary(bytes_max));
            Ok(TreeDiff { text, is_truncated })
        })
    }

    fn commit(&self, message: String, paths: Vec<PathBuf>) -> Answer<'_, CommitId, WorkbenchError> {
        Box::pin(async move {
            let mut args = vec!["add", "-A", "--"];
            args.extend(paths.iter().map(|path| path.to_str().expect("a text")));
            self.git("adding", &args).await?;
            self.git("committing", &["commit", "-q", "-m", &message])
                .await?;
            self.head().await
        })
    }

    fn push(&self) -> Answer<'_, Pushed, WorkbenchError> {
        Box::pin(async move {
            self.git("pushing", &["push", "-q", "origin", "HEAD"])
                .await?;
            Ok(Pushed {
                branch: self.branch().await?,
                commit: self.head().await?,
            })
        })
    }

    fn open_pull_request(
        &self,
        title: String,
        _: String,
    ) -> Answer<'_, OpenedPullRequest, WorkbenchError> {
        Box::pin(async move {
            Ok(OpenedPullRequest {
                number: 7,
                url: format!("https://example.org/pulls/{}", title.len()),
            })
        })
    }
}

impl FileAccess for Bench {
    fn read(&self, path: TreePath, bytes_max: usize) -> Answer<'_, FileRead, FilesError> {
        self.files.read(path, bytes_max)
    }

    fn write(
        &self,
        path: TreePath,
        bytes: Vec<u8>,
        expected: Expected,
    ) -> Answer<'_, Written, FilesError> {
        self.files.write(path, bytes, expected)
    }

    fn list(&self, path: TreePath, entries_max: usize) -> Answer<'_, Listing, FilesError> {
        self.files.list(path, entries_max)
    }

    fn stat(&self, path: TreePath) -> Answer<'_, Entry, FilesError> {
        self.files.stat(path)
    }

    fn make_folder(&self, path: TreePath) -> Answer<'_, (), FilesError> {
        self.files.make_folder(path)
    }

    fn remove(&self, path: TreePath) -> Answer<'_, (), FilesError> {
        self.files.remove(path)
    }

    fn search(&self, request: SearchRequest) -> Answer<'_, SearchFound, FilesError> {
        self.files.search(request)
    }
}
