//! The built program as a user has it, and what every test asks of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What one call left.
#[derive(Debug)]
pub(crate) struct Call {
    /// Exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Call {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }

    /// The document on stdout, checked against the shipped schema and the exit code.
    #[track_caller]
    pub(crate) fn document(&self) -> Value {
        let document: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is no JSON document ({error}): {self:#?}"));
        check_schema(&document);
        assert_eq!(
            document["exit_code"].as_i64(),
            self.code.map(i64::from),
            "{self:#?}"
        );
        document
    }

    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn assert_stderr(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {self:#?}");
        }
        self
    }
}

#[track_caller]
fn check_schema(document: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/result.schema.json");
    let schema: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("the shipped schema"))
            .expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    let mistakes: Vec<String> = validator
        .iter_errors(document)
        .map(|mistake| format!("{} at {}", mistake, mistake.instance_path()))
        .collect();
    assert!(mistakes.is_empty(), "{mistakes:#?} in {document:#}");
}

/// `unstall` in a folder, with no colour and an environment that no test depends on.
pub(crate) fn unstall(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstall"));
    command
        .current_dir(folder)
        .env_remove("GITHUB_OUTPUT")
        .env_remove("GITHUB_STEP_SUMMARY")
        .env_remove("GITHUB_WORKSPACE")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    command
}

/// Runs `unstall` to its end.
pub(crate) fn call<const N: usize>(folder: &Path, arguments: [&str; N]) -> Call {
    Call::of(
        unstall(folder)
            .args(arguments)
            .output()
            .expect("unstall starts"),
    )
}

/// The example service that cargo builds beside the tests.
pub(crate) fn tiny_service() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_unstall"))
        .parent()
        .expect("a folder");
    let path = beside.join("examples/tiny_service");
    assert!(
        path.is_file(),
        "{} is missing; run `cargo test` without --test",
        path.display()
    );
    path
}

/// A scenario of one GET that a test writes into its folder.
pub(crate) fn write_scenario(folder: &Path, name: &str, path: &str) -> PathBuf {
    let file = folder.join(format!("{name}.toml"));
    let text = format!(
        "name = \"{name}\"\ndescribe = \"One GET\"\n\n[[request]]\nname = \"GET it\"\n\
         method = \"GET\"\npath = \"{path}\"\ntimeout = \"2s\"\n[request.expect]\nstatus = 200\n"
    );
    std::fs::write(&file, text).expect("the folder can be written");
    file
}

/// `unstall run` without a load of its own against a server that takes 5 ms for each answer, of
/// which `r.json` in the folder is the record.
pub(crate) fn run_of_five_ms(folder: &Path, more: &[&str]) -> Call {
    let server = unstall_testbed::ExactDelay::start().expect("a server");
    write_scenario(folder, "five", "/delay/5");
    let output = unstall(folder)
        .args(["run", "five.toml", "--target", &server.url()])
        .args(["--out", "r.json", "--json"])
        .args(more)
        .output();
    Call::of(output.expect("unstall starts"))
}

/// `unstall run` of one request, twice by each of three users, without a warm-up.
pub(crate) struct SmallRun {
    pub(crate) call: Call,
    folder: PathBuf,
}

/// How many requests a [`SmallRun`] makes.
pub(crate) const SMALL_RUN: u64 = 6;

impl SmallRun {
    /// `client` is what the scenario's `[client]` says, `request` what it asks for.
    pub(crate) fn of(
        folder: &Path,
        client: &str,
        request: &str,
        target: &str,
        more: &[&str],
    ) -> Self {
        let text = format!(
            "name = \"small\"\ndescribe = \"One request\"\n[client]\n{client}\n[[request]]\n\
             name = \"it\"\ntimeout = \"5s\"\n{request}\n"
        );
        std::fs::write(folder.join("small.toml"), text).expect("the folder can be written");
        // That of a run before, if there was one.
        let _ = std::fs::remove_file(folder.join("small.json"));
        let run = [
            "run",
            "small.toml",
            "--target",
            target,
            "-c",
            "3",
            "--requests",
            "6",
        ];
        let output = unstall(folder)
            .args(run)
            .args(["--warmup", "0", "--out", "small.json", "--json"])
            .args(more)
            .output()
            .expect("unstall starts");
        Self {
            call: Call::of(output),
            folder: folder.to_owned(),
        }
    }

    /// A GET of `/it` that any 200 will do for.
    pub(crate) fn get(folder: &Path, client: &str, target: &str, more: &[&str]) -> Self {
        let request = "method = \"GET\"\npath = \"/it\"\nexpect = { status = 200 }";
        Self::of(folder, client, request, target, more)
    }

    /// What was recorded.
    #[track_caller]
    pub(crate) fn record(&self) -> unstall_results::record::RunRecord {
        let record = unstall_results::store::read(&self.folder.join("small.json"));
        record.unwrap_or_else(|error| panic!("{error}: {:#?}", self.call))
    }

    /// How often its block was measured: once more where this machine was too busy for the load
    /// generator, which is no fault of what is tested.
    #[track_caller]
    pub(crate) fn blocks(&self) -> Vec<unstall_results::record::Block> {
        let blocks = self.record().blocks;
        for validity in blocks.iter().map(|block| &block.validity) {
            let is_late = |reason: &String| reason.contains("go late");
            assert!(
                validity.ok || validity.reasons.iter().any(is_late),
                "{validity:?}"
            );
        }
        blocks
    }

    /// All went well.
    #[track_caller]
    pub(crate) fn assert_good(&self) -> &Self {
        let blocks = self.blocks();
        let is_valid = blocks.last().is_some_and(|block| block.validity.ok);
        self.call.assert_code(if is_valid { 0 } else { 3 });
        for block in blocks {
            assert_eq!(
                (block.completed, block.errors.len()),
                (SMALL_RUN, 0),
                "{:#?}",
                self.call
            );
        }
        self
    }

    /// Every request failed in this way, for a reason that holds these words.
    #[track_caller]
    pub(crate) fn assert_all(
        &self,
        kind: unstall_results::record::ErrorKind,
        words: &[&str],
    ) -> &Self {
        self.call.assert_code(3).assert_stderr(words);
        for block in self.blocks() {
            assert_eq!(block.errors, [(kind, SMALL_RUN)].into(), "{:#?}", self.call);
        }
        self
    }

    /// Nothing was measured, for a reason that holds these words.
    #[track_caller]
    pub(crate) fn assert_refused(&self, words: &[&str]) -> &Self {
        self.call.assert_code(2).assert_stderr(words);
        assert!(!self.folder.join("small.json").exists());
        self
    }
}
