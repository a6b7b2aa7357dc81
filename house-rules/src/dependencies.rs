//! Which crate may use which: between our own, and where third-party crates are confined to.

use crate::{Tree, Violation, code_only};

const PREFIX: &str = "unstall-";

/// Our own crates, and what each may use. Anyone may use testbed in tests.
const ALLOWED: [(&str, &[&str]); 9] = [
    ("scenarios", &[]),
    ("results", &[]),
    ("reports", &["results"]),
    ("loop-monitor", &[]),
    ("sandbox-core", &[]),
    ("reference-service", &["loop-monitor", "sandbox-core"]),
    ("testbed", &[]),
    (
        "bench-harness",
        &["scenarios", "results", "reports", "loop-monitor", "testbed"],
    ),
    ("house-rules", &[]),
];

/// What tests may use beyond that, and beyond the crate itself: a dev-dependency on
/// itself switches its own features on.
const ALLOWED_IN_TESTS: [(&str, &[&str]); 2] =
    [("sandbox-core", &["loop-monitor"]), ("*", &["testbed"])];

/// Third-party crates that live in some of our crates only.
const CONFINED: [(&str, &[&str]); 11] = [
    (
        "clap",
        &["bench-harness", "reference-service", "sandbox-core"],
    ),
    ("axum", &["reference-service", "loop-monitor"]),
    ("sqlx", &["sandbox-core", "reference-service"]),
    ("fred", &["sandbox-core", "reference-service"]),
    ("diesel", &["reference-service"]),
    ("redis", &["reference-service"]),
    ("ureq", &["reference-service"]),
    ("r2d2", &["reference-service"]),
    ("pq-sys", &["reference-service"]),
    ("plotters", &["reports"]),
    ("anyhow", &["bench-harness"]),
];

/// Crates whose use is confined to one folder of the crate that has them.
const CONFINED_TO_FOLDERS: [(&str, &str, &str); 6] = [
    ("sandbox-core/src/", "sqlx", "sandbox-core/src/stores"),
    ("sandbox-core/src/", "fred", "sandbox-core/src/locks"),
    (
        "reference-service/",
        "diesel",
        "reference-service/src/variants/blocking",
    ),
    (
        "reference-service/",
        "redis",
        "reference-service/src/variants/blocking",
    ),
    (
        "reference-service/",
        "ureq",
        "reference-service/src/variants/blocking",
    ),
    (
        "reference-service/",
        "r2d2",
        "reference-service/src/variants/blocking",
    ),
];

/// What must stay behind a feature.
const OPTIONAL: [(&str, &str); 1] = [("loop-monitor", "axum")];

/// A crate of the workspace.
#[derive(Debug, Clone)]
pub struct Package {
    /// As in its manifest.
    pub name: String,
    /// Its folder below the root.
    pub folder: String,
    /// All direct dependencies, of every kind.
    pub dependencies: Vec<Dependency>,
}

/// A direct dependency.
#[derive(Debug, Clone)]
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// Only for tests, examples and benches.
    pub is_for_tests: bool,
    /// Behind a feature.
    pub is_optional: bool,
}

/// Crates that use what the architecture doesn't let them, and crates it doesn't know.
#[must_use]
pub fn dependency_violations(packages: &[Package]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for package in packages {
        let place = format!("{}/Cargo.toml", package.folder);
        if package.name != format!("{PREFIX}{}", package.folder)
            || allowed(&package.folder).is_none()
        {
            violations.push(Violation::new(
                &place,
                format!(
                    "the architecture knows no crate {} in {}",
                    package.name, package.folder
                ),
                "name it unstall-<folder>, and add it to the table in ARCHITECTURE.md and here",
            ));
            continue;
        }
        for dependency in &package.dependencies {
            if let Some(wrong) = wrong_with(&package.folder, dependency) {
                violations.push(Violation::new(
                    &place,
                    wrong,
                    "move the code to where the dependency is allowed, or hand the data over",
                ));
            }
        }
    }
    violations
}

fn allowed(folder: &str) -> Option<&'static [&'static str]> {
    ALLOWED
        .iter()
        .find(|(name, _)| *name == folder)
        .map(|(_, uses)| *uses)
}

fn wrong_with(folder: &str, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    if let Some(own) = name.strip_prefix(PREFIX) {
        let is_allowed = allowed(folder)?.contains(&own);
        let is_allowed_in_tests = ALLOWED_IN_TESTS
            .iter()
            .any(|(user, uses)| (*user == folder || *user == "*") && uses.contains(&own));
        let is_itself = own == folder;
        let fits = is_allowed || (dependency.is_for_tests && (is_allowed_in_tests || is_itself));
        return (!fits).then(|| format!("{folder} may not use {own}"));
    }
    let is_elsewhere = CONFINED
        .iter()
        .any(|(crate_name, places)| *crate_name == name && !places.contains(&folder));
    if is_elsewhere {
        return Some(format!("{name} is confined to other crates than {folder}"));
    }
    let must_be_optional = OPTIONAL.contains(&(folder, name));
    (must_be_optional && !dependency.is_optional && !dependency.is_for_tests)
        .then(|| format!("{name} must be behind a feature in {folder}"))
}

