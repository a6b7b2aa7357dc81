//! `unstall scenarios import`, as a person uses it: from a file or a pipe, to a file or a pipe, and
//! what comes out is checked by the same program.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::program::{Call, call, unstall};

const CURL: &str = "curl https://api.example/v1/usage?limit=5 -H 'authorization: Bearer hush'\n";

fn piped(folder: &Path, arguments: &[&str], input: &str) -> Call {
    let mut child = unstall(folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    Call::of(child.wait_with_output().expect("ended"))
}

#[test]
fn what_is_imported_passes_the_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let imports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/tests/imports");
    std::fs::write(folder.path().join("consent.txt"), "yes").expect("written");
    for (format, file, endpoints) in [
        ("curl", "devtools.curl", 2),
        ("curl", "manual.curl", 8),
        ("har", "browser.har", 5),
        ("openapi", "petstore.yaml", 7),
        ("openapi", "modern.json", 1),
    ] {
        let input = imports.join(file);
        let input = input.to_str().expect("a path of letters");
        let output = format!("{file}.toml");
        let imported = call(
            folder.path(),
            ["scenarios", "import", format, input, "-o", &output],
        );
        imported.assert_code(0);
        assert!(imported.stdout.contains("Written to"), "{imported:#?}");
        let checked = call(folder.path(), ["scenarios", "check", &output, "--json"]);
        let document = checked.assert_code(0).document();
        let found = document["scenarios"][0]["endpoints"]
            .as_array()
            .expect("a list");
        assert_eq!(found.len(), endpoints, "{file}");
        // The same on stdout.
        let printed = call(folder.path(), ["scenarios", "import", format, input]);
        let written = std::fs::read_to_string(folder.path().join(&output)).expect("read");
        assert_eq!(printed.assert_code(0).stdout, written);
        assert!(!written.contains("hush"), "{written}");
    }
}

#[test]
fn a_pipe_is_read_and_no_file_is_written_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "scenarios",
        "import",
        "curl",
        "-",
        "-o",
        "usage.toml",
        "--name",
        "usage",
    ];
    piped(folder.path(), &arguments, CURL).assert_code(0);
    let written = std::fs::read_to_string(folder.path().join("usage.toml")).expect("read");
    assert!(written.contains("name = \"usage\""), "{written}");
    piped(folder.path(), &arguments, CURL)
        .assert_code(2)
        .assert_stderr(&["usage.toml", "already", "-o"]);
    let again = std::fs::read_to_string(folder.path().join("usage.toml")).expect("read");
    assert_eq!(again, written);
}

#[test]
fn mistakes_name_the_input_the_line_and_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let import = |format: &str, input: &str| {
        piped(folder.path(), &["scenarios", "import", format, "-"], input)
    };
    import("curl", "curl -d").assert_code(2).assert_stderr(&[
        "the standard input",
        "line 1",
        "-d",
        "fix",
    ]);
    import("har", "{}\n")
        .assert_code(2)
        .assert_stderr(&["line 1", "log", "fix"]);
    import("openapi", "a: b")
        .assert_code(2)
        .assert_stderr(&["#/openapi", "3.1", "fix"]);
    call(folder.path(), ["scenarios", "import", "curl", "none.sh"])
        .assert_code(2)
        .assert_stderr(&["none.sh", "can't be read"]);
    call(folder.path(), ["scenarios", "import", "wsdl", "a"])
        .assert_code(2)
        .assert_stderr(&["wsdl", "curl", "openapi"]);
    call(folder.path(), ["scenarios", "import", "curl", "a", "--all"])
        .assert_code(2)
        .assert_stderr(&["--all", "har"]);
}
