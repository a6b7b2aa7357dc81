//! `run --watch` and `ab --watch`: what a watch saw beside the load is in the record and in every
//! report.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use unstall_results::record::{RunRecord, Watched};
use unstall_results::store;

use crate::program::{built, python};

/// A server on asyncio that sleeps in each request: on the loop's own thread, or awaited.
const SERVICE: &str = r#"import asyncio, os, sys, time
async def serve(reader, writer):
    while await reader.readline():
        while (await reader.readline()).strip():
            pass
        if sys.argv[1] == "blocking":
            time.sleep(0.003)
        else:
            await asyncio.sleep(0.003)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(os.environ["UNSTALL_PORT"]))
    await server.serve_forever()
asyncio.run(main())
"#;

const SCENARIO: &str = "name = \"one\"\ndescribe = \"One GET\"\n\n[[request]]\nname = \"GET it\"\n\
    method = \"GET\"\npath = \"/\"\n[request.expect]\nstatus = 200\n";

fn unstall(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstall"));
    command.current_dir(folder).args(arguments);
    let output = command.stdin(Stdio::null()).output();
    output.expect("unstall starts")
}

fn watches<'r>(record: &'r RunRecord, arm: &str) -> Vec<&'r Watched> {
    let blocks = record.blocks.iter().filter(|block| block.arm == arm);
    let watches = blocks.map(|block| block.watch.as_ref());
    watches
        .map(|watch| watch.expect("every block was watched"))
        .collect()
}

#[test]
fn what_kept_the_loop_before_and_not_after_is_in_the_record_and_in_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("service.py"), SERVICE).expect("writable");
    fs::write(folder.path().join("one.toml"), SCENARIO).expect("writable");
    let python = python().display().to_string();
    let version = |name: &str| format!("'{python}' -B service.py {name}");
    let output = unstall(
        folder.path(),
        &[
            "ab",
            "one.toml",
            "--watch",
            "--before",
            &version("blocking"),
            "--after",
            &version("awaiting"),
            "--pairs",
            "5",
            "--requests",
            "60",
            "-c",
            "3",
            "--warmup",
            "1",
            "--out",
            "r.json",
        ],
    );
    let said = String::from_utf8_lossy(&output.stderr);
    // So few requests judge nothing, and a busy machine may spoil them: the watch is what counts.
    assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{said}");
    let record = store::read(&folder.path().join("r.json")).expect("a record");
    for watch in watches(&record, "before") {
        assert_eq!((watch.runtime.as_str(), watch.loops), ("asyncio", 1));
        // Each of at least 60 requests slept for 3 ms; what is only looked for is sampled.
        assert!(watch.blocked_us >= 60 * 3_000 / 2, "{watch:#?}");
        let slept = |line: &str| line.contains("serve at") && line.ends_with("service.py:7");
        let mut sleeps = watch.causes.iter().filter(|cause| cause.class == "sleep");
        assert!(
            sleeps.any(|cause| cause.line.as_deref().is_some_and(slept) && cause.is_blocking),
            "{watch:#?}"
        );
    }
    for watch in watches(&record, "after") {
        assert_eq!((watch.blocked_us, watch.loops), (0, 1), "{watch:#?}");
    }
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        shown.contains("Watched loop") && shown.contains("service.py"),
        "{shown}"
    );
    unstall(folder.path(), &["report", "r.json", "-o", "r.html"]);
    let page = fs::read_to_string(folder.path().join("r.html")).expect("the report");
    assert!(page.contains("What the loop waited for") && page.contains("service.py:7"));
}

#[test]
fn a_service_without_a_loop_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("one.toml"), SCENARIO).expect("writable");
    let threads = built("examples/tiny_service", "cargo test without --test");
    let version = format!("{} --delay-ms 1", threads.display());
    let versions = ["--before", &version, "--after", &version];
    let output = unstall(
        folder.path(),
        &[
            &["ab", "one.toml", "--watch", "--requests", "40", "-c", "2"],
            &versions[..],
        ]
        .concat(),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--watch: no event loop was seen"), "{said}");
}
