//! The tree of files, and the rules about which there are, what they are called and where they lie.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::Violation;

const FORBIDDEN_NAMES: [&str; 8] = [
    "common",
    "helper",
    "helpers",
    "misc",
    "shared",
    "util",
    "utilities",
    "utils",
];
const LEVELS_MAX: usize = 2;

/// The repository's files by path below its root. A binary file's text is empty.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// A tree made up for a test.
    #[cfg(test)]
    pub(crate) fn planted(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self {
            files: files.iter().map(own).collect(),
        }
    }

    /// Reads what git knows below `root`, and what it would take in.
    ///
    /// # Errors
    /// When git or a file can't be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()?;
        if !listed.status.success() {
            let said = String::from_utf8_lossy(&listed.stderr).into_owned();
            return Err(io::Error::other(format!("git ls-files: {said}")));
        }
        let mut files = BTreeMap::new();
        for path in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            let full = root.join(path);
            // Deleted and not committed yet, or a link to a folder.
            if full.is_file() {
                let text = String::from_utf8(std::fs::read(&full)?).unwrap_or_default(); // binary
                files.insert(path.to_owned(), text);
            }
        }
        Ok(Self { files })
    }

    /// A file's text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// All files, in the order of their paths.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose names end in `.ending`.
    pub fn ending_in<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.all()
            .filter(move |(path, _)| Path::new(path).extension().is_some_and(|e| e == ending))
    }
}

/// Source files are named after what they hold, at most two folders deep below `src`.
#[must_use]
pub fn name_violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, _) in tree.ending_in("rs").chain(tree.ending_in("py")) {
        let bad = path
            .split(['/', '.'])
            .find(|name| FORBIDDEN_NAMES.contains(name));
        if let Some(name) = bad {
            violations.push(Violation::new(
                path,
                format!("'{name}' says nothing"),
                "name it after the noun of the domain that it holds",
            ));
        }
        let below_src = path
            .split_once("/src/")
            .map_or(0, |(_, rest)| rest.matches('/').count());
        if below_src > LEVELS_MAX {
            violations.push(Violation::new(
                path,
                format!("{below_src} folders below src"),
                "use two at most",
            ));
        }
    }
    violations
}

/// The lock file is committed, and no toolchain is pinned: `rust-version` says what is needed.
#[must_use]
pub fn lock_violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let ignored = tree.text(".gitignore").unwrap_or_default(); // no file, nothing ignored
    if tree.text("Cargo.lock").is_none()
        || ignored
            .lines()
            .any(|line| line.trim_start_matches('/') == "Cargo.lock")
    {
        violations.push(Violation::new(
            "Cargo.lock",
            "not committed",
            "commit it: builds must repeat",
        ));
    }
    for name in ["rust-toolchain", "rust-toolchain.toml"] {
        if tree.text(name).is_some() {
            violations.push(Violation::new(
                name,
                "pins a toolchain",
                "state `rust-version` in Cargo.toml instead",
            ));
        }
    }
    violations
}

/// Every crate takes the workspace's lints, edition and `rust-version`; but fuzz targets are a
/// workspace of their own, since they need a nightly compiler.
#[must_use]
pub fn manifest_violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let is_ours = |path: &str| path.ends_with("/Cargo.toml") && !path.ends_with("/fuzz/Cargo.toml");
    for (path, text) in tree.all().filter(|(path, _)| is_ours(path)) {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let inherits_lints = lines
            .windows(2)
            .any(|pair| pair == ["[lints]", "workspace = true"]);
        for (fulfilled, wrong) in [
            (inherits_lints, "doesn't take the workspace's lints"),
            (
                lines.contains(&"edition.workspace = true"),
                "has an edition of its own",
            ),
            (
                lines.contains(&"rust-version.workspace = true"),
                "has a rust-version of its own",
            ),
        ] {
            if !fulfilled {
                violations.push(Violation::new(path, wrong, "inherit it from the workspace"));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn names_that_say_nothing_and_deep_folders_are_found() {
        let bad = [
            ("a/src/one/two/three/x.rs", ""),
            ("a/src/utils.rs", ""),
            ("a/tests/common/mod.rs", ""),
            ("a/python/helpers.py", ""),
        ];
        let found = places(name_violations, &bad);
        assert_eq!(
            found,
            [
                "a/src/one/two/three/x.rs",
                "a/src/utils.rs",
                "a/tests/common/mod.rs",
                "a/python/helpers.py"
            ]
        );
        let good = [
            ("a/src/one/two/x.rs", ""),
            ("a/src/commons.rs", ""),
            ("docs/misc/x.md", ""),
        ];
        assert_eq!(places(name_violations, &good), Vec::<String>::new());
    }

    #[test]
    fn a_missing_lock_file_and_a_pinned_toolchain_are_found() {
        assert_eq!(
            places(lock_violations, &[("Cargo.lock", "")]),
            Vec::<String>::new()
        );
        assert_eq!(places(lock_violations, &[("a", "")]), ["Cargo.lock"]);
        let ignored = [("Cargo.lock", ""), (".gitignore", "/target\n/Cargo.lock\n")];
        assert_eq!(places(lock_violations, &ignored), ["Cargo.lock"]);
        let pinned = [("Cargo.lock", ""), ("rust-toolchain.toml", "")];
        assert_eq!(places(lock_violations, &pinned), ["rust-toolchain.toml"]);
    }

    #[test]
    fn manifests_that_do_not_inherit_are_found() {
        let package = "[package]\nedition.workspace = true\nrust-version.workspace = true\n";
        let good = format!("{package}[lints]\nworkspace = true\n");
        assert_eq!(
            places(manifest_violations, &[("a/Cargo.toml", &good)]),
            Vec::<String>::new()
        );
        assert_eq!(
            places(manifest_violations, &[("a/Cargo.toml", package)]),
            ["a/Cargo.toml"]
        );
        let own = "edition = \"2021\"\n[lints]\nworkspace = true\n";
        assert_eq!(
            places(manifest_violations, &[("a/Cargo.toml", own)]).len(),
            2
        );
        for other in ["Cargo.toml", "a/fuzz/Cargo.toml"] {
            assert_eq!(
                places(manifest_violations, &[(other, "[workspace]")]),
                Vec::<String>::new()
            );
        }
    }
}
