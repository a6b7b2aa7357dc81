//! A Python without the interpreter lock is refused in words. None may be installed, so a program
//! stands in for one: it has such a one's name, and the head of its state.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(
    clippy::disallowed_methods,
    reason = "a program is built and waited for, and no loop is held"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use unstall_loop_monitor::outside::tracer::{TraceError, TraceOptions, Tracer};

/// `struct _Py_DebugOffsets` begins so.
const STANDS_IN: &str = r#"
#[repr(C)]
pub struct Head { cookie: [u8; 8], version: u64, free_threaded: u64 }
#[unsafe(no_mangle)]
#[used]
pub static mut _PyRuntime: Head =
    Head { cookie: *b"xdebugpy", version: 0x030d00f0, free_threaded: 1 };
fn main() {
    println!("runs");
    std::thread::sleep(std::time::Duration::from_secs(60));
}
"#;

struct StandIn(Child);

impl Drop for StandIn {
    fn drop(&mut self) {
        // It sleeps longer than the test.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_python_without_its_lock_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (
        folder.path().join("it.rs"),
        folder.path().join("python3.13t"),
    );
    std::fs::write(&source, STANDS_IN).expect("written");
    // Whoever runs this by Cargo has one.
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command
        .args(["--edition", "2024", "-o"])
        .arg(&program)
        .arg(&source);
    let built = command.status().expect("rustc starts");
    assert!(built.success());
    let mut started = Command::new(&program);
    let started = started.stdout(Stdio::piped()).spawn();
    let mut child = StandIn(started.expect("it starts"));
    // Until then it may not be that program yet, or not be mapped whole.
    let stdout = child.0.stdout.take().expect("a pipe");
    let mut said = String::new();
    let read = BufReader::new(stdout).read_line(&mut said);
    assert!(read.is_ok() && said == "runs\n", "{read:?} {said}");
    let traced = Tracer::attach(child.0.id(), TraceOptions::default(), Box::new(|_| {}));
    let error = traced.expect_err("nothing of it can be read");
    assert!(matches!(error, TraceError::Python { .. }), "{error}");
    let said = error.to_string();
    for words in ["free-threaded", "ordinary build", "is a Python"] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}
