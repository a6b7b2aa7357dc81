//! Whatever is wrong with a file, the message names file, line, what was expected and
//! what to do; and no bytes at all make the readers panic.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use unstall_scenarios::{Inputs, MigrationPlan, Plan, ScenarioError, catalogue};

/// The files of a folder of this test, by paths from the crate's root, where tests run.
fn corpus(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(Path::new("tests").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// All messages, each checked for what every message must have.
fn messages<T>(folder: &str, load: impl Fn(&Path) -> Result<T, ScenarioError>) -> String {
    let mut all = String::new();
    for path in corpus(folder) {
        let Err(error) = load(&path) else {
            panic!("{} is not malformed", path.display());
        };
        let ScenarioError::Invalid {
            path: named,
            line,
            what,
            fix,
            ..
        } = &error
        else {
            panic!("{} has no line: {error}", path.display());
        };
        let text = String::from_utf8_lossy(&std::fs::read(named).unwrap()).into_owned();
        assert!(
            *line >= 1 && *line <= text.lines().count().max(1),
            "{error}"
        );
        assert!(!what.is_empty() && !fix.is_empty(), "{error}");
        writeln!(all, "{error}\n").unwrap();
    }
    all
}

#[test]
fn every_malformed_scenario_is_answered_with_line_and_fix() {
    assert!(corpus("malformed").len() >= 100);
    insta::assert_snapshot!(messages("malformed", |path| Plan::load(
        path,
        &Inputs::default()
    )));
}

#[test]
fn every_malformed_migration_plan_is_answered_with_line_and_fix() {
    insta::assert_snapshot!(messages("malformed-migrations", MigrationPlan::load));
}

#[test]
fn a_missing_file_is_named() {
    let error = Plan::load(Path::new("none/such.toml"), &Inputs::default()).unwrap_err();
    insta::assert_snapshot!(error);
}

#[test]
fn a_value_from_outside_must_have_the_variables_type_and_is_not_quoted() {
    let text = "name = 'a'\n[vars]\nsize = { env = 'SIZE', default = 5 }\n[[request]]\nname = 'r'\nmethod = 'GET'\npath = '/${size}'\n";
    let mut inputs = Inputs::default();
    inputs.environment.insert("SIZE".into(), "hunter2".into());
    let error = Plan::parse(text, Path::new("s.toml"), &inputs).unwrap_err();
    assert!(!error.to_string().contains("hunter2"));
    insta::assert_snapshot!(error);
    inputs.environment.insert("SIZE".into(), "7".into());
    Plan::parse(text, Path::new("s.toml"), &inputs).unwrap();
}

#[test]
fn bottomless_nesting_is_refused_and_overflows_no_stack() {
    let depth = 100_000;
    for text in [
        format!("a = {}1{}", "[".repeat(depth), "]".repeat(depth)),
        format!("a = {}1{}", "{a=".repeat(depth), "}".repeat(depth)),
        format!("{}a = 1", "a.".repeat(depth)),
        format!("[{}a]", "a.".repeat(depth)),
    ] {
        let error = Plan::parse(&text, Path::new("s.toml"), &Inputs::default()).unwrap_err();
        assert!(error.to_string().contains("recur"), "{error}");
    }
}

fn texts() -> Vec<String> {
    let read = |path| std::fs::read_to_string(path).unwrap();
    catalogue::names()
        .filter_map(catalogue::get)
        .map(str::to_owned)
        .chain(["examples/complete.toml", "migrations/async-migration.toml"].map(read))
        .collect()
}

/// Reading must give a value or an error with a place in the text, never a panic.
fn read_both(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mutated.toml");
    std::fs::write(&path, bytes).unwrap();
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let errors = [
        Plan::load(&path, &Inputs::default()).err(),
        MigrationPlan::load(&path).err(),
    ];
    for error in errors.into_iter().flatten() {
        if let ScenarioError::Invalid {
            path: named, line, ..
        } = &error
            && *named == path
        {
            assert!(*line >= 1 && *line <= lines, "{error} of {lines} lines");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_both(&bytes);
    }

    #[test]
    fn toml_like_texts_do_not_panic(text in "([a-z]{1,9} = |\\[\\[request\\]\\]|\\[vars\\]|\"[a-z/${}]{0,9}\"|[0-9.]{1,5}|\\[|\\]|\\{|\\}|,|\n){0,40}") {
        read_both(text.as_bytes());
    }

    #[test]
    fn mutated_files_do_not_panic(
        which in 0usize..4,
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..40, "[\\PC\n]{0,4}"), 1..4),
    ) {
        let texts = texts();
        let mut bytes = texts[which % texts.len()].clone().into_bytes();
        for (at, length, insert) in cuts {
            let start = at.index(bytes.len() + 1);
            let end = (start + length).min(bytes.len());
            bytes.splice(start..end, insert.bytes());
        }
        read_both(&bytes);
    }
}
