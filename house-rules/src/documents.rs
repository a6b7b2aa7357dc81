//! Rules about the pages for people: the architecture names every crate, and every dependency has
//! its reason.

use std::collections::BTreeSet;

use crate::{Package, Violation};

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

/// CONTRIBUTING.md has a table row for each third-party dependency: `| name | why it's there |`,
/// where related ones may share a row, `| name, name | why |`.
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
        .filter(|name| !page.lines().any(|row| gives_reason(row, name)))
        .map(|name| {
            Violation::new(
                "CONTRIBUTING.md",
                format!("no reason for the dependency {name}"),
                "add a row `| name | why it's needed |` to its table, or do without it",
            )
        })
        .collect()
}

fn gives_reason(row: &str, name: &str) -> bool {
    let cells: Vec<&str> = row
        .trim()
        .trim_matches('|')
        .split('|')
        .map(str::trim)
        .collect();
    let [names, reason] = cells[..] else {
        return false;
    };
    let mut names = names.split(',').map(|other| other.trim().trim_matches('`'));
    names.any(|other| other == name) && reason.chars().any(char::is_alphabetic) && reason != name
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
        for page in [
            "| serde | one derive for all |\n| `serde_json` | JSON |",
            "| serde_json, serde | records are read and written |",
        ] {
            assert_eq!(reason_violations(page, &packages()), [], "{page}");
        }
        for page in [
            "",
            "| serde, serde_json | |",
            "| serde_jsonish | reads |",
            "serde and serde_json are needed here",
            "| serde | serde |\n| serde_json | --- |",
        ] {
            assert_eq!(reason_violations(page, &packages()).len(), 2, "{page}");
        }
    }
}
