//! Rules about the text of source files: the head comment, silenced lints, unsafe code, traces of
//! one machine.

use crate::{Tree, Violation, code_only};

/// Shorter than this, a head comment only repeats the file's name.
const HEAD_CHARS_MIN: usize = 20;

/// Unsafe code lives where system calls need it, and nowhere else.
const UNSAFE_PLACES: [&str; 2] = ["loop-monitor/src/prove", "sandbox-core/src/runtime"];

/// Paths that only exist on the machine of the one who wrote them, each in two parts so that this
/// file doesn't break its own rule.
const MACHINE_PATHS: [(&str, &str); 4] = [
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("/Us", "ers/"),
    ("/ho", "me/"),
];

/// Every source file begins by saying why it exists.
#[must_use]
pub fn head_violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.all() {
        let markers: &[&str] = match path.rsplit_once('.').map(|(_, ending)| ending) {
            Some("rs") => &["//!"],
            Some("py") => &["\"\"\"", "#"],
            Some("sh") => &["#"],
            _ if text.starts_with("#!/") => &["#", "\"\"\""],
            _ => continue,
        };
        let head = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with("#!/"));
        let says = markers.iter().find_map(|marker| head?.strip_prefix(marker));
        if says.is_none_or(|says| says.trim().len() < HEAD_CHARS_MIN) {
            violations.push(Violation::new(
                path,
                "no head comment",
                "begin it with a sentence that says why the file exists",
            ));
        }
    }
    violations
}

/// Lints are expected with a reason, so that they come back when the reason goes. `allow` is only
/// for what `cfg` makes appear and disappear, and for modules that several test programs share and
/// each uses a part of.
#[must_use]
pub fn attribute_violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.ending_in("rs") {
        let code = code_only(text);
        for (place, silenced) in attributes(path, text, &code) {
            let has_reason = silenced.contains("reason =");
            let may_allow = has_reason && (silenced.contains("cfg") || path.contains("/tests/"));
            let is_allow = silenced.contains("allow(");
            if (is_allow && !may_allow) || !has_reason {
                violations.push(Violation::new(
                    place,
                    "silences a lint",
                    "use `#[expect(lint, reason = \"…\")]`, or `allow` with a reason that names its cfg",
                ));
            }
        }
    }
    violations
}

/// The `allow` and `expect` attributes: their places, and their text with its literals.
fn attributes<'a>(
    path: &'a str,
    text: &'a str,
    code: &'a str,
) -> impl Iterator<Item = (String, String)> + 'a {
    let lines: Vec<&str> = text.lines().collect();
    code.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim_start();
        let starts = ["#[allow(", "#![allow(", "#[expect(", "#![expect("];
        starts.iter().any(|start| line.starts_with(start)).then(|| {
            let mut whole = String::new();
            for line in &lines[index..] {
                whole.push_str(line);
                if line.trim_end().ends_with(")]") {
                    break;
                }
            }
            (format!("{path}:{}", index + 1), whole)
        })
    })
}

/// `unsafe` appears only in the loop monitor's proof and in the sandbox's runtimes.
#[must_use]
pub fn unsafe_violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.ending_in("rs") {
        if UNSAFE_PLACES.iter().any(|place| path.starts_with(place)) {
            continue;
        }
        for (index, line) in code_only(text).lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|word| word == "unsafe") {
                violations.push(Violation::new(
                    format!("{path}:{}", index + 1),
                    "unsafe code",
                    "use a safe wrapper (nix), or move it where the architecture allows it",
                ));
            }
        }
    }
    violations
}

/// No file knows the machine it was written on.
#[must_use]
pub fn machine_violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.all() {
        for (index, line) in text.lines().enumerate() {
            for found in MACHINE_PATHS
                .iter()
                .filter(|parts| names_path(line, **parts))
            {
                violations.push(Violation::new(
                    format!("{path}:{}", index + 1),
                    format!("a path of one machine ({}{}…)", found.0, found.1),
                    "make it relative, or take it from the environment",
                ));
            }
        }
    }
    violations
}

/// Does an absolute path beginning with these parts stand in the line, and not the middle of a
/// longer path or an address?
fn names_path(line: &str, parts: (&str, &str)) -> bool {
    let start = format!("{}{}", parts.0, parts.1);
    line.match_indices(&start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + start.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '*'))
            && after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '$' | '{'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn files_without_a_head_are_found() {
        let good = [
            ("a.rs", "//! Says why this file exists.\n"),
            (
                "a.py",
                "#!/usr/bin/env python3\n\"\"\"Says why this file exists.\"\"\"\n",
            ),
            ("run", "#!/usr/bin/env bash\n# Says why this file exists.\n"),
            ("a.toml", "a = 1\n"),
        ];
        assert_eq!(places(head_violations, &good), Vec::<String>::new());
        let bad = [
            ("a.rs", "use std::io;\n"),
            ("b.rs", "//! b\n"),
            ("c.rs", ""),
            ("d.py", "import os\n"),
            ("e", "#!/bin/sh\nset -e\n"),
        ];
        assert_eq!(
            places(head_violations, &bad),
            ["a.rs", "b.rs", "c.rs", "d.py", "e"]
        );
    }

    #[test]
    fn silenced_lints_need_a_reason() {
        let text = "#[allow(dead_code)]\nfn a() {}\n#[expect(dead_code)]\nfn b() {}\n#[expect(\n    dead_code,\n    reason = \"held\"\n)]\nfn c() {}\n#[allow(unused, reason = \"only under cfg(test)\")]\nfn d() {}\n#[allow(unused, reason = \"lazy\")]\nfn e() {}\nconst T: &str = \"\n#[allow(x)]\n\";\n";
        assert_eq!(
            places(attribute_violations, &[("a.rs", text)]),
            ["a.rs:1", "a.rs:3", "a.rs:12"]
        );
    }

    #[test]
    fn unsafe_is_found_in_code_only_and_outside_its_places_only() {
        let text =
            "// unsafe\nlet a = \"unsafe\";\nlet b = unsafe { c() };\n#![forbid(unsafe_code)]\n";
        assert_eq!(
            places(unsafe_violations, &[("results/src/a.rs", text)]),
            ["results/src/a.rs:3"]
        );
        assert_eq!(
            places(unsafe_violations, &[("loop-monitor/src/prove/a.rs", text)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let planted = MACHINE_PATHS
            .map(|(one, two)| format!("see \"{one}{two}me/x\"\n"))
            .concat();
        assert_eq!(
            places(machine_violations, &[("a.md", &planted)]),
            ["a.md:1", "a.md:2", "a.md:3", "a.md:4"]
        );
        let fine = MACHINE_PATHS
            .map(|(one, two)| format!("http://host{one}{two}a and a{one}space\n"))
            .concat();
        assert_eq!(
            places(machine_violations, &[("a.md", &fine)]),
            Vec::<String>::new()
        );
    }
}
