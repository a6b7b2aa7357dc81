//! Rules about the pages for people: the architecture names every crate, and every dependency has
//! its reason.

use std::collections::BTreeSet;

use crate::{Package, Violation};

/// Fewer words than this name something and don't give a reason.
const REASON_WORDS_MIN: usize = 4;

/// ARCHITECTURE.md names the folder of every crate.
#[must_use]
pub fn architecture_violations(page: &str, packages: &[Package]) -> Vec<Violation> {
    packages
        .iter()
        .filter(|package| !page.contains(&format!("`{}/`", package.folder)))
        .map(|package| {
            Violation::new(
                "ARCHITECTURE.md",
                format!("the crate `{}/` isn't named", package.folder),
                "add it to the table, with what it says and what it may use",
            )
        })
        .collect()
}

/// CONTRIBUTING.md has a line for each third-party dependency that names it as `` `name` `` and
/// says why it's there.
#[must_use]
pub fn reason_violations(page: &str, packages: &[Package]) -> Vec<Violation> {
    let names: BTreeSet<&str> = packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .map(|dependency| dependency.name.as_str())
        .filter(|name| !name.starts_with("unstall-"))
        .collect();
    names
        .into_iter()
        .filter(|name| !page.lines().any(|line| gives_reason(line, name)))
        .map(|name| {
            Violation::new(
                "CONTRIBUTING.md",
                format!("no reason for the dependency {name}"),
                "add a line with its name in backticks and why it's needed, or do without it",
            )
        })
        .collect()
}

fn gives_reason(line: &str, name: &str) -> bool {
    // Every second part is in backticks.
    let mut parts = line.split('`').enumerate();
    let is_named = parts
        .clone()
        .any(|(index, part)| index % 2 == 1 && part == name);
    let words = parts.by_ref().filter(|(index, _)| index % 2 == 0);
    let words: usize = words
        .flat_map(|(_, part)| part.split_whitespace())
        .filter(|word| word.chars().any(char::is_alphabetic))
        .count();
    is_named && words >= REASON_WORDS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dependency;

    fn packages() -> Vec<Package> {
        let dependency = |name: &str| Dependency {
            name: name.to_owned(),
            is_for_tests: false,
            is_optional: false,
        };
        vec![Package {
            name: "unstall-results".to_owned(),
            folder: "results".to_owned(),
            dependencies: vec![
                dependency("serde"),
                dependency("serde_json"),
                dependency("unstall-x"),
            ],
        }]
    }

    #[test]
    fn a_crate_that_is_not_named_is_found() {
        assert_eq!(
            architecture_violations("| `results/` | what it means |", &packages()),
            []
        );
        assert_eq!(
            architecture_violations("| results | `reports/` |", &packages()).len(),
            1
        );
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let page = "| `serde` | records are read and written by derive |\n- `serde_json`: the record's format, JSON";
        assert_eq!(reason_violations(page, &packages()), []);
        for page in [
            "",
            "`serde`, `serde_json`",
            "- `serde_json`: JSON",
            "serde and serde_json are needed here",
        ] {
            assert_eq!(reason_violations(page, &packages()).len(), 2, "{page}");
        }
    }
}
