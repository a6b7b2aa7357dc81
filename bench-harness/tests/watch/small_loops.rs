//! One thing at a time, on small loops of Python: what is blocked, and what isn't.

use std::process::Command;
use std::time::{Duration, Instant};

use unstall_loop_monitor::cause::CauseClass;
use unstall_loop_monitor::outside::{Watch, WatchOptions};
use unstall_loop_monitor::watched::{SleepSource, WatchSummary};

use crate::program::{Service, assert_conserved, assert_named, python, watch};

/// Runs a body on a loop over and over, and watches it for 3 s.
fn watch_loop(kind: &str, prepare: &str, body: &str) -> WatchSummary {
    let run = match kind {
        "uvloop" => "import uvloop; run = uvloop.run",
        _ => "run = asyncio.run",
    };
    let script = format!(
        "import asyncio, os, select, socket, subprocess, threading, time\n{run}\n{prepare}\n\
         async def main():\n    while True:\n        {body}\n        await asyncio.sleep(0.01)\n\
         run(main())\n"
    );
    let service = Service::start(Command::new(python()).args(["-c", &script]));
    std::thread::sleep(Duration::from_secs(1));
    let summary = watch(service.pid(), 3);
    eprintln!("{body} on {kind}:\n{summary:#?}");
    assert_eq!(summary.runtime, kind);
    summary
}

#[test]
fn each_way_to_block_has_its_class_and_line() {
    let cases = [
        ("", "time.sleep(0.02)", CauseClass::Sleep),
        ("", "subprocess.run(['sleep', '0.05'])", CauseClass::Spawn),
        ("", "select.select([], [], [], 0.02)", CauseClass::Sleep),
        (
            "r, w = os.pipe()\ndef write():\n    while True: time.sleep(0.02); os.write(w, b'x')\n\
             threading.Thread(target=write, daemon=True).start()",
            "os.read(r, 1)",
            CauseClass::Io,
        ),
        (
            "lock = threading.Lock()\ndef hold():\n    while True:\n        with lock: time.sleep(0.03)\n\
             threading.Thread(target=hold, daemon=True).start()",
            "lock.acquire(); lock.release()",
            CauseClass::Lock,
        ),
    ];
    for (index, (prepare, body, class)) in cases.into_iter().enumerate() {
        let kind = if index % 2 == 0 { "asyncio" } else { "uvloop" };
        let summary = watch_loop(kind, prepare, body);
        let word = class.to_string();
        assert_named(&summary, &[&word, "main at <string>:"]);
        assert!(summary.loops[0].blocked_ns > 0 && summary.loops[0].idle_ns > 0);
    }
}

#[test]
fn a_wait_for_the_interpreter_or_for_events_is_not_blocked() {
    let spin =
        "def spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()";
    let summary = watch_loop("asyncio", spin, "sum(range(20000))");
    assert_eq!(summary.causes, [], "{:#?}", summary.notes);
    if summary.sleeps_by == SleepSource::Switches {
        assert!(summary.loops[0].gil_ns > 0);
    }
    let summary = watch_loop("uvloop", "", "await asyncio.to_thread(time.sleep, 0.02)");
    assert_eq!(summary.causes, [], "{:#?}", summary.notes);
}

/// Where the kernel tells nobody when a thread sleeps, looks find what lasts.
#[test]
fn without_the_kernel_s_word_looks_find_long_sleeps_and_say_what_they_miss() {
    let script = "import asyncio, time\nasync def main():\n    while True:\n        \
                  time.sleep(0.05)\n        await asyncio.sleep(0.05)\nasyncio.run(main())\n";
    let service = Service::start(Command::new(python()).args(["-c", script]));
    std::thread::sleep(Duration::from_secs(1));
    let options = WatchOptions {
        by_looks: true,
        ..WatchOptions::default()
    };
    let mut watch = Watch::attach(service.pid(), &options).expect("a loop");
    let until = Instant::now() + Duration::from_secs(3);
    let mut views = 0;
    let is_over = || Instant::now() >= until;
    let summary = watch.run(is_over, Duration::from_millis(500), |_| views += 1);
    eprintln!("{summary:#?}");
    assert!(views > 0);
    assert_eq!(summary.sleeps_by, SleepSource::Looks);
    assert_named(
        &summary,
        &["sleep in clock_nanosleep", "main at <string>:4"],
    );
    assert_conserved(&summary);
    assert!(summary.loops[0].idle_ns > 0 && summary.loops[0].blocked_ns > 0);
    let told = |note: &String| note.contains("kernel.perf_event_paranoid");
    assert!(summary.notes.iter().any(told), "{:?}", summary.notes);
}
