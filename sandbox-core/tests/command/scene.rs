//! A root, an origin, and the command on them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use unstall_sandbox_core::ports::store::{Page, SandboxStore};
use unstall_sandbox_core::stores::SqliteStore;

/// A bench for the command.
pub(crate) struct Scene {
    folder: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let origin = folder.path().join("origin");
        std::fs::create_dir(&origin).expect("a folder");
        git(&origin, &["init", "-q", "-b", "trunk"]);
        std::fs::write(origin.join("read.me"), "one\n").expect("a file");
        git(&origin, &["add", "-A"]);
        git(&origin, &["commit", "-q", "-m", "one"]);
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub(crate) fn origin(&self) -> PathBuf {
        self.folder.path().join("origin")
    }

    /// The command, with nothing of our environment that it would listen to.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstall-sandbox"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("SANDBOX_REPOS_BASE_PATH", self.root())
            // The origin is a folder.
            .env("UNSTALL_SANDBOX_SCHEMES", "file")
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it starts")
    }

    /// The document of a command that is done well, or was run and failed.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let with_json: Vec<&str> = ["--json"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let output = self.run(&with_json);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            panic!("{arguments:?}: {error}: {stderr}")
        });
        let code = output.status.code().map(i64::from);
        assert_eq!(document["exit_code"].as_i64(), code, "{document}");
        document
    }

    /// One that is done well.
    pub(crate) fn done(&self, arguments: &[&str]) -> Value {
        let document = self.json(arguments);
        assert_eq!(document["exit_code"], 0, "{arguments:?}: {document}");
        document
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("it starts")
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.origin().display())
    }

    /// The id of a conversation's workspace, which is made if it isn't there.
    pub(crate) fn acquire(&self, conversation: &str) -> String {
        let url = self.url();
        let document = self.done(&[
            "acquire",
            "octo/hello",
            "--url",
            &url,
            "--conversation",
            conversation,
        ]);
        let id = document["workspace"]["id"].as_str();
        id.expect("an id").to_owned()
    }

    /// All workspaces, as `ls` tells them.
    pub(crate) fn workspaces(&self) -> Vec<Value> {
        let document = self.done(&["ls"]);
        document["workspaces"].as_array().expect("a list").clone()
    }

    /// What a file holds, in a conversation's workspace or, if that was evicted, in what was saved of it.
    pub(crate) fn kept(&self, listed: &[Value], conversation: &str, file: &str) -> Option<String> {
        let branch = format!("agent/edits-{conversation}");
        if let Some(row) = listed.iter().find(|row| row["branch"] == branch.as_str()) {
            let tree = row["path"].as_str().expect("a path");
            return std::fs::read_to_string(Path::new(tree).join(file)).ok();
        }
        let head = format!("ref: refs/heads/{branch}\n");
        let is_its = |store: &PathBuf| {
            std::fs::read_to_string(store.join("HEAD")).is_ok_and(|it| it == head)
        };
        let store = self.stores().into_iter().find(is_its)?;
        let reference = git(
            &store,
            &["for-each-ref", "--format=%(refname)", "refs/sandbox/"],
        );
        let object = format!("{}:{file}", reference.trim());
        let output = Command::new("git")
            .current_dir(&store)
            .args(["show", &object])
            .output()
            .expect("git runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }

    /// The repositories in which edits of evicted workspaces are saved.
    pub(crate) fn stores(&self) -> Vec<PathBuf> {
        let folders = find(&self.root(), &|name| name == ".saved");
        let all = folders.iter().flat_map(|folder| find(folder, &|_| true));
        all.collect()
    }

    /// After whatever happened and one command that mends: nothing is left half-done or alone.
    pub(crate) fn assert_whole(&self, context: &str) {
        let began = Instant::now();
        let document = self.done(&["evict", "--dry-run"]);
        assert!(
            began.elapsed() < Duration::from_secs(25),
            "{context}: a lock was left"
        );
        assert!(document["error"].is_null(), "{context}: {document}");
        let rows = self.workspaces();
        for row in &rows {
            assert_eq!(row["state"], "ready", "{context}: {row}");
            let tree = row["path"].as_str().expect("a path");
            assert!(Path::new(tree).is_dir(), "{context}: {row}");
        }
        let prepared = self.prepared_rows(context);
        let trees = find(&self.root(), &|name| name == "tree").len();
        assert_eq!(trees, rows.len() + prepared, "{context}: trees and rows");
        let ours = [".bare", ".saved", ".lock", ".sandbox"];
        let hidden = |name: &str| name.starts_with('.') && !ours.contains(&name);
        let leftovers: Vec<PathBuf> = find(&self.root(), &hidden)
            .into_iter()
            .filter(|path| !path.components().any(|part| part.as_os_str() == "tree"))
            .collect();
        assert!(leftovers.is_empty(), "{context}: {leftovers:?}");
        let notes = find(&self.root(), &|name| name == "made-of");
        assert!(notes.is_empty(), "{context}: not dropped: {notes:?}");
        let sockets = find(&self.root().join(".sandbox/run"), &|_| true);
        assert!(sockets.is_empty(), "{context}: {sockets:?}");
        let processes = self.processes();
        assert!(processes.is_empty(), "{context}: {processes:?}");
    }

    /// How many prepared trees there are, all ready; and that no runtime has a row, and each cache is whole.
    fn prepared_rows(&self, context: &str) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let file = self.root().join("sandbox.sqlite");
            let store = SqliteStore::open(&file).await.expect("a store");
            let runtimes = store.list_runtimes(first_page()).await.expect("listed");
            assert!(runtimes.is_empty(), "{context}: {runtimes:?}");
            let caches = store.list_caches(first_page()).await.expect("listed");
            assert!(
                caches.iter().all(|cache| cache.state.as_str() == "ready"),
                "{context}: {caches:?}"
            );
            let on_disk = find(&self.root(), &|name| name == ".bare").len();
            assert_eq!(on_disk, caches.len(), "{context}: caches and rows");
            let prepared = store
                .list_prepared_trees(first_page())
                .await
                .expect("listed");
            assert!(
                prepared.iter().all(|tree| tree.state.as_str() == "ready"),
                "{context}: {prepared:?}"
            );
            store.close().await;
            prepared.len()
        })
    }

    /// Processes that have to do with this scene, after a moment to end in.
    fn processes(&self) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let found = self.processes_now();
            if found.is_empty() || Instant::now() > until {
                return found;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn processes_now(&self) -> Vec<String> {
        let mark = self.path().display().to_string();
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        let lines = entries.filter_map(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(&mark).then_some(line)
        });
        lines.collect()
    }
}

fn first_page<Id>() -> Page<Id> {
    Page {
        after: None,
        rows_max: 1000,
    }
}

/// All below a folder whose name is such; not what is below these.
pub(crate) fn find(below: &Path, is_such: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(below) else {
        return found;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if is_such(&entry.file_name().to_string_lossy()) {
            found.push(path);
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.append(&mut find(&path, is_such));
        }
    }
    found
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
        .args(arguments)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
