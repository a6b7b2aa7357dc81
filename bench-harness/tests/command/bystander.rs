//! A scenario that names a route for bystanders: it is probed in `run` and `ab`, or in neither
//! version.

use std::path::Path;

use crate::program::{Call, call, unstall, write_scenario};
use unstall_results::record::RunRecord;
use unstall_results::store;
use unstall_testbed::{Behaviour, FaultyServer};

/// One GET of `/slow/20`, with a probe of `route`.
fn write_probed(folder: &Path, route: &str) {
    let scenario = write_scenario(folder, "probed", "/slow/20");
    let text = std::fs::read_to_string(&scenario).expect("readable");
    let text = format!("{text}\n[probe]\npath = \"{route}\"\n");
    std::fs::write(&scenario, text).expect("writable");
}

fn read(folder: &Path) -> RunRecord {
    store::read(&folder.join("r.json")).expect("a readable record")
}

fn ab(folder: &Path, before: &str, after: &str) -> Call {
    let output = unstall(folder)
        .args(["ab", "probed.toml", "--before", before, "--after", after])
        .args(["--pairs", "5", "-c", "2", "--requests", "60"])
        .args(["--warmup", "1", "--out", "r.json", "--seed", "7", "--json"])
        .output();
    Call::of(output.expect("unstall starts"))
}

#[test]
fn a_run_tells_what_others_waited() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = FaultyServer::start(Behaviour::Paths).expect("a server");
    write_probed(folder.path(), "/health");
    let url = server.url();
    let arguments = ["run", "probed.toml", "--target", &url, "-c", "2"];
    let more = ["--requests", "60", "--out", "r.json", "--json"];
    let output = unstall(folder.path()).args(arguments).args(more).output();
    let call = Call::of(output.expect("unstall starts"));
    call.assert_code(0);
    let document = call.document();
    let [bystander] = &document["runs"][0]["bystanders"]
        .as_array()
        .expect("a list")[..]
    else {
        panic!("one level: {document:#}");
    };
    assert_eq!(bystander["path"], "/health");
    assert_eq!(bystander["rate_per_second"], 50.0);
    // 60 requests of 20 ms over 2 users take 600 ms at least.
    let due = bystander["requests"].as_u64().expect("a count");
    assert!(due >= 30, "{bystander:#}");
    assert!(
        bystander["p50_ms"]["value"].as_f64().is_some(),
        "{bystander:#}"
    );
    let record = read(folder.path());
    assert_eq!(record.load.probe.expect("as planned").path, "/health");
    assert_eq!(
        record.blocks[0].offered, 60,
        "the probe is in no count of the load"
    );
    let text = call_text(folder.path());
    assert!(text.contains("Others, GET /health: p50"), "{text}");
}

/// What a person reads about the record.
fn call_text(folder: &Path) -> String {
    call(folder, ["report", "r.json", "-o", "r.html"]).assert_code(0);
    let page = std::fs::read_to_string(folder.join("r.html")).expect("a page");
    assert!(page.contains("What others felt"), "{page}");
    let record = read(folder);
    let entry = unstall_reports::Entry {
        record: &record,
        comparison: None,
    };
    let report = unstall_reports::Report {
        title: String::new(),
        generated_utc: String::new(),
        command: String::new(),
        certificate: None,
        last_state: None,
        left_open: None,
        entries: vec![entry],
    };
    unstall_reports::terminal::render(&report, unstall_reports::terminal::Style::default())
}

#[test]
fn a_comparison_shows_others_and_does_not_judge_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = FaultyServer::start(Behaviour::Paths).expect("a server");
    write_probed(folder.path(), "/health");
    let call = ab(folder.path(), &server.url(), &server.url());
    assert_ne!(call.code, Some(2), "{call:#?}");
    let document = call.document();
    let comparison = &document["comparisons"][0];
    let mut cells = comparison["cells"].as_array().expect("cells").iter();
    let cell = cells
        .find(|cell| cell["metric"] == "probe_p90")
        .expect("a cell");
    assert_eq!(cell["judged"], false);
    assert_eq!(cell["endpoint"], serde_json::Value::Null);
    let arms: Vec<&serde_json::Value> = comparison["bystanders"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|bystander| &bystander["arm"])
        .collect();
    assert_eq!(arms, ["before", "after"]);
}

#[test]
fn a_version_without_the_route_spoils_nothing_and_neither_version_is_probed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = FaultyServer::start(Behaviour::Paths).expect("a server");
    // The first look at it is good, whichever version that is; each later one is not.
    write_probed(folder.path(), "/after/1/404");
    let call = ab(folder.path(), &server.url(), &server.url());
    assert_ne!(call.code, Some(2), "{call:#?}");
    call.assert_stderr(&[
        "no bystander probe: its route /after/1/404 can't be used (it answers 404)",
        "[probe]",
    ]);
    let record = read(folder.path());
    assert_eq!(record.load.probe, None);
    assert_eq!(
        record.blocks.iter().filter(|b| b.probe.is_some()).count(),
        0
    );
    assert!(record.blocks.iter().all(|block| block.completed == 60));
    let told = record.blocks.iter().filter(|block| {
        let mut reasons = block.validity.reasons.iter();
        reasons.any(|reason| reason.contains("no bystander probe"))
    });
    assert_eq!(told.count(), 1);
}
