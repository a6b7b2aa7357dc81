//! How a repository is tested, as its own files say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::ToolFailure;
use crate::domain::TreePath;
use crate::ports::files::{EntryKind, FileAccess};

/// Names of a folder that are looked at.
const ENTRIES_MAX: usize = 10_000;
/// Bytes of a file that are looked at.
const FILE_BYTES_MAX: usize = 1024 * 1024;

/// What runs tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TestFramework {
    Cargo,
    Go,
    Npm,
    Pytest,
    Make,
}

impl TestFramework {
    pub(super) const LOOKED_FOR: &str = "Cargo.toml, go.mod, a test script in package.json, pytest's \
        settings or tests, a test target in a Makefile";

    /// The command that tests, with `arguments` handed on.
    pub(super) fn command(self, arguments: &[String]) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Cargo => &["cargo", "test"],
            Self::Go => &["go", "test"],
            Self::Npm => &["npm", "test"],
            Self::Pytest => &["python3", "-m", "pytest"],
            Self::Make => &["make", "test"],
        };
        let mut command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            // npm hands on what stands behind two dashes.
            Self::Npm if !arguments.is_empty() => command.push("--".to_owned()),
            Self::Go if arguments.is_empty() => command.push("./...".to_owned()),
            _ => {}
        }
        command.extend(arguments.iter().cloned());
        command
    }
}

/// What the files of `folder` say, the language's own before a Makefile. All that fit are answered: a
/// repository may have several.
pub(super) async fn detect(
    files: &dyn FileAccess,
    folder: &TreePath,
) -> Result<Vec<TestFramework>, ToolFailure> {
    let listing = files.list(folder.clone(), ENTRIES_MAX).await?;
    let has = |name: &str| {
        let mut entries = listing.entries.iter();
        entries.any(|entry| entry.name == name.as_bytes() && entry.kind != EntryKind::Folder)
    };
    let mut found = Vec::new();
    if has("Cargo.toml") {
        found.push(TestFramework::Cargo);
    }
    if has("go.mod") {
        found.push(TestFramework::Go);
    }
    if has("package.json") && has_test_script(&text_of(files, folder, "package.json").await?) {
        found.push(TestFramework::Npm);
    }
    if has("pytest.ini") || has("conftest.py") || has("tox.ini") {
        found.push(TestFramework::Pytest);
    } else if has("pyproject.toml") || has("setup.cfg") || has("setup.py") {
        let tests = listing.entries.iter().any(|entry| {
            let is_test_file = entry.name.starts_with(b"test_") && entry.name.ends_with(b".py");
            let is_test_folder = matches!(entry.name.as_slice(), b"tests" | b"test");
            is_test_file || (is_test_folder && entry.kind == EntryKind::Folder)
        });
        let mut says_so = tests;
        for settings in ["pyproject.toml", "setup.cfg"] {
            says_so = says_so
                || (has(settings) && text_of(files, folder, settings).await?.contains("pytest"));
        }
        if says_so {
            found.push(TestFramework::Pytest);
        }
    }
    for makefile in ["GNUmakefile", "makefile", "Makefile"] {
        // make takes the first of these.
        if has(makefile) {
            if has_test_target(&text_of(files, folder, makefile).await?) {
                found.push(TestFramework::Make);
            }
            break;
        }
    }
    Ok(found)
}

async fn text_of(
    files: &dyn FileAccess,
    folder: &TreePath,
    name: &str,
) -> Result<String, ToolFailure> {
    let read = files
        .read(folder.join(name.as_bytes()), FILE_BYTES_MAX)
        .await?;
    Ok(read.text().0.into_owned())
}

/// Does it name a test script, and not the one that `npm init` puts there?
fn has_test_script(package: &str) -> bool {
    let Ok(package) = serde_json::from_str::<serde_json::Value>(package) else {
        return false; // npm can't read it either
    };
    package["scripts"]["test"]
        .as_str()
        .is_some_and(|script| !script.contains("no test specified"))
}

fn has_test_target(makefile: &str) -> bool {
    makefile.lines().any(|line| {
        let Some((targets, rest)) = line.split_once(':') else {
            return false;
        };
        let is_rule = !line.starts_with(['\t', ' ', '#']) && !rest.starts_with('=');
        is_rule && targets.split_whitespace().any(|target| target == "test")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_makefile_has_a_test_target_when_a_rule_makes_it() {
        for (makefile, has) in [
            ("all: x\n\ntest: all\n\t./run\n", true),
            ("check test::\n", true),
            ("test := 1\n", false),
            ("\ttest: x\n", false),
            ("# test: x\n", false),
            (".PHONY: test\n", false),
            ("tests:\n", false),
        ] {
            assert_eq!(has_test_target(makefile), has, "{makefile}");
        }
    }

    #[test]
    fn a_package_has_a_test_script_of_its_own() {
        assert!(has_test_script(r#"{"scripts": {"test": "vitest"}}"#));
        let of_init = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        for package in [of_init, "{}", r#"{"scripts": []}"#, "no JSON"] {
            assert!(!has_test_script(package), "{package}");
        }
    }

    #[test]
    fn arguments_are_handed_on_as_each_takes_them() {
        let with = |framework: TestFramework| framework.command(&["a".to_owned()]).join(" ");
        assert_eq!(with(TestFramework::Npm), "npm test -- a");
        assert_eq!(with(TestFramework::Go), "go test a");
        assert_eq!(with(TestFramework::Pytest), "python3 -m pytest a");
        assert_eq!(TestFramework::Go.command(&[]).join(" "), "go test ./...");
        assert_eq!(TestFramework::Npm.command(&[]).join(" "), "npm test");
    }
}
