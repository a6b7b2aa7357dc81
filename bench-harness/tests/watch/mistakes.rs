//! What a user is told when a process can't be watched, or ends meanwhile.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::program::{Service, python, watch, watch_command, watch_while};

const IDLE_LOOP: &str = "import asyncio; asyncio.run(asyncio.sleep(100))";

#[test]
fn a_process_that_is_not_there_is_said_so() {
    let mut gone = Command::new("true").spawn().expect("starts");
    gone.wait().expect("ends");
    let output = watch_command(gone.id()).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains(&format!("process {} doesn't run", gone.id())),
        "{said}"
    );
}

#[test]
fn a_process_without_a_loop_is_said_to_have_none() {
    let service = Service::start(Command::new("sleep").arg("100"));
    let output = watch_command(service.pid()).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in [
        "no event loop was seen",
        "sleep 100",
        "in 5 s",
        "supervisor",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}

#[test]
fn a_process_that_ends_leaves_what_was_seen() {
    let service = Service::start(Command::new(python()).args(["-c", IDLE_LOOP]));
    let summary = watch_while(service.pid(), || {
        thread::sleep(Duration::from_secs(1));
        drop(service);
        thread::sleep(Duration::from_secs(2));
    });
    let notes = &summary.notes;
    assert!(
        notes.iter().any(|note| note.contains("The process ended")),
        "{notes:?}"
    );
    assert_eq!(summary.causes, []);
}

#[test]
fn a_number_that_is_no_process_and_a_name_without_address_are_refused() {
    for (arguments, words) in [
        (["--pid", "0"], "0"),
        (["--pid", "uvicorn"], "uvicorn"),
        (["--name", "redis"], "127.0.0.1:6379=sessions"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstall"));
        let output = command
            .arg("watch")
            .args(arguments)
            .output()
            .expect("starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_program_that_takes_another_one_s_place_is_watched_once_it_runs_a_loop() {
    let script = format!("sleep 1; exec {} -c '{IDLE_LOOP}'", python().display());
    let service = Service::start(Command::new("bash").args(["-c", &script]));
    let summary = watch(service.pid(), 2);
    assert_eq!(summary.runtime, "asyncio");
    assert!(summary.command.contains("asyncio.run"), "{summary:?}");
    assert_eq!(summary.loops.len(), 1, "{summary:?}");
}

#[test]
fn a_loop_whose_process_becomes_another_program_ends_the_watch() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = folder.path().join("told");
    let becomes = format!(
        "import asyncio, os\n\
         async def main():\n    \
             while not os.path.exists('{}'):\n        \
                 await asyncio.sleep(0.05)\n    \
             os.execvp('sleep', ['sleep', '100'])\n\
         asyncio.run(main())",
        told.display()
    );
    let service = Service::start(Command::new(python()).args(["-c", &becomes]));
    let summary = watch_while(service.pid(), || {
        std::fs::write(&told, "").expect("written");
        thread::sleep(Duration::from_secs(4));
    });
    let notes = &summary.notes;
    assert!(
        notes.iter().any(|note| note.contains("another program")),
        "{notes:?}"
    );
}
