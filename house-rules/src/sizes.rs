//! Files and functions stay small enough to be read: `.rs` and `.py`, tests apart.

use crate::{Tree, Violation, code_only};

/// Files must be shorter than this.
const FILE_LINES: usize = 500;
/// Functions must be shorter than this, from `fn` to the closing brace.
const FUNCTION_LINES: usize = 70;
/// `main.rs` is a table of contents.
const MAIN_LINES: usize = 40;

/// Finds files, functions and `main.rs` that are too long.
#[must_use]
pub fn size_violations(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.ending_in("rs").filter(|(path, _)| !is_test(path)) {
        let code = code_only(text);
        let lines = lines_before_unit_tests(&code);
        let limit = if path.ends_with("/main.rs") {
            MAIN_LINES
        } else {
            FILE_LINES
        };
        check_file(&mut violations, path, lines, limit);
        let functions = rust_functions(&code)
            .into_iter()
            .filter(|function| function.line <= lines);
        check_functions(&mut violations, path, functions);
    }
    for (path, text) in tree.ending_in("py").filter(|(path, _)| !is_test(path)) {
        check_file(&mut violations, path, text.lines().count(), FILE_LINES);
        check_functions(&mut violations, path, python_functions(text));
    }
    violations
}

fn check_file(violations: &mut Vec<Violation>, path: &str, lines: usize, limit: usize) {
    if lines >= limit {
        violations.push(Violation::new(
            path,
            format!("{lines} lines, not under {limit}"),
            "find the two things it holds and part them",
        ));
    }
}

fn check_functions(
    violations: &mut Vec<Violation>,
    path: &str,
    functions: impl IntoIterator<Item = Function>,
) {
    for function in functions
        .into_iter()
        .filter(|function| function.lines >= FUNCTION_LINES)
    {
        violations.push(Violation::new(
            format!("{path}:{}", function.line),
            format!(
                "a function of {} lines, not under {FUNCTION_LINES}",
                function.lines
            ),
            "give its parts names",
        ));
    }
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests")
        || path.ends_with("/tests.rs")
        || path.contains("/test_")
}

/// Unit tests are the last thing in a file.
fn lines_before_unit_tests(code: &str) -> usize {
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod "));
    tests.unwrap_or(lines.len())
}

/// Where a function begins (from 1) and how long it is.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    line: usize,
    lines: usize,
}

/// Functions with a body, of code without literals and comments, inner ones included.
fn rust_functions(code: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    // Where each open brace's function began, for those that are a function's.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut begun = None;
    let mut brackets = 0_usize;
    for (index, line) in code.lines().enumerate() {
        let mut word = String::new();
        for c in line.chars().chain(['\n']) {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            let ended = std::mem::take(&mut word);
            // `fn(` is a type, not a function.
            if ended == "fn" && c.is_whitespace() {
                begun = Some(index + 1);
            }
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                // A declaration without a body; the `;` of an array type is in brackets.
                ';' if brackets == 0 => begun = None,
                '{' => open.push(begun.take()),
                '}' => {
                    if let Some(first) = open.pop().flatten() {
                        functions.push(Function {
                            line: first,
                            lines: index + 2 - first,
                        });
                    }
                }
                _ => {}
            }
        }
    }
    functions
}

/// Functions by indentation; a decorator isn't counted.
fn python_functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let word = line.trim_start();
        if !word.starts_with("def ") && !word.starts_with("async def ") {
            continue;
        }
        let is_inside = |inner: &&str| {
            let text = inner.trim();
            text.is_empty() || text.starts_with(')') || indent(inner) > indent(line)
        };
        let body: Vec<&&str> = lines[index + 1..]
            .iter()
            .take_while(|inner| is_inside(inner))
            .collect();
        let blank_at_end = body
            .iter()
            .rev()
            .take_while(|inner| inner.trim().is_empty())
            .count();
        functions.push(Function {
            line: index + 1,
            lines: 1 + body.len() - blank_at_end,
        });
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrongs(path: &str, text: &str) -> Vec<String> {
        let found = size_violations(&Tree::planted(&[(path, text)]));
        found
            .into_iter()
            .map(|violation| format!("{}: {}", violation.place, violation.wrong))
            .collect()
    }

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn files_are_counted_up_to_their_unit_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// a\n".repeat(600));
        assert_eq!(
            wrongs("a/src/x.rs", &"// a\n".repeat(499)),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs("a/src/x.rs", &("// a\n".repeat(499) + &tests)),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs("a/src/x.rs", &"// a\n".repeat(500)),
            ["a/src/x.rs: 500 lines, not under 500"]
        );
        assert_eq!(
            wrongs("a/src/main.rs", &"// a\n".repeat(40)),
            ["a/src/main.rs: 40 lines, not under 40"]
        );
        assert_eq!(
            wrongs("a/tests/x.rs", &"// a\n".repeat(900)),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs("a/x.py", &"# a\n".repeat(500)),
            ["a/x.py: 500 lines, not under 500"]
        );
    }

    #[test]
    fn long_functions_are_found_and_short_ones_not() {
        assert_eq!(
            wrongs("a/src/x.rs", &function("short", 69)),
            Vec::<String>::new()
        );
        let text = format!(
            "trait T {{ fn declared(&self, a: [u8; 2]); }}\n{}",
            function("long", 70)
        );
        assert_eq!(
            wrongs("a/src/x.rs", &text),
            ["a/src/x.rs:2: a function of 70 lines, not under 70"]
        );
        // Braces in literals and `fn` types don't confuse it.
        let text = format!(
            "type F = fn(u8) -> u8;\nconst OPEN: char = '{{';\n{}",
            function("short", 69)
        );
        assert_eq!(wrongs("a/src/x.rs", &text), Vec::<String>::new());
        // A long method, and a function with a `where` on lines of its own.
        let text = format!(
            "impl X {{\nfn m<T>()\nwhere T: Y,\n{{\n{}}}\n}}\n",
            "a();\n".repeat(66)
        );
        assert_eq!(
            wrongs("a/src/x.rs", &text),
            ["a/src/x.rs:2: a function of 70 lines, not under 70"]
        );
    }

    #[test]
    fn python_functions_end_with_their_indentation() {
        let body = "    step()\n".repeat(69);
        let text = format!(
            "class A:\n  def b(\n    self,\n  ):\n    pass\n\n\ndef c():\n{body}\n\nd = 1\n"
        );
        assert_eq!(
            wrongs("a/x.py", &text),
            ["a/x.py:8: a function of 70 lines, not under 70"]
        );
        let text = format!("async def c():\n{}\nd = 1\n", "    step()\n".repeat(68));
        assert_eq!(wrongs("a/x.py", &text), Vec::<String>::new());
    }
}
