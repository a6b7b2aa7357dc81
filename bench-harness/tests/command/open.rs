//! `run` and `ab` with an open load: counts, conflicts, and saturation as a result.

use std::path::Path;

use serde_json::Value;
use unstall_results::record::RunRecord;
use unstall_results::saturation::is_saturated;
use unstall_results::store;
use unstall_testbed::{ExactDelay, FaultyServer};

use crate::program::{Call, call, run_of_five_ms, write_scenario};

fn read(folder: &Path, name: &str) -> RunRecord {
    store::read(&folder.join(name)).expect("a readable record")
}

/// Measured; or, on a machine that starves the load generator, nothing but that said.
#[track_caller]
fn assert_measured_unless_too_busy(call: &Call) {
    if call.code == Some(3) {
        call.assert_stderr(&["go late"]);
    } else {
        call.assert_code(0);
    }
}

#[test]
fn a_run_at_two_rates_offers_exactly_what_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let call = run_of_five_ms(
        folder.path(),
        &[
            "--rate",
            "20,40.5",
            "--duration",
            "2s",
            "--arrivals",
            "constant",
            "--in-flight",
            "30",
            "--warmup",
            "0",
        ],
    );
    assert_measured_unless_too_busy(&call);
    let record = read(folder.path(), "r.json");
    assert_eq!(
        (record.load.model.as_str(), &record.load.levels[..]),
        ("open", &[20_000, 40_500][..])
    );
    let open = record.load.open.as_ref().expect("an open load");
    assert_eq!(
        (open.arrivals.as_str(), open.in_flight_max),
        ("constant", 30)
    );
    for (level, arrivals) in [(20_000, 40), (40_500, 81)] {
        let block = record.blocks.iter().find(|block| block.level == level);
        let block = block.expect("a block of that rate");
        assert_eq!((block.offered, block.completed), (arrivals, arrivals));
        let open = block.open.as_ref().expect("an open block");
        assert_eq!(
            (open.arrivals, open.queued_at_end, open.duration_ms),
            (arrivals, 0, 2_000)
        );
        assert!(block.wall_ns >= 2_000_000_000);
    }
    let floor = record
        .floor
        .as_ref()
        .expect("what this machine can measure");
    assert!(floor.response_us_p50 > 0 && floor.requests_per_second > 0.0);
    if call.code == Some(0) {
        let document = call.document();
        let measured = &document["runs"][0]["measured"];
        let rates: Vec<&Value> = measured
            .as_array()
            .expect("a list")
            .iter()
            .map(|of| &of["arrivals_per_second"])
            .collect();
        assert_eq!(rates, [20.0, 20.0, 40.5, 40.5]);
        assert_eq!(measured[0]["level"], Value::Null);
    }
}

#[test]
fn a_scenarios_stages_are_followed_and_closed_users_win_over_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ExactDelay::start().expect("a server");
    let file = write_scenario(folder.path(), "staged", "/delay/1");
    let text = std::fs::read_to_string(&file).expect("readable");
    let load = "[load]\nopen = { arrivals = \"poisson\", stages = [{ rate = 20, for = \"1s\" }, \
                { rate = 60, for = \"1s\" }] }\n";
    std::fs::write(&file, format!("{text}{load}")).expect("writable");
    let url = server.url();
    let run = |out: &str, more: &[&str]| {
        let mut command = crate::program::unstall(folder.path());
        command.args([
            "run",
            "staged.toml",
            "--warmup",
            "0",
            "--target",
            &url,
            "--out",
            out,
        ]);
        Call::of(command.args(more).output().expect("unstall starts"))
    };
    assert_measured_unless_too_busy(&run("open.json", &[]));
    let record = read(folder.path(), "open.json");
    assert_eq!(record.load.levels, [40_000]);
    assert_eq!(record.blocks[0].offered, 80);
    let stages = &record.load.open.as_ref().expect("an open load").stages;
    assert_eq!(stages[1].rate_per_second, Some(60.0));
    // The second stage has three times as many.
    let offered: Vec<u64> = record.blocks[0]
        .series
        .iter()
        .map(|second| second.offered)
        .collect();
    assert_eq!(
        offered.iter().take(2).copied().collect::<Vec<_>>(),
        [20, 60]
    );

    run("closed.json", &["-c", "2", "--requests", "10"]).assert_code(0);
    assert_eq!(read(folder.path(), "closed.json").load.model, "closed");

    // Beside a closed load, the open one is for those who ask for it.
    let both = format!("{text}{load}closed = {{ concurrency = [2], requests = 10 }}\n");
    std::fs::write(&file, both).expect("writable");
    run("usual.json", &[]).assert_code(0);
    let usual = read(folder.path(), "usual.json");
    assert_eq!(
        (usual.load.model.as_str(), &usual.load.levels[..]),
        ("closed", &[2][..])
    );
    assert_measured_unless_too_busy(&run("asked.json", &["--open"]));
    let asked = read(folder.path(), "asked.json");
    assert_eq!(
        (asked.load.model.as_str(), &asked.load.levels[..]),
        ("open", &[40_000][..])
    );
}

