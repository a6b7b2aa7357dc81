//! A project's files and folders as a text, and where the text is kept.

use std::fmt::Write;

use crate::hub::answers::Tree;

/// Levels below the path that are told.
const DEPTH: usize = 4;

/// Where the structure below a path is cached.
#[must_use]
pub fn key(project_id: &str, path: &str) -> String {
    format!("project_structure:{project_id}:exact_path_{path}:depth_{DEPTH}")
}

/// A path without the slashes around it, which change nothing about where it leads.
#[must_use]
pub fn exact_path(path: &str) -> &str {
    path.trim_matches('/')
}

/// What is below a path, a line each, indented by level, folders with a `/` at their end. `None`
/// if there is no such folder; the root, an empty path, is always there.
#[must_use]
pub fn text(tree: &Tree, path: &str) -> Option<String> {
    let mut below: Vec<(Vec<&str>, &str)> = Vec::new();
    let mut is_folder = path.is_empty();
    for entry in &tree.tree {
        let rest = match entry.path.strip_prefix(path) {
            Some("") => {
                is_folder |= entry.kind == "tree";
                continue;
            }
            Some(rest) if path.is_empty() => rest,
            Some(rest) => match rest.strip_prefix('/') {
                Some(rest) => rest,
                None => continue,
            },
            None => continue,
        };
        let parts: Vec<&str> = rest.split('/').collect();
        if parts.len() <= DEPTH {
            below.push((parts, &entry.kind));
        }
    }
    if !is_folder {
        return None;
    }
    below.sort();
    let mut text = String::new();
    for (parts, kind) in below {
        let name = parts.last().expect("a text has at least one part");
        let indent = 2 * (parts.len() - 1);
        let end = if kind == "tree" { "/" } else { "" };
        writeln!(text, "{:indent$}{name}{end}", "").expect("a string takes it");
    }
    if tree.truncated {
        text.push_str("…\n");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::answers::TreeEntry;

    fn tree(paths: &[&str]) -> Tree {
        let entry = |path: &&str| TreeEntry {
            path: path.trim_end_matches('/').to_owned(),
            kind: if path.ends_with('/') { "tree" } else { "blob" }.to_owned(),
        };
        Tree {
            tree: paths.iter().map(entry).collect(),
            truncated: false,
        }
    }

    #[test]
    fn four_levels_are_told_and_each_folder_before_what_it_holds() {
        let tree = tree(&[
            "src/a.rs",
            "README.md",
            "src/",
            "src/x/",
            "src/x/y/",
            "src/x/y/z/",
            "src/x/y/z/deep",
            "src-gen/",
            "src-gen/b.rs",
            "src/x/y/f",
        ]);
        assert_eq!(
            text(&tree, "").expect("the root"),
            "README.md\nsrc/\n  a.rs\n  x/\n    y/\n      f\n      z/\nsrc-gen/\n  b.rs\n"
        );
        assert_eq!(
            text(&tree, "src/x").expect("a folder"),
            "y/\n  f\n  z/\n    deep\n"
        );
    }

    #[test]
    fn what_is_no_folder_has_no_structure() {
        let tree = tree(&["src/", "src/a.rs", "empty/"]);
        for none in ["sr", "src/a.rs", "src/b", "nothing"] {
            assert_eq!(text(&tree, none), None, "{none}");
        }
        assert_eq!(text(&tree, "empty").as_deref(), Some(""));
        let nothing = Tree {
            tree: Vec::new(),
            truncated: true,
        };
        assert_eq!(text(&nothing, "").as_deref(), Some("…\n"));
    }

    #[test]
    fn slashes_around_a_path_make_no_other_key() {
        assert_eq!(exact_path("/src/x/"), "src/x");
        assert_eq!(
            key("p-1", exact_path("/")),
            "project_structure:p-1:exact_path_:depth_4"
        );
    }
}
