//! Programs as Cargo builds releases: optimised, without frame pointers of their own (Rust's library
//! has them), with lines, without lines, and without names.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use unstall_loop_monitor::cause::{Cause, CauseClass};
use unstall_loop_monitor::process::{Namer, ProcessView};

const SOURCE: &str = "tests/built_program/waits.rs";
/// Ways to wait: argument, class, function, and its line that waits.
const WAITS: [(&str, CauseClass, &str, &str); 3] = [
    ("sleep", CauseClass::Sleep, "sleeps", "thread::sleep("),
    ("lock", CauseClass::Lock, "locks", "other.lock()"),
    ("read", CauseClass::Io, "reads", "std::io::stdin()"),
];

/// Builds the program with these options beside the usual ones of a release.
fn build(folder: &Path, options: &[&str]) -> std::path::PathBuf {
    let program = folder.join("waits");
    // Whoever runs this by Cargo has one.
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command
        .args(["--edition", "2024", "-C", "opt-level=3"])
        .args(["-C", "force-frame-pointers=no"])
        .args(options)
        .arg("-o")
        .arg(&program)
        .arg(SOURCE)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    #[expect(clippy::disallowed_methods, reason = "a test, which holds no loop")]
    let output = command.output().expect("rustc starts");
    assert!(output.status.success(), "{output:?}");
    program
}

struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        // It waits longer than the test.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the program's first thread waits for.
fn named(program: &Path, wait: &str, class: CauseClass) -> Cause {
    let mut command = Command::new(program);
    command.arg(wait).stdin(Stdio::piped());
    let child = Waiting(command.spawn().expect("it starts"));
    let pid = child.0.id();
    loop {
        // Until it has become the program and waits.
        let view = ProcessView::of(pid).expect("may be read");
        let task = view.task(pid).expect("runs");
        let cause = Namer::new(&view).expect("readable").name(&task);
        let cause = cause.expect("readable");
        let is_it = |cause: &Cause| cause.class == class && !cause.frames.is_empty();
        if view.command().expect("it runs").ends_with(wait)
            && let Some(cause) = cause.filter(is_it)
        {
            return cause;
        }
    }
}

fn functions(cause: &Cause) -> Vec<&str> {
    let frames = cause.frames.iter();
    frames.map(|frame| frame.function.as_str()).collect()
}

#[test]
fn a_release_with_lines_is_named_by_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path(), &["-C", "debuginfo=line-tables-only"]);
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join(SOURCE);
    #[expect(clippy::disallowed_methods, reason = "a test, which holds no loop")]
    let text = std::fs::read_to_string(text).expect("the source");
    for (wait, class, function, line) in WAITS {
        let cause = named(&program, wait, class);
        let number = text.lines().position(|text| text.contains(line));
        let number = u32::try_from(number.expect("the line") + 1).expect("small");
        let blamed = cause.blamed().expect("a frame");
        assert_eq!(blamed.line, Some(number), "{wait}: {cause:#?}");
        let file = blamed.file.as_deref();
        assert!(file.is_some_and(|file| file.ends_with(SOURCE)), "{file:?}");
        let functions = functions(&cause);
        for caller in [function, "keeps_values", "main"] {
            let mut all = functions.iter();
            assert!(
                all.any(|one| one.contains(caller)),
                "{wait}: {functions:#?}"
            );
        }
    }
}

#[test]
fn a_release_without_lines_is_named_by_its_function() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path(), &["-C", "strip=debuginfo"]);
    for (wait, class, function, _) in WAITS {
        let cause = named(&program, wait, class);
        let blamed = cause.blamed().expect("a frame");
        assert_eq!(blamed.function, format!("waits::{function}"), "{cause:#?}");
        assert_eq!(blamed.line, None);
    }
}

/// Nothing has a name then, and the stack is followed all the same.
#[test]
fn a_release_without_names_has_its_whole_stack() {
    let folder = tempfile::tempdir().expect("a folder");
    let causes = |options: &[&str]| {
        let program = build(folder.path(), options);
        WAITS.map(|(wait, class, ..)| named(&program, wait, class))
    };
    let known = causes(&["-C", "strip=debuginfo"]);
    let nameless = causes(&["-C", "strip=symbols"]);
    for (known, nameless) in known.iter().zip(&nameless) {
        assert!(
            functions(known).contains(&"waits::keeps_values"),
            "{known:#?}"
        );
        assert_eq!(nameless.frames.len(), known.frames.len(), "{nameless:#?}");
    }
}