/// 2 users of 20 ms each can do 100 per second: 300 are too many for the slow version, and
/// nothing for the fast one.
#[test]
fn a_version_that_can_not_keep_up_is_a_regression() {
    let folder = tempfile::tempdir().expect("a folder");
    let [fast, slow] = [(), ()].map(|()| ExactDelay::start().expect("a server"));
    // The same scenario for both: what stands before it makes it another route.
    write_scenario(folder.path(), "both", "/20");
    let call = call(
        folder.path(),
        [
            "ab",
            "both.toml",
            "--before",
            &format!("{}/one-in/1000000", fast.url()),
            "--after",
            &format!("{}/delay", slow.url()),
            "--rate",
            "300",
            "--duration",
            "1s",
            "--in-flight",
            "2",
            "--pairs",
            "5",
            "--warmup",
            "0",
            "--out",
            "ab.json",
            "--json",
        ],
    );
    let record = read(folder.path(), "ab.json");
    assert_eq!(record.load.requests_per_endpoint, 300);
    for block in &record.blocks {
        assert_eq!(
            block.offered, 300,
            "equal counts, whatever the version does"
        );
        let open = block.open.as_ref().expect("an open block");
        if block.arm == "after" {
            assert!(is_saturated(open), "{open:?}");
        }
    }
    let document = call.document();
    let comparison = &document["comparisons"][0];
    match call.code {
        // On a machine that starves the generator, or lets the fast version fall behind.
        Some(3) => assert!(
            comparison["faults"].to_string().contains("late"),
            "{document:#}"
        ),
        Some(4) => assert_eq!(comparison["saturation"][0]["before"], true),
        _ => {
            call.assert_code(1);
            assert_eq!(comparison["saturation"][0]["after"], true);
            let headline = comparison["headline"].as_str().expect("a sentence");
            assert!(
                headline.contains("can't keep up with 300 arrivals"),
                "{headline}"
            );
        }
    }
}

#[test]
fn what_conflicts_is_said_before_anything_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = FaultyServer::start(unstall_testbed::Behaviour::Paths).expect("a server");
    write_scenario(folder.path(), "ok", "/ok");
    let url = server.url();
    for (more, words) in [
        (
            &["--rate", "5", "-c", "3"][..],
            &["--rate", "--concurrency"][..],
        ),
        (
            &["--rate", "5", "--requests", "3"],
            &["--rate", "--requests"],
        ),
        (&["--rate", "5", "--rounds", "3"], &["--rate", "--rounds"]),
        (&["--arrivals", "constant"], &["--arrivals", "give --rate"]),
        (&["--in-flight", "5"], &["--in-flight", "give --rate"]),
        (&["--open"], &["--open", "`ok` has no open load", "--rate"]),
        (&["--open", "--rate", "5"], &["--open", "--rate"]),
        (&["--open", "-c", "5"], &["--open", "--concurrency"]),
        (&["--open", "--rounds", "3"], &["--open", "--rounds"]),
        (&["--rate", "0"], &["between 0.001 and 1000000"]),
        (&["--rate", "5,5"], &["named twice"]),
        (
            &["--rate", "0.01", "--duration", "1s"],
            &["makes no arrival"],
        ),
    ] {
        let mut command = crate::program::unstall(folder.path());
        command
            .args(["run", "ok.toml", "--target", &url])
            .args(more);
        let call = Call::of(command.output().expect("unstall starts"));
        call.assert_code(2).assert_stderr(words);
    }
    assert_eq!(server.requests(), 0);
}

/// CASES 9: a limit of this machine ends the run with the number that it takes.
#[test]
fn too_few_descriptors_are_said_before_anything_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = FaultyServer::start(unstall_testbed::Behaviour::Paths).expect("a server");
    write_scenario(folder.path(), "ok", "/ok");
    let program = env!("CARGO_BIN_EXE_unstall");
    let line = format!(
        "ulimit -n 256 && exec '{program}' run ok.toml --target {} --rate 5 --duration 1s --in-flight 500",
        server.url()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder.path())
        .output()
        .expect("a shell");
    Call::of(output).assert_code(2).assert_stderr(&[
        "need 628 descriptors",
        "may have 256",
        "--in-flight",
    ]);
    assert_eq!(server.requests(), 0);
}

/// Every user has a connection to each service of the scenario, and a Unix socket takes no port.
#[test]
fn limits_are_those_of_all_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = FaultyServer::start(unstall_testbed::Behaviour::Paths).expect("a server");
    let text = format!(
        "name = \"two\"\ndescribe = \"two\"\n[hosts]\nother = \"http://localhost:{}\"\n\
         [[request]]\nname = \"a\"\nmethod = \"GET\"\npath = \"/ok\"\n\
         [[request]]\nname = \"b\"\nhost = \"other\"\nmethod = \"GET\"\npath = \"/ok\"\n",
        server.addr().port()
    );
    std::fs::write(folder.path().join("two.toml"), text).expect("written");
    let program = env!("CARGO_BIN_EXE_unstall");
    write_scenario(folder.path(), "one", "/ok");
    let run = |limit: &str, scenario: &str, target: &str, users: u32| {
        let line = format!(
            "ulimit {limit} && exec '{program}' run {scenario}.toml --target {target} -c {users} \
             --requests {users} --warmup 0 --out out.json --force --json"
        );
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line]).current_dir(folder.path());
        Call::of(command.output().expect("a shell"))
    };
    run("-n 300", "two", &server.url(), 160)
        .assert_code(2)
        .assert_stderr(&["need 448 descriptors", "may have 300"]);
    assert_eq!(server.requests(), 0);
    // The soft limit is raised as far as it takes.
    let call = run("-Sn 300", "two", &server.url(), 160);
    let record = unstall_results::store::read(&folder.path().join("out.json")).expect("a record");
    let block = record.blocks.last().expect("a block");
    assert_eq!(
        (
            block.completed,
            block
                .validity
                .reasons
                .iter()
                .any(|why| why.contains("descriptor"))
        ),
        (320, false),
        "{call:#?}"
    );
    let call = run("-Sn 300", "one", "unix:none.sock", 40_000);
    call.assert_code(2);
    assert!(!call.stderr.contains("ports"), "{call:#?}");
}
