//! Forms as a real framework reads them: what `unstall run` sends is parsed by Starlette to the
//! fields and files that the scenario names.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Starlette behind uvicorn, until it is dropped.
struct Service {
    process: Child,
    said: BufReader<ChildStdout>,
    url: String,
}

/// The Python environment that `./dev` makes.
fn python() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_unstall")).ancestors();
    beside
        .map(|folder| folder.join("python/bin/python"))
        .find(|python| python.exists())
        .expect("python/bin/python is missing in the target folder; run ./dev setup")
}

impl Service {
    fn start() -> Self {
        let mut process = Command::new(python())
            .arg("-B")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms/parsed.py"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let mut said = BufReader::new(process.stdout.take().expect("piped"));
        let mut port = String::new();
        said.read_line(&mut port).expect("its port");
        Self {
            process,
            said,
            url: format!("http://127.0.0.1:{}", port.trim()),
        }
    }

    /// Sends one form, and gives what has become of it.
    fn parsed(&mut self, folder: &Path, form: &str) -> Value {
        let text = format!(
            "name = \"forms\"\ndescribe = \"One form\"\n[[request]]\nname = \"it\"\n\
             method = \"POST\"\npath = \"/form\"\n{form}\nexpect = {{ status = 200 }}\n"
        );
        fs::write(folder.join("forms.toml"), text).expect("writable");
        let output = Command::new(env!("CARGO_BIN_EXE_unstall"))
            .current_dir(folder)
            .args(["run", "forms.toml", "--target", &self.url, "-c", "1"])
            .args([
                "--requests",
                "1",
                "--warmup",
                "0",
                "--out",
                "forms.json",
                "--force",
            ])
            .output()
            .expect("unstall starts");
        let mut line = String::new();
        self.said.read_line(&mut line).expect("what it parsed");
        let parsed = serde_json::from_str(&line);
        parsed.unwrap_or_else(|error| panic!("{error}: {line}: {output:?}"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has seen.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(name: &str, text: &str) -> Value {
    json!({ "name": name, "text": text })
}

#[test]
fn a_form_is_parsed_to_its_fields() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut service = Service::start();
    let form = r#"form = { plain = "a value", "na&me=" = "1 + 1 = 2 & 100 %", "größe" = "naïve ☃ 🦀", lines = "a\r\nb\nc", empty = "", many = ["x", "y"], quote = "\"'" }"#;
    let expected = json!([
        text("plain", "a value"),
        text("na&me=", "1 + 1 = 2 & 100 %"),
        text("größe", "naïve ☃ 🦀"),
        text("lines", "a\r\nb\nc"),
        text("empty", ""),
        text("many", "x"),
        text("many", "y"),
        text("quote", "\"'"),
    ]);
    assert_eq!(service.parsed(folder.path(), form), expected);
}

/// Names are written as browsers write them (the HTML standard, "multipart/form-data encoding
/// algorithm"): quotes and line ends by percent signs, which Starlette leaves as they are, so
/// that a service meets the same names from both.
#[test]
fn a_multipart_form_is_parsed_to_its_fields_and_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes: Vec<u8> = (0..=255).chain(*b"\r\n--unstall-boundary-0\r\n").collect();
    fs::write(folder.path().join("bytes"), &bytes).expect("writable");
    fs::write(folder.path().join("nothing"), "").expect("writable");
    let mut service = Service::start();
    let form = r#"multipart = { plain = "a value", "größe ☃" = "naïve 🦀", "a \"quoted\" name" = "1", "two\nlines" = "a\r\nb\nc", empty = "", many = ["x", "y"], upload = { file = "bytes", filename = "grüße \"1\".bin", content_type = "application/octet-stream" }, hollow = { file = "nothing", filename = "nothing.txt", content_type = "text/plain" }, meta = { text = '{"w": 1}', content_type = "application/json" } }"#;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let file = |name: &str, file: &str, kind: &str, hex: &str| json!({ "name": name, "file": file, "type": kind, "hex": hex });
    let expected = json!([
        text("plain", "a value"),
        text("größe ☃", "naïve 🦀"),
        text("a %22quoted%22 name", "1"),
        text("two%0Alines", "a\r\nb\nc"),
        text("empty", ""),
        text("many", "x"),
        text("many", "y"),
        file(
            "upload",
            "grüße %221%22.bin",
            "application/octet-stream",
            &hex
        ),
        file("hollow", "nothing.txt", "text/plain", ""),
        text("meta", "{\"w\": 1}"),
    ]);
    assert_eq!(service.parsed(folder.path(), form), expected);
}
