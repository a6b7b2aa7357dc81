//! Ctrl-C, TERM and kill -9 in the middle of a measurement: nothing measured is lost, and
//! nothing started is left behind.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::program::{Call, tiny_service, unstall, write_scenario};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use unstall_results::record::RunRecord;
use unstall_results::store;

/// A session of many short blocks, each with a process of its own.
fn start(folder: &Path, extra: &[&str]) -> Child {
    write_scenario(folder, "try", "/x");
    let service = format!("{} --delay-ms 1", tiny_service().display());
    unstall(folder)
        .args(["ab", "try.toml", "--before", &service, "--after", &service])
        .args([
            "--pairs",
            "200",
            "-c",
            "2",
            "--requests",
            "40",
            "--warmup",
            "0",
        ])
        .args(["--out", "r.json"])
        .args(extra)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).expect("a process id");
    kill(Pid::from_raw(pid), signal).expect("the process is there");
}

/// Waits for something that must come; the bound only keeps a broken program from hanging.
fn wait_until(what: &str, mut came: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !came() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{what} did not come"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn blocks(folder: &Path) -> usize {
    let path = folder.join("r.json");
    if !path.exists() {
        return 0;
    }
    store::read(&path)
        .expect("readable at any moment")
        .blocks
        .len()
}

/// Processes of our service that belong to a test's folder, by their working directory.
fn services(folder: &Path) -> usize {
    let folder = folder.canonicalize().expect("the folder");
    let processes = std::fs::read_dir("/proc").expect("Linux");
    processes
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|process| {
            process
                .join("cwd")
                .read_link()
                .is_ok_and(|cwd| cwd == folder)
        })
        .filter(|process| {
            let exe = process.join("exe").read_link();
            exe.is_ok_and(|exe| exe.ends_with("examples/tiny_service"))
        })
        .count()
}

fn read(folder: &Path) -> RunRecord {
    store::read(&folder.join("r.json")).expect("a readable record")
}

#[test]
fn one_interrupt_saves_and_reports() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = tempfile::tempdir().expect("a folder");
        let child = start(folder.path(), &["--json"]);
        // Enough pairs to judge, far from all.
        wait_until("the sixth pair", || blocks(folder.path()) >= 12);
        send(&child, signal);
        let call = Call::of(child.wait_with_output().expect("ends"));
        let document = call.document();
        // A part of a measurement never passes.
        assert!(matches!(call.code, Some(1 | 3 | 4)), "{call:#?}");
        assert_eq!(
            document["comparisons"].as_array().map(Vec::len),
            Some(1),
            "{document:#}"
        );
        let record = read(folder.path());
        assert!(record.interrupted);
        assert!(record.blocks.len() >= 12);
        wait_until("the end of the services", || services(folder.path()) == 0);
    }
}

#[test]
fn an_interrupt_before_there_is_anything_to_judge_is_inconclusive() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = start(folder.path(), &["--json"]);
    wait_until("the first block", || blocks(folder.path()) >= 1);
    send(&child, Signal::SIGINT);
    let call = Call::of(child.wait_with_output().expect("ends"));
    let document = call.document();
    // One block or a few, but never the five pairs that a verdict takes.
    assert_ne!(document["verdict"], "pass", "{call:#?}");
    // 3 where a busy machine has made the generator late.
    assert!(matches!(call.code, Some(3 | 4)), "{call:#?}");
    assert!(read(folder.path()).interrupted);
    assert!(
        document["notes"].to_string().contains("r.json"),
        "{document:#}"
    );
}

#[test]
fn two_interrupts_end_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = start(folder.path(), &[]);
    wait_until("the first block", || blocks(folder.path()) >= 1);
    send(&child, Signal::SIGINT);
    send(&child, Signal::SIGINT);
    let call = Call::of(child.wait_with_output().expect("ends"));
    assert!(call.code.is_some(), "{call:#?}");
    assert!(read(folder.path()).interrupted);
}

#[test]
fn a_kill_at_any_moment_leaves_a_readable_record_and_no_service() {
    for turn in 0..12_u64 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = start(folder.path(), &[]);
        wait_until("the record", || folder.path().join("r.json").exists());
        // Spread over some blocks: in the load, in the save, in a start, in a stop.
        std::thread::sleep(Duration::from_millis(turn * 83 % 700));
        send(&child, Signal::SIGKILL);
        child.wait().expect("killed");
        let record = read(folder.path());
        assert!(
            record.interrupted,
            "the file says that there should have been more"
        );
        assert!(
            record
                .blocks
                .iter()
                .all(|block| block.offered >= block.completed)
        );
        wait_until("the end of the services", || services(folder.path()) == 0);
    }
}

#[test]
fn a_search_that_is_stopped_keeps_whole_blocks_only() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "try", "/x");
    let service = format!("{} --delay-ms 1", tiny_service().display());
    let child = unstall(folder.path())
        .args([
            "capacity", "try.toml", "--before", &service, "--after", &service,
        ])
        .args([
            "--slo", "p95<10s", "--from", "20", "--block", "2s", "--warmup", "0",
        ])
        .args(["--out", "r.json", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    wait_until("the first block", || blocks(folder.path()) >= 1);
    send(&child, Signal::SIGINT);
    let call = Call::of(child.wait_with_output().expect("ends"));
    // Stopped is not judged, whatever the blocks so far look like.
    call.assert_code(4);
    assert_eq!(call.document()["verdict"], "inconclusive");
    let record = read(folder.path());
    assert!(record.interrupted);
    for block in &record.blocks {
        let open = block.open.as_ref().expect("an open block");
        assert_eq!(open.arrivals, open.begun + open.queued_at_end);
        assert!(block.wall_ns >= 1_500_000_000, "{}", block.wall_ns);
    }
}
