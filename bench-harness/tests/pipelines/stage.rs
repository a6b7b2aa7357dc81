//! A folder with records in it, and shells that run as a pipeline runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A file below the repository's root.
pub(crate) fn repository(path: &str) -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.parent().expect("a root").join(path)
}

/// A YAML file as a tree.
pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("no YAML: {error}"))
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Records of the demo: one that passed, one that can't be told.
pub(crate) const RECORDS: [&str; 2] = [
    "results/recorded/demo-1.json",
    "results/recorded/demo-2a.json",
];

/// What a job has: a checkout, and a PATH with `unstall` on it.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let stage = Self { folder };
        for (name, from) in ["one.json", "two.json"].iter().zip(RECORDS) {
            fs::copy(repository(from), stage.path(name)).expect("a record that was measured");
        }
        fs::create_dir(stage.path("bin")).expect("writable");
        let unstall = Path::new(env!("CARGO_BIN_EXE_unstall"));
        std::os::unix::fs::symlink(unstall, stage.path("bin/unstall")).expect("writable");
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program that a job finds before any other of that name.
    pub(crate) fn program(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path("bin").join(name);
        // A link would be written through.
        let _ = fs::remove_file(&path); // not there
        fs::write(&path, script).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    }

    /// Bash in the checkout, with nothing of this machine's pipeline in its environment.
    pub(crate) fn bash(&self, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").expect("a PATH");
        let bin = self.path("bin");
        let mut command = Command::new("bash");
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", format!("{}:{path}", bin.display()))
            .stdin(Stdio::null());
        command
    }
}

/// Exit code, and everything that was said.
pub(crate) fn ended(output: &Output) -> (Option<i32>, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), said)
}

/// Nothing that a shell would stumble over, and what shellcheck finds where it is installed.
#[track_caller]
pub(crate) fn check_shell(script: &str) {
    let run = |program: &str, arguments: &[&str]| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), script).expect("writable");
        Command::new(program)
            .args(arguments)
            .arg(file.path())
            .output()
    };
    let output = run("bash", &["-n"]).expect("bash is there");
    assert!(output.status.success(), "{}\n{script}", ended(&output).1);
    match run("shellcheck", &["--shell=bash"]) {
        Ok(output) => assert!(output.status.success(), "{}", ended(&output).1),
        Err(error) => {
            assert!(
                std::env::var_os("CI").is_none(),
                "no shellcheck ({error}), and nothing may be skipped in CI: install the package `shellcheck`"
            );
            eprintln!("skipped: shellcheck can't be started: {error}");
        }
    }
}
