//! Which layer of the sandbox core may know which: the domain nobody, ports the domain, and what is
//! behind a port both of these, but not what is behind another; the use cases ports alone.

use crate::{Tree, Violation, code_only};

const CRATE: &str = "sandbox-core/src/";

/// A layer, and the modules of its crate that it may name beside itself. The program's own modules are
/// not in the list: they may name all.
const LAYERS: [(&str, &[&str]); 11] = [
    ("blocking_pool", &[]),
    ("domain", &[]),
    ("ports", &["domain"]),
    ("stores", &["domain", "ports"]),
    ("locks", &["domain", "ports"]),
    ("git", &["domain", "ports", "blocking_pool"]),
    ("runtime", &["domain", "ports", "blocking_pool"]),
    ("files", &["domain", "ports", "blocking_pool"]),
    ("tools", &["domain", "ports"]),
    ("service", &["domain", "ports", "blocking_pool"]),
    ("client", &["domain", "ports", "service", "files", "tools"]),
];

/// Layers that name one which they must not know.
#[must_use]
pub fn layer_violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.ending_in("rs") {
        let Some(within) = path.strip_prefix(CRATE) else {
            continue;
        };
        let module = within.split(['/', '.']).next().unwrap_or("");
        let Some((layer, may_know)) = LAYERS.into_iter().find(|(name, _)| *name == module) else {
            continue;
        };
        for (line, named) in modules_named(&code_only(text)) {
            let is_layer = LAYERS.iter().any(|(name, _)| *name == named);
            if is_layer && named != layer && !may_know.contains(&named.as_str()) {
                violations.push(Violation::new(
                    format!("{path}:{line}"),
                    format!("{CRATE}{layer} knows {named}"),
                    "hand the data over, or put a port between them",
                ));
            }
        }
    }
    violations
}

/// The modules that paths from `crate::` on begin with, each with its line.
fn modules_named(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, start) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue; // the end of another name
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + start.len()..];
        let names = match rest.strip_prefix('{') {
            Some(group) => first_words(group),
            None => vec![first_word(rest)],
        };
        found.extend(names.into_iter().map(|name| (line, name.to_owned())));
    }
    found
}

/// The first word of each path in a group of imports, up to the group's end.
fn first_words(group: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let mut words = vec![first_word(group)];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => words.push(first_word(&group[at + 1..])),
            _ => {}
        }
    }
    words
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn a_layer_that_knows_what_it_must_not_is_found() {
        let text = "use crate::stores::Postgres;\nuse crate::{\n    domain::{A, B},\n    stores,\n};\n// crate::stores\nfn a(b: crate::ports::store::Page) {}\n";
        let cases: [(&str, &[usize]); 7] = [
            ("sandbox-core/src/domain/a.rs", &[1, 2, 7]),
            ("sandbox-core/src/domain.rs", &[1, 2, 7]),
            ("sandbox-core/src/ports/a.rs", &[1, 2]),
            ("sandbox-core/src/locks.rs", &[1, 2]),
            ("sandbox-core/src/stores/a.rs", &[]),
            ("sandbox-core/src/lib.rs", &[]),
            ("results/src/domain/a.rs", &[]),
        ];
        for (path, lines) in cases {
            let expected: Vec<String> = lines.iter().map(|line| format!("{path}:{line}")).collect();
            assert_eq!(places(layer_violations, &[(path, text)]), expected);
        }
    }

    #[test]
    fn a_port_of_the_same_name_is_no_layer() {
        let text = "use crate::ports::locks::Lease;\nuse crate::ports::{locks, store};\nuse my_crate::stores;\n";
        let files = [("sandbox-core/src/stores/a.rs", text)];
        assert_eq!(places(layer_violations, &files), Vec::<String>::new());
    }
}