/// Uses of a crate outside the one folder that may know it.
#[must_use]
pub fn use_violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.ending_in("rs") {
        for (within, crate_name, folder) in CONFINED_TO_FOLDERS {
            let is_its_home = path
                .strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with(['/', '.']));
            if !path.starts_with(within) || is_its_home {
                continue;
            }
            let code = code_only(text);
            if has_own_module(&code, crate_name) {
                continue; // there the name means that module
            }
            for (index, line) in code.lines().enumerate() {
                if uses_crate(line, crate_name) {
                    violations.push(Violation::new(
                        format!("{path}:{}", index + 1),
                        format!("{crate_name} outside {folder}"),
                        "put it behind the trait that it serves, in that folder",
                    ));
                }
            }
        }
    }
    violations
}

/// Does the file declare or import a module of ours that is called as the crate?
fn has_own_module(code: &str, crate_name: &str) -> bool {
    code.split(';').any(|statement| {
        let words: Vec<&str> = statement
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .collect();
        let after = |word: &str| {
            words
                .iter()
                .position(|found| *found == word)
                .map(|at| &words[at + 1..])
        };
        let declares = after("mod").is_some_and(|rest| rest.first() == Some(&crate_name));
        let imports = after("use").is_some_and(|rest| {
            // As the last part of a path: `crate::stores::{redis, Keys}`, not `redis::Keys`.
            matches!(rest.first(), Some(&("crate" | "super" | "self")))
                && statement
                    .split([',', '{', '}'])
                    .any(|path| path.trim().rsplit("::").next() == Some(crate_name))
        });
        declares || imports
    })
}

/// Is the crate named here as a path's first part, or imported whole?
fn uses_crate(line: &str, crate_name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(crate_name).any(|(at, _)| {
        let before = line[..at].trim_end();
        let after = line[at + crate_name.len()..].trim_start();
        let is_whole = !line[..at].ends_with(is_word) && !after.starts_with(is_word);
        let is_first = !before.ends_with("::") || before.ends_with(" ::") || before == "::";
        let is_import = before.ends_with("use") || before.ends_with("extern crate");
        is_whole && is_first && (after.starts_with("::") || is_import)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &str, dependencies: &[(&str, bool, bool)]) -> Package {
        Package {
            name: format!("unstall-{folder}"),
            folder: folder.to_owned(),
            dependencies: dependencies
                .iter()
                .map(|&(name, is_for_tests, is_optional)| Dependency {
                    name: name.to_owned(),
                    is_for_tests,
                    is_optional,
                })
                .collect(),
        }
    }

    fn wrongs(package: Package) -> Vec<String> {
        dependency_violations(&[package])
            .into_iter()
            .map(|violation| violation.wrong)
            .collect()
    }

    #[test]
    fn what_the_architecture_allows_is_quiet() {
        for package in [
            package(
                "reports",
                &[
                    ("unstall-results", false, false),
                    ("plotters", false, false),
                ],
            ),
            package(
                "results",
                &[("unstall-testbed", true, false), ("serde", false, false)],
            ),
            package("results", &[("unstall-results", true, false)]),
            package(
                "loop-monitor",
                &[("axum", false, true), ("axum", true, false)],
            ),
            package(
                "sandbox-core",
                &[
                    ("unstall-loop-monitor", true, false),
                    ("sqlx", false, false),
                ],
            ),
        ] {
            assert_eq!(wrongs(package), Vec::<String>::new());
        }
    }

    #[test]
    fn what_it_forbids_is_found() {
        for (package, wrong) in [
            (
                package("results", &[("unstall-reports", false, false)]),
                "results may not use reports",
            ),
            (
                package("results", &[("unstall-testbed", false, false)]),
                "results may not use testbed",
            ),
            (
                package("results", &[("unstall-results", false, false)]),
                "results may not use results",
            ),
            (
                package("scenarios", &[("unstall-results", true, false)]),
                "scenarios may not use results",
            ),
            (
                package(
                    "bench-harness",
                    &[("unstall-reference-service", true, false)],
                ),
                "bench-harness may not use reference-service",
            ),
            (
                package("sandbox-core", &[("unstall-loop-monitor", false, false)]),
                "sandbox-core may not use loop-monitor",
            ),
            (
                package("bench-harness", &[("diesel", false, false)]),
                "diesel is confined to other crates than bench-harness",
            ),
            (
                package("results", &[("anyhow", true, false)]),
                "anyhow is confined to other crates than results",
            ),
            (
                package("loop-monitor", &[("axum", false, false)]),
                "axum must be behind a feature in loop-monitor",
            ),
            (
                package("stray", &[]),
                "the architecture knows no crate unstall-stray in stray",
            ),
        ] {
            assert_eq!(wrongs(package), [wrong]);
        }
    }

    #[test]
    fn a_confined_crate_is_found_outside_its_folder() {
        let places = |path: &str, text: &str| -> Vec<String> {
            let found = use_violations(&Tree::planted(&[(path, text)]));
            found.into_iter().map(|violation| violation.place).collect()
        };
        let text = "use diesel::prelude::*;\nuse crate::redis::Keys;\nlet a = ::redis::cmd(x);\nuse redis;\n// diesel::x\nlet s = \"redis::y\";\nmy_redis::z();\n";
        assert_eq!(
            places("reference-service/src/routes.rs", text),
            [
                "reference-service/src/routes.rs:1",
                "reference-service/src/routes.rs:3",
                "reference-service/src/routes.rs:4"
            ]
        );
        for path in [
            "reference-service/src/variants/blocking/usage.rs",
            "reference-service/src/variants/blocking.rs",
            "testbed/src/redis.rs",
        ] {
            assert_eq!(places(path, text), Vec::<String>::new(), "{path}");
        }
        assert_eq!(
            places("reference-service/src/variants/blocking_not.rs", text).len(),
            3
        );
    }
}
